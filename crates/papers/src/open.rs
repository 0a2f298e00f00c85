//! Numbers that a paper leaves open: their plausible ranges, and where in them the checks hold.
//!
//! A figure is shown at one value of each. A check passes if it holds at that value where the paper
//! states it, and else if it holds at every value of the middle half of the range as well. Things
//! without an order, like the places of files, are drawn: there a check has to hold in the middle half
//! of the draws, sorted by what it measures in them.
//!
//! Does not know: how a figure is drawn or written.

use crate::claims::{Check, Sample, mean};
use serde::Serialize;

/// A number that a paper leaves open and that a figure needs.
pub struct Open {
    /// The quantity and its unit.
    pub name: &'static str,
    /// Its plausible range, rising, evenly spread on the scale that it has.
    pub values: &'static [f64],
    /// The value at which the figure is shown: one of `values`.
    pub shown: f64,
    /// Whether the paper states that value, so that its range is shown and not judged.
    pub stated: bool,
    /// The source of the range.
    pub why: &'static str,
    /// The figure under a seed with another value, all other numbers as shown. Samples have the
    /// checks of the experiment's own.
    pub measure: fn(seed: u64, value: f64) -> Sample,
}

/// The values of an open number at which a figure is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// The whole range.
    All,
    /// The two ends of the middle half.
    MiddleEnds,
}

/// A figure over the range of a number that its paper leaves open.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Band {
    /// The quantity and its unit.
    pub name: &'static str,
    /// The values that were run, the one that the figure shows among them.
    pub values: Vec<f64>,
    /// The value at which the figure is shown.
    pub shown: f64,
    /// Whether the paper states that value.
    pub stated: bool,
    /// Whether the values are ranks of draws, of what each check measures in them: the figure shows
    /// their median.
    pub drawn: bool,
    /// The source of the range.
    pub why: &'static str,
    /// Each check: its measured value at each value of the number, and whether it holds there.
    pub checks: Vec<Course>,
}

/// A check over the values of a band.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Course {
    /// The check's name.
    pub check: String,
    /// The mean over the seeds, by value.
    pub measured: Vec<f64>,
    /// Whether that is within the check's bounds, by value.
    pub holds: Vec<bool>,
    /// Whether it is missed somewhere in the middle half of the range, by a number that the paper
    /// does not state.
    pub missed: bool,
}

/// Numbers that all figures of a paper share and each figure varies: fields of a struct of floats,
/// `$knobs`. `$run` runs a figure under a seed and with a change of that struct.
macro_rules! varied {
    (|$seed:ident, $with:ident| $run:expr, $knobs:ident, [$({
        $field:ident: $name:literal, $values:expr,
        shown $shown:literal, stated $stated:literal,
        $why:literal,
    },)+]) => {
        &[$($crate::open::Open {
            name: $name,
            values: &$values,
            shown: $shown,
            stated: $stated,
            why: $why,
            measure: |$seed, value| {
                let $with = |knobs: $knobs| $knobs { $field: value, ..knobs };
                $run
            },
        }),+]
    };
}
pub(crate) use varied;

impl Open {
    /// The values to run, without the one that is shown.
    pub(crate) fn others(&self, values: Values) -> Vec<f64> {
        let last = self.values.len() - 1;
        let ends = [last.div_ceil(4), 3 * last / 4];
        let wanted = |(index, value): (usize, &f64)| {
            let runs = values == Values::All || ends.contains(&index);
            (runs && *value != self.shown).then_some(*value)
        };
        self.values.iter().enumerate().filter_map(wanted).collect()
    }

    /// Whether a value lies in the middle half of the range, by its place in it.
    fn is_middle(&self, value: f64) -> bool {
        let index = self.values.iter().position(|it| *it == value);
        index.is_some_and(|index| is_middle(index, self.values.len()))
    }

    /// The band of the samples at the value shown and at others, one of each for each seed.
    ///
    /// # Panics
    /// If samples differ in their checks.
    pub(crate) fn band(&self, shown: &[Sample], others: &[(f64, &[Sample])]) -> Band {
        let mut runs: Vec<(f64, &[Sample])> = others.to_vec();
        runs.push((self.shown, shown));
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let bounded = shown[0].checks.iter().enumerate().filter(|(_, check)| check.is_bounded());
        let course = |(index, check): (usize, &Check)| {
            let means = runs.iter().map(|(_, samples)| {
                mean(samples.iter().map(|sample| {
                    assert_eq!(sample.checks[index].name, check.name, "the same checks");
                    sample.checks[index].measured
                }))
            });
            let measured: Vec<f64> = means.collect();
            // Bounds may depend on the value: each run has its own.
            let holds = runs
                .iter()
                .zip(&measured)
                .map(|((_, samples), measured)| samples[0].checks[index].holds_at(*measured));
            let holds: Vec<bool> = holds.collect();
            let middle = runs.iter().zip(&holds).filter(|((value, _), _)| self.is_middle(*value));
            let missed = !self.stated && middle.into_iter().any(|(_, holds)| !holds);
            Course { check: check.name.clone(), measured, holds, missed }
        };
        Band {
            name: self.name,
            values: runs.iter().map(|(value, _)| *value).collect(),
            shown: self.shown,
            stated: self.stated,
            drawn: false,
            why: self.why,
            checks: bounded.map(course).collect(),
        }
    }
}

/// Whether a place among so many evenly spread ones lies in their middle half.
fn is_middle(index: usize, count: usize) -> bool {
    let last = count - 1;
    (last..=3 * last).contains(&(4 * index))
}

impl Band {
    /// The bands of the draws that checks keep, one for each subject of draws.
    pub(crate) fn of_draws(checks: &[Check]) -> Vec<Self> {
        let mut bands: Vec<Self> = Vec::new();
        let drawn = checks.iter().filter(|check| check.is_bounded());
        for (check, draws) in drawn.filter_map(|check| Some((check, check.draws.as_ref()?))) {
            let count = draws.measured.len();
            let ranks = (1..=u32::try_from(count).expect("a few draws")).map(f64::from);
            let holds = draws.measured.iter().map(|it| check.holds_at(*it));
            let holds: Vec<bool> = holds.collect();
            let missed = holds.iter().enumerate().any(|(at, holds)| !holds && is_middle(at, count));
            let measured = draws.measured.clone();
            let course = Course { check: check.name.clone(), measured, holds, missed };
            if let Some(band) = bands.iter_mut().find(|band| band.name == draws.of) {
                band.checks.push(course);
                continue;
            }
            bands.push(Self {
                name: draws.of,
                values: ranks.collect(),
                shown: (count as f64 + 1.0) / 2.0,
                stated: false,
                drawn: true,
                why: draws.why,
                checks: vec![course],
            });
        }
        bands
    }

    /// The checks that don't hold at every value, each with the values at which it does.
    #[must_use]
    pub fn partly(&self) -> Vec<(&Course, String)> {
        let partly = self.checks.iter().filter(|course| course.holds.contains(&false));
        partly.map(|course| (course, self.held(course))).collect()
    }

    /// The values at which a check holds, in words.
    #[must_use]
    pub fn held(&self, course: &Course) -> String {
        let held = self.values.iter().zip(&course.holds).filter(|(_, holds)| **holds);
        let held: Vec<String> = held.map(|(value, _)| value.to_string()).collect();
        match held.len() {
            0 => "nowhere".to_owned(),
            count if self.drawn => format!("in {count} of {} draws", self.values.len()),
            _ => format!("at {}", held.join(", ")),
        }
    }

    /// The range, from the least value to the greatest, or how many draws there are.
    #[must_use]
    pub fn range(&self) -> String {
        if self.drawn {
            return format!("{} draws", self.values.len());
        }
        let (least, greatest) = (self.values.first(), self.values.last());
        let text = |value: Option<&f64>| value.map_or_else(String::new, f64::to_string);
        format!("{} to {}", text(least), text(greatest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Draws;

    /// A figure once passed by its mean over placements, of which half were far out of bounds.
    #[test]
    fn a_check_passes_that_holds_in_the_middle_half_of_draws() {
        let band = |measured: [f64; 8]| {
            let draws = Draws { of: "places", why: "", measured: measured.to_vec() };
            let check = Check { draws: Some(draws), ..Check::near("rate", 3.0, 3.0, 1.0) };
            let mut bands = Band::of_draws(&[check, Check::near("not drawn", 1.0, 1.0, 1.0)]);
            assert_eq!(bands.len(), 1);
            bands.remove(0)
        };
        let middle = band([0.0, 0.0, 2.0, 3.0, 3.0, 4.0, 9.0, 9.0]);
        assert_eq!((middle.range().as_str(), middle.checks.len()), ("8 draws", 1));
        assert!(!middle.checks[0].missed);
        assert_eq!(middle.held(&middle.checks[0]), "in 4 of 8 draws");
        assert!(band([2.0, 2.0, 2.0, 3.0, 3.0, 5.0, 9.0, 9.0]).checks[0].missed);
        assert!(band([0.0, 0.0, 0.0, 3.0, 3.0, 4.0, 4.0, 4.0]).checks[0].missed);
    }

    /// A figure whose check holds from 20 to 40.
    fn open(stated: bool) -> Open {
        let measure = |_, value: f64| Sample {
            seconds: 1.0,
            panels: Vec::new(),
            checks: vec![
                Check::near("narrow", 30.0, value, 10.0),
                Check::at_most("wide", value, 100.0),
            ],
        };
        let values = &[10.0, 20.0, 30.0, 40.0, 50.0];
        Open { name: "depth", values, shown: 30.0, stated, why: "", measure }
    }

    fn band(open: &Open, values: Values) -> Band {
        let sample = |value| [(open.measure)(1, value)];
        let others = open.others(values);
        let samples: Vec<[Sample; 1]> = others.iter().map(|value| sample(*value)).collect();
        let runs: Vec<(f64, &[Sample])> =
            others.iter().zip(&samples).map(|(value, samples)| (*value, &samples[..])).collect();
        open.band(&sample(open.shown), &runs)
    }

    #[test]
    fn a_check_passes_that_holds_over_the_middle_half() {
        let band = band(&open(false), Values::All);
        assert_eq!(band.values, [10.0, 20.0, 30.0, 40.0, 50.0]);
        let [narrow, wide] = &band.checks[..] else { panic!("two checks") };
        assert_eq!(narrow.holds, [false, true, true, true, false]);
        assert!(!narrow.missed && !wide.missed);
        assert_eq!(band.partly(), [(narrow, "at 20, 30, 40".to_owned())]);
        assert_eq!(band.range(), "10 to 50");
    }

    /// Several figures once passed since a number had been chosen after the result was seen.
    #[test]
    fn a_check_misses_that_holds_at_the_value_shown_alone() {
        let narrow = |value: f64| Check::near("narrow", 30.0, value, 5.0);
        let measure = |_, value: f64| Sample {
            seconds: 1.0,
            panels: Vec::new(),
            checks: vec![Check::near("narrow", 30.0, value, 5.0)],
        };
        assert!(narrow(30.0).pass());
        let chosen = Open { measure, ..open(false) };
        assert!(band(&chosen, Values::All).checks[0].missed);
        assert!(band(&chosen, Values::MiddleEnds).checks[0].missed);
        assert!(!band(&Open { measure, ..open(true) }, Values::All).checks[0].missed);
    }

    #[test]
    fn the_ends_of_the_middle_half_are_a_quarter_from_those_of_the_range() {
        assert_eq!(open(false).others(Values::MiddleEnds), [20.0, 40.0]);
        assert_eq!(open(false).others(Values::All), [10.0, 20.0, 40.0, 50.0]);
    }
}
