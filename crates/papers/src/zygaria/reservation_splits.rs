//! The paper's experiment (§4.1), once, with every parameter that the figures share.

use super::elevator::{Elevator, Order};
use crate::claims;
use crate::experiment::{Check, Sample};
use crate::mounted_figures::{SEED, Start};
use crate::open::Open;
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::{Device, preset};
use disktime_report::chart::{Axis, Series};
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

/// IBM Deskstar 34GXP (§4.1).
pub(super) const DISK: &str = "deskstar-34gxp";
/// Bytes of a request (§4.1).
const REQUEST_BYTES: u64 = 4096;
/// "1024 sequential requests before a request at a new random location" (§4.2).
const RUN_LENGTH: u32 = 1024;
/// "A fixed number of outstanding requests" (§4.1), lost; enough that no queue gets empty with 20 at
/// the driver.
pub(super) const OUTSTANDING: u32 = 32;

/// The number above as one that the paper leaves open: a figure's checks for each.
pub(super) const fn outstanding(measure: fn(u64, f64) -> Sample) -> Open {
    Open {
        name: "requests outstanding of each stream",
        values: &[24.0, 32.0, 48.0, 64.0, 128.0],
        shown: 32.0,
        stated: false,
        why: "more than the 20 at the driver, so that no queue is empty; a load generator's usual limits",
        measure,
    }
}
/// Seconds of a run (§4.2).
pub(super) const SECONDS: u64 = 85;
/// Requests at the driver, throughput version (§3).
const THROUGHPUT_DEPTH: u32 = 20;
/// "A measured nominal (worst-case) throughput of 60 IOPS" (§4.1).
pub(super) const NOMINAL_IOPS: u32 = 60;
/// "The measured throughput of the disk we were using was 68 IOPS" (§4.3).
pub(super) const RANDOM_IOPS: f64 = 68.0;
/// Half a second (§4.4).
pub(super) const SAMPLE: Duration = Duration::from_millis(500);
/// The sequential stream's reservation, in per cent.
const SPLITS: [u32; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

pub(super) const RESERVED: Axis = Axis::linear("reserved for the sequential stream (%)");

/// For the page.
pub(super) fn parameters() -> Vec<(&'static str, String)> {
    let CostParameters { sequential, random, .. } = CostParameters::default();
    vec![
        ("disk", format!("{DISK}, one command at a time")),
        ("requests", format!("{REQUEST_BYTES} bytes, reads, over the whole disk")),
        ("streams", format!("random; sequential in runs of {RUN_LENGTH}, then a jump")),
        ("pace", format!("closed loop, {OUTSTANDING} outstanding per stream, no think time")),
        ("length", format!("{SECONDS} s (figure 11: 60 s)")),
        ("utilization version", "policy zygaria, 1 request at the disk".to_owned()),
        ("estimates", format!("sequential {sequential:?}, random {random:?}")),
        (
            "throughput version",
            format!(
                "policy zygaria-iops, nominal {NOMINAL_IOPS} IOPS, {THROUGHPUT_DEPTH} requests at \
                 a driver that continues a sequential run first, else serves in order of arrival"
            ),
        ),
        ("period, usage average", "1 s, 3 s".to_owned()),
    ]
}

/// Which of the paper's two schedulers.
#[expect(clippy::large_enum_variant, reason = "there is one in a run")]
#[derive(Clone, Copy, Debug)]
pub(super) enum Version {
    Utilization(CostParameters),
    Throughput { nominal_iops: u32, order: Order },
}

impl Version {
    pub(super) fn utilization() -> Self {
        Self::Utilization(CostParameters::default())
    }

    pub(super) fn throughput() -> Self {
        Self::nominal(NOMINAL_IOPS)
    }

    pub(super) fn nominal(nominal_iops: u32) -> Self {
        Self::Throughput { nominal_iops, order: Order::Arrival }
    }

    fn device(self, seed: u64) -> Box<dyn Device> {
        let disk = preset::find(DISK).expect("the paper's disk is a preset");
        let disk = (disk.build)(seed);
        match self {
            Self::Utilization(_) => disk,
            Self::Throughput { order, .. } => {
                Box::new(Elevator::new(disk, THROUGHPUT_DEPTH, order))
            }
        }
    }
}

/// A request stream on its virtual disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) reserve_percent: u32,
    pub(super) pattern: Pattern,
    /// Seconds at which it starts and stops; never, if that is `None`.
    pub(super) active: (u64, Option<u64>),
    /// Requests that it keeps outstanding.
    pub(super) outstanding: u32,
}

impl Load {
    pub(super) fn random(reserve_percent: u32) -> Self {
        let (name, pattern) = ("random", Pattern::Random);
        Self { name, reserve_percent, pattern, active: (0, None), outstanding: OUTSTANDING }
    }

    pub(super) fn sequential(reserve_percent: u32) -> Self {
        Self::runs(reserve_percent, RUN_LENGTH)
    }

    pub(super) fn runs(reserve_percent: u32, length: u32) -> Self {
        let (name, pattern) = ("sequential", Pattern::Runs { length });
        Self { name, reserve_percent, pattern, active: (0, None), outstanding: OUTSTANDING }
    }

    /// The same with so many requests outstanding.
    pub(super) fn keeping(self, outstanding: f64) -> Self {
        Self { outstanding: whole(outstanding), ..self }
    }

    fn plan(&self, capacity_bytes: u64, (seed, begin): (u64, Instant)) -> StreamPlan {
        let (start, stop) = self.active;
        let phase = Phase {
            start: Duration::from_secs(start),
            stop: stop.map(Duration::from_secs),
            spec: Spec::reads(
                self.pattern,
                Extent { start: 0, end: capacity_bytes },
                REQUEST_BYTES,
            ),
            pace: Pace::Closed { outstanding: self.outstanding, think: Duration::ZERO },
        };
        let phases = Phases::new(vec![phase], seed, self.name, begin);
        let share = Share::from_percent(self.reserve_percent).expect("at most 100 %");
        StreamPlan {
            name: self.name.to_owned(),
            contract: Contract::reserving(share),
            base: 0,
            parent: None,
            extent: None,
            traffic: phases.expect("the paper's loads make sense").into(),
        }
    }
}

/// Runs loads side by side.
pub(super) fn run(version: Version, loads: &[Load], seconds: u64, seed: u64) -> Outcome {
    simulate(plan(version, loads, seconds, seed)).expect("the paper's plans can be run")
}

/// As [`run`], and decisions are recorded between two times.
pub(super) fn run_logged(
    version: Version,
    loads: &[Load],
    seconds: u64,
    log: (Instant, Instant),
    seed: u64,
) -> Outcome {
    let plan = Plan { decisions: Some(log), ..plan(version, loads, seconds, seed) };
    simulate(plan).expect("the paper's plans can be run")
}

fn plan(version: Version, loads: &[Load], seconds: u64, seed: u64) -> Plan {
    plan_from(version, loads, seconds, (seed, Instant::ZERO))
}

/// The plan of loads under the utilization version, for a mount: each has the whole disk as its file.
pub(super) fn mounted(loads: &[Load], start: Start) -> Plan {
    let from = (SEED + start.placement, start.begin);
    let mut plan = plan_from(Version::utilization(), loads, SECONDS, from);
    let disk = (0, plan.device.capacity_bytes());
    plan.streams.iter_mut().for_each(|stream| stream.extent = Some(disk));
    plan
}

fn plan_from(
    version: Version,
    loads: &[Load],
    seconds: u64,
    (seed, begin): (u64, Instant),
) -> Plan {
    let device = version.device(seed);
    let capacity = device.capacity_bytes();
    let (policy, cost, nominal_iops) = match version {
        Version::Utilization(cost) => ("zygaria", cost, NOMINAL_IOPS),
        Version::Throughput { nominal_iops, .. } => {
            ("zygaria-iops", CostParameters::default(), nominal_iops)
        }
    };
    Plan {
        depth: device.queue_depth(),
        device,
        profile: None,
        scheduling: Scheduling { nominal_iops, ..Scheduling::new(policy, "fixed") },
        cost,
        reports: Vec::new(),
        streams: loads.iter().map(|load| load.plan(capacity, (seed, begin))).collect(),
        changes: Vec::new(),
        duration: Duration::from_secs(seconds),
        window: SAMPLE,
        decisions: None,
    }
}

/// A stream's results over a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Got {
    /// Per cent of the disk's time.
    pub(super) percent: f64,
    pub(super) iops: f64,
}

pub(super) fn got(outcome: &Outcome, stream: usize, seconds: u64) -> Got {
    let counters = outcome.streams[stream].counters;
    let seconds = seconds as f64;
    Got {
        percent: counters.charged.as_secs_f64() / seconds * 100.0,
        iops: counters.completed as f64 / seconds,
    }
}

/// A sequential and a random stream that reserve the whole disk together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// The sequential stream's reservation; the random one reserves the rest.
    pub(super) reserved: f64,
    pub(super) sequential: Got,
    pub(super) random: Got,
    violations: usize,
}

fn split(version: Version, percent: u32, outstanding: f64, seed: u64) -> Split {
    let loads = [Load::sequential(percent), Load::random(100 - percent)];
    let loads = loads.map(|load| load.keeping(outstanding));
    let outcome = run(version, &loads, SECONDS, seed);
    Split {
        reserved: f64::from(percent),
        sequential: got(&outcome, 0, SECONDS),
        random: got(&outcome, 1, SECONDS),
        violations: outcome.violations.len(),
    }
}

/// All splits, from 0 to 100 % for the sequential stream.
pub(super) struct Sweep(pub(super) Vec<Split>);

impl Sweep {
    pub(super) fn new(version: Version, seed: u64) -> Self {
        Self::keeping(f64::from(OUTSTANDING), version, seed)
    }

    /// As [`Self::new`], with so many requests outstanding of each stream.
    pub(super) fn keeping(outstanding: f64, version: Version, seed: u64) -> Self {
        Self(SPLITS.map(|percent| split(version, percent, outstanding, seed)).to_vec())
    }

    pub(super) fn seconds(&self) -> f64 {
        self.0.len() as f64 * SECONDS as f64
    }

    pub(super) fn series(&self, name: &str, y: impl Fn(&Split) -> f64) -> Series {
        Series::new(name, self.0.iter().map(|split| (split.reserved, y(split))))
    }

    /// The parts of the disk, or of requests, that the sequential stream and the random one got.
    pub(super) fn both(&self, y: impl Fn(&Got) -> f64) -> Vec<Series> {
        vec![
            self.series("sequential", |split| y(&split.sequential)),
            self.series("random", |split| y(&split.random)),
        ]
    }

    /// The farthest that a stream's share of disk time is from what it reserves, in points.
    pub(super) fn worst_points(&self) -> f64 {
        self.worst_points_sequential().max(self.worst_points_random())
    }

    pub(super) fn worst_points_sequential(&self) -> f64 {
        self.largest(|split| (split.sequential.percent - split.reserved).abs())
    }

    pub(super) fn worst_points_random(&self) -> f64 {
        self.largest(|split| (split.random.percent - (100.0 - split.reserved)).abs())
    }

    pub(super) fn largest(&self, value: impl Fn(&Split) -> f64) -> f64 {
        self.0.iter().map(value).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The results of the splits within these reservations.
    pub(super) fn part(&self, reserved: std::ops::RangeInclusive<f64>) -> Self {
        let within = self.0.iter().filter(|split| reserved.contains(&split.reserved));
        Self(within.copied().collect())
    }

    pub(super) fn violations(&self) -> usize {
        self.0.iter().map(|split| split.violations).sum()
    }
}

/// A count that a range states.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges of counts hold small whole numbers"
)]
pub(super) fn whole(value: f64) -> u32 {
    value as u32
}

/// The least growth from one value to the next, in per cent of it; above 0 they rise throughout.
pub(super) fn least_growth(values: &[f64]) -> f64 {
    let growth = values.windows(2).map(|pair| (pair[1] / pair[0] - 1.0) * 100.0);
    growth.fold(f64::INFINITY, f64::min)
}

/// The simulator's own checkers: shares, limits, guarantees, conservation.
pub(super) fn kept(violations: usize) -> Check {
    claims::kept(violations)
}
