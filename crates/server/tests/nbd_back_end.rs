//! Servers as back ends: what they allow is kept to, and nothing they do hangs or breaks a shard.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

#[path = "../../client/tests/support/mod.rs"]
mod peer;
mod rig;

use std::path::Path;
use std::time::Duration;

use disktime_core::Kind;
use disktime_nbd::{BlockSizes, Command, ExportInfo, NbdError, TransmissionFlags};
use disktime_server::backend::{DeviceError, Export};
use disktime_server::{Config, Server};
use peer::{Conduct, TestServer};
use rig::{BLOCK, Random, Rig, size};

const MIB: u64 = 1 << 20;
const EIO: DeviceError = DeviceError(libc::EIO);

/// Two disks of half a MiB on a peer's export.
fn on(server: &TestServer, connections: Option<u32>) -> Rig {
    Rig::new(|_| {
        let export = Export::open(&server.uri, connections).unwrap();
        (Box::new(export.on_shard(&[(0, MIB / 2), (MIB / 2, MIB / 2)])), None)
    })
}

fn start(describe: fn(&mut ExportInfo)) -> TestServer {
    TestServer::start_as(Conduct::Honest, size(MIB), describe)
}

/// The requests that the peer has seen since it was asked last.
fn taken(server: &TestServer) -> Vec<Command> {
    server.taken.try_iter().map(|request| request.command).collect()
}

/// The peer refuses what isn't whole blocks, or is too long; so must nothing be.
#[test]
fn block_sizes_are_kept_to() {
    let server = start(|export| {
        export.block_sizes = BlockSizes::new(512, 4096, 8192).unwrap();
    });
    let mut rig = on(&server, Some(1));
    let can = rig.back_end.abilities();
    assert!(can.write && can.trim && !can.zero, "zeroes could end inside a block");
    let (mut random, mut model) = (Random(8), vec![0; size(MIB / 2)]);
    for _ in 0..150 {
        let (offset, bytes) = random.extent(MIB / 2, 100_000);
        let range = size(offset)..size(offset + bytes);
        match random.below(3) {
            0 => assert!(rig.read(0, offset, bytes).unwrap() == model[range]),
            1 => {
                rig.ask(0, Kind::Trim, offset, bytes).unwrap();
                model[range.clone()].copy_from_slice(&rig.read(0, offset, bytes).unwrap());
            }
            _ => {
                let data = random.bytes(bytes);
                rig.write(0, offset, &data).unwrap();
                model[range].copy_from_slice(&data);
            }
        }
    }
    assert!(server.memory.lock().unwrap()[..model.len()] == model);
    let asked: Vec<_> = server.taken.try_iter().collect();
    assert!(asked.iter().any(|request| request.length < 2 * BLOCK));
    assert!(
        asked
            .iter()
            .all(|request| { request.command == Command::Trim || request.length <= 2 * BLOCK })
    );
}

#[test]
fn a_server_is_asked_only_what_it_can_do() {
    let server = start(|export| {
        export.flags = export.flags.without(TransmissionFlags::FUA);
    });
    let mut rig = on(&server, None);
    let mut job = rig.writing(0, 5, b"durable");
    job.fua = true;
    rig.run(job).unwrap();
    assert_eq!(taken(&server), [Command::Write, Command::Flush], "its write alone isn't durable");

    let server = start(|_| {});
    let mut rig = on(&server, None);
    let mut job = rig.writing(0, 5, b"durable");
    job.fua = true;
    rig.run(job).unwrap();
    assert_eq!(taken(&server), [Command::Write]);

    let server = start(|export| {
        export.flags = TransmissionFlags::EMPTY;
    });
    // Which is warned about at start-up.
    assert!(!Export::open(&server.uri, None).unwrap().can_flush());
    let mut rig = on(&server, None);
    let can = rig.back_end.abilities();
    assert!(can.write && !can.trim && !can.zero);
    rig.ask(0, Kind::Flush, 0, 0).unwrap();
    assert_eq!(taken(&server), [], "it holds nothing back");

    let server = start(|export| export.flags = TransmissionFlags::READ_ONLY);
    let mut rig = on(&server, None);
    assert!(!rig.back_end.abilities().write);
    assert_eq!(rig.write(0, 0, b"x"), Err(DeviceError(libc::EROFS)));
    assert_eq!(rig.read(1, 0, 1), Ok(vec![0]));
}

#[test]
fn exports_that_are_no_device_are_refused() {
    let error = |describe: fn(&mut ExportInfo), connections| {
        let server = start(describe);
        Export::open(&server.uri, connections).err().unwrap().to_string()
    };
    let text = error(|export| export.size_bytes = 4095, None);
    assert!(text.contains("4095 bytes: at least 4096"), "{text}");
    let text =
        error(|export| export.block_sizes = BlockSizes::new(65_536, 65_536, 65_536).unwrap(), None);
    assert!(text.contains("65536 bytes: at most 4096"), "{text}");
    let text = error(|export| export.block_sizes = BlockSizes::new(1, 512, 512).unwrap(), None);
    assert!(text.contains("512 bytes: 4096 are needed"), "{text}");
    let text = error(|_| {}, Some(2));
    assert!(text.contains("connections = 2") && text.contains("MULTI_CONN"), "{text}");
}

/// Replies in any order and in pieces are replies.
#[test]
fn odd_but_honest_servers_are_understood() {
    for conduct in [Conduct::Backwards(8), Conduct::Pieces] {
        let server = TestServer::start(conduct, size(MIB));
        let mut rig = on(&server, None);
        let data = Random(2).bytes(8 * 5000);
        for (at, part) in (0u64..).zip(data.chunks(5000)) {
            let job = rig.writing(1, 333 + at * 5000, part);
            rig.start(job);
        }
        rig.settle();
        let names: Vec<_> = (0..8)
            .map(|at| {
                let job = rig.job(1, Kind::Read, 333 + at * 5000, 5000);
                rig.start(job)
            })
            .collect();
        rig.settle();
        for (id, part) in names.iter().zip(data.chunks(5000)) {
            let (job, result) = &rig.done[id];
            assert!(result.is_ok() && rig::got(job) == part, "{conduct:?}");
        }
    }
}

/// Jobs end whatever comes back, with an error where there was no honest reply.
#[test]
fn nonsense_ends_in_errors() {
    for conduct in [
        Conduct::Fails(NbdError::Io),
        Conduct::ClosesMidReply,
        Conduct::UnknownCookie,
        Conduct::Garbage,
        Conduct::AnswersTwice,
    ] {
        let server = TestServer::start(conduct, size(MIB));
        let mut rig = on(&server, None);
        for round in 0..3 {
            for kind in [Kind::Read, Kind::Write, Kind::Flush, Kind::Zeroes, Kind::Trim] {
                let bytes = if kind == Kind::Flush { 0 } else { 9000 };
                let job = rig.job(0, kind, 0, bytes);
                rig.start(job);
            }
            rig.settle();
            for (job, result) in std::mem::take(&mut rig.done).into_values() {
                let luck = conduct == Conduct::AnswersTwice && round == 0;
                assert!(luck || *result.as_ref().unwrap_err() == EIO, "{conduct:?} {:?}", job.kind);
            }
        }
    }
    let server = TestServer::start(Conduct::Fails(NbdError::NoSpace), size(MIB));
    let mut rig = on(&server, None);
    assert_eq!(rig.write(0, 0, b"x"), Err(DeviceError(libc::ENOSPC)), "its word for it");
    for conduct in [Conduct::ShortGreeting, Conduct::GarbageGreeting] {
        let server = TestServer::start(conduct, size(MIB));
        assert!(Export::open(&server.uri, None).is_err(), "{conduct:?}");
    }
    let server = TestServer::start(Conduct::Hasty, size(MIB));
    assert!(Export::open(&server.uri, None).is_err());
}

/// A server that takes requests and says nothing is left, and its requests fail.
#[test]
fn silence_ends_too() {
    let server = TestServer::start(Conduct::Silent, size(MIB));
    let mut rig = Rig::new(|_| {
        let export = Export::open(&server.uri, None).unwrap();
        let export = export.with_timeout(Duration::from_millis(120));
        (Box::new(export.on_shard(&[(0, MIB)])), None)
    });
    for at in 0..300 {
        let job = rig.job(0, Kind::Read, at * 512, 512);
        rig.start(job);
    }
    rig.settle();
    assert!(rig.done.values().all(|(_, result)| *result == Err(EIO)));
}

/// A server that was restarted failed the requests of its restart, where its clients could have waited.
#[test]
fn requests_are_held_while_the_server_is_gone() {
    let hold = Duration::from_millis(600);
    let mut rig = Rig::new(|directory| {
        let server = daemon(directory);
        let export = Export::open(&server.vdisks()[0].uris()[0].parse().unwrap(), None).unwrap();
        let export = export.with_hold(Some(Duration::from_secs(60)));
        (Box::new(export.on_shard(&[(0, MIB / 2), (MIB / 2, MIB / 2)])), Some(server))
    });
    rig.write(0, 0, b"before").unwrap();
    rig.server.take().unwrap().shutdown().unwrap();
    let (read, write) = (rig.job(0, Kind::Read, 0, 6), rig.writing(1, 0, b"meanwhile"));
    let names = [rig.start(read), rig.start(write)];
    for _ in 0..5 {
        rig.turn(Duration::from_millis(20));
    }
    assert!(names.iter().all(|name| !rig.done.contains_key(name)), "they wait");
    let anew = |name: &u32| rig.back_end.begins_anew(&rig.jobs[name]);
    assert!(names.iter().all(anew), "the server that is gone has done nothing of them");
    rig.server = Some(daemon(rig.directory.path()));
    rig.settle();
    assert!(names.iter().all(|name| rig.done[name].1.is_ok()));
    assert_eq!(rig::got(&rig.done[&names[0]].0), b"before");
    assert_eq!(rig.read(1, 0, 9).unwrap(), b"meanwhile");
    assert_eq!(rig.back_end.lost(), Some(0), "what was not flushed may be gone all the same");

    // A server that stays away fails them in the end.
    let mut rig = Rig::new(|directory| {
        let server = daemon(directory);
        let export = Export::open(&server.vdisks()[0].uris()[0].parse().unwrap(), None).unwrap();
        (Box::new(export.with_hold(Some(hold)).on_shard(&[(0, MIB)])), Some(server))
    });
    rig.server.take().unwrap().shutdown().unwrap();
    let read = rig.job(0, Kind::Read, 0, 6);
    let name = rig.start(read);
    rig.turn(Duration::from_millis(20));
    assert!(!rig.done.contains_key(&name));
    rig.settle();
    assert_eq!(rig.done[&name].1, Err(EIO));
}

/// nbdkit answers ESHUTDOWN on its connections once it is told to end: each of its restarts failed requests
/// that were to be held.
#[test]
fn a_request_that_a_server_refuses_because_it_shuts_down_is_held() {
    let held = |conduct, hold| {
        let server = TestServer::start(conduct, size(MIB));
        let mut rig = Rig::new(|_| {
            let export = Export::open(&server.uri, None).unwrap();
            let export = export.with_timeout(Duration::from_millis(120)).with_hold(hold);
            (Box::new(export.on_shard(&[(0, MIB)])), None)
        });
        let written = rig.write(0, 512, b"data");
        (written, server.memory.lock().unwrap()[512..516].to_vec())
    };
    let minute = Some(Duration::from_secs(60));
    assert_eq!(held(Conduct::ShutsDown, minute), (Ok(()), b"data".to_vec()));
    assert_eq!(held(Conduct::ShutsDown, None).0, Err(EIO), "nothing is held");
    let shortly = Some(Duration::from_millis(120));
    let never = Conduct::Fails(NbdError::Shutdown);
    assert_eq!(held(never, shortly).0, Err(EIO), "it never comes back");
}

/// A request that is asked elsewhere while the server that shuts down still carries it out could bring old bytes over
/// newer ones.
#[test]
fn a_server_that_shuts_down_finishes_what_it_has_taken() {
    let server = TestServer::start(Conduct::Finishes, size(MIB));
    let mut rig = Rig::new(|_| {
        let export = Export::open(&server.uri, None).unwrap();
        let export = export.with_hold(Some(Duration::from_secs(60)));
        (Box::new(export.on_shard(&[(0, MIB)])), None)
    });
    for (offset, data) in [(0, b"taken"), (4096, b"moved")] {
        let job = rig.writing(0, offset, data);
        rig.start(job);
    }
    rig.settle();
    assert!(rig.done.values().all(|(_, result)| result.is_ok()));
    let offsets: Vec<_> = server.taken.try_iter().map(|request| request.offset).collect();
    assert_eq!(offsets, [0, 4096, 4096]);
    let memory = server.memory.lock().unwrap();
    assert_eq!((&memory[..5], &memory[4096..4101]), (&b"taken"[..], &b"moved"[..]));
}

/// A server that takes connections and never answers held its requests for ever.
#[test]
fn silence_ends_while_requests_are_held_too() {
    let server = TestServer::start(Conduct::Silent, size(MIB));
    let mut rig = Rig::new(|_| {
        let export = Export::open(&server.uri, None).unwrap();
        let export = export.with_timeout(Duration::from_millis(120));
        let export = export.with_hold(Some(Duration::from_millis(120)));
        (Box::new(export.on_shard(&[(0, MIB)])), None)
    });
    let read = rig.job(0, Kind::Read, 0, 512);
    let name = rig.start(read);
    rig.settle();
    assert_eq!(rig.done[&name].1, Err(EIO));
}

/// An export that became larger failed all requests from its server's restart on.
#[test]
fn an_export_that_comes_back_larger_is_used_on() {
    let mut rig = Rig::new(|directory| {
        let server = daemon(directory);
        let export = Export::open(&server.vdisks()[0].uris()[0].parse().unwrap(), None).unwrap();
        let export = export.with_hold(Some(Duration::from_secs(60)));
        (Box::new(export.on_shard(&[(0, MIB)])), Some(server))
    });
    rig.write(0, 0, b"before").unwrap();
    rig.server.take().unwrap().shutdown().unwrap();
    rig.server = Some(daemon_of("2MiB", rig.directory.path()));
    assert_eq!(rig.read(0, 0, 6).unwrap(), b"before");
}

fn daemon(directory: &Path) -> Server {
    daemon_of("1MiB", directory)
}

fn daemon_of(size: &str, directory: &Path) -> Server {
    let text = "[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n[[device]]\nname = \"d\"\n\
                back_end = \"file:DIRECTORY/disks\"\ncreate = true\nqueue_depth = 8\n\
                [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"SIZE\"\nreserve = \"50%\"\n";
    let text = text.replace("DIRECTORY", directory.to_str().unwrap()).replace("SIZE", size);
    Server::start(Config::parse(&text).unwrap()).unwrap()
}

/// The server goes away and comes back. Meanwhile everything fails at once; afterwards everything
/// is served again, but what was written and not flushed before may be gone, and that is told once.
#[test]
fn a_server_that_went_away_is_found_again() {
    let mut rig = Rig::new(|directory| {
        let server = daemon(directory);
        let export = Export::open(&server.vdisks()[0].uris()[0].parse().unwrap(), None).unwrap();
        (Box::new(export.on_shard(&[(0, MIB / 2), (MIB / 2, MIB / 2)])), Some(server))
    });
    rig.write(0, 0, b"flushed").unwrap();
    rig.ask(0, Kind::Flush, 0, 0).unwrap();
    assert_eq!(rig.back_end.lost(), None);
    rig.write(1, 0, b"not flushed").unwrap();
    rig.server.take().unwrap().shutdown().unwrap();
    assert_eq!(rig.read(0, 0, 7), Err(EIO));
    assert_eq!(rig.write(0, 0, b"x"), Err(EIO));
    rig.server = Some(daemon(rig.directory.path()));
    for round in 0.. {
        rig.turn(Duration::from_millis(100));
        match rig.read(0, 0, 7) {
            Ok(data) => {
                assert_eq!(data, b"flushed");
                break;
            }
            Err(error) => assert!(error == EIO && round < 300),
        }
    }
    assert_eq!((rig.back_end.lost(), rig.back_end.lost()), (Some(0), None));
    assert_eq!(rig.ask(1, Kind::Flush, 0, 0), Ok(()));
    rig.write(1, 0, b"again").unwrap();
    assert_eq!(rig.read(1, 0, 5).unwrap(), b"again");
}
