//! A claim with its bounds, and all that one seed of an experiment measures.

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
}

impl Check {
    /// `published ± by`.
    pub(crate) fn near(name: impl Into<String>, published: f64, measured: f64, by: f64) -> Self {
        Self { name: name.into(), published, measured, low: published - by, high: published + by }
    }

    /// A distance from what was published, 0, of at most `high`.
    pub(crate) fn deviation(name: impl Into<String>, measured: f64, high: f64) -> Self {
        Self { name: name.into(), published: 0.0, measured, low: 0.0, high }
    }

    pub(crate) fn at_least(name: impl Into<String>, measured: f64, low: f64) -> Self {
        Self { name: name.into(), published: low, measured, low, high: f64::INFINITY }
    }

    pub(crate) fn at_most(name: impl Into<String>, measured: f64, high: f64) -> Self {
        Self { name: name.into(), published: high, measured, low: f64::NEG_INFINITY, high }
    }

    /// A row that is shown and not judged: it has no bounds.
    pub(crate) fn reported(name: impl Into<String>, published: f64, measured: f64) -> Self {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        Self { name: name.into(), published, measured, low, high }
    }

    /// Whether something could be measured that does not pass.
    pub(crate) fn is_bounded(&self) -> bool {
        self.low.is_finite() || self.high.is_finite()
    }

    /// Whether what we measure is within the bounds.
    #[must_use]
    pub fn pass(&self) -> bool {
        (self.low..=self.high).contains(&self.measured)
    }
}

/// The name of the simulator's own checkers: no claim of a paper.
pub(crate) const KEPT: &str = "promises broken, as the simulator counts them";

/// The simulator's own checkers: conservation, starvation, limits.
pub(crate) fn kept(violations: usize) -> Check {
    Check::near(KEPT, 0.0, violations as f64, 0.0)
}

/// The means over several draws of one seed; drawn are the lines of the first.
pub(crate) fn mean_of(samples: &[Sample]) -> Sample {
    let mut all = samples[0].clone();
    for (index, check) in all.checks.iter_mut().enumerate() {
        check.measured = mean(samples.iter().map(|sample| sample.checks[index].measured));
    }
    all.seconds = samples.iter().map(|sample| sample.seconds).sum();
    all
}

pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
