//! Promise bounds: what they follow from, and when the engine tells that one is broken.
#![allow(clippy::unwrap_used, reason = "the tests choose streams that exist")]

mod rig;

use disktime_core::promise::{self, ROUND, SLICE, Terms};
use disktime_core::{
    Access, Admission, BrokenBy, Change, Class, Contract, Duration, Event, Kind, Rate, Request,
    StreamId, policy,
};
use rig::{MS, Rig, SECOND, at, contract, percent, read};

/// A policy under which one stream starves beside another that has work: each request goes by when it
/// came, and the other's all came first.
fn fifo() -> Rig {
    Rig::under(1, (policy::find("edf").unwrap().build)())
}

/// When a bound was broken, whose, by how long it was behind, and who had the time.
fn broken(rig: &mut Rig) -> Vec<(u32, u64, BrokenBy)> {
    let broken = |event| match event {
        Event::PromiseBroken { stream, behind, bound, by } => {
            assert!(behind >= bound, "{behind:?} of {bound:?}");
            Some((stream.0, behind.as_nanos() / MS, by))
        }
        _ => None,
    };
    rig.events().into_iter().filter_map(broken).collect()
}

/// Serves what goes out, each piece in 10 ms, and wakes the engine when it wants that; until then.
fn run(rig: &mut Rig, from: u64, until: u64) -> u64 {
    let mut now = from;
    while now < until {
        let Some(piece) = rig.go(now).first().map(|dispatch| dispatch.piece) else {
            now = rig.engine.poll_timeout().unwrap().as_nanos();
            rig.timeout(now);
            continue;
        };
        now += 10 * MS;
        rig.done(now, piece);
    }
    now
}

#[test]
fn a_bound_is_a_number_of_contracts_depth_piece_and_slice() {
    let period = Duration::from_secs(1);
    let bound = |streams: u32, share_ppm: u32, depth: u32, piece_ms: u64| {
        let mut terms = Terms::new(depth, Duration::from_millis(piece_ms), SLICE, period);
        let contract = Contract::reserving(disktime_core::Share::from_ppm(share_ppm).unwrap());
        (0..streams).for_each(|_| terms.add(&contract, None));
        terms.bound(&contract).unwrap().as_nanos() / MS
    };
    // The table of docs/promises.md.
    let bounds = [(2, 500_000), (10, 100_000), (1_000, 1_000)].map(|(streams, ppm)| {
        [(1, 50), (32, 50), (32, 2)].map(|(depth, piece)| bound(streams, ppm, depth, piece))
    });
    let table = [[1_900, 3_450, 1_770], [8_300, 9_850, 7_402], [120_980, 122_530, 25_042]];
    assert_eq!(bounds, table);
    let alone = Terms::new(1, Duration::from_millis(50), Duration::ZERO, period);
    let half = Contract::reserving(percent(50));
    assert_eq!(
        alone.bound(&half).unwrap(),
        Duration::from_millis(1_000 + 50 + 100),
        "u + c + f·D·c"
    );
    let none = [
        Contract::default(),
        Contract { class: Class::Background, ..half },
        Contract { class: Class::GuaranteedRate, ..half },
    ];
    none.iter().for_each(|contract| assert_eq!(alone.bound(contract), None, "{contract:?}"));
    assert!(ROUND > SLICE);
}

/// One flush of 30 s loosened all bounds to 123 s for ever, and a stream of a high number to 2,050 s:
/// they were sums over places in a table of the longest that anything had taken.
#[test]
fn a_bound_does_not_depend_on_what_happens() {
    let mut rig = Rig::under(1, (policy::find("disktime").unwrap().build)());
    rig.add(0, contract(50, 100));
    rig.add(1, contract(50, 100));
    let bound = |rig: &Rig| rig.engine.promise(StreamId(0));
    assert_eq!(bound(&rig), Some(Duration::from_millis(1_900)));
    let flush = Request { kind: Kind::Flush, bytes: 0, ..read(1, 1, 0) };
    rig.request(0, flush);
    let piece = rig.go_one(0).piece;
    rig.done(30 * SECOND, piece);
    assert_eq!(bound(&rig), Some(Duration::from_millis(1_900)));
    rig.add(16_383, contract(0, 100));
    let three = bound(&rig);
    assert_eq!(
        three,
        Some(Duration::from_millis(1_900 + 350 + 50)),
        "one more slice and its piece"
    );
    rig.change(30 * SECOND, Change::RemoveStream(StreamId(16_383)));
    assert_eq!(bound(&rig), Some(Duration::from_millis(1_900)));
    rig.change(30 * SECOND, Change::SetHorizon(Duration::from_millis(100)));
    assert_eq!(bound(&rig), Some(Duration::from_millis(1_400)));
    rig.change(30 * SECOND, Change::SetDepth(32));
    assert_eq!(bound(&rig), Some(Duration::from_millis(1_400 + 31 * 50)));
}

/// A stream that was never dispatched was never found behind: only its own dispatch looked.
#[test]
fn a_stream_that_is_served_nothing_is_told_of_at_its_bound_and_again_after_as_long() {
    let mut rig = fifo();
    rig.add(0, contract(70, 100));
    rig.add(1, contract(30, 100));
    for id in 0..1_000 {
        rig.ask(0, id, 1, 1_000);
    }
    rig.ask(0, 2_000, 0, 1_000);
    let bound = rig.engine.promise(StreamId(0)).unwrap().as_nanos();
    let now = run(&mut rig, 0, bound - 20 * MS);
    assert_eq!(broken(&mut rig), [], "not before");
    let now = run(&mut rig, now, bound + 20 * MS);
    let [(stream, behind, by)] = broken(&mut rig)[..] else { panic!("told once") };
    assert_eq!((stream, by), (0, BrokenBy::Others));
    assert!((bound / MS..=bound / MS + 20).contains(&behind), "{behind} ms of {bound} ns");
    run(&mut rig, now, 2 * bound + 60 * MS);
    assert_eq!(broken(&mut rig).len(), 1, "told again");
}

#[test]
fn a_device_that_answers_nothing_is_told_of_by_a_timer() {
    let mut rig = fifo();
    rig.add(0, contract(50, 100));
    rig.add(1, contract(50, 100));
    rig.ask(0, 1, 1, 1_000);
    rig.go_one(0);
    rig.ask(0, 2, 0, 1_000);
    let bound = rig.engine.promise(StreamId(0)).unwrap().as_nanos();
    let due = rig.engine.poll_timeout().unwrap().as_nanos();
    assert!((bound..=bound + 10).contains(&due), "{due} for a bound of {bound}");
    rig.timeout(due - 1);
    assert_eq!(broken(&mut rig), []);
    rig.timeout(due);
    assert_eq!(broken(&mut rig), [(0, bound / MS, BrokenBy::Device)]);
    let again = rig.engine.poll_timeout().unwrap().as_nanos();
    assert!(again >= due + bound, "a timer that has fired is set anew");
}

/// A timer that has nothing to tell would have policies asked again, and they answer by the time.
#[test]
fn a_stream_that_is_served_sets_no_timer_off() {
    let mut rig = fifo();
    rig.add(0, contract(50, 100));
    for id in 0..1_000 {
        rig.ask(0, id, 0, 1_000);
    }
    let mut now = 0;
    for _ in 0..900 {
        let piece = rig.go_one(now).piece;
        now += 10 * MS;
        assert!(rig.engine.poll_timeout().is_none_or(|next| next > at(now)));
        rig.done(now, piece);
    }
    assert_eq!(broken(&mut rig), []);
}

/// Nothing happens in the half second before its bound of 1.5 s: by then the time at which it would break that must
/// count its service.
#[test]
fn a_stream_that_was_served_a_second_before_its_bound_sets_no_timer_off() {
    let mut rig = fifo();
    rig.add(0, contract(50, 100));
    assert_eq!(rig.engine.promise(StreamId(0)), Some(Duration::from_millis(1_500)));
    let (mut now, takes) = (0, [600, 380, 620, 10]);
    for (id, millis) in (0..).zip(takes) {
        rig.ask(0, id, 0, 1_000 * millis);
    }
    // The last one waits.
    for millis in &takes[..3] {
        let piece = rig.go_one(now).piece;
        now += millis * MS;
        assert!(rig.engine.poll_timeout().is_none_or(|next| next > at(now)));
        rig.done(now, piece);
    }
}

#[test]
fn what_keeps_a_stream_back_by_its_own_contract_breaks_no_promise() {
    let mut rig = fifo();
    rig.add(0, contract(10, 10));
    rig.add(1, contract(50, 100));
    rig.change(0, Change::SetStreamDepth(StreamId(1), 1));
    for id in 0..2_000 {
        rig.ask(0, id, id % 2, 1_000);
    }
    run(&mut rig, 0, 30 * SECOND);
    assert_eq!(broken(&mut rig).iter().filter(|told| told.0 == 0).count(), 0, "at its limit");
}

#[test]
fn a_reservation_that_is_given_while_a_stream_waits_is_watched_from_then_on() {
    let mut rig = fifo();
    rig.add(0, contract(0, 100));
    rig.add(1, contract(0, 100));
    rig.ask(0, 1, 1, 1_000);
    rig.go_one(0);
    rig.ask(0, 2, 0, 1_000);
    assert_eq!(rig.engine.poll_timeout(), None, "nothing is promised");
    rig.change(SECOND, Change::SetContracts(&[(StreamId(0), contract(50, 100))]));
    let bound = rig.engine.promise(StreamId(0)).unwrap().as_nanos();
    let due = rig.engine.poll_timeout().unwrap().as_nanos();
    assert!((SECOND + bound..=SECOND + bound + 10).contains(&due), "{due}");
    // Removing streams and lowering the depth shortens bounds: a time that was set is too late.
    rig.timeout(SECOND + MS);
    rig.change(SECOND + MS, Change::SetHorizon(Duration::from_millis(100)));
    rig.timeout(SECOND + 2 * MS);
    let shorter = rig.engine.promise(StreamId(0)).unwrap().as_nanos();
    assert!(shorter + 100 * MS < bound);
    let due = rig.engine.poll_timeout().unwrap().as_nanos();
    assert!((SECOND + shorter..=SECOND + shorter + 10).contains(&due), "{due}");
}

/// Beside a rate that nothing bounds no best effort has a bound: such a stream was backlogged long before it has one.
#[test]
fn a_stream_that_waits_is_watched_once_the_last_rate_without_a_bound_is_gone() {
    let mut rig = fifo();
    rig.add(0, contract(50, 100));
    rig.add(1, contract(0, 100));
    let rate = Rate {
        bytes_per_second: 1_000,
        cycle: None,
        admission: Admission::BestEffort,
        access: Access::Both,
    };
    let class = Class::GuaranteedRate;
    [2, 3].iter().for_each(|id| {
        rig.add(*id, Contract { rate: Some(rate), class, ..Contract::default() });
    });
    rig.ask(0, 1, 1, 1_000);
    rig.go_one(0);
    rig.ask(0, 2, 0, 1_000);
    rig.timeout(MS);
    for (id, now) in [(2, 100 * MS), (3, 200 * MS)] {
        assert_eq!(rig.engine.promise(StreamId(0)), None);
        rig.change(now, Change::RemoveStream(StreamId(id)));
        rig.timeout(now + MS);
    }
    let bound = rig.engine.promise(StreamId(0)).unwrap().as_nanos();
    let due = rig.engine.poll_timeout().unwrap().as_nanos();
    assert!((bound..=bound + 10).contains(&due), "{due} for a bound of {bound}");
}

/// A stall is nobody's: a stream was behind by 70 % of it for as long as it was backlogged. So is the time of a write
/// beyond what its stream pays.
#[test]
fn a_stall_that_is_over_leaves_no_stream_behind() {
    for kind in [Kind::Read, Kind::Write] {
        let mut rig = fifo();
        rig.add(0, contract(70, 100));
        rig.add(1, contract(30, 100));
        for id in 0..2_000 {
            rig.request(0, Request { kind, ..read(id, id % 2, 10_000) });
        }
        let mut now = run(&mut rig, 0, SECOND);
        let piece = rig.go_one(now).piece;
        now += 1_200 * MS;
        rig.done(now, piece);
        // Each has half of the time: stream 0 falls behind by .2 of it, and by nothing for the stall.
        run(&mut rig, now, now + 3 * SECOND);
        assert_eq!(broken(&mut rig), [], "{kind:?}");
    }
}

#[test]
fn a_profile_states_how_long_a_piece_takes() {
    let zone = disktime_core::Zone { end: 1 << 40, read: TRANSFER, write: TRANSFER };
    let far = disktime_core::Positioning {
        distance: 1 << 40,
        mean: Duration::from_millis(10),
        deviation: Duration::from_millis(1),
        worst: Duration::from_millis(20),
    };
    let (destage, prices) = (Duration::ZERO, None);
    let profile =
        disktime_core::Profile { zones: vec![zone], positioning: vec![far], destage, prices };
    let piece = promise::piece_time(&profile, 1 << 20);
    assert_eq!(piece, Duration::from_millis(30), "20 ms and 1 MiB at 100 MiB/s");
    let mut rig = fifo();
    rig.add(0, contract(50, 100));
    let before = rig.engine.promise(StreamId(0)).unwrap();
    rig.change(0, Change::SetProfile(&profile));
    let after = rig.engine.promise(StreamId(0)).unwrap();
    assert_eq!(before.as_nanos() - after.as_nanos(), 3 * 20 * MS, "c/f + D·c, 50 ms to 30");
}

const TRANSFER: disktime_core::Transfer =
    disktime_core::Transfer { per_request: Duration::ZERO, bytes_per_second: 100 << 20 };
