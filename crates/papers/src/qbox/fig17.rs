//! Figures 17 to 20: days of a file server's life as streams, with a random stream, on RAID 0.

use super::black_boxes::{self, Column, Load, Run, Set, Storage, Under};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};

pub(super) const PLAIN: Experiment = Experiment {
    id: "qbox-17",
    title: "RAID 0: two days of a file server and a random stream under QBox",
    note: NOTE,
    open: &[],
    measure: |seed| measure_ours(false, seed),
};

pub(super) const PLAIN_FOIL: Experiment = Experiment {
    id: "qbox-18",
    title: "RAID 0: two days of a file server and a random stream under shares of throughput",
    note: NOTE,
    open: &[],
    measure: |seed| measure_foil(false, seed),
};

pub(super) const CACHED: Experiment = Experiment {
    id: "qbox-19",
    title: "RAID 0 behind a cache: two days of a file server and a random stream under QBox",
    note: NOTE,
    open: &[],
    measure: |seed| measure_ours(true, seed),
};

pub(super) const CACHED_FOIL: Experiment = Experiment {
    id: "qbox-20",
    title: "RAID 0 behind a cache: two days of a file server, a random stream, shares of throughput",
    note: NOTE,
    open: &[],
    measure: |seed| measure_foil(true, seed),
};

const NOTE: &str = "The paper's trace can't be had; its days are generated: reads of 32 and 64 KiB, \
                    semi-sequential, more and less so by turns of 10 s. Targets are lost: 40, 40 and \
                    20 %. (A recorded trace in their place needs a file, which experiments don't have.)";

const SECONDS: u64 = 60;
const FROM: u64 = 20;

const LOADS: [Load; 3] =
    [Load::day("day A", 40, 0), Load::day("day B", 40, 1), Load::random("random C", 20)];

fn run(under: Under, cached: bool, seed: u64) -> Run {
    let set = Set { storage: Storage::Raid0 { cached }, ..Set::raid0(1, &LOADS, SECONDS) };
    black_boxes::run(&set, under, seed)
}

fn panel(title: String, run: &Run) -> Panel {
    let series = |(stream, load): (usize, &Load)| Series::new(load.name, run.iops_line(stream));
    Panel {
        title,
        marks: Marks::Lines,
        x: black_boxes::TIME,
        y: Axis::log("requests per second"),
        series: LOADS.iter().enumerate().map(series).collect(),
        level: None,
    }
}

/// How many times the throughput of the days is what it is under shares of throughput.
fn measure_ours(cached: bool, seed: u64) -> Sample {
    let foil = run(Under::Throughput, cached, seed);
    let (mut checks, mut panels) = (Vec::new(), Vec::new());
    let mut runs = Vec::new();
    for column in Column::ALL {
        let ours = run(Under::Column(column), cached, seed);
        for (stream, load) in LOADS.iter().enumerate().take(2) {
            let gain = ours.iops(stream, FROM, SECONDS) / foil.iops(stream, FROM, SECONDS);
            let what = format!("{}: {}, times the throughput-based", column.name(), load.name);
            checks.push(Check::at_least(what, gain, 3.0));
        }
        panels.push(panel(format!("Throughput ({})", column.name()), &ours));
        runs.push(ours);
    }
    runs.push(foil);
    checks.push(black_boxes::kept(&runs));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}

/// The other half of the claim: shares of throughput are kept, and that is what costs it.
fn measure_foil(cached: bool, seed: u64) -> Sample {
    let foil = run(Under::Throughput, cached, seed);
    let iops = [0, 1, 2].map(|stream| foil.iops(stream, FROM, SECONDS));
    let all: f64 = iops.iter().sum();
    let mut checks: Vec<Check> = LOADS
        .iter()
        .zip(iops)
        .map(|(load, iops)| {
            let what = format!("{}, % of all requests", load.name);
            Check::near(what, f64::from(load.percent), iops / all * 100.0, 2.0)
        })
        .collect();
    let ours = run(Under::Column(Column::QBox), cached, seed);
    for (stream, load) in LOADS.iter().enumerate().take(2) {
        let part = iops[stream] / ours.iops(stream, FROM, SECONDS);
        let what = format!("{}, of its throughput under qbox", load.name);
        checks.push(Check::at_most(what, part, 1.0 / 3.0));
    }
    let runs = [foil, ours];
    checks.push(black_boxes::kept(&runs));
    let panels = vec![panel("Throughput (throughput-based)".to_owned(), &runs[0])];
    Sample { seconds: (SECONDS * 2) as f64, panels, checks }
}
