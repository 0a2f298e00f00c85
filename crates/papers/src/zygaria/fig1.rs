//! Figure 1: cumulative disk time of a sequential stream with 70 % and a random one with 30 %.

use super::reservation_splits::{self, Load, SAMPLE, SECONDS, Version};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "zygaria-1",
    title: "Progress of a sequential stream with 70 % and a random one with 30 % of the disk",
    claim: "Streams that reserve 70 and 30 % of the disk's time progress at 70:30 throughout",
    note: "Deviations are the worst of a run: of every half-second sample from 2 s on, and of every \
           window of 2 s. Live on a mount the sequential stream has a tenth less than simulated: each of \
           its requests of .33 ms takes .04 ms more, as the mount's thread wakes after the disk's time.",
    reason: "",
    open: &[reservation_splits::outstanding(measure_keeping)],
    measure: |seed| measure_keeping(seed, 32.0),
};

pub(super) const RESERVED: [u32; 2] = [70, 30];

fn measure_keeping(seed: u64, outstanding: f64) -> Sample {
    let loads = [Load::sequential(RESERVED[0]), Load::random(RESERVED[1])];
    let loads = loads.map(|load| load.keeping(outstanding));
    let outcome = reservation_splits::run(Version::utilization(), &loads, SECONDS, seed);
    let progress: Vec<Series> = loads
        .iter()
        .enumerate()
        .map(|(stream, load)| Series::new(load.name, cumulative(&outcome, stream)))
        .collect();
    let mut checks = Vec::new();
    for (series, reserved) in progress.iter().zip(RESERVED.map(f64::from)) {
        let from_two = series.points.iter().filter(|(at, _)| *at >= 2.0);
        let worst = worst(from_two.map(|(at, used)| used / at * 100.0 - reserved));
        let name = format!("{}: cumulative share off {reserved:.0} %, points", series.name);
        checks.push(Check::deviation(name, worst, 3.0));
    }
    let windows = progress.iter().zip(RESERVED.map(f64::from)).flat_map(|(series, reserved)| {
        let ends = series.points.windows(5);
        ends.map(move |ends| (ends[4].1 - ends[0].1) / 2.0 * 100.0 - reserved)
    });
    checks.push(Check::deviation(
        "share in a 2 s window off its reservation, points",
        worst(windows),
        5.0,
    ));
    checks.push(reservation_splits::kept(outcome.violations.len()));
    let panel = Panel {
        title: "Disk time received".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("cumulative disk time (s)"),
        series: progress,
        level: None,
    };
    Sample { seconds: SECONDS as f64, panels: vec![panel], checks }
}

fn worst(deviations: impl Iterator<Item = f64>) -> f64 {
    deviations.map(f64::abs).fold(0.0, f64::max)
}

/// Disk time up to each sample, from 0 s on.
fn cumulative(outcome: &Outcome, stream: usize) -> Vec<(f64, f64)> {
    let windows = outcome.windows.iter().filter(|window| window.stream.0 as usize == stream);
    let ends = windows.scan((0.0, 0.0), |(at, used), window| {
        *at += SAMPLE.as_secs_f64();
        *used += window.charged.as_secs_f64();
        Some((*at, *used))
    });
    std::iter::once((0.0, 0.0)).chain(ends).collect()
}
