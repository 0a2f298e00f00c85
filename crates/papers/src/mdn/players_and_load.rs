//! The paper's experiments (§6), once, with every parameter that the figures share.

use crate::experiment::Check;
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::feedback::{FeedbackConfig, Token};
use disktime_core::{Class, Contract, Duration, Instant};
use disktime_model::preset;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Playback, Spec};

/// The paper's disk (§6).
const DISK: &str = "st340810a";
/// The length of each request, and so of each token.
const REQUEST_BYTES: u64 = 128 << 10;
/// Where the streams' files begin, in GB, lost: spread over the disk, as the file system spreads
/// directories. Chosen so that two streams have their 20 MB/s, three about 17.4 and four about 16.8.
pub(super) const FILES_GB: [u64; 5] = [10, 2, 32, 36, 20];
/// Figure 7's two: closer to the spindle, since its 11 + 9 MB/s are too much where 10 + 10 fit.
pub(super) const INNER_GB: [u64; 5] = [28, 38, 0, 0, 0];
const FILE_BYTES: u64 = 1_900_000_000 / REQUEST_BYTES * REQUEST_BYTES;
/// The client's buffer (§6): a second at the rate.
const BUFFER: Duration = Duration::from_secs(1);
/// Clients start within a request's time of one another, drawn from the seed.
const STAGGER_MS: u64 = 16;
const WINDOW: Duration = Duration::from_millis(500);
pub(super) const WINDOWS_PER_SECOND: u64 = 2;

/// The lost parameters, once for all figures; the rest as [`FeedbackConfig::default`].
fn feedback(controller: &'static str) -> FeedbackConfig<'static> {
    FeedbackConfig { controller, token: Token::Request, ..FeedbackConfig::default() }
}

/// For the page.
pub(super) fn parameters() -> Vec<(&'static str, String)> {
    let it = feedback("none");
    vec![
        ("disk", format!("{DISK}, one request at a time, policy elevator")),
        ("requests", format!("{REQUEST_BYTES} bytes, reads, one outstanding; a token each")),
        ("clients", "constant rate, a buffer of 1 s; a miss is reported if soft real-time".into()),
        ("files", format!("at {FILES_GB:?} GB, calibrated; figure 7's at {:?} GB", &INNER_GB[..2])),
        ("R", format!("{} to {} tokens/s", it.rate_min, it.rate_max)),
        ("beta", format!("{}", it.cut)),
        ("delta", format!("{} token/s each {:?}", it.creep_milli / 1000, it.refill)),
        ("bucket", format!("{} tokens to a stream at once, holds twice as many", it.burst)),
        ("reports", format!("one per stream and {:?}, with proof", it.report_interval)),
    ]
}

/// A stream of an experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// MB/s; 0 for as fast as it goes.
    mb: u64,
    soft: bool,
    start: u64,
    stop: Option<u64>,
}

impl Load {
    /// Best effort at so many MB/s.
    pub(super) const fn best_effort(mb: u64) -> Self {
        Self { mb, soft: false, start: 0, stop: None }
    }

    /// Soft real-time at so many MB/s.
    pub(super) const fn soft(mb: u64) -> Self {
        Self { soft: true, ..Self::best_effort(mb) }
    }

    pub(super) const fn from(self, start: u64) -> Self {
        Self { start, ..self }
    }

    pub(super) const fn until(self, stop: u64) -> Self {
        Self { stop: Some(stop), ..self }
    }

    fn plan(&self, index: usize, gb: u64, seed: u64) -> StreamPlan {
        let start = gb * 1_000_000_000 / REQUEST_BYTES * REQUEST_BYTES;
        let extent = Extent { start, end: start + FILE_BYTES };
        let bytes_per_second = self.mb * 1_000_000;
        let pace = match self.mb {
            0 => Pace::Closed { outstanding: 1, think: Duration::ZERO },
            _ => Pace::Player(Playback {
                bytes_per_second,
                buffer: BUFFER,
                outstanding: 1,
                vbr_permille: 0,
            }),
        };
        // A finalizer of SplitMix64: a start is its seed, its place and this.
        let mut drawn = (seed << 8 | index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let stagger = Duration::from_micros((drawn >> 40) % (STAGGER_MS * 1000));
        let phase = Phase {
            start: Duration::from_secs(self.start) + stagger,
            stop: self.stop.map(Duration::from_secs),
            spec: Spec::reads(Pattern::Sequential, extent, REQUEST_BYTES),
            pace,
        };
        let name = format!("{} {}", if self.soft { "soft" } else { "best" }, index + 1);
        let class = if self.soft { Class::SoftRealTime } else { Class::BestEffort };
        let phases = Phases::new(vec![phase], seed, &name, Instant::ZERO);
        StreamPlan {
            name,
            contract: Contract { class, ..Contract::default() },
            base: 0,
            extent: None,
            traffic: phases.expect("the paper's loads make sense").into(),
        }
    }
}

/// Figures 2 and 3.
pub(super) const FOUR: [Load; 4] =
    [Load::soft(8), Load::best_effort(8), Load::best_effort(8), Load::best_effort(8)];
/// When figure 4's third stream starts.
pub(super) const JOINED: u64 = 60;
/// Figures 4 and 5.
pub(super) const JOIN: [Load; 3] =
    [Load::best_effort(10), Load::best_effort(10), Load::soft(10).from(JOINED)];
/// When figure 6's soft real-time stream ends.
pub(super) const ENDED: u64 = 90;
/// Figure 6; its streams are lost.
pub(super) const ENDS: [Load; 3] =
    [Load::soft(8).until(ENDED), Load::best_effort(8), Load::best_effort(8)];

/// How a run is shaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shaped {
    /// A controller by name.
    By(&'static str),
    /// R is fixed at so many tokens per second.
    At(u32),
}

/// Runs streams side by side.
pub(super) fn run(shaped: Shaped, loads: &[Load], seconds: u64, seed: u64) -> Outcome {
    run_in(&FILES_GB, shaped, loads, seconds, seed)
}

/// As [`run`], with files elsewhere.
pub(super) fn run_in(
    files_gb: &[u64; 5],
    shaped: Shaped,
    loads: &[Load],
    seconds: u64,
    seed: u64,
) -> Outcome {
    simulate(plan(files_gb, shaped, loads, seconds, seed)).expect("the paper's plans can be run")
}

/// The plan that [`run_in`] runs.
pub(super) fn plan(
    files_gb: &[u64; 5],
    shaped: Shaped,
    loads: &[Load],
    seconds: u64,
    seed: u64,
) -> Plan {
    let feedback = match shaped {
        Shaped::By(name) => feedback(name),
        Shaped::At(rate_start) => FeedbackConfig { rate_start, ..feedback("fixed") },
    };
    let streams = loads.iter().zip(files_gb).enumerate();
    Plan {
        device: (preset::find(DISK).expect("the paper's disk is a preset").build)(seed),
        profile: None,
        scheduling: Scheduling { feedback, ..Scheduling::new("elevator", "fixed") },
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams: streams.map(|(index, (load, gb))| load.plan(index, *gb, seed)).collect(),
        changes: Vec::new(),
        duration: Duration::from_secs(seconds),
        window: WINDOW,
        decisions: None,
    }
}

/// MB/s of streams together from one second to another.
pub(super) fn mean_mb(
    outcome: &Outcome,
    streams: impl IntoIterator<Item = usize>,
    from: u64,
    to: u64,
) -> f64 {
    let of = |stream| {
        let within = outcome.windows.iter().filter(move |window| {
            let second = u64::from(window.index) / WINDOWS_PER_SECOND;
            window.stream.0 as usize == stream && (from..to).contains(&second)
        });
        within.map(|window| window.bytes as f64).sum::<f64>()
    };
    streams.into_iter().map(of).sum::<f64>() / (to - from) as f64 / 1e6
}

/// Misses of a stream from one second to another.
pub(super) fn misses(outcome: &Outcome, stream: usize, from: u64, to: u64) -> f64 {
    let at = |second| Instant::ZERO + Duration::from_secs(second);
    let within = outcome.misses[stream].iter().filter(|miss| (at(from)..at(to)).contains(miss));
    within.count() as f64
}

/// Seconds after `end` until streams together have 95 % of `demand` MB/s in a second, by half seconds.
pub(super) fn back_after(outcome: &Outcome, streams: &[usize], demand: f64, end: u64) -> f64 {
    let halves = outcome.windows.iter().map(|window| window.index).max().unwrap_or(0);
    let first = u32::try_from(end * WINDOWS_PER_SECOND).expect("a short run");
    let mb = |half: u32| {
        let of = |window: &&disktime_sim::Window| {
            (half..half + 2).contains(&window.index)
                && streams.contains(&(window.stream.0 as usize))
        };
        outcome.windows.iter().filter(of).map(|window| window.bytes as f64).sum::<f64>() / 1e6
    };
    let back = (first..halves).find(|half| mb(*half) >= 0.95 * demand);
    back.map_or(f64::from(halves - first), |half| f64::from(half - first))
        / WINDOWS_PER_SECOND as f64
}

/// Throughput of each stream in each half second.
pub(super) fn lines(outcome: &Outcome, title: &str) -> Panel {
    let of = |stream: usize| {
        let windows = outcome.windows.iter().filter(move |it| it.stream.0 as usize == stream);
        let second = WINDOWS_PER_SECOND as f64;
        let point = |it: &disktime_sim::Window| {
            (f64::from(it.index) / second, it.bytes as f64 * second / 1e6)
        };
        windows.map(point).collect::<Vec<_>>()
    };
    let streams = outcome.streams.iter().enumerate();
    Panel {
        title: title.to_owned(),
        marks: Marks::Lines,
        x: Axis::linear("time (s)"),
        y: Axis::linear("throughput (MB/s)"),
        series: streams.map(|(index, stream)| Series::new(&stream.name, of(index))).collect(),
        level: None,
    }
}

/// `published`, within so many per cent of it.
pub(super) fn within(name: &str, published: f64, measured: f64, percent: f64) -> Check {
    Check::near(name, published, measured, published * percent / 100.0)
}

/// The simulator's own checkers.
pub(super) fn kept(outcomes: &[&Outcome]) -> Check {
    let broken: usize = outcomes.iter().map(|outcome| outcome.violations.len()).sum();
    Check::near("promises broken, as the simulator counts them", 0.0, broken as f64, 0.0)
}
