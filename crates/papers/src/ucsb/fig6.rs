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
           no check is about it. With two to five best-effort streams the totals are within 1 \
           MB/s, and differ by how much of a batch of high priority, which needs no seeks, is in \
           those 4 s.",
    measure,
};

fn measure(seed: u64) -> Sample {
    let outcome = setup::joined(Load::greedy, seed);
    let total = |to: u64| -> f64 {
        (0..=JOINS.len())
            .map(|stream| setup::mean_mb(&outcome, stream, to - CYCLE_SECONDS, to))
            .sum()
    };
    let ends = JOINS[1..].iter().copied().chain([SECONDS]);
    let totals: Vec<f64> = ends.map(total).collect();
    let most = totals[1..].iter().copied().fold(0.0, f64::max);
    let middle = (totals.len() - 1) as f64 / 2.0;
    let (mut above, mut below) = (0.0, 0.0);
    for (place, total) in totals.iter().enumerate() {
        let from_middle = place as f64 - middle;
        above += from_middle * total;
        below += from_middle * from_middle;
    }
    let checks = vec![
        setup::rate_kept(&outcome),
        Check::at_most("change of the total with each stream, MB/s", above / below, 0.0),
        Check::at_least(
            "first total less the largest of the later ones, MB/s",
            totals[0] - most,
            1.0,
        ),
        setup::kept(&[&outcome]),
    ];
    let panels = vec![setup::stacked(&outcome, "Throughput in cycles of 4 s")];
    Sample { seconds: SECONDS as f64, panels, checks }
}
