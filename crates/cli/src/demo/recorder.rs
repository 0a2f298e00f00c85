//! `disktime demo --scene recorder`: cameras that write at a guaranteed rate while a backup storms.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use disktime_client::{Load, LoadSpec, Options, Uri};
use disktime_server::{Config, Server};
use disktime_sim as sim;
use disktime_workload::{Cycles, Extent, Pace, Pattern, Spec};
use serde::Serialize;

use super::{PRESET, TimingError, exit, now, wait_until};
use crate::interrupt::Temporary;
use crate::table;
use crate::terminal::prose;

/// Cameras.
const CAMERAS: usize = 3;
/// The rate at which each writes, in bytes per second.
const RATE: u64 = 2_000_000;
/// Their cycle: at its start a camera hands over what it has recorded in the last one.
const CYCLE: Duration = Duration::from_secs(2);
/// Bytes of a camera's request (128 KiB, paper ucsb §IV), and of the backup's.
const REQUEST: u64 = 128 << 10;
const BACKUP_REQUEST: u64 = 1 << 20;
/// The part of the rate that must have been measured: over 20 s a cycle of 2 s may be under way.
const LEAST: f64 = 0.9;
/// The shortest time that is judged: two cycles.
pub(super) const LEAST_TIME: Duration = Duration::from_secs(4);
/// How often a line is shown.
const TICK: Duration = Duration::from_secs(4);

/// The scene's result.
#[derive(Serialize)]
struct Report {
    device: &'static str,
    scene: &'static str,
    seconds: f64,
    streams: Vec<Stream>,
    timing_error_us: TimingError,
    judged: bool,
    pass: bool,
}

#[derive(Serialize)]
struct Stream {
    name: String,
    class: &'static str,
    /// The guaranteed rate, in bytes per second; 0 for nothing.
    rate: u64,
    bytes_per_second: f64,
    /// Cycles that began with work waiting.
    cycles: u64,
    cycles_missed: u64,
}

impl Stream {
    /// All of its cycles, and its rate but for what a cycle that has just begun still has to do.
    fn kept(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a rate of some MB/s")]
        let least = self.rate as f64 * LEAST;
        self.cycles_missed == 0 && self.bytes_per_second >= least
    }
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
        "An emulated IBM Deskstar 34GXP behind the real daemon, over NBD. {CAMERAS} cameras write \
         {} MB/s each, guaranteed in every cycle of {} s. Then a backup reads as fast as it can, and a \
         random reader joins.\n",
        RATE / 1_000_000,
        CYCLE.as_secs()
    ));
    let profile = directory.path().join("profile.json");
    let device = (disktime_model::preset::find(PRESET).context("the preset exists")?.build)(1);
    let found = sim::measure(device, PRESET, 1)?;
    std::fs::write(&profile, serde_json::to_string(&found)?)?;
    say(&format!("profiled in {:.0} s of the disk's time", found.took.as_secs_f64()));
    let server = Server::start(config(directory.path())?)?;
    let mut loads = Vec::new();
    for disk in 0..CAMERAS {
        loads.push(load(&server, disk)?);
    }
    // The first cycle is one in which the cameras begin.
    wait_until(now() + 2 * CYCLE)?;
    loads.push(load(&server, CAMERAS)?);
    loads.push(load(&server, CAMERAS + 1)?);
    let rates = watch(&server, seconds, &say)?;
    for load in loads {
        let report = load.stop();
        if let Some(error) = report.lost {
            return Err(error).with_context(|| format!("{}: the connection broke", report.name));
        }
        if report.counters.failed > 0 {
            bail!("{}: {} requests failed", report.name, report.counters.failed);
        }
    }
    let report = report(&server, seconds, &rates);
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        verdict(&report);
    }
    Ok(exit(report.judged, report.pass))
}

/// Shows now and then what each virtual disk gets; answers what each got, in bytes per second.
fn watch(server: &Server, seconds: Duration, say: &impl Fn(&str)) -> anyhow::Result<Vec<f64>> {
    let bytes = || server.vdisks().iter().map(|disk| disk.stats.bytes()).collect::<Vec<_>>();
    let (begin, first) = (now(), bytes());
    let rates = |from: &[u64], since: std::time::Instant| {
        let seconds = (now() - since).as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let rate = |(to, from): (u64, &u64)| (to - from) as f64 / seconds;
        bytes().into_iter().zip(from).map(rate).collect::<Vec<_>>()
    };
    let (mut last, mut since) = (first.clone(), begin);
    while now() < begin + seconds {
        wait_until((now() + TICK).min(begin + seconds))?;
        let of = rates(&last, since).into_iter().zip(server.vdisks());
        let of = of.map(|(rate, disk)| format!("{} {:.2}", disk.name, rate / 1e6));
        say(&format!(
            "{:3.0} s, MB/s: {}",
            (now() - begin).as_secs_f64(),
            of.collect::<Vec<_>>().join(", ")
        ));
        (last, since) = (bytes(), now());
    }
    Ok(rates(&first, begin))
}

fn report(server: &Server, seconds: Duration, rates: &[f64]) -> Report {
    let stream = |(place, rate): (usize, f64)| {
        let disk = &server.vdisks()[place];
        let camera = place < CAMERAS;
        Stream {
            name: disk.name.clone(),
            class: if camera { "guaranteed-rate" } else { "best-effort" },
            rate: if camera { RATE } else { 0 },
            bytes_per_second: rate,
            cycles: disk.stats.cycles(),
            cycles_missed: disk.stats.cycles_missed(),
        }
    };
    let streams: Vec<_> = rates.iter().copied().enumerate().map(stream).collect();
    let timing_error_us = TimingError::of(&server.devices()[0].timing_error.counts());
    let judged = timing_error_us.is_small();
    let pass = judged && streams.iter().all(Stream::kept);
    let (device, scene, seconds) = (PRESET, "recorder", seconds.as_secs_f64());
    Report { device, scene, seconds, streams, timing_error_us, judged, pass }
}

fn load(server: &Server, place: usize) -> anyhow::Result<Load> {
    let disk = &server.vdisks()[place];
    let uri: Uri = disk.uris()[0].parse()?;
    let extent = Extent { start: 0, end: SIZE };
    let closed = |outstanding| Pace::Closed { outstanding, think: disktime_core::Duration::ZERO };
    let (workload, pace) = match disk.name.as_str() {
        "backup" => (Spec::reads(Pattern::Sequential, extent, BACKUP_REQUEST), closed(4)),
        "random" => (Spec::reads(Pattern::Random, extent, 4096), closed(8)),
        _ => {
            let cycle = disktime_core::Duration::from_nanos(CYCLE.as_nanos().try_into()?);
            let cycles = Cycles { bytes_per_second: RATE, cycle };
            let reads = Spec::reads(Pattern::Sequential, extent, REQUEST);
            (Spec { reads_permille: 0, ..reads }, Pace::Cycles(cycles))
        }
    };
    let (name, options) = (disk.name.clone(), Options::default());
    Ok(Load::start(&uri, LoadSpec { name, workload, pace, seed: 1, options })?)
}

/// Size of each virtual disk in bytes (3 GiB).
const SIZE: u64 = 3 << 30;

fn config(directory: &std::path::Path) -> anyhow::Result<Config> {
    use std::fmt::Write;
    let directory = directory.display();
    let mut text = format!(
        r#"
[server]
nbd = ["unix:{directory}/nbd.sock"]

[[device]]
name = "disk"
back_end = "file:{directory}/disks"
create = true
emulate = "{PRESET}"
profile = "{directory}/profile.json"
"#
    );
    let camera = format!(
        "class = \"guaranteed-rate\"\nrate = \"{RATE}B/s\"\ncycle = \"{}s\"\naccess = \"write\"\n",
        CYCLE.as_secs()
    );
    let cameras = (1..=CAMERAS).map(|camera| format!("camera-{camera}"));
    for name in cameras.chain(["backup".to_owned(), "random".to_owned()]) {
        let promise = if name.starts_with("camera") { camera.as_str() } else { "" };
        write!(
            text,
            "\n[[vdisk]]\nname = \"{name}\"\ndevice = \"disk\"\nsize = \"{SIZE}B\"\n{promise}"
        )?;
    }
    Config::parse(&text).context("the embedded configuration")
}

fn verdict(report: &Report) {
    let header = ["virtual disk", "class", "guaranteed", "got MB/s", "cycles missed"];
    let mut table = table::new(&header, 2..5);
    for stream in &report.streams {
        let guaranteed = match stream.rate {
            0 => "-".to_owned(),
            #[expect(clippy::cast_precision_loss, reason = "for display")]
            rate => format!("{:.2}", rate as f64 / 1e6),
        };
        table.add_row([
            stream.name.clone(),
            stream.class.to_owned(),
            guaranteed,
            format!("{:.2}", stream.bytes_per_second / 1e6),
            stream.cycles_missed.to_string(),
        ]);
    }
    println!("\n{table}\n");
    if !report.judged {
        println!("{}", prose(&report.timing_error_us.too_busy()));
    } else if report.pass {
        println!("KEPT: every camera got its rate in every cycle; the rest had what was left.");
    } else {
        println!("BROKEN: a camera did not get what it was promised.");
    }
}
