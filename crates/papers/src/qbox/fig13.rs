//! Figure 13: four disks, targets that change every thirty seconds.

use super::black_boxes::{self, Column, Load, Set, Under};
use super::fig10::{A, B};
use crate::experiment::{Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-13",
    title: "Four disks: targets change every 30 s",
    claim: "On four disks shares follow targets that change every 30 s",
    note: "Targets are lost. Each is judged from 10 s after it was set to its end. Shares are of the \
           disks' service times, though `learned` divides the time that a stream has them for: the \
           semi-sequential ones keep four disks busy for 94 to 95 % of it alone, and have one to two \
           points less than their targets here.",
    reason: "",
    open: &[],
    measure,
};

const EACH: u64 = 30;
const WITHIN: u64 = 10;
const TARGETS: [[u32; 4]; 4] =
    [[20, 30, 30, 20], [30, 30, 10, 30], [10, 20, 30, 40], [25, 25, 25, 25]];

fn loads([a, b, c, d]: [u32; 4]) -> [Load; 4] {
    [
        Load::semi("A, 25 per 475", a, A),
        Load::semi("B, 7 per 693", b, B),
        Load::random("C, random", c),
        Load::random("D, random", d),
    ]
}

fn measure(seed: u64) -> Sample {
    let changes = (1..).map(|part: u64| part * EACH).zip(TARGETS[1..].iter().map(|it| it.to_vec()));
    let seconds = EACH * TARGETS.len() as u64;
    let set = Set { changes: changes.collect(), seconds, ..Set::striped(4, &loads(TARGETS[0])) };
    let (mut checks, mut panels, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for column in Column::ALL {
        let run = black_boxes::run(&set, Under::Column(column), seed);
        for (part, targets) in (0..).zip(TARGETS) {
            let from = part * EACH;
            let (what, between) = (format!("from {from} s on, "), (from + WITHIN, from + EACH));
            checks.extend(black_boxes::share_checks(
                column,
                &what,
                &run,
                &loads(targets),
                between,
                3.0,
            ));
        }
        let loads = loads(TARGETS[0]);
        panels.push(run.share_panel(&format!("(a) Shares ({})", column.name()), &loads));
        let title = format!("(b) Cost of a random request ({})", column.name());
        panels.push(run.cost_panel(&title, 4));
        runs.push(run);
    }
    checks.push(black_boxes::kept(&runs));
    Sample { seconds: (seconds * runs.len() as u64) as f64, panels, checks }
}
