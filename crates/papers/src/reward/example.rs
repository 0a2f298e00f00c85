//! The paper's example (§2): one of two workloads gets two thirds of its requests from the SSD.

use super::cached_servers::{self, Load, Scheduler};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Duration;
use disktime_model::exponential::Service;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-example",
    title: "Equal weights, A hits with 2/3, B never: proportional and reward",
    claim: "Two workloads have 75 IOPS each by proportional shares, 150 and 50 by reward",
    note: "The example counts one server: \"6 IOs every 40 ms\" are 4 accesses to the disk. So 10 ms and \
           50 us are served by one, one at a time; it is told a hit as a read, a miss as a write. The \
           paper rounds: with 50 us a hit, reward gives 148 and 50.",
    reason: "",
    open: &[],
    measure,
};

const SECONDS: u64 = 400;
const HIT: Duration = Duration::from_micros(50);
const PUBLISHED: [(&str, [f64; 2]); 2] =
    [("proportional", [75.0, 75.0]), ("reward", [150.0, 50.0])];

fn measure(seed: u64) -> Sample {
    let loads = [("A", 667), ("B", 0)]
        .map(|(name, hits)| Load { reads: vec![(0, hits)], ..Load::reads(name, 100) });
    let run = |policy| {
        let server = cached_servers::server(HIT, cached_servers::HD, Service::Constant, seed);
        let scheduler = Scheduler { depth: 1, ..Scheduler::plain(policy) };
        cached_servers::run(scheduler, server, &loads, SECONDS, seed)
    };
    let outcomes = PUBLISHED.map(|(policy, _)| run(policy));
    let iops = |outcome: &Outcome, stream| cached_servers::iops(outcome, stream, 0, SECONDS);
    let mut checks = Vec::new();
    for ((policy, published), outcome) in PUBLISHED.iter().zip(&outcomes) {
        for (stream, name) in ["A", "B"].iter().enumerate() {
            let (published, measured) = (published[stream], iops(outcome, stream));
            let name = format!("{policy}: {name}, IOPS");
            checks.push(Check::near(name, published, measured, 0.03 * published));
        }
    }
    checks.push(cached_servers::kept(&outcomes.each_ref()));
    let bars = |stream: usize, name: &str| {
        let points = outcomes.iter().enumerate();
        Series::new(name, points.map(|(bar, outcome)| (bar as f64, iops(outcome, stream))))
    };
    let panel = Panel {
        title: "0: proportional, 1: reward".to_owned(),
        marks: Marks::Grouped,
        x: Axis::linear("policy"),
        y: Axis::linear("throughput (IOPS)"),
        series: vec![bars(0, "A hits with 2/3"), bars(1, "B never hits")],
        level: None,
    };
    Sample { seconds: 2.0 * SECONDS as f64, panels: vec![panel], checks }
}
