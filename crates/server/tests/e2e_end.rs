//! How the server ends: when it is told to, and when one of its threads fails.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use disktime_client::{Connection, Uri};
use disktime_core::Kind;
use disktime_server::backend::faulty::Fault;
use disktime_server::backend::{Abilities, BackEnd, DeviceError, Io, Job, Step};
use disktime_server::config::VdiskConfig;
use disktime_server::ring::Keep;
use disktime_server::{AlterError, ReloadError, Server, Watch, Wrap};
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

/// Memory that stands still with its thread at each read while the gate is shut.
struct Standing {
    inner: Box<dyn BackEnd>,
    gate: Receiver<()>,
}

impl BackEnd for Standing {
    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        if job.kind == Kind::Read {
            let _it_is_open = self.gate.recv();
        }
        self.inner.start(id, job, io)
    }

    fn finished(
        &mut self,
        id: u32,
        step: u32,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        self.inner.finished(id, step, job, done, io)
    }

    fn unblocked(&mut self) -> Option<u32> {
        self.inner.unblocked()
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        self.inner.resume(id, job, io)
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn add_disk(&mut self, disk: u32, extent: Range<u64>) -> Result<(), DeviceError> {
        self.inner.add_disk(disk, extent)
    }

    fn remove_disk(&mut self, disk: u32) {
        self.inner.remove_disk(disk);
    }
}

/// A virtual disk that was deleted while its device stood still was there and was not until a restart: nothing
/// could delete, change or rename it. A contract that was refused then was held all the same.
#[test]
fn what_a_device_that_stood_still_was_asked_for_can_be_finished() {
    let directory = TempDir::new().unwrap();
    let text = format!(
        "[server]\nnbd = [\"unix:{}/nbd.sock\"]\n[[device]]\nname = \"disk\"\nback_end = \"memory\"\n\
         [[vdisk]]\nname = \"a\"\ndevice = \"disk\"\nsize = \"1MiB\"\n\
         [[vdisk]]\nname = \"b\"\ndevice = \"disk\"\nsize = \"1MiB\"\n",
        directory.path().display()
    );
    let (open, gate) = crossbeam_channel::bounded(0);
    let wrap: Wrap = Arc::new(move |_, inner| Box::new(Standing { inner, gate: gate.clone() }));
    let mut server = Server::start_wrapped(shards::parse(&text).unwrap(), &wrap).unwrap();
    let [a, b] = server.config().devices[0].vdisks.clone().try_into().unwrap();
    let mut heavy = b.clone();
    heavy.contract.weight = 7;
    let weights = |server: &Server| -> Vec<u32> {
        let watched = server.watch(Watch::All).remove(0).unwrap();
        watched.vdisks.iter().map(|(_, vdisk)| vdisk.contract.weight).collect()
    };

    let mut client = connect(&server, 0);
    let reading = std::thread::spawn(move || client.read(0, &mut [0; 512]).is_ok());
    while server.watch(Watch::Busy)[0].is_some() {}
    let changed = server.alter_vdisk("disk", heavy.clone());
    assert!(matches!(changed, Err(AlterError::Silent(_))), "{changed:?}");
    let added = server.add_vdisk("disk", VdiskConfig { name: "c".to_owned(), ..b.clone() });
    assert!(matches!(added, Err(AlterError::Silent(_))));
    for _ in 0..2 {
        let removed = server.remove_vdisk("a");
        assert!(matches!(removed, Err(AlterError::Silent(_))), "{removed:?}");
    }
    let renamed = server.rename_vdisk("a", "d").unwrap_err().to_string();
    assert!(renamed.contains("delete it again"), "{renamed}");
    assert_eq!(server.vdisks().len(), 2);

    drop(open);
    let _it_is_let_go = reading.join().unwrap();
    server.remove_vdisk("a").unwrap();
    assert_eq!((server.vdisks().len(), server.config().devices[0].vdisks.len()), (1, 1));
    assert_eq!(weights(&server), [b.contract.weight], "changes that failed are not made");
    server.alter_vdisk("disk", heavy).unwrap();
    assert_eq!(weights(&server), [7]);
    server.add_vdisk("disk", a).unwrap();
    assert!(connect(&server, 0).read(0, &mut [0; 512]).is_ok());
    server.shutdown().unwrap();
}

/// Two hundred and fifty-six clients that waited for a device that stood still had the desk wait, too: nobody
/// came to any other device.
#[test]
fn clients_of_a_device_that_stands_still_keep_nobody_from_others() {
    let directory = TempDir::new().unwrap();
    let mut text = format!(
        "[server]\nnbd = [\"unix:{}/nbd.sock\"]\n[[device]]\nname = \"good\"\nback_end = \"memory\"\n\
         [[device]]\nname = \"still\"\nback_end = \"memory\"\n\
         [[vdisk]]\nname = \"good\"\ndevice = \"good\"\nsize = \"1MiB\"\n",
        directory.path().display()
    );
    for at in 0..17 {
        text += &format!("[[vdisk]]\nname = \"{at}\"\ndevice = \"still\"\nsize = \"1MiB\"\n");
    }
    let (open, gate) = crossbeam_channel::bounded(0);
    let wrap: Wrap = Arc::new(move |at, inner| match at {
        0 => inner,
        _ => Box::new(Standing { inner, gate: gate.clone() }),
    });
    let server = Server::start_wrapped(shards::parse(&text).unwrap(), &wrap).unwrap();
    let mut first = connect(&server, 1);
    let reading = std::thread::spawn(move || first.read(0, &mut [0; 512]).is_ok());
    while server.watch(Watch::Busy)[1].is_some() {}
    let uris: Vec<_> = server.vdisks().iter().map(|vdisk| vdisk.uris()[0].clone()).collect();
    let (connected, count) = crossbeam_channel::bounded(1);
    std::thread::spawn(move || {
        let open = |uri: &String| Connection::open(&uri.parse::<Uri>().unwrap());
        let clients: Vec<_> = (0..272).filter_map(|at| open(&uris[1 + at % 17]).ok()).collect();
        let good = open(&uris[0]).is_ok_and(|mut good| good.read(0, &mut [0; 512]).is_ok());
        let _the_test_waits = connected.send((clients.len(), good));
    });
    let (clients, good) = count.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(clients > 256 && good, "{clients}");
    drop(open);
    let _it_is_let_go = reading.join().unwrap();
    server.shutdown().unwrap();
}

/// A change waited without end for a device that stood still, once 256 changes and clients waited for it, and with
/// it the API and SIGTERM.
#[test]
fn changes_of_a_device_that_stands_still_are_refused_and_do_not_keep_the_daemon_from_its_end() {
    let directory = TempDir::new().unwrap();
    let text = format!(
        "[server]\nnbd = [\"unix:{}/nbd.sock\"]\n[[device]]\nname = \"disk\"\nback_end = \"memory\"\n\
         [[vdisk]]\nname = \"a\"\ndevice = \"disk\"\nsize = \"1MiB\"\n\
         [[vdisk]]\nname = \"b0\"\ndevice = \"disk\"\nsize = \"1MiB\"\n",
        directory.path().display()
    );
    for ends_still in [false, true] {
        let (open, gate) = crossbeam_channel::bounded(0);
        let wrap: Wrap = Arc::new(move |_, inner| Box::new(Standing { inner, gate: gate.clone() }));
        let mut server = Server::start_wrapped(shards::parse(&text).unwrap(), &wrap).unwrap();
        let mut client = connect(&server, 0);
        let reading = std::thread::spawn(move || client.read(0, &mut [0; 512]).is_ok());
        while server.watch(Watch::Busy)[0].is_some() {}
        let other = text.replace("\"a\"\ndevice", "\"a\"\nweight = 7\ndevice");
        let (tell, told) = crossbeam_channel::bounded(1);
        let changes = std::thread::spawn(move || {
            // Renamings wait for no answer.
            let rename =
                |at: usize| server.rename_vdisk(&format!("b{at}"), &format!("b{}", at + 1));
            let (at, full) = (0..1000).map(rename).enumerate().find(|it| it.1.is_err()).unwrap();
            assert!(matches!(full, Err(AlterError::Deaf(_))), "{full:?}");
            assert_eq!(server.vdisks()[1].name, format!("b{at}"), "its old name stays");
            let said = full.unwrap_err().to_string();
            assert!(said.contains("device disk: its thread stands still"), "{said}");
            let vdisks = &server.config().devices[0].vdisks;
            let (a, new) =
                (vdisks[0].clone(), VdiskConfig { name: "new".to_owned(), ..vdisks[0].clone() });
            let altered = server.alter_vdisk("disk", a);
            let added = server.add_vdisk("disk", new).map(drop);
            let shrunk = server.shrink_vdisk(&format!("b{at}"), 4096);
            let removed = server.remove_vdisk("a");
            for refused in [altered, added, shrunk, removed] {
                assert!(matches!(refused, Err(AlterError::Deaf(_))), "{refused:?}");
            }
            let b = server.config().devices[0].vdisks[1].name.clone();
            let reloaded = server
                .reload(shards::parse(&other.replace("\"b0\"", &format!("\"{b}\""))).unwrap());
            assert!(matches!(reloaded, Err(ReloadError::Deaf(_))), "{reloaded:?}");
            assert_eq!(server.vdisks().len(), 2);
            tell.send(server).unwrap();
        });
        let server = told.recv_timeout(Duration::from_secs(60));
        let mut server = server.expect("no change waits for the device");
        changes.join().unwrap();
        if ends_still {
            let (tell, told) = crossbeam_channel::bounded(1);
            std::thread::spawn(move || tell.send(server.shutdown().is_ok()));
            assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(true));
            drop(open);
            let _it_is_let_go = reading.join().unwrap();
            continue;
        }
        drop(open);
        let _it_is_let_go = reading.join().unwrap();
        while server.watch(Watch::Busy)[0].is_none() {}
        server.remove_vdisk("a").unwrap();
        let b = server.config().devices[0].vdisks[0].clone();
        server.add_vdisk("disk", VdiskConfig { name: "new".to_owned(), ..b }).unwrap();
        server.shutdown().unwrap();
    }
}
