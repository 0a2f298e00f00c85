//! The paper's experiments (§4), once, with every parameter that the figures share.

use super::tier_times::TierTimes;
use crate::claims;
use crate::experiment::{Check, Sample};
use crate::live_figures::Live;
use crate::open::Open;
use disktime_config::Scheduling;
use disktime_core::cost::{CostParameters, Price};
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::Device;
use disktime_model::exponential::{Exponential, ExponentialSpec, Service};
use disktime_model::tiered::{Placement, Tiered};
use disktime_report::chart::Series;
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

/// Mean service of the fast tier (§4).
pub(super) const SSD: Duration = Duration::from_micros(200);
/// Mean service of the slow tier (§4).
pub(super) const HD: Duration = Duration::from_millis(10);
/// Mean service of a write of the fast tier in figure 3: lost; that of a read is the paper's.
pub(super) const WRITE: Duration = Duration::from_micros(400);
/// Both tiers.
pub(super) const TIERS: TierTimes = TierTimes { fast: SSD, slow: HD };
/// Requests at the array: the value of the independent simulation of algorithm 1 that agrees with
/// the published tables.
pub(super) const DEPTH: u32 = 32;
/// "A backlog of 100 requests at all times" (§4): what waits, beside what the array has.
const WAITING: u32 = 100;

/// The number above as one that the paper leaves open: a figure's checks for each.
pub(super) const fn depth(measure: fn(u64, f64) -> Sample) -> Open {
    Open {
        name: "requests at the array",
        values: &[24.0, 32.0, 48.0, 64.0, 100.0],
        shown: 32.0,
        stated: true,
        why: "32 is that of an independent simulation of algorithm 1; below 24 the disk idles, and \
              the backlog is 100",
        measure,
    }
}

/// A depth that a range states.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges of depths hold small whole numbers"
)]
pub(super) fn whole(value: f64) -> u32 {
    value as u32
}
/// Bytes of a request; the paper's have no size that counts.
pub(super) const REQUEST_BYTES: u64 = Live::REQUEST_BYTES;
/// Each stream has a region of the device of its own.
pub(super) const REGION_BYTES: u64 = 1 << 38;
const CAPACITY_BYTES: u64 = 1 << 41;
/// The windows of the metrics.
pub(super) const WINDOW: Duration = Duration::from_secs(1);

/// For the page.
pub(super) fn parameters() -> Vec<(&'static str, String)> {
    vec![
        (
            "array",
            format!(
                "two servers side by side, each first come, first served: SSD {SSD:?} and HD \
                 {HD:?}, exponential; up to {DEPTH} requests"
            ),
        ),
        ("pace", "each workload has 100 requests waiting at all times".to_owned()),
        ("policy", "reward, N = 100; proportional in place of CFQ".to_owned()),
        ("writes of the SSD (figure 3)", format!("{WRITE:?}: lost")),
    ]
}

/// A server whose requests take so long on average.
pub(super) fn server(
    read_mean: Duration,
    write_mean: Duration,
    service: Service,
    seed: u64,
) -> Box<dyn Device> {
    let (capacity_bytes, queue_depth) = (CAPACITY_BYTES, 1024);
    let spec = ExponentialSpec { capacity_bytes, queue_depth, read_mean, write_mean, service };
    Box::new(Exponential::new(spec, seed))
}

/// The paper's array.
pub(super) fn tiers(placement: impl Placement + 'static, seed: u64) -> Box<dyn Device> {
    // Apart from each other's and from the workloads' random numbers.
    let seeds = [1, 2].map(|tier| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(tier));
    let fast = server(SSD, SSD, Service::Exponential, seeds[0]);
    let slow = server(HD, HD, Service::Exponential, seeds[1]);
    Box::new(Tiered::new(fast, slow, Box::new(placement)))
}

/// A workload's requests; the part of them that is reads may change.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) weight: u32,
    pub(super) reserve: Share,
    /// Bytes of its region that it uses.
    pub(super) bytes: u64,
    /// Second of the start, and reads per thousand from then on.
    pub(super) reads: Vec<(u64, u16)>,
}

impl Load {
    /// Reads all over its region.
    pub(super) fn reads(name: &'static str, weight: u32) -> Self {
        let reserve = Share::ZERO;
        Self { name, weight, reserve, bytes: REGION_BYTES, reads: vec![(0, 1000)] }
    }

    pub(super) fn plan(&self, index: u64, depth: u32, seed: u64) -> StreamPlan {
        let start = index * REGION_BYTES;
        let extent = Extent { start, end: start + self.bytes };
        let stops = self.reads.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
        let phases = self.reads.iter().zip(stops).map(|(&(from, reads_permille), stop)| Phase {
            start: Duration::from_secs(from),
            stop: stop.map(Duration::from_secs),
            spec: Spec { reads_permille, ..Spec::reads(Pattern::Random, extent, REQUEST_BYTES) },
            pace: Pace::Closed { outstanding: WAITING + depth, think: Duration::ZERO },
        });
        let phases = Phases::new(phases.collect(), seed, self.name, Instant::ZERO);
        StreamPlan {
            name: self.name.to_owned(),
            contract: Contract { weight: self.weight, ..Contract::reserving(self.reserve) },
            base: 0,
            parent: None,
            extent: None,
            traffic: phases.expect("the paper's loads make sense").into(),
        }
    }
}

/// How requests are scheduled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduler {
    pub(super) policy: &'static str,
    pub(super) cost_model: &'static str,
    pub(super) cost: CostParameters,
    pub(super) depth: u32,
}

impl Scheduler {
    /// A policy that needs no costs.
    pub(super) fn plain(policy: &'static str) -> Self {
        let cost = CostParameters::default();
        Self { policy, cost_model: "fixed", cost, depth: DEPTH }
    }
}

/// The cost model of our own scheduler where it shall be exact: prices stated for each workload.
/// `reward-learned` has the same over learned ones.
pub(super) const OURS: &str = "priced";

/// The cost of a request when its workload runs alone at the array's best depth: the time of the
/// busier tier.
pub(super) fn price(hits_percent: u32) -> Price {
    let hits = Share::from_percent(hits_percent).expect("a part of the whole");
    Price { each: TIERS.cost(hits), ..Price::default() }
}

/// `disktime` over a cost model, for workloads that hit with so many per cent.
pub(super) fn ours(cost_model: &'static str, hits: &[u32]) -> Scheduler {
    let mut cost = CostParameters::default();
    for (price, hits) in cost.prices.iter_mut().zip(hits) {
        *price = self::price(*hits);
    }
    Scheduler { cost_model, cost, ..Scheduler::plain("disktime") }
}

/// Runs loads side by side.
pub(super) fn run(
    scheduler: Scheduler,
    device: Box<dyn Device>,
    loads: &[Load],
    seconds: u64,
    seed: u64,
) -> Outcome {
    simulate(plan(scheduler, device, loads, seconds, seed)).expect("the paper's plans can be run")
}

/// Loads side by side, to be run.
pub(super) fn plan(
    scheduler: Scheduler,
    device: Box<dyn Device>,
    loads: &[Load],
    seconds: u64,
    seed: u64,
) -> Plan {
    Plan {
        device,
        profile: None,
        scheduling: Scheduling::new(scheduler.policy, scheduler.cost_model),
        cost: scheduler.cost,
        reports: Vec::new(),
        depth: scheduler.depth,
        streams: (0..)
            .zip(loads)
            .map(|(index, load)| load.plan(index, scheduler.depth, seed))
            .collect(),
        changes: Vec::new(),
        duration: Duration::from_secs(seconds),
        window: WINDOW,
        decisions: None,
    }
}

/// Requests per second of a stream from one second to another.
pub(super) fn iops(outcome: &Outcome, stream: usize, from: u64, to: u64) -> f64 {
    let windows = outcome.windows.iter().filter(|window| {
        window.stream.0 as usize == stream && (from..to).contains(&u64::from(window.index))
    });
    windows.map(|window| window.requests as f64).sum::<f64>() / (to - from) as f64
}

/// The same for every `step` seconds, in the middle of them.
pub(super) fn course(outcome: &Outcome, stream: usize, seconds: u64, step: u64) -> Series {
    let starts = (0..seconds / step).map(|index| index * step);
    let points =
        starts.map(|at| (at as f64 + step as f64 / 2.0, iops(outcome, stream, at, at + step)));
    Series::new(&outcome.streams[stream].name, points)
}

/// The simulator's own checkers.
pub(super) fn kept(outcomes: &[&Outcome]) -> Check {
    let broken: usize = outcomes.iter().map(|outcome| outcome.violations.len()).sum();
    claims::kept(broken)
}
