//! Runs a command and keeps what it prints, shown as it comes or not.

use std::io::{BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The exit codes of coreutils' `timeout` when it had to end its command, and when it had to kill
/// it.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Until when commands may run, if there is a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn new(at: Option<Instant>) -> Self {
        Self(at)
    }

    /// A command that ends, with its children, when the time is up.
    pub(crate) fn command(self, program: &str) -> Command {
        match self.left() {
            Some(left) => timed(left, program),
            None => Command::new(program),
        }
    }

    /// A command that ends, with its children, after `limit`, and when the time is up.
    pub(crate) fn command_within(self, limit: Duration, program: &str) -> Command {
        timed(self.left().map_or(limit, |left| left.min(limit)), program)
    }

    /// Whether the time is up.
    pub(crate) fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(now()))
    }
}

/// Now, for people: gates are timed on a real clock.
#[expect(clippy::disallowed_methods, reason = "gates are timed for people, on a real clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A command that ends, with its children, after `limit`.
pub(crate) fn timed(limit: Duration, program: &str) -> Command {
    // For `timeout`, zero means without limit.
    let seconds = limit.as_secs().max(1).to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &seconds, program]);
    command
}

/// A command's output, on stdout and stderr in the order of printing, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) lines: Vec<String>,
    /// Why it failed, if it did: its exit status, or that its time was up.
    pub(crate) failure: Option<String>,
}

impl Ended {
    /// Why a build failed, if it did: the first error, or how it ended.
    pub(crate) fn build_failure(&self) -> Option<&str> {
        let failure = self.failure.as_deref()?;
        let mut lines = self.lines.iter().map(String::as_str);
        Some(lines.find(|line| line.starts_with("error")).unwrap_or(failure))
    }
}

/// Runs `command` without input and shows its output.
///
/// # Errors
/// When the command can't be started or its output can't be passed on.
pub(crate) fn stream(command: Command) -> Result<Ended> {
    println!("$ {}", shown(&command));
    run(command, |bytes| {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).context("cannot write to stdout")
    })
}

/// Runs `command` without input and shows nothing.
///
/// # Errors
/// When the command can't be started or its output can't be read.
pub(crate) fn capture(command: Command) -> Result<Ended> {
    run(command, |_| Ok(()))
}

fn run(mut command: Command, show: impl FnMut(&[u8]) -> Result<()>) -> Result<Ended> {
    forget_our_package(&mut command);
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", shown(&command)))?;
    // `command` holds our writing ends: as long as they are open, the reader sees no end.
    drop(command);
    let lines = tee(BufReader::new(reader), show)?;
    let status = child.wait().context("cannot wait for a child")?;
    let failure = (!status.success()).then(|| match status.code() {
        Some(code) if TIMED_OUT.contains(&code) => "ended because its time was up".to_owned(),
        _ => format!("ended with {status}"),
    });
    Ok(Ended { lines, failure })
}

/// Cargo tells a program that it runs about the program's own package. Build scripts that watch these
/// variables would run again, with all that is built on them, whenever another cargo was asked before.
fn forget_our_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let is_ours = ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
        if is_ours {
            command.env_remove(name);
        }
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn tee(
    mut reader: impl std::io::BufRead,
    mut show: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Vec<String>> {
    let (mut lines, mut bytes) = (Vec::new(), Vec::new());
    while reader.read_until(b'\n', &mut bytes).context("cannot read a child's output")? > 0 {
        show(&bytes)?;
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
    fn commands_do_not_see_which_package_runs_them() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo runs this test");
        assert_eq!(shell("echo \"<$CARGO_PKG_NAME$CARGO_MANIFEST_DIR>\"", None).lines, ["<>"]);
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
