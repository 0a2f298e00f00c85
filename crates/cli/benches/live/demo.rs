//! The demo, which loads a daemon on an emulated disk, against the simulator on the same scenario.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use disktime_sim::{Scenario, simulate};

use crate::{DEMO_NOT_JUDGED, Found};

/// Length of the demo's measurement, in seconds: a round of slices, by which an edge of it may be
/// off, is a hundredth.
const MEASURED: u32 = 30;
/// Idle time before the loads start, in seconds: both buckets are full then, as they are in the
/// demo. It matters: the levels add up to the same ever after, and with less credit about, less is
/// due at once and turns are longer (at 70/30 by a tenth).
const IDLE: u32 = 1;
/// The demo's time before it measures, in seconds.
const SETTLE: u32 = 4;
/// How far live disk time may be from the simulated, in points.
const POINTS: f64 = 2.0;
/// How far live speed may be outside what the simulated seeds span: a few hundred random
/// requests are a sample, and the seeds say how much such samples differ.
const OUTSIDE: f64 = 0.07;
/// Simulated seeds.
const SEEDS: u64 = 10;

struct Got {
    share: f64,
    iops: f64,
}

impl Got {
    /// Requests per second of its disk time. Where in a turn the measurement ends decides what it
    /// has had of it in so short a time; not what it made of that.
    fn speed(&self) -> f64 {
        self.iops / self.share
    }
}

/// Compares both streams' shares and speeds.
pub(crate) fn run(split: [u32; 2]) -> anyhow::Result<Found> {
    let live = match live(split)? {
        Ok(live) => live,
        Err(too_busy) => return Ok(Found::TooBusy(too_busy)),
    };
    let simulated: Vec<[Got; 2]> =
        (1..=SEEDS).map(|seed| simulated(split, seed)).collect::<Result<_, _>>()?;
    let (mut figures, mut missed) = (Vec::new(), Vec::new());
    for (stream, live) in live.iter().enumerate() {
        let shares = span(simulated.iter().map(|of| of[stream].share * 100.0), POINTS);
        let all = span(simulated.iter().map(|of| of[stream].speed()), 0.0);
        let rates = all.start() * (1.0 - OUTSIDE)..=all.end() * (1.0 + OUTSIDE);
        let (share, speed) = (live.share * 100.0, live.speed());
        let figure = format!(
            "stream {stream}: live {share:.2} % in {:.2} to {:.2}, {speed:.1} requests/s of disk time in \
             {:.1} to {:.1}",
            shares.start(),
            shares.end(),
            rates.start(),
            rates.end()
        );
        if !shares.contains(&share) || !rates.contains(&speed) {
            missed.push(figure.clone());
        }
        figures.push(figure);
    }
    Ok(Found::of(&figures, &missed))
}

fn span(values: impl Iterator<Item = f64>, margin: f64) -> RangeInclusive<f64> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    least - margin..=most + margin
}

/// The rates of both streams, or why the demo did not judge.
fn live([sequential, random]: [u32; 2]) -> anyhow::Result<Result<[Got; 2], String>> {
    let (time, split) = (format!("{MEASURED}s"), format!("{sequential}/{random}"));
    let output = Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["demo", "--json", "--for", &time, "--split", &split])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(DEMO_NOT_JUDGED) {
        return Ok(Err("the demo was not judged".to_owned()));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).context(errors)?;
    let got = |stream: usize| {
        let of = |key: &str| report["streams"][stream][key].as_f64().context("a figure is missing");
        anyhow::Ok(Got { share: of("utilization")?, iops: of("iops")? })
    };
    Ok(Ok([got(0)?, got(1)?]))
}

fn simulated([sequential, random]: [u32; 2], seed: u64) -> anyhow::Result<[Got; 2]> {
    let text = format!(
        r#"
[scenario]
duration = "{duration}s"
window = "1s"
[device]
preset = "deskstar-34gxp"
[[stream]]
name = "sequential"
reserve = "{sequential}%"
[[stream.phases]]
start = "{IDLE}s"
spec = {{ pattern = {{ runs = {{ length = 1024 }} }}, extent = {{ end = "9GiB" }}, sizes = "4KiB" }}
pace = {{ closed = {{ outstanding = 32 }} }}
[[stream]]
name = "random"
reserve = "{random}%"
base = "9GiB"
[[stream.phases]]
start = "{IDLE}s"
spec = {{ pattern = "random", extent = {{ end = "9GiB" }}, sizes = "4KiB" }}
pace = {{ closed = {{ outstanding = 32 }} }}
"#,
        duration = IDLE + SETTLE + MEASURED
    );
    let scenario = Scenario::parse(Path::new("demo.toml"), &text)?;
    let outcome = simulate(scenario.plan(seed)?)?;
    ensure!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    Ok([0, 1].map(|stream| {
        let measured = outcome
            .windows
            .iter()
            .filter(|window| window.stream.0 == stream && window.index >= IDLE + SETTLE);
        let (mut charged, mut requests) = (0.0, 0.0);
        for window in measured {
            charged += window.charged.as_secs_f64();
            requests += window.requests as f64;
        }
        let seconds = f64::from(MEASURED);
        Got { share: charged / seconds, iops: requests / seconds }
    }))
}
