//! Figure 5: a high-priority stream beside best-effort streams of constant rate.

use super::cyclic_streams::{self, JOINS, Knobs, Load, MB, SECONDS};
use crate::experiment::{Check, Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ucsb-5",
    title: "8 MB/s of high priority, joined by five best-effort streams of 5 MB/s",
    claim: "A high-priority stream has its 8 MB/s in each cycle; five of best effort are roughly equal",
    note: "\"Roughly equal\" is read as within 20 % of their mean, once all five are there.",
    reason: "",
    open: cyclic_streams::open!(measure_at),
    measure: |seed| measure_at(seed, Knobs::SHOWN),
};

fn measure_at(seed: u64, knobs: Knobs) -> Sample {
    let outcome = cyclic_streams::joined(|start| Load::player(5 * MB, start), knobs, seed);
    // The last buffers are full or never will be.
    let from = JOINS[JOINS.len() - 1] + 3;
    let rates: Vec<f64> = (1..=JOINS.len())
        .map(|stream| cyclic_streams::mean_mb(&outcome, stream, from, SECONDS))
        .collect();
    let sum: f64 = rates.iter().sum();
    let mean = sum / rates.len() as f64;
    let off = rates.iter().map(|rate| (rate / mean - 1.0).abs() * 100.0).fold(0.0, f64::max);
    let checks = vec![
        cyclic_streams::rate_kept(std::slice::from_ref(&outcome)),
        Check::at_most("all five best-effort streams together, MB/s", sum, 24.99),
        Check::deviation("best effort: farthest from their mean, %", off, 20.0),
        cyclic_streams::kept(&[&outcome]),
    ];
    let panels = vec![cyclic_streams::stacked(&outcome, "Throughput in cycles of 4 s")];
    Sample { seconds: SECONDS as f64, panels, checks }
}
