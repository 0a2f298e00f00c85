//! A running `disktime serve`, and programs run against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// Whether one of these programs can't be run; then the test's skip is told.
pub fn lacks(test: &str, programs: &[&str]) -> bool {
    let Some(missing) = programs.iter().find(|program| !runs(program)) else { return false };
    skip(test, &format!("{missing} is not installed"));
    true
}

/// Tells that a test can't run here.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP: {test}: {reason}");
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

/// Returns from a test, aloud, if a program is missing.
#[macro_export]
macro_rules! needs {
    ($test:literal, $($program:literal),+) => {
        if $crate::support::lacks($test, &[$($program),+]) {
            return;
        }
    };
}

fn runs(program: &str) -> bool {
    let mut command = if program == "nbdsh" { python("import nbd") } else { Command::new(program) };
    let asks = match program {
        "openssl" => "version",
        "mkfs.xfs" => "-V",
        _ => "--version",
    };
    let command = if program == "nbdsh" { &mut command } else { command.arg(asks) };
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Debian's Python, which has Debian's bindings of libnbd.
pub fn python(script: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]);
    command
}

/// Runs a command that must succeed; answers its output.
pub fn run(command: &mut Command) -> String {
    let output = finish(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}

/// Runs a command to its end, with a bound on its time.
pub fn finish(command: &mut Command) -> Output {
    let mut bounded = Command::new("timeout");
    bounded.arg("60").arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        bounded.current_dir(directory);
    }
    bounded.stdin(Stdio::null()).output().unwrap()
}

/// Runs words as a command that must succeed.
pub fn words(words: &[&str]) -> String {
    run(Command::new(words[0]).args(&words[1..]))
}

/// A daemon on a Unix socket in a directory of its own.
pub struct Daemon {
    pub directory: TempDir,
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    _output: BufReader<std::process::ChildStdout>,
}

/// Virtual disks `mem` (in memory) and `file` (in a file), 64 MiB each.
pub const DISKS: &str = r#"
[[device]]
name = "ram"
back_end = "memory"

[[device]]
name = "disk"
back_end = "file:DIRECTORY/disks"
create = true
queue_depth = 8

[[vdisk]]
name = "mem"
device = "ram"
size = "64MiB"
reserve = "50%"

[[vdisk]]
name = "file"
device = "disk"
size = "64MiB"
reserve = "50%"
"#;

/// As [`DISKS`], with these bitmaps instead of reservations, and a state directory that keeps them.
pub fn with_bitmaps(names: &str) -> String {
    let disks = DISKS.replace("reserve = \"50%\"", &format!("bitmaps = {names}"));
    format!("state = \"DIRECTORY/state\"\n{disks}")
}

impl Daemon {
    /// Serves these devices and virtual disks.
    pub fn start(disks: &str) -> Self {
        Self::start_configured(TempDir::new().unwrap(), disks)
    }

    /// Serves these devices and virtual disks out of a directory.
    pub fn start_configured(directory: TempDir, disks: &str) -> Self {
        write_config(directory.path(), disks);
        Self::start_in(directory)
    }

    /// Serves the configuration that lies in a directory.
    pub fn start_in(directory: TempDir) -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_disktime")), directory)
    }

    /// Serves these devices and virtual disks with so many descriptors and no more.
    pub fn start_with_descriptors(count: u32, disks: &str) -> Self {
        let directory = TempDir::new().unwrap();
        write_config(directory.path(), disks);
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={count}")).arg(env!("CARGO_BIN_EXE_disktime"));
        Self::start_as(command, directory)
    }

    /// Serves the configuration that lies in a directory, as this command.
    pub fn start_as(mut command: Command, directory: TempDir) -> Self {
        let mut child = command
            .args(["serve", "--config"])
            .arg(directory.path().join("disktime.toml"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        // The first line is printed once clients can connect.
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let mut daemon = Self { directory, child, errors, _output: output };
        if line.is_empty() {
            panic!("the daemon did not start: {}", daemon.rest_of_errors());
        }
        daemon
    }

    /// Another daemon takes this one's place; answers whether this one ended well.
    pub fn take_over(&mut self) -> bool {
        self.take_over_as(Command::new(env!("CARGO_BIN_EXE_disktime")))
    }

    /// As [`take_over`](Self::take_over), with the other daemon as this command.
    pub fn take_over_as(&mut self, mut command: Command) -> bool {
        command.args(["serve", "--take-over", "--config"]).arg(self.path("disktime.toml"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let mut predecessor = std::mem::replace(&mut self.child, child);
        let mut its_errors = std::mem::replace(&mut self.errors, errors);
        self._output = output;
        if line.is_empty() {
            let mut said = String::new();
            let _its_end = predecessor.kill();
            its_errors.read_to_string(&mut said).unwrap();
            panic!("no take-over: {}\nthe predecessor: {said}", self.rest_of_errors());
        }
        predecessor.wait().unwrap().success()
    }

    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("nbd.sock")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Changes the configuration for whoever reads it next.
    pub fn configure(&self, disks: &str) {
        write_config(self.directory.path(), disks);
    }

    /// Changes the configuration and has it read again; answers what the daemon says to it.
    pub fn reload(&mut self, disks: &str) -> String {
        self.configure(disks);
        self.signal("HUP");
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    /// The next line that the daemon says.
    pub fn error_line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    /// The next line with that text that the daemon says.
    pub fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.error_line();
            assert!(!line.is_empty(), "the daemon has ended and said nothing of {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn signal(&self, signal: &str) {
        words(&["kill", &format!("-{signal}"), &self.child.id().to_string()]);
    }

    /// Ends it with a signal; answers its directory and whether it ended well.
    pub fn end(mut self, signal: &str) -> (TempDir, bool) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        let directory = std::mem::replace(&mut self.directory, TempDir::new().unwrap());
        (directory, status.success())
    }

    fn rest_of_errors(&mut self) -> String {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn write_config(directory: &Path, disks: &str) {
    let disks = disks.replace("DIRECTORY", directory.to_str().unwrap());
    let disks = match env!("CARGO_CRATE_NAME") {
        // These suites run once more with several threads for each device.
        "e2e_shards" => disks.replace("[[device]]\n", "[[device]]\nshards = 2\n"),
        _ => disks,
    };
    let text = format!("[server]\nnbd = [\"unix:{}/nbd.sock\"]\n{disks}", directory.display());
    std::fs::write(directory.join("disktime.toml"), text).unwrap();
}
