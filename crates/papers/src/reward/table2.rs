//! Table 2: weights by B's hit ratio, simulated.

use super::cached_servers::{self, Load, Scheduler};
use crate::experiment::{Check, Experiment, Sample};
use disktime_model::Device;
use disktime_model::tiered::HitRatio;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-t2",
    title: "Two backlogged workloads: A always hits, B hits with 0.2, 0.5, 0.75, 1",
    claim: "The rates of two workloads at three weights and four hit ratios",
    note: "Rate by mean response goes by weight, and by Little's law that product is what a workload has \
           at the array: reward scheduling divides the array's slots. So while each tier has enough \
           of them to be busy, weights hardly count (rows with a hit ratio below 1), as published. At \
           weights 2:1 and hit ratio 0.2 the slots of B are so few that the disk idles now and then: of \
           116 IOPS it has 98, 101, 103, 105 and 106 at depths of 24, 32, 48, 64 and 100.",
    reason: "B's slots are so few at weights 2:1 that the disk idles now and then; from a depth of 48 on \
             it does not.",
    open: &[cached_servers::depth(measure_at)],
    measure: |seed| measure_at(seed, f64::from(cached_servers::DEPTH)),
};

const SECONDS: u64 = 120;
/// Until the array is filled.
const SETTLED: u64 = 2;

/// A row: what the paper says of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) weights: [u32; 2],
    /// The hit ratio of B, per cent; A always hits.
    pub(super) hits: u32,
    pub(super) published: [f64; 2],
}

impl Row {
    pub(super) fn name(&self) -> String {
        let [a, b] = self.weights;
        format!("{a}:{b}, hits {}", f64::from(self.hits) / 100.0)
    }

    pub(super) fn loads(&self) -> [Load; 2] {
        [Load::reads("A", 100 * self.weights[0]), Load::reads("B", 100 * self.weights[1])]
    }

    /// Hits per million by region.
    pub(super) fn placement(&self, seed: u64) -> HitRatio {
        let region = cached_servers::REGION_BYTES;
        let regions = vec![(region, 1_000_000), (2 * region, self.hits * 10_000)];
        HitRatio::by_region(regions, seed)
    }
}

const fn row(weights: [u32; 2], hits: u32, published: [f64; 2]) -> Row {
    Row { weights, hits, published }
}

pub(super) const ROWS: [Row; 12] = [
    row([1, 1], 20, [4923.0, 122.0]),
    row([1, 1], 50, [4841.0, 193.0]),
    row([1, 1], 75, [4612.0, 373.0]),
    row([1, 1], 100, [2474.0, 2474.0]),
    row([1, 2], 20, [4917.0, 124.0]),
    row([1, 2], 50, [4836.0, 198.0]),
    row([1, 2], 75, [4538.0, 400.0]),
    row([1, 2], 100, [1599.0, 3350.0]),
    row([2, 1], 20, [4931.0, 116.0]),
    row([2, 1], 50, [4862.0, 173.0]),
    row([2, 1], 75, [4704.0, 326.0]),
    row([2, 1], 100, [3350.0, 1599.0]),
];

/// The rates of both.
pub(super) fn rates(outcome: &Outcome, seconds: u64) -> [f64; 2] {
    [0, 1].map(|stream| cached_servers::iops(outcome, stream, SETTLED, seconds))
}

fn measure_at(seed: u64, depth: f64) -> Sample {
    let run = |row: &Row| {
        let array: Box<dyn Device> = cached_servers::tiers(row.placement(seed), seed);
        let depth = cached_servers::whole(depth);
        let scheduler = Scheduler { depth, ..Scheduler::plain("reward") };
        cached_servers::run(scheduler, array, &row.loads(), SECONDS, seed)
    };
    let outcomes = ROWS.each_ref().map(run);
    let measured = outcomes.each_ref().map(|outcome| rates(outcome, SECONDS));
    let mut checks = Vec::new();
    let mut logs = 0.0;
    for (row, measured) in ROWS.iter().zip(measured) {
        for (stream, (name, by)) in [("A", 0.05), ("B", 0.12)].into_iter().enumerate() {
            let published = row.published[stream];
            let name = format!("{}: {name}, IOPS", row.name());
            checks.push(Check::near(name, published, measured[stream], by * published));
            logs += (measured[stream] / published).ln().abs();
        }
    }
    let mean = logs / (2 * ROWS.len()) as f64;
    checks.push(Check::deviation("mean absolute log ratio to the published", mean, 0.04));
    checks.push(cached_servers::kept(&outcomes.each_ref()));
    let panel = |stream: usize, title: &str| {
        let bars = |name: &str, value: &dyn Fn(usize) -> f64| {
            Series::new(name, (0..ROWS.len()).map(|at| (at as f64 + 1.0, value(at))))
        };
        Panel {
            title: title.to_owned(),
            marks: Marks::Grouped,
            x: Axis::linear("row: weights 1:1, 1:2, 2:1; hit ratio of B .2, .5, .75, 1"),
            y: Axis::log("throughput (IOPS)"),
            series: vec![
                bars("published", &|at| ROWS[at].published[stream]),
                bars("measured", &|at| measured[at][stream]),
            ],
            level: None,
        }
    };
    Sample {
        seconds: (ROWS.len() as u64 * SECONDS) as f64,
        panels: vec![panel(0, "Workload A"), panel(1, "Workload B")],
        checks,
    }
}
