//! Figure 6: what both versions make of the disk.

use super::reservation_splits::{self, RESERVED, Sweep, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-6",
    title: "Throughput under the utilization version and under the throughput version",
    claim: "Reserving time gives a sequential stream several times the throughput of reserving I/Os",
    note: "\"By time\" is the utilization version, \"by I/Os\" the throughput version.",
    reason: "",
    open: &[reservation_splits::outstanding(measure_keeping)],
    measure: |seed| measure_keeping(seed, 32.0),
};

fn measure_keeping(seed: u64, outstanding: f64) -> Sample {
    let utilization = Sweep::keeping(outstanding, Version::utilization(), seed);
    let throughput = Sweep::keeping(outstanding, Version::throughput(), seed);
    let sequential = |sweep: &Sweep| sweep.part(90.0..=90.0).largest(|split| split.sequential.iops);
    let ratio = sequential(&utilization) / sequential(&throughput);
    let panel = Panel {
        title: "Throughput, reserved by disk time and by I/Os".to_owned(),
        marks: Marks::Lines,
        x: RESERVED,
        y: Axis::log("throughput (IOPS)"),
        series: vec![
            utilization.series("sequential, by time", |split| split.sequential.iops),
            utilization.series("random, by time", |split| split.random.iops),
            throughput.series("sequential, by I/Os", |split| split.sequential.iops),
            throughput.series("random, by I/Os", |split| split.random.iops),
        ],
        level: None,
    };
    let checks = vec![
        Check::at_least("sequential at 90 %: utilization / throughput version", ratio, 3.0),
        reservation_splits::kept(utilization.violations() + throughput.violations()),
    ];
    Sample { seconds: utilization.seconds() + throughput.seconds(), panels: vec![panel], checks }
}
