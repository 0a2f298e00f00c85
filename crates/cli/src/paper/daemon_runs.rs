//! Figures run live: the real daemon on two tiers that it emulates, under real clients, or programs on a
//! mount.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use disktime_client::{Load, LoadSpec, Options, Uri};
use disktime_papers::live_figures::{Cell, Live};
use disktime_papers::mounted_figures::Mounted;
use disktime_papers::{LIVE, MOUNTED, Report, Sample};
use disktime_server::{Config, Server};
use disktime_workload::{Extent, Pace, Pattern, Spec};

use super::mounted_runs;
use crate::BadInput;
use crate::interrupt::{self, Interrupted, Temporary};
use crate::progress::Progress;

const SPANS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);
/// Until loads have filled the device.
const SETTLE: Duration = Duration::from_secs(2);
/// How long extents may take to get where they belong.
const TIMEOUT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(50);
const NAMES: [&str; 2] = ["a", "b"];
const MIB: u64 = 1 << 20;

/// Which figures are run live, and how long each cell on tiers. A run on a mount is as long as its figure.
pub struct Wanted {
    span: Duration,
    figures: Vec<&'static Live>,
    mounted: Vec<&'static Mounted>,
}

impl Wanted {
    /// The figures among them that can be run live.
    pub fn new(span: humantime::Duration, ids: &[String]) -> Result<Self, BadInput> {
        if !SPANS.contains(&*span) {
            return Err(BadInput(format!("--live {span}: 1s to 1h a cell")));
        }
        let figures: Vec<_> =
            ids.iter().filter_map(|id| LIVE.iter().find(|live| live.id == *id)).collect();
        let mounted: Vec<_> =
            ids.iter().filter_map(|id| MOUNTED.iter().find(|live| live.id == *id)).collect();
        if figures.is_empty() && mounted.is_empty() {
            let known: Vec<_> = disktime_papers::live_ids().collect();
            let ids = ids.join(", ");
            let known = known.join(", ");
            return Err(BadInput(format!("--live: none of {ids} is run live; those are: {known}")));
        }
        Ok(Self { span: *span, figures, mounted })
    }

    /// As it was asked for.
    pub fn flag(&self) -> String {
        format!(" --live {}", humantime::format_duration(self.span))
    }

    /// Runs the figures and puts what they give into their reports.
    pub fn add_to(&self, reports: &mut [Report]) -> anyhow::Result<()> {
        interrupt::polled();
        for figure in &self.figures {
            let rates = self.run(figure).with_context(|| format!("{} live", figure.id))?;
            let sample = (figure.judge)(&rates, self.span.as_secs_f64());
            add(reports, figure.id, sample)?;
        }
        for figure in &self.mounted {
            let progress = Progress::new(0);
            let tell = |name: &str| progress.at(0, &format!("{} live: {name}", figure.id));
            let played = mounted_runs::play(figure, tell);
            let played = played.with_context(|| format!("{} live", figure.id))?;
            drop(progress);
            add(reports, figure.id, (figure.judge)(&played))?;
        }
        Ok(())
    }

    fn run(&self, figure: &Live) -> anyhow::Result<Vec<[f64; 2]>> {
        let array = Array::new(figure)?;
        let mut rates = Vec::new();
        let mut daemon: Option<(Server, &str)> = None;
        let cells = (figure.cells)();
        let progress = Progress::new(cells.len() as u64);
        for (done, cell) in cells.into_iter().enumerate() {
            progress.at(done as u64, &format!("{} live: {}", figure.id, cell.name));
            let config = array.config(cell.policy, cell.weights, Moving::Nothing)?;
            let (same, other) = match daemon.take() {
                Some((server, policy)) if policy == cell.policy => (Some(server), None),
                other => (None, other),
            };
            // Its socket is free before the next one's start.
            other.map_or(Ok(()), |(server, _)| server.shutdown())?;
            let mut server = same.map_or_else(|| Server::start(config.clone()), Ok)?;
            server.reload(config)?;
            rates.push(self.cell(figure, &cell, &server)?);
            daemon = Some((server, cell.policy));
        }
        Ok(rates)
    }

    /// Both loads' requests per second.
    fn cell(&self, figure: &Live, cell: &Cell, server: &Server) -> anyhow::Result<[f64; 2]> {
        let mut loads = Vec::new();
        for (at, extent) in cell.extents.into_iter().enumerate() {
            loads.push(load(server, at, extent, figure.outstanding())?);
        }
        wait(SETTLE)?;
        let done = || [0, 1].map(|at| loads[at].counters().completed);
        let (before, start) = (done(), now());
        wait(self.span)?;
        let (after, seconds) = (done(), (now() - start).as_secs_f64());
        for load in loads {
            end(load)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of requests are small")]
        Ok([0, 1].map(|at| (after[at] - before[at]) as f64 / seconds))
    }
}

fn add(reports: &mut [Report], id: &str, sample: Sample) -> anyhow::Result<()> {
    let report = reports.iter_mut().find(|report| report.id == id);
    report.context("every figure that is asked for has a report")?.add_live(sample);
    Ok(())
}

/// Whether extents are moved between tiers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moving {
    /// All the time, at the tiers' own speed.
    Everything,
    /// Not any more, and tiers are as slow as what they emulate.
    Nothing,
}

/// Two tiers in files, with the start of both virtual disks on the fast one.
struct Array {
    directory: Temporary,
    tiers: String,
    depth: u32,
}

impl Array {
    fn new(figure: &Live) -> anyhow::Result<Self> {
        let directory = Temporary::new("disktime-tiers-")?;
        let array = Self { directory, tiers: figure.tiers.join(","), depth: figure.depth };
        // The map, and what is to be on it; no room for more.
        let fast = MIB + 2 * Live::FAST_BYTES;
        for (name, bytes) in [("fast", fast), ("slow", 2 * Live::DISK_BYTES)] {
            std::fs::File::create(array.path(name))?.set_len(bytes)?;
        }
        array.promote()?;
        Ok(array)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Reads what is to be fast until it is.
    fn promote(&self) -> anyhow::Result<()> {
        let config = self.config("fifo", [100, 100], Moving::Everything)?;
        let server = Server::start(config)?;
        let wanted = Extent { start: 0, end: Live::FAST_BYTES };
        let loads = (0..2).map(|at| load(&server, at, wanted, 1));
        let loads = loads.collect::<anyhow::Result<Vec<_>>>()?;
        let until = now() + TIMEOUT;
        let extents = 2 * Live::FAST_BYTES / MIB;
        while server.devices()[0].moved() < extents {
            if now() > until {
                bail!("{} of {extents} extents were promoted", server.devices()[0].moved());
            }
            wait(TICK)?;
        }
        loads.into_iter().try_for_each(end)?;
        Ok(server.shutdown()?)
    }

    fn config(&self, policy: &str, weights: [u32; 2], moving: Moving) -> anyhow::Result<Config> {
        let directory = self.directory.path();
        let device = match moving {
            Moving::Everything => "promotion = \"100%\"".to_owned(),
            Moving::Nothing => {
                let Self { tiers, depth, .. } = self;
                format!("promotion = \"0%\"\nemulate = \"{tiers}\"\nqueue_depth = {depth}")
            }
        };
        let text = config_text(directory, policy, &device, weights);
        Config::parse(&text).context("the embedded configuration")
    }
}

fn config_text(directory: &Path, policy: &str, device: &str, weights: [u32; 2]) -> String {
    let directory = directory.display();
    let mut text = format!(
        "[server]\nnbd = [\"unix:{directory}/nbd.sock\"]\n\
         [[device]]\nname = \"array\"\nback_end = \"tiered:{directory}/fast,{directory}/slow\"\n\
         policy = \"{policy}\"\nexperimental = true\n{device}\n"
    );
    for (name, weight) in NAMES.iter().zip(weights) {
        text += &format!(
            "[[vdisk]]\nname = \"{name}\"\ndevice = \"array\"\nsize = \"{}B\"\nweight = {weight}\n",
            Live::DISK_BYTES
        );
    }
    text
}

fn load(server: &Server, at: usize, extent: Extent, outstanding: u32) -> anyhow::Result<Load> {
    let uri: Uri = server.vdisks()[at].uris()[0].parse()?;
    let spec = LoadSpec {
        workload: Spec::reads(Pattern::Random, extent, Live::REQUEST_BYTES),
        pace: Pace::Closed { outstanding, think: disktime_core::Duration::ZERO },
        seed: 1,
        name: NAMES[at].to_owned(),
        options: Options::default(),
    };
    Ok(Load::start(&uri, spec)?)
}

fn end(load: Load) -> anyhow::Result<()> {
    let report = load.stop();
    if let Some(error) = report.lost {
        return Err(error).with_context(|| format!("{}: the connection broke", report.name));
    }
    if report.counters.failed > 0 {
        bail!("{}: {} requests failed", report.name, report.counters.failed);
    }
    Ok(())
}

/// Waits, unless a signal says to stop.
fn wait(span: Duration) -> Result<(), Interrupted> {
    let until = now() + span;
    while now() < until {
        interrupt::check()?;
        sleep(until.saturating_duration_since(now()).min(TICK));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "live runs are measured in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "live runs take real time")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
