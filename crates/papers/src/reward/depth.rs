//! Our own: each workload's depth at the array by a control law after PARDA, as the paper's section 5
//! wishes.

use super::cached_servers::{self, Load, Scheduler};
use crate::experiment::{Check, Experiment, Sample};
use disktime_config::{DepthLaw, DepthTerms};
use disktime_core::{Duration, Share};
use disktime_model::tiered::HitRatio;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Outcome, simulate, simulate_steered};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reward-depth",
    title: "Depth by latency: A always hits, B hits with 0.2; threshold 40 ms",
    claim: "Ours: a law for each workload's depth shortens the queue at the array without loss",
    note: "The law is PARDA's, for each workload at one array instead of for each host. Its part for each \
           is one slot, the span a second. B meets the disk's queue, and holds back; A never does. \
           B's requests that may not wait at the array wait before it. Without the law both tiers are \
           busy, so that requests enter each as often as they leave it: the array's 32 wander between \
           the two queues without drift, half of them at the disk on average. Four fifths of B's \
           requests meet those 16, for 10 ms each: B should take 128 ms at the array.",
    reason: "",
    open: &[],
    measure,
};

/// B's mean response at the array without the law, in ms, as the note derives it; and the
/// part of it by which it may be off.
const WITHOUT_MS: f64 = 0.8 * (cached_servers::DEPTH / 2) as f64 * 10.0;
const WITHOUT_PART: f64 = 0.2;
/// L: four services of the disk, so that it never waits for work.
const THRESHOLD: Duration = Duration::from_millis(40);
/// γ, per cent: four fifths of the way in a span.
const GAMMA: u32 = 80;
const PART: u32 = 1000;
const SPAN: Duration = Duration::from_secs(1);
const SECONDS: u64 = 120;
/// Until windows have settled.
const SETTLED: u64 = 20;
const HITS: [u32; 2] = [100, 20];

fn measure(seed: u64) -> Sample {
    let loads = ["A", "B"].map(|name| Load::reads(name, 100));
    let plan = || {
        let ends = (1..).map(|end| end * cached_servers::REGION_BYTES);
        let hits = ends.zip(HITS.map(|percent| percent * 10_000)).collect();
        let array = cached_servers::tiers(HitRatio::by_region(hits, seed), seed);
        cached_servers::plan(Scheduler::plain("reward"), array, &loads, SECONDS, seed)
    };
    let gamma = Share::from_percent(GAMMA).expect("a part of the whole");
    let terms =
        DepthTerms { threshold: THRESHOLD, gamma, part: PART, depth_max: cached_servers::DEPTH };
    let law = DepthLaw::new(terms).expect("numbers in range");
    let without = simulate(plan()).expect("the paper's plans can be run");
    let steered = simulate_steered(plan(), vec![law; 2], SPAN);
    let (with, depths) = steered.expect("the paper's plans can be run");

    let iops = |outcome: &Outcome, stream| cached_servers::iops(outcome, stream, SETTLED, SECONDS);
    let by = |stream| iops(&with, stream) / iops(&without, stream);
    let response = |outcome: &Outcome, stream| {
        let windows = outcome.windows.iter().filter(|window| {
            window.stream.0 as usize == stream && u64::from(window.index) >= SETTLED
        });
        let (sum, count) = windows.fold((0.0, 0.0), |(sum, count), window| {
            let requests = window.requests as f64;
            (sum + window.service_mean.as_secs_f64() * 1e3 * requests, count + requests)
        });
        sum / count
    };
    let checks = vec![
        Check::near(
            "without the law: B's mean response at the array, ms",
            WITHOUT_MS,
            response(&without, 1),
            WITHOUT_PART * WITHOUT_MS,
        ),
        Check::near("with it: B's mean response at the array, ms", 40.0, response(&with, 1), 12.0),
        Check::at_least("B's IOPS with it by those without", by(1), 0.95),
        Check::at_least("A's IOPS with it by those without", by(0), 0.95),
        cached_servers::kept(&[&without, &with]),
    ];
    let course = |stream: usize, name: &str| {
        let points = depths.iter().enumerate();
        Series::new(name, points.map(|(at, depths)| (at as f64 + 1.0, f64::from(depths[stream]))))
    };
    let panel = Panel {
        title: "Depths by the law".to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("requests allowed at the array"),
        series: vec![course(0, "A"), course(1, "B")],
        level: None,
    };
    Sample { seconds: 2.0 * SECONDS as f64, panels: vec![panel], checks }
}
