//! Figure 2: what a stream achieves alone by the length of its runs, and what can be reserved.

use super::reservation_splits::{self, Load, NOMINAL_IOPS, SECONDS, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-2",
    title: "Reservable and maximum I/O rate by the length of sequential runs",
    claim: "Runs raise the maximum rate by orders of magnitude; of that, reserving I/Os can use 1 % or \
            little more",
    note: "Reservable is the nominal rate, whatever the run length. The text says \"less than 1 %\" \
           of achievable performance, its figure ends at a few thousand IOPS; the check is 1.5 %.",
    reason: "",
    open: &[],
    measure,
};

const LENGTHS: [u32; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1024];

fn measure(seed: u64) -> Sample {
    let mut violations = 0;
    let maximum = LENGTHS.map(|length| {
        let outcome = reservation_splits::run(
            Version::utilization(),
            &[Load::runs(100, length)],
            SECONDS,
            seed,
        );
        violations += outcome.violations.len();
        reservation_splits::got(&outcome, 0, SECONDS).iops
    });
    let reservable = f64::from(NOMINAL_IOPS);
    let part = reservable / maximum[LENGTHS.len() - 1] * 100.0;
    let mut alone = Check::near("maximum in runs of 1, IOPS", 68.0, maximum[0], 0.0);
    (alone.low, alone.high) = (60.0, 75.0);
    let x = || LENGTHS.map(f64::from).into_iter();
    let panel = Panel {
        title: "I/O rate".to_owned(),
        marks: Marks::Lines,
        x: Axis::log("sequential run length (4 KB blocks)"),
        y: Axis::log("throughput (IOPS)"),
        series: vec![
            Series::new("maximum", x().zip(maximum)),
            Series::new("reservable", x().map(|length| (length, reservable))),
        ],
        level: None,
    };
    Sample {
        seconds: SECONDS as f64 * LENGTHS.len() as f64,
        panels: vec![panel],
        checks: vec![
            alone,
            Check::at_most("reservable of the maximum in runs of 1024, %", part, 1.5),
            Check::at_least(
                "least growth of the maximum to the next length, %",
                reservation_splits::least_growth(&maximum),
                0.0,
            ),
            reservation_splits::kept(violations),
        ],
    }
}
