//! The effect of a FUA write and a flush on the disk that lies below.

use std::time::Duration;

use disktime_client::Connection;
use disktime_nbd::{CommandFlags, TransmissionFlags};

use crate::lower::{Below, now, wait_until};
use crate::rounds::skips;
use crate::stack::{Kind, Stack};

/// Back ends over what may lie below them.
const TABLE: [(Kind, Below); 8] = [
    (Kind::Nbd, Below::Remote),
    (Kind::Directory, Below::Fuse),
    (Kind::Image, Below::Fuse),
    (Kind::Raid0, Below::Fuse),
    (Kind::Tiers, Below::Fuse),
    (Kind::Image, Below::Loop),
    (Kind::Raid0, Below::Loop),
    (Kind::Tiers, Below::Loop),
];

/// Over each chunk of the stripes and two extents.
const LONG: usize = (1 << 20) + (192 << 10);

/// Asks for something, and tells what the lower disk's cache holds once it is answered, and how many
/// flushes and writes with FUA the disk has seen.
fn after(stack: &Stack, client: &mut Connection, ask: impl FnOnce(&mut Connection)) -> (u64, u64) {
    ask(client);
    let seen = stack.lower.disk.seen();
    (stack.lower.disk.unflushed(), seen.flushes + seen.fua)
}

/// Reads an extent so often that it is promoted, by which another may have to make room.
fn heat(stack: &Stack, extent: u64, times: u32) {
    let mut client = stack.connect();
    let before = stack.lower.disk.seen().writes;
    for _ in 0..times {
        client.read(extent << 20, &mut [0; 4096]).unwrap();
    }
    wait_until("nothing is promoted", || stack.lower.disk.seen().writes > before);
    stack.rest();
}

/// FUSE ignored `RWF_DSYNC` on the ring: 20 of 20 writes with FUA were acknowledged while the lower
/// disk had them in its cache.
#[test]
fn fua_and_flush_reach_the_disk_below_before_they_are_answered() {
    let mut failures = Vec::new();
    for (kind, below) in TABLE {
        if skips("fua_and_flush_reach_the_disk_below_before_they_are_answered", below) {
            continue;
        }
        let mut stack = Stack::new(kind, below);
        if kind == Kind::Tiers {
            heat(&stack, 0, 8);
            heat(&stack, 2, 8);
            stack.stop_moving();
        }
        let mut client = stack.connect();
        let zeroes = client.export().flags.contains(TransmissionFlags::WRITE_ZEROES);
        let (_, mut before) = after(&stack, &mut client, |it| it.flush().unwrap());
        let (mut volatile, mut unseen) = (0, 0);
        for round in 0..20 {
            let len = if round % 4 == 0 { LONG } else { 4096 };
            let at = round * 300_000 + if round % 2 == 0 { 0 } else { 512 };
            let data = vec![round as u8 + 1; len];
            let (left, flushes) = after(&stack, &mut client, |it| {
                if zeroes && round % 5 == 4 {
                    it.zeroes(at, len as u32, CommandFlags::FUA).unwrap();
                } else {
                    it.write(at, &data, true).unwrap();
                }
            });
            volatile += u32::from(left > 0);
            unseen += u32::from(flushes <= before);
            before = flushes;
        }
        // The test can tell: a plain write stays in the cache until a flush.
        let (left, _) = after(&stack, &mut client, |it| it.write(0, &[99; 8192], false).unwrap());
        let (flushed, flushes) = after(&stack, &mut client, |it| it.flush().unwrap());
        if (volatile, unseen) != (0, 0) || left == 0 || flushed > 0 || flushes <= before {
            failures.push(format!(
                "{} over {}: {volatile} of 20 FUA writes stayed volatile, {unseen} without a flush; a \
                 plain write left {left} bytes in the cache, a flush {flushed}",
                kind.name(),
                below.name()
            ));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// An entry of the tiers' map was one write with `RWF_DSYNC`, and volatile on FUSE: a slot was used
/// again while the disk below could still forget that its last extent had left.
#[test]
fn an_extent_that_has_moved_leaves_nothing_in_the_cache_below() {
    for below in [Below::Fuse, Below::Loop] {
        if skips("an_extent_that_has_moved_leaves_nothing_in_the_cache_below", below) {
            continue;
        }
        let stack = Stack::new(Kind::Tiers, below);
        // No client writes or flushes: only migrations reach the disk. There is room for three, the
        // others change places with the coldest.
        for (extent, times) in [(1, 8), (2, 8), (3, 8), (4, 32), (5, 48)] {
            heat(&stack, extent, times);
            let left = stack.lower.disk.unflushed();
            assert_eq!(left, 0, "extent {extent} over {}", below.name());
        }
    }
}

/// A sync that failed was told to one client, by Linux once for each open file; the others' next
/// flushes succeeded though their data were gone with it. On a busy machine tiers had begun to
/// promote the extent that the test itself writes, and the promotion's sync took the failure that was
/// meant for a client's write: the write succeeded. Nothing moves here any more.
#[test]
fn a_sync_that_fails_below_is_told_to_each_client_once() {
    for (kind, below) in TABLE {
        if skips("a_sync_that_fails_below_is_told_to_each_client_once", below) {
            continue;
        }
        let mut stack = Stack::new(kind, below);
        if kind == Kind::Tiers {
            stack.stop_moving();
        }
        let mut clients = [stack.connect(), stack.connect(), stack.connect()];
        let started = now();
        for fua in [false, true] {
            let name = format!("{} over {}, fua: {fua}", kind.name(), below.name());
            fail_one_sync(&stack, &mut clients, fua, &name);
        }
        let took = started.elapsed();
        let said = stack.said();
        let told = said.matches("may be gone").count();
        // The log tells a cause once in 10 s, and the second failure comes sooner unless the machine
        // stalls.
        let most = if took < Duration::from_secs(10) { 1 } else { 2 };
        assert!((1..=most).contains(&told), "{told} lines for two failures in {took:?}: {said}");
        assert!(said.contains("vdisks=\"v\""), "{said}");
    }
}

/// Fails what one client asks for, and sees each client told of it once.
fn fail_one_sync(stack: &Stack, clients: &mut [Connection; 3], fua: bool, name: &str) {
    let check = |holds: bool, what: &str| {
        assert!(holds, "{name}: {what}; the daemon logged: {}", stack.said());
    };
    for (at, client) in (0..).zip(&mut clients[1..]) {
        client.write(at << 16, &[7; 4096], false).unwrap();
    }
    // One request may have several operations on their way down: a flush of each member.
    stack.lower.disk.fail_flushes(1);
    let failed = if fua { clients[0].write(0, &[8; 512], true) } else { clients[0].flush() };
    check(failed.is_err(), "the request whose sync failed succeeded");
    stack.lower.disk.fail_flushes(0);
    for client in &mut clients[1..] {
        check(client.flush().is_err(), "a client with data at stake was not told");
    }
    let first = clients[0].flush();
    check(first.is_err() == fua, "a failed write tells of no flush, a failed flush does");
    for client in clients {
        check(client.flush().is_ok(), "a client was told twice");
    }
}

/// Whether holes can be punched was tried past the end, and a block device's length is 0 to fstat(2):
/// each start of a tiered device zeroed the first blocks of both, the map with them.
#[test]
fn a_restart_writes_nothing_below() {
    for (kind, below) in TABLE {
        if skips("a_restart_writes_nothing_below", below) {
            continue;
        }
        let mut stack = Stack::new(kind, below);
        let mut client = stack.connect();
        client.write(0, &[5; 8192], true).unwrap();
        if kind == Kind::Tiers {
            heat(&stack, 1, 8);
        }
        let before = stack.lower.disk.seen().writes;
        stack.kill();
        stack.start();
        let name = format!("{} over {}", kind.name(), below.name());
        assert_eq!(stack.lower.disk.seen().writes, before, "{name}");
        let mut data = [0; 8192];
        stack.connect().read(0, &mut data).unwrap();
        assert_eq!(data, [5; 8192], "{name}");
    }
}
