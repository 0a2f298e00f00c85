//! A device that stops for a while: that time is nobody's, and no price.
#![allow(clippy::unwrap_used, reason = "the tests choose ids and numbers that exist")]

mod rig;

use disktime_core::{
    Change, Config, Contract, Engine, Kind, Limits, Request, StreamId, StreamSpec, policy,
};
use rig::{MS, Rig, contract, percent, read};

/// Streams of equal shares in turns, over learned costs.
fn rig(streams: u32) -> Rig {
    rig_at(4, "learned", streams)
}

fn rig_at(depth: u32, cost_model: &str, streams: u32) -> Rig {
    let limits = Limits { depth, ..Limits::default() };
    let config = Config { cost_model, limits, ..Config::default() };
    let mut rig = Rig { engine: Engine::new(&config).unwrap() };
    for id in 0..streams {
        let contract = Contract::reserving(percent(100 / streams));
        let spec = StreamSpec { contract, ..StreamSpec::default() };
        rig.change(0, Change::AddStream(StreamId(id), spec));
    }
    rig
}

/// A request alone, that takes so long; answers when it is over and what was charged for it.
fn serve(rig: &mut Rig, mut now: u64, request: Request, takes: u64) -> (u64, u64) {
    let (stream, before) = (request.stream.0, rig.charged(request.stream.0));
    rig.request(now, request);
    let piece = loop {
        match rig.go(now).first() {
            Some(dispatch) => break dispatch.piece,
            // The device waits for the one that had it.
            None => now += 10 * MS,
        }
    };
    assert!(rig.done(now + takes, piece).is_some());
    // The device has nothing to do: what was open is charged.
    assert!(rig.go(now + takes).is_empty());
    (now + takes, rig.charged(stream) - before)
}

/// The charge for a stall of that stream's piece after pieces of 1 ms.
fn stalls(rig: &mut Rig, now: &mut u64, stream: u32, kind: Kind) -> u64 {
    for id in 0..100 {
        (*now, _) = serve(rig, *now, read(id, stream, 4096), MS);
    }
    let bytes = if kind == Kind::Flush { 0 } else { 4096 };
    let request = Request { kind, bytes, ..read(200, stream, bytes) };
    let (end, charged) = serve(rig, *now, request, 700 * MS);
    *now = end;
    charged
}

#[test]
fn a_stall_is_nobodys_from_its_beginning_if_others_meet_as_many() {
    let (mut rig, mut now) = (rig(2), 0);
    for _ in 0..8 {
        for stream in [0, 1] {
            let charged = stalls(&mut rig, &mut now, stream, Kind::Read);
            assert!(charged < 2 * MS, "{charged} ns");
        }
    }
    assert!(rig.time().spare.as_nanos() > 16 * 690 * MS, "{:?}", rig.time());
}

/// The time of the piece after a stall belongs to its stream: only the silence is taken out.
#[test]
fn a_stall_takes_only_the_silence_out_of_its_window() {
    let (mut rig, mut now) = (rig(2), 0);
    for id in 0..100 {
        (now, _) = serve(&mut rig, now, read(id, 0, 4096), MS);
    }
    // Two streams share the device from here on: a window is open.
    for id in 0..4 {
        rig.request(now, read(200 + id, id % 2, 4096));
    }
    let pieces = loop {
        match rig.go(now) {
            none if none.is_empty() => now += 10 * MS,
            pieces => break pieces,
        }
    };
    let spare = rig.time().spare.as_nanos();
    let estimate = pieces[0].estimate.as_nanos();
    rig.done(now + MS, pieces[0].piece);
    let (silent, last) = (700 * MS, now + MS);
    let rest = rig.go(last);
    let next = pieces.get(1).or(rest.first()).copied();
    let next = next.expect("another piece is at the device");
    rig.done(last + silent, next.piece);
    let stalled = rig.time().spare.as_nanos() - spare;
    assert!(stalled + 2 * next.estimate.as_nanos().max(estimate) >= silent, "{stalled} ns");
    assert!(stalled < silent, "the piece itself took some of it: {stalled} ns");
}

/// A disk that retries a read takes several times as long as usual: that is service.
#[test]
fn a_read_that_takes_six_times_as_long_as_usual_is_no_stall() {
    let (mut rig, mut now) = (rig_at(1, "fixed", 2), 0);
    for id in 0..60 {
        (now, _) = serve(&mut rig, now, read(id, id % 2, 4096), 60 * MS);
    }
    let (_, charged) = serve(&mut rig, now, read(200, 0, 4096), 360 * MS);
    assert_eq!(charged, 360 * MS);
}

/// The rest of a silence of ten times as long as usual is nobody's.
#[test]
fn a_read_that_takes_ten_times_as_long_as_usual_meets_a_stall() {
    let (mut rig, mut now) = (rig_at(1, "fixed", 2), 0);
    for id in 0..60 {
        (now, _) = serve(&mut rig, now, read(id, id % 2, 4096), 60 * MS);
    }
    let (_, charged) = serve(&mut rig, now, read(200, 0, 4096), 600 * MS);
    assert!(charged.abs_diff(60 * MS) <= MS, "{charged} ns");
}

/// Else the answers of a device's caches in the beginning would be seen as a price.
#[test]
fn a_stretch_alone_is_no_longer_for_a_stall_in_its_beginning() {
    let learned = |stalled: u64| {
        let limits = Limits { depth: 4, ..Limits::default() };
        let policy = policy::find("zygaria").unwrap();
        let config = Config { policy, cost_model: "learned", limits, ..Config::default() };
        let mut rig = Rig { engine: Engine::new(&config).unwrap() };
        let spec = StreamSpec { contract: contract(100, 100), ..StreamSpec::default() };
        rig.change(0, Change::AddStream(StreamId(0), spec));
        let (begun, _) = serve(&mut rig, 0, read(0, 0, 4096), stalled);
        let mut now = begun;
        for id in 1..100 {
            (now, _) = serve(&mut rig, now, read(id, 0, 4096), 8 * MS);
            if rig.engine.estimates(StreamId(0)).iter().any(|it| it.seen_at.is_some()) {
                break;
            }
        }
        (now - begun) / MS
    };
    // A quarter of a second of pieces that took far longer than guessed, from 50 ms on.
    let after = learned(700 * MS);
    assert!((290..=330).contains(&after), "{after} ms after the stall");
}

/// Otherwise a client that knows where a device stalls, or has the only bad sectors there, would
/// have that time for free.
#[test]
fn a_stream_that_meets_more_stalls_than_all_others_pays_for_them() {
    let (mut rig, mut now) = (rig(2), 0);
    assert!(stalls(&mut rig, &mut now, 0, Kind::Read) < 2 * MS, "nobody has met one");
    for _ in 0..8 {
        let charged = stalls(&mut rig, &mut now, 0, Kind::Read);
        assert!(charged >= 100 * MS, "{charged} ns");
    }
    let charged = stalls(&mut rig, &mut now, 1, Kind::Read);
    assert!(charged < 2 * MS, "the other has met none: {charged} ns");
}

/// They take that long in their own right.
#[test]
fn flushes_and_writes_do_not_stall() {
    for kind in [Kind::Flush, Kind::Write, Kind::Zeroes, Kind::Trim] {
        let (mut rig, mut now) = (rig(2), 0);
        let charged = stalls(&mut rig, &mut now, 0, kind);
        assert_eq!(charged, 700 * MS, "{kind:?}");
    }
}

/// A device whose every piece takes that long does not stall: it is slow, and its price is learned.
#[test]
fn slow_pieces_are_no_stalls_for_long() {
    let (mut rig, mut now) = (rig(1), 0);
    let mut charged = 0;
    for id in 0..200 {
        (now, charged) = serve(&mut rig, now, read(id, 0, 4096), 400 * MS);
    }
    assert_eq!(charged, 400 * MS);
    let estimates = rig.engine.estimates(StreamId(0));
    assert!(
        estimates.iter().any(|it| it.cost.as_nanos().abs_diff(400 * MS) < 40 * MS),
        "{estimates:?}"
    );
}

/// A stream of 10 % paid 30 s for one read, and had nothing for 270 s after it.
#[test]
fn a_stall_at_depth_one_is_nobodys_under_any_cost_model() {
    for cost_model in ["fixed", "learned", "priced"] {
        let (mut rig, mut now) = (rig_at(1, cost_model, 10), 0);
        for id in 0..100 {
            (now, _) = serve(&mut rig, now, read(id, 0, 4096), MS);
        }
        let (_, charged) = serve(&mut rig, now, read(200, 0, 4096), 30_000 * MS);
        assert!(charged <= 20 * MS, "{cost_model}: {charged} ns");
        assert!(rig.time().spare.as_nanos() >= 29_900 * MS, "{cost_model}: {:?}", rig.time());
    }
}

/// The charge for a write of 30 s after a hundred of 1 ms.
fn late_write(rig: &mut Rig) -> u64 {
    let mut now = 0;
    let write = |id| Request { kind: Kind::Write, ..read(id, 0, 4096) };
    for id in 0..100 {
        (now, _) = serve(rig, now, write(id), MS);
    }
    serve(rig, now, write(200), 30_000 * MS).1
}

/// A write may take long in its own right, but not 30 s after a hundred of 1 ms.
#[test]
fn a_write_pays_little_of_a_stall_at_depth_one() {
    for cost_model in ["fixed", "learned"] {
        let policy = policy::find("zygaria").unwrap();
        let config = Config { policy, cost_model, ..Config::default() };
        let mut rig = Rig { engine: Engine::new(&config).unwrap() };
        let spec = StreamSpec { contract: contract(50, 100), ..StreamSpec::default() };
        rig.change(0, Change::AddStream(StreamId(0), spec));
        let charged = late_write(&mut rig);
        assert!((100 * MS..200 * MS).contains(&charged), "{cost_model}: {charged} ns");
    }
}

/// Where slices are given it may take its stream as far ahead as the promise bound counts with: by a slice of 350 ms,
/// a piece of 50 ms and a second of its half.
#[test]
fn a_write_pays_of_a_stall_what_a_promise_bound_counts_with() {
    for depth in [1, 4] {
        for cost_model in ["fixed", "learned"] {
            let charged = late_write(&mut rig_at(depth, cost_model, 2));
            assert!((890 * MS..=910 * MS).contains(&charged), "{depth} {cost_model}: {charged} ns");
        }
    }
}

/// `fixed` takes no read for longer than 20 ms: on a device whose every read takes 400 ms each looked
/// like a stall, whichever stream it was of.
#[test]
fn a_device_that_is_slow_at_depth_one_does_not_stall_for_long() {
    for cost_model in ["fixed", "learned"] {
        let (mut rig, mut now) = (rig_at(1, cost_model, 2), 0);
        for id in 0..40 {
            let (end, charged) = serve(&mut rig, now, read(id, id % 2, 4096), 400 * MS);
            assert!(id < 16 || charged == 400 * MS, "{cost_model}: {id} {charged} ns");
            now = end;
        }
    }
}
