//! Classes: their order, the cover of a guarantee, and the cuts when a device degrades.

mod rig;

use disktime_core::admission::LatencyError;
use disktime_core::{
    Access, Admission, Change, ChangeError, Class, Contract, Duration, Event, Kind, Positioning,
    Profile, Rate, Request, Share, StreamError, StreamId, StreamSpec, Transfer, Zone,
};
use rig::{MS, Rig, SECOND, at, contract, percent, read};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// 1 byte takes 1 µs, as the rig's pieces do; positioning at most 1 ms.
fn profile() -> Profile {
    let transfer = Transfer { per_request: Duration::ZERO, bytes_per_second: 1_000_000 };
    let (mean, worst) = (Duration::from_micros(500), Duration::from_millis(1));
    Profile {
        zones: vec![Zone { end: 1 << 50, read: transfer, write: transfer }],
        positioning: vec![Positioning { distance: 1, mean, deviation: mean, worst }],
        destage: Duration::ZERO,
        prices: None,
    }
}

fn of(class: Class) -> Contract {
    Contract { class, ..Contract::default() }
}

fn rate(bytes_per_second: u64, cycle: Duration, admission: Admission) -> Contract {
    let rate = Rate { bytes_per_second, cycle: Some(cycle), admission, access: Access::Both };
    Contract { rate: Some(rate), ..of(Class::GuaranteedRate) }
}

fn bound(reserve: u32, bound: Duration) -> Contract {
    let class = Class::GuaranteedLatency;
    Contract { class, latency: Some(bound), ..Contract::reserving(percent(reserve)) }
}

fn rig() -> Rig {
    let mut rig = Rig::new(1);
    rig.change(0, Change::SetProfile(&profile()));
    rig
}

fn with_class(request: Request, class: Class) -> Request {
    Request { class: Some(class), ..request }
}

/// Sends and completes everything that waits from `now` on; answers the requests in that order.
fn order(rig: &mut Rig, mut now: u64) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(piece) = rig.engine.poll_dispatch(at(now)) {
        now += piece.bytes * 1_000;
        if order.last() != Some(&piece.request.0) {
            order.push(piece.request.0);
        }
        let _over = rig.done(now, piece.piece);
    }
    order
}

#[test]
fn classes_go_in_their_order() {
    let mut rig = rig();
    rig.add(0, of(Class::Background));
    rig.add(1, of(Class::BestEffort));
    rig.add(2, rate(10_000, Duration::from_secs(4), Admission::Deterministic));
    rig.add(3, bound(10, Duration::from_secs(3)));
    rig.add(4, of(Class::SoftRealTime));
    for stream in 0..5 {
        rig.ask(SECOND, stream, stream, 1_000);
    }
    // Guaranteed latency, rate, best effort (soft real-time by usage, then by name), background.
    // Best effort has slack first: see `the_slack_register_lets_best_effort_go_first`.
    let order = order(&mut rig, SECOND);
    assert_eq!(order[0], 3);
    assert_eq!(order[4], 0);
}

/// A rig whose device has a write cache, with a rate of 40,000 bytes in 4 s and best effort.
fn cached_rig(admission: Admission) -> Rig {
    let mut rig = Rig::new(1);
    let profile = Profile { destage: Duration::from_millis(2), ..profile() };
    rig.change(0, Change::SetProfile(&profile));
    rig.add(0, rate(10_000, Duration::from_secs(4), admission));
    rig.add(1, Contract::default());
    rig
}

/// Which of these pieces end with a flush, request by request; the pieces of one after another.
fn flushed(rig: &mut Rig, mut now: u64) -> Vec<(u32, bool)> {
    let mut flushed = Vec::new();
    while let Some(piece) = rig.engine.poll_dispatch(at(now)) {
        now += piece.bytes * 1_000;
        flushed.push((piece.request.0, piece.flush));
        let _over = rig.done(now, piece.piece);
    }
    flushed.sort_unstable();
    flushed
}

#[test]
fn a_batch_of_writes_ends_with_a_flush_if_a_promise_rests_on_an_empty_cache() {
    let asked = |rig: &mut Rig| {
        for id in 0..3 {
            rig.request(4 * SECOND, Request { kind: Kind::Write, ..read(id, 0, 1_000) });
        }
        rig.request(4 * SECOND, Request { kind: Kind::Write, ..read(3, 1, 1_000) });
        rig.ask(4 * SECOND, 4, 1, 1_000);
        flushed(rig, 4 * SECOND).into_iter().map(|(_, flush)| flush).collect::<Vec<_>>()
    };
    let firm = asked(&mut cached_rig(Admission::Deterministic));
    assert_eq!(firm, [false, false, true, true, false], "the batch, and what others write");
    let miss = percent(1);
    let loose = asked(&mut cached_rig(Admission::Statistical { miss }));
    assert_eq!(loose, [false, false, true, false, false], "the batch");
    let none = asked(&mut cached_rig(Admission::BestEffort));
    assert_eq!(none, [false; 5], "nothing is promised");
    let mut bounded = cached_rig(Admission::BestEffort);
    bounded.add(2, bound(10, Duration::from_secs(3)));
    assert_eq!(asked(&mut bounded)[3..], [true, false], "a bound counts on it too");
    let mut through = rig();
    through.add(0, rate(10_000, Duration::from_secs(4), Admission::Deterministic));
    through.add(1, Contract::default());
    assert_eq!(asked(&mut through), [false; 5], "no cache");
}

#[test]
fn a_batch_keeps_the_device_for_its_turn() {
    // 30 ms of the longer cycle are under way when the shorter one begins.
    let mut rig = rig();
    rig.add(0, rate(30_000, Duration::from_secs(1), Admission::Deterministic));
    rig.add(1, rate(10_000, Duration::from_millis(300), Admission::Deterministic));
    for id in 0..3 {
        rig.ask(5 * SECOND, id, 0, 10_000);
    }
    let first = rig.engine.poll_dispatch(at(5 * SECOND)).unwrap();
    rig.ask(5 * SECOND + MS, 3, 1, 1_000);
    let _over = rig.done(5 * SECOND + 10 * MS, first.piece);
    assert_eq!(order(&mut rig, 5 * SECOND + 10 * MS), [1, 2, 3]);
}

#[test]
fn a_request_may_state_a_lower_class_and_a_higher_one_only_if_it_is_paid_for() {
    let mut rig = rig();
    rig.add(0, Contract::default());
    rig.add(1, contract(20, 100));
    rig.add(2, Contract::default());
    rig.request(SECOND, read(0, 2, 1_000));
    // Nothing reserved: its wish does not count.
    rig.request(SECOND, with_class(read(1, 0, 1_000), Class::GuaranteedLatency));
    rig.request(SECOND, with_class(read(2, 0, 1_000), Class::Background));
    rig.request(SECOND, read(3, 1, 1_000));
    rig.request(SECOND, with_class(read(4, 1, 1_000), Class::GuaranteedLatency));
    rig.request(SECOND, with_class(read(5, 1, 1_000), Class::GuaranteedRate));
    let order = order(&mut rig, SECOND);
    assert_eq!(order[0], 4, "from reserved time: {order:?}");
    assert_eq!(order[5], 2, "background is last: {order:?}");
}

#[test]
fn reserved_time_bounds_what_guaranteed_latency_takes_ahead() {
    let mut rig = rig();
    rig.add(0, bound(10, Duration::from_secs(2)));
    rig.add(1, Contract::default());
    for id in 0..1_000 {
        rig.ask(SECOND, id, id % 2, 10_000);
    }
    let mut ahead = 0;
    let mut now = SECOND;
    while now < 3 * SECOND {
        let piece = rig.engine.poll_dispatch(at(now)).unwrap();
        ahead += u32::from(piece.request.0.is_multiple_of(2));
        now += 10 * MS;
        let _over = rig.done(now, piece.piece);
    }
    // Its bucket held 100 ms, and fills with 10 % of 2 s; the last may overdraw it.
    assert!((28..=31).contains(&ahead), "{ahead} of 200");
}

#[test]
fn the_excess_of_a_guarantee_goes_when_best_effort_does_not_want_the_device() {
    let mut rig = rig();
    rig.add(0, rate(100_000, Duration::from_secs(1), Admission::Deterministic));
    rig.add(1, of(Class::Background));
    for id in 0..10 {
        rig.ask(SECOND, id, 0, 50_000);
        rig.ask(SECOND, 100 + id, 1, 1_000);
    }
    let order = order(&mut rig, SECOND);
    assert_eq!(order[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "nobody of best effort is there");
}

#[test]
fn a_rate_is_kept_in_every_cycle_and_no_more_beside_best_effort() {
    let mut rig = rig();
    rig.add(0, rate(200_000, Duration::from_secs(1), Admission::Deterministic));
    rig.add(1, Contract::default());
    let mut now = SECOND;
    let (mut next, mut of_rate) = (0, Vec::new());
    for cycle in 1..20 {
        let mut bytes = 0;
        while now < (cycle + 1) * SECOND {
            // Both ask for as much as they can.
            for stream in 0..2 {
                while rig.view(stream).waiting() < 8 {
                    rig.ask(now, 2 * next + stream, stream, 20_000);
                    next += 1;
                }
            }
            let piece = rig.engine.poll_dispatch(at(now)).unwrap();
            let mine = piece.request.0.is_multiple_of(2);
            now += piece.bytes * 1_000;
            bytes += if mine { piece.bytes } else { 0 };
            let _over = rig.done(now, piece.piece);
        }
        of_rate.push(bytes);
    }
    assert!(of_rate.iter().all(|bytes| (200_000..=220_000).contains(bytes)), "{of_rate:?}");
    let counters = rig.view(0).counters();
    assert_eq!((counters.cycles, counters.cycles_missed), (19, 0));
}

/// A load that submits a cycle's worth exactly when the cycle begins once counted for nothing: the
/// engine began the cycle when it saw the time, before it took the first request, so that no cycle
/// of such a load was ever counted, nor a missed one.
#[test]
fn a_request_that_arrives_as_a_cycle_begins_counts_in_it() {
    let mut rig = rig();
    rig.add(0, rate(100_000, Duration::from_secs(1), Admission::Deterministic));
    for id in 0..6 {
        rig.ask(SECOND, id, 0, 20_000);
    }
    rig.timeout(2 * SECOND);
    let counters = rig.view(0).counters();
    assert_eq!((counters.cycles, counters.cycles_missed), (1, 1));
    let missed = rig.events().into_iter().find(|it| matches!(it, Event::CycleMissed { .. }));
    let waited = 100_352;
    assert_eq!(missed, Some(Event::CycleMissed { stream: StreamId(0), waited, done: 0 }));
}

#[test]
fn the_slack_register_lets_best_effort_go_first() {
    let mut rig = rig();
    rig.add(0, rate(200_000, Duration::from_secs(4), Admission::Deterministic));
    rig.add(1, Contract::default());
    for id in 0..10 {
        rig.ask(4 * SECOND, id, 0, 20_000);
    }
    rig.ask(4 * SECOND, 10, 1, 5_000);
    let full = rig.engine.slack();
    assert!(full > 0, "{full}");
    let piece = rig.go_one(4 * SECOND);
    assert_eq!(piece.request.0, 10, "there is time until the cycle's end");
    assert_eq!(rig.engine.slack(), full - piece.estimate.as_tokens());
    rig.done(4 * SECOND + 5 * MS, piece.piece);
    rig.timeout(60 * SECOND);
    assert_eq!(rig.engine.slack(), full, "the register holds no more, however long nobody uses it");
    // Best effort that takes all it can get does not break the rate: see above.
}

/// A rate that was admitted without a check was said to go first whatever there is: nothing is set aside
/// for it, so the slack register has all of the time, as long as there is a profile to reckon with.
#[test]
fn a_rate_admitted_without_a_check_goes_first_but_for_slack() {
    let order_with = |mut rig: Rig| {
        rig.add(0, rate(200_000, Duration::from_secs(4), Admission::BestEffort));
        rig.add(1, Contract::default());
        rig.ask(4 * SECOND, 1, 1, 5_000);
        rig.ask(4 * SECOND, 0, 0, 20_000);
        order(&mut rig, 4 * SECOND)
    };
    assert_eq!(order_with(Rig::new(1)), [0, 1], "no profile, no slack");
    assert_eq!(order_with(rig()), [1, 0], "slack");
}

/// A request that states a class which its stream has not paid for is its stream's own class's work, in
/// the accounts as well.
#[test]
fn a_class_that_is_not_paid_for_has_no_work() {
    for class in [Class::GuaranteedLatency, Class::GuaranteedRate] {
        let mut rig = rig();
        rig.add(0, Contract::default());
        rig.request(SECOND, with_class(read(1, 0, 1_000), class));
        assert_eq!(order(&mut rig, SECOND), [1]);
        assert_eq!(rig.engine.charged_to(class), Duration::ZERO, "{class:?}");
        assert_eq!(rig.engine.charged_to(Class::BestEffort), Duration::from_millis(1));
    }
}

/// A request of guaranteed latency that gets between a rate's pieces makes the device seek back: its
/// stream pays for that, or its reservation would bound nothing.
#[test]
fn guaranteed_latency_pays_for_the_seek_back_that_it_causes() {
    let mut rig = rig();
    rig.add(0, rate(10_000, Duration::from_secs(4), Admission::Deterministic));
    rig.add(1, bound(10, Duration::from_secs(3)));
    rig.ask(4 * SECOND, 0, 0, 10_000);
    rig.ask(4 * SECOND, 1, 0, 10_000);
    let batch = rig.go_one(4 * SECOND);
    rig.ask(4 * SECOND + 5 * MS, 2, 1, 10_000);
    let _over = rig.done(4 * SECOND + 10 * MS, batch.piece);
    assert_eq!(rig.go_one(4 * SECOND + 10 * MS).request.0, 2);
    let without = 100_000_000 + 500_000 - 10_000_000;
    assert_eq!(rig.view(1).reserve_level(), without - 1_000_000, "a seek of at most 1 ms");
}

/// Pieces ahead of a guaranteed rate that take far longer than estimated use the slack up.
#[test]
fn slack_is_used_by_the_time_that_pieces_really_take() {
    let mut rig = rig();
    rig.add(0, rate(200_000, Duration::from_secs(4), Admission::Deterministic));
    rig.add(1, Contract::default());
    (0..5).for_each(|id| rig.ask(4 * SECOND, id, 0, 20_000));
    (10..70).for_each(|id| rig.ask(4 * SECOND, id, 1, 5_000));
    let mut now = 4 * SECOND;
    let first = rig.go_one(now);
    assert_eq!(first.request.0, 10, "best effort has slack");
    let mut piece = first.piece;
    loop {
        now += 90 * MS;
        let _over = rig.done(now, piece);
        let next = rig.go_one(now);
        if next.request.0 < 10 {
            break;
        }
        piece = next.piece;
    }
    assert!(now < 8 * SECOND, "the cycle ended before the rate had its turn");
}

/// Requests beyond their guarantees go by age, whichever guarantee they are beyond.
#[test]
fn the_oldest_request_beyond_its_guarantee_goes_first() {
    let mut rig = rig();
    rig.add(0, rate(10_000, Duration::from_secs(4), Admission::Deterministic));
    rig.add(1, contract(10, 100));
    let urgent = |id, bytes| with_class(read(id, 1, bytes), Class::GuaranteedLatency);
    rig.request(4 * SECOND, urgent(10, 200_000));
    rig.request(4 * SECOND, urgent(11, 1_000));
    (0..3).for_each(|id| rig.ask(4 * SECOND, id, 0, 21_000));
    assert_eq!(order(&mut rig, 4 * SECOND), [10, 0, 1, 11, 2]);
}

/// A best-effort rate is not promised: that it is missed is no sign of a degraded device.
#[test]
fn a_missed_rate_that_was_not_promised_cuts_nobody() {
    let mut rig = Rig::new(1);
    rig.add(0, rate(100_000, Duration::from_secs(1), Admission::BestEffort));
    (0..10).for_each(|id| rig.ask(SECOND / 2, id, 0, 20_000));
    (1..6).for_each(|second| rig.timeout(second * SECOND));
    assert_eq!(rig.view(0).counters().cycles_missed, 4);
    assert!(!rig.events().iter().any(|event| matches!(event, Event::Cut(_))));
}

/// A waiting request of a rate is due at the end of the cycle in which it is served, or earlier if its
/// client wants it earlier.
#[test]
fn a_rates_request_is_due_at_the_end_of_the_cycle_or_before() {
    let mut rig = Rig::new(1);
    rig.add(0, rate(100_000, Duration::from_secs(1), Admission::BestEffort));
    let due = |rig: &Rig| rig.view(0).head().unwrap().deadline;
    rig.request(SECOND / 2, Request { deadline: Some(at(5 * SECOND)), ..read(1, 0, 1_000) });
    assert_eq!(due(&rig), Some(at(SECOND)));
    rig.timeout(SECOND);
    assert_eq!(due(&rig), Some(at(2 * SECOND)), "a new cycle began");
    let piece = rig.go_one(SECOND).piece;
    rig.request(SECOND, Request { deadline: Some(at(SECOND + MS)), ..read(2, 0, 1_000) });
    assert_eq!(due(&rig), Some(at(SECOND + MS)));
    let _over = rig.done(SECOND + MS, piece);
}

/// A batch keeps the device for its turn and no longer: a shorter cycle is not kept waiting for all of
/// it.
#[test]
fn a_batch_gives_the_device_up_after_its_turn() {
    let mut rig = rig();
    rig.add(0, rate(100_000, Duration::from_secs(4), Admission::Deterministic));
    rig.add(1, rate(10_000, Duration::from_millis(300), Admission::Deterministic));
    (0..40).for_each(|id| rig.ask(5 * SECOND, id, 0, 10_000));
    let first = rig.go_one(5 * SECOND);
    rig.ask(5 * SECOND + MS, 100, 1, 1_000);
    let now = 5 * SECOND + 10 * MS;
    let _over = rig.done(now, first.piece);
    let order = order(&mut rig, now);
    let place = order.iter().position(|id| *id == 100).unwrap();
    assert!(place < 30, "300 ms of the batch went first: {order:?}");
}

/// A turn once went on into the stream's next cycle: a batch that was late made a stream with an earlier
/// deadline wait for the batch after it, too.
#[test]
fn a_turn_ends_with_its_cycle() {
    let asked = |kind| {
        let mut rig = Rig::new(1);
        let destage = Duration::from_millis(2);
        rig.change(0, Change::SetProfile(&Profile { destage, ..profile() }));
        rig.add(0, rate(40_000, Duration::from_secs(1), Admission::Deterministic));
        rig.add(1, rate(10_000, Duration::from_millis(1_300), Admission::Deterministic));
        // The cycles end at 6 s and 6.5 s, and the next of the first stream at 7 s.
        let request = |id, stream| Request { kind, ..read(id, stream, 10_000) };
        (0..4).for_each(|id| rig.request(5_985 * MS, request(id, 0)));
        let first = rig.go_one(5_985 * MS);
        rig.request(5_986 * MS, request(4, 1));
        let _over = rig.done(5_995 * MS, first.piece);
        let mut now = 5_995 * MS;
        let mut sent = Vec::new();
        while let Some(piece) = rig.engine.poll_dispatch(at(now)) {
            now += 10 * MS;
            sent.push((piece.request.0, piece.flush));
            let _over = rig.done(now, piece.piece);
        }
        sent
    };
    assert_eq!(asked(Kind::Read), [1, 4, 2, 3].map(|id| (id, false)));
    let written = [(1, false), (2, true), (4, true), (3, true)];
    assert_eq!(asked(Kind::Write), written, "one piece more, with the flush");
}

/// A stream that waits in two classes, and whose limit one of them uses up, waits in both.
#[test]
fn a_limit_holds_back_every_class_of_its_stream() {
    let mut rig = rig();
    rig.add(0, contract(10, 10));
    rig.ask(0, 1, 0, 5_000);
    rig.request(SECOND, with_class(read(2, 0, 150_000), Class::GuaranteedLatency));
    let first = rig.go_one(SECOND);
    assert_eq!(first.request.0, 2);
    let _over = rig.done(SECOND + 150 * MS, first.piece);
    assert!(rig.go(SECOND + 150 * MS).is_empty(), "the 100 ms of a second's wait are used up");
    rig.timeout(2 * SECOND);
    assert_eq!(rig.go_one(2 * SECOND).request.0, 1);
}

#[test]
fn background_goes_out_in_pieces_that_others_can_get_between() {
    let mut rig = rig();
    rig.add(0, of(Class::Background));
    rig.add(1, Contract::default());
    rig.ask(SECOND, 0, 0, MIB);
    let first = rig.engine.poll_dispatch(at(SECOND)).unwrap();
    assert_eq!((first.request.0, first.bytes), (0, 128 * KIB));
    rig.ask(SECOND + MS, 1, 1, 1_000);
    let now = SECOND + 132 * MS;
    let _over = rig.done(now, first.piece);
    assert_eq!(rig.engine.poll_dispatch(at(now)).unwrap().request.0, 1);
}

#[test]
fn a_latency_bound_cuts_what_is_in_the_way() {
    let mut rig = rig();
    rig.add(1, Contract::default());
    rig.ask(SECOND, 0, 1, 4 * MIB);
    // Two pieces of 128 KiB and two positionings are 264 ms at a byte a microsecond.
    rig.add(0, bound(10, Duration::from_millis(270)));
    let piece = rig.engine.poll_dispatch(at(SECOND)).unwrap();
    assert_eq!(piece.bytes, 128 * KIB);
    let refused = rig.engine.handle_change(
        at(SECOND),
        Change::SetContracts(&[(StreamId(0), bound(10, Duration::from_millis(100)))]),
    );
    let Err(ChangeError::Stream { error: StreamError::Latency(error), .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.smallest > Duration::from_millis(190), "{error}");
}

/// A positioning takes up to a millisecond there, whoever goes first. Without a profile nothing is known of that.
#[test]
fn a_latency_bound_below_a_positioning_is_refused_to_every_class() {
    let (mut known, mut unknown, id) = (rig(), Rig::new(1), StreamId(0));
    let least = Duration::from_millis(1);
    let below = Duration::from_nanos(999_999);
    let refused = StreamError::Latency(LatencyError { bound: below, smallest: least }).of(id);
    let with = |class, latency| Contract { class, latency: Some(latency), ..Contract::default() };
    for class in [Class::BestEffort, Class::SoftRealTime] {
        let spec = |latency| StreamSpec { contract: with(class, latency), ..StreamSpec::default() };
        let add = |rig: &mut Rig, at_ms, latency| {
            rig.engine.handle_change(at(at_ms * MS), Change::AddStream(id, spec(latency)))
        };
        assert_eq!(add(&mut known, 2_000, below), Err(refused));
        assert_eq!(add(&mut known, 2_000, least), Ok(()));
        let contracts = [(id, with(class, below))];
        let changed = known.engine.handle_change(at(2_000 * MS), Change::SetContracts(&contracts));
        assert_eq!(changed, Err(refused));
        known.change(2_000 * MS, Change::RemoveStream(id));
        assert_eq!(add(&mut unknown, 2_000, below), Ok(()));
        unknown.change(2_000 * MS, Change::RemoveStream(id));
    }
}

#[test]
fn an_impossible_promise_is_refused_with_what_could_be_promised() {
    let second = Duration::from_secs(1);
    let mut bare = Rig::new(1);
    let add = |rig: &mut Rig, stream: u32, contract: Contract| {
        let spec = StreamSpec { contract, ..StreamSpec::default() };
        rig.engine.handle_change(at(0), Change::AddStream(StreamId(stream), spec))
    };
    let firm = rate(100_000, second, Admission::Deterministic);
    assert_eq!(add(&mut bare, 0, firm), Err(StreamError::NoProfile.of(StreamId(0))));
    assert_eq!(add(&mut bare, 0, rate(100_000, second, Admission::BestEffort)), Ok(()));
    let mut rig = rig();
    let no_rate = Contract { rate: None, ..firm };
    assert_eq!(add(&mut rig, 0, no_rate), Err(StreamError::NoRate.of(StreamId(0))));
    let best = Contract { class: Class::BestEffort, ..firm };
    assert_eq!(add(&mut rig, 0, best), Err(StreamError::RateWithoutClass.of(StreamId(0))));
    let free = Contract { reserve: Share::ZERO, ..bound(10, second) };
    assert_eq!(add(&mut rig, 0, free), Err(StreamError::BoundWithoutTime.of(StreamId(0))));
    let all = rate(990_000, second, Admission::Deterministic);
    assert_eq!(add(&mut rig, 5, firm), Ok(()));
    let said = add(&mut rig, 7, all).unwrap_err().to_string();
    assert!(said.starts_with("stream 7: rate = 990000 B/s: 1 to "), "{said}");
    for (bytes, cycle) in [(0, second), (1_000, Duration::ZERO), (1_000, Duration::from_micros(1))]
    {
        for kind in [Admission::Deterministic, Admission::BestEffort] {
            let said = add(&mut rig, 8, rate(bytes, cycle, kind)).unwrap_err().to_string();
            assert!(said.starts_with("stream 8: "), "{said}");
        }
    }
    assert_eq!(rig.engine.streams().count(), 1, "nothing of what was refused is left");
}

/// A firm, a statistical and a best-effort rate on a device that is four times slower than its profile
/// in those of 60 cycles. Answers in which cycle which was cut or restored, and in which the firm one was
/// kept.
fn degraded(slow: std::ops::Range<u64>) -> (Vec<(u64, Event)>, Vec<bool>) {
    let mut rig = rig();
    let second = Duration::from_secs(1);
    rig.add(0, rate(200_000, second, Admission::Deterministic));
    rig.add(1, rate(200_000, second, Admission::Statistical { miss: percent(1) }));
    rig.add(2, rate(100_000, second, Admission::BestEffort));
    let (mut events, mut kept) = (Vec::new(), Vec::new());
    let (mut now, mut next) = (SECOND, 0);
    for cycle in 1..60 {
        let before = rig.view(0).counters();
        let factor = if slow.contains(&cycle) { 4 } else { 1 };
        while now < (cycle + 1) * SECOND {
            // A cycle's work is always there.
            for (stream, pieces) in [(0, 10), (1, 10), (2, 5)] {
                while rig.view(stream).waiting() < pieces {
                    rig.ask(now, next % 60_000, stream, 20_000);
                    next += 1;
                }
            }
            let piece = rig.go_one(now);
            now += piece.bytes * 1_000 * factor;
            let _over = rig.done(now, piece.piece);
        }
        now = now.max((cycle + 1) * SECOND);
        rig.engine.handle_timeout(at(now));
        while let Some(event) = rig.engine.poll_event() {
            if matches!(event, Event::Cut(_) | Event::Restored(_)) {
                events.push((cycle, event));
            }
        }
        kept.push(rig.view(0).counters().cycles_missed == before.cycles_missed);
    }
    (events, kept)
}

/// A device that becomes four times slower than its profile keeps the firmest promises it can.
#[test]
fn a_degraded_device_cuts_the_weakest_promise_first_and_says_so() {
    let (events, kept) = degraded(5..30);
    let order: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
    assert_eq!(order[..2], [Event::Cut(StreamId(2)), Event::Cut(StreamId(1))]);
    let restored = order.iter().find(|event| matches!(event, Event::Restored(_)));
    assert_eq!(restored, Some(&Event::Restored(StreamId(0))), "the firmest first: {order:?}");
    assert!(kept[50..].iter().all(|kept| *kept), "{kept:?}");
}

/// One missed cycle cuts nobody, a device that stays slow soon cuts somebody, and ranks come back once a
/// device has been well for some cycles.
#[test]
fn ranks_are_cut_soon_and_given_back_after_a_while() {
    assert_eq!(degraded(5..13).0, []);
    let (events, _) = degraded(5..20);
    let (first, event) = events[0];
    assert!(first <= 14 && matches!(event, Event::Cut(_)), "{events:?}");
    let cut = events.iter().rev().find(|(_, event)| matches!(event, Event::Cut(_)));
    let restored = events.iter().find(|(_, event)| matches!(event, Event::Restored(_)));
    let (Some((cut, _)), Some((restored, _))) = (cut, restored) else { panic!("{events:?}") };
    assert!((8..=15).contains(&(restored - cut)), "{events:?}");
}

#[test]
fn each_class_has_an_account() {
    let mut rig = rig();
    rig.add(0, Contract::default());
    rig.request(SECOND, read(0, 0, 3_000));
    rig.request(SECOND, with_class(read(1, 0, 2_000), Class::Background));
    order(&mut rig, SECOND);
    let charged = |class| rig.engine.charged_to(class);
    assert_eq!(charged(Class::BestEffort), Duration::from_millis(3));
    assert_eq!(charged(Class::Background), Duration::from_millis(2));
    assert_eq!(charged(Class::GuaranteedRate), Duration::ZERO);
}

/// A virtual disk that grows reaches into slower zones: a rate that was admitted for where it lay may fit
/// no longer, and then it stays where it was.
#[test]
fn a_rate_is_admitted_anew_where_its_stream_comes_to_lie() {
    let of_rate = |bytes_per_second| {
        let transfer = Transfer { per_request: Duration::ZERO, bytes_per_second };
        move |end| Zone { end, read: transfer, write: transfer }
    };
    let zones = vec![of_rate(1_000_000)(1 << 20), of_rate(500_000)(1 << 50)];
    let mut rig = Rig::new(1);
    rig.change(0, Change::SetProfile(&Profile { zones, ..profile() }));
    let contract = rate(600_000, Duration::from_secs(4), Admission::Deterministic);
    let fast = Some((0, 1 << 20));
    let spec = StreamSpec { contract, extent: fast, ..StreamSpec::default() };
    rig.change(0, Change::AddStream(StreamId(0), spec));
    let grow = |rig: &mut Rig, extent| {
        let grown = rig.engine.handle_change(at(0), Change::SetExtent(StreamId(0), extent));
        (grown.is_ok(), rig.view(0).spec().extent)
    };
    assert_eq!(grow(&mut rig, Some((0, 1 << 21))), (false, fast), "600 kB/s of 500");
    assert_eq!(grow(&mut rig, Some((0, 1 << 19))), (true, Some((0, 1 << 19))));
    let slower = rate(300_000, Duration::from_secs(4), Admission::Deterministic);
    rig.change(0, Change::SetContracts(&[(StreamId(0), slower)]));
    let reserved = |rig: &Rig| rig.view(0).spec().contract.reserve.as_fraction();
    let before = reserved(&rig);
    assert_eq!(grow(&mut rig, Some((0, 1 << 21))), (true, Some((0, 1 << 21))));
    let after = reserved(&rig);
    assert!(after > 1.8 * before, "{before} became {after}: half as fast");
    // The time that it is admitted with is that of the slower zone.
    let other = rate(500_000, Duration::from_secs(4), Admission::Deterministic);
    let add = StreamSpec { contract: other, extent: fast, ..StreamSpec::default() };
    let refused = rig.engine.handle_change(at(0), Change::AddStream(StreamId(1), add));
    assert!(refused.is_err(), "300 of 500 and 500 of 1,000 kB/s");
    rig.change(0, Change::SetExtent(StreamId(0), fast));
    rig.change(0, Change::AddStream(StreamId(1), add));
}

/// A stream's requests of two classes share its depth: the policy of the class that has sent nothing hears of it
/// too, or names a stream that may not go.
#[test]
fn a_stream_that_one_class_has_sent_to_its_depth_waits_in_the_other() {
    let mut rig = Rig::new(4);
    (0..2).for_each(|stream| rig.add(stream, contract(20, 100)));
    // The other stream has used more: of those that are ready it is the last.
    rig.ask(0, 9, 1, 100_000);
    let piece = rig.go_one(0).piece;
    rig.done(100 * MS, piece);
    rig.change(100 * MS, Change::SetStreamDepth(StreamId(0), 1));
    rig.ask(100 * MS, 1, 0, 1_000);
    for (id, stream) in [(2, 0), (3, 1)] {
        rig.request(100 * MS, with_class(read(id, stream, 1_000), Class::Background));
    }
    let pieces = rig.go(100 * MS);
    assert_eq!(pieces.iter().map(|piece| piece.request.0).collect::<Vec<_>>(), [1, 3]);
    rig.done(101 * MS, pieces[0].piece);
    assert_eq!(rig.go_one(101 * MS).request.0, 2);
}
