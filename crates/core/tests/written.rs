//! Flushes: the payers of writes that were acknowledged before they were on the medium.

mod rig;

use disktime_core::{
    Access, Admission, Change, Class, Config, Contract, Duration, Engine, Kind, Rate, Request,
    StreamCounters, StreamId, policy,
};
use rig::{MS, Rig, contract, read};

fn write(id: u32, stream: u32, bytes: u64) -> Request {
    Request { kind: Kind::Write, ..read(id, stream, bytes) }
}

fn flush(id: u32, stream: u32) -> Request {
    Request { kind: Kind::Flush, offset: 0, bytes: 0, ..read(id, stream, 0) }
}

fn rig(depth: u32, streams: u32) -> Rig {
    let mut rig = Rig::new(depth);
    (0..streams).for_each(|stream| rig.add(stream, contract(20, 100)));
    rig
}

/// A request by itself, for that long. Answers when it is over.
fn serve(rig: &mut Rig, now: u64, request: Request, takes: u64) -> u64 {
    rig.request(now, request);
    let piece = rig.go_one(now).piece;
    assert!(rig.done(now + takes, piece).is_some(), "it is over");
    now + takes
}

fn counters(rig: &Rig, stream: u32) -> StreamCounters {
    rig.view(stream).counters()
}

#[test]
fn a_flush_is_paid_by_those_whose_writes_it_brings_to_the_medium() {
    let mut rig = rig(1, 3);
    let mut now = serve(&mut rig, 0, write(1, 0, 30_000), MS);
    now = serve(&mut rig, now, write(2, 2, 10_000), MS);
    now = serve(&mut rig, now, flush(3, 1), 8 * MS);
    assert_eq!([0, 1, 2].map(|id| rig.charged(id)), [7 * MS, 0, 3 * MS], "three parts and one");
    assert_eq!(counters(&rig, 1).relieved, Duration::from_millis(8));
    assert_eq!(counters(&rig, 0).afterwards, Duration::from_millis(6));
    // Nothing is unwritten now: the next one is its asker's.
    serve(&mut rig, now, flush(4, 1), 2 * MS);
    assert_eq!([0, 1, 2].map(|id| rig.charged(id)), [7 * MS, 2 * MS, 3 * MS]);
}

/// A database that writes its log and flushes, beside a stream that writes a little: the database
/// pays for its own flushes.
#[test]
fn a_stream_that_wrote_as_much_as_the_others_pays_for_its_own_flush() {
    let mut rig = rig(1, 3);
    let mut now = serve(&mut rig, 0, write(1, 0, 10_000), MS);
    now = serve(&mut rig, now, write(2, 2, 10_000), MS);
    now = serve(&mut rig, now, write(3, 1, 20_000), MS);
    now = serve(&mut rig, now, flush(4, 1), 8 * MS);
    assert_eq!([0, 1, 2].map(|id| rig.charged(id)), [MS, 9 * MS, MS]);
    now = serve(&mut rig, now, write(5, 0, 20_001), MS);
    now = serve(&mut rig, now, write(6, 1, 20_000), MS);
    serve(&mut rig, now, flush(7, 1), 4 * MS);
    assert!(counters(&rig, 1).relieved > Duration::from_millis(2), "who wrote more pays his half");
}

#[test]
fn a_flush_storm_costs_its_stream_all_but_the_others_writes() {
    let mut rig = rig(1, 2);
    let (mut now, mut id) = (0, 0);
    for _ in 0..100 {
        now = serve(&mut rig, now, write(id, 0, 20_000), MS / 10);
        for takes in [10 * MS, MS / 10, MS / 10] {
            id += 1;
            now = serve(&mut rig, now, flush(id, 1), takes);
        }
        id += 1;
    }
    assert_eq!(rig.charged(0), 100 * (10 * MS + MS / 10), "all that its writes took");
    assert_eq!(rig.charged(1), 100 * MS / 5, "and the flushes that had nothing to do");
}

#[test]
fn a_writer_that_is_gone_pays_nothing() {
    let mut rig = rig(1, 3);
    let mut now = serve(&mut rig, 0, write(1, 0, 30_000), MS);
    now = serve(&mut rig, now, write(2, 2, 10_000), MS);
    rig.change(now, Change::RemoveStream(StreamId(0)));
    rig.add(0, contract(10, 100));
    now = serve(&mut rig, now, flush(3, 1), 8 * MS);
    assert_eq!([0, 1, 2].map(|id| rig.charged(id)), [0, 0, 9 * MS]);
    now = serve(&mut rig, now, write(4, 2, 10_000), MS);
    rig.change(now, Change::RemoveStream(StreamId(2)));
    serve(&mut rig, now, flush(5, 1), 8 * MS);
    assert_eq!(rig.charged(1), 8 * MS);
}

/// A stream that is gone has no account that could pay.
#[test]
fn a_flush_asks_no_stream_that_is_gone() {
    let mut rig = rig(1, 3);
    let mut now = serve(&mut rig, 0, write(1, 0, 30_000), MS);
    now = serve(&mut rig, now, write(2, 2, 10_000), MS);
    rig.change(now, Change::RemoveStream(StreamId(0)));
    serve(&mut rig, now, flush(3, 1), 8 * MS);
    assert_eq!([1, 2].map(|id| rig.charged(id)), [0, 9 * MS]);
}

/// Windows are divided by prices: there a flush has one like other pieces.
#[test]
fn among_others_pieces_a_flush_has_its_cost() {
    let mut rig = rig(4, 2);
    rig.request(0, write(1, 0, 30_000));
    rig.request(0, flush(2, 1));
    for (piece, ms) in rig.go(0).into_iter().zip([5, 10]) {
        rig.done(ms * MS, piece.piece);
    }
    rig.go(10 * MS);
    assert_eq!(counters(&rig, 1).relieved, Duration::ZERO);
    // And then everything is on the medium.
    rig.request(20 * MS, flush(3, 1));
    let piece = rig.go_one(20 * MS).piece;
    rig.done(30 * MS, piece);
    assert_eq!(counters(&rig, 0).afterwards, Duration::ZERO);
}

/// A flush among other streams' pieces brings everything to the medium like any other: the next one
/// has nothing to do for other streams.
#[test]
fn a_flush_among_others_pieces_leaves_nothing_unwritten() {
    let mut rig = rig(4, 2);
    rig.request(0, write(1, 0, 30_000));
    rig.request(0, flush(2, 1));
    for (piece, ms) in rig.go(0).into_iter().zip([5, 10]) {
        rig.done(ms * MS, piece.piece);
    }
    assert!(rig.go(10 * MS).is_empty());
    rig.change(20 * MS, Change::SetDepth(1));
    serve(&mut rig, 20 * MS, flush(3, 1), 8 * MS);
    assert_eq!(counters(&rig, 0).afterwards, Duration::ZERO);
}

/// A guaranteed rate's pieces flush in their own time, and beside it nothing stays in a cache.
#[test]
fn guaranteed_rates_neither_pay_for_flushes_nor_are_they_paid_for() {
    let (cycle, class) = (Some(Duration::from_secs(1)), Class::GuaranteedRate);
    let (admission, access) = (Admission::BestEffort, Access::Both);
    let rate = Some(Rate { bytes_per_second: 100_000, cycle, admission, access });
    let rated = Contract { rate, class, ..Contract::default() };
    let mut rig = rig(1, 1);
    rig.add(1, rated);
    let mut now = serve(&mut rig, 0, write(1, 0, 30_000), MS);
    now = serve(&mut rig, now, flush(2, 1), 8 * MS);
    assert_eq!([0, 1].map(|id| rig.charged(id)), [MS, 8 * MS], "its flush is its own");
    // More than all others wrote since the last flush of best effort.
    let aside = Request { class: Some(Class::BestEffort), ..write(3, 1, 90_000) };
    now = serve(&mut rig, now, aside, MS);
    serve(&mut rig, now, flush(4, 0), 8 * MS);
    assert_eq!([0, 1].map(|id| rig.charged(id)), [9 * MS, 9 * MS], "nor does it pay for others'");
}

/// A flush has no place: its offset says nothing of a seek.
#[test]
fn a_flush_costs_the_same_wherever_the_last_piece_ended() {
    let estimate = |offset| {
        let policy = policy::find("zygaria").expect("registered");
        let config = Config { policy, cost_model: "fixed", ..Config::default() };
        let mut rig = Rig { engine: Engine::new(&config).expect("registered names") };
        rig.add(0, contract(20, 100));
        let now = serve(&mut rig, 0, Request { offset, ..write(1, 0, 4096) }, MS);
        rig.request(now, flush(2, 0));
        rig.go_one(now).estimate
    };
    assert_eq!(estimate(0), estimate(1 << 40));
}
