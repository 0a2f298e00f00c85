//! The feedback loop that the paper's section 5 suspects: served more, cached more, served more.

use super::cached_servers::{self, Load, Scheduler};
use crate::experiment::{Check, Experiment, Sample};
use disktime_core::cost::{CostParameters, Price};
use disktime_core::{Duration, Instant, Kind};
use disktime_model::Op;
use disktime_model::tiered::{Cached, Placement};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::Outcome;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-loop",
    title: "Two equal workloads share a small cache that was warm for one of them",
    claim: "Ours: under reward, a cache that two workloads share stays with the one that it was warm for",
    note: "It can loop: whoever begins with its lines in the cache keeps them, and with them nearly all \
           requests, since they come faster than the other's misses can push lines out. The start \
           decides for good. The estimator is not to blame: with services in place of responses it \
           is the same, for the cost that is learned is the one that service has changed. Without \
           learning there is no loop: proportional, and time shares over one price, end the same \
           from both starts (ours is asked after ten minutes), at a small part of the throughput; \
           that is what the loop wins.",
    reason: "",
    open: &[],
    measure,
};

const SECONDS: u64 = 80;
/// The length of our own run: ten minutes, of which the last tenth counts.
pub(super) const OURS_SECONDS: u64 = 600;
/// From here on shares count: the cache has been turned over six times.
const SETTLED: u64 = 40;
/// The working set of each workload, in lines; all are as likely.
const WORKING_SET: u64 = 500;
/// The size of the cache, where it is small.
const SMALL: usize = 600;
/// The sizes of the cache, where its size varies: from less than one working set to both.
const SIZES: [usize; 5] = [400, 500, 550, 800, 1000];
const LINE: u64 = cached_servers::REQUEST_BYTES;

/// Time by weight where each request has the same price, whatever it took.
fn one_price(cost_model: &'static str) -> Scheduler {
    let mut cost = CostParameters::default();
    let price = Price { each: Duration::from_millis(1), ..Price::default() };
    cost.prices[..2].fill(price);
    Scheduler { cost_model, cost, ..Scheduler::plain("disktime") }
}

/// A cache that has had all of one workload's lines.
fn warm(lines: usize, stream: u64) -> Cached {
    let mut cache = Cached::new(lines, LINE);
    for line in 0..WORKING_SET {
        let offset = stream * cached_servers::REGION_BYTES + line * LINE;
        let op = Op { kind: Kind::Read, offset, bytes: LINE, fua: false };
        let _missed = cache.tier(Instant::ZERO, op);
    }
    cache
}

/// The same from two starts: the cache is warm for A, for B.
pub(super) struct Starts {
    name: &'static str,
    /// Shares count in these seconds.
    counted: [u64; 2],
    pub(super) outcomes: [Outcome; 2],
}

impl Starts {
    fn new(name: &'static str, scheduler: Scheduler, lines: usize, seed: u64) -> Self {
        Self::counting(name, scheduler, lines, seed, [SETTLED, SECONDS])
    }

    fn counting(
        name: &'static str,
        scheduler: Scheduler,
        lines: usize,
        seed: u64,
        counted: [u64; 2],
    ) -> Self {
        let bytes = WORKING_SET * LINE;
        let loads = ["A", "B"].map(|name| Load { bytes, ..Load::reads(name, 100) });
        let run = |start| {
            let array = cached_servers::tiers(warm(lines, start), seed);
            cached_servers::run(scheduler, array, &loads, counted[1], seed)
        };
        Self { name, counted, outcomes: [run(0), run(1)] }
    }

    /// Ours, for ten minutes.
    pub(super) fn ours(name: &'static str, cost_model: &'static str, seed: u64) -> Self {
        let ten_minutes = [OURS_SECONDS - OURS_SECONDS / 10, OURS_SECONDS];
        Self::counting(name, one_price(cost_model), SMALL, seed, ten_minutes)
    }

    /// By how many points A's share of all requests depends on the start.
    pub(super) fn apart(&self) -> f64 {
        let [from, to] = self.counted;
        let [for_a, for_b] = self.outcomes.each_ref().map(|it| share(it, from, to));
        (for_a - for_b).abs()
    }

    /// IOPS of both workloads, over both starts.
    fn total(&self) -> f64 {
        let [from, to] = self.counted;
        let of = |outcome, stream| cached_servers::iops(outcome, stream, from, to);
        let both = |outcome| of(outcome, 0) + of(outcome, 1);
        f64::midpoint(both(&self.outcomes[0]), both(&self.outcomes[1]))
    }

    pub(super) fn panel(&self) -> Panel {
        let named = self.outcomes.iter().zip(["warm for A", "warm for B"]);
        Panel {
            title: format!("{}: A's share of requests", self.name),
            marks: Marks::Lines,
            x: Axis::linear("time (s)"),
            y: Axis::linear("share (%)"),
            series: named
                .map(|(outcome, start)| Series::new(start, self.course(outcome)))
                .collect(),
            level: None,
        }
    }

    /// A's share in each fortieth of the run.
    fn course(&self, outcome: &Outcome) -> Vec<(f64, f64)> {
        let step = self.counted[1] / 40;
        let starts = (0..40).map(|at| at * step);
        starts.map(|at| (at as f64 + step as f64 / 2.0, share(outcome, at, at + step))).collect()
    }
}

fn measure(seed: u64) -> Sample {
    let starts = |name, scheduler| Starts::new(name, scheduler, SMALL, seed);
    let plain = |name| starts(name, Scheduler::plain(name));
    let loops = [plain("reward"), plain("reward-service")];
    let ours = Starts::ours("disktime, one price, ten minutes", cached_servers::OURS, seed);
    let calm = [plain("proportional"), ours];
    let name = |of: &Starts| format!("{}: A's share, warm for A less warm for B, points", of.name);
    let mut checks: Vec<Check> =
        loops.iter().map(|of| Check::at_least(name(of), of.apart(), 50.0)).collect();
    checks.extend(calm.iter().map(|of| Check::deviation(name(of), of.apart(), 2.0)));
    checks.push(Check::at_least(
        "reward's total by proportional's: what the loop wins",
        loops[0].total() / calm[0].total(),
        2.0,
    ));
    let sweep = ["reward", "proportional"].map(|name| {
        SIZES.map(|lines| (lines, Starts::new(name, Scheduler::plain(name), lines, seed)))
    });
    let both = sweep[0].last().map_or(0.0, |(_, starts)| starts.apart());
    checks.push(Check::deviation("reward, both working sets fit: the same, points", both, 2.0));
    let all = loops.iter().chain(&calm).chain(sweep.iter().flatten().map(|(_, of)| of));
    let all: Vec<&Starts> = all.collect();
    let seconds: u64 = all.iter().map(|of| 2 * of.counted[1]).sum();
    let outcomes: Vec<&Outcome> = all.iter().flat_map(|of| &of.outcomes).collect();
    checks.push(cached_servers::kept(&outcomes));
    let by_size = Panel {
        title: "Gain from the start, by the cache's size".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("lines of the cache (a working set has 500)"),
        y: Axis::linear("A's share, warm for A less warm for B (points)"),
        series: sweep
            .iter()
            .map(|runs| {
                let points = runs.iter().map(|(lines, of)| (*lines as f64, of.apart()));
                Series::new(runs[0].1.name, points)
            })
            .collect(),
        level: None,
    };
    let courses = loops.iter().chain(&calm).map(Starts::panel);
    Sample { seconds: seconds as f64, panels: courses.chain([by_size]).collect(), checks }
}

/// A's part of all requests, in per cent.
fn share(outcome: &Outcome, from: u64, to: u64) -> f64 {
    let [a, b] = [0, 1].map(|stream| cached_servers::iops(outcome, stream, from, to));
    a / (a + b) * 100.0
}
