//! How the server ends: when it is told to, and when one of its threads fails.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::time::Duration;

use disktime_client::{Connection, Uri};
use disktime_core::Kind;
use disktime_server::Server;
use disktime_server::backend::faulty::Fault;
use tempfile::TempDir;

mod shards;

fn start(directory: &TempDir, faults: &[(usize, Fault)]) -> Server {
    let text = format!(
        "[server]\nnbd = [\"unix:{}/nbd.sock\"]\n[[device]]\nname = \"good\"\nback_end = \"memory\"\n\
         [[device]]\nname = \"bad\"\nback_end = \"memory\"\n\
         [[vdisk]]\nname = \"a\"\ndevice = \"good\"\nsize = \"1MiB\"\n\
         [[vdisk]]\nname = \"b\"\ndevice = \"bad\"\nsize = \"1MiB\"\n",
        directory.path().display()
    );
    Server::start_with_faults(shards::parse(&text).unwrap(), faults).unwrap()
}

fn connect(server: &Server, vdisk: usize) -> Connection {
    Connection::open(&server.vdisks()[vdisk].uris()[0].parse::<Uri>().unwrap()).unwrap()
}

/// A shard that panicked took its device with it, and the daemon went on as if nothing had happened:
/// clients waited for a thread that was gone.
#[test]
fn a_shard_that_fails_is_told_with_its_devices_name() {
    let directory = TempDir::new().unwrap();
    let (kind, error) = (Kind::Read, Fault::PANIC);
    let fault = Fault { disk: 0, kind, extent: 0..1 << 20, every: 1, error };
    let server = start(&directory, &[(1, fault)]);
    let failures = server.failures();
    let (mut good, mut bad) = (connect(&server, 0), connect(&server, 1));
    good.read(0, &mut [0; 512]).unwrap();
    assert!(failures.is_empty());
    assert!(bad.read(0, &mut [0; 512]).is_err(), "its clients are let go");
    let failure = failures.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(failure.what, "device bad");
    assert!(failure.to_string().contains("it panicked: a fault of a test"), "{failure}");
    good.read(0, &mut [0; 512]).unwrap();
    assert!(server.shutdown().is_err());
}
