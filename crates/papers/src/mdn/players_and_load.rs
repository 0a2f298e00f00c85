//! The paper's experiments (§6), once, with every parameter that the figures share.

use super::anticipatory::{self, ANTICIPATION, EXPIRE};
use crate::claims;
use crate::drawn;
use crate::experiment::{Check, Sample};
use crate::mounted_figures::{self, Start};
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::feedback::{FeedbackConfig, Token};
use disktime_core::{Class, Contract, Duration, Instant, Share};
use disktime_model::preset;
use disktime_report::chart::{Axis, Marks, Panel, Series};
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Playback, Spec};

/// The paper's disk (§6).
pub(super) const DISK: &str = "st340810a";
/// The length of each request, and so of each token.
const REQUEST_BYTES: u64 = 128 << 10;
const FILE_BYTES: u64 = 1_900_000_000 / REQUEST_BYTES * REQUEST_BYTES;
/// How many such files fit on the disk, one behind the other.
const PLACES: u64 = 21;
/// Draws of places and start times for each seed: a figure's numbers are medians over them, and a check
/// has to hold over their middle half.
const PLACEMENTS: u64 = 8;
/// The rate that the bucket of a controller is sized for, tokens/s: the R of figure 2 (c), near
/// which both published controllers hold four streams of 8 MB/s.
const RATE_USUAL: u32 = 50;
/// The client's buffer (§6): a second at the rate.
const BUFFER: Duration = Duration::from_secs(1);
/// Clients start within their buffer's time of one another.
const STAGGER_MS: u64 = 1000;
const WINDOW: Duration = Duration::from_millis(500);
pub(super) const WINDOWS_PER_SECOND: u64 = 2;

/// The lost parameters, once for all figures; the rest as [`FeedbackConfig::default`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Knobs {
    /// The size of the bucket, in seconds of tokens.
    pub(super) bucket: f64,
    /// β, per cent.
    pub(super) cut: f64,
    /// δ, tokens per second each refill.
    pub(super) creep: f64,
}

impl Knobs {
    pub(super) const SHOWN: Self = Self { bucket: 0.15, cut: 24.0, creep: 1.0 };
}

/// The numbers above as those that the paper leaves open, for a figure that is shown by `$of`.
macro_rules! open {
    ($of:path) => {
        $crate::open::varied!(
            |seed, with| players_and_load::placed(seed, with(Knobs::SHOWN), $of),
            Knobs,
            [
                {
                    bucket: "the bucket holds, s of tokens", [0.05, 0.1, 0.15, 0.2, 0.3],
                    shown 0.15, stated true,
                    "0.15 s as the kernel's token bucket filter is set up by default",
                },
                {
                    cut: "beta, %", [20.0, 24.0, 30.0, 35.0, 40.0],
                    shown 24.0, stated false,
                    "lost; between a fifth and two fifths",
                },
                {
                    creep: "delta, tokens/s each 0.5 s", [0.5, 0.75, 1.0, 1.5, 2.0],
                    shown 1.0, stated false,
                    "lost; about 1, by the slope of the published saw-tooth",
                },
            ]
        )
    };
}
pub(super) use open;

/// One of a seed's draws of places and start times.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    drawn: u64,
    knobs: Knobs,
}

impl At {
    /// A number of its own for each purpose.
    fn draw(self, purpose: u64) -> u64 {
        drawn::number(self.drawn, purpose)
    }

    /// Where a stream's file begins: no two streams' are in one place.
    fn file(self, stream: u64) -> u64 {
        let mut place = 0;
        let mut free: Vec<u64> = (0..PLACES).collect();
        for earlier in 0..=stream {
            let left = free.len() as u64;
            let index = usize::try_from(self.draw(128 + earlier) % left).expect("a few places");
            place = free.remove(index);
        }
        place * FILE_BYTES
    }

    fn feedback(self, controller: &'static str, rate: u32) -> FeedbackConfig {
        let controller = disktime_rivals::controller(controller).expect("a controller's name");
        let burst = whole(self.knobs.bucket * f64::from(rate)).max(1);
        FeedbackConfig {
            controller,
            token: Token::Request,
            burst,
            cut: Share::from_percent(whole(self.knobs.cut)).expect("at most 40"),
            creep_milli: whole(self.knobs.creep * 1e3),
            ..FeedbackConfig::default()
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges hold small numbers above zero"
)]
fn whole(value: f64) -> u32 {
    value.round() as u32
}

/// A figure over a seed's placements.
pub(super) fn placed(seed: u64, knobs: Knobs, measure: fn(At) -> Sample) -> Sample {
    let at = |placement| At { drawn: seed * PLACEMENTS + placement, knobs };
    let samples: Vec<Sample> = (0..PLACEMENTS).map(|placement| measure(at(placement))).collect();
    claims::over_draws(
        "files' places and start times",
        "the paper does not say where on the disk its files lie, nor when its clients start",
        &samples,
    )
}

/// For the page.
pub(super) fn parameters() -> Vec<(&'static str, String)> {
    let at = At { drawn: 0, knobs: Knobs::SHOWN };
    let it = at.feedback("none", RATE_USUAL);
    vec![
        ("disk", format!("{DISK}, one request at a time")),
        (
            "elevator",
            format!(
                "that of Linux 2.6.0: it waits {ANTICIPATION:?} for the stream that it served, and serves a \
                 read that has waited for {EXPIRE:?}"
            ),
        ),
        ("requests", format!("{REQUEST_BYTES} bytes, reads, one outstanding; a token each")),
        ("clients", "constant rate, a buffer of 1 s; a miss is reported if soft real-time".into()),
        (
            "files and starts",
            format!(
                "{PLACEMENTS} draws for each seed: each file of 1.9 GB in one of {PLACES} places; \
                 starts within {STAGGER_MS} ms"
            ),
        ),
        ("R", format!("{} to {} tokens/s", it.rate_min, it.rate_max)),
        ("beta", format!("{}", it.cut)),
        ("delta", format!("{} token/s each {:?}", it.creep_milli / 1000, it.refill)),
        (
            "bucket",
            format!(
                "{} s of tokens, at the R that is fixed or at {RATE_USUAL} tokens/s, to a stream at once",
                at.knobs.bucket
            ),
        ),
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

    fn plan(&self, index: usize, start: u64, (at, begin): (At, Instant)) -> StreamPlan {
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
        let stagger = Duration::from_micros(at.draw(index as u64) % (STAGGER_MS * 1000));
        let phase = Phase {
            start: Duration::from_secs(self.start) + stagger,
            stop: self.stop.map(Duration::from_secs),
            spec: Spec::reads(Pattern::Sequential, extent, REQUEST_BYTES),
            pace,
        };
        let name = format!("{} {}", if self.soft { "soft" } else { "best" }, index + 1);
        let class = if self.soft { Class::SoftRealTime } else { Class::BestEffort };
        let phases = Phases::new(vec![phase], at.drawn, &name, begin);
        StreamPlan {
            name,
            contract: Contract { class, ..Contract::default() },
            base: 0,
            parent: None,
            extent: Some((extent.start, extent.end)),
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
pub(super) fn run(shaped: Shaped, loads: &[Load], seconds: u64, at: At) -> Outcome {
    simulate(plan(shaped, loads, seconds, at)).expect("the paper's plans can be run")
}

/// The plan that [`run`] runs.
pub(super) fn plan(shaped: Shaped, loads: &[Load], seconds: u64, at: At) -> Plan {
    plan_from(shaped, loads, seconds, (at, Instant::ZERO), |stream| at.file(stream))
}

/// The same for a mount, in the first of a seed's draws: each file begins at a multiple of a MiB.
pub(super) fn mounted(shaped: Shaped, loads: &[Load], seconds: u64, start: Start) -> Plan {
    let drawn = mounted_figures::SEED * PLACEMENTS;
    let at = At { drawn, knobs: Knobs::SHOWN };
    let file = |stream| at.file(stream).next_multiple_of(1 << 20);
    plan_from(shaped, loads, seconds, (at, start.begin), file)
}

fn plan_from(
    shaped: Shaped,
    loads: &[Load],
    seconds: u64,
    (at, begin): (At, Instant),
    file: impl Fn(u64) -> u64,
) -> Plan {
    let feedback = match shaped {
        Shaped::By(name) => at.feedback(name, RATE_USUAL),
        Shaped::At(rate_start) => FeedbackConfig { rate_start, ..at.feedback("fixed", rate_start) },
    };
    let streams = loads.iter().enumerate();
    Plan {
        device: (preset::find(DISK).expect("the paper's disk is a preset").build)(at.drawn),
        profile: None,
        scheduling: Scheduling {
            feedback,
            policy: &anticipatory::ENTRY,
            ..Scheduling::new("elevator", "fixed")
        },
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams: streams
            .map(|(index, load)| load.plan(index, file(index as u64), (at, begin)))
            .collect(),
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
    claims::kept(outcomes.iter().map(|outcome| outcome.violations.len()).sum())
}
