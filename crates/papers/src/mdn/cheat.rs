//! The gain from false and endless reports: a soft real-time stream that reports every second
//! beside one that is the same but honest.

use super::players_and_load::{self, At, Knobs, Load, Shaped};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::{Instant, StreamId};
use disktime_sim::{Outcome, simulate};

const SECONDS: u64 = 120;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "mdn-cheat",
    title: "A report every second, true or not, beside three of best effort at 8 MB/s",
    claim: "Ours: reports of misses that did not happen gain nothing",
    note: "Not in the paper, whose rule is described elsewhere. The player is the same as in figure 3; the \
           greedy stream reads as fast as it can and has no deadlines, so its honest self reports \
           nothing. Means over all 120 s.",
    reason: "A greedy stream gains while R is cut for the first time; from 40 s on it gains nothing. \
             Mended by loans that begin with the first report.",
    open: &[],
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, figure),
};

fn figure(at: At) -> Sample {
    let (mut checks, mut panels) = (Vec::new(), Vec::new());
    for (name, load) in [("player", Load::soft(8)), ("greedy", Load::soft(0))] {
        for first in [1, 40] {
            let [honest, cheats] = [None, Some(first)].map(|first| run(load, first, at));
            let mean = |outcome: &Outcome| players_and_load::mean_mb(outcome, [0], 0, SECONDS);
            let what = format!("{name}, from {first} s: by its honest self");
            checks.push(Check::at_most(what, mean(&cheats) / mean(&honest), 1.02));
            panels.push(players_and_load::lines(
                &cheats,
                &format!("{name}, cheating from {first} s"),
            ));
        }
    }
    Sample { seconds: 8.0 * SECONDS as f64, panels, checks }
}

fn run(load: Load, first: Option<u64>, at: At) -> Outcome {
    let best = Load::best_effort(8);
    let loads = [load, best, best, best];
    let mut plan = players_and_load::plan(Shaped::By("adaptive"), &loads, SECONDS, at);
    let at = |second| Instant::from_nanos(second * 1_000_000_000);
    let reports = first.into_iter().flat_map(|first| first..SECONDS);
    plan.reports = reports.map(|second| (at(second), StreamId(0))).collect();
    simulate(plan).expect("the plan can be run")
}
