//! Figure 15: what a queue inside the disks is worth.

use super::black_boxes::{self, Column, Load, Run, Set, Under};
use super::fig10::A;
use crate::claims;
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "qbox-15",
    title: "Two disks: a semi-sequential and a random stream at disk queue 1 and 31",
    claim: "A queue in the disks makes both streams faster at every target",
    note: "Targets are lost; each stream has to be faster at every one.",
    reason: "",
    open: black_boxes::open!(measure_with),
    measure: |seed| measure_with(seed, |set| set),
};

const STEPS: [u32; 5] = [10, 30, 50, 70, 90];
const DEPTHS: [u32; 2] = [1, 31];
const SECONDS: u64 = 40;
const FROM: u64 = 15;
const NAMES: [&str; 2] = ["A, 25 per 475", "B, random"];

fn measure_with(seed: u64, with: impl Fn(Set) -> Set) -> Sample {
    let (mut checks, mut panels) = (Vec::new(), Vec::new());
    let (mut seconds, mut violations) = (0.0, 0);
    for column in Column::ALL {
        let run = |depth: u32, percent: u32| {
            let loads = [Load::semi(NAMES[0], percent, A), Load::random(NAMES[1], 100 - percent)];
            let set = Set { disk_depth: depth, seconds: SECONDS, ..Set::striped(2, &loads) };
            black_boxes::run(&with(set), Under::Column(column), seed)
        };
        let runs = DEPTHS.map(|depth| STEPS.map(|percent| run(depth, percent)));
        for (stream, name) in NAMES.into_iter().enumerate() {
            let iops = |run: &Run| run.iops(stream, FROM, SECONDS);
            let gains = runs[0].iter().zip(&runs[1]).map(|(one, many)| iops(many) / iops(one));
            let what = format!("{}: {name}: least gain from a queue of 31, %", column.name());
            let least = gains.fold(f64::INFINITY, f64::min);
            let gain = (least - 1.0) * 100.0;
            checks.push(Check { low: f64::MIN_POSITIVE, ..Check::at_least(what, gain, 0.0) });
            let lines = DEPTHS.into_iter().zip(&runs).map(|(depth, runs)| {
                let points = STEPS.into_iter().zip(runs);
                let points = points.map(|(percent, run)| (f64::from(percent), iops(run)));
                Series::new(&format!("disk queue {depth}"), points)
            });
            panels.push(Panel {
                title: format!("{name} ({})", column.name()),
                marks: Marks::Lines,
                x: Axis::linear("target of A (%)"),
                y: Axis::linear("requests per second"),
                series: lines.collect(),
                level: None,
            });
        }
        seconds += (SECONDS * (DEPTHS.len() * STEPS.len()) as u64) as f64;
        violations += runs.iter().flatten().map(Run::violations).sum::<usize>();
    }
    checks.push(claims::kept(violations));
    Sample { seconds, panels, checks }
}
