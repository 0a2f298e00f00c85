//! Figure 7: sensitivity to a random request's estimate that is too low.

use super::reservation_splits::{self, RESERVED, Sweep, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Duration;
use disktime_core::cost::CostParameters;
use disktime_report::chart::{Axis, Marks, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-7",
    title: "Utilization version with a random estimate of 20 ms, 5 ms, 300 us",
    claim: "A wrong estimate of random requests moves no share",
    note: "Even an estimate as low as the sequential one does no harm here: one request at a time is \
           charged what it took before the next is chosen.",
    reason: "",
    open: &[],
    measure,
};

const ESTIMATES: [(&str, Duration); 3] = [
    ("20 ms", Duration::from_millis(20)),
    ("5 ms", Duration::from_millis(5)),
    ("300 us", Duration::from_micros(300)),
];

fn measure(seed: u64) -> Sample {
    let sweeps = ESTIMATES.map(|(name, random)| {
        let cost = CostParameters { random, ..CostParameters::default() };
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
    checks.push(reservation_splits::kept(sweeps.iter().map(|(_, sweep)| sweep.violations()).sum()));
    let panel = |(name, sweep): &(&str, Sweep)| Panel {
        title: format!("Random estimate {name}"),
        marks: Marks::Stacked,
        x: RESERVED,
        y: Axis::linear("disk time received (%)"),
        series: sweep.both(|got| got.percent),
        level: None,
    };
    Sample {
        seconds: sweeps.iter().map(|(_, sweep)| sweep.seconds()).sum(),
        panels: sweeps.iter().map(panel).collect(),
        checks,
    }
}
