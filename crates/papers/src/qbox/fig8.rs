//! Figures 8 and 9: two disks, three sequential streams and a random one.

use super::black_boxes::{self, Column, Load, Run, SECONDS, SETTLED, Set, Under};
use crate::experiment::{Experiment, Sample};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-8",
    title: "Two disks: three sequential streams and a random one at three sets of targets",
    claim: "On two disks three sets of shares are kept",
    note: "The targets of (b) and (c) are lost.",
    reason: "",
    open: &[],
    measure,
};

pub(super) const COSTS: Experiment = Experiment {
    id: "qbox-9",
    title: "Two disks: the moving estimate of a random request's cost",
    claim: "The estimate of a random request's cost follows the truth",
    note: "The paper sees estimates above the truth where many sequential requests complete, and \
           lays it to the work of its own statistics; ours has none and is biased all the same.",
    reason: "",
    open: &[],
    measure: measure_costs,
};

const SETS: [(&str, u32, u32); 3] = [("(a)", 10, 70), ("(b)", 15, 50), ("(c)", 25, 20)];

fn loads(index: usize) -> [Load; 4] {
    let (_, sequential, random) = SETS[index];
    // 15, 15, 20 / 50 and 25, 25, 30 / 20 make 100 %.
    let third = 100 - random - 2 * sequential;
    [
        Load::sequential("sequential A", sequential),
        Load::sequential("sequential B", sequential),
        Load::sequential("sequential C", third),
        Load::random("random D", random),
    ]
}

fn runs(seed: u64) -> Vec<(Column, usize, Run)> {
    let each = |column| (0..SETS.len()).map(move |index| (column, index));
    let run = |(column, index)| {
        let set = Set::striped(2, &loads(index));
        (column, index, black_boxes::run(&set, Under::Column(column), seed))
    };
    Column::ALL.into_iter().flat_map(each).map(run).collect()
}

fn measure(seed: u64) -> Sample {
    let runs = runs(seed);
    let mut checks = Vec::new();
    let mut panels = Vec::new();
    for (column, index, run) in &runs {
        let (name, loads) = (SETS[*index].0, loads(*index));
        let between = (SETTLED, SECONDS);
        let what = format!("{name} ");
        checks.extend(black_boxes::share_checks(*column, &what, run, &loads, between, 2.0));
        panels.push(run.share_panel(&format!("{name} Shares ({})", column.name()), &loads));
    }
    checks.push(black_boxes::kept(runs.iter().map(|(_, _, run)| run)));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}

fn measure_costs(seed: u64) -> Sample {
    let runs = runs(seed);
    let mut checks = Vec::new();
    let mut panels = Vec::new();
    for (column, index, run) in &runs {
        let name = SETS[*index].0;
        let (random, ratio) = run.estimates_off(2, SETTLED);
        checks.push(column.off(&format!("{name} random cost"), random, 10.0));
        checks.push(column.off(&format!("{name} random by sequential cost"), ratio, 10.0));
        panels.push(
            run.cost_panel(&format!("{name} Cost of a random request ({})", column.name()), 2),
        );
    }
    checks.push(black_boxes::kept(runs.iter().map(|(_, _, run)| run)));
    Sample { seconds: (SECONDS * runs.len() as u64) as f64, panels, checks }
}
