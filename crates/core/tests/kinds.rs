//! Trims and zeroes beside pieces that move data: each kind has a cost of its own.
#![allow(clippy::unwrap_used, reason = "the tests choose ids, streams and numbers that exist")]

mod rig;

use std::collections::VecDeque;

use disktime_core::cost::PieceKind;
use disktime_core::{Config, Engine, Kind, Limits, Request, StreamId, policy};
use rig::{MS, Rig, contract, read};

const GIB: u64 = 1 << 30;
const READ: u64 = 128 << 10;
const US: u64 = 1_000;

/// Streams of equal reservations over learned costs, in the order of arrival.
fn rig(depth: u32) -> Rig {
    let limits = Limits { depth, ..Limits::default() };
    // Without deadlines it goes by arrival.
    let policy = policy::find("edf").unwrap();
    let config = Config { policy, cost_model: "learned", limits, ..Config::default() };
    let mut rig = Rig { engine: Engine::new(&config).unwrap() };
    (0..2).for_each(|stream| rig.add(stream, contract(50, 100)));
    rig
}

fn of(kind: Kind, id: u32, stream: u32, bytes: u64) -> Request {
    Request { kind, ..read(id, stream, bytes) }
}

/// So many requests of one stream, one after the other, each for that long; answers when all are over.
fn serve(rig: &mut Rig, mut now: u64, request: Request, count: u32, takes: u64) -> u64 {
    for place in 0..u64::from(count) {
        rig.request(now, Request { offset: place * 7 * GIB, ..request });
        let piece = rig.go_one(now).piece;
        now += takes;
        rig.done(now, piece);
    }
    now
}

/// A trim was a read in sequence, and its length scaled that kind's cost: after 20 trims of 1 GiB a
/// read of 500 us was estimated at 1 us.
#[test]
fn the_length_of_a_trim_or_of_zeroes_says_nothing_of_reads_and_writes() {
    for (kind, data) in [(Kind::Trim, Kind::Read), (Kind::Zeroes, Kind::Write)] {
        let mut rig = rig(4);
        let in_sequence = Request { offset: 0, ..of(data, 1, 0, READ) };
        let sequence = |rig: &mut Rig, now: u64, count: u64| {
            (0..count).fold(now, |now, place| {
                rig.request(now, Request { offset: place * READ, ..in_sequence });
                let piece = rig.go_one(now).piece;
                rig.done(now + 500 * US, piece);
                now + 500 * US
            })
        };
        let mut now = sequence(&mut rig, 0, 4000);
        now = serve(&mut rig, now, of(kind, 2, 0, GIB), 20, MS);
        sequence(&mut rig, now, 1);
        let estimates = rig.engine.estimates(StreamId(0));
        let sequential = [PieceKind::SequentialRead, PieceKind::SequentialWrite];
        let cost = estimates.iter().find(|it| sequential.contains(&it.kind)).unwrap().cost;
        assert!(cost.as_nanos().abs_diff(500 * US) < 100 * US, "{kind:?}: {cost:?}");
    }
}

#[test]
fn a_trims_time_is_learned_as_its_own_cost() {
    for (kind, name) in [(Kind::Trim, PieceKind::Trim), (Kind::Zeroes, PieceKind::Zeroes)] {
        let mut rig = rig(4);
        serve(&mut rig, 0, of(kind, 2, 0, GIB), 1000, 3 * MS);
        let estimates = rig.engine.estimates(StreamId(0));
        let [estimate] = estimates[..] else { panic!("one kind was sent: {estimates:?}") };
        assert_eq!((estimate.kind, estimate.bytes), (name, GIB));
        assert!(estimate.cost.as_nanos().abs_diff(3 * MS) < MS / 10, "{estimate:?}");
    }
}

/// The bytes of a trim counted as data on their way: one of 1 GiB filled a device of depth 32.
#[test]
fn a_trim_leaves_room_at_the_device() {
    for kind in [Kind::Trim, Kind::Zeroes] {
        let mut rig = rig(32);
        rig.request(0, of(kind, 0, 0, GIB));
        (1..32).for_each(|id| rig.request(0, read(id, 1, READ)));
        assert_eq!(rig.go(0).len(), 32, "{kind:?}");
    }
}

/// Zeroes cost by their length: one piece of 1 ms was billed 499 ms of the reads beside it.
#[test]
fn a_window_bills_zeroes_and_trims_by_their_own_costs() {
    for kind in [Kind::Trim, Kind::Zeroes] {
        let mut rig = rig(4);
        rig.request(0, of(kind, 0, 0, GIB));
        (1..600).for_each(|id| rig.request(0, read(id, 1, READ)));
        let mut at_device = VecDeque::from(rig.go(0));
        for now in (1..=500).map(|ms| ms * MS) {
            let oldest = at_device.pop_front().unwrap();
            rig.done(now, oldest.piece);
            at_device.extend(rig.go(now));
        }
        assert!(rig.charged(0) <= 5 * MS, "{kind:?}: {} ns", rig.charged(0));
        assert!(rig.charged(1) >= 390 * MS, "{kind:?}: {} ns", rig.charged(1));
    }
}
