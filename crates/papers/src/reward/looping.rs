//! The feedback loop that the paper's section 5 suspects: served more, cached more, served more.

use super::setup::{self, Load, Scheduler};
use crate::chart::{Axis, Marks, Panel, Series};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;
use disktime_sim::core::cost::{CostParameters, Price};
use disktime_sim::core::{Duration, Instant, Kind};
use disktime_sim::model::Op;
use disktime_sim::model::tiered::{Cached, Placement};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-loop",
    title: "Two equal workloads share a small cache that was warm for one of them",
    note: "",
    measure,
};

const SECONDS: u64 = 120;
/// From here on shares count: the cache has been turned over ten times.
const SETTLED: u64 = 60;
/// Of each workload, in lines; all are as likely.
const WORKING_SET: u64 = 500;
/// Of the cache.
const LINES: usize = 600;
const LINE: u64 = setup::REQUEST_BYTES;

/// How requests are scheduled, and what it is called here.
fn schedulers() -> [(&'static str, Scheduler); 4] {
    let mut cost = CostParameters::default();
    let price = Price { each: Duration::from_millis(1), ..Price::default() };
    cost.prices[..2].fill(price);
    let priced = Scheduler { cost_model: "priced", cost, ..Scheduler::plain("disktime") };
    [
        ("reward", Scheduler::plain("reward")),
        ("reward-service", Scheduler::plain("reward-service")),
        ("proportional", Scheduler::plain("proportional")),
        ("disktime, one price", priced),
    ]
}

/// A cache that has had all of one workload's lines.
fn warm(stream: u64) -> Cached {
    let mut cache = Cached::new(LINES, LINE);
    for line in 0..WORKING_SET {
        let offset = stream * setup::REGION_BYTES + line * LINE;
        let op = Op { kind: Kind::Read, offset, bytes: LINE, fua: false };
        let _missed = cache.tier(Instant::ZERO, op);
    }
    cache
}

fn measure(seed: u64) -> Sample {
    let loads = ["A", "B"].map(|name| Load { bytes: WORKING_SET * LINE, ..Load::reads(name, 100) });
    let run = |scheduler, start| {
        setup::run(scheduler, setup::tiers(warm(start), seed), &loads, SECONDS, seed)
    };
    let runs = schedulers().map(|(name, scheduler)| (name, [0, 1].map(|it| run(scheduler, it))));
    let mut checks = Vec::new();
    for (name, outcomes) in &runs {
        let [for_a, for_b] = outcomes.each_ref().map(percent);
        let apart = (for_a - for_b).abs();
        let name = format!("{name}: A's share if it began warm less if B did, points");
        checks.push(Check::deviation(name, apart, 2.0));
    }
    checks.push(setup::kept(&runs.iter().flat_map(|(_, outcomes)| outcomes).collect::<Vec<_>>()));
    let panel = |(name, outcomes): &(&str, [Outcome; 2])| Panel {
        title: format!("{name}: A's share of requests"),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("share (%)"),
        series: outcomes
            .iter()
            .zip(["warm for A", "warm for B"])
            .map(|(outcome, start)| Series::new(start, course(outcome)))
            .collect(),
        level: None,
    };
    Sample {
        seconds: (2 * runs.len() as u64 * SECONDS) as f64,
        panels: runs.iter().map(panel).collect(),
        checks,
    }
}

/// A's part of all requests.
fn percent(outcome: &Outcome) -> f64 {
    share(outcome, SETTLED, SECONDS)
}

fn share(outcome: &Outcome, from: u64, to: u64) -> f64 {
    let [a, b] = [0, 1].map(|stream| setup::iops(outcome, stream, from, to));
    a / (a + b) * 100.0
}

fn course(outcome: &Outcome) -> Vec<(f64, f64)> {
    (0..SECONDS / 2).map(|at| (2.0 * at as f64 + 1.0, share(outcome, 2 * at, 2 * at + 2))).collect()
}
