//! Figure 4: performance controlled by utilization, at every split of the disk.

use super::reservation_splits::{self, RANDOM_IOPS, RESERVED, Sweep, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-4",
    title: "Utilization version: each stream gets the disk time it reserves",
    claim: "Each stream gets the disk time that it reserves, and random throughput follows it",
    note: "The shares are the claim. The sequential rate follows its share only above a half: with less, \
           each of its requests comes between two random ones and pays for the seek back.",
    reason: "",
    open: &[reservation_splits::outstanding(measure_keeping)],
    measure: |seed| measure_keeping(seed, 32.0),
};

fn measure_keeping(seed: u64, outstanding: f64) -> Sample {
    let sweep = Sweep::keeping(outstanding, Version::utilization(), seed);
    let off = sweep.part(0.0..=90.0).largest(|split| {
        let alone = RANDOM_IOPS * (1.0 - split.reserved / 100.0);
        (split.random.iops / alone - 1.0).abs() * 100.0
    });
    let sequential: Vec<f64> = sweep.0.iter().map(|split| split.sequential.iops).collect();
    let checks = vec![
        Check::deviation(
            "sequential: share off its reservation, points",
            sweep.worst_points_sequential(),
            2.0,
        ),
        Check::deviation(
            "random: share off its reservation, points",
            sweep.worst_points_random(),
            2.0,
        ),
        Check::deviation("random: IOPS off 68 × its reservation, %", off, 10.0),
        Check::at_least(
            "sequential: least growth of IOPS per step, %",
            reservation_splits::least_growth(&sequential),
            0.0,
        ),
        reservation_splits::kept(sweep.violations()),
    ];
    let utilization = Panel {
        title: "(a) Utilization".to_owned(),
        marks: Marks::Stacked,
        x: RESERVED,
        y: Axis::linear("disk time received (%)"),
        series: sweep.both(|got| got.percent),
        level: None,
    };
    let throughput = Panel {
        title: "(b) Throughput".to_owned(),
        marks: Marks::Grouped,
        x: RESERVED,
        y: Axis::log("throughput (IOPS)"),
        series: sweep.both(|got| got.iops),
        level: None,
    };
    Sample { seconds: sweep.seconds(), panels: vec![utilization, throughput], checks }
}
