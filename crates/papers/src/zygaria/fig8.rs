//! Figure 8: sensitivity to a sequential request's estimate that is too high.

use super::reservation_splits::{self, RESERVED, Sweep, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Duration;
use disktime_core::cost::CostParameters;
use disktime_report::chart::{Axis, Marks, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-8",
    title: "Utilization version with a sequential estimate of 0.3, 1, 3, 10 ms",
    claim: "A sequential estimate that is too high moves no share and costs throughput",
    note: "The paper's overestimates are lost. The check is of the sum over all splits. At a single \
           split chance (where runs begin) moves the rate by more than 0.3 or 1 ms do: the last row \
           shows at how many of the 33 steps it grows, and is no check.",
    reason: "",
    open: &[],
    measure,
};

const ESTIMATES: [(&str, Duration); 4] = [
    ("0.3 ms", Duration::from_micros(300)),
    ("1 ms", Duration::from_millis(1)),
    ("3 ms", Duration::from_millis(3)),
    ("10 ms", Duration::from_millis(10)),
];

fn measure(seed: u64) -> Sample {
    let sweeps = ESTIMATES.map(|(name, sequential)| {
        let cost = CostParameters { sequential, ..CostParameters::default() };
        (name, Sweep::new(Version::Utilization(cost), seed))
    });
    let deviation = |(name, sweep): &(&str, Sweep)| {
        Check::deviation(
            format!("{name}: share off its reservation, points"),
            sweep.worst_points(),
            5.0,
        )
    };
    let mut checks: Vec<Check> = sweeps.iter().map(deviation).collect();
    checks.push(Check::at_most(
        "sequential, all splits: largest growth of IOPS to the next estimate, %",
        growth(&sweeps),
        0.0,
    ));
    let grows = sweeps.windows(2).map(|pair| {
        let rates = |sweep: &Sweep| -> Vec<f64> {
            sweep.0.iter().map(|split| split.sequential.iops).collect()
        };
        let (before, after) = (rates(&pair[0].1), rates(&pair[1].1));
        before.iter().zip(after).filter(|(before, after)| after > *before).count()
    });
    let name = "sequential, single splits: steps to the next estimate at which IOPS grow, of 33";
    checks.push(Check::reported(name, 0.0, grows.sum::<usize>() as f64));
    checks.push(reservation_splits::kept(sweeps.iter().map(|(_, sweep)| sweep.violations()).sum()));
    let panel = |title: &str, y, value: fn(&reservation_splits::Split) -> f64| Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: RESERVED,
        y,
        series: sweeps.iter().map(|(name, sweep)| sweep.series(name, value)).collect(),
        level: None,
    };
    Sample {
        seconds: sweeps.iter().map(|(_, sweep)| sweep.seconds()).sum(),
        panels: vec![
            panel(
                "(a) Sequential stream: utilization",
                Axis::linear("disk time received (%)"),
                |split| split.sequential.percent,
            ),
            panel(
                "(b) Sequential stream: throughput",
                Axis::linear("throughput (IOPS)"),
                |split| split.sequential.iops,
            ),
        ],
        checks,
    }
}

/// The largest growth from one estimate to the next of the sequential rate, over all splits together.
fn growth(sweeps: &[(&str, Sweep)]) -> f64 {
    let total = |sweep: &Sweep| sweep.0.iter().map(|split| split.sequential.iops).sum::<f64>();
    let totals: Vec<f64> = sweeps.iter().map(|(_, sweep)| total(sweep)).collect();
    let growth = totals.windows(2).map(|pair| (pair[1] / pair[0] - 1.0) * 100.0);
    growth.fold(f64::NEG_INFINITY, f64::max)
}
