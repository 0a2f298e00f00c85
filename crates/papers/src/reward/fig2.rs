//! Figure 2: workload 1's hit ratio rises and falls again.

use super::cached_servers::{self, Load, Scheduler};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Instant;
use disktime_model::Op;
use disktime_model::tiered::{HitRatio, Placement};
use disktime_report::chart::{Axis, Marks, Panel};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-2",
    title: "Workload 1 hits with 0.6, from 200 to 400 s with 0.9; workload 2 with 0.4",
    claim: "More hits give workload 1 four times its rate and take nothing from workload 2; proportional \
            shares give both the same",
    note: "The foil is start-time fair queueing by count: CFQ is not modelled. Each workload has half of \
           the array's slots, so half of the disk's accesses: 1 / (1 - 0.6) becomes 1 / (1 - 0.9), \
           4 times as much.",
    reason: "",
    open: &[cached_servers::depth(measure_at)],
    measure: |seed| measure_at(seed, f64::from(cached_servers::DEPTH)),
};

const SECONDS: u64 = 600;
/// While workload 1 hits more.
const MORE: [u64; 2] = [200, 400];
/// Until a change has gone through the array.
const SETTLES: u64 = 5;

fn measure_at(seed: u64, depth: f64) -> Sample {
    let policies = ["reward", "proportional"];
    let loads = ["workload 1", "workload 2"].map(|name| Load::reads(name, 50));
    let outcomes = policies.map(|policy| {
        let array = cached_servers::tiers(placement(seed), seed);
        let depth = cached_servers::whole(depth);
        let scheduler = Scheduler { depth, ..Scheduler::plain(policy) };
        cached_servers::run(scheduler, array, &loads, SECONDS, seed)
    });
    let [reward, proportional] = outcomes.each_ref().map(Spans::new);
    let by = |spans: &Spans, stream: usize| spans.more[stream] / spans.few[stream];
    let total = |spans: &Spans| spans.more.iter().sum::<f64>();
    let checks = vec![
        Check::near("reward: workload 2, with the change by without", 1.0, by(&reward, 1), 0.05),
        Check::between(
            "reward: workload 1, with the change by without",
            4.0,
            by(&reward, 0),
            3.3..=4.2,
        ),
        Check::at_least("proportional: workload 1 rises, times", by(&proportional, 0), 1.05),
        Check::at_least("proportional: workload 2 rises, times", by(&proportional, 1), 1.05),
        Check::at_most(
            "200-400 s: proportional's total by reward's",
            total(&proportional) / total(&reward),
            1.0,
        ),
        cached_servers::kept(&outcomes.each_ref()),
    ];
    let panel = |title: &str, outcome: &Outcome| Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("throughput (IOPS)"),
        series: [0, 1].map(|stream| cached_servers::course(outcome, stream, SECONDS, 10)).into(),
        level: None,
    };
    Sample {
        seconds: 2.0 * SECONDS as f64,
        panels: vec![
            panel("(a) Reward", &outcomes[0]),
            panel("(c) Proportional, in place of CFQ", &outcomes[1]),
        ],
        checks,
    }
}

/// Rates of both workloads while workload 1 hits with 0.9, and before and after.
struct Spans {
    few: [f64; 2],
    more: [f64; 2],
}

impl Spans {
    fn new(outcome: &Outcome) -> Self {
        let mean =
            |stream, from: u64, to| cached_servers::iops(outcome, stream, from + SETTLES, to);
        let [from, to] = MORE;
        Self {
            few: [0, 1].map(|it| f64::midpoint(mean(it, 0, from), mean(it, to, SECONDS))),
            more: [0, 1].map(|it| mean(it, from, to)),
        }
    }
}

fn placement(seed: u64) -> impl Placement {
    let hits = |ppm| {
        let region = cached_servers::REGION_BYTES;
        HitRatio::by_region(vec![(region, ppm), (2 * region, 400_000)], seed)
    };
    let (mut few, mut more) = (hits(600_000), hits(900_000));
    let [from, to] = MORE.map(|second| Instant::from_nanos(second * 1_000_000_000));
    move |now: Instant, op: Op| {
        let ratio = if (from..to).contains(&now) { &mut more } else { &mut few };
        ratio.tier(now, op)
    }
}
