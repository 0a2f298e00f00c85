//! §4.7: what the end of a window costs.

use super::black_boxes::{self, Column, Load, SECONDS, Set, Under};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-4.7",
    title: "Work at a window's end",
    claim: "The end of a window takes less than 10 us",
    note: "Experiments have no clock, so that reports are the same anywhere: valid intersections are shown, and \
           judge nothing. Tests of policy `qbox` count the work of a window's end: ten intersections, \
           whatever the number of streams, and a deadline for each stream. `cargo xtask bench live \
           --only window` takes the processor's time and judges it: 1.8 us with four streams on a \
           virtual machine of two cores, 4.2 with 16, 16 with 64, so that the bound holds up to about 40.",
    reason: "",
    open: &[],
    measure,
};

const LOADS: [Load; 4] = [
    Load::sequential("sequential A", 10),
    Load::sequential("sequential B", 10),
    Load::sequential("sequential C", 10),
    Load::random("random D", 70),
];

fn measure(seed: u64) -> Sample {
    let column = Column::QBox;
    let run = black_boxes::run(&Set::striped(2, &LOADS), Under::Column(column), seed);
    let met = run.outcome.costs.iter().map(|costs| f64::from(costs.observations));
    let points: Vec<(f64, f64)> = (0..SECONDS).map(|at| at as f64).zip(met).collect();
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let checks = vec![
        Check::reported("qbox: most valid intersections at a window's end, of ten", 10.0, most),
        black_boxes::kept([&run]),
    ];
    let panel = Panel {
        title: "Valid intersections of the latest window with the ten before".to_owned(),
        marks: Marks::Lines,
        x: black_boxes::TIME,
        y: Axis::linear("intersections"),
        series: vec![Series::new(column.name(), points)],
        level: None,
    };
    Sample { seconds: SECONDS as f64, panels: vec![panel], checks }
}
