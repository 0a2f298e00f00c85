//! The processor demand of a set of batches, and what it leaves: see the parent's text.

use alloc::vec::Vec;

use super::batch::{Batch, Reckoned};
use super::{Others, PARTS, piece};
use crate::classes::profile::{Positioning, Profile};
use crate::types::contract::{Admission, Rate};
use crate::types::share::Share;
use crate::types::time::Duration;

/// Most spans that a test looks at one by one. Beyond them the linear bound decides.
const SPANS_MAX: u32 = 2_000;
/// One-sided quantiles of the normal distribution: at most this part (ppm) lies more than so many
/// thousandths of a deviation above the mean, rounded up.
const QUANTILES: [(u32, u128); 11] = [
    (500_000, 0),
    (200_000, 842),
    (100_000, 1_282),
    (50_000, 1_645),
    (20_000, 2_054),
    (10_000, 2_327),
    (5_000, 2_576),
    (1_000, 3_091),
    (100, 3_720),
    (10, 4_265),
    (1, 4_754),
];

/// All streams of one cycle.
struct Step {
    cycle: u128,
    cost: u128,
    /// In square nanoseconds.
    variance: u128,
    /// The longest that one of a shorter cycle waits for it.
    in_the_way: u128,
}

/// The processor demand of a set, in nanoseconds.
pub(super) struct Test {
    steps: Vec<Step>,
    /// Parts per million that are taken, reservations and headroom included.
    taken: u128,
    /// The part of `taken` that other streams have.
    others: u128,
    /// How many thousandths of the deviation count.
    quantile: u128,
    burst: u128,
    /// The longest piece of other streams.
    blocking: u128,
    /// The shortest span that ends in a promise.
    from: u128,
}

/// The room that every test leaves.
pub(super) struct Room {
    pub(super) spare: u128,
    pub(super) rate: u128,
    pub(super) cap: u128,
}

/// The tests that a set must pass; of each the alternatives, one of which must hold.
pub(super) fn tests(
    profile: &Profile,
    batches: &[Batch],
    others: &Others,
    turn: Option<Duration>,
) -> Vec<Vec<Test>> {
    let shortest = |kind: fn(&Batch) -> bool| {
        batches.iter().filter(|batch| kind(batch)).map(|batch| batch.cycle).min()
    };
    let mut all = Vec::new();
    if let Some(from) = shortest(|batch| batch.kind == Admission::Deterministic) {
        all.push(Vec::from([Test::new(profile, batches, others, turn, (Reckoned::Worst, from))]));
    }
    if let Some(from) = shortest(|batch| matches!(batch.kind, Admission::Statistical { .. })) {
        let test = |reckoned| Test::new(profile, batches, others, turn, (reckoned, from));
        all.push(Vec::from([test(Reckoned::Mean), test(Reckoned::Worst)]));
    }
    all
}

/// Picks of each test the alternative that holds; `None` if one has none.
pub(super) fn passed(tests: &[Vec<Test>]) -> Option<Vec<&Test>> {
    let holds = |test: &&Test| test.margin(0).is_some();
    tests.iter().map(|alternatives| alternatives.iter().find(holds)).collect()
}

/// Chooses the slack's rate and cap; `None` if a test fails even without.
pub(super) fn room(tests: &[Vec<Test>]) -> Option<Room> {
    let passed = passed(tests)?;
    let spare = passed.iter().map(|test| PARTS - test.taken).min().unwrap_or(PARTS);
    let mut rate = spare / 2;
    loop {
        let most = u128::from(Rate::CYCLE_MAX.as_nanos());
        let cap = passed.iter().try_fold(most, |cap, test| Some(cap.min(test.margin(rate)?)));
        if let Some(cap) = cap {
            return Some(Room { spare, rate, cap });
        }
        // Ends: without a rate all tests have passed above.
        rate /= 2;
    }
}

impl Test {
    fn new(
        profile: &Profile,
        batches: &[Batch],
        others: &Others,
        turn: Option<Duration>,
        (reckoned, from): (Reckoned, Duration),
    ) -> Self {
        let part = u128::from(others.reserved.ppm()) + u128::from(others.headroom.ppm());
        let mut test = Self {
            steps: Vec::new(),
            taken: part,
            others: part,
            quantile: 0,
            burst: others.latency_burst.as_nanos().into(),
            blocking: blocking(profile, others.blocking_bytes),
            from: from.as_nanos().into(),
        };
        for batch in batches {
            let in_the_way = batch.in_the_way(turn);
            if !batch.checked() {
                test.blocking = test.blocking.max(in_the_way);
                continue;
            }
            test.taken += batch.parts(batches, turn, reckoned);
            let cost = batch.cost(batches, turn, reckoned);
            let mut variance = 0;
            if reckoned == Reckoned::Mean {
                let square = |seek: &Positioning| {
                    // No more than the worst, which fits a cycle: squares of it can be added up.
                    u128::from(seek.deviation.min(seek.worst).as_nanos()).pow(2)
                };
                variance = batch.seeks(batches, turn, square);
            }
            if let (Admission::Statistical { miss }, Reckoned::Mean) = (batch.kind, reckoned) {
                test.quantile = test.quantile.max(quantile(miss));
            }
            test.add(Step { cycle: batch.cycle.as_nanos().into(), cost, variance, in_the_way });
        }
        test
    }

    fn add(&mut self, step: Step) {
        let Some(same) = self.steps.iter_mut().find(|it| it.cycle == step.cycle) else {
            return self.steps.push(step);
        };
        same.cost += step.cost;
        same.variance += step.variance;
        same.in_the_way = same.in_the_way.max(step.in_the_way);
    }

    /// The least time that the demand leaves of any span from `self.from` on, when `rate` parts per
    /// million more are taken; `None` if it is more than some span.
    ///
    /// Spans at whose end cycles end are looked at one by one; between two of them demand grows
    /// slower than the span. The walk stops when the linear bound `floor(l/T)·C ≤ share·l` leaves
    /// as much as the least so far: what it leaves is convex in l and at most 0 at 0, so it leaves
    /// no less of any longer span. After [`SPANS_MAX`] spans the linear bound counts, which is
    /// sufficient but not necessary.
    fn margin(&self, rate: u128) -> Option<u128> {
        let free = PARTS.checked_sub(self.taken + rate)?;
        let mut span = self.from;
        let mut least = u128::MAX;
        let mut linear = None;
        for _ in 0..SPANS_MAX {
            let longer = self.steps.iter().filter(|step| step.cycle > span);
            let blocking = longer.map(|step| step.in_the_way).fold(self.blocking, u128::max);
            let (mut cost, mut variance, mut variance_bound) = (0, 0, 0u128);
            let mut next = u128::MAX;
            for step in &self.steps {
                let cycles = span / step.cycle;
                cost += cycles * step.cost;
                variance += cycles * step.variance;
                variance_bound += (cycles + 1) * step.variance;
                next = next.min((cycles + 1) * step.cycle);
            }
            let apart = ((self.others + rate) * span).div_ceil(PARTS);
            let fixed = self.burst + blocking;
            let used = apart + fixed + cost + self.spread(variance);
            least = least.min(span.checked_sub(used)?);
            linear = (free * span / PARTS).checked_sub(fixed + self.spread(variance_bound));
            if linear.is_some_and(|left| left >= least) {
                return Some(least);
            }
            span = next;
        }
        linear.map(|left| left.min(least))
    }

    /// How far the sum may go above its mean, rounded up.
    fn spread(&self, variance: u128) -> u128 {
        let root = variance.isqrt();
        let root = if root * root < variance { root + 1 } else { root };
        (root * self.quantile).div_ceil(1_000)
    }
}

/// How long a piece of the others can be in the way.
fn blocking(profile: &Profile, bytes: u64) -> u128 {
    if bytes == 0 {
        return 0;
    }
    // Behind what it finds in a write cache, or with what it puts there, which takes less.
    piece(profile, bytes, bytes) + u128::from(profile.destage.as_nanos())
}

/// How many thousandths of a deviation above the mean are reached with at most that probability:
/// those of the next lower one in the table.
fn quantile(miss: Share) -> u128 {
    let row = QUANTILES.iter().find(|(part, _)| *part <= miss.ppm());
    row.map_or(QUANTILES[QUANTILES.len() - 1].1, |(_, quantile)| *quantile)
}
