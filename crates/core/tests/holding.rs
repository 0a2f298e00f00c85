//! Holding the device idle for a stream: its payer, its end, and the rules that it must not break.

mod rig;

use std::collections::BTreeSet;

use disktime_core::policy::{Pick, PieceDone, Policy};
use disktime_core::{Change, Duration, Instant, Request, StreamId, StreamView, Streams};
use rig::{MS, Rig, at, contract};

/// Waits for more of stream 0 for a while after each of its pieces; else the lowest id goes.
struct Anticipation {
    nanos: u64,
    ready: BTreeSet<u32>,
    until: Option<Instant>,
}

impl Anticipation {
    fn rig(ms: u64, depth: u32) -> Rig {
        let policy = Self { nanos: ms * MS, ready: BTreeSet::new(), until: None };
        let mut rig = Rig::under(depth, Box::new(policy));
        rig.add(0, contract(30, 100));
        rig.add(1, contract(30, 100));
        rig
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id().0;
        if stream.ready() {
            self.ready.insert(id)
        } else {
            self.ready.remove(&id)
        };
    }
}

impl Policy for Anticipation {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        self.place(stream);
    }

    fn pick(&mut self, now: Instant, _streams: Streams<'_>) -> Pick {
        if self.ready.contains(&0) {
            return Pick::Stream(StreamId(0));
        }
        if let Some(until) = self.until.filter(|until| now < *until) {
            return Pick::Hold { stream: StreamId(0), until };
        }
        self.ready.first().map_or(Pick::Nothing, |id| Pick::Stream(StreamId(*id)))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        self.place(stream);
        if stream.id() == StreamId(0) {
            self.until = Some(at(now.as_nanos() + self.nanos));
        }
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.ready.remove(&stream.0);
        self.until = None;
    }
}

/// Stream 0 is served until 5 ms; stream 1 waits.
fn held(ms: u64, depth: u32) -> Rig {
    let mut rig = Anticipation::rig(ms, depth);
    rig.ask(0, 1, 0, 5_000);
    let piece = rig.go_one(0).piece;
    rig.ask(0, 2, 1, 5_000);
    rig.done(5 * MS, piece);
    assert!(rig.go(5 * MS).is_empty(), "the device is held");
    rig
}

#[test]
fn held_time_is_charged_to_the_stream_held_for_and_to_nobody_else() {
    let mut rig = held(10, 1);
    assert_eq!(rig.engine.poll_timeout(), Some(at(15 * MS)), "somebody must come back for it");
    rig.timeout(8 * MS);
    assert!(rig.go(8 * MS).is_empty(), "early is harmless");
    rig.timeout(15 * MS);
    let piece = rig.go_one(15 * MS).piece;
    rig.done(19 * MS, piece);
    assert_eq!((rig.charged(0), rig.charged(1)), (15 * MS, 4 * MS));
    assert_eq!(rig.view(0).counters().held.as_nanos(), 10 * MS);
    assert_eq!(rig.view(1).counters().held.as_nanos(), 0);
    assert_eq!(rig.time().held.as_nanos(), 10 * MS);
    assert_eq!(rig.time().busy.as_nanos(), 9 * MS);
    assert_eq!(rig.view(0).reserve_level(), 4_500_000 - 15_000_000, "as of 15 ms");
}

/// A process that was stopped comes back long after a hold was to end: the time since then is nobody's.
#[test]
fn a_hold_is_charged_until_it_was_to_end() {
    let mut rig = held(10, 1);
    rig.timeout(10_000 * MS);
    rig.go_one(10_000 * MS);
    assert_eq!(rig.charged(0), 15 * MS);
}

/// A hold is over while the device has as many pieces as it may have by now: nobody is called for that again and again.
#[test]
fn a_hold_that_ends_while_the_device_is_full_calls_nobody() {
    let mut rig = Anticipation::rig(10, 3);
    (0..2).for_each(|stream| rig.ask(0, stream, stream, 1_000));
    rig.ask(0, 3, 1, 1_000);
    let pieces = rig.go(0);
    rig.ask(0, 4, 1, 1_000);
    rig.done(4 * MS, pieces[0].piece);
    assert!(rig.go(4 * MS).is_empty(), "it is held beside others' pieces");
    rig.change(5 * MS, Change::SetDepth(1));
    rig.timeout(14 * MS);
    assert!(rig.go(14 * MS).is_empty(), "two pieces are there");
    assert!(rig.engine.poll_timeout().is_none_or(|next| next > at(14 * MS)));
}

#[test]
fn an_arrival_during_a_hold_is_served_at_once() {
    let mut rig = held(10, 1);
    rig.ask(8 * MS, 3, 0, 5_000);
    let piece = rig.go_one(8 * MS);
    assert_eq!(piece.request.0, 3);
    assert_eq!(rig.time().held.as_nanos(), 3 * MS);
    assert_eq!(rig.charged(0), 8 * MS);
}

#[test]
fn an_arrival_of_another_stream_does_not_end_a_hold() {
    let mut rig = held(10, 1);
    rig.ask(8 * MS, 3, 1, 5_000);
    assert!(rig.go(8 * MS).is_empty());
    rig.timeout(15 * MS);
    assert_eq!(rig.go_one(15 * MS).request.0, 2);
    assert_eq!(rig.charged(0), 15 * MS, "one hold, from its first moment");
}

#[test]
fn time_is_held_from_when_the_device_is_idle() {
    let mut rig = Anticipation::rig(10, 2);
    rig.ask(0, 1, 0, 1_000);
    rig.ask(0, 2, 1, 1_000);
    let pieces = rig.go(0);
    rig.ask(0, 3, 1, 1_000);
    rig.done(4 * MS, pieces[0].piece);
    assert!(rig.go(4 * MS).is_empty(), "held while the other piece is at work");
    rig.done(9 * MS, pieces[1].piece);
    assert!(rig.go(9 * MS).is_empty());
    rig.timeout(14 * MS);
    rig.go_one(14 * MS);
    assert_eq!(rig.time().held.as_nanos(), 5 * MS);
    assert_eq!(rig.time().busy.as_nanos(), 9 * MS);
}

/// A hold's charge may take the stream it was for to its limit in the very moment in which the
/// policy has chosen it: the engine panicked ("policies name streams that are ready").
#[test]
fn a_hold_that_ends_at_the_limit_lets_another_stream_go() {
    let mut rig = Anticipation::rig(60, 1);
    rig.change(0, Change::SetContracts(&[(StreamId(0), contract(0, 10))]));
    rig.ask(0, 1, 0, 95_000); // it saves up 100 ms
    let piece = rig.go_one(1_000 * MS).piece;
    rig.ask(1_000 * MS, 2, 1, 1_000);
    rig.done(1_095 * MS, piece);
    assert!(rig.go(1_095 * MS).is_empty());
    rig.ask(1_150 * MS, 3, 0, 1_000);
    assert!(rig.view(0).ready());
    assert!(rig.go(1_150 * MS).is_empty(), "the policy waits on, until its time is over");
    assert!(!rig.view(0).ready(), "55 ms of holding are more than was left");
    rig.timeout(1_155 * MS);
    assert_eq!(rig.go_one(1_155 * MS).request.0, 2);
}

#[test]
fn removing_the_stream_held_for_ends_the_hold() {
    let mut rig = held(10, 1);
    rig.change(7 * MS, Change::RemoveStream(StreamId(0)));
    assert_eq!(rig.go_one(7 * MS).request.0, 2);
    assert_eq!(rig.time().held.as_nanos(), 2 * MS);
    assert_eq!(rig.time().charged.as_nanos(), 7 * MS, "what went with it is accounted for");
}

/// A flood of requests that take the device no time took all of the processor that serves it, and was
/// charged nothing.
#[test]
fn time_for_which_the_device_is_idle_for_a_stream_is_its_own() {
    let mut rig = Anticipation::rig(10, 1);
    rig.ask(0, 1, 1, 1_000);
    let piece = rig.go_one(0).piece;
    rig.done(MS, piece);
    rig.engine.handle_idled(at(3 * MS), StreamId(1), Duration::from_millis(2));
    rig.engine.assert_conserved();
    assert_eq!((rig.charged(0), rig.charged(1)), (0, 3 * MS));
    assert_eq!((rig.time().held.as_nanos(), rig.time().busy.as_nanos()), (2 * MS, MS));
    // Its limit counts that.
    rig.change(3 * MS, Change::SetContracts(&[(StreamId(1), contract(30, 50))]));
    rig.engine.handle_idled(at(4 * MS), StreamId(1), Duration::from_secs(2));
    rig.ask(4 * MS, 2, 1, 1_000);
    assert!(rig.go(4 * MS).is_empty(), "its limit stops it");
    rig.engine.handle_idled(at(5 * MS), StreamId(7), Duration::from_millis(1));
    rig.engine.assert_conserved();
}

/// While the device is held for one stream its idleness is paid for already.
#[test]
fn idle_time_is_charged_once() {
    let mut rig = held(10, 1);
    rig.engine.handle_idled(at(8 * MS), StreamId(1), Duration::from_millis(3));
    rig.timeout(15 * MS);
    rig.go_one(15 * MS);
    assert_eq!((rig.charged(0), rig.charged(1)), (15 * MS, 0));
    assert_eq!(rig.time().held.as_nanos(), 10 * MS);
}
