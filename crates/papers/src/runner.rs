//! Runs experiments on several threads; what comes of them doesn't depend on how many.

use std::num::NonZero;

use crate::claims::{Sample, mean};
use crate::experiment::{Experiment, Report};
use crate::open::{Band, Open, Values};

/// The seeds and values of a run of experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs {
    /// The least seed.
    pub first_seed: u64,
    /// Seeds from there on.
    pub seeds: NonZero<u32>,
    /// The values of numbers that papers leave open, and the seeds of them, at most `seeds`; `None`
    /// for the values that are shown alone.
    pub bands: Option<(Values, NonZero<u32>)>,
}

impl Runs {
    /// Seeds 1 to `seeds`, at the values that are shown alone.
    #[must_use]
    pub fn of_seeds(seeds: NonZero<u32>) -> Self {
        Self { first_seed: 1, seeds, bands: None }
    }

    /// The seeds and whole ranges of numbers left open.
    #[must_use]
    pub fn whole(first_seed: u64, seeds: NonZero<u32>) -> Self {
        Self { first_seed, seeds, bands: Some((Values::All, seeds)) }
    }

    /// Runs of an experiment.
    #[must_use]
    pub fn count(&self, experiment: &'static Experiment) -> usize {
        self.jobs(experiment).len()
    }

    /// An experiment's runs, in the order in which [`Self::report`] takes their samples.
    fn jobs(&self, experiment: &'static Experiment) -> Vec<Job> {
        let job = |run: Option<(&'static Open, f64)>, seeds: NonZero<u32>| {
            let seeds = self.first_seed..self.first_seed + u64::from(seeds.get());
            seeds.map(move |seed| Job { experiment, seed, run })
        };
        let mut jobs: Vec<Job> = job(None, self.seeds).collect();
        for (open, value, seeds) in self.others(experiment) {
            jobs.extend(job(Some((open, value)), seeds));
        }
        jobs
    }

    fn others(
        &self,
        experiment: &'static Experiment,
    ) -> impl Iterator<Item = (&'static Open, f64, NonZero<u32>)> + use<> {
        let bands = self.bands.map(|(values, seeds)| (values, seeds.min(self.seeds)));
        let runs = bands.into_iter().flat_map(|(values, seeds)| {
            let each = experiment.open.iter();
            each.flat_map(move |open| {
                open.others(values).into_iter().map(move |value| (open, value, seeds))
            })
        });
        runs.collect::<Vec<_>>().into_iter()
    }

    fn report(&self, experiment: &'static Experiment, samples: &[Sample]) -> Report {
        let (shown, mut rest) = samples.split_at(self.seeds.get() as usize);
        let mut runs: Vec<(&'static Open, f64, &[Sample])> = Vec::new();
        for (open, value, seeds) in self.others(experiment) {
            let (samples, behind) = rest.split_at(seeds.get() as usize);
            runs.push((open, value, samples));
            rest = behind;
        }
        let band = |open: &'static Open| -> Option<Band> {
            let of_open = runs.iter().filter(|(run, ..)| std::ptr::eq(*run, open));
            let others: Vec<(f64, &[Sample])> =
                of_open.map(|&(_, value, samples)| (value, samples)).collect();
            let seeds = others.first()?.1.len();
            Some(open.band(&shown[..seeds], &others))
        };
        let bands = experiment.open.iter().filter_map(band).collect();
        let mut report = Report::new(experiment, self.first_seed, shown, bands);
        let others: Vec<&[Sample]> = runs.iter().map(|(.., samples)| *samples).collect();
        for (index, panel) in report.panels.iter_mut().enumerate() {
            for (line, series) in panel.series.iter_mut().enumerate() {
                series.band = band_of(&series.points, &others, |sample| {
                    Some(&sample.panels.get(index)?.series.get(line)?.points)
                });
            }
        }
        report
    }
}

/// The least and the greatest y of each point, over other values of what is left open as well; none if
/// another value has other points.
fn band_of<'a>(
    points: &[(f64, f64)],
    others: &[&'a [Sample]],
    series: impl Fn(&'a Sample) -> Option<&'a Vec<(f64, f64)>>,
) -> Vec<(f64, f64)> {
    let at = |index: usize, x: f64| {
        let y = |samples: &&'a [Sample]| {
            let ys = samples.iter().map(|sample| {
                let point = series(sample)?.get(index)?;
                (point.0 == x).then_some(point.1)
            });
            let ys: Vec<f64> = ys.collect::<Option<_>>()?;
            Some(mean(ys.into_iter()))
        };
        others.iter().map(y).collect::<Option<Vec<f64>>>()
    };
    if others.is_empty() {
        return Vec::new();
    }
    let bounds = points.iter().enumerate().map(|(index, &(x, shown))| {
        let ys = at(index, x)?;
        let least = ys.iter().copied().fold(shown, f64::min);
        Some((least, ys.into_iter().fold(shown, f64::max)))
    });
    bounds.collect::<Option<_>>().unwrap_or_default()
}

/// One run of one experiment.
#[derive(Clone, Copy)]
struct Job {
    experiment: &'static Experiment,
    seed: u64,
    /// Another value of a number that the paper leaves open.
    run: Option<(&'static Open, f64)>,
}

/// Runs every experiment. `started` is told of each run, on its thread.
///
/// # Panics
/// If an experiment does: its plan can't be run.
pub fn run(
    experiments: &[&'static Experiment],
    runs: Runs,
    threads: NonZero<usize>,
    started: impl Fn(&Experiment, u64) + Sync,
) -> Vec<Report> {
    let by_experiment: Vec<Vec<Job>> =
        experiments.iter().map(|experiment| runs.jobs(experiment)).collect();
    let jobs = by_experiment.concat();
    let samples = disktime_sim::each(&jobs, threads, |job| {
        started(job.experiment, job.seed);
        match job.run {
            None => (job.experiment.measure)(job.seed),
            Some((open, value)) => (open.measure)(job.seed, value),
        }
    });
    let mut rest = &samples[..];
    let mut report = |(experiment, jobs): (&&'static Experiment, &Vec<Job>)| {
        let (own, behind) = rest.split_at(jobs.len());
        rest = behind;
        runs.report(experiment, own)
    };
    experiments.iter().zip(&by_experiment).map(&mut report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_report::chart::{Axis, Marks, Panel, Series};

    fn sample(y: f64) -> Sample {
        let panel = Panel {
            title: String::new(),
            marks: Marks::Lines,
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series::new("line", [(1.0, y), (2.0, 2.0 * y)])],
            level: None,
        };
        Sample { seconds: 1.0, panels: vec![panel], checks: Vec::new() }
    }

    static OPEN: [Open; 1] = [Open {
        name: "scale",
        values: &[1.0, 2.0, 3.0],
        shown: 2.0,
        stated: false,
        why: "",
        measure: |_, value| sample(value),
    }];
    static FIGURE: Experiment = Experiment {
        id: "x",
        title: "",
        claim: "",
        note: "",
        reason: "",
        open: &OPEN,
        measure: |_| sample(2.0),
    };

    #[test]
    fn lines_have_a_band_over_what_is_left_open() {
        let one = NonZero::<u32>::MIN;
        let threads = NonZero::<usize>::MIN;
        let bands = |runs| run(&[&FIGURE], runs, threads, |_, _| {}).remove(0).panels.remove(0);
        let whole = bands(Runs::whole(1, one)).series.remove(0);
        assert_eq!(whole.points, [(1.0, 2.0), (2.0, 4.0)]);
        assert_eq!(whole.band, [(1.0, 3.0), (2.0, 6.0)]);
        assert_eq!(bands(Runs::of_seeds(one)).series.remove(0).band, []);
    }
}
