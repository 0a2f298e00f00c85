//! `disktime demo`: the real daemon on an embedded default, under its own load.
//!
//! A sparse file behind an emulated Deskstar 34GXP, two virtual disks, real NBD connections: each
//! alone, then both together. Needs no root, no disk and no configuration.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use disktime_client::{Load, LoadSpec, Options, Uri};
use disktime_server::{Config, Counts, Server, VdiskView};
use disktime_workload::{Extent, Pace, Pattern, Spec};
use serde::Serialize;

use crate::interrupt::{self, Interrupted, Temporary};
use crate::{BadInput, failure};

mod cpu;
mod recorder;
mod video;
mod view;
mod web;

const EXAMPLES: &str = "\
Examples:
  disktime demo
  disktime demo --for 60s --split 90/10
  disktime demo --scene recorder
  disktime demo --scene video
  disktime demo --web                # with a page for a browser, until Ctrl-C
  disktime demo --json | jq .streams

Exits with 0 if each virtual disk, in whole rounds of slices, got its reserved
share of disk time within 2 points and, over 10s or longer, did what that share
of its speed alone is: 97 % of it, of less than 30 % reserved 90 %. In the scene
`recorder`, if every camera got its rate in every cycle; in `video`, if data
were late at most three times, all in the first 5 s in which misses were
reported. With 1 if not.

Exits with 3, and judges nothing, if the machine was too busy to emulate a disk:
more than 1 % of its answers were over 1 ms later than its timing model, or its
threads waited for a CPU for a tenth of the time; or if there were fewer than
two whole rounds. A --for below what two rounds take at
least is refused: of 50/50 2.8s, of 70/30 3.4s, of 90/10 7.8s, of 99/1 70.8s; in
the scene `recorder` 4s (two cycles), in `video` 10s.";

/// The scene that is shown.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scene {
    /// Two virtual disks, each with a share of the disk's time.
    Split,
    /// Cameras that write at a guaranteed rate while a backup storms.
    Recorder,
    /// A player that reports missed deadlines while readers storm.
    Video,
}

/// The emulated disk.
const PRESET: &str = "deskstar-34gxp";
/// Requests that each virtual disk has outstanding: enough that it always has work.
const OUTSTANDING: u32 = 32;
/// Size of each request in bytes (4 KiB, as in the paper's load).
const REQUEST: u64 = 4096;
/// Requests in a run of the sequential load before it jumps (the paper's load).
const RUN: u32 = 1024;
/// How far from its reservation a share may be, in points.
const TOLERANCE: f64 = 2.0;
/// The least insulation of a virtual disk that passes; where little is reserved each slice weighs
/// more in so short a time.
const INSULATION: f64 = 0.97;
const INSULATION_LITTLE: f64 = 0.90;
/// The largest share that is little.
const LITTLE: f64 = 0.3;
/// A shorter time than that says nothing of insulation: it has too few rounds.
const JUDGED: Duration = Duration::from_secs(10);
/// How late the emulated disk may answer, at the 99th percentile: past that what is measured is this
/// machine, and a virtual disk's share of it.
const LATE_MAX: Duration = Duration::from_millis(1);
/// How much of the time its threads may have waited for a CPU, together. On two cores it is .00 with the machine to
/// itself, .03 beside one busy program, and .3 and more beside two and four, where insulation was once .92.
const CPU_WAIT_MAX: f64 = 0.1;
/// Whole rounds that say something.
const ROUNDS_MIN: u32 = 2;
/// The range of a stream's lag in one round of slices: policy `disktime`'s horizon. So a whole round
/// of a share p takes at least this divided by p (1 - p).
const LAG_RANGE: Duration = Duration::from_millis(350);
/// How often is looked at what each had.
const POLL: Duration = Duration::from_millis(10);
/// The slice of a stream that is charged nothing for so long is over.
const BETWEEN_SLICES: Duration = Duration::from_millis(50);
/// How often the view is drawn.
const TICK: Duration = Duration::from_millis(500);
/// How long a signal may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);
/// Time before a phase counts: loads are up, the first second's credit is spent, and the switch
/// cost is known, so that slices have their length.
const SETTLE: Duration = Duration::from_secs(4);

/// Show two virtual disks sharing one emulated disk, each getting the disk time it reserved.
///
/// Starts the daemon on a temporary sparse file behind an emulated disk, measures each virtual
/// disk alone, then both together, and ends in a verdict.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How long both share the disk, like `20s` or `2m`; 20s if left out, with --web until Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<humantime::Duration>,
    /// Scene to show
    #[arg(long, value_enum, default_value = "split")]
    scene: Scene,
    /// Reservations of the sequential and of the random virtual disk in per cent
    #[arg(long, value_name = "A/B", default_value = "70/30", value_parser = parse_split)]
    split: [u32; 2],
    /// Serve a page beside it where a browser sees the shares and changes them; prints its address. It
    /// judges nothing, since you may change what is promised
    #[arg(long)]
    web: bool,
    /// The port of the page; else any that is free
    #[arg(long, requires = "web", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How long both share the disk if nobody says.
const USUAL: Duration = Duration::from_secs(20);

/// The demo's result.
#[derive(Serialize)]
struct Report {
    device: &'static str,
    policy: String,
    seconds: f64,
    streams: Vec<Stream>,
    /// How much later than its timing model the emulated disk answered.
    timing_error_us: TimingError,
    /// The time that threads waited for a CPU, together, by the time that was measured.
    cpu_wait: f64,
    /// Whole rounds of the first virtual disk while both shared the disk.
    #[serde(rename = "turns")]
    rounds: u32,
    /// Whether the machine had time for it, and the run enough rounds.
    judged: bool,
    pass: bool,
}

/// How much later than its timing model an emulated disk answered, in us.
#[derive(Serialize)]
struct TimingError {
    p50: f64,
    p99: f64,
}

impl TimingError {
    fn of(counts: &Counts) -> Self {
        let micros = |fraction| {
            let error = counts.quantile(fraction);
            error.map_or(0.0, |error| error.as_secs_f64() * 1e6)
        };
        Self { p50: micros(0.5), p99: micros(0.99) }
    }

    /// Whether it was a disk that was measured.
    fn is_small(&self) -> bool {
        self.p99 <= LATE_MAX.as_secs_f64() * 1e6
    }

    /// Why nothing is judged.
    fn too_busy(&self) -> String {
        format!(
            "NOT JUDGED: this machine is too busy: 1 % of the emulated disk's answers were {:.1} ms late or \
             later, {:.0} ms is allowed. Run the demo again when less else runs.",
            self.p99 / 1e3,
            LATE_MAX.as_secs_f64() * 1e3
        )
    }
}

/// How a demo exits.
fn exit(judged: bool, pass: bool) -> ExitCode {
    ExitCode::from(match (judged, pass) {
        (false, _) => failure::NOT_JUDGED,
        (true, false) => failure::FAILED,
        (true, true) => 0,
    })
}

#[derive(Serialize)]
struct Stream {
    name: String,
    reserve: f64,
    utilization: f64,
    iops: f64,
    alone_iops: f64,
    insulation: f64,
}

impl Stream {
    fn kept(&self) -> bool {
        ((self.utilization - self.reserve) * 100.0).abs() <= TOLERANCE
    }

    /// Whether its share was worth what it would be alone. A virtual disk without a reservation has
    /// no claim.
    fn insulated(&self) -> bool {
        let bar = if self.reserve < LITTLE { INSULATION_LITTLE } else { INSULATION };
        self.reserve == 0.0 || self.insulation >= bar
    }
}

impl Report {
    /// Only `disktime` claims that a share is worth what it would be alone.
    fn claims_insulation(&self) -> bool {
        self.policy == "disktime" && self.seconds >= JUDGED.as_secs_f64()
    }

    fn kept(&self) -> bool {
        self.streams.iter().all(Stream::kept)
    }

    fn insulated(&self) -> bool {
        !self.claims_insulation() || self.streams.iter().all(Stream::insulated)
    }
}

/// A virtual disk's totals since the start, at one moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    requests: u64,
    charged: Duration,
}

/// A virtual disk's rates between two moments.
#[derive(Clone, Copy)]
struct Rate {
    iops: f64,
    utilization: f64,
}

/// Rates of virtual disks over whole rounds: a stream that has more than its share now has less
/// soon, and a span that begins and ends anywhere in that says up to 2 points too much or too
/// little in 20 s.
struct Rounds {
    /// When it was first looked at.
    first: Vec<Sample>,
    last: Vec<Sample>,
    /// When the first virtual disk began its first round, and its latest.
    begins: Option<[Vec<Sample>; 2]>,
    /// Whole rounds between these.
    whole: u32,
    /// Since when it has not been charged.
    waits_since: Instant,
}

impl Rounds {
    fn new(first: Vec<Sample>) -> Self {
        let waits_since = first[0].at;
        Self { last: first.clone(), first, begins: None, whole: 0, waits_since }
    }

    fn add(&mut self, samples: Vec<Sample>) {
        if samples[0].charged > self.last[0].charged {
            if self.last[0].at >= self.waits_since + BETWEEN_SLICES {
                let before = || self.last.clone();
                self.whole += u32::from(self.begins.is_some());
                self.begins.get_or_insert_with(|| [before(), before()])[1] = before();
            }
            self.waits_since = samples[0].at;
        }
        self.last = samples;
    }

    /// Over whole rounds, if most of the time is in some.
    fn rates(&self) -> Vec<Rate> {
        let all = [&self.first, &self.last];
        let long = |[from, to]: &[&Vec<Sample>; 2]| to[0].at - from[0].at;
        let whole = self.begins.as_ref().map(<[_; 2]>::each_ref);
        let [from, to] = whole.filter(|whole| long(whole) * 2 > long(&all)).unwrap_or(all);
        from.iter().zip(to).map(|(from, to)| rate(*from, *to)).collect()
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    interrupt::polled();
    if arguments.web {
        return web::run(arguments);
    }
    let shared: Duration = arguments.duration.map_or(USUAL, Into::into);
    let asked = humantime::format_duration(shared);
    if shared < Duration::from_secs(1) || shared > Duration::from_secs(24 * 3600) {
        bail!(BadInput(format!("--for {asked}: 1s to 24h")));
    }
    let least = match arguments.scene {
        Scene::Split => two_rounds(arguments.split),
        Scene::Recorder => recorder::LEAST_TIME,
        Scene::Video => video::LEAST_TIME,
    };
    if shared < least {
        let least = (least.as_secs_f64() * 10.0).ceil() / 10.0;
        let why = match (arguments.scene, arguments.split) {
            (Scene::Split, [first, second]) => format!("two rounds of a split {first}/{second}"),
            (Scene::Recorder, _) => "two of the cameras' cycles".to_owned(),
            (Scene::Video, _) => "finding out what the player needs, and as much again,".to_owned(),
        };
        bail!(BadInput(format!("--for {asked}: {why} take {least}s: give it that or more")));
    }
    if arguments.scene == Scene::Recorder {
        return recorder::run(shared, arguments.json);
    }
    if arguments.scene == Scene::Video {
        return video::run(shared, arguments.json);
    }
    let directory = Temporary::new("disktime-demo-")?;
    let config = config(directory.path(), arguments.split)?;
    let policy = config.devices[0].scheduling.policy.name.to_owned();
    let server = Server::start(config)?;
    let view = view::View::new(arguments.json, arguments.split);
    let demo = Demo { server, policy, view };
    let report = demo.run(arguments, shared)?;
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        view::verdict(&report);
    }
    Ok(exit(report.judged, report.pass))
}

/// The least time that two whole rounds take; nothing where there are none.
fn two_rounds([first, second]: [u32; 2]) -> Duration {
    let of = |share: u32| f64::from(share) / f64::from(first + second).max(1.0);
    let parts = of(first) * of(second);
    if parts > 0.0 { LAG_RANGE.mul_f64(f64::from(ROUNDS_MIN) / parts) } else { Duration::ZERO }
}

/// How the machine kept up with the demo.
#[derive(Default)]
struct Machine {
    /// How much later than its timing model the emulated disk answered.
    late: Counts,
    /// The time that threads waited for a CPU, in so much time.
    waited: Duration,
    measured: Duration,
}

struct Demo {
    server: Server,
    policy: String,
    view: view::View,
}

impl Demo {
    fn run(&self, arguments: &Arguments, shared: Duration) -> anyhow::Result<Report> {
        let alone = (shared / 4).clamp(Duration::from_secs(3), Duration::from_secs(10));
        let (mut alone_iops, mut machine) = (Vec::new(), Machine::default());
        for index in 0..2 {
            let phase = format!("{} alone", self.disk(index).name);
            alone_iops.push(self.phase(&phase, &[index], alone, &mut machine)?.rates()[0].iops);
        }
        let rounds = self.phase("both together", &[0, 1], shared, &mut machine)?;
        let rates = rounds.rates();
        let stream = |index: usize| {
            let reserve = f64::from(arguments.split[index]) / 100.0;
            let Rate { iops, utilization } = rates[index];
            let name = self.disk(index).name.clone();
            let insulation = if reserve > 0.0 { iops / (reserve * alone_iops[index]) } else { 0.0 };
            Stream { name, reserve, utilization, iops, alone_iops: alone_iops[index], insulation }
        };
        let streams: Vec<Stream> = (0..2).map(stream).collect();
        let timing_error_us = TimingError::of(&machine.late);
        let cpu_wait = machine.waited.as_secs_f64() / machine.measured.as_secs_f64().max(1e-9);
        // A virtual disk that has all or nothing has no rounds.
        let rounds_enough = rounds.whole >= ROUNDS_MIN || two_rounds(arguments.split).is_zero();
        let judged = timing_error_us.is_small() && cpu_wait <= CPU_WAIT_MAX && rounds_enough;
        let (policy, seconds, rounds) = (self.policy.clone(), shared.as_secs_f64(), rounds.whole);
        let report = Report {
            device: PRESET,
            policy,
            seconds,
            streams,
            timing_error_us,
            cpu_wait,
            rounds,
            judged,
            pass: false,
        };
        Ok(Report { pass: judged && report.kept() && report.insulated(), ..report })
    }

    fn disk(&self, index: usize) -> &VdiskView {
        &self.server.vdisks()[index]
    }

    /// Loads some of the virtual disks for a while; answers what each got, without the settling, and
    /// notes how the machine kept up.
    fn phase(
        &self,
        name: &str,
        disks: &[usize],
        length: Duration,
        machine: &mut Machine,
    ) -> anyhow::Result<Rounds> {
        let loads =
            disks.iter().map(|index| self.load(*index)).collect::<anyhow::Result<Vec<_>>>()?;
        wait_until(now() + SETTLE)?;
        let sample = || disks.iter().map(|index| self.sample(*index)).collect::<Vec<_>>();
        let mut rounds = Rounds::new(sample());
        let timing = &self.server.devices()[0].timing_error;
        let (before, waits) = (timing.counts(), cpu::Waits::now());
        let (begin, mut drawn) = (now(), rounds.last.clone());
        let end = begin + length;
        while now() < end {
            wait_until((now() + POLL).min(end))?;
            rounds.add(sample());
            if now() < drawn[0].at + TICK && now() < end {
                continue;
            }
            let totals = rounds.rates();
            let rows = (0..disks.len())
                .map(|at| (disks[at], rate(drawn[at], rounds.last[at]), totals[at]));
            self.view.draw(name, now() - begin, length, &rows.collect::<Vec<_>>());
            drawn.clone_from(&rounds.last);
        }
        machine.late.add_span(&before, &timing.counts());
        machine.waited += cpu::Waits::now().since(&waits);
        machine.measured += now() - begin;
        for load in loads {
            let report = load.stop();
            if let Some(error) = report.lost {
                return Err(error)
                    .with_context(|| format!("{}: the connection broke", report.name));
            }
            if report.counters.failed > 0 {
                bail!("{}: {} requests failed", report.name, report.counters.failed);
            }
        }
        self.view.end_phase();
        Ok(rounds)
    }

    fn load(&self, index: usize) -> anyhow::Result<Load> {
        load(self.disk(index), index)
    }

    fn sample(&self, index: usize) -> Sample {
        let stats = &self.disk(index).stats;
        Sample { at: now(), requests: stats.requests(), charged: stats.charged() }
    }
}

/// The load of a virtual disk: the first one reads runs, the other anywhere.
fn load(disk: &VdiskView, index: usize) -> anyhow::Result<Load> {
    let uri: Uri = disk.uris()[0].parse()?;
    let pattern = if index == 0 { Pattern::Runs { length: RUN } } else { Pattern::Random };
    let spec = LoadSpec {
        workload: Spec::reads(pattern, Extent { start: 0, end: DISK_SIZE }, REQUEST),
        pace: Pace::Closed { outstanding: OUTSTANDING, think: disktime_core::Duration::ZERO },
        seed: 1,
        name: disk.name.clone(),
        options: Options::default(),
    };
    Ok(Load::start(&uri, spec)?)
}

/// Waits, unless a signal says to stop.
fn wait_until(until: Instant) -> Result<(), Interrupted> {
    while now() < until {
        interrupt::check()?;
        sleep(until.saturating_duration_since(now()).min(NOTICE));
    }
    Ok(())
}

fn rate(from: Sample, to: Sample) -> Rate {
    let seconds = (to.at - from.at).as_secs_f64().max(1e-9);
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let iops = (to.requests - from.requests) as f64 / seconds;
    let utilization = (to.charged - from.charged).as_secs_f64() / seconds;
    Rate { iops, utilization }
}

/// Size of each virtual disk in bytes (9 GiB): together they nearly fill the emulated disk.
const DISK_SIZE: u64 = 9 << 30;

fn config(directory: &std::path::Path, split: [u32; 2]) -> anyhow::Result<Config> {
    let [sequential, random] = split;
    let text = format!(
        r#"
[server]
nbd = ["unix:{directory}/nbd.sock"]

[[device]]
name = "disk"
back_end = "file:{directory}/disks"
create = true
emulate = "{PRESET}"

[[vdisk]]
name = "sequential"
device = "disk"
size = "{DISK_SIZE}B"
reserve = "{sequential}%"

[[vdisk]]
name = "random"
device = "disk"
size = "{DISK_SIZE}B"
reserve = "{random}%"
"#,
        directory = directory.display()
    );
    Config::parse(&text).context("the embedded configuration")
}

fn parse_split(text: &str) -> Result<[u32; 2], String> {
    let wrong =
        || "two whole percentages like `70/30`, each 0 to 100, together at most 100".to_owned();
    let (first, second) = text.split_once('/').ok_or_else(wrong)?;
    let share = |text: &str| text.parse::<u32>().ok().filter(|share| *share <= 100);
    let (first, second) = share(first).zip(share(second)).ok_or_else(wrong)?;
    if first + second > 100 { Err(wrong()) } else { Ok([first, second]) }
}

#[expect(clippy::disallowed_methods, reason = "the demo measures in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the demo waits in real time, for a person")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rounds() {
        let first = now();
        // 700 ms of 1 s each, looked at from the middle of a round to the end of one.
        let had = |at: u64| (at / 1000 * 700 + (at % 1000).min(700), (at % 1000).max(700) - 700);
        let sample = |millis: u64| {
            let at = first + Duration::from_millis(millis);
            let (own, others) = had(millis);
            let others = others + millis / 1000 * 300;
            let charged = |millis| Duration::from_millis(millis);
            vec![
                Sample { at, requests: 10 * own, charged: charged(own) },
                Sample { at, requests: others, charged: charged(others) },
            ]
        };
        let mut rounds = Rounds::new(sample(350));
        let mut shares = Vec::new();
        for millis in (360..9700).step_by(10) {
            rounds.add(sample(millis));
            shares.push(rounds.rates()[0].utilization);
        }
        assert_eq!(rounds.whole, 8, "from the second to the tenth");
        let rates = rounds.rates();
        assert!((rates[0].utilization - 0.7).abs() < 1e-6, "{:?}", rates[0].utilization);
        assert!((rates[1].utilization - 0.3).abs() < 1e-6);
        assert!((rates[0].iops - 7000.0).abs() < 1e-3);
        // Until there is a whole round: all that was seen.
        assert!((shares[0] - 1.0).abs() < 1e-6);
    }

    /// On a busy machine the demo said BROKEN of a scheduler that had kept everything.
    #[test]
    fn a_phase_that_could_not_be_measured_is_not_judged() {
        let error = |p99| TimingError { p50: 40.0, p99 };
        assert!(error(999.0).is_small() && !error(1001.0).is_small());
        assert!(error(2500.0).too_busy().starts_with("NOT JUDGED: this machine is too busy"));
        let stream = |name: &str, reserve, utilization| Stream {
            name: name.to_owned(),
            reserve,
            utilization,
            iops: 1.0,
            alone_iops: 1.0,
            insulation: 1.0,
        };
        let mut report = Report {
            device: PRESET,
            policy: "disktime".to_owned(),
            seconds: 20.0,
            streams: vec![stream("sequential", 0.7, 0.5), stream("random", 0.3, 0.5)],
            timing_error_us: error(2500.0),
            cpu_wait: 0.0,
            rounds: 12,
            judged: false,
            pass: false,
        };
        assert!(view::judgement(&report).starts_with("NOT JUDGED: this machine is too busy"));
        (report.timing_error_us, report.rounds) = (error(10.0), 1);
        assert!(view::judgement(&report).starts_with("NOT JUDGED: 1 whole round"));
        (report.cpu_wait, report.rounds) = (0.21, 12);
        let said = view::judgement(&report);
        assert!(
            said.starts_with("NOT JUDGED: this machine is too busy: for .21 of the time"),
            "{said}"
        );
        (report.cpu_wait, report.judged) = (0.05, true);
        assert!(view::judgement(&report).starts_with("BROKEN"));
    }

    #[test]
    fn two_rounds_take_as_long_as_a_split_makes_them() {
        let seconds = |split| two_rounds(split).as_secs_f64();
        assert!((seconds([50, 50]) - 2.8).abs() < 1e-9 && (seconds([30, 30]) - 2.8).abs() < 1e-9);
        assert!((seconds([90, 10]) - 7.78).abs() < 0.01);
        assert_eq!((two_rounds([0, 100]), two_rounds([0, 0])), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn splits() {
        assert_eq!(parse_split("70/30"), Ok([70, 30]));
        assert_eq!(parse_split("0/100"), Ok([0, 100]));
        for text in ["70", "70/31", "-1/50", "70%/30%", "a/b", "101/0", ""] {
            assert!(parse_split(text).unwrap_err().contains("70/30"), "{text}");
        }
    }
}
