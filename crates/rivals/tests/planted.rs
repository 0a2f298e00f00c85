//! Policies that break promises, planted: the check of `conformance.rs` must catch each.

#[path = "../../core/tests/bench/mod.rs"]
mod bench;

use std::collections::BTreeSet;

use bench::{Bench, Load, Random};
use disktime_core::policy::{Pick, PieceDone, Policy};
use disktime_core::{Instant, Kind, Request, StreamId, StreamView, Streams};

/// How a planted policy chooses among the streams that are ready, by id.
type Choose = fn(&mut Planted) -> Option<u32>;

/// Keeps which streams are ready and what each has waiting, and chooses wrongly.
struct Planted {
    choose: Choose,
    ready: BTreeSet<u32>,
    /// Streams by when they became ready or were served last, and the next such number.
    order: Vec<u64>,
    next: u64,
    writers: BTreeSet<u32>,
}

impl Planted {
    fn new(choose: Choose) -> Box<Self> {
        let (ready, writers) = (BTreeSet::new(), BTreeSet::new());
        Box::new(Self { choose, ready, order: Vec::new(), next: 0, writers })
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id().0;
        self.order.resize(self.order.len().max(id as usize + 1), 0);
        if stream.ready() {
            self.ready.insert(id);
        } else {
            self.ready.remove(&id);
        }
    }

    /// The one that was served longest ago.
    fn in_turn(&self, of: impl Iterator<Item = u32>) -> Option<u32> {
        of.min_by_key(|id| self.order[*id as usize])
    }
}

impl Policy for Planted {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, request: &Request) {
        if request.kind == Kind::Write {
            self.writers.insert(stream.id().0);
        }
        self.place(stream);
    }

    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        (self.choose)(self).map_or(Pick::Nothing, |id| Pick::Stream(StreamId(id)))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.next += 1;
        self.place(stream);
        self.order[stream.id().0 as usize] = self.next;
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.ready.remove(&stream.0);
    }
}

/// A request of each in turn: fair, and deaf to reservations.
fn ignores_reservations(policy: &mut Planted) -> Option<u32> {
    policy.in_turn(policy.ready.iter().copied())
}

/// The last stream goes when no other stream is ready.
fn starves_the_last(policy: &mut Planted) -> Option<u32> {
    let last = u32::try_from(policy.order.len()).unwrap_or(1) - 1;
    let others = policy.ready.iter().copied().filter(|id| *id != last);
    policy.in_turn(others).or_else(|| policy.ready.first().copied())
}

/// Writers go when no reader is ready.
fn favours_reads(policy: &mut Planted) -> Option<u32> {
    let readers = policy.ready.difference(&policy.writers).copied();
    policy.in_turn(readers).or_else(|| policy.in_turn(policy.ready.iter().copied()))
}

/// Loads as the conformance suite draws them.
fn loads(random: &mut Random) -> Vec<Load> {
    let count = random.between(2, 5);
    let weights: Vec<_> = (0..count).map(|_| random.between(1, 59)).collect();
    let total = weights.iter().sum::<u64>().max(100);
    let load = |weight: &u64| Load {
        reserve_percent: u32::try_from(weight * 100 / total).unwrap_or(0),
        limit_percent: 100,
        sequential: random.below(2) == 0,
        outstanding: u32::try_from(random.between(1, 23)).unwrap_or(1),
        on_ms: random.between(1, 2_999),
        off_ms: random.below(2) * random.below(2_000),
    };
    weights.iter().map(load).collect()
}

/// The number of draws, among 256, in which a promise is broken.
fn caught(bench: impl Fn(u32, &[Load], u64) -> Bench) -> usize {
    let mut random = Random(18);
    let breaks = |_: &u32| {
        let (loads, depth) = (loads(&mut random), 1 << random.below(4));
        let mut bench = bench(depth, &loads, random.below(u64::MAX));
        bench.writes = true;
        bench.run_until_ms(12_000);
        bench.broken().is_some()
    };
    (0..256).filter(breaks).count()
}

/// A policy that ignores reservations passed all 256 draws: the bound that it was held to was the sum
/// of what it said of itself and of the longest stalls so far.
#[test]
fn a_policy_that_ignores_reservations_is_caught() {
    let caught = caught(|depth, loads, seed| {
        Bench::under(Planted::new(ignores_reservations), depth, loads, seed)
    });
    assert!(caught > 64, "caught in {caught} of 256 draws");
}

#[test]
fn first_in_first_out_is_caught() {
    let fifo = disktime_rivals::find("fifo").expect("it is a rival");
    let caught = caught(|depth, loads, seed| Bench::new(fifo, depth, loads, seed));
    assert!(caught > 64, "caught in {caught} of 256 draws");
}

#[test]
fn a_policy_that_starves_the_last_stream_is_caught() {
    let caught = caught(|depth, loads, seed| {
        Bench::under(Planted::new(starves_the_last), depth, loads, seed)
    });
    assert!(caught > 64, "caught in {caught} of 256 draws");
}

#[test]
fn a_policy_that_favours_reads_is_caught() {
    let caught =
        caught(|depth, loads, seed| Bench::under(Planted::new(favours_reads), depth, loads, seed));
    assert!(caught > 64, "caught in {caught} of 256 draws");
}

/// The same draws break no promise of the policies that keep reservations.
#[test]
fn a_policy_that_keeps_reservations_is_not() {
    for policy in disktime_rivals::all().filter(|policy| policy.keeps_reservations) {
        let caught = caught(|depth, loads, seed| Bench::new(policy, depth, loads, seed));
        assert_eq!(caught, 0, "{policy:?}: caught in {caught} of 256 draws");
    }
}
