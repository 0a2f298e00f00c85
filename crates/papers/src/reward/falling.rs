//! Our own: reservations on tiers, while one of those who have them hits less and less.

use super::setup::{self, Load, OURS, Scheduler};
use crate::chart::{Axis, Marks, Panel, Series};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;
use disktime_sim::core::Share;
use disktime_sim::model::tiered::HitRatio;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-falling",
    title: "Five reservations of 20 %: one tenant's hit ratio falls from 0.9 to 0.1, the others' stay 0.9",
    note: "Insulation is what a tenant gets by its reservation of what it gets alone. Each hit ratio is \
           a run of its own, as prices are stated for a run: what it takes to learn a new one is not in \
           these figures.",
    measure,
};

/// Of the tenant that falls, per cent.
const HITS: [u32; 5] = [90, 70, 50, 30, 10];
/// Of the others.
const STEADY: u32 = 90;
const TENANTS: usize = 5;
const NAMES: [&str; TENANTS] = ["falling", "steady 1", "steady 2", "steady 3", "steady 4"];
const RESERVE_PERCENT: u32 = 20;
const SECONDS: u64 = 60;
/// Until the array is filled.
const SETTLED: u64 = 5;

fn placement(hits: &[u32], seed: u64) -> HitRatio {
    let ends = (1..).map(|end| end * setup::REGION_BYTES);
    HitRatio::by_region(ends.zip(hits.iter().map(|percent| percent * 10_000)).collect(), seed)
}

fn run(scheduler: Scheduler, hits: &[u32], seed: u64) -> Outcome {
    let reserve = Share::from_percent(RESERVE_PERCENT).expect("a part of the whole");
    let load = |name| Load { reserve, ..Load::reads(name, 100) };
    let loads: Vec<Load> = NAMES[..hits.len()].iter().map(|name| load(name)).collect();
    setup::run(scheduler, setup::tiers(placement(hits, seed), seed), &loads, SECONDS, seed)
}

fn iops(outcome: &Outcome, stream: usize) -> f64 {
    setup::iops(outcome, stream, SETTLED, SECONDS)
}

fn total(outcome: &Outcome) -> f64 {
    (0..outcome.streams.len()).map(|stream| iops(outcome, stream)).sum()
}

fn measure(seed: u64) -> Sample {
    let alone = |percent| run(Scheduler::plain("fifo"), &[percent], seed);
    let fallen = HITS.map(alone);
    let hits = |percent| [percent, STEADY, STEADY, STEADY, STEADY];
    let ours = HITS.map(|percent| run(setup::ours(OURS, &hits(percent)), &hits(percent), seed));
    let reward = HITS.map(|percent| run(Scheduler::plain("reward"), &hits(percent), seed));

    let steady_alone = iops(&fallen[0], 0);
    let share = f64::from(RESERVE_PERCENT) / 100.0;
    let insulation = |stage: usize, stream: usize| {
        let alone = if stream == 0 { iops(&fallen[stage], 0) } else { steady_alone };
        iops(&ours[stage], stream) / (share * alone)
    };
    let mut checks = Vec::new();
    for (stage, percent) in HITS.iter().enumerate() {
        let ratio = f64::from(*percent) / 100.0;
        let others = (1..TENANTS).map(|stream| insulation(stage, stream));
        let worst = others.fold(f64::INFINITY, f64::min);
        checks.push(Check::at_least(
            format!("hits {ratio}: the others' insulation, the worst of four"),
            worst,
            0.95,
        ));
        checks.push(Check::at_least(
            format!("hits {ratio}: total by reward's"),
            total(&ours[stage]) / total(&reward[stage]),
            0.95,
        ));
    }
    let all: Vec<&Outcome> = fallen.iter().chain(&ours).chain(&reward).collect();
    checks.push(setup::kept(&all));
    let by_hits = |value: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        HITS.iter()
            .enumerate()
            .map(|(stage, hits)| (f64::from(*hits) / 100.0, value(stage)))
            .collect()
    };
    let panel = |title: &str, y, series| Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("hit ratio of the tenant that falls"),
        y,
        series,
        level: None,
    };
    let insulated = (0..TENANTS)
        .map(|stream| Series::new(NAMES[stream], by_hits(&|stage| insulation(stage, stream))));
    let totals = [("disktime", &ours), ("reward", &reward)]
        .map(|(name, runs)| Series::new(name, by_hits(&|stage| total(&runs[stage]))));
    Sample {
        seconds: (all.len() as u64 * SECONDS) as f64,
        panels: vec![
            panel("Insulation under disktime", Axis::linear("insulation"), insulated.collect()),
            panel("All together", Axis::linear("throughput (IOPS)"), totals.into()),
        ],
        checks,
    }
}
