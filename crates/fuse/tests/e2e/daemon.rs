//! A mount on a device of a daemon.

use std::os::unix::fs::FileExt;

use disktime_config::read_contract;
use disktime_fuse::{Engine, MountError, abi, client};
use disktime_server::{Config, Server};
use tempfile::TempDir;

use crate::support::{Mount, fill, lacks};

/// A daemon whose device `d` is an emulated disk, a piece at a time, with the virtual disk `v`.
fn daemon(directory: &TempDir) -> Server {
    let text = "[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\nstate = \"DIRECTORY/state\"\n\
                [[device]]\nname = \"d\"\nback_end = \"memory\"\nqueue_depth = 1\n\
                emulate = \"deskstar-34gxp\"\n[[vdisk]]\nname = \"v\"\ndevice = \"d\"\n\
                size = \"8MiB\"\nreserve = \"60%\"\n";
    let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
    Server::start(Config::parse(&text).unwrap()).unwrap()
}

fn mount(directory: &TempDir) -> Mount {
    let state = directory.path().join("state");
    Mount::new(|options| options.engine = Engine::Daemon { state, device: "d".to_owned() })
}

/// Requests that the daemon had were answered never, or with what had been done of them by then.
#[test]
fn requests_go_on_whole_when_the_daemon_ends_under_them() {
    if lacks("requests_go_on_whole_when_the_daemon_ends_under_them") {
        return;
    }
    let directory = TempDir::new().unwrap();
    let server = daemon(&directory);
    let mount = mount(&directory);
    // A disk of 1998 takes some 5 s for all, so that most waits when the daemon ends.
    const BYTES: usize = 8 << 20;
    let data = fill(&mount.source("film"), 8 * BYTES);
    let open = || std::fs::File::options().read(true).write(true).open(mount.path("film"));
    let files: Vec<_> = (0..8).map(|_| open().unwrap()).collect();
    std::thread::scope(|scope| {
        let read = |at: usize| {
            let (file, data) = (&files[at], &data);
            move || {
                let mut buffer = vec![0; BYTES];
                file.read_exact_at(&mut buffer, (at * BYTES) as u64).unwrap();
                assert!(buffer == data[at * BYTES..(at + 1) * BYTES], "part {at}");
            }
        };
        for at in 0..8 {
            scope.spawn(read(at));
        }
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            server.shutdown().unwrap();
        });
    });
    assert!(mount.is_left());
    // Nothing is promised any more, and everything else goes on.
    let (_, answer) = client::set(&files[0], &read_contract("reserve=1%").unwrap()).unwrap_err();
    assert_eq!(abi::refused(&answer).fits.ppm(), 0);
    std::fs::write(mount.path("new"), b"data").unwrap();
    assert_eq!(std::fs::read(mount.source("new")).unwrap(), b"data");
}

#[test]
fn a_mount_without_a_daemon_or_a_device_is_refused() {
    if lacks("a_mount_without_a_daemon_or_a_device_is_refused") {
        return;
    }
    let directory = TempDir::new().unwrap();
    let server = daemon(&directory);
    let refused = |device: &str| {
        let state = directory.path().join("state");
        let engine = Engine::Daemon { state, device: device.to_owned() };
        match Mount::try_new(|options| options.engine = engine) {
            Err(MountError::Daemon(error)) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it is mounted"),
        }
    };
    assert_eq!(refused("x"), "no device x; there are: d");
    server.shutdown().unwrap();
    assert!(refused("d").starts_with("no daemon listens at "));
}
