//! Temporary.
#![allow(clippy::all, missing_docs, unused)]
use super::setup::{self, *};
use disktime_sim::core::Duration;

fn show(name: &str, set: &Set, column: Column, seed: u64, step: u64) {
    let run = setup::run(set, Under::Column(column), seed);
    let disks = match set.storage { Storage::Striped(d) => d, _ => 1 };
    println!("== {name} {} seed {seed}", column.name());
    let n = set.loads.len();
    for at in (0..set.seconds).step_by(step as usize) {
        let to = (at + step).min(set.seconds);
        let took = run.took(at, to);
        let busy: f64 = took.iter().map(|t| (t.time[0] + t.time[1]).as_secs_f64()).sum::<f64>()
            / disks as f64 / (to - at) as f64 * 100.0;
        let windows = |s: usize| run.outcome.windows.iter().filter(move |w| w.stream.0 as usize == s && (at..to).contains(&u64::from(w.index)));
        let charged: Vec<f64> = (0..n).map(|s| windows(s).map(|w| w.charged.as_secs_f64()).sum::<f64>() / (to - at) as f64 * 100.0).collect();
        let mine: Vec<String> = (0..n).map(|s| {
            let t = took[s];
            let per = |k: usize| t.time[k].as_secs_f64() * 1e6 / t.requests[k].max(1) as f64 / disks as f64;
            format!("{:.0}us*{} {:.0}us*{}", per(0), t.requests[0], per(1), t.requests[1])
        }).collect();
        println!("{at:3}: shares {:5.1?} charged {charged:5.1?} busy {busy:.0}% true {mine:?}", run.shares(at, to));
    }
    let from = step.max(20).min(set.seconds - 1);
    if !run.outcome.costs.is_empty() {
        let [x, y] = run.true_costs(disks, 20, set.seconds);
        println!("true {x:?} {y:?} off {:?}", run.estimates_off(disks, 20));
    }
    for (s, est) in run.outcome.estimates.iter().enumerate() {
        println!("  {s} {:?}", est.iter().map(|e| format!("{:?} {:?} {:?}", e.kind, e.cost, e.certainty)).collect::<Vec<_>>());
    }
    println!("violations {}", run.violations());
}

fn semi(n: usize) -> Vec<Load> {
    let (a, b) = ((25, 475), (7, 693));
    let p: [[u32; 4]; 2] = [[20, 30, 30, 20], [10, 20, 30, 40]];
    let [x, y, z, w] = p[n];
    vec![Load::semi("A", x, a), Load::semi("B", y, b), Load::sequential("C", z), Load::random("D", w)]
}

#[test]
fn p12() {
    let l = [Load::sequential("A", 15), Load::sequential("B", 20), Load::sequential("C", 20), Load::random("D", 45)];
    show("12", &Set { pauses: true, ..Set::striped(2, &l) }, Column::Learned, 1, 5);
}
#[test]
fn p11() {
    for n in 0..2 { show("11", &Set::striped(2, &semi(n)), Column::Learned, 1, 5); }
}
#[test]
fn alone() {
    for (disks, (a, b)) in [(2, (25, 475)), (2, (7, 693)), (4, (25, 475)), (4, (7, 693))] {
        let set = Set { seconds: 20, ..Set::striped(disks, &[Load::semi("A", 90, (a, b))]) };
        show(&format!("alone {disks} {a} {b}"), &set, Column::Learned, 1, 10);
    }
    for disks in [2, 4] {
        for l in [Load::sequential("C", 90), Load::random("D", 90)] {
            show(&format!("alone {disks} {}", l.name), &Set { seconds: 20, ..Set::striped(disks, &[l]) }, Column::Learned, 1, 10);
        }
    }
}
fn set13() -> Set {
    let t = [[20, 30, 30, 20], [30, 30, 10, 30], [10, 20, 30, 40], [25, 25, 25, 25]];
    let l = [Load::semi("A", 20, (25, 475)), Load::semi("B", 30, (7, 693)), Load::random("C", 30), Load::random("D", 20)];
    let changes = (1..4u64).map(|p| (p * 30, t[p as usize].to_vec())).collect();
    Set { changes, seconds: 120, ..Set::striped(4, &l) }
}
#[test]
fn p13() {
    show("13", &set13(), Column::Learned, 1, 5);
}
#[test]
fn p13q() {
    show("13", &set13(), Column::QBox, 1, 5);
}
