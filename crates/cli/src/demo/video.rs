//! `disktime demo --scene video`: a player that stays smooth while best effort storms, because it
//! says when it is not.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use disktime_client::{Counters, Load, LoadSpec, MissReports, Options, Uri};
use disktime_server::{Config, Server};
use disktime_workload::{Extent, Pace, Pattern, Playback, Spec};
use serde::Serialize;

use super::{TimingError, exit, now, wait_until};
use crate::interrupt::Temporary;
use crate::table;
use crate::terminal::prose;

/// The emulated disk: that of the paper on missed deadlines.
const PRESET: &str = "st340810a";
/// The paper's too, and its tokens. Under the defaults (`disktime`, tokens of time) a player that
/// keeps its misses to itself has fewer of them, of a third of a second each, and one that reports two.
const POLICY: &str = "elevator";
/// Virtual disks that best effort reads from, one after another.
const STORMS: usize = 3;
/// The player's rate, in bytes per second, and its buffer.
const RATE: u64 = 8_000_000;
const BUFFER: disktime_core::Duration = disktime_core::Duration::from_secs(1);
/// Bytes of each request, and how many each client has outstanding.
const REQUEST: u64 = 128 << 10;
const OUTSTANDING: u32 = 4;
/// The controller's allowance for finding out how much the player needs: time, and misses.
const GRACE: Duration = Duration::from_secs(5);
const MISSES_MAX: u64 = 3;
/// How long a player that keeps its misses to itself is watched: a quarter of the scene, within
/// these bounds.
const SILENT: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(10)];
/// The storm's head start.
const SETTLE: Duration = Duration::from_secs(1);
/// The shortest time that is judged: as much after the grace as in it.
pub(super) const LEAST_TIME: Duration = Duration::from_secs(10);
/// How often a line is shown.
const TICK: Duration = Duration::from_secs(4);

/// The scene's result.
#[derive(Serialize)]
struct Report {
    device: &'static str,
    scene: &'static str,
    policy: &'static str,
    feedback: &'static str,
    /// In bytes per second.
    rate: u64,
    phases: [Phase; 2],
    timing_error_us: TimingError,
    judged: bool,
    pass: bool,
}

/// How the player did in a phase.
#[derive(Serialize)]
struct Phase {
    /// Whether its misses were reported.
    reports: bool,
    seconds: f64,
    misses: u64,
    /// Misses after the first seconds; `misses` includes them.
    misses_late: u64,
    seconds_stalled: f64,
    worst_lateness_ms: f64,
    bytes_per_second: f64,
    /// Rate of all storming streams together.
    best_effort_bytes_per_second: f64,
}

/// Runs the scene for that long.
pub(super) fn run(seconds: Duration, json: bool) -> anyhow::Result<ExitCode> {
    let directory = Temporary::new("disktime-demo-")?;
    let say = |text: &str| {
        // Under --json nobody watches.
        if !json {
            println!("{}", prose(text));
        }
    };
    say(&format!(
        "An emulated Seagate ST340810A (5400 rpm, 40 GB, 2001) behind the real daemon, over NBD. A player \
         needs {} MB/s, with a buffer of a second; {STORMS} readers take all they can get. First the \
         player keeps its misses to itself. Then it reports them, a datagram each, and best effort is \
         held back until they stop.\n",
        RATE / 1_000_000
    ));
    let server = Server::start(config(directory.path())?)?;
    let storms: Vec<_> =
        (1..=STORMS).map(|place| storm(&server, place)).collect::<anyhow::Result<_>>()?;
    let scene = Scene { server, misses: directory.path().join("misses.sock"), say: &say };
    wait_until(now() + SETTLE)?;
    let silent = scene.phase((seconds / 4).clamp(SILENT[0], SILENT[1]), false)?;
    let heard = scene.phase(seconds, true)?;
    for load in storms {
        let report = load.stop();
        if let Some(error) = report.lost {
            return Err(error).with_context(|| format!("{}: the connection broke", report.name));
        }
    }
    let counts = scene.server.devices()[0].timing_error.counts();
    let timing_error_us = TimingError::of(&counts);
    let judged = timing_error_us.is_small();
    let pass = judged && heard.misses_late == 0 && heard.misses <= MISSES_MAX;
    let (device, scene, policy) = (PRESET, "video", POLICY);
    let phases = [silent, heard];
    let (feedback, rate) = ("adaptive", RATE);
    let report =
        Report { device, scene, policy, feedback, rate, phases, timing_error_us, judged, pass };
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        verdict(&report);
    }
    Ok(exit(report.judged, report.pass))
}

struct Scene<'a> {
    server: Server,
    misses: std::path::PathBuf,
    say: &'a dyn Fn(&str),
}

impl Scene<'_> {
    /// Plays for a while.
    fn phase(&self, length: Duration, reports: bool) -> anyhow::Result<Phase> {
        let told = reports.then(|| MissReports::new(&self.misses, "video")).transpose()?;
        let load = Load::start_reporting(&self.uri(0)?, player(), told)?;
        let (begin, storm) = (now(), self.best_effort());
        let (mut early, mut shown) = (0, (begin, 0, storm));
        let (mut line, end) = (begin + TICK, begin + length);
        while now() < end {
            wait_until((now() + Duration::from_millis(100)).min(end))?;
            let did = load.counters();
            if now() - begin <= GRACE.min(length) {
                early = did.misses;
            }
            if now() >= line.min(end) {
                shown = self.show(&did, begin, shown);
                line += TICK;
            }
        }
        let (seconds, storm) = ((now() - begin).as_secs_f64(), self.best_effort() - storm);
        let report = load.stop();
        if let Some(error) = report.lost {
            return Err(error).context("video: the connection broke");
        }
        let did = report.counters;
        if did.failed + did.unreported > 0 {
            bail!("video: {} requests failed, {} reports", did.failed, did.unreported);
        }
        (self.say)("");
        Ok(Phase {
            reports,
            seconds,
            misses: did.misses,
            misses_late: did.misses - early,
            seconds_stalled: float(did.stalled_ns) / 1e9,
            worst_lateness_ms: float(did.stalled_ns_max) / 1e6,
            bytes_per_second: float(did.bytes_read) / seconds,
            best_effort_bytes_per_second: float(storm) / seconds,
        })
    }

    /// A line on what was done since the last one.
    fn show(
        &self,
        did: &Counters,
        begin: std::time::Instant,
        last: (std::time::Instant, u64, u64),
    ) -> (std::time::Instant, u64, u64) {
        let (at, storm) = (now(), self.best_effort());
        let span = (at - last.0).as_secs_f64().max(1e-9);
        self.server.refresh();
        let held = self.server.devices()[0].best_effort_reads();
        let held = held.map_or("not held back".to_owned(), |milli| {
            format!("held to {:.0} requests/s", float(milli) / 1e3)
        });
        (self.say)(&format!(
            "{:.0} s: player {:.2} MB/s, {} misses; best effort {:.2} MB/s, {held}",
            (at - begin).as_secs_f64(),
            float(did.bytes_read - last.1) / span / 1e6,
            did.misses,
            float(storm - last.2) / span / 1e6,
        ));
        (at, did.bytes_read, storm)
    }

    fn best_effort(&self) -> u64 {
        self.server.vdisks()[1..].iter().map(|disk| disk.stats.bytes()).sum()
    }

    fn uri(&self, place: usize) -> anyhow::Result<Uri> {
        Ok(self.server.vdisks()[place].uris()[0].parse()?)
    }
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn float(value: u64) -> f64 {
    value as f64
}

fn player() -> LoadSpec {
    let playback = Playback {
        bytes_per_second: RATE,
        buffer: BUFFER,
        outstanding: OUTSTANDING,
        vbr_permille: 0,
    };
    load("video", Pace::Player(playback))
}

fn storm(server: &Server, place: usize) -> anyhow::Result<Load> {
    let disk = &server.vdisks()[place];
    let pace = Pace::Closed { outstanding: OUTSTANDING, think: disktime_core::Duration::ZERO };
    Ok(Load::start(&disk.uris()[0].parse()?, load(&disk.name, pace))?)
}

fn load(name: &str, pace: Pace) -> LoadSpec {
    let workload = Spec::reads(Pattern::Sequential, Extent { start: 0, end: SIZE }, REQUEST);
    LoadSpec { name: name.to_owned(), workload, pace, seed: 1, options: Options::default() }
}

/// Size of each virtual disk in bytes (9 GiB).
const SIZE: u64 = 9 << 30;

fn config(directory: &Path) -> anyhow::Result<Config> {
    use std::fmt::Write;
    let directory = directory.display();
    let mut text = format!(
        r#"
[server]
nbd = ["unix:{directory}/nbd.sock"]
misses = "unix:{directory}/misses.sock"

[[device]]
name = "disk"
back_end = "file:{directory}/disks"
create = true
emulate = "{PRESET}"
policy = "{POLICY}"
experimental = true
feedback = "adaptive"
feedback_token = "request"

[[vdisk]]
name = "video"
device = "disk"
size = "{SIZE}B"
class = "soft-real-time"
"#
    );
    for storm in 1..=STORMS {
        write!(
            text,
            "\n[[vdisk]]\nname = \"storm-{storm}\"\ndevice = \"disk\"\nsize = \"{SIZE}B\"\n"
        )?;
    }
    Config::parse(&text).context("the embedded configuration")
}

fn verdict(report: &Report) {
    let header = ["player", "MB/s", "misses", "stalled s", "worst late ms", "best effort MB/s"];
    let mut table = table::new(&header, 1..6);
    for phase in &report.phases {
        table.add_row([
            if phase.reports { "reports misses" } else { "keeps them to itself" }.to_owned(),
            format!("{:.2}", phase.bytes_per_second / 1e6),
            phase.misses.to_string(),
            format!("{:.1}", phase.seconds_stalled),
            format!("{:.0}", phase.worst_lateness_ms),
            format!("{:.2}", phase.best_effort_bytes_per_second / 1e6),
        ]);
    }
    println!("{table}\n");
    let [_, heard] = &report.phases;
    if !report.judged {
        println!("{}", prose(&report.timing_error_us.too_busy()));
    } else if report.pass {
        println!(
            "SMOOTH: no data were late after the first {} s, in which it is found out what\nthe \
             player needs.",
            GRACE.as_secs()
        );
    } else {
        println!(
            "MISSED: data were late {} times, {} of them after the first {} s;\n{MISSES_MAX} \
             and 0 are allowed.",
            heard.misses,
            heard.misses_late,
            GRACE.as_secs()
        );
    }
}
