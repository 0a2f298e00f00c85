//! Figure 12: nothing is dispatched for 0.5 to 1 s, every 5000 requests.

use super::black_boxes::{self, Column, Load, SECONDS, SETTLED, Set, Under};
use crate::experiment::{Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-12",
    title: "Two disks, with idle time in the workload",
    claim: "Shares and estimate hold with idle time in the workload",
    note: "Targets are lost but for one of 45 %: it is the random stream's here, and the sequential \
           ones have 15, 20 and 20 %. Shares are of the time that the disks were busy.",
    reason: "As qbox-11: 200 requests at the device are often more than a slice.",
    open: &[],
    measure,
};

const LOADS: [Load; 4] = [
    Load::sequential("sequential A", 15),
    Load::sequential("sequential B", 20),
    Load::sequential("sequential C", 20),
    Load::random("random D", 45),
];

fn measure(seed: u64) -> Sample {
    let set = Set { pauses: true, ..Set::striped(2, &LOADS) };
    let (mut checks, mut panels, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for column in Column::ALL {
        let run = black_boxes::run(&set, Under::Column(column), seed);
        checks.extend(black_boxes::share_checks(column, "", &run, &LOADS, (SETTLED, SECONDS), 3.0));
        let (random, _) = run.estimates_off(2, SETTLED);
        checks.push(column.off("random cost", random, 10.0));
        panels.push(run.share_panel(&format!("Shares ({})", column.name()), &LOADS));
        panels.push(run.cost_panel(&format!("Cost of a random request ({})", column.name()), 2));
        runs.push(run);
    }
    checks.push(black_boxes::kept(&runs));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}
