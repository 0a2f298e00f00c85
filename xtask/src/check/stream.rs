//! Runs a command, shows what it prints as it comes and keeps it for reading.

use std::io::{BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The exit codes of coreutils' `timeout` when it had to end its command, and when it had to kill
/// it.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Until when commands may run, if there is a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) fn new(at: Option<Instant>) -> Self {
        Self(at)
    }

    /// A command that ends, with its children, when the time is up.
    pub(super) fn command(self, program: &str) -> Command {
        match self.0 {
            Some(at) => timed(at.saturating_duration_since(super::now()), program),
            None => Command::new(program),
        }
    }
}

/// A command that ends, with its children, after `limit`.
pub(super) fn timed(limit: Duration, program: &str) -> Command {
    // For `timeout`, zero means without limit.
    let seconds = limit.as_secs().max(1).to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &seconds, program]);
    command
}

/// A command's output, on stdout and stderr in the order of printing, and how it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) lines: Vec<String>,
    /// Why it failed, if it did: its exit status, or that its time was up.
    pub(super) failure: Option<String>,
}

/// Runs `command` without input.
///
/// # Errors
/// When it can't be started or its output can't be passed on.
pub(super) fn stream(mut command: Command) -> Result<Ended> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    println!("$ {}", shown(&command));
    let mut child = command.spawn().with_context(|| format!("cannot run {}", shown(&command)))?;
    // `command` holds our writing ends: as long as they are open, the reader sees no end.
    drop(command);
    let lines = tee(BufReader::new(reader))?;
    let status = child.wait().context("cannot wait for a child")?;
    let failure = (!status.success()).then(|| match status.code() {
        Some(code) if TIMED_OUT.contains(&code) => "ended because its time was up".to_owned(),
        _ => format!("ended with {status}"),
    });
    Ok(Ended { lines, failure })
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn tee(mut reader: impl std::io::BufRead) -> Result<Vec<String>> {
    let (mut lines, mut bytes) = (Vec::new(), Vec::new());
    while reader.read_until(b'\n', &mut bytes).context("cannot read a child's output")? > 0 {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&bytes).and_then(|()| stdout.flush()).context("cannot write to stdout")?;
        lines.push(String::from_utf8_lossy(&bytes).trim_end().to_owned());
        bytes.clear();
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Option<Duration>) -> Ended {
        let mut command = limit.map_or_else(|| Command::new("sh"), |limit| timed(limit, "sh"));
        command.args(["-c", script]);
        stream(command).expect("a shell can be run")
    }

    #[test]
    fn both_outputs_are_kept_in_order() {
        let ended = shell("echo one; echo two >&2; echo three", None);
        assert_eq!(ended.lines, ["one", "two", "three"]);
        assert_eq!(ended.failure, None);
    }

    #[test]
    fn a_failure_says_how_it_ended() {
        assert_eq!(shell("exit 3", None).failure.as_deref(), Some("ended with exit status: 3"));
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let ended = shell("echo started; tail -f /dev/null; echo never", Some(Duration::ZERO));
        assert_eq!(ended.lines, ["started"]);
        assert_eq!(ended.failure.as_deref(), Some("ended because its time was up"));
    }
}
