//! Figures 10 and 11: semi-sequential streams.

use super::black_boxes::{self, Column, Load, Run, SECONDS, SETTLED, Set, Under};
use crate::experiment::{Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-10",
    title: "Two disks: two semi-sequential streams, a sequential and a random one",
    claim: "Shares are kept with semi-sequential streams",
    note: "A: 25 random per 475 sequential, B: 7 per 693. Targets of the second set are lost.",
    reason: "",
    open: &[],
    measure,
};

pub(super) const COSTS: Experiment = Experiment {
    id: "qbox-11",
    title: "Two disks, semi-sequential streams: the moving estimate of a random request's cost",
    claim: "The estimate of a random request's cost follows the truth with semi-sequential streams",
    note: "The truth counts as random what QBox does: the first of a sequential group after 25 random \
           requests, too.",
    reason: "200 requests at the device are often more than a slice, whose pieces are then all at its \
             beginning or end: the learned cost is seldom seen, and too low.",
    open: &[],
    measure: measure_costs,
};

const SETS: [(&str, [u32; 4]); 2] = [("(a)", [20, 30, 30, 20]), ("(b)", [10, 20, 30, 40])];

pub(super) const A: (u32, u32) = (25, 475);
pub(super) const B: (u32, u32) = (7, 693);

fn loads([a, b, c, d]: [u32; 4]) -> [Load; 4] {
    [
        Load::semi("A, 25 per 475", a, A),
        Load::semi("B, 7 per 693", b, B),
        Load::sequential("C, sequential", c),
        Load::random("D, random", d),
    ]
}

fn runs(seed: u64) -> Vec<(Column, &'static str, [Load; 4], Run)> {
    let each = |column| SETS.into_iter().map(move |set| (column, set));
    let run = |(column, (name, targets))| {
        let loads = loads(targets);
        let run = black_boxes::run(&Set::striped(2, &loads), Under::Column(column), seed);
        (column, name, loads, run)
    };
    Column::ALL.into_iter().flat_map(each).map(run).collect()
}

fn measure(seed: u64) -> Sample {
    let runs = runs(seed);
    let (mut checks, mut panels) = (Vec::new(), Vec::new());
    for (column, name, loads, run) in &runs {
        let (what, between) = (format!("{name} "), (SETTLED, SECONDS));
        checks.extend(black_boxes::share_checks(*column, &what, run, loads, between, 3.0));
        panels.push(run.share_panel(&format!("{name} Shares ({})", column.name()), loads));
    }
    checks.push(black_boxes::kept(runs.iter().map(|(.., run)| run)));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}

fn measure_costs(seed: u64) -> Sample {
    let runs = runs(seed);
    let (mut checks, mut panels) = (Vec::new(), Vec::new());
    for (column, name, _, run) in &runs {
        let (random, ratio) = run.estimates_off(2, SETTLED);
        checks.push(column.off(&format!("{name} random cost"), random, 10.0));
        checks.push(column.off(&format!("{name} random by sequential cost"), ratio, 10.0));
        let title = format!("{name} Cost of a random request ({})", column.name());
        panels.push(run.cost_panel(&title, 2));
    }
    checks.push(black_boxes::kept(runs.iter().map(|(.., run)| run)));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}
