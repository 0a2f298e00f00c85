//! A claim with its bounds, and all that one seed of an experiment measures.

use std::ops::RangeInclusive;

use disktime_report::chart::Panel;

/// The measurements of an experiment under one seed. All seeds have the same panels, x and checks.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Simulated seconds.
    pub seconds: f64,
    /// The figure.
    pub panels: Vec<Panel>,
    /// The claims.
    pub checks: Vec<Check>,
}

/// A published claim and what we measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The measured quantity, with its unit.
    pub name: String,
    /// The value that the paper states, or the bound that its words amount to.
    pub published: f64,
    /// The value that we measure; in a report the mean over the seeds.
    pub measured: f64,
    /// The least that passes; -∞ (`null` in JSON) if there is none.
    pub low: f64,
    /// The most that passes; ∞ (`null` in JSON) if there is none.
    pub high: f64,
    /// The same quantity in each of several draws, of which `measured` is the median.
    pub draws: Option<Draws>,
}

/// A quantity in each of several draws of something that its paper leaves open and that has no order.
#[derive(Clone, PartialEq, Debug)]
pub struct Draws {
    /// The subject of the draws.
    pub of: &'static str,
    /// The source of their range.
    pub why: &'static str,
    /// Least first; in a report the means over the seeds, rank by rank.
    pub measured: Vec<f64>,
}

impl Check {
    /// A value of that range, ends and all.
    pub(crate) fn between(
        name: impl Into<String>,
        published: f64,
        measured: f64,
        range: RangeInclusive<f64>,
    ) -> Self {
        let (low, high) = range.into_inner();
        Self { name: name.into(), published, measured, low, high, draws: None }
    }

    /// `published ± by`.
    pub(crate) fn near(name: impl Into<String>, published: f64, measured: f64, by: f64) -> Self {
        Self::between(name, published, measured, published - by..=published + by)
    }

    /// A distance from what was published, 0, of at most `high`.
    pub(crate) fn deviation(name: impl Into<String>, measured: f64, high: f64) -> Self {
        Self::between(name, 0.0, measured, 0.0..=high)
    }

    pub(crate) fn at_least(name: impl Into<String>, measured: f64, low: f64) -> Self {
        Self::between(name, low, measured, low..=f64::INFINITY)
    }

    pub(crate) fn at_most(name: impl Into<String>, measured: f64, high: f64) -> Self {
        Self::between(name, high, measured, f64::NEG_INFINITY..=high)
    }

    /// A row that is shown and not judged: it has no bounds.
    pub(crate) fn reported(name: impl Into<String>, published: f64, measured: f64) -> Self {
        Self::between(name, published, measured, f64::NEG_INFINITY..=f64::INFINITY)
    }

    /// Whether something could be measured that does not pass.
    pub(crate) fn is_bounded(&self) -> bool {
        self.low.is_finite() || self.high.is_finite()
    }

    /// Whether what we measure is within the bounds.
    #[must_use]
    pub fn pass(&self) -> bool {
        self.holds_at(self.measured)
    }

    /// Whether another measured value would be within the bounds.
    pub(crate) fn holds_at(&self, measured: f64) -> bool {
        (self.low..=self.high).contains(&measured)
    }
}

/// The name of the simulator's own checkers: no claim of a paper.
pub(crate) const KEPT: &str = "promises broken, as the simulator counts them";

/// The simulator's own checkers: conservation, starvation, limits.
pub(crate) fn kept(violations: usize) -> Check {
    Check::near(KEPT, 0.0, violations as f64, 0.0)
}

/// Several draws of one seed: each claim measures their median and keeps them all, and the simulator's
/// own checkers count all of them; drawn are the lines of the first.
pub(crate) fn over_draws(of: &'static str, why: &'static str, samples: &[Sample]) -> Sample {
    let mut all = samples[0].clone();
    for (index, check) in all.checks.iter_mut().enumerate() {
        let mut measured: Vec<f64> =
            samples.iter().map(|sample| sample.checks[index].measured).collect();
        if check.name == KEPT {
            check.measured = measured.iter().sum();
            continue;
        }
        measured.sort_by(f64::total_cmp);
        check.measured = median(&measured);
        check.draws = Some(Draws { of, why, measured });
    }
    all.seconds = samples.iter().map(|sample| sample.seconds).sum();
    all
}

/// The median of values that rise: of an even count, the middle of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let last = values.len() - 1;
    f64::midpoint(values[last / 2], values[last.div_ceil(2)])
}

pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In two of eight placements best effort never came back, and the mean over all said 22 s.
    #[test]
    fn a_claim_over_draws_measures_their_median_and_a_promise_broken_in_one_counts() {
        let sample = |(measured, violations): (f64, usize)| Sample {
            seconds: 1.0,
            panels: Vec::new(),
            checks: vec![Check::at_most("back after, s", measured, 2.0), kept(violations)],
        };
        let samples = [(90.0, 0), (1.0, 0), (2.0, 1), (4.0, 0)].map(sample);
        let all = over_draws("places", "lost", &samples);
        assert_eq!(all.checks[0].measured.to_bits(), 3.0_f64.to_bits());
        let draws = all.checks[0].draws.as_ref().expect("a claim keeps its draws");
        assert_eq!(draws.measured, [1.0, 2.0, 4.0, 90.0]);
        assert!(!all.checks[1].pass() && all.checks[1].draws.is_none());
    }
}
