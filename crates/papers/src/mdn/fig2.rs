//! Figure 2: four streams, of which one is soft real-time, with R fixed.

use super::players_and_load::{self, At, FOUR, Knobs, Shaped};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;

const SECONDS: u64 = 120;
/// From then on the buffers are what they stay.
const FROM: u64 = 5;

pub(super) const NONE: Experiment = Experiment {
    id: "mdn-2a",
    title: "Four streams of 8 MB/s, not shaped",
    claim: "Four streams have 16.8 MB/s together, each as much as the others",
    note: "",
    reason: "The kernel's elevator gives each stream as much time as the others, so that a stream has as \
             much as its zone is fast: over the drawn places one is 9 to 32 % off the mean, and the total \
             is 14.4 to 19.2 MB/s. With all files in the outer 6 of 21 places the four are within 5 %, \
             but then they have 21.8 MB/s together (seed 1). The paper does not say where its files lie.",
    open: players_and_load::open!(not_shaped),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, not_shaped),
};

pub(super) const AT_90: Experiment = Experiment {
    id: "mdn-2b",
    title: "Four streams of 8 MB/s, three of them shaped to 90 tokens/s",
    claim: "At 90 tokens/s the total is 3 % higher, and the stream that is not shaped has more than the others",
    note: "",
    reason: "A shaped stream gives its turn back when its tokens are used up, and the next one pays for \
             a seek: the total is lower, and the more so the longer turns are (by 1.6, 3.1, 5.5 and 7.9 \
             % with turns of 30, 50, 70 and 125 ms, seed 1). The paper lays its gain to sequentiality, \
             with a \"perhaps\".",
    open: players_and_load::open!(at_90),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, at_90),
};

pub(super) const AT_50: Experiment = Experiment {
    id: "mdn-2c",
    title: "Four streams of 8 MB/s, three of them shaped to 50 tokens/s",
    claim: "At 50 tokens/s the stream that is not shaped has its 8 MB/s, and the total is 12 % lower",
    note: "",
    reason: "Shaped streams have 50 tokens/s, 6.6 MB/s, wherever their files lie; unshaped, the four have \
             14.4 to 19.2 MB/s by their places (mdn-2a). So the total is 6 to 24 % lower by the places, \
             and 12.0 in their median.",
    open: players_and_load::open!(at_50),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, at_50),
};

fn not_shaped(at: At) -> Sample {
    let outcome = run(Shaped::By("none"), at);
    let rates: Vec<f64> =
        (0..4).map(|it| players_and_load::mean_mb(&outcome, [it], FROM, SECONDS)).collect();
    let mean = rates.iter().sum::<f64>() / 4.0;
    let off = rates.iter().map(|rate| (rate / mean - 1.0).abs() * 100.0).fold(0.0, f64::max);
    let checks = vec![
        players_and_load::within("all four together, MB/s", 16.8, mean * 4.0, 5.0),
        Check::deviation("farthest from their mean, %", off, 10.0),
        players_and_load::kept(&[&outcome]),
    ];
    sample(&outcome, "(a) Not shaped", checks)
}

fn at_90(at: At) -> Sample {
    let (outcome, more) = beside_none(90, at);
    let soft = players_and_load::mean_mb(&outcome, [0], FROM, SECONDS);
    let best = players_and_load::mean_mb(&outcome, 1..4, FROM, SECONDS) / 3.0;
    let checks = vec![
        Check::between(MORE, 3.0, more, 0.0..=8.0),
        Check::at_least("soft real-time by the mean of best effort", soft / best, 1.0),
        Check::at_most("soft real-time, MB/s", soft, 8.0),
        players_and_load::kept(&[&outcome]),
    ];
    sample(&outcome, "(b) R = 90", checks)
}

fn at_50(at: At) -> Sample {
    let (outcome, more) = beside_none(50, at);
    let soft = players_and_load::mean_mb(&outcome, [0], FROM, SECONDS);
    let checks = vec![
        Check::at_least("soft real-time, MB/s", soft, 7.8),
        Check::near(MORE, -12.0, more, 4.0),
        players_and_load::kept(&[&outcome]),
    ];
    sample(&outcome, "(c) R = 50", checks)
}

const MORE: &str = "all four together, more than unshaped, %";

fn run(shaped: Shaped, at: At) -> Outcome {
    players_and_load::run(shaped, &FOUR, SECONDS, at)
}

/// At that R, and by how many per cent the total is above what it is unshaped.
fn beside_none(rate: u32, at: At) -> (Outcome, f64) {
    let (none, outcome) = (run(Shaped::By("none"), at), run(Shaped::At(rate), at));
    let total = |outcome: &Outcome| players_and_load::mean_mb(outcome, 0..4, FROM, SECONDS);
    let more = (total(&outcome) / total(&none) - 1.0) * 100.0;
    (outcome, more)
}

fn sample(outcome: &Outcome, title: &str, checks: Vec<Check>) -> Sample {
    Sample {
        seconds: SECONDS as f64,
        panels: vec![players_and_load::lines(outcome, title)],
        checks,
    }
}
