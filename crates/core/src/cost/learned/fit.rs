//! A fit of the cost of each kind of pieces to spans of unlike mixes: least squares.
//!
//! A span says how long its pieces took together. Where its kinds come in ever the same proportion that is
//! all there is to know, and all of them move alike; where the proportion varies, if only because some
//! come in bursts, the time of spans follows the kind that has a higher cost than reckoned.
//!
//! Factors are those for which the squares of what spans differ by, as parts of what they were reckoned
//! to take, are least, older ones fading; of those that explain them as well the nearest to what was
//! known. Everything is kept in parts of what is reckoned now: small numbers, whatever a piece takes.
//!
//! Reads are not told from writes. A write that a cache took shows later, in the time of whatever
//! comes then: so where a span has both all its kinds move in proportion to their parts, the smallest
//! relative change that explains it. (Told apart, a stream of half writes on a nearline disk with a
//! write cache beside a late joiner had .83 of its share, and has 1.00.)
//!
//! Does not know: streams, lists, or how long kinds take.

use super::{FACTORS, KINDS, ONE, SPANS};
use crate::cost::PieceKind;

/// Known factors count as much as this part of a span of each kind.
const KNOWN: i128 = ONE * ONE / 1024;
/// Sweeps over the equations for each span: where a few spans leave them nearly alike, the next spans solve
/// the rest.
const SWEEPS: usize = 8;
/// The least and the most step of a factor by one span, as a part of the factor.
const STEP: [i128; 2] = [-ONE * 3 / 4, FACTORS[1]];

#[derive(Clone, Copy, Default)]
pub(super) struct Fit {
    /// The cost of pieces of each kind, in parts of [`ONE`] of the list.
    pub(super) factors: [i128; KINDS],
    /// Sums over spans: of the products of kinds' parts, and of kinds' parts and what spans differed by,
    /// in parts of [`ONE`] squared.
    products: [[i128; KINDS]; KINDS],
    rest: [i128; KINDS],
    /// How long the spans of these were reckoned to take.
    weight: i128,
}

impl Fit {
    pub(super) fn new(factors: [i128; KINDS]) -> Self {
        Self { factors, ..Self::default() }
    }

    /// Earlier spans count as so much time at most.
    pub(super) fn forget(&mut self, most: i128) {
        if self.weight > most {
            let whole = core::mem::replace(&mut self.weight, most);
            let sums = self.rest.iter_mut().chain(self.products.iter_mut().flatten());
            sums.for_each(|sum| *sum = *sum * most / whole);
        }
    }

    /// A span was reckoned to take `sum`, of which each kind had a part, and differed from it by so
    /// many parts of [`ONE`].
    pub(super) fn add(&mut self, reckoned: &[i128; KINDS], sum: i128, error: i128) {
        let parts = reckoned.map(|part| part * ONE / sum);
        let part_of = |reads: bool| {
            let of = parts.iter().zip(PieceKind::ALL).filter(|(_, kind)| kind.is_read() == reads);
            of.map(|(part, _)| *part).sum::<i128>()
        };
        if part_of(true) > 0 && part_of(false) > 0 {
            self.weight += sum;
            let squares = parts.iter().map(|part| part * part / ONE).sum::<i128>().max(1);
            let steps = parts.map(|part| error * part / squares * sum / self.weight);
            return self.apply(&parts, steps.map(|step| step.max(1 - ONE)));
        }
        let weight = sum * ONE / i128::from(SPANS[0].as_nanos());
        self.weight += sum;
        for (kind, part) in parts.into_iter().enumerate().filter(|(_, part)| *part > 0) {
            self.rest[kind] += part * error * weight / ONE;
            for (product, other) in self.products[kind].iter_mut().zip(parts) {
                *product += part * other * weight / ONE;
            }
        }
        let steps = self.solve();
        self.apply(&parts, steps);
    }

    /// By what part of it each factor is to move.
    fn solve(&self) -> [i128; KINDS] {
        let mut steps = [0; KINDS];
        for _ in 0..SWEEPS {
            let before = steps;
            for kind in (0..KINDS).filter(|kind| self.products[*kind][*kind] > 0) {
                let own = self.products[kind][kind] + KNOWN;
                let left =
                    self.rest[kind] - self.explained(kind, &steps) - KNOWN * steps[kind] / ONE;
                steps[kind] = (steps[kind] + left * ONE / own).clamp(STEP[0], STEP[1]);
            }
            if steps == before {
                break;
            }
        }
        steps
    }

    /// The part of a kind's rest that such steps explain.
    fn explained(&self, kind: usize, steps: &[i128; KINDS]) -> i128 {
        let products = self.products[kind].iter().zip(steps);
        products.map(|(product, step)| product * step).sum::<i128>() / ONE
    }

    /// Moves factors; sums are as if they had been so, and spans as long as this one is by them.
    fn apply(&mut self, parts: &[i128; KINDS], steps: [i128; KINDS]) {
        let ratios: [i128; KINDS] = core::array::from_fn(|kind| {
            let before = self.factors[kind];
            let moved = before + before * steps[kind] / ONE;
            self.factors[kind] = moved.clamp(FACTORS[0], FACTORS[1]);
            self.factors[kind] * ONE / before
        });
        let steps = ratios.map(|ratio| ratio - ONE);
        let longer = parts.iter().zip(ratios).map(|(part, ratio)| part * ratio).sum::<i128>() / ONE;
        let longer = longer.max(1);
        let seen = self.products.map(|row| row != [0; KINDS]);
        for kind in (0..KINDS).filter(|kind| seen[*kind]) {
            let left = self.rest[kind] - self.explained(kind, &steps);
            self.rest[kind] = left * ratios[kind] / longer * ONE / longer;
            for (product, ratio) in self.products[kind].iter_mut().zip(ratios) {
                *product = *product * ratio / longer * ratios[kind] / longer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i128 = 1000;

    /// A span of so many pieces of two kinds that are listed with 36 and 116 us, and what they took.
    fn see(fit: &mut Fit, counts: [i128; 2], took: i128) {
        let mut reckoned = [0; KINDS];
        for (kind, listed) in [36 * US, 116 * US].into_iter().enumerate() {
            reckoned[kind] = counts[kind] * listed * fit.factors[kind] / ONE;
        }
        let sum = reckoned.iter().sum::<i128>();
        fit.forget(8_000_000_000 - sum);
        fit.add(&reckoned, sum, (took - sum) * ONE / sum);
    }

    fn costs(fit: &Fit) -> [i128; 2] {
        [36 * fit.factors[0] / ONE, 116 * fit.factors[1] / ONE]
    }

    /// A disk's 25 random reads per 475 in sequence, by a list of something else: moved in proportion
    /// to their parts, kinds had 156 and 364 us after a minute, for 66 and 3000.
    #[test]
    fn kinds_that_come_in_bursts_are_told_apart() {
        let mut fit = Fit::new([ONE; KINDS]);
        for span in 0..100 {
            // A window of 400 over a cycle of 500.
            let random = [25, 25, 25, 25, 0, 12, 25, 20, 25, 5][span % 10];
            let noise = 90 + (span as i128 * 7) % 21;
            see(
                &mut fit,
                [400 - random, random],
                ((400 - random) * 66 + random * 3000) * US * noise / 100,
            );
        }
        let [sequential, random] = costs(&fit);
        assert!((62..=70).contains(&sequential), "{sequential} us");
        assert!((2700..=3300).contains(&random), "{random} us");
    }

    /// A cache takes a write at once, and reads take longer for it later: one span says nothing.
    #[test]
    fn writes_move_with_the_reads_beside_them() {
        let mut fit = Fit::new([ONE; KINDS]);
        let write = PieceKind::RandomWrite as usize;
        for span in 0..100 {
            let mut reckoned = [0; KINDS];
            let [reads, writes] = if span % 2 == 0 { [10, 30] } else { [30, 10] };
            for (kind, count) in [(0, reads), (write, writes)] {
                reckoned[kind] = count * US * 100 * fit.factors[kind] / ONE;
            }
            let sum = reckoned.iter().sum::<i128>();
            // Reads alone seem to take it all.
            fit.forget(8_000_000_000 - sum);
            fit.add(&reckoned, sum, (reads * 200 * US - sum) * ONE / sum);
        }
        let [read, write] = [fit.factors[0], fit.factors[write]];
        assert!(write * 5 > ONE && read * 5 < 9 * ONE, "{read} and {write}");
    }

    /// Products that were rounded before they were weighed contradicted each other: a kind that was a 300th of each
    /// span had products with the other kind and none with itself, and one span made its cost 360 times as high.
    #[test]
    fn a_kind_that_is_a_small_part_of_each_span_moves_by_little_at_a_time() {
        let mut fit = Fit::new([ONE; KINDS]);
        (0..100).for_each(|_| see_part(&mut fit, Some(300), 0));
        (0..3).for_each(|_| see_part(&mut fit, Some(130), ONE * 38 / 100));
        let before = fit.factors;
        see_part(&mut fit, None, ONE / 500);
        for (now, before) in fit.factors.into_iter().zip(before) {
            assert!(now < before * 2 && before < now * 2, "{now} from {before}");
        }
    }

    /// Spans that two costs explain exactly: these are found, whatever they are and however mixes vary.
    #[test]
    fn costs_that_explain_every_span_are_found() {
        let mut random = 11_u64;
        let mut next = |bound: i128| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i128::from(random >> 33) % bound
        };
        for case in 0..500 {
            // Hundredths of the list.
            let truth = [1 + next(1_000), 1 + next(1_000)];
            let mut fit = Fit::new([ONE; KINDS]);
            for _ in 0..200 {
                let (sum, part) = (SPAN + next(7 * SPAN), next(1_001));
                let listed = [sum * part / 1_000, sum * (1_000 - part) / 1_000];
                let mut reckoned = [0; KINDS];
                (0..2).for_each(|kind| reckoned[kind] = listed[kind] * fit.factors[kind] / ONE);
                let took = (listed[0] * truth[0] + listed[1] * truth[1]) / 100;
                let sum = reckoned.iter().sum::<i128>();
                fit.forget((8_000_000_000 - sum).max(0));
                fit.add(&reckoned, sum, (took - sum) * ONE / sum);
            }
            for (factor, truth) in fit.factors.into_iter().zip(truth) {
                let off = (factor * 100 - truth * ONE).abs();
                assert!(off * 20 < truth * ONE, "case {case}: {factor} for {truth} hundredths");
            }
        }
    }

    /// Nothing says which of the kinds has the high cost.
    #[test]
    fn kinds_in_ever_the_same_proportion_explain_their_sum() {
        let mut fit = Fit::new([ONE; KINDS]);
        for _ in 0..100 {
            see(&mut fit, [100, 10], 20_000 * US);
        }
        let [sequential, random] = costs(&fit);
        assert!(
            (100 * sequential + 10 * random).abs_diff(20_000) < 200,
            "{sequential} and {random} us"
        );
    }

    #[test]
    fn a_kind_that_did_not_come_stays() {
        let mut fit = Fit::new([ONE; KINDS]);
        see(&mut fit, [400, 0], 40_000 * US);
        assert_eq!(fit.factors[1..], [ONE; KINDS - 1]);
        assert!(costs(&fit)[0].abs_diff(100) <= 1, "{:?}", costs(&fit));
    }

    const SPAN: i128 = 30_000 * US;

    /// A span of the shortest length of which the second kind is one in so many parts, if any.
    fn see_part(fit: &mut Fit, part: Option<i128>, error: i128) {
        let mut reckoned = [0; KINDS];
        reckoned[1] = part.map_or(0, |part| SPAN / part);
        reckoned[0] = SPAN - reckoned[1];
        fit.forget(8_000_000_000 - SPAN);
        fit.add(&reckoned, SPAN, error);
    }

    /// Known factors count as much as 1/1024 of a span: as much as one span of which a kind is 1/32.
    #[test]
    fn a_kind_that_is_a_thirty_second_of_one_span_moves_half_the_way() {
        let mut fit = Fit::new([ONE; KINDS]);
        (0..100).for_each(|_| see_part(&mut fit, None, 0));
        // The few pieces of that kind took twice as long as reckoned.
        see_part(&mut fit, Some(32), ONE / 32);
        let percent = (fit.factors[1] - ONE) * 100 / ONE;
        assert!((45..=55).contains(&percent), "{percent} % of the way");
        assert!((fit.factors[0] - ONE).abs() < ONE / 500, "the other kind is known");
    }

    /// One span that the device answered from elsewhere must not make a cost zero, and a list that is wrong by a
    /// hundred is corrected within a few spans.
    #[test]
    fn a_cost_falls_to_a_quarter_by_one_span_at_most() {
        let mut fit = Fit::new([ONE; KINDS]);
        let mut quarters = || {
            let took = SPAN / 100 * ONE / fit.factors[0];
            see_part(&mut fit, None, (took - SPAN) * ONE / SPAN);
            fit.factors[0] * 100 / ONE
        };
        let percents: [i128; 4] = core::array::from_fn(|_| quarters());
        assert_eq!(percents, [25, 6, 1, 1]);
    }

    /// A third of a second to tell them apart, at a few hundred multiplications for each span of 30 ms.
    #[test]
    fn kinds_whose_proportion_varies_by_a_half_are_told_apart_after_a_dozen_spans() {
        let mut fit = Fit::new([ONE; KINDS]);
        let spans = (1..100).find(|span| {
            let random = [20, 30][span % 2];
            let took = (400 - random) * 66 + random * 3000;
            see(&mut fit, [400 - random, random], took * US);
            let [sequential, random] = costs(&fit);
            (60..=72).contains(&sequential) && (2700..=3300).contains(&random)
        });
        let spans = spans.expect("they are told apart");
        assert!((8..=14).contains(&spans), "{spans} spans");
    }
}
