//! A guaranteed rate beside best effort on the daemon, against the simulator on the same scenario
//! (paper `ucsb`, figure 6).
#![expect(clippy::cast_precision_loss, reason = "bytes of a minute")]
#![expect(clippy::disallowed_methods, reason = "the daemon lives in real time")]

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use disktime_client::{Load, LoadSpec, Options, Uri};
use disktime_server::{Config, Server, clock};
use disktime_sim as sim;
use disktime_workload::{Cycles, Extent, Pace, Pattern, Spec};

use crate::Found;

pub(crate) const PRESET: &str = "st318437lw";
/// The guaranteed stream's rate, in bytes per second, and its cycle in seconds.
pub(crate) const RATE: u64 = 8_000_000;
pub(crate) const CYCLE: u64 = 4;
/// Best-effort streams, and what each keeps outstanding: more than one, because a client that is
/// asked anew after each answer is late for the elevator's batch, which no simulation shows.
pub(crate) const OTHERS: u32 = 3;
pub(crate) const OUTSTANDING: u32 = 4;
/// Size of each stream's part of the disk, in bytes (2 GiB).
pub(crate) const SIZE: u64 = 2 << 30;
pub(crate) const REQUEST: u64 = 128 << 10;
/// Time before the measurement, and its length, in seconds.
pub(crate) const SETTLE: u64 = 8;
pub(crate) const MEASURED: u64 = 16;
/// How far live throughput may be from the simulated.
pub(crate) const TOLERANCE: f64 = 0.07;

/// The operation of the guaranteed stream.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Does {
    Read,
    Write,
}

/// A rate of reads beside best effort.
pub(crate) fn reads() -> anyhow::Result<Found> {
    compare(Does::Read)
}

/// A rate of writes: the disk has a write cache, and what a slice wrote is flushed before it ends, on
/// both sides.
pub(crate) fn writes() -> anyhow::Result<Found> {
    compare(Does::Write)
}

fn compare(does: Does) -> anyhow::Result<Found> {
    let directory = tempfile::tempdir()?;
    let profile = profile(directory.path())?;
    let (live, cycles_missed) = live(directory.path(), does)?;
    let simulated = simulated(&profile, does, OTHERS)?;
    Ok(judged(&live, &simulated, cycles_missed))
}

/// Writes the emulated disk's profile, as it is measured in simulated time.
pub(crate) fn profile(directory: &Path) -> anyhow::Result<PathBuf> {
    let preset = disktime_model::preset::find(PRESET).context("the preset is known")?;
    let found = sim::measure((preset.build)(1), PRESET, 1)?;
    let profile = directory.join("profile.json");
    std::fs::write(&profile, serde_json::to_string(&found)?)?;
    Ok(profile)
}

/// Whether the first stream has its rate, and the others in sum what the simulator gives them.
pub(crate) fn judged(live: &[f64], simulated: &[f64], cycles_missed: u64) -> Found {
    let (rate, asked) = (live[0], RATE as f64);
    let (live, simulated) = (live[1..].iter().sum::<f64>(), simulated[1..].iter().sum::<f64>());
    let figures = [
        format!("{rate:.0} B/s of {asked:.0} asked, {cycles_missed} cycles missed"),
        format!("best effort {live:.0} B/s, simulated {simulated:.0}"),
    ];
    let holds = [
        cycles_missed == 0 && (rate / asked - 1.0).abs() < 0.02,
        (live / simulated - 1.0).abs() < TOLERANCE,
    ];
    let missed = figures.iter().zip(holds).filter(|(_, holds)| !holds);
    let missed: Vec<String> = missed.map(|(figure, _)| figure.clone()).collect();
    Found::of(&figures, &missed)
}

/// Bytes per second of each stream, and how many cycles were missed.
fn live(directory: &Path, does: Does) -> anyhow::Result<(Vec<f64>, u64)> {
    let server = Server::start(config(directory, does)?)?;
    let loads: Vec<_> = (0..=OTHERS as usize)
        .map(|place| load(&server, place, does))
        .collect::<anyhow::Result<_>>()?;
    let bytes = || server.vdisks().iter().map(|disk| disk.stats.bytes()).collect::<Vec<_>>();
    sleep(Duration::from_secs(SETTLE - CYCLE));
    sleep(until_cycle());
    let (begin, first) = (Instant::now(), bytes());
    sleep(Duration::from_secs(MEASURED));
    let (last, seconds) = (bytes(), begin.elapsed().as_secs_f64());
    let cycles_missed = server.vdisks()[0].stats.cycles_missed();
    for load in loads {
        let report = load.stop();
        ensure!(report.lost.is_none() && report.counters.failed == 0, "{report:?}");
    }
    let rates = last.iter().zip(first).map(|(last, first)| (last - first) as f64 / seconds);
    Ok((rates.collect(), cycles_missed))
}

/// Until the next cycle begins, at a multiple of its length by the clock of server and loads. A
/// cycle's bytes come anywhere in it, so that only whole cycles tell a rate.
pub(crate) fn until_cycle() -> Duration {
    let cycle = CYCLE * 1_000_000_000;
    Duration::from_nanos(cycle - clock::now().as_nanos() % cycle)
}

fn load(server: &Server, place: usize, does: Does) -> anyhow::Result<Load> {
    let disk = &server.vdisks()[place];
    let uri: Uri = disk.uris()[0].parse()?;
    let extent = Extent { start: 0, end: SIZE };
    let think = disktime_core::Duration::ZERO;
    let pace = match place {
        0 => Pace::Cycles(Cycles {
            bytes_per_second: RATE,
            cycle: disktime_core::Duration::from_secs(CYCLE),
        }),
        _ => Pace::Closed { outstanding: OUTSTANDING, think },
    };
    let reads_permille = if place == 0 && does == Does::Write { 0 } else { 1000 };
    let reads = Spec::reads(Pattern::Sequential, extent, REQUEST);
    let workload = Spec { reads_permille, ..reads };
    let (name, options) = (disk.name.clone(), Options::default());
    Ok(Load::start(&uri, LoadSpec { name, workload, pace, seed: 1, options })?)
}

fn names(others: u32) -> impl Iterator<Item = String> {
    let others = (1..=others).map(|other| format!("best-{other}"));
    ["high".to_owned()].into_iter().chain(others)
}

fn promise(name: &str, does: Does) -> String {
    if name != "high" {
        return String::new();
    }
    let access = if does == Does::Write { "write" } else { "read" };
    format!(
        "class = \"guaranteed-rate\"\nrate = \"{RATE}B/s\"\ncycle = \"{CYCLE}s\"\naccess = \"{access}\"\n"
    )
}

fn config(directory: &Path, does: Does) -> anyhow::Result<Config> {
    let directory = directory.display();
    let mut text = format!(
        r#"
[server]
nbd = ["unix:{directory}/nbd.sock"]
[[device]]
name = "disk"
back_end = "memory"
emulate = "{PRESET}"
profile = "{directory}/profile.json"
policy = "elevator"
experimental = true
"#
    );
    for name in names(OTHERS) {
        text += &format!("[[vdisk]]\nname = \"{name}\"\ndevice = \"disk\"\nsize = \"{SIZE}B\"\n");
        text += &promise(&name, does);
    }
    Ok(Config::parse(&text)?)
}

pub(crate) fn simulated(profile: &Path, does: Does, others: u32) -> anyhow::Result<Vec<f64>> {
    let mut text = format!(
        r#"
[scenario]
duration = "{}s"
window = "1s"
policy = "elevator"
[device]
preset = "{PRESET}"
profile = "{}"
"#,
        SETTLE + MEASURED,
        profile.display()
    );
    for (place, name) in (0_u64..).zip(names(others)) {
        let reads = if place == 0 && does == Does::Write { "0%" } else { "100%" };
        let pace = match place {
            0 => format!("cycles = {{ rate = \"{RATE}B/s\", cycle = \"{CYCLE}s\" }}"),
            _ => format!("closed = {{ outstanding = {OUTSTANDING} }}"),
        };
        text += &format!(
            "[[stream]]\nname = \"{name}\"\nbase = \"{}B\"\n{}[[stream.phases]]\n\
             spec = {{ pattern = \"sequential\", extent = {{ end = \"{SIZE}B\" }}, sizes = \"128KiB\", reads = \"{reads}\" }}\n\
             pace = {{ {pace} }}\n",
            place * SIZE,
            promise(&name, does)
        );
    }
    let scenario = sim::Scenario::parse(Path::new("live.toml"), &text)?;
    let outcome = sim::simulate(scenario.plan(1)?)?;
    ensure!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    let of = |place: u32| {
        let measured = outcome
            .windows
            .iter()
            .filter(|window| window.stream.0 == place && u64::from(window.index) >= SETTLE);
        measured.map(|window| window.bytes as f64).sum::<f64>() / MEASURED as f64
    };
    Ok((0..=others).map(of).collect())
}
