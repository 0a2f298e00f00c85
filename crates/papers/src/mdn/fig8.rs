//! Figure 8: a second soft real-time stream, pessimistic.

use super::players_and_load::{self, At, Knobs, Load, Shaped};
use crate::experiment::{Check, Experiment, Sample};

const SECONDS: u64 = 160;
const FROM: u64 = 80;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "mdn-8",
    title: "Three of best effort and a soft real-time one of 8 MB/s, joined by one of 6 at 80 s, pessimistic",
    claim: "Two soft real-time streams have their rates, best effort falls further",
    note: "Rates are from 5 s after a start on.",
    reason: "",
    open: players_and_load::open!(figure),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, figure),
};

fn figure(at: At) -> Sample {
    let [soft, best] = [Load::soft(8), Load::best_effort(8)];
    let loads = [soft, best, best, best, Load::soft(6).from(FROM)];
    let outcome = players_and_load::run(Shaped::By("pessimistic"), &loads, SECONDS, at);
    let percent = |stream, from, rate| {
        players_and_load::mean_mb(&outcome, [stream], from, SECONDS) / rate * 100.0
    };
    let before = players_and_load::mean_mb(&outcome, 1..4, 5, FROM);
    let after = players_and_load::mean_mb(&outcome, 1..4, FROM + 5, SECONDS);
    let checks = vec![
        Check::at_least("first soft real-time, % of its rate", percent(0, 5, 8.0), 95.0),
        Check::at_least("second soft real-time, % of its rate", percent(4, FROM + 5, 6.0), 95.0),
        Check::at_least("best effort falls by, MB/s", before - after, 0.0),
        players_and_load::kept(&[&outcome]),
    ];
    let panels = vec![players_and_load::lines(&outcome, "Throughput")];
    Sample { seconds: SECONDS as f64, panels, checks }
}
