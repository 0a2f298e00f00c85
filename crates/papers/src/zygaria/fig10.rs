//! Figure 10: cumulative I/Os under the throughput version, 70 % sequential and 30 % random.

use super::reservation_splits::{self, Load, NOMINAL_IOPS, SAMPLE, SECONDS, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-10",
    title: "Cumulative I/Os of a sequential stream with 70 % and a random one with 30 % of 60 IOPS",
    claim: "Reserving I/Os keeps both rates, but not the ratio of 70:30",
    note: "\"Ratio not 70:30\" is taken as at least 10 points off.",
    reason: "",
    open: &[reservation_splits::outstanding(measure_keeping)],
    measure: |seed| measure_keeping(seed, 32.0),
};

fn measure_keeping(seed: u64, outstanding: f64) -> Sample {
    let loads = [Load::sequential(70), Load::random(30)].map(|load| load.keeping(outstanding));
    let outcome = reservation_splits::run(Version::throughput(), &loads, SECONDS, seed);
    let got = [0, 1].map(|stream| reservation_splits::got(&outcome, stream, SECONDS).iops);
    let nominal = f64::from(NOMINAL_IOPS);
    let part = got[0] / (got[0] + got[1]) * 100.0;
    let checks = vec![
        Check::at_least("sequential, IOPS", got[0], nominal * 0.7),
        Check::at_least("random, IOPS", got[1], nominal * 0.3),
        Check::at_least("sequential: part of all I/Os off 70 %, points", (part - 70.0).abs(), 10.0),
        reservation_splits::kept(outcome.violations.len()),
    ];
    let series =
        |(stream, load): (usize, &Load)| Series::new(load.name, cumulative(&outcome, stream));
    let reserved = |name: &str, share: f64| {
        let end = f64::from(u32::try_from(SECONDS).unwrap_or(u32::MAX));
        Series::new(name, [(0.0, 0.0), (end, nominal * share * end)])
    };
    let mut all: Vec<Series> = loads.iter().enumerate().map(series).collect();
    all.extend([reserved("sequential, reserved", 0.7), reserved("random, reserved", 0.3)]);
    let panel = Panel {
        title: "I/Os completed".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("cumulative I/Os"),
        series: all,
        level: None,
    };
    Sample { seconds: SECONDS as f64, panels: vec![panel], checks }
}

/// Requests up to each sample, from 0 s on.
fn cumulative(outcome: &Outcome, stream: usize) -> Vec<(f64, f64)> {
    let windows = outcome.windows.iter().filter(|window| window.stream.0 as usize == stream);
    let ends = windows.scan((0.0, 0.0), |(at, done), window| {
        *at += SAMPLE.as_secs_f64();
        *done += window.requests as f64;
        Some((*at, *done))
    });
    std::iter::once((0.0, 0.0)).chain(ends).collect()
}
