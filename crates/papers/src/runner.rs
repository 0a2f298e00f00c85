//! Runs experiments on several threads; what comes of them doesn't depend on how many.

use crate::experiment::{Experiment, Report, Sample};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    let next = AtomicUsize::new(0);
    let samples: Vec<Mutex<Option<Sample>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(jobs.len()) {
            scope.spawn(|| {
                while let Some((job, slot)) = take(&next, &jobs, &samples) {
                    let (experiment, seed) = *job;
                    started(experiment, seed);
                    let sample = (experiment.measure)(seed);
                    *slot.lock().expect("each slot is locked once") = Some(sample);
                }
            });
        }
    });
    let samples: Vec<Sample> = samples
        .into_iter()
        .filter_map(|slot| slot.into_inner().expect("each slot is locked once"))
        .collect();
    let by_experiment = samples.chunks(seeds.get() as usize);
    let reports = experiments.iter().zip(by_experiment);
    reports.map(|(experiment, samples)| Report::new(experiment, samples)).collect()
}

fn take<'a, Job, Slot>(
    next: &AtomicUsize,
    jobs: &'a [Job],
    slots: &'a [Slot],
) -> Option<(&'a Job, &'a Slot)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((jobs.get(index)?, slots.get(index)?))
}
