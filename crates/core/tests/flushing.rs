//! Flushes of the engine's own: policy `disktime` on a device that takes writes into a cache and brings them to the
//! medium when it is flushed.

#![allow(clippy::unwrap_used, reason = "the tests choose policies and streams that exist")]

mod rig;

use disktime_core::{
    Cancel, Change, Config, Contract, Dispatch, Engine, Kind, Limits, Outcome, Request, RequestId,
    StreamError, StreamId, policy,
};
use rig::{MS, PerByte, Rig, SECOND, at, percent, read};

/// Two streams of half the device each, with one request at a time. A piece takes a millisecond, and four where the cache
/// is full, a flush what the writes take that the cache holds.
struct Cached {
    rig: Rig,
    now: u64,
    /// The requests of each stream, one after the other.
    kinds: [&'static [Kind]; 2],
    asked: [usize; 2],
    /// Writes in the cache, and how many it takes.
    held: u64,
    room: u64,
    /// The time of a flush for each write, and for all.
    flush: [u64; 2],
    /// Turns: whose, from when, to when, and how many flushes were in them that no client asked for.
    turns: Vec<(u32, u64, u64, u64)>,
    pieces: [u64; 2],
}

impl Cached {
    fn new(depth: u32, flushes: bool, kinds: [&'static [Kind]; 2], flush: [u64; 2]) -> Self {
        let limits = Limits { depth, ..Limits::default() };
        let config = Config { limits, flushes, ..Config::default() };
        let policy = (policy::DEFAULT.build)();
        let mut rig = Rig { engine: Engine::with_policy(&config, policy, Box::new(PerByte)) };
        (0..2).for_each(|stream| rig.add(stream, Contract::reserving(percent(50))));
        let (asked, turns, pieces) = ([0; 2], Vec::new(), [0; 2]);
        let (held, room) = (0, u64::MAX);
        let mut cached = Self { rig, now: 0, kinds, asked, held, room, flush, turns, pieces };
        (0..2).for_each(|stream| cached.ask(stream));
        cached
    }

    fn ask(&mut self, stream: u32) {
        let (kinds, asked) = (self.kinds[stream as usize], &mut self.asked[stream as usize]);
        let kind = kinds[*asked % kinds.len()];
        *asked += 1;
        let place = read(stream, stream, if kind == Kind::Flush { 0 } else { 1_000 });
        self.rig.request(self.now, Request { kind, ..place });
    }

    fn serve(&mut self, dispatch: &Dispatch) {
        let stream = dispatch.stream.0;
        let own = dispatch.request == RequestId::FLUSH;
        let kinds = self.kinds[stream as usize];
        let asked = self.asked[stream as usize];
        let kind = if own { Kind::Flush } else { kinds[(asked - 1) % kinds.len()] };
        let took = match kind {
            Kind::Flush if self.held == 0 => 0,
            Kind::Flush => self.held * self.flush[0] + self.flush[1],
            Kind::Write if self.held == self.room => 4 * MS,
            _ => MS,
        };
        self.held = match kind {
            Kind::Flush => 0,
            Kind::Write => self.room.min(self.held + 1),
            _ => self.held,
        };
        let began = self.now;
        self.now += took.max(1_000);
        match self.turns.last_mut().filter(|(last, ..)| *last == stream) {
            Some((.., end, flushed)) => {
                assert!(*flushed == 0 || self.room < u64::MAX, "nothing comes after the flush");
                (*end, *flushed) = (self.now, *flushed + u64::from(own));
            }
            None => self.turns.push((stream, began, self.now, u64::from(own))),
        }
        let over = self.rig.done(self.now, dispatch.piece);
        assert_eq!(over.is_none(), own, "its completion is nobody's");
        if !own {
            self.pieces[stream as usize] += 1;
            self.ask(stream);
        }
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            for dispatch in self.rig.go(self.now) {
                self.serve(&dispatch);
            }
        }
    }

    /// The turns of a stream that are over, after the first seconds: how long each was, and its flushes.
    fn settled(&self, stream: u32) -> Vec<(u64, u64)> {
        let settled = self.turns.iter().filter(|(id, began, ..)| *id == stream && *began > SECOND);
        let mut turns: Vec<_> =
            settled.map(|(_, began, end, flushed)| (end - began, *flushed)).collect();
        turns.pop();
        turns
    }
}

const WRITES: &[Kind] = &[Kind::Write];
const READS: &[Kind] = &[Kind::Read];

#[test]
fn a_slice_in_which_something_was_written_ends_with_a_flush_that_is_charged_to_its_owner() {
    let mut disk = Cached::new(1, true, [WRITES, READS], [2 * MS, 0]);
    disk.run_until(20 * SECOND);
    let (writes, reads) = (disk.settled(0), disk.settled(1));
    assert!(writes.len() > 10 && writes.iter().all(|(_, flushed)| *flushed > 0), "{writes:?}");
    assert!(reads.iter().all(|(_, flushed)| *flushed == 0), "{reads:?}");
    let charged = [0, 1].map(|stream| disk.rig.charged(stream));
    assert!(charged[0].abs_diff(charged[1]) < 20 * SECOND / 50, "{charged:?}");
    // A write takes a millisecond, and its part of the flush two more.
    let [written, read] = disk.pieces;
    assert!((27..=40).contains(&(written * 100 / read)), "{written} and {read}");
}

#[test]
fn nothing_is_flushed_without_leave_nor_where_several_pieces_are_at_the_device_nor_twice() {
    let flush_after: &[Kind] = &[Kind::Write, Kind::Flush];
    for (depth, flushes, kinds) in
        [(1, false, WRITES), (2, true, WRITES), (1, true, READS), (1, true, flush_after)]
    {
        let mut disk = Cached::new(depth, flushes, [kinds, READS], [0, MS]);
        disk.run_until(5 * SECOND);
        let flushed = disk.turns.iter().map(|(.., flushed)| flushed).sum::<u64>();
        assert_eq!(flushed, 0, "depth {depth}, flushes {flushes}, {kinds:?}");
    }
}

/// The longest slice is 350 ms, with its flush.
#[test]
fn the_time_that_a_flush_is_likely_to_take_is_a_part_of_the_slice() {
    let mut disk = Cached::new(1, true, [WRITES, READS], [3 * MS, 0]);
    disk.run_until(20 * SECOND);
    let turns = disk.settled(0);
    let mean = turns.iter().map(|(took, _)| *took).sum::<u64>() / turns.len() as u64;
    assert!((250 * MS..450 * MS).contains(&mean), "{} ms", mean / MS);
}

/// The cache is empty when a slice begins, so that its first writes are fast: the flush is what that costs, and no other
/// stream is relieved of anything.
#[test]
fn nobody_pays_for_what_a_flush_has_brought_to_the_medium() {
    let mut disk = Cached::new(1, true, [WRITES, READS], [3 * MS, 0]);
    disk.room = 20;
    disk.run_until(20 * SECOND);
    let counters = [0, 1].map(|stream| disk.rig.view(stream).counters());
    assert_eq!(counters.map(|it| it.afterwards.as_nanos()), [0, 0]);
    let charged = counters.map(|it| it.charged.as_nanos());
    assert!(charged[0].abs_diff(charged[1]) < 20 * SECOND / 50, "{charged:?}");
}

/// With two switches of a millisecond in a round it has 80 ms, and each slice 40.
#[test]
fn a_flush_that_takes_time_for_itself_makes_rounds_longer() {
    let mean = |flush| {
        let mut disk = Cached::new(1, true, [WRITES, READS], [0, flush]);
        disk.run_until(20 * SECOND);
        let turns = disk.settled(1);
        turns.iter().map(|(took, _)| *took).sum::<u64>() / turns.len() as u64 / MS
    };
    let (short, long) = (mean(MS / 10), mean(5 * MS));
    assert!((35..=45).contains(&short), "{short} ms");
    assert!((90..=150).contains(&long), "{long} ms: 2.5 % of it are 3 ms");
}

#[test]
fn a_stream_goes_only_after_its_flush() {
    let mut disk = Cached::new(1, true, [WRITES, READS], [MS, 0]);
    let flush = loop {
        let dispatch = disk.rig.go_one(disk.now);
        if dispatch.request == RequestId::FLUSH {
            break dispatch;
        }
        disk.serve(&dispatch);
    };
    assert_eq!(disk.rig.engine.handle_cancel(at(disk.now), RequestId(0)), Cancel::Gone);
    let remove = |disk: &mut Cached| {
        disk.rig.engine.handle_change(at(disk.now), Change::RemoveStream(StreamId(0)))
    };
    assert_eq!(remove(&mut disk), Err(StreamError::Busy { live: 1 }.of(StreamId(0))));
    // It may as well have failed: whoever drives the device knows.
    let over = disk.rig.engine.handle_completion(at(disk.now + MS), flush.piece, Outcome::Failed);
    assert_eq!(over, None);
    assert_eq!(remove(&mut disk), Ok(()));
    assert_eq!(disk.rig.go_one(disk.now + MS).stream, StreamId(1));
}

/// A virtual disk is removed while the device is flushed at the end of its slice: the engine takes the removal once
/// the flush is over, and the slot has nothing of it for the next stream.
#[test]
fn a_removal_during_a_streams_own_flush_keeps_the_accounts() {
    for (slices, outcome) in [(1, Outcome::Done), (2, Outcome::Failed), (7, Outcome::Done)] {
        let mut disk = Cached::new(1, true, [WRITES, WRITES], [MS / 4, MS]);
        let mut left = slices;
        let flush = loop {
            let dispatch = disk.rig.go_one(disk.now);
            let own = dispatch.request == RequestId::FLUSH && dispatch.stream == StreamId(0);
            left -= u32::from(own);
            if own && left == 0 {
                break dispatch;
            }
            disk.serve(&dispatch);
        };
        let cancelled = disk.rig.engine.handle_cancel(at(disk.now), RequestId(0));
        assert_eq!(cancelled, Cancel::Gone);
        for _ in 0..20 {
            disk.now += MS;
            let remove = Change::RemoveStream(StreamId(0));
            let refused = disk.rig.engine.handle_change(at(disk.now), remove);
            assert_eq!(refused, Err(StreamError::Busy { live: 1 }.of(StreamId(0))));
            disk.rig.timeout(disk.now);
            assert_eq!(disk.rig.go(disk.now), [], "the device is flushed");
            disk.rig.engine.assert_conserved();
        }
        let charged = disk.rig.charged(0);
        let over = disk.rig.engine.handle_completion(at(disk.now), flush.piece, outcome);
        assert_eq!(over, None);
        assert!(disk.rig.charged(0) >= charged + 20 * MS, "its flush is its own");
        disk.rig.change(disk.now, Change::RemoveStream(StreamId(0)));
        disk.rig.engine.assert_conserved();
        disk.held = 0;
        disk.run_until(disk.now + SECOND);
        disk.rig.add(0, Contract::reserving(percent(50)));
        assert_eq!(disk.rig.charged(0), 0, "the next one in its place");
        disk.ask(0);
        let (before, from) = (disk.pieces, disk.turns.len());
        disk.run_until(disk.now + 20 * SECOND);
        disk.rig.engine.assert_conserved();
        let served = [0, 1].map(|stream| disk.pieces[stream] - before[stream]);
        assert!(served[0] * 10 > served[1] * 9 && served[1] * 10 > served[0] * 9, "{served:?}");
        let flushed = disk.turns[from..].iter().filter(|turn| turn.0 == 0 && turn.3 > 0).count();
        assert!(flushed > 5, "{flushed} of its slices ended with a flush");
    }
}
