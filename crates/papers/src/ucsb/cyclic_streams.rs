//! The paper's experiments (§IV), once, with every parameter that the figures share.

use crate::claims;
use crate::drawn;
use crate::experiment::Check;
use crate::mounted_figures::{self, Start};
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::policy::PolicyEntry;
use disktime_core::{Access, Admission, Class, Contract, Duration, Instant, Profile, Rate, Share};
use disktime_model::{Device, preset};
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_rivals::elevator_with_batch;
use disktime_sim::{Outcome, Plan, StreamPlan, measure, simulate};
use disktime_workload::{Cycles, Extent, Pace, Pattern, Phase, Phases, Playback, Spec};

/// The SCSI disk (§IV).
pub(super) const DISK: &str = "st318437lw";
/// The length of each request: `io_size` of figure 4.
const REQUEST_BYTES: u64 = 128 << 10;
/// "Each stream was accessing a different sequentially-placed 700 MB file" (§IV).
const FILE_BYTES: u64 = 700_000_000 / REQUEST_BYTES * REQUEST_BYTES;

/// The numbers that the paper leaves open, once for all figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knobs {
    /// From one file's start to the next, in files' lengths.
    pub(super) apart: f64,
    /// The bytes that the elevator reads of a stream before it goes on, KiB.
    pub(super) batch: f64,
}

impl Knobs {
    pub(super) const SHOWN: Self = Self { apart: 1.0, batch: 1024.0 };

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few files' lengths are far below 2^52 requests"
    )]
    fn stride(self) -> u64 {
        let requests = (FILE_BYTES / REQUEST_BYTES) as f64 * self.apart;
        requests as u64 * REQUEST_BYTES
    }

    fn elevator(self) -> &'static PolicyEntry {
        let at = BATCHES.iter().position(|batch| *batch == self.batch);
        &ELEVATORS[at.expect("a batch of the list")]
    }
}

/// Batches of the elevator, KiB.
pub(super) const BATCHES: [f64; 4] = [256.0, 512.0, 1024.0, 2048.0];
static ELEVATORS: [PolicyEntry; BATCHES.len()] = [
    elevator_with_batch::<{ 256 << 10 }>(),
    elevator_with_batch::<{ 512 << 10 }>(),
    elevator_with_batch::<{ 1024 << 10 }>(),
    elevator_with_batch::<{ 2048 << 10 }>(),
];

/// These numbers as those that the paper leaves open, for a figure that is measured by `$of`.
macro_rules! open {
    ($of:path) => {
        $crate::open::varied!(
            |seed, with| $of(seed, with(Knobs::SHOWN)),
            Knobs,
            [
                {
                    apart: "from one file's start to the next, in files' lengths",
                    [1.0, 1.5, 2.0, 2.5, 3.0],
                    shown 1.0, stated false,
                    "the paper says that each file is in one piece, not where; at 3 the eight of figure 7 \
                     fill nearly all of the disk",
                },
                {
                    batch: "the elevator's batch, KiB", cyclic_streams::BATCHES,
                    shown 1024.0, stated false,
                    "the paper names its kernel, Linux 2.5.67, and not its elevator's limits; from two \
                     requests to sixteen",
                },
            ]
        )
    };
}
pub(super) use open;

/// Requests that fit the gaps before files, where they are drawn: more than twenty tracks.
const GAPS: u64 = 64;
/// The cycle of the high-priority stream (§IV).
pub(super) const CYCLE_SECONDS: u64 = 4;
const CYCLE: Duration = Duration::from_secs(CYCLE_SECONDS);
/// Seconds of a run: 15 more than until the last stream joins, and whole cycles.
pub(super) const SECONDS: u64 = 40;
/// When best-effort streams join, in seconds (§IV).
pub(super) const JOINS: [u64; 5] = [5, 10, 15, 20, 25];
/// The rate of the high-priority stream in figures 5 and 6 (§IV).
const HIGH_MB: f64 = 8.0;
pub(super) const MB: u64 = 1_000_000;
/// The windows of the metrics: joins and cycles are multiples.
const WINDOW: Duration = Duration::from_secs(1);

/// For the page.
pub(super) fn parameters() -> Vec<(&'static str, String)> {
    vec![
        ("disk", format!("{DISK}, one request at a time")),
        (
            "requests",
            format!(
                "{REQUEST_BYTES} bytes, reads, each stream from a file of 700 MB of its own, one \
                 after the other from the disk's outer edge"
            ),
        ),
        (
            "high priority",
            "class guaranteed-rate, all requests of a 4 s cycle submitted at its start".to_owned(),
        ),
        (
            "best effort",
            format!(
                "policy elevator, after the kernel's, with batches of {} KiB; one read outstanding per \
                 stream, as read() has",
                Knobs::SHOWN.batch
            ),
        ),
        ("profile", "measured on a copy of the disk, in virtual time".to_owned()),
        ("length", format!("{SECONDS} s")),
    ]
}

/// A stream of an experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) contract: Contract,
    pub(super) pace: Pace,
    /// Second at which it starts.
    pub(super) start: u64,
}

impl Load {
    /// A cycle's worth at the start of every cycle, in no class of its own.
    pub(super) fn cycles(bytes_per_second: u64) -> Self {
        let pace = Pace::Cycles(Cycles { bytes_per_second, cycle: CYCLE });
        Self { contract: Contract::default(), pace, start: 0 }
    }

    /// The same with a guaranteed rate.
    pub(super) fn guaranteed(bytes_per_second: u64, admission: Admission) -> Self {
        let rate = Rate { bytes_per_second, cycle: Some(CYCLE), admission, access: Access::Read };
        let class = Class::GuaranteedRate;
        let contract = Contract { class, rate: Some(rate), ..Contract::default() };
        Self { contract, ..Self::cycles(bytes_per_second) }
    }

    /// Best effort that reads at a constant rate and buffers a second, from `start` on.
    pub(super) fn player(bytes_per_second: u64, start: u64) -> Self {
        let buffer = Duration::from_secs(1);
        let pace =
            Pace::Player(Playback { bytes_per_second, buffer, outstanding: 1, vbr_permille: 0 });
        Self { contract: Contract::default(), pace, start }
    }

    /// Best effort that reads as fast as it can, from `start` on.
    pub(super) fn greedy(start: u64) -> Self {
        let pace = Pace::Closed { outstanding: 1, think: Duration::ZERO };
        Self { contract: Contract::default(), pace, start }
    }

    /// The same with so many reads outstanding. A load that submits cycles has no such bound.
    pub(super) fn ahead(self, outstanding: u32) -> Self {
        let pace = match self.pace {
            Pace::Closed { think, .. } => Pace::Closed { outstanding, think },
            Pace::Player(playback) => Pace::Player(Playback { outstanding, ..playback }),
            pace => pace,
        };
        Self { pace, ..self }
    }

    fn plan(
        &self,
        index: usize,
        knobs: Knobs,
        gap: u64,
        (seed, begin): (u64, Instant),
    ) -> StreamPlan {
        let start = index as u64 * knobs.stride() + gap;
        let extent = Extent { start, end: start + FILE_BYTES };
        let phase = Phase {
            start: Duration::from_secs(self.start),
            stop: None,
            spec: Spec::reads(Pattern::Sequential, extent, REQUEST_BYTES),
            pace: self.pace,
        };
        let name = name(index);
        let phases = Phases::new(vec![phase], seed, &name, begin);
        StreamPlan {
            name,
            contract: self.contract,
            base: 0,
            parent: None,
            extent: Some((extent.start, extent.end)),
            traffic: phases.expect("the paper's loads make sense").into(),
        }
    }
}

/// The first stream has the priority.
fn name(index: usize) -> String {
    if index == 0 { "high".to_owned() } else { format!("best {index}") }
}

fn disk(seed: u64) -> Box<dyn Device> {
    (preset::find(DISK).expect("the paper's disk is a preset").build)(seed)
}

/// The disk's profile as a profiler finds it.
pub(super) fn profile(seed: u64) -> Profile {
    measure(disk(seed), DISK, seed).expect("a disk can be profiled").profile
}

/// Runs loads side by side. Without a profile nothing is admitted: a priority is all that counts.
pub(super) fn run(loads: &[Load], knobs: Knobs, profile: Option<Profile>, seed: u64) -> Outcome {
    run_placed(loads, knobs, profile, seed, |_| 0)
}

/// As [`run`]; each file lies so many bytes further in than behind the one before.
fn run_placed(
    loads: &[Load],
    knobs: Knobs,
    profile: Option<Profile>,
    seed: u64,
    gap: impl Fn(usize) -> u64,
) -> Outcome {
    let plan = plan(loads, knobs, profile, (seed, Instant::ZERO), gap);
    simulate(plan).expect("the paper's plans can be run")
}

/// Loads side by side, from `begin` on.
fn plan(
    loads: &[Load],
    knobs: Knobs,
    profile: Option<Profile>,
    (seed, begin): (u64, Instant),
    gap: impl Fn(usize) -> u64,
) -> Plan {
    let streams = loads.iter().enumerate();
    let streams =
        streams.map(|(index, load)| load.plan(index, knobs, gap(index), (seed, begin))).collect();
    Plan {
        device: disk(seed),
        profile,
        scheduling: Scheduling { policy: knobs.elevator(), ..Scheduling::new("elevator", "fixed") },
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams,
        changes: Vec::new(),
        duration: Duration::from_secs(SECONDS),
        window: WINDOW,
        decisions: None,
    }
}

/// The same for a mount: each file begins at a multiple of a MiB. In all placements but the first there is a
/// gap of up to 8 MiB before it.
pub(super) fn mounted(loads: &[Load], profile: Option<Profile>, start: Start) -> Plan {
    const MIB: u64 = 1 << 20;
    let gap = |index| {
        let drawn = drawn::number(start.placement, index as u64) % 8 * MIB;
        let gap = if start.placement == 0 { 0 } else { drawn };
        index as u64 * (FILE_BYTES.next_multiple_of(MIB) - FILE_BYTES) + gap
    };
    plan(loads, Knobs::SHOWN, profile, (mounted_figures::SEED, start.begin), gap)
}

/// The high-priority stream of figures 5 and 6, and best-effort streams that join it.
pub(super) fn joining(best_effort: impl Fn(u64) -> Load) -> Vec<Load> {
    let high = Load::guaranteed(8 * MB, Admission::Deterministic);
    std::iter::once(high).chain(JOINS.map(best_effort)).collect()
}

/// Runs these.
pub(super) fn joined(best_effort: impl Fn(u64) -> Load, knobs: Knobs, seed: u64) -> Outcome {
    run(&joining(best_effort), knobs, Some(profile(seed)), seed)
}

/// As [`joined`], once for each of so many placements: before each file there is a gap of up to 8 MiB,
/// drawn from the seed and the placement.
pub(super) fn joined_in_places(
    best_effort: impl Fn(u64) -> Load,
    knobs: Knobs,
    seed: u64,
    placements: u64,
) -> Vec<Outcome> {
    let loads = joining(best_effort);
    let profile = profile(seed);
    let gap = |placement: u64, index: usize| {
        drawn::number(placement, index as u64) % GAPS * REQUEST_BYTES
    };
    let run = |placement| {
        let gap = |index| gap(seed * placements + placement, index);
        run_placed(&loads, knobs, Some(profile.clone()), seed, gap)
    };
    (0..placements).map(run).collect()
}

/// MB/s of a stream from one second to another.
pub(super) fn mean_mb(outcome: &Outcome, stream: usize, from: u64, to: u64) -> f64 {
    let seconds = from..to;
    let windows = outcome.windows.iter().filter(|window| {
        window.stream.0 as usize == stream && seconds.contains(&u64::from(window.index))
    });
    windows.map(|window| window.bytes as f64).sum::<f64>() / (to - from) as f64 / 1e6
}

/// MB/s of a stream in each cycle, at the second at which it begins.
fn by_cycle(outcome: &Outcome, stream: usize) -> Vec<(f64, f64)> {
    let starts = (0..SECONDS / CYCLE_SECONDS).map(|index| index * CYCLE_SECONDS);
    starts.map(|at| (at as f64, mean_mb(outcome, stream, at, at + CYCLE_SECONDS))).collect()
}

/// How far the high-priority stream is from its rate in the cycle that is farthest, in any run.
pub(super) fn rate_kept(outcomes: &[Outcome]) -> Check {
    let cycles = outcomes.iter().flat_map(|outcome| by_cycle(outcome, 0));
    let off = cycles.map(|(_, mb)| (mb / HIGH_MB - 1.0).abs() * 100.0);
    let name = "high priority: farthest from 8 MB/s in any cycle of 4 s, %";
    Check::deviation(name, off.fold(0.0, f64::max), 2.0)
}

/// Throughput of all streams, stacked, in each cycle.
pub(super) fn stacked(outcome: &Outcome, title: &str) -> Panel {
    let series = (0..outcome.streams.len())
        .map(|stream| Series::new(&name(stream), by_cycle(outcome, stream)))
        .collect();
    Panel {
        title: title.to_owned(),
        marks: Marks::Stacked,
        x: Axis::linear("time (s)"),
        y: Axis::linear("throughput (MB/s)"),
        series,
        level: None,
    }
}

/// The simulator's own checkers.
pub(super) fn kept(outcomes: &[&Outcome]) -> Check {
    claims::kept(outcomes.iter().map(|outcome| outcome.violations.len()).sum())
}

/// A share of so many per cent.
pub(super) fn percent(percent: u32) -> Share {
    Share::from_percent(percent).expect("at most 100 %")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elevator had one batch, of 1 MiB, whatever the figure varied.
    #[test]
    fn a_larger_batch_of_the_elevator_loses_less_to_seeks() {
        let total = |batch| {
            let outcome = joined(Load::greedy, Knobs { batch, ..Knobs::SHOWN }, 1);
            (0..=JOINS.len()).map(|stream| mean_mb(&outcome, stream, 30, SECONDS)).sum::<f64>()
        };
        let totals = BATCHES.map(total);
        assert!(totals.windows(2).all(|pair| pair[1] > pair[0] + 1.0), "{totals:?}");
    }
}
