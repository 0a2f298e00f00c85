//! The paper's experiments (§4), once, with every parameter that the figures share.

use super::pauses::Pauses;
use super::striped::{Ledger, STREAM_STEP, Striped, Took};
use crate::claims;
use crate::experiment::Check;
use crate::mounted_figures::{SEED, Start};
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share, StreamId};
use disktime_model::Device;
use disktime_model::disk::{Disk, DiskSpec, Order, Overhead};
use disktime_model::elevator::Elevator;
use disktime_model::exponential::{Exponential, ExponentialSpec, Service};
use disktime_model::preset::{self, Parameters, Preset};
use disktime_model::raid0::Raid0;
use disktime_model::tiered::{Cached, Tiered};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, SizeWeight, Spec, Stream};

/// "A large number of requests queued up (e.g., 200)" (§4.1): at the device, its elevator included.
pub(super) const PENDING: u32 = 200;
/// Requests outstanding of each stream: no queue gets empty with all of 200 at the device.
pub(super) const OUTSTANDING: u32 = 300;
/// §4.1.
const REQUEST_BYTES: u64 = 4096;
/// "8KB" on RAID 0 (§4.1), chunks of 4 KB (§4.4).
const RAID_REQUEST_BYTES: u64 = 8192;
const RAID_CHUNK_BYTES: u64 = 4096;
const RAID_DISKS: u64 = 2;
/// Before each command that the buffer serves, whatever the disk's queue: the paper's disks are not
/// known.
const HIT_US: u64 = 120;
const MEDIA_US: u64 = 500;
/// The preset's.
const AGING_PERMILLE: u32 = 60;
/// Random and sequential requests by turns, of a day (§4.5).
const DAY_CYCLES: [(u32, u32); 3] = [(1, 199), (2, 198), (4, 196)];
/// Seconds of such a turn.
const DAY_TURN: u64 = 10;
const DAY_BYTES: [u64; 2] = [32 << 10, 64 << 10];
/// 512 MiB.
const CACHE_LINES: usize = 8192;
const CACHE_LINE_BYTES: u64 = 64 << 10;
const CACHE_HIT_US: u64 = 10;
/// The length of a run of a fixed set of targets.
pub(super) const SECONDS: u64 = 60;
/// When averages begin: the estimates have converged (§4.2 shows that they do; `qbox-7` by when).
pub(super) const SETTLED: u64 = 20;
/// The windows of the metrics and of the disks' ledger.
pub(super) const SPAN: Duration = Duration::from_secs(1);
/// Into how many regions the device is divided: each sequential stream has its own.
const REGIONS: u64 = 8;

pub(super) const TIME: Axis = Axis::linear("time (s)");

/// For the page.
pub(super) fn parameters() -> Vec<(&'static str, String)> {
    vec![
        (
            "disks",
            format!(
                "nearline-7200, {HIT_US} us before each command from its buffer, queue of 1, or of 31 \
                 served by shortest access time with aging of {AGING_PERMILLE} per thousand"
            ),
        ),
        ("elevator", format!("Linux's deadline, up to {PENDING} requests before each disk")),
        ("outstanding", format!("{PENDING} at the device, {OUTSTANDING} asked by each stream")),
        (
            "requests",
            format!(
                "reads of {REQUEST_BYTES} bytes, dealt out whole; {RAID_REQUEST_BYTES} on RAID 0 of \
                 {RAID_DISKS} disks in chunks of {RAID_CHUNK_BYTES}"
            ),
        ),
        (
            "policy",
            "qbox; windows of 100 ms, ten to intersect with, ratios of 10 to 1000".to_owned(),
        ),
        ("first estimates", "1 ms and 10 ms".to_owned()),
        ("throughput-based", "policy sfq, each request counting the same".to_owned()),
        ("utilization", "a stream's part of the disks' service times".to_owned()),
    ]
}

/// The scheduler whose requests are judged: QBox as published, whose estimator is biased, and the
/// product's own policy over costs that it learns from streams that have the device to themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    QBox,
    Learned,
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Under {
    Column(Column),
    /// Shares of requests: what the paper compares with.
    Throughput,
    /// "In the order they are received" (figure 4).
    Fifo,
}

/// QBox's shares may be off by so many points: its bias is shown, not judged.
const BIASED_POINTS: f64 = 15.0;

impl Column {
    pub(super) const ALL: [Self; 2] = [Self::QBox, Self::Learned];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::QBox => "qbox",
            Self::Learned => "learned",
        }
    }

    /// A share in per cent that should be `target`, to so many points under `learned`.
    pub(super) fn share(self, what: &str, target: f64, measured: f64, learned: f64) -> Check {
        let points = match self {
            Self::QBox => BIASED_POINTS.max(learned),
            Self::Learned => learned,
        };
        Check::near(format!("{}: {what}, % of disk time", self.name()), target, measured, points)
    }

    /// The error of a cost estimate, in per cent, with its sign; `learned` must be within so many.
    pub(super) fn off(self, what: &str, measured: f64, learned: f64) -> Check {
        let name = format!("{}: {what}, % off", self.name());
        match self {
            Self::QBox => Check::reported(name + ": its bias", 0.0, measured),
            Self::Learned => Check::near(name, 0.0, measured, learned),
        }
    }
}

/// A stream and its share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) percent: u32,
    pub(super) pattern: Pattern,
    /// Second of its start.
    pub(super) start: u64,
    /// In place of the pattern: the day of a file server with this number.
    pub(super) day: Option<u32>,
}

impl Load {
    pub(super) const fn new(name: &'static str, percent: u32, pattern: Pattern) -> Self {
        Self { name, percent, pattern, start: 0, day: None }
    }

    pub(super) const fn sequential(name: &'static str, percent: u32) -> Self {
        Self::new(name, percent, Pattern::Sequential)
    }

    pub(super) const fn random(name: &'static str, percent: u32) -> Self {
        Self::new(name, percent, Pattern::Random)
    }

    pub(super) const fn semi(name: &'static str, percent: u32, cycle: (u32, u32)) -> Self {
        let (random, sequential) = cycle;
        Self::new(name, percent, Pattern::SemiSequential { random, sequential })
    }

    /// "Semi-sequential traces of email and workloads from engineering" (§4.5), reads of "32KB or
    /// 64KB" (§4.1).
    pub(super) const fn day(name: &'static str, percent: u32, day: u32) -> Self {
        let load = Self::semi(name, percent, DAY_CYCLES[0]);
        Self { day: Some(day), ..load }
    }

    /// Its requests, from `start` to `end`.
    fn phases(&self, extent: Extent, bytes: u64, seconds: u64) -> Vec<Phase> {
        let pace = Pace::Closed { outstanding: OUTSTANDING, think: Duration::ZERO };
        let start = Duration::from_secs(self.start);
        let Some(day) = self.day else {
            let spec = Spec::reads(self.pattern, extent, bytes);
            return vec![Phase { start, ..Phase::always(spec, pace) }];
        };
        let turn = |index: u64| {
            let cycle = (index + u64::from(day)) % DAY_CYCLES.len() as u64;
            let (random, sequential) = DAY_CYCLES[as_index(cycle)];
            let pattern = Pattern::SemiSequential { random, sequential };
            let sizes = DAY_BYTES.map(|bytes| SizeWeight { bytes, weight: 1 }).to_vec();
            let spec = Spec { sizes, ..Spec::reads(pattern, extent, bytes) };
            let start = Duration::from_secs(index * DAY_TURN);
            Phase { start, stop: Some(start + Duration::from_secs(DAY_TURN)), spec, pace }
        };
        (0..seconds.div_ceil(DAY_TURN)).map(turn).collect()
    }

    pub(super) fn contract(percent: u32) -> Contract {
        let share = Share::from_percent(percent).expect("at most 100 %");
        // A policy that shares by weight alone goes by it, too.
        Contract { weight: (percent * 10).max(1), ..Contract::reserving(share) }
    }
}

/// The storage device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    /// Requests dealt out over so many disks: every disk's time is known.
    Striped(usize),
    Raid0 {
        /// Behind a cache in memory.
        cached: bool,
    },
}

/// An experiment.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) storage: Storage,
    pub(super) disk_depth: u32,
    pub(super) loads: Vec<Load>,
    /// Second, and every stream's share from then on.
    pub(super) changes: Vec<(u64, Vec<u32>)>,
    pub(super) pauses: bool,
    pub(super) seconds: u64,
    /// Microseconds before each command that a disk's buffer serves.
    pub(super) hit_us: f64,
    /// Aging in the order of a disk's queue, per thousand.
    pub(super) aging: f64,
}

impl Set {
    pub(super) fn striped(disks: usize, loads: &[Load]) -> Self {
        Self {
            storage: Storage::Striped(disks),
            disk_depth: 1,
            loads: loads.to_vec(),
            changes: Vec::new(),
            pauses: false,
            seconds: SECONDS,
            hit_us: HIT_US as f64,
            aging: f64::from(AGING_PERMILLE),
        }
    }

    pub(super) fn raid0(disk_depth: u32, loads: &[Load], seconds: u64) -> Self {
        Self {
            storage: Storage::Raid0 { cached: false },
            disk_depth,
            seconds,
            ..Self::striped(1, loads)
        }
    }
}

/// The result of a run.
pub(super) struct Run {
    pub(super) outcome: Outcome,
    ledger: Ledger,
    seconds: u64,
}

fn disk(set: &Set) -> DiskSpec {
    let hit = Duration::from_micros(u64::from(whole(set.hit_us)));
    let overhead = Overhead::plain(Duration::from_micros(MEDIA_US), hit);
    let order = Order::Satf { aging_permille: whole(set.aging) };
    DiskSpec { queue_depth: set.disk_depth, overhead, order, ..preset::nearline_7200() }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges hold small whole numbers"
)]
fn whole(value: f64) -> u32 {
    value as u32
}

/// The two numbers of the disks that the paper leaves open, for a figure that is shown by `$of`.
macro_rules! open {
    ($of:path) => {
        $crate::open::varied!(
            |seed, with| $of(seed, with),
            Set,
            [
                {
                    hit_us: "before each command that a disk's buffer serves, us",
                    [40.0, 80.0, 120.0, 160.0, 200.0],
                    shown 120.0, stated false,
                    "command and interrupt of SATA disks of 2005 to 2010",
                },
                {
                    aging: "aging in the order of the disks' queue, per thousand",
                    [0.0, 30.0, 60.0, 90.0, 120.0],
                    shown 60.0, stated false,
                    "from none to twice the preset's, which is calibrated to random reads",
                },
            ]
        )
    };
}
pub(super) use open;

/// A disk behind the operating system's elevator.
fn behind_elevator(set: &Set, seed: u64, index: u64) -> Box<dyn Device> {
    let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index);
    Box::new(Elevator::new(Box::new(Disk::new(disk(set), seed)), PENDING))
}

/// The file system's cache (§4.6): what is read goes there in lines, from where it is served at once.
fn behind_cache(raid: Raid0, seed: u64) -> Box<dyn Device> {
    let time = Duration::from_micros(CACHE_HIT_US);
    let memory = Exponential::new(
        ExponentialSpec {
            capacity_bytes: raid.capacity_bytes(),
            queue_depth: PENDING,
            read_mean: time,
            write_mean: time,
            service: Service::Constant,
        },
        seed,
    );
    let cached = Cached::new(CACHE_LINES, CACHE_LINE_BYTES);
    Box::new(Tiered::new(Box::new(memory), Box::new(raid), Box::new(cached)))
}

/// Runs a set.
pub(super) fn run(set: &Set, under: Under, seed: u64) -> Run {
    run_joined(set, under, seed, None)
}

/// As [`run`], with the first stream's requests from elsewhere.
pub(super) fn run_joined(set: &Set, under: Under, seed: u64, first: Option<Stream>) -> Run {
    let member = |index| behind_elevator(set, seed, index);
    let mut ledger = Ledger::default();
    let device: Box<dyn Device> = match set.storage {
        Storage::Striped(disks) => {
            let members = (0..disks as u64).map(member).collect();
            let striped = Striped::new(members, set.loads.len(), SPAN);
            ledger = striped.ledger();
            Box::new(striped)
        }
        Storage::Raid0 { cached } => {
            let raid = Raid0::new((0..RAID_DISKS).map(member).collect(), RAID_CHUNK_BYTES);
            if cached { behind_cache(raid, seed) } else { Box::new(raid) }
        }
    };
    let device = if set.pauses { Box::new(Pauses::new(device, seed)) } else { device };
    let mut streams = streams(set, device.capacity_bytes(), (seed, Instant::ZERO));
    if let Some(first) = first {
        streams[0].traffic = first;
    }
    let mut plan = plan(under, device, streams, set.seconds);
    let mut before: Vec<u32> = set.loads.iter().map(|load| load.percent).collect();
    let shares = set.changes.iter().flat_map(|(second, shares)| {
        let at = Instant::ZERO + Duration::from_secs(*second);
        let mut streams: Vec<(StreamId, u32, u32)> = (0..)
            .map(StreamId)
            .zip(std::mem::replace(&mut before, shares.clone()))
            .zip(shares)
            .map(|((id, before), percent)| (id, before, *percent))
            .collect();
        // Shares that fall go first: a sum above 100 % would be refused.
        streams.sort_by_key(|(_, before, percent)| percent > before);
        streams.into_iter().map(move |(id, _, percent)| (at, id, Load::contract(percent)))
    });
    plan.changes = shares.collect();
    let outcome = simulate(plan).expect("the paper's plans can be run");
    Run { outcome, ledger, seconds: set.seconds }
}

/// One disk behind the operating system's elevator, for a mount.
pub(super) static ONE_DISK: Preset = Preset {
    name: "nearline-7200-behind-elevator",
    doc: "the figures' disk with one command at a time, behind Linux's deadline elevator",
    build: |seed| behind_elevator(&Set::striped(1, &[]), seed, 0),
    parameters: Parameters::Other,
};

/// The plan of loads on [`ONE_DISK`], for a mount: each has the whole disk as its file.
pub(super) fn mounted(loads: &[Load], column: Column, start: Start) -> Plan {
    let seed = SEED + start.placement;
    let device = (ONE_DISK.build)(seed);
    let disk = device.capacity_bytes();
    let mut streams = streams(&Set::striped(1, loads), disk, (seed, start.begin));
    for stream in &mut streams {
        (stream.base, stream.extent) = (0, Some((0, disk)));
    }
    let plan = plan(Under::Column(column), device, streams, SECONDS);
    // A mount knows no other costs to begin with.
    Plan { cost: CostParameters::default(), ..plan }
}

pub(super) fn plan(
    under: Under,
    device: Box<dyn Device>,
    streams: Vec<StreamPlan>,
    seconds: u64,
) -> Plan {
    let (policy, cost_model) = match under {
        Under::Column(Column::QBox) => ("qbox", "fixed"),
        Under::Column(Column::Learned) => ("disktime", "learned"),
        Under::Throughput => ("sfq", "fixed"),
        Under::Fifo => ("fifo", "fixed"),
    };
    // QBox and FIFO don't look at it; under SFQ all requests cost the same.
    let cost = Duration::from_millis(1);
    Plan {
        device,
        profile: None,
        scheduling: Scheduling::new(policy, cost_model),
        cost: CostParameters { sequential: cost, random: cost, ..CostParameters::default() },
        reports: Vec::new(),
        depth: PENDING,
        streams,
        changes: Vec::new(),
        duration: Duration::from_secs(seconds),
        window: SPAN,
        decisions: None,
    }
}

/// Sequential streams begin in regions of their own; semi-sequential ones jump from theirs on over
/// half of the device; random ones go anywhere.
fn streams(set: &Set, capacity: u64, (seed, begin): (u64, Instant)) -> Vec<StreamPlan> {
    let (bytes, step) = match set.storage {
        Storage::Striped(_) => (REQUEST_BYTES, STREAM_STEP),
        Storage::Raid0 { .. } => (RAID_REQUEST_BYTES, 0),
    };
    let region = capacity / REGIONS / (64 << 10) * (64 << 10);
    let place = |index: u64, pattern: Pattern| match pattern {
        Pattern::Random | Pattern::Skewed { .. } => (0, capacity - bytes),
        Pattern::SemiSequential { .. } => (index * region, (index + REGIONS / 2) * region),
        Pattern::Sequential | Pattern::Runs { .. } => (index * region, (index + 1) * region),
    };
    let stream = |(index, load): (u64, &Load)| {
        let (start, end) = place(index, load.pattern);
        let phases = Phases::new(
            load.phases(Extent { start, end }, bytes, set.seconds),
            seed,
            load.name,
            begin,
        );
        StreamPlan {
            name: load.name.to_owned(),
            contract: Load::contract(load.percent),
            base: index * step,
            parent: None,
            extent: None,
            traffic: phases.expect("the paper's loads make sense").into(),
        }
    };
    (0..).zip(&set.loads).map(stream).collect()
}

impl Run {
    /// The disks' time in these seconds, by stream.
    fn took(&self, from: u64, to: u64) -> Vec<Took> {
        let ledger = self.ledger.lock().expect("nobody panics with it");
        let spans = ledger.iter().take(as_index(to)).skip(as_index(from));
        let mut sums = vec![Took::default(); self.outcome.streams.len()];
        for span in spans {
            for (sum, took) in sums.iter_mut().zip(span) {
                for sort in 0..2 {
                    sum.time[sort] += took.time[sort];
                    sum.requests[sort] += took.requests[sort];
                }
            }
        }
        sums
    }

    /// Each stream's part of the disks' time in these seconds, in per cent.
    pub(super) fn shares(&self, from: u64, to: u64) -> Vec<f64> {
        let took = self.took(from, to);
        let time = |took: &Took| (took.time[0] + took.time[1]).as_secs_f64();
        let all: f64 = took.iter().map(time).sum();
        took.iter().map(|took| time(took) / all * 100.0).collect()
    }

    /// The device time of a sequential and of a random request in these seconds, in seconds: the
    /// time at the disks, over how many there are. `None` where there was none.
    pub(super) fn true_costs(&self, disks: usize, from: u64, to: u64) -> [Option<f64>; 2] {
        let took = self.took(from, to);
        [0, 1].map(|sort| {
            let time: f64 = took.iter().map(|took| took.time[sort].as_secs_f64()).sum();
            let requests: u64 = took.iter().map(|took| took.requests[sort]).sum();
            (requests > 0).then(|| time / requests as f64 / disks as f64)
        })
    }

    /// The policy's estimates at the end of a second, in seconds.
    pub(super) fn estimates(&self, second: u64) -> Option<[f64; 2]> {
        let costs = self.outcome.costs.get(as_index(second))?;
        Some([costs.sequential.as_secs_f64(), costs.random.as_secs_f64()])
    }

    /// Requests per second of a stream in these seconds.
    pub(super) fn iops(&self, stream: usize, from: u64, to: u64) -> f64 {
        let windows = self.outcome.windows.iter().filter(|window| {
            window.stream.0 as usize == stream && (from..to).contains(&u64::from(window.index))
        });
        let requests: u64 = windows.map(|window| window.requests).sum();
        requests as f64 / (to - from) as f64
    }

    /// Requests per second of a stream in every second.
    pub(super) fn iops_line(&self, stream: usize) -> Vec<(f64, f64)> {
        (0..self.seconds).map(|at| (at as f64, self.iops(stream, at, at + 1))).collect()
    }

    /// Shares of each stream, averaged over some seconds around each second.
    pub(super) fn share_panel(&self, title: &str, loads: &[Load]) -> Panel {
        let at = |second: u64| {
            let from = second.saturating_sub(2);
            self.shares(from, (second + 3).min(self.seconds))
        };
        let all: Vec<Vec<f64>> = (0..self.seconds).map(at).collect();
        let series = loads.iter().enumerate().map(|(stream, load)| {
            let points =
                all.iter().enumerate().map(|(second, shares)| (second as f64, shares[stream]));
            Series::new(load.name, points)
        });
        let y = Axis::linear("disk time, 5 s (%)");
        let (title, marks) = (title.to_owned(), Marks::Lines);
        Panel { title, marks, x: TIME, y, series: series.collect(), level: None }
    }

    /// The moving estimate of a random request's cost, and what one took the device.
    pub(super) fn cost_panel(&self, title: &str, disks: usize) -> Panel {
        let milli = |seconds: f64| seconds * 1e3;
        let estimate =
            (0..self.seconds).filter_map(|at| Some((at as f64, milli(self.estimates(at)?[1]))));
        let truth = (0..self.seconds).map(|at| {
            let from = at.saturating_sub(2);
            let truth = self.true_costs(disks, from, (at + 3).min(self.seconds))[1];
            (at as f64, truth.map_or(0.0, milli))
        });
        Panel {
            title: title.to_owned(),
            marks: Marks::Lines,
            x: TIME,
            y: Axis::linear("time of the device (ms)"),
            series: vec![Series::new("estimate", estimate), Series::new("true mean, 5 s", truth)],
            level: None,
        }
    }

    /// How far estimates are off the truth from second `from` on, in per cent with sign: of random
    /// requests, and of the ratio of random to sequential ones.
    pub(super) fn estimates_off(&self, disks: usize, from: u64) -> (f64, f64) {
        let estimates: Vec<[f64; 2]> =
            (from..self.seconds).filter_map(|at| self.estimates(at)).collect();
        let mean = |sort: usize| {
            estimates.iter().map(|pair| pair[sort]).sum::<f64>() / estimates.len() as f64
        };
        let [x, y] = self.true_costs(disks, from, self.seconds);
        let (x, y) = (x.unwrap_or(f64::NAN), y.unwrap_or(f64::NAN));
        ((mean(1) / y - 1.0) * 100.0, (mean(1) / mean(0) / (y / x) - 1.0) * 100.0)
    }

    /// The simulator's own checkers: conservation, starvation, limits.
    pub(super) fn violations(&self) -> usize {
        self.outcome.violations.len()
    }
}

fn as_index(second: u64) -> usize {
    usize::try_from(second).expect("runs are short")
}

/// The simulator's own checkers.
pub(super) fn kept<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Check {
    claims::kept(runs.into_iter().map(Run::violations).sum())
}

/// Shares of a run against its targets.
pub(super) fn share_checks(
    column: Column,
    what: &str,
    run: &Run,
    loads: &[Load],
    (from, to): (u64, u64),
    learned: f64,
) -> Vec<Check> {
    let shares = run.shares(from, to);
    let check = |(load, measured): (&Load, f64)| {
        column.share(&format!("{what}{}", load.name), f64::from(load.percent), measured, learned)
    };
    loads.iter().zip(shares).map(check).collect()
}
