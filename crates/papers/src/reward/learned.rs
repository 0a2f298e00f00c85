//! What stated prices give on tiers, over costs that are learned while it runs.

use super::falling::Runs;
use super::looping::{OURS_SECONDS, Starts};
use super::setup;
use super::table2::{ROWS, Row};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-learned",
    title: "Table 2, falling hits and the small cache again: disktime over learned costs",
    note: "Costs are seen while a workload has the device to itself, a tenth of a second at a time. Here \
           one disk access takes 10 ms give or take as much, so a price is a mean over few accesses and \
           off by some per cent, and so are shares. On a small cache what is learned is what service \
           has changed: it can loop, as reward does.",
    measure,
};

const COST_MODEL: &str = "learned";
/// Seconds that count: prices are known by the first.
const COUNTED: [u64; 2] = [60, 180];
/// Rows of equal weights.
const EQUAL: usize = 4;

fn measure(seed: u64) -> Sample {
    let run = |row: &Row| {
        let array = setup::tiers(row.placement(seed), seed);
        let scheduler = setup::ours(COST_MODEL, &[]);
        setup::run(scheduler, array, &row.loads(), COUNTED[1], seed)
    };
    let rows: Vec<Outcome> = ROWS[..EQUAL].iter().map(run).collect();
    let mut checks = Vec::new();
    for (row, outcome) in ROWS.iter().zip(&rows) {
        for (stream, (load, by)) in [("A", 0.05), ("B", 0.12)].into_iter().enumerate() {
            let published = row.published[stream];
            let got = setup::iops(outcome, stream, COUNTED[0], COUNTED[1]);
            let name = format!("{}: {load}, IOPS", row.name());
            checks.push(Check::near(name, published, got, by * published));
        }
    }
    let falling = Runs::new(COST_MODEL, COUNTED, seed);
    checks.extend(falling.checks());
    let starts = Starts::ours("disktime, learned", COST_MODEL, seed);
    checks.push(Check::deviation(
        "small cache, ten minutes: A's share, warm for A less warm for B, points",
        starts.apart(),
        2.0,
    ));
    let mut outcomes = falling.outcomes();
    outcomes.extend(rows.iter().chain(&starts.outcomes));
    checks.push(setup::kept(&outcomes));
    let seconds = falling.seconds() + EQUAL as u64 * COUNTED[1] + 2 * OURS_SECONDS;
    let panels = falling.panels().into_iter().chain([starts.panel()]).collect();
    Sample { seconds: seconds as f64, panels, checks }
}
