//! The contract of back ends, run for each kind of them and for the wrappers.
//!
//! A new back end is one function and one line in [`KINDS`].
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod rig;

use std::path::Path;
use std::time::Duration;

use crossbeam_channel::Receiver;
use disktime_core::Kind;
use disktime_server::backend::delayed::Delayed;
use disktime_server::backend::faulty::{Fault, Faulty};
use disktime_server::backend::traced::{Seen, Traced};
use disktime_server::backend::{
    BackEnd, DeviceError, Export, FileBackEnd, MemoryBackEnd, OneFile, PoolDirectory, TwoTiers,
};
use disktime_server::{Config, Server};
use rig::{BLOCK, Random, Rig, size};
use tempfile::TempDir;

/// Two disks of odd sizes, side by side where a kind has extents.
const SIZES: [u64; 2] = [(1 << 20) + 1536, 700_000];
const BASES: [u64; 2] = [0, 2 << 20];
const DEVICE: u64 = 4 << 20;
/// Longest request of the random tests: several chunks of every striped kind.
const REQUEST_MAX: u64 = 300_000;

/// A back end of each kind, with what must live as long.
type Make = fn(&Path) -> (Box<dyn BackEnd>, Option<Server>);

const KINDS: &[(&str, Make)] = &[
    ("memory", |_| (memory(), None)),
    ("files", |directory| {
        let disks = [("a", SIZES[0]), ("b", SIZES[1])];
        let pool = PoolDirectory::make(&directory.join("disks")).unwrap();
        (Box::new(pool.back_end(&disks).unwrap()), None)
    }),
    ("extents", |directory| {
        let path = directory.join("image");
        std::fs::File::create(&path).unwrap().set_len(DEVICE).unwrap();
        let file = OneFile::open(&path).unwrap().unwrap();
        (Box::new(FileBackEnd::extents(&file, &extents())), None)
    }),
    ("raid0 of 2 by 64 KiB", |directory| (raid0(directory, 2, 64 << 10), None)),
    ("raid0 of 3 by 4 KiB", |directory| (raid0(directory, 3, 4 << 10), None)),
    ("raid0 of 2 by 1 MiB", |directory| (raid0(directory, 2, 1 << 20), None)),
    ("tiered", |directory| (tiered(directory, true), None)),
    ("tiered, nothing moves", |directory| (tiered(directory, false), None)),
    ("nbd", |directory| nbd(directory, "back_end = \"memory\"", None)),
    ("nbd, one TCP connection, a file", |directory| {
        let device = "back_end = \"file:DIRECTORY/disks\"\ncreate = true\nqueue_depth = 8";
        nbd(directory, device, Some(1))
    }),
    ("faulty without faults", |_| (Box::new(Faulty::new(memory(), Vec::new())), None)),
    ("delayed", |_| (Box::new(Delayed::new(memory(), Duration::from_micros(50))), None)),
    ("delayed raid0", |directory| {
        let inner = raid0(directory, 3, 8 << 10);
        (Box::new(Delayed::new(inner, Duration::from_micros(20))), None)
    }),
    ("traced", |directory| {
        let (seen, _nobody) = crossbeam_channel::bounded(1);
        let (inner, server) = nbd(directory, "back_end = \"memory\"", Some(2));
        (Box::new(Traced::new(inner, seen)), server)
    }),
];

fn memory() -> Box<dyn BackEnd> {
    Box::new(MemoryBackEnd::new(&SIZES))
}

fn extents() -> Vec<(u64, u64)> {
    BASES.into_iter().zip(SIZES).collect()
}

/// Members of different sizes: the smallest counts.
fn raid0(directory: &Path, members: u64, chunk: u64) -> Box<dyn BackEnd> {
    let path = |member| directory.join(format!("member-{member}"));
    let paths: Vec<_> = (0..members).map(path).collect();
    for (at, path) in (0..).zip(&paths) {
        let len = (DEVICE / members).next_multiple_of(chunk) + at * chunk + 512;
        std::fs::File::create(path).unwrap().set_len(len).unwrap();
    }
    let file = OneFile::striped(&paths, chunk).unwrap();
    assert!(file.size >= DEVICE && file.size < DEVICE + members * chunk, "{}", file.size);
    Box::new(FileBackEnd::extents(&file, &extents()))
}

/// Three extents have data, the fast tier has room for two.
fn tiered(directory: &Path, promotes: bool) -> Box<dyn BackEnd> {
    let [fast, slow] = ["fast", "slow"].map(|name| directory.join(name));
    std::fs::File::create(&fast).unwrap().set_len((3 << 20) + 512).unwrap();
    std::fs::File::create(&slow).unwrap().set_len(DEVICE + 512).unwrap();
    let tiers = TwoTiers::open(&fast, &slow, None).unwrap();
    assert_eq!(tiers.size(), DEVICE);
    Box::new(tiers.on_shard(&extents(), promotes))
}

/// A daemon of ours, and its export as a device.
fn nbd(
    directory: &Path,
    device: &str,
    connections: Option<u32>,
) -> (Box<dyn BackEnd>, Option<Server>) {
    let text = format!(
        "[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\", \"tcp:127.0.0.1:0\"]\n[[device]]\nname = \"d\"\n{device}\n\
         [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"4MiB\"\nreserve = \"50%\"\n"
    );
    let text = text.replace("DIRECTORY", directory.to_str().unwrap());
    let server = Server::start(Config::parse(&text).unwrap()).unwrap();
    let uris = server.vdisks()[0].uris();
    let uri = if connections == Some(1) { uris.last() } else { uris.first() };
    let export = Export::open(&uri.unwrap().parse().unwrap(), connections).unwrap();
    assert_eq!(export.size(), DEVICE);
    (Box::new(export.on_shard(&extents())), Some(server))
}

/// Runs a test for each kind, and says which one failed.
fn each(test: impl Fn(&mut Rig)) {
    for (name, make) in KINDS {
        let mut rig = Rig::new(make);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut rig)));
        assert!(outcome.is_ok(), "back end `{name}` failed: its panic is above");
        assert!(rig.jobs.is_empty(), "{name}: everything has ended");
    }
}

/// Random writes, zeroes and trims of any shape on two disks, against a model in memory.
#[test]
fn written_bytes_are_read() {
    each(|rig| {
        let can = rig.back_end.abilities();
        assert!(can.write);
        let mut random = Random(11);
        let mut models = SIZES.map(|len| vec![0; size(len)]);
        for round in 0..250u32 {
            let disk = random.below(2);
            let len = SIZES[size(disk)];
            let (offset, bytes) = random.extent(len, REQUEST_MAX);
            let range = size(offset)..size(offset + bytes);
            let model = &mut models[size(disk)];
            let disk = u32::try_from(disk).unwrap();
            match random.below(8) {
                0..=2 => {
                    let data = random.bytes(bytes);
                    let mut job = rig.writing(disk, offset, &data);
                    job.fua = round.is_multiple_of(7);
                    rig.run(job).unwrap();
                    model[range].copy_from_slice(&data);
                }
                3 if can.zero => {
                    let mut job = rig.job(disk, Kind::Zeroes, offset, bytes);
                    (job.no_hole, job.fua) = (round.is_multiple_of(2), round.is_multiple_of(3));
                    rig.run(job).unwrap();
                    model[range].fill(0);
                }
                4 if can.trim => {
                    // Trimmed bytes may read as anything; their neighbours as before.
                    rig.ask(disk, Kind::Trim, offset, bytes).unwrap();
                    let now = rig.read(disk, offset, bytes).unwrap();
                    assert_eq!(
                        now,
                        rig.read(disk, offset, bytes).unwrap(),
                        "and not as two things"
                    );
                    model[range].copy_from_slice(&now);
                }
                5 if round.is_multiple_of(5) => rig.ask(disk, Kind::Flush, 0, 0).unwrap(),
                _ => assert!(
                    rig.read(disk, offset, bytes).unwrap() == model[range],
                    "{offset}+{bytes}"
                ),
            }
        }
        for (disk, model) in (0..).zip(&models) {
            assert!(rig.read(disk, 0, model.len() as u64).unwrap() == *model, "disk {disk}");
        }
    });
}

/// Back ends knew the disks of their start alone. One that keeps each disk in a file of its own can't
/// make a file on the shard, and must refuse rather than put the disk over another one.
#[test]
fn a_disk_that_comes_later_has_its_own_bytes_until_it_goes() {
    const LATER: u32 = 5;
    let extent = 3 << 20..(3 << 20) + 600_000;
    each(|rig| {
        (0..2).for_each(|disk| rig.write(disk, 0, &[7; 6000]).unwrap());
        match rig.back_end.add_disk(LATER, extent.clone()) {
            Ok(()) => {}
            Err(error) => return assert_eq!(error, DeviceError(libc::EOPNOTSUPP)),
        }
        rig.write(LATER, 500, &[9; 6000]).unwrap();
        assert_eq!(rig.read(LATER, 500, 6000).unwrap(), [9; 6000]);
        let beyond = rig.ask(LATER, Kind::Read, 600_000 / BLOCK * BLOCK, 2 * BLOCK);
        assert_eq!(beyond, Err(DeviceError(libc::EINVAL)));
        (0..2).for_each(|disk| assert_eq!(rig.read(disk, 0, 6000).unwrap(), [7; 6000]));
        rig.back_end.remove_disk(LATER);
        let gone = rig.ask(LATER, Kind::Read, 0, 512);
        assert_eq!(gone, Err(DeviceError(libc::EINVAL)));
        rig.back_end.add_disk(LATER, extent.clone()).unwrap();
        assert!(rig.read(LATER, 500, 6000).is_ok());
    });
    let refuses = |(_, make): &&(&str, Make)| {
        Rig::new(make).back_end.add_disk(LATER, extent.clone()).is_err()
    };
    let refuse: Vec<_> = KINDS.iter().filter(refuses).map(|(name, _)| *name).collect();
    assert_eq!(refuse, ["files"]);
}

/// Two hundred writes of odd lengths at once, none over another but many in the same blocks: no
/// block that one reads, changes and writes back undoes another's bytes.
#[test]
fn writes_in_the_same_blocks_at_once_keep_all_bytes() {
    each(|rig| {
        let mut random = Random(5);
        let (mut at, mut model, mut jobs) = (100u64, vec![0; 200_000], Vec::new());
        for _ in 0..200 {
            let (bytes, gap) = (1 + random.below(900), random.below(30));
            let data = random.bytes(bytes);
            model[size(at)..size(at + bytes)].copy_from_slice(&data);
            jobs.push(rig.writing(0, at, &data));
            at += bytes + gap;
        }
        while !jobs.is_empty() {
            let job = jobs.swap_remove(size(random.below(jobs.len() as u64)));
            rig.start(job);
        }
        rig.settle();
        assert!(rig.done.values().all(|(_, result)| result.is_ok()));
        assert!(rig.read(0, 0, 200_000).unwrap() == model);
    });
}

/// Overlapping writes one after the other: the later one is read. At once: each byte is one of
/// theirs.
#[test]
fn the_last_of_overlapping_writes_counts() {
    each(|rig| {
        for (offset, shift) in [(0, 1000), (65_000, 700), (61_440, 4096)] {
            rig.write(0, offset, &[1; 9000]).unwrap();
            rig.write(0, offset + shift, &[2; 3000]).unwrap();
            let data = rig.read(0, offset, 9000).unwrap();
            let inner = size(shift)..size(shift) + 3000;
            assert!(data[inner.clone()].iter().all(|byte| *byte == 2));
            let outside = data[..inner.start].iter().chain(&data[inner.end..]);
            assert!(outside.into_iter().all(|byte| *byte == 1));
        }
        for value in 3..9u8 {
            let job = rig.writing(0, 4000 + u64::from(value), &[value; 70_000]);
            rig.start(job);
        }
        rig.settle();
        let data = rig.read(0, 4008, 69_000).unwrap();
        assert!(data.iter().all(|byte| (3..9).contains(byte)));
    });
}

#[test]
fn out_of_range_is_refused_and_nothing_changes() {
    each(|rig| {
        for (disk, len) in [(0, SIZES[0]), (1, SIZES[1])] {
            rig.write(disk, len - 3000, &[9; 3000]).unwrap();
        }
        // Up to the end of the last block nobody else's bytes are.
        let ends = SIZES.map(|len| len.next_multiple_of(BLOCK));
        for kind in [Kind::Read, Kind::Write, Kind::Zeroes, Kind::Trim] {
            for (offset, bytes) in
                [(ends[0], 1), (ends[0] - 1, 2), (0, ends[0] + 512), (1 << 40, 4096), (u64::MAX, 2)]
            {
                let refused = rig.ask(0, kind, offset, bytes);
                assert_eq!(refused, Err(DeviceError(libc::EINVAL)), "{kind:?} {offset}+{bytes}");
            }
        }
        for (disk, len) in [(0, SIZES[0]), (1, SIZES[1])] {
            assert_eq!(rig.read(disk, len - 3000, 3000).unwrap(), [9; 3000]);
        }
        assert!(rig.read(1, 0, 4096).unwrap().iter().all(|byte| *byte == 0));
    });
}

/// A thousand jobs of all kinds at once: each ends once, and the ring has nothing left of them.
#[test]
fn everything_asked_ends_once() {
    each(|rig| {
        let idle = {
            rig.ask(0, Kind::Flush, 0, 0).unwrap();
            rig.ring.pending()
        };
        let (can, mut random) = (rig.back_end.abilities(), Random(3));
        let kinds = [Kind::Read, Kind::Write, Kind::Flush, Kind::Zeroes, Kind::Trim];
        let kinds = &kinds[..if can.zero && can.trim { 5 } else { 3 }];
        for _ in 0..1000 {
            let (offset, bytes) = random.extent(SIZES[1], REQUEST_MAX);
            let kind = kinds[size(random.below(kinds.len() as u64))];
            let bytes = if kind == Kind::Flush { 0 } else { bytes.min(20_000) };
            let job = rig.job(1, kind, if bytes == 0 { 0 } else { offset }, bytes);
            rig.start(job);
        }
        rig.settle();
        assert_eq!(rig.done.len(), 1000);
        assert!(rig.done.values().all(|(_, result)| result.is_ok()));
        // A server's last send may still be on its way to us.
        assert!(rig.ring.pending() <= idle + 5, "{} > {idle}", rig.ring.pending());
    });
}

/// Faults in front of every kind: the jobs that are meant fail with their error, no others do.
#[test]
fn an_error_is_of_the_job_that_met_it() {
    for (name, make) in KINDS {
        let fault = |kind, extent, every, error| Fault {
            disk: 0,
            kind,
            extent,
            every,
            error: DeviceError(error),
        };
        let faults = vec![
            fault(Kind::Read, 8192..12_288, 1, libc::EIO),
            fault(Kind::Write, 0..u64::MAX, 3, libc::ENOSPC),
            fault(Kind::Flush, 0..0, 2, libc::EIO),
        ];
        let mut rig = Rig::new(|directory| {
            let (inner, server) = make(directory);
            (Box::new(Faulty::new(inner, faults)), server)
        });
        assert_eq!(rig.read(0, 12_287, 1), Err(DeviceError(libc::EIO)), "{name}");
        assert_eq!(rig.read(0, 12_288, 1), Ok(vec![0]), "{name}");
        assert_eq!(rig.read(1, 12_287, 1), Ok(vec![0]), "{name}: another disk");
        let writes: Vec<_> = (0..7).map(|_| rig.write(0, 0, b"x").is_ok()).collect();
        assert_eq!(writes, [true, true, false, true, true, false, true], "{name}");
        let flushes: Vec<_> = (0..4).map(|_| rig.ask(0, Kind::Flush, 0, 0).is_ok()).collect();
        assert_eq!(flushes, [true, false, true, false], "{name}");
        assert_eq!(rig.read(0, 0, 1), Ok(vec![b'x']), "{name}");
    }
}

/// The operations that reach a device behind a trace, in their order.
fn seen(trace: &Receiver<Seen>) -> Vec<(Kind, u64, bool)> {
    trace.try_iter().map(|seen| (seen.kind, seen.offset, seen.end.is_some())).collect()
}

#[test]
fn a_trace_has_each_begin_and_end_and_a_delay_is_before_both() {
    let (sender, trace) = crossbeam_channel::bounded(100);
    let mut rig = Rig::new(|directory| {
        let traced = Traced::new(raid0(directory, 2, 64 << 10), sender);
        (Box::new(Delayed::new(Box::new(traced), Duration::from_millis(30))), None)
    });
    let job = rig.writing(0, 60_000, &[1; 10_000]);
    let start = disktime_server::clock::now();
    rig.start(job);
    assert_eq!(seen(&trace), [], "still waiting");
    rig.settle();
    let took = disktime_server::clock::now().since(start);
    assert!(took.as_nanos() >= 29_000_000, "{took:?}");
    rig.ask(0, Kind::Flush, 0, 0).unwrap();
    let write = |end| (Kind::Write, 60_000, end);
    let flush = |end| (Kind::Flush, 0, end);
    assert_eq!(seen(&trace), [write(false), write(true), flush(false), flush(true)]);
}

/// A member that can't do it fails the piece that needs it, once; pieces on others go on.
#[test]
fn a_striped_device_with_a_bad_member_fails_what_touches_it() {
    let mut rig = Rig::new(|directory| {
        let paths = [directory.join("good"), directory.join("short")];
        for path in &paths {
            std::fs::File::create(path).unwrap().set_len(DEVICE / 2).unwrap();
        }
        let file = OneFile::striped(&paths, 64 << 10).unwrap();
        // It loses its second half behind our back: reads there find nothing.
        let short = std::fs::OpenOptions::new().write(true).open(&paths[1]).unwrap();
        short.set_len(DEVICE / 4).unwrap();
        (Box::new(FileBackEnd::extents(&file, &[(0, DEVICE)])), None)
    });
    let chunk = 64 << 10;
    assert!(rig.read(0, 0, 4 * chunk).is_ok());
    let late = DEVICE / 2;
    assert!(rig.read(0, late, chunk).is_ok(), "on the good member");
    assert_eq!(rig.read(0, late + chunk, chunk), Err(DeviceError(libc::EIO)));
    assert_eq!(rig.read(0, late, 2 * chunk), Err(DeviceError(libc::EIO)), "one of its two parts");
    assert!(rig.read(0, late, chunk).is_ok(), "and goes on");
}

#[test]
fn members_are_named_where_they_are_wrong() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a"), [0; 70_000]).unwrap();
    std::fs::write(path("b"), [0; 5_000]).unwrap();
    for (second, says) in [
        ("b", "b: it has 5000 bytes, less than a chunk"),
        ("none", "none: a member is a regular file or a block device"),
        (".", ".: a member is a regular file or a block device"),
        ("a", "another device of this configuration or another server has it open"),
    ] {
        let error = OneFile::striped(&[path("a"), path(second)], 64 << 10).err().unwrap();
        assert!(error.to_string().contains(says), "{error}");
    }
}
