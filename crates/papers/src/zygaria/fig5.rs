//! Figure 5: performance "controlled" by throughput, at every split of the nominal rate.

use super::reservation_splits::{self, NOMINAL_IOPS, RESERVED, Split, Sweep, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Line, Marks, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-5",
    title: "Throughput version: reservations hold, but don't control",
    claim: "Reserving I/Os, each stream gets what it reserves, but reservations hardly change the rates",
    note: "Requests are the currency: slack goes to whoever had fewer requests lately, so both \
           streams end up with about as many. At the driver nothing but sequential requests is \
           reordered, which the paper's 68 random IOPS with 20 outstanding imply.",
    reason: "",
    open: &[reservation_splits::outstanding(measure_keeping)],
    measure: |seed| measure_keeping(seed, 32.0),
};

fn measure_keeping(seed: u64, outstanding: f64) -> Sample {
    let sweep = Sweep::keeping(outstanding, Version::throughput(), seed);
    let nominal = f64::from(NOMINAL_IOPS);
    let of_reserved = |split: &Split| {
        let reserved = nominal * split.reserved / 100.0;
        let sequential = split.sequential.iops / reserved;
        sequential.min(split.random.iops / (nominal - reserved)) * 100.0
    };
    let met = -sweep.largest(|split| -of_reserved(split));
    let exceeds = -sweep.part(10.0..=100.0).largest(|split| -split.sequential.iops);
    let flat = sweep.part(30.0..=90.0);
    let spread = |iops: fn(&Split) -> f64| flat.largest(iops) / -flat.largest(|split| -iops(split));
    let full = sweep.part(100.0..=100.0).largest(|split| {
        split.sequential.iops / (split.sequential.iops + split.random.iops) * 100.0
    });
    let checks = vec![
        Check::at_least("least of what a stream reserved that it got, %", met, 100.0),
        Check::at_least("sequential: least from 10 % on, IOPS", exceeds, nominal),
        Check {
            low: 1.0,
            ..Check::at_most(
                "sequential: max/min from 30 to 90 %",
                spread(|split| split.sequential.iops),
                1.15,
            )
        },
        Check {
            low: 1.0,
            ..Check::at_most(
                "random: max/min from 30 to 90 %",
                spread(|split| split.random.iops),
                1.15,
            )
        },
        Check::at_most("sequential: part of all I/Os with 100 % reserved, %", full, 90.0),
        reservation_splits::kept(sweep.violations()),
    ];
    let panel = Panel {
        title: "Throughput".to_owned(),
        marks: Marks::Stacked,
        x: RESERVED,
        y: Axis::linear("throughput (IOPS)"),
        series: sweep.both(|got| got.iops),
        level: Some(Line { name: "reservable".to_owned(), at: nominal }),
    };
    Sample { seconds: sweep.seconds(), panels: vec![panel], checks }
}
