//! Other projects' programs, started: `qemu-nbd`, `nbdkit`, and what they serve.

use std::path::{Path, PathBuf};
use std::process::Command;

use disktime_client::Uri;

use super::{NotStarted, Place, Scene};
use crate::server_process::Process;

/// The name of every export that isn't a device's of the daemon.
pub(super) const EXPORT: &str = "disk";

/// The shared storage, as servers get at it.
#[derive(Clone, Debug)]
pub enum Medium {
    /// A file.
    File(PathBuf),
    /// The export of a server that is started for each contender.
    Boxed(BoxKind),
}

/// A server whose export is the device.
#[derive(Clone, Debug)]
pub enum BoxKind {
    /// It has so many bytes in memory, and does one request at a time.
    Nbdkit(u64),
    /// Over a file.
    QemuNbd(PathBuf),
}

/// The shared storage, once it is there.
pub(super) enum Ready<'a> {
    /// A file.
    File(&'a Path),
    /// A server, listening.
    Boxed(Process, PathBuf),
}

impl Medium {
    /// Starts the box, if it is one.
    pub(super) fn start(&self, directory: &Path) -> Result<Ready<'_>, NotStarted> {
        let kind = match self {
            Self::File(file) => return Ok(Ready::File(file)),
            Self::Boxed(kind) => kind,
        };
        let socket = directory.join("box.sock");
        let process = match kind {
            BoxKind::Nbdkit(bytes) => serve(nbdkit(*bytes, &socket), &socket, "nbdkit"),
            BoxKind::QemuNbd(file) => serve(qemu_nbd(file, &socket), &socket, "qemu-utils"),
        }?;
        Ok(Ready::Boxed(process, socket))
    }
}

/// Starts a server; one that is missing is named with the Debian package that has it, and one that
/// doesn't start is left out, too: this bench is no test of it.
pub(super) fn serve(
    mut command: Command,
    socket: &Path,
    package: &str,
) -> Result<Process, NotStarted> {
    let name = command.get_program().to_string_lossy().into_owned();
    // A socket of the round before would be in the way of some.
    let _none_there = std::fs::remove_file(socket);
    match Process::start(&mut command, socket) {
        Ok(Some(process)) => Ok(process),
        Ok(None) => {
            let what = format!("{name} is not installed; Debian: apt-get install {package}");
            Err(NotStarted::Unavailable(what))
        }
        Err(error) => Err(NotStarted::Unavailable(error.to_string())),
    }
}

/// Streams side by side on exports; `export` answers the name and the socket of each stream's.
pub(super) fn places(
    scene: &Scene,
    export: impl Fn(usize) -> (String, PathBuf),
) -> Result<Vec<Place>, NotStarted> {
    let place = |stream: usize| {
        let (name, socket) = export(stream);
        let uri = format!("nbd+unix:///{name}?socket={}", socket.display());
        let uri = uri.parse::<Uri>().map_err(|error| NotStarted::Failed(error.to_string()))?;
        Ok(Place { uri, base: scene.bytes * stream as u64 })
    };
    (0..scene.tenants.len()).map(place).collect()
}

/// A file or a block device, past the page cache.
pub(super) fn qemu_nbd(path: &Path, socket: &Path) -> Command {
    let mut command = Command::new("qemu-nbd");
    command.args(["--persistent", "--shared=0", "--format=raw", "--cache=none", "--aio=native"]);
    command.arg(format!("--export-name={EXPORT}")).arg("--socket").args([socket, path]);
    command
}

/// One request at a time, however many clients: reads take 1 ms, writes 2 ms. It doesn't say where it
/// has holes, or a client that asks would not read them.
fn nbdkit(bytes: u64, socket: &Path) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--unix"]).arg(socket);
    command.args(["--filter=noparallel", "--filter=noextents", "--filter=delay", "memory"]);
    command.arg(bytes.to_string());
    command.args(["serialize=all-requests", "delay-read=1ms", "delay-write=2ms"]);
    command
}

#[cfg(test)]
mod tests {
    use super::super::LiveDevice;
    use super::*;

    #[test]
    fn streams_lie_side_by_side() {
        let scene = Scene::on_box(LiveDevice::Nbdkit, 3 << 20);
        let places = places(&scene, |at| (format!("stream-{at}"), "/x y/s".into()));
        let places = places.expect("URIs");
        assert_eq!(places.iter().map(|it| it.base >> 20).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(places[2].uri.export, "stream-2");
    }

    #[test]
    fn a_program_that_is_not_installed_is_left_out_with_its_package() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("s");
        let missing = serve(Command::new("no-such-program"), &socket, "some-package");
        let Some(NotStarted::Unavailable(why)) = missing.err() else { panic!("unavailable") };
        assert!(why.contains("no-such-program") && why.contains("some-package"), "{why}");
    }
}
