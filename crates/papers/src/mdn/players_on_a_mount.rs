//! Figure 3 by programs that read files of a mount and report what they miss, beside simulations of the
//! same: the first placement of seed 1.

use super::fig3::{FROM, SECONDS};
use super::players_and_load::{self, DISK, FOUR, Shaped};
use crate::experiment::{Check, Sample};
use crate::mounted_figures::{self, Mounted, Played, Run, beside, shown};
use disktime_model::preset::{self, Preset};
use disktime_report::chart::{Axis, Series};

/// Reads outstanding of a player, as in the figure.
const OUTSTANDING: u32 = 1;

pub(crate) const MOUNTED: [Mounted; 2] = [
    Mounted { id: "mdn-3a", device, runs: || run("optimistic"), judge: |live| judge(live, 0) },
    Mounted { id: "mdn-3b", device, runs: || run("pessimistic"), judge: |live| judge(live, 1) },
];

fn device() -> &'static Preset {
    preset::find(DISK).expect("the paper's disk is a preset")
}

fn run(controller: &'static str) -> Vec<Run> {
    let shaped = Shaped::By(controller);
    let plan = move |start| players_and_load::mounted(shaped, &FOUR, SECONDS, start);
    vec![Run::new(controller, OUTSTANDING, plan)]
}

fn judge(live: &[Played], figure: usize) -> Sample {
    let simulated = MOUNTED[figure].simulated();
    let both = [&live[0], &simulated[0]];
    let total = both.map(|played| played.mb(0..4, FROM, SECONDS));
    let soft = both.map(|played| played.mb([0], FROM, SECONDS));
    let mut checks: Vec<Check> = Vec::new();
    checks.extend(beside("all four together, MB/s", total));
    checks.extend(beside("soft real-time, MB/s", soft));
    checks.push(shown("misses", both.map(|played| played.misses(0))));
    let sides = ["live", "simulated"].into_iter().zip(both);
    let series = sides.flat_map(|(side, played)| {
        [
            Series::new(&format!("soft, {side}"), played.by_span(0..1, 4)),
            Series::new(&format!("all, {side}"), played.by_span(0..4, 4)),
        ]
    });
    let axes = (Axis::linear("time (s)"), Axis::linear("throughput (MB/s)"));
    let panels = vec![mounted_figures::panel("each 4 s", axes, series.collect())];
    Sample { seconds: SECONDS as f64, panels, checks }
}
