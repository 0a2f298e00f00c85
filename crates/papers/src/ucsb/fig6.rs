//! Figure 6: a high-priority stream beside best-effort streams that read as fast as they can.

use super::setup::{self, CYCLE_SECONDS, JOINS, Load, SECONDS};
use crate::experiment::{Check, Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ucsb-6",
    title: "8 MB/s of high priority, joined by five best-effort streams that take all they can",
    note: "Totals are means of the last 4 s before the next stream joins, a cycle's length, so that each has \
           one batch of high priority. Each best-effort stream reads for a batch of \
           1 MiB before the elevator goes on. With six streams that gives about 31 MB/s, above the 20 \
           to 28 that the paper's disk had under its kernel's elevator, whose batch is not published; \
           no check is about it. The total falls by 8 MB/s when the second best-effort stream \
           joins. From then on every batch ends with a seek, however many streams there are: the \
           totals are within 1 MB/s and rise once by .1 to .5 MB/s, which misses the check. How much of a \
           batch of high priority is in those 4 s may be why; it is not shown.",
    measure,
};

/// "The total falls as streams join": at every join.
const RISE: &str = "largest rise of the total when a stream joins, MB/s";

fn measure(seed: u64) -> Sample {
    let outcome = setup::joined(Load::greedy, seed);
    let total = |to: u64| -> f64 {
        (0..=JOINS.len())
            .map(|stream| setup::mean_mb(&outcome, stream, to - CYCLE_SECONDS, to))
            .sum()
    };
    let ends = JOINS[1..].iter().copied().chain([SECONDS]);
    let totals: Vec<f64> = ends.map(total).collect();
    let rises = totals.windows(2).map(|pair| pair[1] - pair[0]);
    let checks = vec![
        setup::rate_kept(&outcome),
        Check::at_most(RISE, rises.fold(f64::NEG_INFINITY, f64::max), 0.0),
        setup::kept(&[&outcome]),
    ];
    let panels = vec![setup::stacked(&outcome, "Throughput in cycles of 4 s")];
    Sample { seconds: SECONDS as f64, panels, checks }
}
