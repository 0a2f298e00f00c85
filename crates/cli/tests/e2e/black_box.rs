//! Other people's servers as devices, and stripes over files.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use disktime_client::{Connection, RequestError, Uri};
use disktime_nbd::NbdError;

use crate::needs;
use crate::support::{Daemon, finish, run, words};
use crate::tools::noise;

/// Virtual disks `first` and `second` on a server's export, and `mem` on a device of its own.
const BOXED: &str = r#"
state = "DIRECTORY/state"

[[device]]
name = "box"
back_end = "nbd+unix:///?socket=DIRECTORY/box.sock"
queue_depth = 16

[[device]]
name = "ram"
back_end = "memory"

[[vdisk]]
name = "first"
device = "box"
size = "32MiB"
reserve = "50%"

[[vdisk]]
name = "second"
device = "box"
size = "24MiB"
reserve = "30%"

[[vdisk]]
name = "mem"
device = "ram"
size = "4MiB"
"#;

/// A program that serves until it is dropped.
struct Served(Child);

impl Served {
    /// Starts it; returns once somebody listens at the socket.
    fn start(program: &str, arguments: &[&str], socket: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let served = Self(command.spawn().unwrap());
        for _ in 0..1000 {
            if UnixStream::connect(socket).is_ok() {
                return served;
            }
            nap();
        }
        panic!("{program} does not listen at {}", socket.display());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
fn nap() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

fn nbdkit(directory: &Path) -> Served {
    let socket = directory.join("box.sock");
    let _of_one_that_was_killed = std::fs::remove_file(&socket);
    Served::start("nbdkit", &["-f", "-U", socket.to_str().unwrap(), "memory", "64M"], &socket)
}

fn connect(daemon: &Daemon, export: &str) -> Connection {
    Connection::open(&daemon.uri(export).parse::<Uri>().unwrap()).unwrap()
}

/// Strangers' clients find on the daemon's disks what they wrote there.
fn keeps_data(daemon: &Daemon) {
    let len = 20_000_001;
    for (export, size) in [("first", 32 << 20), ("second", 24 << 20)] {
        let data = noise(len);
        let (source, target) = (daemon.path("in"), daemon.path("out"));
        std::fs::write(&source, &data).unwrap();
        words(&["nbdcopy", source.to_str().unwrap(), &daemon.uri(export)]);
        words(&["nbdcopy", &daemon.uri(export), target.to_str().unwrap()]);
        let back = std::fs::read(&target).unwrap();
        assert!(back.len() == size && back[..len] == data, "{export}");
    }
    let steps = [
        "write -P 0xab 1M 2M",
        "write -P 0x11 1000 5000",
        "write -f -P 0x22 1048577 1",
        "write -z 1500000 100000",
        "write -z -u 2M 64k",
        "discard 2200000 4096",
        "flush",
        "read -P 0x11 1000 5000",
        "read -P 0xab 1M 1",
        "read -P 0x22 1048577 1",
        "read -P 0xab 1048578 451422",
        "read -P 0 1500000 100000",
        "read -P 0xab 1600000 497152",
        "read -P 0 2M 64k",
    ];
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]);
    for step in steps {
        command.args(["-c", step]);
    }
    let said = run(command.arg(daemon.uri("first")));
    assert!(!said.contains("verification failed"), "{said}");
    // The disk beside it is as it was.
    let (uri, target) = (daemon.uri("second"), daemon.path("out"));
    words(&["nbdcopy", &uri, target.to_str().unwrap()]);
    assert!(std::fs::read(&target).unwrap()[..len] == noise(len));
}

#[test]
fn nbdkit_is_a_device() {
    needs!("nbdkit_is_a_device", "nbdkit", "nbdcopy", "qemu-io");
    let directory = tempfile::tempdir().unwrap();
    let _served = nbdkit(directory.path());
    let mut daemon = Daemon::start_configured(directory, BOXED);
    keeps_data(&daemon);
    assert!(daemon.reload(&BOXED.replace("50%", "40%")).contains("reserve 50% -> 40%"));
    assert!(daemon.end("TERM").1);
}

/// A look at the device, and prices that are learned, take no write.
#[test]
fn an_export_that_is_read_only_is_looked_at_and_served() {
    needs!("an_export_that_is_read_only_is_looked_at_and_served", "nbdkit");
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("box.sock");
    let arguments = ["-r", "-f", "-U", socket.to_str().unwrap(), "memory", "64M"];
    let _served = Served::start("nbdkit", &arguments, &socket);
    let mut daemon = Daemon::start_configured(directory, BOXED);
    let mut client = connect(&daemon, "first");
    let mut data = vec![1; 4096];
    client.read(65_536, &mut data).unwrap();
    assert!(data.iter().all(|byte| *byte == 0));
    assert!(client.write(0, &data, false).is_err());
    daemon.signal("USR1");
    // Had the look failed, it would have been told first.
    let header = daemon.error_line();
    assert!(header.contains("costs µs"), "{header}");
    let row = daemon.error_line();
    assert!(row.contains("first") && row.contains("anchored"), "{row}");
    assert!(daemon.end("TERM").1);
}

#[test]
fn qemu_nbd_is_a_device() {
    needs!("qemu_nbd_is_a_device", "qemu-nbd", "nbdcopy", "qemu-io");
    let directory = tempfile::tempdir().unwrap();
    let (socket, image) = (directory.path().join("box.sock"), directory.path().join("image"));
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let arguments = ["-t", "-e", "8", "-f", "raw", "--discard=unmap", "-k"];
    let paths = [socket.to_str().unwrap(), image.to_str().unwrap()];
    let served = Served::start("qemu-nbd", &[&arguments[..], &paths].concat(), &socket);
    let daemon = Daemon::start_configured(directory, BOXED);
    keeps_data(&daemon);
    // A restart finds the disks where they were.
    let (directory, well) = daemon.end("TERM");
    assert!(well);
    let daemon = Daemon::start_in(directory);
    words(&["nbdcopy", &daemon.uri("second"), daemon.path("out").to_str().unwrap()]);
    assert!(std::fs::read(daemon.path("out")).unwrap()[..20_000_001] == noise(20_000_001));
    let (_directory, well) = daemon.end("TERM");
    assert!(well);
    drop(served);
}

/// A server is killed: its device's clients get I/O errors, at once and on the same connection;
/// other devices don't notice; once there is a server again it is used.
#[test]
fn a_killed_server_is_its_own_devices_trouble() {
    needs!("a_killed_server_is_its_own_devices_trouble", "nbdkit");
    let directory = tempfile::tempdir().unwrap();
    let served = nbdkit(directory.path());
    let daemon = Daemon::start_configured(directory, BOXED);
    let (mut boxed, mut mem) = (connect(&daemon, "first"), connect(&daemon, "mem"));
    let mut byte = [0];
    boxed.write(77, b"x", false).unwrap();
    boxed.read(77, &mut byte).unwrap();
    assert_eq!(&byte, b"x");
    drop(served);
    let eio = Err(RequestError::Failed(NbdError::Io));
    for _ in 0..20 {
        assert_eq!(boxed.read(77, &mut byte), eio);
        assert_eq!(boxed.write(77, b"y", true), eio);
        mem.write(5, b"z", true).unwrap();
        mem.read(5, &mut byte).unwrap();
        assert_eq!(&byte, b"z");
    }
    let _served = nbdkit(daemon.directory.path());
    let mut back = Err(RequestError::Failed(NbdError::Io));
    for _ in 0..3000 {
        back = boxed.read(77, &mut byte);
        if back.is_ok() {
            break;
        }
        nap();
    }
    back.unwrap();
    assert_eq!(boxed.flush(), eio, "what was acknowledged is gone: nothing was flushed");
    boxed.flush().unwrap();
    boxed.write(77, b"again", true).unwrap();
    assert!(daemon.end("TERM").1);
}

#[test]
fn a_device_that_is_no_server_is_refused_with_what_to_do() {
    let refused = |disks: &str, says: &str| {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{disks}");
        let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
        std::fs::write(directory.path().join("disktime.toml"), text).unwrap();
        for member in ["a", "b"] {
            let file = std::fs::File::create(directory.path().join(member)).unwrap();
            file.set_len(if member == "a" { 9 << 20 } else { 100 }).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(["serve", "--config"]).arg(directory.path().join("disktime.toml"));
        let output = finish(&mut command);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(says), "{says} in {errors}");
    };
    refused(BOXED, "device box: its back end can't be opened: unix:");
    let striped =
        BOXED.replace("nbd+unix:///?socket=DIRECTORY/box.sock", "raid0:DIRECTORY/a,DIRECTORY/b");
    refused(&striped, "b: it has 100 bytes, less than a chunk");
    refused(&striped.replace(",DIRECTORY/b", ""), "raid0 has 2 to 32 paths");
}

/// Virtual disks `first` and `second` on stripes over two files.
fn striped(members: &str) -> String {
    let device = BOXED.replace("nbd+unix:///?socket=DIRECTORY/box.sock", members);
    device.replace("state = \"DIRECTORY/state\"", "")
}

/// Data on stripes outlive a restart, and members in another order are refused: they would be
/// another device.
#[test]
fn stripes_keep_data_and_their_order() {
    needs!("stripes_keep_data_and_their_order", "nbdcopy", "qemu-io");
    let directory = tempfile::tempdir().unwrap();
    for member in ["a", "b"] {
        std::fs::File::create(directory.path().join(member)).unwrap().set_len(40 << 20).unwrap();
    }
    let config = striped("raid0:DIRECTORY/a,DIRECTORY/b\"\nchunk = \"16KiB");
    let daemon = Daemon::start_configured(directory, &config);
    keeps_data(&daemon);
    let (directory, well) = daemon.end("TERM");
    assert!(well);
    let daemon = Daemon::start_in(directory);
    words(&["nbdcopy", &daemon.uri("second"), daemon.path("out").to_str().unwrap()]);
    assert!(std::fs::read(daemon.path("out")).unwrap()[..20_000_001] == noise(20_000_001));
    let (directory, _well) = daemon.end("TERM");
    let path = directory.path().join("disktime.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("16KiB", "32KiB")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let output = finish(command.args(["serve", "--config"]).arg(&path));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("in chunks of 16384 bytes"), "{errors}");
}
