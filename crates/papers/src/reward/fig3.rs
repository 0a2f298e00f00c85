//! Figure 3: workload 1 stops writing, on the SSD alone, at two depths of the array.

use super::cached_servers::{self, Load, Scheduler, WRITE};
use crate::experiment::{Check, Experiment, Sample};
use crate::open::Open;
use disktime_core::Duration;
use disktime_model::exponential::Service;
use disktime_report::chart::{Axis, Marks, Panel};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-3",
    title: "SSD only: workload 1 reads half of the time, from 5 s on always; depths 1 and 8",
    claim: "Workload 1 keeps its gain at depth 1; at depth 8 both gain",
    note: "At depth 8 a response is mostly the wait behind the seven others, which is nobody's own, so \
           what workload 1 gains goes to both. reward-service estimates the service: from when the \
           piece went out, or the last came back that went out before it. The mean of a write is lost.",
    reason: "",
    open: &[Open {
        name: "mean service of a write, ms",
        values: &[0.25, 0.3, 0.4, 0.6, 0.8],
        shown: 0.4,
        stated: false,
        why: "lost; slower than the read's 0.2 ms, up to four times, as flash of its time",
        measure: measure_with,
    }],
    measure: |seed| measure_with(seed, WRITE.as_secs_f64() * 1e3),
};

const SECONDS: u64 = 25;
const CHANGE: u64 = 5;

fn measure_with(seed: u64, write_ms: f64) -> Sample {
    let write = Duration::from_micros(u64::from(cached_servers::whole(write_ms * 1e3)));
    let changing = Load { reads: vec![(0, 500), (CHANGE, 1000)], ..Load::reads("workload 1", 100) };
    let steady = Load { reads: vec![(0, 500)], ..Load::reads("workload 2", 100) };
    let loads = [changing, steady];
    let run = |(policy, depth)| {
        let ssd = cached_servers::server(cached_servers::SSD, write, Service::Exponential, seed);
        let scheduler = Scheduler { depth, ..Scheduler::plain(policy) };
        cached_servers::run(scheduler, ssd, &loads, SECONDS, seed)
    };
    let outcomes = [("reward", 1), ("reward", 8), ("reward-service", 8)].map(run);
    let gain = |outcome: &Outcome, stream: usize| {
        let (before, after) = (
            cached_servers::iops(outcome, stream, 1, CHANGE),
            cached_servers::iops(outcome, stream, CHANGE + 1, SECONDS),
        );
        (after / before - 1.0) * 100.0
    };
    let [one, eight, ours] = outcomes.each_ref().map(|outcome| [0, 1].map(|it| gain(outcome, it)));
    let checks = vec![
        Check::at_least(
            "workload 2's gain at depth 8 less that at 1, points",
            eight[1] - one[1],
            5.0,
        ),
        Check::at_least(
            "workload 1's gain at depth 1 less that at 8, points",
            one[0] - eight[0],
            5.0,
        ),
        Check::near("reward-service: workload 2's gain at depth 8, %", 0.0, ours[1], 5.0),
        cached_servers::kept(&outcomes.each_ref()),
    ];
    let panel = |title: &str, outcome: &Outcome| Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("throughput (IOPS)"),
        series: [0, 1].map(|stream| cached_servers::course(outcome, stream, SECONDS, 1)).into(),
        level: None,
    };
    Sample {
        seconds: (outcomes.len() as u64 * SECONDS) as f64,
        panels: vec![
            panel("(a) reward, depth 1", &outcomes[0]),
            panel("(b) reward, depth 8", &outcomes[1]),
            panel("reward-service, depth 8", &outcomes[2]),
        ],
        checks,
    }
}
