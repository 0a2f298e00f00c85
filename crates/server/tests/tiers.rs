//! Two tiers: what moves, what a crash at any time leaves, what is refused.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod rig;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use disktime_core::{Kind, Tier};
use disktime_model::Op;
use disktime_server::backend::faulty::{Fault, Faulty, OwnFault};
use disktime_server::backend::{BackEnd, DeviceError, TwoTiers};
use rig::{BLOCK, Random, Rig, got, size};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// Extents of the slow tier.
const EXTENTS: u64 = 6;
/// The map, and three slots.
const FAST: u64 = 4 * MIB;

fn paths(directory: &Path) -> [PathBuf; 2] {
    ["fast", "slow"].map(|name| directory.join(name))
}

fn create(directory: &Path) {
    let [fast, slow] = paths(directory);
    File::create(fast).unwrap().set_len(FAST).unwrap();
    File::create(slow).unwrap().set_len(EXTENTS * MIB).unwrap();
}

fn open(directory: &Path) -> Box<dyn BackEnd> {
    let [fast, slow] = paths(directory);
    let tiers = TwoTiers::open(&fast, &slow, None).unwrap();
    Box::new(tiers.on_shard(&[(0, MIB), (MIB, (EXTENTS - 1) * MIB)], true))
}

/// Disk 0 is the first extent, disk 1 the others; migrations' disk is the third.
fn rig() -> Rig {
    Rig::new(|directory| {
        create(directory);
        (open(directory), None)
    })
}

/// Where a read of the device would go.
fn parts(rig: &Rig, kind: Kind, offset: u64, bytes: u64) -> Vec<(Tier, Kind, u64, u64)> {
    let mut parts = Vec::new();
    rig.back_end.parts(Op { kind, offset, bytes, fua: false }, &mut parts);
    parts.iter().map(|(tier, op)| (*tier, op.kind, op.offset, op.bytes)).collect()
}

fn on_fast(rig: &Rig) -> Vec<u64> {
    let fast = |extent: &u64| parts(rig, Kind::Read, extent * MIB, 512)[0].0 == Tier::Fast;
    (0..EXTENTS).filter(fast).collect()
}

/// Asks for an extent of disk 1 so many times.
fn heat(rig: &mut Rig, extent: u64, times: u32) {
    for _ in 0..times {
        rig.read(1, (extent - 1) * MIB + 512, 512).unwrap();
    }
    rig.rest();
}

#[test]
fn a_hot_extent_is_promoted_and_the_coldest_makes_room() {
    let mut rig = rig();
    heat(&mut rig, 2, 3);
    assert_eq!((on_fast(&rig), rig.moved), (vec![], 0));
    for extent in [2, 3, 4] {
        heat(&mut rig, extent, 4);
    }
    assert_eq!((on_fast(&rig), rig.moved), (vec![2, 3, 4], 3));
    heat(&mut rig, 3, 5);
    heat(&mut rig, 4, 5);
    // As often as twice the coldest, and four more; and then it stays.
    heat(&mut rig, 1, 17);
    assert_eq!(rig.moved, 3);
    heat(&mut rig, 1, 3);
    assert_eq!((on_fast(&rig), rig.moved), (vec![1, 3, 4], 5), "one there, one back");
    heat(&mut rig, 2, 3);
    assert_eq!(rig.moved, 5);
}

#[test]
fn parts_of_an_operation_are_where_their_extents_are() {
    let mut rig = rig();
    heat(&mut rig, 3, 4);
    let (fast, slow, read) = (Tier::Fast, Tier::Slow, Kind::Read);
    let all = parts(&rig, read, MIB / 2, 4 * MIB);
    let after = (slow, read, 4 * MIB, MIB / 2);
    assert_eq!(all, [(slow, read, MIB / 2, 5 * MIB / 2), (fast, read, 0, MIB), after]);
    assert_eq!(parts(&rig, read, 3 * MIB + 512, 512), [(fast, read, 512, 512)]);
    let flush = |tier| (tier, Kind::Flush, 0, 0);
    assert_eq!(parts(&rig, Kind::Flush, 0, 0), [flush(fast), flush(slow)]);
    // A client's request to cache is no migration.
    assert_eq!(parts(&rig, Kind::Cache, MIB, 512), [(slow, Kind::Cache, MIB, 512)]);
    rig.ask(1, Kind::Cache, 0, MIB).unwrap();
    assert_eq!(on_fast(&rig), [3]);
}

/// A block's contents: its number, as often as it fits.
fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(size(BLOCK) / 8)
}

/// Contents of both tiers, what was acknowledged by then in each block, and what was not yet.
struct Crash {
    tiers: [Vec<u8>; 2],
    acknowledged: Vec<u64>,
    under_way: BTreeMap<u64, u64>,
}

/// Blocks are written at random, mostly in an extent or two that change, so that extents move all
/// the time; now and then the daemon is killed: what is in the files then is all there is. All
/// acknowledged data are read after a restart.
#[test]
fn a_crash_at_any_time_loses_nothing_that_was_acknowledged() {
    let mut rig = rig();
    let directory = rig.directory.path().to_owned();
    let blocks = (EXTENTS - 1) * MIB / BLOCK;
    let (mut random, mut crashes) = (Random(7), Vec::new());
    let mut acknowledged = vec![0; size(blocks)];
    // By block: the job that writes it, and what.
    let mut under_way = BTreeMap::<u64, (u32, u64)>::new();
    for number in 1..6000 {
        let hot = number / 300 * 7 + random.below(2);
        let extent = if random.below(8) == 0 { random.next() } else { hot } % (EXTENTS - 1);
        let at = extent * MIB / BLOCK + random.below(MIB / BLOCK);
        if under_way.contains_key(&at) {
            continue;
        }
        let job = rig.writing(1, at * BLOCK, &block(number));
        under_way.insert(at, (rig.start(job), number));
        if random.below(3) > 0 {
            rig.turn(Duration::ZERO);
        }
        while under_way.len() > 8 {
            rig.turn(Duration::from_secs(1));
            under_way.retain(|at, (job, number)| {
                let done = rig.done.remove(job);
                if let Some((job, result)) = &done {
                    result.unwrap();
                    assert_eq!(got(job)[..8], number.to_le_bytes());
                    acknowledged[size(*at)] = *number;
                }
                done.is_none()
            });
        }
        if number % 150 == 0 {
            crashes.push(Crash {
                tiers: paths(&directory).map(|path| std::fs::read(path).unwrap()),
                acknowledged: acknowledged.clone(),
                under_way: under_way.iter().map(|(at, (_, number))| (*at, *number)).collect(),
            });
        }
    }
    rig.rest();
    assert!(rig.moved > 20, "{}", rig.moved);
    rig.back_end = open_nothing();
    let mut found_fast = 0;
    for Crash { tiers, acknowledged, under_way } in crashes {
        for (path, contents) in paths(&directory).into_iter().zip(tiers) {
            std::fs::write(path, contents).unwrap();
        }
        let mut rig = Rig::new(|_| (open(&directory), None));
        found_fast += on_fast(&rig).len();
        let data = rig.read(1, 0, blocks * BLOCK).unwrap();
        for (at, (data, expected)) in (0..).zip(data.chunks(size(BLOCK)).zip(acknowledged)) {
            let number = u64::from_le_bytes(data[..8].try_into().unwrap());
            assert!(
                number == expected || under_way.get(&at) == Some(&number),
                "block {at} has {number}, not {expected}"
            );
            assert_eq!(data, block(number));
        }
    }
    assert!(found_fast > 40, "{found_fast}");
}

/// The files of a rig's back end are let go by putting another in its place.
fn open_nothing() -> Box<dyn BackEnd> {
    Box::new(disktime_server::backend::MemoryBackEnd::new(&[]))
}

#[test]
fn a_restart_finds_what_was_promoted_where_it_is() {
    let mut rig = rig();
    rig.write(1, 3 * MIB - 5000, &[7; 10_000]).unwrap();
    for extent in [3, 4] {
        heat(&mut rig, extent, 5);
    }
    rig.write(1, 2 * MIB + 100, &[8; 200]).unwrap();
    assert_eq!(on_fast(&rig), [3, 4]);
    let directory = rig.directory.path().to_owned();
    rig.back_end = open_nothing();
    let mut again = Rig::new(|_| (open(&directory), None));
    assert_eq!(on_fast(&again), [3, 4]);
    assert_eq!(again.read(1, 3 * MIB - 5000, 10_000).unwrap(), [7; 10_000]);
    assert_eq!(again.read(1, 2 * MIB + 100, 200).unwrap(), [8; 200]);
    let [_, slow] = paths(&directory);
    let mut home = [1; 200];
    File::open(slow).unwrap().read_exact_at(&mut home, 3 * MIB + 100).unwrap();
    assert_eq!(home, [0; 200], "the slow tier has it as it was");
}

/// To take a fast tier away: everything goes home, whatever is asked for, and nothing comes back.
#[test]
fn a_fast_tier_is_emptied_if_that_is_asked_for() {
    let mut rig = rig();
    for extent in [2, 3, 4] {
        heat(&mut rig, extent, 4);
    }
    rig.write(1, 2 * MIB + 100, &[8; 200]).unwrap();
    assert_eq!(on_fast(&rig), [2, 3, 4]);
    let directory = rig.directory.path().to_owned();
    rig.back_end = open_nothing();
    let mut again = Rig::new(|_| {
        let [fast, slow] = paths(&directory);
        let tiers = TwoTiers::open(&fast, &slow, None).unwrap();
        assert_eq!(tiers.promoted(), 3);
        let back_end = tiers.emptying().on_shard(&[(0, MIB), (MIB, (EXTENTS - 1) * MIB)], true);
        (Box::new(back_end), None)
    });
    heat(&mut again, 5, 8);
    assert_eq!((on_fast(&again), again.moved), (vec![], 3));
    assert_eq!(again.read(1, 2 * MIB + 100, 200).unwrap(), [8; 200]);
    heat(&mut again, 5, 8);
    assert_eq!(again.moved, 3, "nothing is promoted");
    let mut home = [1; 200];
    let [fast, slow] = paths(&directory);
    File::open(&slow).unwrap().read_exact_at(&mut home, 3 * MIB + 100).unwrap();
    assert_eq!(home, [8; 200]);
    again.back_end = open_nothing();
    assert_eq!(TwoTiers::open(&fast, &slow, None).unwrap().promoted(), 0);
}

/// The last piece of a migration fails before it reaches the tiers: the extent stays, its data are
/// read and written, and it is moved when it is hot again.
#[test]
fn a_migration_that_fails_leaves_all_as_it_was() {
    let last = 3 * MIB + 7 * (128 << 10)..4 * MIB;
    let fault =
        Fault { disk: 2, kind: Kind::Cache, extent: last, every: 1, error: DeviceError(libc::EIO) };
    let mut rig = Rig::new(|directory| {
        create(directory);
        (Box::new(Faulty::new(open(directory), vec![fault])), None)
    });
    heat(&mut rig, 3, 6);
    heat(&mut rig, 4, 6);
    assert_eq!((on_fast(&rig), rig.moved), (vec![4], 1));
    rig.write(1, 2 * MIB, &[5; 5000]).unwrap();
    assert_eq!(rig.read(1, 2 * MIB, 5000).unwrap(), [5; 5000]);
    for extent in [1, 2] {
        heat(&mut rig, extent, 5);
    }
    assert_eq!(on_fast(&rig), [1, 2, 4], "its slot was given back");
}

/// A device tells once that its cache was lost. A client's flush heard of it while an extent moved, the
/// migration's own did not: the entry was written, and the data were nowhere.
#[test]
fn a_flush_that_fails_while_an_extent_moves_has_it_copied_again() {
    let fault = OwnFault { bytes: 0, times: 1, error: DeviceError(libc::EIO) };
    let mut rig = Rig::new(|directory| {
        create(directory);
        (Box::new(Faulty::new(open(directory), Vec::new()).with_own(fault)), None)
    });
    rig.write(1, 2 * MIB, &[5; 8192]).unwrap();
    rig.holds = true;
    heat(&mut rig, 3, 5);
    rig.holds = false;
    rig.go_on();
    rig.holds = true;
    rig.rest();
    let [fast, _] = paths(rig.directory.path());
    let (fast, mut copied) =
        (File::options().read(true).write(true).open(fast).unwrap(), [0; 8192]);
    let slot = (1..4).find(|slot| {
        fast.read_exact_at(&mut copied, slot * MIB).unwrap();
        copied == [5; 8192]
    });
    let slot = slot.expect("the first piece is copied");
    assert_eq!(rig.ask(1, Kind::Flush, 0, 0), Err(DeviceError(libc::EIO)));
    fast.write_all_at(&vec![0; size(MIB)], slot * MIB).unwrap();
    rig.holds = false;
    rig.go_on();
    rig.rest();
    assert_eq!((on_fast(&rig), rig.moved), (vec![3], 1));
    assert_eq!(rig.read(1, 2 * MIB, 8192).unwrap(), [5; 8192]);
}

/// A rig whose first so many writes of the map are said to fail: all that moves a block.
fn failing(times: u32) -> Rig {
    let fault = OwnFault { bytes: 4096, times, error: DeviceError(libc::EIO) };
    Rig::new(|directory| {
        create(directory);
        (Box::new(Faulty::new(open(directory), Vec::new()).with_own(fault)), None)
    })
}

/// The block of the map that has the first slots' entries.
fn entries(directory: &Path) -> Vec<u8> {
    let mut block = vec![0; size(BLOCK)];
    let [fast, _] = paths(directory);
    File::open(fast).unwrap().read_exact_at(&mut block, BLOCK).unwrap();
    block
}

/// A restart finds these bytes, with this block in the map.
fn restart_finds(directory: &Path, block: &[u8], data: &[u8]) {
    let [fast, _] = paths(directory);
    File::options().write(true).open(fast).unwrap().write_all_at(block, BLOCK).unwrap();
    let mut again = Rig::new(|_| (open(directory), None));
    assert_eq!(again.read(1, 2 * MIB, data.len() as u64).unwrap(), data);
    again.back_end = open_nothing();
}

/// As [`heat`], without an operation that moves one block.
fn heat_two_blocks(rig: &mut Rig, extent: u64, times: u32) {
    for _ in 0..times {
        rig.read(1, (extent - 1) * MIB, 2 * BLOCK).unwrap();
    }
    rig.rest();
}

/// A write of the map fails, there and back: writes to the extent wait until one has not, and
/// everything is where it was written.
#[test]
fn an_entry_that_could_not_be_written_is_tried_again() {
    let mut rig = failing(3);
    rig.write(1, 2 * MIB, &[5; 8192]).unwrap();
    heat_two_blocks(&mut rig, 3, 6);
    assert_eq!((on_fast(&rig), rig.moved), (vec![], 0));
    assert_eq!(rig.read(1, 2 * MIB, 8192).unwrap(), [5; 8192], "reads don't wait");
    rig.write(1, 2 * MIB, &[6; 8192]).unwrap();
    assert_eq!(on_fast(&rig), [3], "the entry was written, then this was");
    assert_eq!(rig.read(1, 2 * MIB, 8192).unwrap(), [6; 8192]);
    heat_two_blocks(&mut rig, 4, 6);
    assert_eq!((on_fast(&rig), rig.moved), (vec![3, 4], 1), "extents move again");
}

/// Each of many writes of the map fails: writes are told, reads are served, other extents go on,
/// and a restart finds all, whether or not the entry has reached the device.
#[test]
fn an_entry_that_is_never_written_fails_writes_alone() {
    let mut rig = failing(u32::MAX);
    let directory = rig.directory.path().to_owned();
    rig.write(1, 2 * MIB, &[5; 8192]).unwrap();
    let before = entries(&directory);
    heat_two_blocks(&mut rig, 3, 6);
    for _ in 0..2 {
        assert_eq!(rig.write(1, 2 * MIB, &[6; 8192]), Err(DeviceError(libc::EIO)));
        assert_eq!(rig.read(1, 2 * MIB, 8192).unwrap(), [5; 8192]);
    }
    heat_two_blocks(&mut rig, 4, 8);
    assert_eq!((on_fast(&rig), rig.moved), (vec![], 0), "nothing moves");
    rig.write(1, 3 * MIB, &[7; 8192]).unwrap();
    assert_eq!(rig.read(1, 3 * MIB, 8192).unwrap(), [7; 8192]);
    let after = entries(&directory);
    assert_ne!(before, after);
    rig.back_end = open_nothing();
    for block in [before, after] {
        restart_finds(&directory, &block, &[5; 8192]);
    }
}

/// The slow tier loses its end behind our back: what is there can't be read, nor moved.
#[test]
fn an_extent_that_cant_be_read_stays() {
    let mut rig = rig();
    let [_, slow] = paths(rig.directory.path());
    File::options().write(true).open(slow).unwrap().set_len(5 * MIB).unwrap();
    for _ in 0..6 {
        assert_eq!(rig.read(1, 4 * MIB, 512), Err(DeviceError(libc::EIO)));
    }
    rig.rest();
    heat(&mut rig, 2, 5);
    assert_eq!((on_fast(&rig), rig.moved), (vec![2], 1));
}

#[test]
fn tiers_that_are_none_are_refused_by_name() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let make = |name: &str, bytes| File::create(path(name)).unwrap().set_len(bytes).unwrap();
    for (name, bytes) in
        [("small", 2 * MIB - 1), ("fast", 4 * MIB), ("slow", 4 * MIB), ("tiny", MIB - 1)]
    {
        make(name, bytes);
    }
    make("other", 4 * MIB);
    std::fs::write(path("full"), vec![1; size(4 * MIB)]).unwrap();
    std::fs::hard_link(path("slow"), path("again")).unwrap();
    for (fast, slow, says) in [
        ("small", "slow", "small: it has 2097151 bytes: 2097152 are the least"),
        ("fast", "tiny", "tiny: it has 1048575 bytes: 1048576 are the least"),
        ("full", "slow", "full: its first block is neither blank nor a map of ours"),
        ("none", "slow", "none: a tier is a regular file or a block device"),
        ("fast", ".", ".: a tier is a regular file or a block device"),
        ("again", "slow", "slow: another device of this configuration or another server has it"),
    ] {
        let error = TwoTiers::open(&path(fast), &path(slow), None).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    }
    let emulated = TwoTiers::open(&path("fast"), &path("slow"), Some(2 * MIB)).err().unwrap();
    assert!(emulated.to_string().contains("fast: it has 3145728 bytes for data, the device"));
    // One that has data belongs to its slow tier.
    let mut rig = Rig::new(|_| {
        let tiers = TwoTiers::open(&path("fast"), &path("slow"), None).unwrap();
        (Box::new(tiers.on_shard(&[(0, MIB), (MIB, MIB)], true)), None)
    });
    heat(&mut rig, 1, 4);
    assert_eq!(rig.moved, 1);
    drop(rig);
    let error = TwoTiers::open(&path("fast"), &path("other"), None).err().unwrap().to_string();
    assert!(
        error.contains("fast: it holds extents of ") && error.contains("/slow: name"),
        "{error}"
    );
    make("fast", 3 * MIB);
    let error = TwoTiers::open(&path("fast"), &path("slow"), None).err();
    assert!(error.is_none(), "made anew, it is blank: {error:?}");
}
