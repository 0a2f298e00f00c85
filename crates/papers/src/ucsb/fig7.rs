//! Figure 7: response times beside more and more streams of low priority.

use super::cyclic_streams::{self, Knobs, Load, MB, SECONDS};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::Admission;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ucsb-7",
    title: "Mean response of one high-priority stream and of 1 to 7 of low priority, 4 MB/s each",
    claim: "The high-priority stream's response does not grow with others, and is half of theirs or less \
            from four on",
    note: "\"The cycle time for all streams was the same (4 seconds)\": all submit a cycle's worth at \
           its start, so a response includes the wait for one's own batch. The high priority is a \
           guaranteed rate with best-effort admission: the paper's priority is not admitted, and \
           compares classes, so nothing else may decide. (Once admitted, a slack register lets best \
           effort go first while every cycle is kept, which spends just what this figure shows.)",
    reason: "",
    open: cyclic_streams::open!(measure_at),
    measure: |seed| measure_at(seed, Knobs::SHOWN),
};

/// A stream of high priority beside so many of low priority.
pub(super) fn beside(low: usize) -> Vec<Load> {
    let high = Load::guaranteed(4 * MB, Admission::BestEffort);
    std::iter::once(high).chain((0..low).map(|_| Load::cycles(4 * MB))).collect()
}

fn measure_at(seed: u64, knobs: Knobs) -> Sample {
    let run = |low: usize| cyclic_streams::run(&beside(low), knobs, None, seed);
    let outcomes: Vec<Outcome> = (1..=7).map(run).collect();
    let high: Vec<f64> = outcomes.iter().map(|it| it.streams[0].response.mean_secs()).collect();
    let low: Vec<f64> = outcomes.iter().map(low_mean).collect();
    let worst = (3..7).map(|index| high[index] / low[index]).fold(0.0, f64::max);
    let mean = high.iter().sum::<f64>() / high.len() as f64;
    let off = high.iter().map(|response| (response / mean - 1.0).abs() * 100.0).fold(0.0, f64::max);
    let checks = vec![
        Check::at_most("high by low priority's response from 4 on, at most", worst, 0.5),
        Check::deviation("high priority: farthest from its mean over all, %", off, 30.0),
        cyclic_streams::kept(&outcomes.iter().collect::<Vec<_>>()),
    ];
    let points = |values: &[f64]| -> Vec<(f64, f64)> {
        (1..=7).map(f64::from).zip(values.iter().map(|seconds| seconds * 1e3)).collect()
    };
    let panel = Panel {
        title: "Mean response".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("low-priority streams"),
        y: Axis::linear("response time (ms)"),
        series: vec![
            Series::new("high priority", points(&high)),
            Series::new("low priority", points(&low)),
        ],
        level: None,
    };
    Sample { seconds: 7.0 * SECONDS as f64, panels: vec![panel], checks }
}

/// Over all requests of low priority.
fn low_mean(outcome: &Outcome) -> f64 {
    let of_low = outcome.streams[1..].iter().map(|stream| &stream.response);
    let count = |times: &disktime_sim::Times| times.count() as f64;
    let requests: f64 = of_low.clone().map(count).sum();
    of_low.map(|times| times.mean_secs() * count(times)).sum::<f64>() / requests
}
