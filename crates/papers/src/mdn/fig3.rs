//! Figure 3: four streams, of which one is soft real-time and reports misses.

use super::players_and_load::{self, At, FOUR, Knobs, Shaped};
use crate::experiment::{Check, Experiment, Sample};
use disktime_sim::Outcome;

pub(super) const SECONDS: u64 = 120;
pub(super) const FROM: u64 = 5;

pub(super) const OPTIMISTIC: Experiment = Experiment {
    id: "mdn-3a",
    title: "Four streams of 8 MB/s, one soft real-time, optimistic",
    claim: "The soft real-time stream has its 8 MB/s, the tokens a saw-tooth, the total 15.85 MB/s",
    note: "A saw-tooth is R that rises and is cut again: cuts are counted over 2 minutes.",
    reason: "By the places it is 2 to 14 % more; medians with beta of 20, 24, 30, 35 and 40 % are 8.1, 7.3, \
             11.4, 12.4 and 6.6, in no order.",
    open: players_and_load::open!(optimistic),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, optimistic),
};

pub(super) const PESSIMISTIC: Experiment = Experiment {
    id: "mdn-3b",
    title: "Four streams of 8 MB/s, one soft real-time, pessimistic",
    claim: "The soft real-time stream has its 8 MB/s and soon misses nothing; the total is 14.48 MB/s",
    note: "",
    reason: "By the places the total is 12.7 to 16.9 MB/s, and a stream misses 2 to 14 deadlines in two \
             minutes. With beta of 30, 35 and 40 % it misses 3.2, 2.5 and 1.3 in the median.",
    open: players_and_load::open!(pessimistic),
    measure: |seed| players_and_load::placed(seed, Knobs::SHOWN, pessimistic),
};

fn optimistic(at: At) -> Sample {
    let (outcome, other) = (run("optimistic", at), run("pessimistic", at));
    let more = (total(&outcome) / total(&other) - 1.0) * 100.0;
    let more = Check::between("more than pessimistic, %", 8.6, more, 3.0..=12.0);
    let checks = vec![
        players_and_load::within("all four together, MB/s", 15.85, total(&outcome), 7.0),
        more,
        Check::at_least("soft real-time, MB/s", soft(&outcome), 7.8),
        Check::at_least("times that R is cut", cuts(&outcome), 5.0),
        players_and_load::kept(&[&outcome]),
    ];
    sample(&outcome, "(a) Optimistic", checks)
}

fn pessimistic(at: At) -> Sample {
    let outcome = run("pessimistic", at);
    let checks = vec![
        players_and_load::within("all four together, MB/s", 14.48, total(&outcome), 7.0),
        Check::at_least("soft real-time, MB/s", soft(&outcome), 7.8),
        Check::at_most("misses", players_and_load::misses(&outcome, 0, 0, SECONDS), 5.0),
        players_and_load::kept(&[&outcome]),
    ];
    sample(&outcome, "(b) Pessimistic", checks)
}

fn run(controller: &'static str, at: At) -> Outcome {
    players_and_load::run(Shaped::By(controller), &FOUR, SECONDS, at)
}

fn total(outcome: &Outcome) -> f64 {
    players_and_load::mean_mb(outcome, 0..4, FROM, SECONDS)
}

fn soft(outcome: &Outcome) -> f64 {
    players_and_load::mean_mb(outcome, [0], FROM, SECONDS)
}

/// How often R is lower than half a second before.
fn cuts(outcome: &Outcome) -> f64 {
    let rates = outcome.best_effort.windows(2).filter(|pair| match (pair[0], pair[1]) {
        (Some(before), Some(after)) => after < before,
        (None, Some(_)) => true,
        _ => false,
    });
    rates.count() as f64
}

fn sample(outcome: &Outcome, title: &str, checks: Vec<Check>) -> Sample {
    Sample {
        seconds: SECONDS as f64,
        panels: vec![players_and_load::lines(outcome, title)],
        checks,
    }
}
