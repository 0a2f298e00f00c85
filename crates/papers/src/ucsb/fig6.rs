//! Figure 6: a high-priority stream beside best-effort streams that read as fast as they can.

use super::cyclic_streams::{self, CYCLE_SECONDS, JOINS, Knobs, Load, SECONDS};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ucsb-6",
    title: "8 MB/s of high priority, joined by five best-effort streams that take all they can",
    claim: "The high-priority stream has its 8 MB/s while the total falls at each join, to 20 to 28 MB/s",
    note: "Totals are means of the last 4 s before the next stream joins, over 64 placements of the \
           files. From two best-effort streams on every batch ends with a seek, however many they are, \
           and the total falls only by longer seeks and slower tracks, a few tenths of a MB/s at each \
           join. In one placement the rotational wait from file to file decides: all files are read at \
           one pace, so it hardly changes from round to round, and a join can make it shorter. Gaps of \
           up to 8 MiB before each file let every angle occur, and the share of placements in which the \
           total rises at a join is shown beside the mean. The plot is of one placement.",
    reason: "A batch of the elevator decides: with 256 and 512 KiB six streams have 21.3 and 26.2 MB/s, \
             which holds, with 1 and 2 MiB 30.4 and 33.3. The paper names its kernel, Linux \
             2.5.67, and not the elevator's limits.",
    open: cyclic_streams::open!(measure_at),
    measure: |seed| measure_at(seed, Knobs::SHOWN),
};

/// "The total falls as streams join": at every join.
const RISE: &str = "largest rise of the total when a stream joins, MB/s";

const RISING: &str = "placements in which the total rises at some join, %";

/// The step of the total at a join is .2 MB/s or more on average, and .4 to .8 from it in a single
/// placement: with so many the mean of the smallest is known to .06.
const PLACEMENTS: u64 = 64;

fn measure_at(seed: u64, knobs: Knobs) -> Sample {
    let outcomes = cyclic_streams::joined_in_places(Load::greedy, knobs, seed, PLACEMENTS);
    let of = |outcome: &Outcome| -> Vec<f64> {
        let ends = JOINS[1..].iter().copied().chain([SECONDS]);
        let total = |to: u64| {
            let from = to - CYCLE_SECONDS;
            (0..=JOINS.len()).map(|stream| cyclic_streams::mean_mb(outcome, stream, from, to)).sum()
        };
        ends.map(total).collect()
    };
    let by_placement: Vec<Vec<f64>> = outcomes.iter().map(of).collect();
    let rise = |totals: &[f64]| {
        let rises = totals.windows(2).map(|pair| pair[1] - pair[0]);
        rises.fold(f64::NEG_INFINITY, f64::max)
    };
    let rising = by_placement.iter().filter(|totals| rise(totals) > 0.0).count();
    let joins = 0..by_placement[0].len();
    let mean = |join| by_placement.iter().map(|totals| totals[join]).sum::<f64>();
    let totals: Vec<f64> = joins.map(|join| mean(join) / PLACEMENTS as f64).collect();
    let six = totals[totals.len() - 1];
    let checks = vec![
        cyclic_streams::rate_kept(&outcomes),
        Check::at_most(RISE, rise(&totals), 0.0),
        Check::reported(RISING, 0.0, rising as f64 / PLACEMENTS as f64 * 100.0),
        Check::near("all six streams together, MB/s", 24.0, six, 4.0),
        cyclic_streams::kept(&outcomes.iter().collect::<Vec<_>>()),
    ];
    let panels = vec![cyclic_streams::stacked(&outcomes[0], "Throughput in cycles of 4 s")];
    Sample { seconds: (SECONDS * PLACEMENTS) as f64, panels, checks }
}
