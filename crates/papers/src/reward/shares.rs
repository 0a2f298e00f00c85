//! The results of reward scheduling follow from time shares, once every workload pays its own cost.

use super::cached_servers::{self, Scheduler};
use super::table2::{ROWS, Row, rates};
use crate::experiment::{Check, Experiment, Sample};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-shares",
    title: "Table 2's workloads of equal weight under shares of time: disktime over prices",
    claim: "Ours: equal shares of time over prices are reward's rates",
    note: "A price is what a request takes when its workload runs alone at the array's best depth, that is \
           on the busier tier. Under start-time fair queueing equal shares of time over these prices \
           are reward's rates: reward falls out. reward-service learns its costs \
           instead, and disktime gives each its share of time as the prices say.",
    reason: "At the paper's depth of 32 the disk's queue idles now and then; it held at 64.",
    open: &[],
    measure,
};

const SECONDS: u64 = 40;
/// Rows of equal weights.
const EQUAL: usize = 4;

fn priced(policy: &'static str, row: &Row) -> Scheduler {
    Scheduler { policy, ..cached_servers::ours("priced", &[100, row.hits]) }
}

fn measure(seed: u64) -> Sample {
    let rows = &ROWS[..EQUAL];
    let run = |scheduler, row: &Row| {
        let array = cached_servers::tiers(row.placement(seed), seed);
        cached_servers::run(scheduler, array, &row.loads(), SECONDS, seed)
    };
    let by = |scheduler: &dyn Fn(&Row) -> Scheduler| -> Vec<Outcome> {
        rows.iter().map(|row| run(scheduler(row), row)).collect()
    };
    let runs = [
        ("reward", by(&|_| Scheduler::plain("reward"))),
        ("disktime over prices", by(&|row| priced("disktime", row))),
        ("sfq over prices", by(&|row| priced("sfq", row))),
        ("reward-service", by(&|_| Scheduler::plain("reward-service"))),
    ];
    let mut checks = Vec::new();
    for (name, outcomes) in &runs[1..] {
        for (row, outcome) in rows.iter().zip(outcomes) {
            let got = rates(outcome, SECONDS);
            for (stream, (load, by)) in [("A", 0.05), ("B", 0.12)].into_iter().enumerate() {
                let published = row.published[stream];
                let name = format!("{name}, {}: {load}, IOPS", row.name());
                checks.push(Check::near(name, published, got[stream], by * published));
            }
        }
    }
    checks.push(cached_servers::kept(
        &runs.iter().flat_map(|(_, outcomes)| outcomes).collect::<Vec<_>>(),
    ));
    let panel = |stream: usize, title: &str| Panel {
        title: title.to_owned(),
        marks: Marks::Grouped,
        x: Axis::linear("row: hit ratio of B .2, .5, .75, 1"),
        y: Axis::log("throughput (IOPS)"),
        series: runs
            .iter()
            .map(|(name, outcomes)| {
                let got = outcomes.iter().map(|outcome| rates(outcome, SECONDS)[stream]);
                Series::new(name, (1..).zip(got).map(|(row, got)| (f64::from(row), got)))
            })
            .collect(),
        level: None,
    };
    Sample {
        seconds: (runs.len() as u64 * EQUAL as u64 * SECONDS) as f64,
        panels: vec![panel(0, "Workload A"), panel(1, "Workload B")],
        checks,
    }
}
