//! Runs experiments on several threads; what comes of them doesn't depend on how many.

use crate::experiment::{Experiment, Report};
use std::num::NonZero;

/// Runs every experiment with seeds 1 to `seeds`. `started` is told of each run, on its thread.
///
/// # Panics
/// If an experiment does: its plan can't be run.
pub fn run(
    experiments: &[&Experiment],
    seeds: NonZero<u32>,
    threads: NonZero<usize>,
    started: impl Fn(&Experiment, u64) + Sync,
) -> Vec<Report> {
    let jobs: Vec<(&Experiment, u64)> = experiments
        .iter()
        .flat_map(|experiment| (1..=u64::from(seeds.get())).map(|seed| (*experiment, seed)))
        .collect();
    let samples = disktime_sim::each(&jobs, threads, |(experiment, seed)| {
        started(experiment, *seed);
        (experiment.measure)(*seed)
    });
    let by_experiment = samples.chunks(seeds.get() as usize);
    let reports = experiments.iter().zip(by_experiment);
    reports.map(|(experiment, samples)| Report::new(experiment, samples)).collect()
}
