//! Other servers' processes, and what processes and the machine have used of the CPU.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(10);
/// From one look whether it does to the next.
const LOOK: Duration = Duration::from_millis(10);

/// A server that runs until this is dropped.
pub(super) struct Process(Child);

impl Process {
    /// Starts a server and returns once it listens at the socket; `None` if the program is not
    /// installed. What it says on standard error lies beside the socket.
    ///
    /// # Errors
    /// If it can't be started, ends, or doesn't listen in time; with the last line that it said.
    pub(super) fn start(command: &mut Command, socket: &Path) -> anyhow::Result<Option<Self>> {
        let name = command.get_program().to_string_lossy().into_owned();
        let said = socket.with_extension("log");
        let errors = File::create(&said).with_context(|| format!("creating {}", said.display()))?;
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        let mut process = match spawned {
            Ok(child) => Self(child),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(name),
        };
        let until = now() + START;
        while UnixStream::connect(socket).is_err() {
            if let Some(status) = process.0.try_wait()? {
                bail!("{name} ended ({status}): {}", last_line(&said));
            }
            if now() > until {
                bail!("{name} does not listen after {START:?}: {}", last_line(&said));
            }
            sleep(LOOK);
        }
        Ok(Some(process))
    }

    /// Its name in the system.
    pub(super) fn id(&self) -> u32 {
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
pub(super) fn process_cpu(process: &str) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may hold anything; user and system time are fields 14 and 15.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / ticks_per_second())
}

/// CPU seconds that anyone has used on this machine.
pub(super) fn machine_busy() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks = fields.map(str::parse::<f64>).collect::<Result<Vec<f64>, _>>()?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time already.
    let busy = ticks.iter().take(8).enumerate().filter(|(field, _)| !matches!(field, 3 | 4));
    Ok(busy.map(|(_, ticks)| ticks).sum::<f64>() / ticks_per_second())
}

/// What proc counts in: USER_HZ is 100 on every architecture that Rust has.
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
