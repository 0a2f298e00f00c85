//! Figures 2 and 4: a random stream joins two sequential ones.

use super::black_boxes::{self, Column, Load, Run, SECONDS, Set, Under};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};

pub(super) const THROUGHPUT: Experiment = Experiment {
    id: "qbox-2",
    title: "A random stream joins: QBox, and shares of throughput",
    claim: "A random stream that joins costs sequential ones its share under QBox, and 80 % by shares of \
            throughput",
    note: "Rates are lost: 40 % for each sequential stream, 20 % for the random one, which joins \
           half-way. \"Loses only its share\" is read as: what the sequential streams had alone, less \
           20 %, within 15 % of it for the published estimator and 5 % for the learned one.",
    reason: "",
    open: &[],
    measure: |seed| measure(Under::Throughput, "throughput-based", seed),
};

pub(super) const FIFO: Experiment = Experiment {
    id: "qbox-4",
    title: "A random stream joins: QBox, and requests in the order they came",
    claim: "A random stream that joins costs sequential ones its share under QBox, and 80 % in order of \
            arrival",
    note: "As qbox-2, with order of arrival in place of shares of throughput.",
    reason: "",
    open: &[],
    measure: |seed| measure(Under::Fifo, "order of arrival", seed),
};

/// When the random stream joins, in seconds, and when figures count again.
const JOINS: u64 = 30;
const AGAIN: u64 = 40;
const ALONE: u64 = 10;

const LOADS: [Load; 3] = [
    Load::sequential("sequential A", 40),
    Load::sequential("sequential B", 40),
    Load { start: JOINS, ..Load::random("random C", 20) },
];

/// The loss of the sequential streams, in per cent.
fn lost(run: &Run) -> f64 {
    let both = |from, to| run.iops(0, from, to) + run.iops(1, from, to);
    (1.0 - both(AGAIN, SECONDS) / both(ALONE, JOINS)) * 100.0
}

fn measure(foil: Under, name: &str, seed: u64) -> Sample {
    let set = Set::striped(2, &LOADS);
    let against = black_boxes::run(&set, foil, seed);
    let what = format!("{name}: the sequential streams lose, %");
    let mut checks = vec![Check::at_least(what, lost(&against), 80.0)];
    let mut panels = Vec::new();
    let mut runs = Vec::new();
    for column in Column::ALL {
        let run = black_boxes::run(&set, Under::Column(column), seed);
        let within = match column {
            Column::QBox => 15.0,
            Column::Learned => 5.0,
        };
        let what = format!("{}: the sequential streams lose, %", column.name());
        checks.push(Check::near(what, 20.0, lost(&run), within));
        panels.push(panel(column.name(), &run));
        runs.push(run);
    }
    panels.push(panel(name, &against));
    runs.push(against);
    checks.push(black_boxes::kept(&runs));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}

fn panel(name: &str, run: &Run) -> Panel {
    let series = |(stream, load): (usize, &Load)| Series::new(load.name, run.iops_line(stream));
    Panel {
        title: format!("Throughput: {name}"),
        marks: Marks::Lines,
        x: black_boxes::TIME,
        y: Axis::log("requests per second"),
        series: LOADS.iter().enumerate().map(series).collect(),
        level: None,
    }
}
