//! Figure 6: a high-priority stream beside best-effort streams that read as fast as they can.

use super::cyclic_streams::{self, CYCLE_SECONDS, JOINS, Load, SECONDS};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ucsb-6",
    title: "8 MB/s of high priority, joined by five best-effort streams that take all they can",
    note: "Totals are means of the last 4 s before the next stream joins, over 64 placements of the \
           files. Each best-effort stream reads for a batch of 1 MiB before the elevator goes on. From \
           two of them on every batch ends with a seek, however many they are, and the total falls only \
           by longer seeks and slower tracks, a few tenths of a MB/s at each join. In one placement the \
           rotational wait from file to file decides: all files are read at one pace, so it hardly \
           changes from round to round, and a join can make it shorter. Gaps of up to 8 MiB before each \
           file let every angle occur. With six streams that gives about 30 MB/s, above the 20 to 28 that the \
           paper's disk had under its kernel's elevator, whose batch is not published; no check is about \
           it. The plot is of one placement.",
    measure,
};

/// "The total falls as streams join": at every join.
const RISE: &str = "largest rise of the total when a stream joins, MB/s";

/// The step of the total at a join is .2 MB/s or more on average, and .4 to .8 from it in a single
/// placement: with so many the mean of the smallest is known to .06.
const PLACEMENTS: u64 = 64;

fn measure(seed: u64) -> Sample {
    let outcomes = cyclic_streams::joined_in_places(Load::greedy, seed, PLACEMENTS);
    let total = |to: u64| -> f64 {
        let of = |outcome: &Outcome| -> f64 {
            let from = to - CYCLE_SECONDS;
            (0..=JOINS.len()).map(|stream| cyclic_streams::mean_mb(outcome, stream, from, to)).sum()
        };
        outcomes.iter().map(of).sum::<f64>() / PLACEMENTS as f64
    };
    let ends = JOINS[1..].iter().copied().chain([SECONDS]);
    let totals: Vec<f64> = ends.map(total).collect();
    let rises = totals.windows(2).map(|pair| pair[1] - pair[0]);
    let checks = vec![
        cyclic_streams::rate_kept(&outcomes),
        Check::at_most(RISE, rises.fold(f64::NEG_INFINITY, f64::max), 0.0),
        cyclic_streams::kept(&outcomes.iter().collect::<Vec<_>>()),
    ];
    let panels = vec![cyclic_streams::stacked(&outcomes[0], "Throughput in cycles of 4 s")];
    Sample { seconds: (SECONDS * PLACEMENTS) as f64, panels, checks }
}
