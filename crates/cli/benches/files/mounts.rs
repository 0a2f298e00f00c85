//! Directories that are mounted for a while, by us and by bindfs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// Looks for a mount, one each 5 ms.
const TRIES_MAX: usize = 1000;

/// The program that mounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Us,
    /// A plain FUSE pass-through.
    Bindfs,
}

/// A mount, which is taken away when this is dropped.
pub(crate) struct Mount {
    child: Child,
    at: PathBuf,
}

impl Mount {
    /// Mounts `source` at `at`, with these options of ours.
    pub(crate) fn start(
        by: By,
        [source, at]: [&Path; 2],
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = match by {
            By::Us => Command::new(env!("CARGO_BIN_EXE_disktime")),
            By::Bindfs => Command::new("bindfs"),
        };
        match by {
            By::Us => command.arg("mount"),
            By::Bindfs => command.args(["-f", "--no-allow-other"]),
        };
        command.args([source, at]);
        command.args(options);
        let before = device(at)?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut mount = Self { child: child.spawn()?, at: at.to_owned() };
        for _ in 0..TRIES_MAX {
            if device(at)? != before {
                return Ok(mount);
            }
            if let Some(status) = mount.child.try_wait()? {
                bail!("a mount ended: {status}");
            }
            pause(5);
        }
        bail!("a mount is not there");
    }

    /// Kills the process that serves it.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(&self.at).stderr(Stdio::null());
        let gone = unmount.status().is_ok_and(|status| status.success());
        if !gone {
            let _gone_already = Command::new("umount").arg("-l").arg(&self.at).status();
        }
        let _status = self.child.wait();
    }
}

/// The number of the file system at a place.
fn device(at: &Path) -> anyhow::Result<u64> {
    Ok(rustix::fs::stat(at).with_context(|| at.display().to_string())?.st_dev)
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far another process is")]
fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Whether a program is there.
pub(crate) fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// A directory with places for sources and mounts.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new(names: &[&str]) -> anyhow::Result<Self> {
        let place = Self(tempfile::tempdir()?);
        for name in names {
            std::fs::create_dir(place.at(name))?;
        }
        Ok(place)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Mounts the directory `source` at one of the others.
    pub(crate) fn mount(&self, by: By, at: &str, options: &[&str]) -> anyhow::Result<Mount> {
        Mount::start(by, [&self.at("source"), &self.at(at)], options)
    }
}

/// Runs a command to its end; its output, or how it failed.
pub(crate) fn tell(command: &mut Command) -> anyhow::Result<Result<String, String>> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(Ok(text(&output.stdout)));
    }
    let said = text(&output.stderr) + &text(&output.stdout);
    let last: Vec<_> = said.lines().rev().take(3).collect();
    let last = last.into_iter().rev().collect::<Vec<_>>().join(" | ");
    Ok(Err(format!("{:?}: {}: {last}", command.get_program(), output.status)))
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let said = tell(command)?;
    ensure!(said.is_ok(), "{}", said.err().unwrap_or_default());
    Ok(said.unwrap_or_default())
}
