//! An experiment, what a seed of it measures, and the report over all seeds.

use disktime_report::chart::Panel;
use disktime_report::page::number;
use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::claims::{Draws, KEPT, mean};
use crate::open::{Band, Open};

pub use crate::claims::{Check, Sample};

/// A figure or table of a paper.
pub struct Experiment {
    /// Paper and number.
    pub id: &'static str,
    /// The subject.
    pub title: &'static str,
    /// The claim that it stands for, in a sentence; one of ours begins with "Ours".
    pub claim: &'static str,
    /// A note for the report's reader: how a check reads the paper.
    pub note: &'static str,
    /// Why checks are missed, as far as that was measured; empty if none is.
    pub reason: &'static str,
    /// The numbers that it needs and its paper leaves open.
    pub open: &'static [Open],
    /// Runs it under a seed.
    pub measure: fn(seed: u64) -> Sample,
}

/// The result of an experiment over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The experiment's.
    pub id: &'static str,
    /// The experiment's.
    pub title: &'static str,
    /// The experiment's.
    pub claim: &'static str,
    /// The experiment's.
    pub note: &'static str,
    /// The experiment's.
    pub reason: &'static str,
    /// The part of the figure that was not run, and how it can be; `None` if all of it was.
    pub left_out: Option<&'static str>,
    /// Simulated seconds, of all seeds together.
    pub seconds: f64,
    /// The figure, each y the mean over the seeds.
    pub panels: Vec<Panel>,
    /// The claims, measured as the mean over the seeds.
    pub checks: Vec<Check>,
    /// Rows without a bound, which are shown and not judged, as the mean over the seeds.
    pub reported: Vec<Check>,
    /// The figure over the draws that it makes, and over the range of each number that the paper
    /// leaves open.
    pub bands: Vec<Band>,
    /// The checks that single seeds of several miss, whatever the mean does.
    pub missed_by_seed: Vec<SeedMiss>,
}

/// A check that one seed of several misses.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeedMiss {
    /// The check's name.
    pub check: String,
    /// The seed.
    pub seed: u64,
    /// The quantity that it measures.
    pub measured: f64,
}

impl Report {
    /// The means of one sample per seed, in order of seed from `first_seed` on.
    ///
    /// # Panics
    /// Without a sample, or if samples differ in more than what was measured.
    pub(crate) fn new(
        experiment: &Experiment,
        first_seed: u64,
        samples: &[Sample],
        bands: Vec<Band>,
    ) -> Self {
        let first = samples.first().expect("at least one seed");
        let mut panels = first.panels.clone();
        for (p, panel) in panels.iter_mut().enumerate() {
            for (s, series) in panel.series.iter_mut().enumerate() {
                for (i, point) in series.points.iter_mut().enumerate() {
                    let same = |sample: &Sample| sample.panels[p].series[s].points[i];
                    assert!(
                        samples.iter().all(|sample| same(sample).0.total_cmp(&point.0).is_eq())
                    );
                    point.1 = mean(samples.iter().map(|sample| same(sample).1));
                }
            }
        }
        let mut checks = first.checks.clone();
        for (c, check) in checks.iter_mut().enumerate() {
            check.measured = mean(samples.iter().map(|sample| sample.checks[c].measured));
            for (rank, measured) in
                check.draws.iter_mut().flat_map(|it| &mut it.measured).enumerate()
            {
                let draws = samples.iter().map(|sample| sample.checks[c].draws.as_ref());
                let drawn = |draws: Option<&Draws>| draws.expect("all seeds draw").measured[rank];
                *measured = mean(draws.map(drawn));
            }
        }
        let missed = |(seed, sample): (u64, &Sample)| {
            let missed = sample.checks.iter().filter(|check| check.is_bounded() && !check.pass());
            let miss = |check: &Check| SeedMiss {
                check: check.name.clone(),
                seed,
                measured: check.measured,
            };
            missed.map(miss).collect::<Vec<_>>()
        };
        let several = samples.len() > 1;
        let missed_by_seed =
            (first_seed..).zip(samples).filter(|_| several).flat_map(missed).collect();
        let seconds = samples.iter().map(|sample| sample.seconds).sum();
        let Experiment { id, title, claim, note, reason, .. } = *experiment;
        let bands = Band::of_draws(&checks).into_iter().chain(bands).collect();
        let (checks, reported) = checks.into_iter().partition(Check::is_bounded);
        Self {
            id,
            title,
            claim,
            note,
            reason,
            left_out: None,
            seconds,
            panels,
            checks,
            reported,
            bands,
            missed_by_seed,
        }
    }

    /// Adds what the same figure measures in another way.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.panels.extend(other.panels);
        self.checks.extend(other.checks);
        self.reported.extend(other.reported);
        self.bands.extend(other.bands);
        self.missed_by_seed.extend(other.missed_by_seed);
    }

    /// Whether a check of the report passes: within its bounds at the values shown, and over the
    /// middle half of the range of each number that the paper leaves open, and of what it draws.
    #[must_use]
    pub fn passes(&self, check: &Check) -> bool {
        check.pass() && self.missed_over(check).next().is_none()
    }

    /// The checks that are claims: the simulator's own checkers are none.
    pub fn claims(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.name != KEPT)
    }

    /// How many claims hold, in words; `None` without a claim.
    #[must_use]
    pub fn held_in_words(&self) -> Option<String> {
        let all = self.claims().count();
        let held = self.claims().filter(|check| self.passes(check)).count();
        let broken = self.checks.iter().any(|check| check.name == KEPT && !check.pass());
        let broken = if broken { ", promises broken" } else { "" };
        (all > 0).then(|| format!("{held} of {all}{broken}"))
    }

    /// The bands in whose middle half a check is missed.
    pub fn missed_over<'a>(&'a self, check: &'a Check) -> impl Iterator<Item = &'a Band> {
        let misses = |band: &&Band| {
            band.checks.iter().any(|course| course.missed && course.check == check.name)
        };
        self.bands.iter().filter(misses)
    }

    /// For each check that single seeds miss: the values that they measure, with their seeds, in words.
    #[must_use]
    pub fn missed_by_seed_in_words(&self) -> Vec<String> {
        let missed_by = |check: &Check| {
            let of_check = self.missed_by_seed.iter().filter(|miss| miss.check == check.name);
            let value = |miss: &SeedMiss| format!("{} (seed {})", number(miss.measured), miss.seed);
            let values: Vec<String> = of_check.map(value).collect();
            (!values.is_empty()).then(|| format!("{}: {}", check.name, values.join(", ")))
        };
        self.checks.iter().filter_map(missed_by).collect()
    }

    /// The checks that don't pass.
    pub fn missed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !self.passes(check))
    }

    /// Whether every check passes.
    #[must_use]
    pub fn pass(&self) -> bool {
        self.missed().next().is_none()
    }
}

/// A check as JSON has it.
#[derive(Serialize)]
struct Judged<'a> {
    name: &'a str,
    published: f64,
    measured: f64,
    low: f64,
    high: f64,
    pass: bool,
}

/// A row without bounds as JSON has it.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    published: f64,
    measured: f64,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            panel: &'a str,
            name: &'a str,
            x: &'a str,
            y: &'a str,
            points: &'a [(f64, f64)],
        }
        let series: Vec<Flat<'_>> = self
            .panels
            .iter()
            .flat_map(|panel| {
                panel.series.iter().map(|series| Flat {
                    panel: &panel.title,
                    name: &series.name,
                    x: panel.x.label,
                    y: panel.y.label,
                    points: &series.points,
                })
            })
            .collect();
        let judged = self.checks.iter().map(|check| Judged {
            name: &check.name,
            published: check.published,
            measured: check.measured,
            low: check.low,
            high: check.high,
            pass: self.passes(check),
        });
        let judged: Vec<Judged<'_>> = judged.collect();
        let reported = self.reported.iter().map(|row| Shown {
            name: &row.name,
            published: row.published,
            measured: row.measured,
        });
        let reported: Vec<Shown<'_>> = reported.collect();
        let mut object = serializer.serialize_struct("Report", 12)?;
        object.serialize_field("id", self.id)?;
        object.serialize_field("title", self.title)?;
        object.serialize_field("seconds", &self.seconds)?;
        object.serialize_field("series", &series)?;
        object.serialize_field("checks", &judged)?;
        object.serialize_field("reported", &reported)?;
        object.serialize_field("bands", &self.bands)?;
        object.serialize_field("missed_by_seed", &self.missed_by_seed)?;
        object.serialize_field("claim", self.claim)?;
        object.serialize_field("note", self.note)?;
        object.serialize_field("reason", self.reason)?;
        object.serialize_field("left_out", &self.left_out)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(seeds: u64) -> Report {
        let measure = |seed: u64| Sample {
            seconds: 1.0,
            panels: Vec::new(),
            checks: vec![
                Check::at_most("even", 1.0, 5.0),
                Check::at_most("third", if seed == 3 { 9.0 } else { 1.0 }, 5.0),
            ],
        };
        let samples: Vec<Sample> = (1..=seeds).map(measure).collect();
        let experiment =
            Experiment { id: "x", title: "", claim: "", note: "", reason: "", open: &[], measure };
        Report::new(&experiment, 1, &samples, Vec::new())
    }

    #[test]
    fn a_seed_that_misses_alone_is_named_though_the_mean_holds() {
        let report = over(4);
        assert!(report.pass());
        let miss = SeedMiss { check: "third".to_owned(), seed: 3, measured: 9.0 };
        assert_eq!(report.missed_by_seed, [miss]);
        assert_eq!(report.missed_by_seed_in_words(), ["third: 9 (seed 3)"]);
        assert_eq!(over(2).missed_by_seed, []);
    }
}
