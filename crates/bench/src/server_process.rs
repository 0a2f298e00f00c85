//! Other servers' processes, and what processes and the machine have used of the CPU.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(10);
/// From one look whether it does to the next.
const LOOK: Duration = Duration::from_millis(10);

/// Why a server's process does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no place for what the process says.
    #[error("creating {}: {error}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The program can't be started.
    #[error("{name}: {error}")]
    Start {
        /// The program.
        name: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The process has ended.
    #[error("{name} ended ({status}): {said}")]
    Ended {
        /// The program.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The last line that it said.
        said: String,
    },
    /// The process does not listen in time.
    #[error("{name} does not listen after {START:?}: {said}")]
    Silent {
        /// The program.
        name: String,
        /// The last line that it said.
        said: String,
    },
}

/// A server that runs until this is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a server and returns once it listens at the socket; `None` if the program is not
    /// installed. Its output on standard error lies beside the socket.
    ///
    /// # Errors
    /// If it can't be started, ends, or doesn't listen in time; with the last line that it said.
    pub(crate) fn start(
        command: &mut Command,
        socket: &Path,
    ) -> Result<Option<Self>, ProcessError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let path = socket.with_extension("log");
        let errors = match File::create(&path) {
            Ok(errors) => errors,
            Err(error) => return Err(ProcessError::Log { path, error }),
        };
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        let mut process = match spawned {
            Ok(child) => Self(child),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ProcessError::Start { name, error }),
        };
        let until = now() + START;
        while UnixStream::connect(socket).is_err() {
            match process.0.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return Err(ProcessError::Ended { name, status, said: last_line(&path) });
                }
                Err(error) => return Err(ProcessError::Start { name, error }),
            }
            if now() > until {
                return Err(ProcessError::Silent { name, said: last_line(&path) });
            }
            sleep(LOOK);
        }
        Ok(Some(process))
    }

    /// Its name in the system.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn last_line(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing").trim().to_owned()
}

/// CPU seconds that a process has used, from its line in proc.
///
/// # Errors
/// If the process is gone, or the line is none.
pub fn process_cpu(process: &str) -> std::io::Result<f64> {
    fields_of(process, 2)
}

/// The same, with those of its children that have ended and were waited for.
///
/// # Errors
/// As [`process_cpu`].
pub fn family_cpu(process: &str) -> std::io::Result<f64> {
    fields_of(process, 4)
}

fn fields_of(process: &str, fields: usize) -> std::io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may hold anything; user and system time are fields 14 and 15, and
    // those of children follow.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(fields).map(str::parse::<f64>);
    let ticks = ticks.sum::<Result<f64, _>>().map_err(std::io::Error::other)?;
    Ok(ticks / ticks_per_second())
}

/// CPU seconds of a machine since it started.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineCpu {
    /// Anyone on the machine has used so much.
    pub busy: f64,
    /// The machine's host has taken so much.
    pub stolen: f64,
}

/// CPU seconds that anyone has used on this machine, with those that its host has taken.
///
/// # Errors
/// If the system does not say.
pub fn machine_busy() -> std::io::Result<f64> {
    machine_cpu().map(|cpu| cpu.busy + cpu.stolen)
}

/// The same, apart.
///
/// # Errors
/// If the system does not say.
pub fn machine_cpu() -> std::io::Result<MachineCpu> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks = fields.map(str::parse::<f64>).collect::<Result<Vec<f64>, _>>();
    let ticks = ticks.map_err(std::io::Error::other)?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time already.
    let busy = ticks.iter().take(7).enumerate().filter(|(field, _)| !matches!(field, 3 | 4));
    let busy = busy.map(|(_, ticks)| ticks).sum::<f64>() / ticks_per_second();
    let stolen = ticks.get(7).copied().unwrap_or_default() / ticks_per_second();
    Ok(MachineCpu { busy, stolen })
}

/// The unit that proc counts in: USER_HZ is 100 on every architecture that Rust has.
fn ticks_per_second() -> f64 {
    100.0
}

#[expect(clippy::disallowed_methods, reason = "a server has so long to start")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when another program listens")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_ends_is_told_apart() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("none.sock");
        let missing = Process::start(&mut Command::new("no-such-program"), &socket);
        assert!(missing.expect("not an error").is_none());
        let mut shell = Command::new("sh");
        let ended = Process::start(shell.args(["-c", "echo why >&2; exit 3"]), &socket);
        let said = ended.err().expect("it has ended").to_string();
        assert!(said.contains("sh ended") && said.ends_with("3): why"), "{said}");
    }

    #[test]
    fn the_machine_has_used_at_least_what_this_process_has() {
        let own = process_cpu("self").expect("proc is there");
        assert!(own >= 0.0 && machine_busy().expect("proc is there") >= own);
        assert!(process_cpu("0").is_err());
    }
}
