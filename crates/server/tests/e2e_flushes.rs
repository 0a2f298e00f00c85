//! A flush that fails reaches every client whose data were at stake, once: two virtual disks with
//! two clients each.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::path::Path;
use std::sync::Arc;

use disktime_client::{Connection, RequestError};
use disktime_core::Kind;
use disktime_nbd::NbdError;
use disktime_server::backend::faulty::Fault;
use disktime_server::backend::volatile::Volatile;
use disktime_server::backend::{DeviceError, PoolDirectory};
use disktime_server::{Config, Server, Wrap};
use tempfile::TempDir;

mod shards;

const MIB: u64 = 1 << 20;

fn config(directory: &Path, socket: &str, back_end: &str) -> Config {
    with_keys("queue_depth = 8", directory, socket, back_end)
}

fn with_keys(keys: &str, directory: &Path, socket: &str, back_end: &str) -> Config {
    let text = format!(
        "[server]\nnbd = [\"unix:DIRECTORY/{socket}\"]\nstate = \"DIRECTORY/{socket}.state\"\n\
         [[device]]\nname = \"d\"\nback_end = \"{back_end}\"\n{keys}\n\
         [[vdisk]]\nname = \"a\"\ndevice = \"d\"\nsize = \"1MiB\"\n\
         [[vdisk]]\nname = \"b\"\ndevice = \"d\"\nsize = \"1MiB\"\n"
    );
    shards::parse(&text.replace("DIRECTORY", directory.to_str().unwrap())).unwrap()
}

/// A daemon and its clients: two of `a`, then two of `b`.
struct Fixture {
    server: Server,
    clients: Vec<Connection>,
}

impl Fixture {
    fn new(server: Server) -> Self {
        let mut fixture = Self { server, clients: Vec::new() };
        for vdisk in [0, 0, 1, 1] {
            let client = fixture.connect(vdisk);
            fixture.clients.push(client);
        }
        fixture
    }

    /// On a disk whose flushes can be made to fail.
    fn on(directory: &TempDir, disk: &Volatile) -> Self {
        Self::with_keys("queue_depth = 8", directory, disk)
    }

    fn with_keys(keys: &str, directory: &TempDir, disk: &Volatile) -> Self {
        let config = with_keys(keys, directory.path(), "upper.sock", "memory");
        let disk = disk.clone();
        let wrap: Wrap = Arc::new(move |_, _| Box::new(disk.back_end()));
        Self::new(Server::start_wrapped(config, &wrap).unwrap())
    }

    fn connect(&self, vdisk: usize) -> Connection {
        let uri = self.server.vdisks()[vdisk].uris()[0].parse().unwrap();
        let mut client = Connection::open(&uri).unwrap();
        // The device's thread knows it once that has answered.
        client.read(0, &mut [0]).unwrap();
        client
    }

    fn write(&mut self, client: usize) {
        self.clients[client].write(0, &[1; 5000], false).unwrap();
    }

    /// Which clients' flushes fail.
    fn told(&mut self) -> Vec<usize> {
        let fails = |client: &mut Connection| match client.flush() {
            Ok(()) => false,
            Err(RequestError::Failed(NbdError::Io)) => true,
            Err(error) => panic!("{error}"),
        };
        let clients = self.clients.iter_mut().enumerate();
        clients.filter_map(|(at, client)| fails(client).then_some(at)).collect()
    }
}

/// The first client to flush took the error away: the others' data were gone, and their flushes
/// succeeded.
#[test]
fn a_failed_flush_reaches_all_clients_with_data_at_stake_once() {
    let (directory, disk) = (TempDir::new().unwrap(), Volatile::new(&[MIB, MIB]));
    let mut fixture = Fixture::on(&directory, &disk);
    fixture.write(0);
    fixture.write(2);
    disk.fail_flushes(1);
    assert_eq!(fixture.told(), [0, 1, 2, 3], "the first by its own, the others by its failure");
    assert_eq!(fixture.told(), [0; 0]);
    // Nothing of `b` is at stake any more.
    fixture.write(1);
    disk.fail_flushes(1);
    assert_eq!(fixture.told(), [0, 1]);
    assert_eq!(fixture.told(), [0; 0]);
}

/// One request at a time the engine flushes by itself, between the slices of one that writes and one that reads.
#[test]
fn a_failed_flush_that_no_client_asked_for_is_told_to_those_with_data_at_stake() {
    let (directory, disk) = (TempDir::new().unwrap(), Volatile::new(&[MIB, MIB]));
    // So slow that both always have a request there.
    let keys = "queue_depth = 1\nemulate = \"deskstar-34gxp\"";
    let mut fixture = Fixture::with_keys(keys, &directory, &disk);
    fixture.write(2);
    disk.fail_flushes(1);
    let (readers, writers) = fixture.clients.split_at_mut(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while disk.seen().flushes == 0 {
                readers[0].read(0, &mut [0; 4096]).unwrap();
            }
        });
        while disk.seen().flushes == 0 {
            writers[0].write(0, &[1; 5000], false).unwrap();
        }
    });
    assert_eq!(fixture.told(), [2, 3]);
    assert_eq!(fixture.told(), [0; 0]);
}

#[test]
fn a_failed_fua_write_fails_and_its_neighbours_are_told() {
    let (directory, disk) = (TempDir::new().unwrap(), Volatile::new(&[MIB, MIB]));
    let mut fixture = Fixture::on(&directory, &disk);
    fixture.write(1);
    fixture.write(3);
    disk.fail_flushes(1);
    let failed = fixture.clients[0].write(0, &[2; 4096], true);
    assert!(matches!(failed, Err(RequestError::Failed(NbdError::Io))), "{failed:?}");
    assert_eq!(fixture.told(), [0, 1, 2, 3]);
    assert_eq!(fixture.told(), [0; 0]);
}

#[test]
fn the_next_client_is_told_of_what_nobody_was_told_of() {
    let (directory, disk) = (TempDir::new().unwrap(), Volatile::new(&[MIB, MIB]));
    let mut fixture = Fixture::on(&directory, &disk);
    fixture.write(2);
    let b = fixture.clients.split_off(2);
    b.into_iter().for_each(|client| client.disconnect().unwrap());
    disk.fail_flushes(1);
    assert_eq!(fixture.told(), [0], "nothing of `a` was at stake: its one flush failed");
    let client = fixture.connect(1);
    fixture.clients.push(client);
    assert_eq!(fixture.told(), [2]);
    let client = fixture.connect(1);
    fixture.clients.push(client);
    assert_eq!(fixture.told(), [0; 0], "one was told before this one came");
}

/// Each virtual disk's own file is a medium of its own; extents of one file are not.
#[test]
fn a_failure_concerns_the_virtual_disks_that_share_the_medium() {
    let directory = TempDir::new().unwrap();
    let image = directory.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(4 * MIB).unwrap();
    drop(PoolDirectory::make(&directory.path().join("pool")).unwrap());
    for (back_end, told) in [("pool", vec![0, 1]), ("image", vec![0, 1, 2, 3])] {
        // Each second flush of `a`.
        let (kind, extent, error) = (Kind::Flush, 0..0, DeviceError(libc::EIO));
        let fault = Fault { disk: 0, kind, extent, every: 2, error };
        let socket = format!("{back_end}.sock");
        let config = config(directory.path(), &socket, &format!("file:DIRECTORY/{back_end}"));
        let server = Server::start_with_faults(config, &[(0, fault)]).unwrap();
        let mut fixture = Fixture::new(server);
        assert_eq!(fixture.told(), [1], "nothing is at stake");
        (0..4).for_each(|client| fixture.write(client));
        fixture.clients[0].flush().unwrap();
        (0..4).for_each(|client| fixture.write(client));
        assert!(fixture.clients[0].flush().is_err());
        assert_eq!(fixture.told(), told[1..], "{back_end}");
        assert_eq!(fixture.told(), [1], "{back_end}: by its own fault alone");
    }
}

/// The server below goes away with what it had not flushed, and another one comes.
#[test]
fn a_lost_server_is_told_to_each_client_that_had_data_there_once() {
    let directory = TempDir::new().unwrap();
    let disk = Volatile::new(&[4 * MIB]);
    let serve = || {
        let text = "[server]\nnbd = [\"unix:DIRECTORY/lower.sock\"]\n[[device]]\nname = \"d\"\n\
                    back_end = \"memory\"\n[[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"4MiB\"\n";
        let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
        let disk = disk.clone();
        let wrap: Wrap = Arc::new(move |_, _| Box::new(disk.back_end()));
        Server::start_wrapped(shards::parse(&text).unwrap(), &wrap).unwrap()
    };
    let lower = serve();
    let uri = "nbd+unix:///v?socket=DIRECTORY/lower.sock";
    let server = Server::start(config(directory.path(), "upper.sock", uri)).unwrap();
    let mut fixture = Fixture::new(server);
    fixture.write(0);
    fixture.write(2);
    assert_eq!(fixture.told(), [0; 0]);
    fixture.write(2);
    disk.cut(1);
    lower.shutdown().unwrap();
    let _lower = serve();
    let mut tries = 0..2000;
    while fixture.clients[0].read(0, &mut [0; 512]).is_err() {
        assert!(tries.next().is_some(), "the server is not found again");
        nap();
    }
    assert_eq!(fixture.told(), [2, 3]);
    assert_eq!(fixture.told(), [0; 0]);
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
fn nap() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}
