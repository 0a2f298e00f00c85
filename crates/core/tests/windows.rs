//! Charges of each stream: exact at depth 1, by windows deeper, and while the depth changes.

#![allow(clippy::cast_precision_loss, reason = "shares for display")]

mod rig;

use std::collections::{BTreeSet, VecDeque};

use disktime_core::cost::{
    Basis, Certainty, CostModel, CostParameters, PieceShape, Price, PriceList, Seen, Trust,
};
use disktime_core::policy::{Owner, Pick, Policy, Slices, Window};
use disktime_core::{
    Change, Config, Dispatch, Duration, Engine, Instant, Kind, Limits, Request, StreamId,
    StreamSpec, StreamView, Streams, policy,
};
use rig::{MS, PerByte, Rig, SECOND, at, contract};

fn rig(depth: u32) -> Rig {
    let mut rig = Rig::new(depth);
    rig.add(0, contract(30, 100));
    rig.add(1, contract(20, 100));
    rig
}

/// The piece of that request.
fn of(pieces: &[Dispatch], request: u32) -> disktime_core::PieceId {
    pieces.iter().find(|piece| piece.request.0 == request).expect("it went out").piece
}

#[test]
fn at_depth_one_a_charge_is_the_time_since_the_last_completion_or_the_release() {
    let mut rig = rig(1);
    rig.ask(0, 1, 0, 20_000);
    let first = rig.go_one(2 * MS);
    rig.ask(3 * MS, 2, 1, 20_000);
    rig.done(9 * MS + 7, first.piece);
    assert_eq!(rig.charged(0), 7 * MS + 7, "after idleness from the release, not the arrival");
    let second = rig.go_one(9 * MS + 7);
    rig.done(10 * MS, second.piece);
    assert_eq!(rig.charged(1), MS - 7, "backlogged from the completion before");
    assert!(rig.go(10 * MS).is_empty());
    rig.ask(50 * MS, 3, 1, 20_000);
    let third = rig.go_one(50 * MS);
    rig.done(54 * MS, third.piece);
    assert_eq!(rig.charged(1), 5 * MS - 7, "idleness is nobody's");
    assert_eq!(rig.time().busy.as_nanos(), 12 * MS);
    assert_eq!(rig.time().spare.as_nanos(), 0);
}

#[test]
fn the_estimate_is_debited_at_dispatch_and_corrected_to_the_charge() {
    let mut rig = rig(1);
    let level = |rig: &Rig| rig.view(0).reserve_level();
    rig.ask(100 * MS, 1, 0, 20_000);
    assert_eq!(level(&rig), 30_000_000, "30 % of 100 ms");
    let piece = rig.go_one(100 * MS).piece;
    assert_eq!(level(&rig), 10_000_000, "less the estimate of 20 ms");
    rig.done(105 * MS, piece);
    assert_eq!(level(&rig), 26_500_000, "30 % of 105 ms less the 5 ms it took");
    rig.ask(105 * MS, 2, 0, 1_000);
    let piece = rig.go_one(105 * MS).piece;
    rig.done(145 * MS, piece);
    assert_eq!(level(&rig), -1_500_000, "a low guess is corrected as well: 43.5 - 45 ms");
}

#[test]
fn a_saturated_window_is_divided_by_modelled_cost_to_the_last_nanosecond() {
    let mut rig = rig(2);
    for id in 0..5 {
        rig.ask(0, id, 0, 1_000);
        rig.ask(0, 10 + id, 1, 3_500);
    }
    let mut at_device = rig.go(0);
    let mut modelled = [0, 0];
    for step in 1..=5 {
        let oldest = at_device.remove(0);
        modelled[usize::from(oldest.request.0 >= 10)] += oldest.bytes;
        rig.done(step * 10 * MS, oldest.piece);
        at_device.extend(rig.go(step * 10 * MS));
    }
    assert!(modelled[0] > 0 && modelled[1] > 0, "both took part: {modelled:?}");
    assert_eq!((rig.charged(0), rig.charged(1)), (0, 0), "the window is open");
    assert_eq!(rig.engine.poll_timeout(), Some(at(100 * MS)));
    rig.timeout(100 * MS + 1);
    assert_eq!(rig.charged(0) + rig.charged(1), 100 * MS + 1, "all of it");
    let part = (100 * MS + 1) * modelled[0] / (modelled[0] + modelled[1]);
    assert!(rig.charged(0).abs_diff(part) <= 1, "{part}, not {}", rig.charged(0));
    assert_eq!(rig.time().spare.as_nanos(), 0);
}

#[test]
fn an_unsaturated_window_charges_at_most_the_modelled_cost() {
    let mut rig = rig(4);
    rig.ask(0, 1, 0, 1_000);
    rig.ask(0, 2, 1, 2_000);
    let pieces = rig.go(0);
    rig.done(10 * MS, of(&pieces, 1));
    rig.done(10 * MS, of(&pieces, 2));
    assert!(rig.go(10 * MS).is_empty());
    assert_eq!((rig.charged(0), rig.charged(1)), (MS, 2 * MS), "cut at the idle edge");
    assert_eq!(rig.time().spare.as_nanos(), 7 * MS);

    rig.ask(20 * MS, 3, 0, 30_000);
    rig.ask(20 * MS, 4, 1, 10_000);
    let pieces = rig.go(20 * MS);
    rig.done(24 * MS, of(&pieces, 3));
    rig.done(24 * MS, of(&pieces, 4));
    assert!(rig.go(24 * MS).is_empty());
    assert_eq!((rig.charged(0), rig.charged(1)), (4 * MS, 3 * MS), "busy time, 30 to 10");
    assert_eq!(rig.time().spare.as_nanos(), 7 * MS);
}

#[test]
fn a_window_after_an_unsaturated_one_is_judged_by_itself() {
    let mut rig = rig(2);
    rig.ask(0, 1, 0, 1_000);
    let piece = rig.go_one(0).piece;
    rig.done(10 * MS, piece);
    assert!(rig.go(10 * MS).is_empty());
    assert_eq!((rig.charged(0), rig.time().spare.as_nanos()), (MS, 9 * MS));
    for id in 0..9 {
        rig.ask(20 * MS, id, id % 2, 1_000);
    }
    let mut at_device = rig.go(20 * MS);
    for step in 1..=6 {
        rig.done((20 + step * 10) * MS, at_device.remove(0).piece);
        at_device.extend(rig.go((20 + step * 10) * MS));
    }
    rig.timeout(120 * MS);
    assert_eq!(rig.charged(0) + rig.charged(1), MS + 100 * MS, "work waited all the time");
    assert_eq!(rig.time().spare.as_nanos(), 9 * MS);
}

/// More work at the device would not make it faster, and whoever comes would wait for it.
#[test]
fn a_deep_device_holds_a_fraction_of_a_second_of_work() {
    let limits = Limits { depth: 64, ..Limits::default() };
    let policy = policy::find("edf").expect("registered");
    let price = Price { each: Duration::from_millis(20), per_mib: Duration::ZERO };
    let anchor = Some(PriceList {
        sequential_read: price,
        random_read: price,
        sequential_write: price,
        random_write: price,
    });
    let cost = CostParameters { anchor, ..CostParameters::default() };
    let config = Config { policy, cost_model: "learned", cost, limits, ..Config::default() };
    let mut rig = Rig { engine: Engine::new(&config).expect("registered names") };
    rig.add(0, contract(100, 100));
    (0..64).for_each(|id| rig.ask(0, id, 0, 4096));
    let pieces = rig.go(0);
    let work = pieces.iter().map(|piece| piece.estimate.as_nanos()).sum::<u64>();
    assert!((100 * MS..=400 * MS).contains(&work), "{} pieces: {work} ns", pieces.len());
    rig.done(MS, pieces[0].piece);
    assert!(!rig.go(MS).is_empty(), "there is room for another");
}

#[test]
fn a_streams_own_depth_bounds_its_pieces_at_the_device() {
    let mut rig = rig(4);
    rig.change(0, Change::SetStreamDepth(StreamId(0), 2));
    for id in 0..4 {
        rig.ask(0, id, 0, 1_000);
    }
    assert_eq!(rig.go(0).len(), 2);
}

#[test]
fn room_that_stays_empty_for_a_moment_makes_a_window_unsaturated() {
    let mut rig = rig(2);
    rig.ask(0, 1, 0, 1_000);
    rig.ask(0, 2, 0, 1_000);
    let pieces = rig.go(0); // full, and nothing waits
    rig.ask(0, 3, 1, 1_000);
    rig.done(50 * MS, of(&pieces, 1));
    rig.go(50 * MS);
    rig.timeout(100 * MS);
    assert_eq!(rig.charged(0), MS);
    assert_eq!(rig.time().spare.as_nanos(), 99 * MS);
}

#[test]
fn a_window_without_completions_carries_over() {
    let mut rig = rig(2);
    for id in 0..4 {
        rig.ask(0, id, 0, 5_000);
    }
    let pieces = rig.go(0);
    for ms in [100, 200, 249] {
        rig.timeout(ms * MS);
        assert!(rig.go(ms * MS).is_empty());
        assert_eq!(rig.charged(0), 0);
        assert_eq!(rig.time().open.as_nanos(), ms * MS);
    }
    rig.done(250 * MS, pieces[0].piece);
    rig.go(250 * MS);
    assert_eq!(rig.charged(0), 250 * MS, "the first completion brings all of it");
    assert_eq!(rig.time().open.as_nanos(), 0);
}

#[test]
fn the_depth_changes_live_from_one_to_many_and_back() {
    let mut rig = rig(1);
    for id in 0..4 {
        rig.ask(0, id, 0, 1_000);
        rig.ask(0, 10 + id, 1, 4_000);
    }
    let mut pieces = rig.go(0);
    assert_eq!(pieces.len(), 1);
    rig.change(5 * MS, Change::SetDepth(4));
    pieces.extend(rig.go(5 * MS));
    assert_eq!(pieces.len(), 4, "the new depth holds at once");
    rig.change(6 * MS, Change::SetDepth(1));
    let next = rig.engine.poll_timeout();
    assert!(next.is_none_or(|next| next > at(SECOND)), "depth 1 cuts at completions: {next:?}");
    let mut expected = [0, 0];
    for piece in &pieces {
        assert!(rig.go(20 * MS).is_empty(), "too many are out still");
        let (stream, cost) = if piece.request.0 < 10 { (0, 1) } else { (1, 4) };
        expected[stream] += cost;
        rig.done(20 * MS, piece.piece);
    }
    // The last one out closes the window of all four: charged to each by its cost, not to the last.
    let total = expected[0] + expected[1];
    for stream in [0, 1] {
        let part = 20 * MS * expected[stream] / total;
        let got = rig.charged(u32::try_from(stream).expect("0 or 1"));
        assert!(got.abs_diff(part) <= 1, "{stream} got {got} of {part}");
    }
    let alone = rig.go_one(20 * MS);
    let before = rig.charged(0) + rig.charged(1);
    rig.done(23 * MS, alone.piece);
    assert_eq!(rig.charged(0) + rig.charged(1), before + 3 * MS, "exact again");
}

/// Charges that a lowered depth brings must reach limits and policies like all others: a stream
/// that they take to its limit was dispatched once more, since nobody had looked.
#[test]
fn charges_of_a_lowered_depth_count_against_limits() {
    let mut rig = rig(2);
    rig.add(2, contract(0, 1));
    rig.timeout(1_000 * MS); // 10 ms of burst
    for id in 0..3 {
        rig.ask(1_000 * MS, id, 2, 40_000);
    }
    rig.ask(1_000 * MS, 10, 0, 40_000);
    rig.change(1_000 * MS, Change::SetStreamDepth(StreamId(2), 1));
    let pieces = rig.go(1_000 * MS);
    rig.ask(1_000 * MS, 11, 0, 1);
    rig.change(1_000 * MS, Change::SetDepth(1));
    let (limited, other) = (of(&pieces, 0), of(&pieces, 10));
    rig.done(1_100 * MS, limited);
    rig.done(1_100 * MS, other);
    assert_eq!((rig.charged(0), rig.charged(2)), (40 * MS, 40 * MS));
    let next = rig.go_one(1_100 * MS);
    assert_eq!((next.request.0, rig.view(2).ready()), (11, false));
}

/// Every price is 200 times too high (a disk's list on flash). Debited in full until the window
/// closed they exhausted all buckets at once: 70/30 came out as 50/50 for minutes, and a limit of
/// 30 % as nothing.
#[test]
fn prices_that_are_wrong_throughout_change_neither_shares_nor_limits() {
    for (limit, expected) in [(100, 70.0), (15, 85.0)] {
        let mut rig = Rig::new(8);
        rig.add(0, contract(70, 100));
        rig.add(1, contract(if limit < 30 { 0 } else { 30 }, limit));
        for id in 0..32 {
            rig.ask(0, id, id % 2, 20_000);
        }
        // Eight servers, 100 us a piece; staggered at first.
        let mut at_device: VecDeque<_> =
            rig.go(0).into_iter().zip(1u64..).map(|(piece, n)| (n * 12_500, piece)).collect();
        let mut before = [0, 0];
        while let Some((now, piece)) = at_device.pop_front() {
            if now > 3_000 * MS {
                break;
            }
            if now <= 1_000 * MS {
                before = [rig.charged(0), rig.charged(1)];
            }
            let over = rig.done(now, piece.piece).expect("one piece a request");
            rig.ask(now, over.request.0, over.stream.0, 20_000);
            at_device.extend(rig.go(now).into_iter().map(|piece| (now + 100_000, piece)));
        }
        let got = [rig.charged(0) - before[0], rig.charged(1) - before[1]].map(|ns| ns / MS);
        let share = 100.0 * got[0] as f64 / (got[0] + got[1]) as f64;
        assert!((share - expected).abs() < 2.0, "limit {limit} %: {share} %, {got:?} ms");
    }
}

/// Costs without a bound.
struct Endless;

impl CostModel for Endless {
    fn estimate(&mut self, _piece: &PieceShape) -> Duration {
        Duration::MAX
    }
}

/// Lengths of 2^51 bytes, 8192 of them, and costs of 2^63 ns overflowed the sums of a queue and of a
/// window: release builds went on with what was left.
#[test]
fn no_sum_overflows_for_the_longest_requests_and_costs_without_a_bound() {
    let limits = Limits { depth: 64, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let policy = (policy::find("zygaria").expect("it is registered").build)();
    let mut rig = Rig { engine: Engine::with_policy(&config, policy, Box::new(Endless)) };
    let spec = StreamSpec { queue_max: 16_384, ..StreamSpec::default() };
    rig.change(0, Change::AddStream(StreamId(0), spec));
    for id in 0..16_384 {
        let request = rig::read(id, 0, Request::BYTES_MAX);
        assert_eq!(rig.engine.handle_arrival(at(0), request), Ok(()));
    }
    for step in 1..=3 {
        let pieces = rig.go(step * MS);
        assert!(!pieces.is_empty(), "{step}");
        pieces.iter().for_each(|piece| _ = rig.done(step * MS + 1, piece.piece));
    }
    rig.timeout(200 * MS);
    rig.go(200 * MS);
    assert!(rig.charged(0) > 0);
}

/// Stream 0 owns the device, from 10 ms on without guests.
#[derive(Default)]
struct Owned {
    ready: BTreeSet<StreamId>,
    alone: bool,
    room: Duration,
}

impl Policy for Owned {
    fn pick(&mut self, now: Instant, _streams: Streams<'_>) -> Pick {
        self.alone = now >= at(10 * MS);
        self.ready.first().map_or(Pick::Nothing, |id| Pick::Stream(*id))
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        let id = stream.id();
        let _changed = if stream.ready() { self.ready.insert(id) } else { self.ready.remove(&id) };
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.ready.remove(&stream);
    }

    fn slices(&mut self) -> Option<&mut dyn Slices> {
        Some(self)
    }
}

impl Slices for Owned {
    fn begins(&mut self, _trust: Trust, _flushes: bool) {}

    fn has_tiers(&mut self) {}

    fn is_steady(&self, _stream: StreamId) -> Option<bool> {
        None
    }

    fn debt(&mut self, _stream: StreamId, _took: Duration) -> Option<(StreamId, Duration)> {
        None
    }

    fn owner(&self) -> Option<Owner> {
        Some(Owner { stream: StreamId(0), alone: self.alone })
    }

    fn cost(&self, window: &Window<'_>, stream: StreamId) -> Duration {
        (window.modelled)(stream)
    }

    fn room(&self, _stream: StreamId) -> Duration {
        self.room
    }

    fn pace(&self, _stream: StreamId, _modelled: Duration) -> Option<Duration> {
        None
    }

    fn guest_price(&self, stream: StreamId) -> Option<u32> {
        (stream == StreamId(0)).then_some(1_500)
    }

    fn window(&mut self, _now: Instant, _window: &Window<'_>) {}

    fn priced(&mut self, _now: Instant, _stream: StreamId, _seen: Seen) {}

    fn set_horizon(&mut self, _horizon: Duration) {}
}

/// The window of what went before is divided first: a piece alone is charged its own time, and that at once.
#[test]
fn a_piece_that_has_the_device_to_itself_is_no_part_of_the_window_before_it() {
    let mut rig = Rig::under(4, Box::new(Owned::default()));
    (0..2).for_each(|stream| rig.add(stream, contract(50, 100)));
    (0..2).for_each(|stream| rig.ask(0, stream, stream, 5_000));
    let mixed = rig.go(0);
    rig.ask(MS, 2, 0, 1_000);
    mixed.iter().for_each(|piece| _ = rig.done(10 * MS, piece.piece));
    let alone = rig.go_one(10 * MS);
    rig.done(13 * MS, alone.piece);
    assert_eq!([0, 1].map(|stream| rig.charged(stream)), [(5 + 3) * MS, 5 * MS]);
}

/// Pieces of the owner that came later would say less of what guests cost, and more of chance.
#[test]
fn one_piece_at_a_time_a_window_ends_with_the_owners_fourth_piece_beside_guests() {
    let mut rig = Rig::under(1, Box::new(Owned::default()));
    (0..2).for_each(|stream| rig.add(stream, contract(50, 100)));
    rig.ask(0, 0, 1, 1_000);
    let guest = rig.go_one(0);
    (1..7).for_each(|id| rig.ask(0, id, 0, 1_000));
    rig.done(MS, guest.piece);
    let charged = [2, 3, 4, 5, 6, 7].map(|end| {
        let own = rig.go_one((end - 1) * MS);
        rig.done(end * MS, own.piece);
        [0, 1].map(|stream| rig.charged(stream) / MS)
    });
    let divided = [4, 1];
    assert_eq!(charged, [[0, 0], [0, 0], [0, 0], divided, divided, divided]);
}

/// Costs that are learned, of pieces that take 1 µs a byte.
struct Learned;

impl CostModel for Learned {
    fn estimate(&mut self, piece: &PieceShape) -> Duration {
        PerByte.estimate(piece)
    }

    fn trust(&self) -> Trust {
        Trust::Learned
    }

    fn certainty(&self, _piece: &PieceShape) -> Option<Certainty> {
        Some(Certainty { basis: Basis::Learned, spread_permille: None, drift_permille: None })
    }
}

/// Time that no piece was likely to take is theirs as long as their streams have room for it, and then nobody's.
#[test]
fn streams_pay_for_a_silence_of_their_writes_as_long_as_they_have_room() {
    let charged = |room_ms: u64, streams: u32, silent: u64| {
        let room = Duration::from_millis(room_ms);
        let limits = Limits { depth: 2, ..Limits::default() };
        let config = Config { limits, ..Config::default() };
        let policy = Box::new(Owned { room, ..Owned::default() });
        let mut rig = Rig { engine: Engine::with_policy(&config, policy, Box::new(Learned)) };
        (0..streams).for_each(|stream| rig.add(stream, contract(50, 100)));
        // One more than the device takes waits.
        for id in 0..3 {
            let write = Request { kind: Kind::Write, ..rig::read(id, id.min(streams - 1), 5_000) };
            rig.request(0, write);
        }
        // Alone it has a slice from 10 ms on.
        let begun = if streams == 1 { 10 * MS } else { 0 };
        let pieces = rig.go(begun);
        pieces.iter().for_each(|piece| _ = rig.done(begun + silent * MS, piece.piece));
        rig.go(begun + silent * MS);
        let spare = rig.time().spare.as_nanos() / MS;
        ((0..streams).map(|stream| rig.charged(stream)).sum::<u64>() / MS, spare)
    };
    // 5 ms were debited, and 100 ms are likely enough, beside another stream as alone.
    for streams in [1, 2] {
        let paid = [0, 200, 800].map(|room_ms| charged(room_ms, streams, 700));
        assert_eq!(paid, [(100, 600), (205, 495), (700, 0)], "{streams}");
    }
}

/// The charge for guests in a stream's slices stands beside the costs of that stream.
#[test]
fn costs_show_what_guests_pay_in_a_streams_slices() {
    let policy = Box::new(Owned::default());
    let config = Config::default();
    let mut rig = Rig { engine: Engine::with_policy(&config, policy, Box::new(Learned)) };
    (0..2).for_each(|stream| rig.add(stream, contract(50, 100)));
    (0..2).for_each(|stream| rig.ask(0, stream, stream, 4096));
    for now in [0, MS] {
        let piece = rig.go_one(now);
        rig.done(now + MS, piece.piece);
    }
    let price = |stream: u32| {
        let estimates = rig.engine.estimates(StreamId(stream));
        estimates.iter().map(|estimate| estimate.guest_permille).collect::<Vec<_>>()
    };
    assert_eq!([0, 1].map(price), [vec![Some(1_500)], vec![None]]);
}
