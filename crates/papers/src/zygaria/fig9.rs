//! Figure 9: sensitivity of the throughput version to the rate that is taken for reservable.

use super::elevator::Order;
use super::reservation_splits::{self, RESERVED, Sweep, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Line, Marks, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-9",
    title: "Throughput version with 68, 75, 102 IOPS taken for reservable",
    claim: "Where more I/Os can be reserved than the disk has at random, a random stream gets less than \
            it reserves",
    note: "The random stream can't get more than the disk's 68 random IOPS, whatever it reserves. The \
           last panel is not published: were the driver to sweep (C-SCAN) over its 20 requests, the \
           same disk would do 102 random IOPS, which contradicts the 68 of the text. So nothing but \
           sequential requests is reordered, in this figure as in 5, 6 and 10.",
    reason: "",
    open: &[reservation_splits::outstanding(measure_keeping)],
    measure: |seed| measure_keeping(seed, 32.0),
};

fn measure_keeping(seed: u64, outstanding: f64) -> Sample {
    let sweeps = [68_u32, 75, 102]
        .map(|nominal| (nominal, Sweep::keeping(outstanding, Version::nominal(nominal), seed)));
    let got = |(nominal, sweep): &(u32, Sweep)| {
        let random = sweep.part(0.0..=0.0).largest(|split| split.random.iops);
        random / f64::from(*nominal) * 100.0
    };
    let name =
        |nominal: u32| format!("{nominal} IOPS: part of them that random gets with 100 %, %");
    let mut checks = vec![
        Check::at_least(name(68), got(&sweeps[0]), 97.0),
        Check::at_most(name(75), got(&sweeps[1]), 92.0),
        Check::at_most(name(102), got(&sweeps[2]), 68.0),
    ];
    checks.push(reservation_splits::kept(sweeps.iter().map(|(_, sweep)| sweep.violations()).sum()));
    let sweeping = Sweep::keeping(
        outstanding,
        Version::Throughput { nominal_iops: 102, order: Order::Sweep },
        seed,
    );
    let panel = |(nominal, sweep): &(u32, Sweep)| Panel {
        title: format!("Reservable {nominal} IOPS"),
        marks: Marks::Stacked,
        x: RESERVED,
        y: Axis::linear("throughput (IOPS)"),
        series: sweep.both(|got| got.iops),
        level: Some(Line { name: "reservable".to_owned(), at: f64::from(*nominal) }),
    };
    let seconds = sweeps.iter().map(|(_, sweep)| sweep.seconds()).sum::<f64>() + sweeping.seconds();
    let mut panels: Vec<Panel> = sweeps.iter().map(panel).collect();
    let title = "Reservable 102 IOPS, if the driver swept (not as published)".to_owned();
    panels.push(Panel { title, ..panel(&(102, sweeping)) });
    Sample { seconds, panels, checks }
}
