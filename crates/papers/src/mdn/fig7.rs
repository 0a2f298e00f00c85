//! Figure 7: a soft real-time stream comes and goes beside one of best effort, pessimistic.

use super::players_and_load::{self, At, Knobs, Load, Shaped};
use crate::experiment::{Check, Experiment, Sample};

const SECONDS: u64 = 180;
const FROM: u64 = 40;
const TO: u64 = 140;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "mdn-7",
    title: "11 MB/s of best effort beside 9 MB/s of soft real-time from 40 to 140 s, pessimistic",
    claim: "A soft real-time stream has its 9 MB/s; best effort falls from 11 to a little above 4 and is \
            back at once",
    note: "Rates are from 5 s after a change on, \"after some small transient spikes\".",
    reason: "By the places the disk leaves 4.0 to 9.9 MB/s beside 9 MB/s; the paper's left 4.2.",
    open: players_and_load::open!(figure),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, figure),
};

fn figure(at: At) -> Sample {
    let loads = [Load::best_effort(11), Load::soft(9).from(FROM).until(TO)];
    let outcome = players_and_load::run(Shaped::By("pessimistic"), &loads, SECONDS, at);
    let best = players_and_load::mean_mb(&outcome, [0], FROM + 5, TO);
    let best = Check::between("best effort beside it, MB/s", 4.2, best, 3.5..=7.0);
    let checks = vec![
        Check::at_least(
            "best effort alone, MB/s",
            players_and_load::mean_mb(&outcome, [0], 5, FROM),
            10.9,
        ),
        best,
        Check::at_least(
            "soft real-time, MB/s",
            players_and_load::mean_mb(&outcome, [1], FROM + 5, TO),
            8.8,
        ),
        Check::at_most(
            "best effort is back after, s",
            players_and_load::back_after(&outcome, &[0], 11.0, TO),
            2.0,
        ),
        players_and_load::kept(&[&outcome]),
    ];
    let panels = vec![players_and_load::lines(&outcome, "Throughput")];
    Sample { seconds: SECONDS as f64, panels, checks }
}
