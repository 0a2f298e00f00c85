//! Table 1 and figure 2 against a daemon on emulated tiers, beside simulations of the same.

use super::table1;
use super::table2::ROWS;
use crate::experiment::{Check, Sample};
use crate::{live_figures::Cell, live_figures::Live};
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Tier};
use disktime_model::tiered::Tiered;
use disktime_model::{Op, preset};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

pub(crate) const LIVE: &[Live] = &[
    Live {
        id: "reward-t1",
        // Not the disk of the simulated figure: so few bytes would fit into its cache.
        tiers: ["exp-ssd", "exp"],
        depth: super::cached_servers::DEPTH,
        cells: table1_cells,
        judge: table1_judged,
    },
    Live {
        id: "reward-2",
        tiers: ["exp-ssd", "exp"],
        depth: super::cached_servers::DEPTH,
        cells: fig2_cells,
        judge: fig2_judged,
    },
];

/// Simulated seconds of a cell, and until it has settled.
const SECONDS: u64 = 60;
const SETTLED: u64 = 5;
const MIB: u64 = 1 << 20;
/// How far live rates may be from simulated ones: a live cell of 20 s has a thousand requests of the
/// slowest load, 3 % give or take.
const MEAN_LOG_RATIO: f64 = 0.05;
const WORST_LOG_RATIO: f64 = 0.15;

/// Bytes about the end of what is fast, of which so many per cent are.
fn hitting(percent: u64) -> Extent {
    let most = Live::FAST_BYTES / MIB;
    let fast = (1..=most).rev().find(|fast| (fast * (100 - percent)).is_multiple_of(percent));
    let fast = fast.expect("ratios of small numbers");
    let slow = fast * (100 - percent) / percent;
    Extent { start: (most - fast) * MIB, end: (most + slow) * MIB }
}

/// The rates of a cell in the simulator.
fn simulated(live: &Live, cell: &Cell, seed: u64) -> [f64; 2] {
    let [fast, slow] = live.tiers.map(|name| preset::find(name).expect("a preset's name"));
    let placement = |_: Instant, op: Op| {
        let fast = op.offset % Live::DISK_BYTES < Live::FAST_BYTES;
        if fast { Tier::Fast } else { Tier::Slow }
    };
    let device = Tiered::new((fast.build)(seed), (slow.build)(seed), Box::new(placement));
    let streams = ["A", "B"].iter().zip(0..).map(|(name, at)| {
        let index = usize::try_from(at).expect("two");
        let spec = Spec::reads(Pattern::Random, cell.extents[index], Live::REQUEST_BYTES);
        let pace = Pace::Closed { outstanding: live.outstanding(), think: Duration::ZERO };
        let phases = Phases::new(vec![Phase::always(spec, pace)], seed, name, Instant::ZERO);
        StreamPlan {
            name: (*name).to_owned(),
            contract: Contract { weight: cell.weights[index], ..Contract::default() },
            base: at * Live::DISK_BYTES,
            parent: None,
            extent: None,
            traffic: phases.expect("the paper's loads make sense").into(),
        }
    });
    let plan = Plan {
        device: Box::new(device),
        profile: None,
        scheduling: Scheduling::new(cell.policy, "fixed"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: live.depth,
        streams: streams.collect(),
        changes: Vec::new(),
        duration: Duration::from_secs(SECONDS),
        window: super::cached_servers::WINDOW,
        decisions: None,
    };
    let outcome = simulate(plan).expect("the paper's plans can be run");
    [0, 1].map(|stream| super::cached_servers::iops(&outcome, stream, SETTLED, SECONDS))
}

fn all_simulated(live: &Live) -> Vec<[f64; 2]> {
    (live.cells)().iter().map(|cell| simulated(live, cell, 1)).collect()
}

/// How near live rates are to simulated ones.
fn near(live: &[[f64; 2]], simulated: &[[f64; 2]]) -> [Check; 2] {
    let pairs = live.iter().flatten().zip(simulated.iter().flatten());
    let logs: Vec<f64> = pairs.map(|(live, simulated)| (live / simulated).ln().abs()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let worst = logs.iter().copied().fold(0.0, f64::max);
    [
        Check::deviation("live: mean absolute log ratio to the simulated", mean, MEAN_LOG_RATIO),
        Check::deviation("live: the largest one", worst, WORST_LOG_RATIO),
    ]
}

fn bars(name: &str, values: impl IntoIterator<Item = f64>) -> Series {
    Series::new(name, (1..).zip(values).map(|(at, value)| (f64::from(at), value)))
}

fn table1_cells() -> Vec<Cell> {
    let cell = |row: &super::table2::Row| Cell {
        name: row.name(),
        policy: "reward",
        weights: row.weights.map(|weight| 100 * weight),
        extents: [hitting(100), hitting(row.hits.into())],
    };
    ROWS.iter().map(cell).collect()
}

fn table1_judged(live: &[[f64; 2]], seconds: f64) -> Sample {
    let simulated = all_simulated(&LIVE[0]);
    let ratios = |rates: &[[f64; 2]]| rates.iter().map(|[a, b]| a / b).collect::<Vec<f64>>();
    let published = table1::PUBLISHED;
    let [by_live, by_simulated] = [ratios(live), ratios(&simulated)];
    // Rows that are alike may change places in so short a run: half as much again is not alike.
    let pairs = (0..ROWS.len()).flat_map(|one| (0..ROWS.len()).map(move |other| (one, other)));
    let apart = pairs.filter(|&(one, other)| published[one] > 1.5 * published[other]);
    let turned = apart.filter(|&(one, other)| by_live[one] < by_live[other]).count();
    let mut checks = vec![Check::deviation(
        "live: pairs of rows, half as much again apart, that are the other way round",
        turned as f64,
        0.0,
    )];
    checks.extend(near(live, &simulated));
    let panel = Panel {
        title: "Live beside simulated: IOPS of A by IOPS of B".to_owned(),
        marks: Marks::Grouped,
        x: Axis::linear("row: weights 1:1, 1:2, 2:1; hit ratio of B .2, .5, .75, 1"),
        y: Axis::log("ratio"),
        series: vec![
            bars("published", published),
            bars("simulated", by_simulated),
            bars("live", by_live),
        ],
        level: None,
    };
    Sample { seconds: seconds * live.len() as f64, panels: vec![panel], checks }
}

/// Under each policy: before the change, with it, after it.
const SPANS: [u64; 3] = [60, 90, 60];

fn fig2_cells() -> Vec<Cell> {
    let spans = |policy| {
        SPANS.map(|percent| Cell {
            name: format!("{policy}, workload 1 hits with {percent} %"),
            policy,
            weights: [50, 50],
            extents: [hitting(percent), hitting(40)],
        })
    };
    ["reward", "proportional"].into_iter().flat_map(spans).collect()
}

fn fig2_judged(live: &[[f64; 2]], seconds: f64) -> Sample {
    let simulated = all_simulated(&LIVE[1]);
    let (reward, proportional) = live.split_at(SPANS.len());
    let by = |rates: &[[f64; 2]], stream: usize| {
        rates[1][stream] / f64::midpoint(rates[0][stream], rates[2][stream])
    };
    let total = |rates: &[[f64; 2]]| rates[1].iter().sum::<f64>();
    let mut checks = vec![
        // Three times what so few requests vary by.
        Check::near(
            "live, reward: workload 2, with the change by without",
            1.0,
            by(reward, 1),
            0.1,
        ),
        Check::between(
            "live, reward: workload 1, with the change by without",
            4.0,
            by(reward, 0),
            3.3..=4.2,
        ),
        Check::at_least("live, proportional: workload 1 rises, times", by(proportional, 0), 1.05),
        Check::at_least("live, proportional: workload 2 rises, times", by(proportional, 1), 1.05),
        Check::at_most(
            "live: proportional's total by reward's, with the change",
            total(proportional) / total(reward),
            1.0,
        ),
    ];
    checks.extend(near(live, &simulated));
    let panel = |stream: usize, title: &str| Panel {
        title: format!("Live beside simulated: {title}"),
        marks: Marks::Grouped,
        x: Axis::linear("workload 1 hits with .6, .9, .6: reward, then proportional"),
        y: Axis::linear("throughput (IOPS)"),
        series: vec![
            bars("simulated", simulated.iter().map(|rates| rates[stream])),
            bars("live", live.iter().map(|rates| rates[stream])),
        ],
        level: None,
    };
    Sample {
        seconds: seconds * live.len() as f64,
        panels: vec![panel(0, "workload 1"), panel(1, "workload 2")],
        checks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_hit_as_often_as_they_shall() {
        for percent in [20, 40, 50, 60, 75, 90, 100] {
            let Extent { start, end } = hitting(percent);
            let fast = Live::FAST_BYTES - start;
            assert_eq!(fast * 100, (end - start) * percent, "{percent}");
            assert!(end <= Live::DISK_BYTES && fast >= 30 * MIB);
        }
    }

    /// Judged by its own simulation a figure passes; judged by another's it does not.
    #[test]
    fn checks_can_fail() {
        for live in LIVE {
            let rates = all_simulated(live);
            let checks = (live.judge)(&rates, 1.0).checks;
            assert!(checks.iter().all(Check::pass), "{}: {checks:#?}", live.id);
            let turned: Vec<_> = rates.iter().rev().copied().collect();
            let checks = (live.judge)(&turned, 1.0).checks;
            assert!(checks.iter().filter(|check| !check.pass()).count() >= 2, "{}", live.id);
        }
    }
}
