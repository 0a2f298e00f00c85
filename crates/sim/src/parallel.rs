//! Runs independent jobs on several threads; what comes of them doesn't depend on how many.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does every job, several at once; the answers are in the order of the jobs.
///
/// # Panics
/// If a job does.
pub fn each<Job: Sync, Answer: Send>(
    jobs: &[Job],
    threads: NonZero<usize>,
    work: impl Fn(&Job) -> Answer + Sync,
) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<Answer>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(jobs.len()) {
            scope.spawn(|| {
                while let Some((job, slot)) = take(&next, jobs, &answers) {
                    let answer = work(job);
                    *slot.lock().expect("each slot is locked once") = Some(answer);
                }
            });
        }
    });
    let answer = |slot: Mutex<Option<Answer>>| slot.into_inner().expect("each slot is locked once");
    answers.into_iter().filter_map(answer).collect()
}

fn take<'a, Job, Slot>(
    next: &AtomicUsize,
    jobs: &'a [Job],
    slots: &'a [Slot],
) -> Option<(&'a Job, &'a Slot)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((jobs.get(index)?, slots.get(index)?))
}
