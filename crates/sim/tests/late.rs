//! Single answers that are late, and answers that never come: nobody else waits for them.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_core::{Duration, Instant};
use disktime_model::faulty::{Faults, Faulty, Outliers};
use disktime_model::preset;
use disktime_sim::StreamPlan;
use disktime_workload::Pattern;

mod rig;

const SECONDS: u64 = 60;

/// A stream of a fifth.
fn fifth(at: u64, requests: rig::Requests) -> StreamPlan {
    rig::busy(at, 1, 20, requests)
}

/// The requests of each stream on a nearline disk that answers one request in so many so much later.
fn done(streams: Vec<StreamPlan>, one_in: u64, delay: Duration) -> Vec<u64> {
    let device = (preset::find("nearline-7200").unwrap().build)(1);
    let faults = Faults { outliers: Some(Outliers { one_in, delay }), ..Faults::default() };
    let device = Box::new(Faulty::new(device, Instant::ZERO, faults));
    rig::done(&rig::run(device, 16, streams, SECONDS), 0..SECONDS)
}

/// One request in 200 comes back 300 ms late. A stream with few requests at once then has nothing else at the
/// device, which idled in its slice: the five did 1.24 times as much together as in turn, not 2.5 times.
#[test]
fn the_device_does_others_work_while_an_answer_is_late() {
    let delay = Duration::from_millis(300);
    let all = || {
        vec![
            fifth(0, (Pattern::Random, 128, 1000, 2)),
            fifth(1, (Pattern::Sequential, 4, 0, 8)),
            fifth(2, (Pattern::Random, 16, 700, 4)),
            fifth(3, (Pattern::Sequential, 4, 1000, 1)),
            fifth(4, (Pattern::Random, 64, 0, 1)),
        ]
    };
    let shared = done(all(), 200, delay);
    let kept: Vec<f64> = all()
        .into_iter()
        .zip(&shared)
        .map(|(stream, shared)| *shared as f64 * 5.0 / done(vec![stream], 200, delay)[0] as f64)
        .collect();
    assert!(kept.iter().all(|kept| *kept >= 0.95), "{kept:.2?}");
    assert!(kept.iter().sum::<f64>() / 5.0 >= 2.0, "{kept:.2?}");
}

/// One request in 2,000 never comes back, so that a client with one request at a time waits for ever. The others
/// go on.
#[test]
fn nobody_waits_for_an_answer_that_never_comes() {
    let all = vec![
        fifth(0, (Pattern::Sequential, 4, 1000, 1)),
        fifth(1, (Pattern::Random, 16, 1000, 16)),
    ];
    let done = done(all, 2_000, Duration::from_secs(3_600));
    assert!(done[0] < 2_000 && done[1] > 60 * SECONDS, "{done:?}");
}
