//! A player of 8 MB/s beside three readers on the daemon with an emulated disk, against the simulator
//! on the same scenario (paper `mdn`, figure 2).
#![expect(clippy::cast_precision_loss, reason = "bytes of a minute")]
#![expect(clippy::disallowed_methods, reason = "the daemon lives in real time")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use disktime_client::{Load, LoadSpec, Options};
use disktime_core::feedback::{FeedbackConfig, Token};
use disktime_server::{Config, Server};
use disktime_sim as sim;
use disktime_workload::{Extent, Pace, Pattern, Spec};

use crate::{DEMO_NOT_JUDGED, Found};

const PRESET: &str = "st340810a";
/// The player's, in bytes per second.
const RATE: u64 = 8_000_000;
const REQUEST: u64 = 128 << 10;
/// Requests outstanding of each client: more than the paper's one, because a client that is asked
/// anew after each answer is late for the elevator's batch, which no simulation shows.
const OUTSTANDING: u32 = 4;
/// The virtual disks in their order, in MiB, and where in each its file is: the figure's places, at
/// 2, 10, 32 and 36 GB of the disk.
const DISKS: [(&str, u64, u64); 4] =
    [("best-1", 9536, 1907), ("video", 20_981, 0), ("best-2", 3815, 0), ("best-3", 1900, 0)];
const PLAYER: usize = 1;
const FILE_MIB: u64 = 1811;
/// Time before the measurement, in seconds: by then buffers stay as they are.
const SETTLE: u64 = 5;
/// How far live throughput may be from the simulated.
const TOLERANCE: f64 = 0.07;

/// How best effort is shaped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shaped {
    Not,
    /// To so many tokens, requests of 128 KiB, per second.
    At(u32),
    Adaptive,
}

impl Shaped {
    fn feedback(self) -> FeedbackConfig {
        let config = FeedbackConfig { token: Token::Request, ..FeedbackConfig::default() };
        let named = |name| disktime_rivals::controller(name).expect("a controller's name");
        match self {
            Self::Not => config,
            Self::At(rate_start) => {
                FeedbackConfig { controller: named("fixed"), rate_start, ..config }
            }
            Self::Adaptive => FeedbackConfig { controller: named("adaptive"), ..config },
        }
    }
}

/// MB/s of the player and of the others together.
#[derive(Clone, Copy, Debug)]
struct Got {
    player: f64,
    others: f64,
}

impl Got {
    fn total(self) -> f64 {
        self.player + self.others
    }
}

/// Six seconds, unshaped and shaped to 50 tokens/s.
pub(crate) fn short() -> anyhow::Result<Found> {
    let not = compare(Shaped::Not, 6)?;
    let at = compare(Shaped::At(50), 6)?;
    Ok(verdict(&[
        not.agrees(),
        at.agrees(),
        (at.live.player > 7.8, format!("the player has {:.2} MB/s of 7.8", at.live.player)),
    ]))
}

/// A minute of each way to shape.
pub(crate) fn long() -> anyhow::Result<Found> {
    let not = compare(Shaped::Not, 60)?;
    let at = compare(Shaped::At(50), 60)?;
    let adaptive = compare(Shaped::Adaptive, 60)?;
    let equal = not.live.player / (not.live.others / 3.0);
    Ok(verdict(&[
        not.agrees(),
        at.agrees(),
        adaptive.agrees(),
        ((equal - 1.0).abs() < 0.1, format!("not shaped, the player has {equal:.2} of another's")),
        (
            at.live.player > 7.8 && at.live.total() < not.live.total(),
            format!("shaped, the player has {:.2} MB/s of 7.8", at.live.player),
        ),
        (
            adaptive.live.player > 7.8,
            format!("adaptively shaped, the player has {:.2} MB/s of 7.8", adaptive.live.player),
        ),
    ]))
}

/// `disktime demo --scene video`, which judges itself: at most three misses, none after 5 s, once they
/// are reported; and more while they are not.
pub(crate) fn scene() -> anyhow::Result<Found> {
    let output = Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["demo", "--scene", "video", "--json", "--for", "12s"])
        .output()?;
    if output.status.code() == Some(DEMO_NOT_JUDGED) {
        return Ok(Found::TooBusy("the demo was not judged".to_owned()));
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).context(errors)?;
    let misses = |phase: usize| {
        report["phases"][phase]["misses"].as_u64().with_context(|| format!("no misses: {report}"))
    };
    let [silent, reported] = [misses(0)?, misses(1)?];
    Ok(verdict(&[
        (output.status.success(), format!("{reported} misses while they are reported")),
        (silent > reported, format!("{silent} misses while they are not")),
    ]))
}

/// A live figure beside the simulated one.
struct Compared {
    shaped: Shaped,
    live: Got,
    simulated: Got,
}

impl Compared {
    /// Whether they agree, and the figures.
    fn agrees(&self) -> (bool, String) {
        let Self { shaped, live, simulated } = self;
        let near = |live: f64, simulated: f64| (live / simulated - 1.0).abs() < TOLERANCE;
        let agrees = near(live.player, simulated.player) && near(live.others, simulated.others);
        (agrees, format!("{shaped:?}: live {live:.2?}, simulated {simulated:.2?}"))
    }
}

fn compare(shaped: Shaped, seconds: u64) -> anyhow::Result<Compared> {
    let live = live(shaped, seconds)?;
    Ok(Compared { shaped, live, simulated: simulated(shaped, seconds)? })
}

fn verdict(checks: &[(bool, String)]) -> Found {
    let all: Vec<String> = checks.iter().map(|(_, figure)| figure.clone()).collect();
    let missed = checks.iter().filter(|(holds, _)| !holds);
    let missed: Vec<String> = missed.map(|(_, figure)| figure.clone()).collect();
    Found::of(&all, &missed)
}

fn live(shaped: Shaped, seconds: u64) -> anyhow::Result<Got> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(config(directory.path(), shaped)?)?;
    let readers: Vec<_> = (0..DISKS.len())
        .filter(|at| *at != PLAYER)
        .map(|at| Reader::start(&server, at, seconds))
        .collect::<anyhow::Result<_>>()?;
    let player = play(&server, directory.path(), SETTLE + seconds + 1)?;
    sleep(Duration::from_secs(SETTLE));
    let bytes = || server.vdisks().iter().map(|disk| disk.stats.bytes()).collect::<Vec<_>>();
    let (begin, first) = (Instant::now(), bytes());
    sleep(Duration::from_secs(seconds));
    let (last, span) = (bytes(), begin.elapsed().as_secs_f64());
    let said = player.wait_with_output()?;
    let said: serde_json::Value = serde_json::from_slice(&said.stdout)?;
    let stream = &said["streams"][0];
    ensure!(stream["failed"] == 0, "{said}");
    eprintln!("{shaped:?}: {} misses, {} s stalled", stream["misses"], stream["seconds_stalled"]);
    readers.into_iter().try_for_each(Reader::stop)?;
    let rates: Vec<_> = (0..DISKS.len()).map(|at| (last[at] - first[at]) as f64 / span).collect();
    Ok(got(&rates))
}

/// `disktime play`, which reports its misses.
fn play(server: &Server, directory: &Path, seconds: u64) -> anyhow::Result<Child> {
    let child = Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["play", "--json", "--rate", "8MB/s", "--for", &format!("{seconds}s")])
        .args(["--outstanding", &OUTSTANDING.to_string(), "--report"])
        .arg(directory.join("misses.sock"))
        .arg(&server.vdisks()[PLAYER].uris()[0])
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// A reader that takes all it can get: fio, or our own where there is none.
enum Reader {
    Fio(Fio),
    Own(Load),
}

/// Ended with the test.
struct Fio(Child);

impl Drop for Fio {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

impl Reader {
    fn start(server: &Server, at: usize, seconds: u64) -> anyhow::Result<Self> {
        let disk = &server.vdisks()[at];
        let (name, _, from_mib) = DISKS[at];
        let fio = Command::new("fio")
            .args(["--ioengine=nbd", "--rw=read", "--bs=128k", "--time_based"])
            .arg(format!("--runtime={}", SETTLE + seconds + 60))
            .arg(format!("--name={name}"))
            .arg(format!("--iodepth={OUTSTANDING}"))
            .arg(format!("--offset={from_mib}m"))
            .arg(format!("--size={FILE_MIB}m"))
            .arg(format!("--uri={}", disk.uris()[0]))
            .stdout(Stdio::null())
            // It complains when the server ends before it does.
            .stderr(Stdio::null())
            .spawn();
        if let Ok(child) = fio {
            return Ok(Self::Fio(Fio(child)));
        }
        let extent = Extent { start: from_mib << 20, end: (from_mib + FILE_MIB) << 20 };
        let spec = LoadSpec {
            name: name.to_owned(),
            workload: Spec::reads(Pattern::Sequential, extent, REQUEST),
            pace: Pace::Closed { outstanding: OUTSTANDING, think: disktime_core::Duration::ZERO },
            seed: 1,
            options: Options::default(),
        };
        Ok(Self::Own(Load::start(&disk.uris()[0].parse()?, spec)?))
    }

    fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Fio(mut fio) => {
                ensure!(fio.0.try_wait()?.is_none(), "fio has ended by itself");
            }
            Self::Own(load) => {
                let report = load.stop();
                ensure!(report.lost.is_none() && report.counters.failed == 0, "{report:?}");
            }
        }
        Ok(())
    }
}

fn got(bytes_per_second: &[f64]) -> Got {
    let total = bytes_per_second.iter().sum::<f64>();
    let player = bytes_per_second[PLAYER];
    Got { player: player / 1e6, others: (total - player) / 1e6 }
}

fn config(directory: &Path, shaped: Shaped) -> anyhow::Result<Config> {
    let directory = directory.display();
    let mut text = format!(
        "[server]\nnbd = [\"unix:{directory}/nbd.sock\"]\n\
         misses = \"unix:{directory}/misses.sock\"\n\
         [[device]]\nname = \"disk\"\nback_end = \"memory\"\nemulate = \"{PRESET}\"\n\
         policy = \"elevator\"\nexperimental = true\n"
    );
    for (at, (name, mib, _)) in DISKS.iter().enumerate() {
        let class = if at == PLAYER { "class = \"soft-real-time\"\n" } else { "" };
        text += &format!(
            "[[vdisk]]\nname = \"{name}\"\ndevice = \"disk\"\nsize = \"{mib}MiB\"\n{class}"
        );
    }
    let mut config = Config::parse(&text)?;
    config.devices[0].scheduling.feedback = shaped.feedback();
    Ok(config)
}

fn simulated(shaped: Shaped, seconds: u64) -> anyhow::Result<Got> {
    let mut text = format!(
        "[scenario]\nduration = \"{}s\"\nwindow = \"1s\"\npolicy = \"elevator\"\n\
         [device]\npreset = \"{PRESET}\"\n",
        SETTLE + seconds
    );
    let mut base = 0;
    for (at, (name, mib, from)) in DISKS.iter().enumerate() {
        let (class, pace) = if at == PLAYER {
            let player =
                format!("player = {{ rate = \"{RATE}B/s\", outstanding = {OUTSTANDING} }}");
            ("class = \"soft-real-time\"\n", player)
        } else {
            ("", format!("closed = {{ outstanding = {OUTSTANDING} }}"))
        };
        text += &format!(
            "[[stream]]\nname = \"{name}\"\nbase = \"{base}MiB\"\n{class}[[stream.phases]]\n\
             spec = {{ pattern = \"sequential\", extent = {{ start = \"{from}MiB\", end = \"{}MiB\" }}, sizes = \"128KiB\" }}\n\
             pace = {{ {pace} }}\n",
            from + FILE_MIB
        );
        base += mib;
    }
    let scenario = sim::Scenario::parse(Path::new("play.toml"), &text)?;
    let mut plan = scenario.plan(1)?;
    plan.scheduling.feedback = shaped.feedback();
    let outcome = sim::simulate(plan)?;
    ensure!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    let of = |stream: usize| {
        let measured = outcome.windows.iter().filter(|window| {
            window.stream.0 as usize == stream && u64::from(window.index) >= SETTLE
        });
        measured.map(|window| window.bytes as f64).sum::<f64>() / seconds as f64
    };
    Ok(got(&(0..DISKS.len()).map(of).collect::<Vec<_>>()))
}
