//! Figure 7: one disk, sequential and random streams.

use super::black_boxes::{self, Column, Load, SECONDS, SETTLED, Set, Under};
use crate::experiment::{Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-7",
    title: "One disk, sequential and random streams: the shares are reached quickly",
    claim: "On one disk the shares are reached within 20 s",
    note: "Targets and mix are lost: two sequential streams with 30 and 20 %, two random ones with 30 \
           and 20 %.",
    reason: "Chance: over seeds 1 to 6 the learned ratio is 0, 44, -8, 33, -14 and 35 % off.",
    open: &[],
    measure,
};

pub(super) const LOADS: [Load; 4] = [
    Load::sequential("sequential A", 30),
    Load::sequential("sequential B", 20),
    Load::random("random C", 30),
    Load::random("random D", 20),
];

fn measure(seed: u64) -> Sample {
    let set = Set::striped(1, &LOADS);
    let mut checks = Vec::new();
    let mut panels = Vec::new();
    let mut runs = Vec::new();
    for column in Column::ALL {
        let run = black_boxes::run(&set, Under::Column(column), seed);
        let between = (SETTLED, SECONDS);
        checks.extend(black_boxes::share_checks(
            column,
            "from 20 s on, ",
            &run,
            &LOADS,
            between,
            3.0,
        ));
        let (_, ratio) = run.estimates_off(1, SETTLED);
        checks.push(column.off("random by sequential cost", ratio, 10.0));
        panels.push(run.share_panel(&format!("({}) Shares", column.name()), &LOADS));
        panels.push(run.cost_panel(&format!("({}) Cost of a random request", column.name()), 1));
        runs.push(run);
    }
    checks.push(black_boxes::kept(&runs));
    Sample { seconds: SECONDS as f64, panels, checks }
}
