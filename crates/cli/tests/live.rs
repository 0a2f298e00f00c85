//! The daemon on an emulated disk against the simulator on the same scenario: one engine, one
//! device model, so the figures must agree. The runner gives it both cores (`.config/nextest.toml`).
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use disktime_papers::sim::{Scenario, simulate};

/// What the demo measures for, in seconds: a turn, of which more or less may be within, is a hundredth.
const MEASURED: u32 = 30;
/// Idle time before the loads start, in seconds: both buckets are full then, as they are in the
/// demo. It matters: the levels add up to the same ever after, and with less credit about, less is
/// due at once and turns are longer (at 70/30 by a tenth).
const IDLE: u32 = 1;
/// What the demo lets pass before it measures, in seconds.
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

#[test]
fn live_is_as_simulated() {
    for split in [[70, 30], [50, 50], [10, 90]] {
        let before = ticks();
        let live = live(split);
        let stolen = stolen(before, ticks());
        let simulated: Vec<[Got; 2]> = (1..=SEEDS).map(|seed| simulated(split, seed)).collect();
        for (stream, live) in live.iter().enumerate() {
            let shares = span(simulated.iter().map(|of| of[stream].share * 100.0), POINTS);
            let all = span(simulated.iter().map(|of| of[stream].speed()), 0.0);
            println!(
                "{split:?} {stream}: live {:.2} % {:.1}, simulated {shares:?} {all:?}, {:.1} % stolen",
                live.share * 100.0,
                live.speed(),
                stolen * 100.0
            );
            let rates = all.start() * (1.0 - OUTSIDE)..=all.end() * (1.0 + OUTSIDE);
            let share = live.share * 100.0;
            assert!(shares.contains(&share), "{split:?}, {stream}: {share} % in {shares:?}");
            let speed = live.speed();
            assert!(rates.contains(&speed), "{split:?}, {stream}: {speed} in {rates:?}");
        }
    }
}

/// Time of all processors, and of this what the host of a virtual machine gave to others instead, in
/// ticks; zeros where nothing tells.
fn ticks() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_all = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let fields: Vec<f64> = of_all.map(|ticks| ticks.parse().unwrap()).collect();
    [fields.iter().sum(), fields.get(7).copied().unwrap_or(0.0)]
}

/// The part of the processors' time that the host gave to others. Speed falls by as much: a miss beside
/// a large one is the host's.
fn stolen(before: [f64; 2], after: [f64; 2]) -> f64 {
    let [all, stolen] = [0, 1].map(|of| after[of] - before[of]);
    stolen / all.max(1.0)
}

fn span(values: impl Iterator<Item = f64>, margin: f64) -> RangeInclusive<f64> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    least - margin..=most + margin
}

fn live([sequential, random]: [u32; 2]) -> [Got; 2] {
    let (time, split) = (format!("{MEASURED}s"), format!("{sequential}/{random}"));
    let output = Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["demo", "--json", "--for", &time, "--split", &split])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let report: serde_json::Value = serde_json::from_str(&said).expect(&said);
    let of = |stream: usize, key: &str| report["streams"][stream][key].as_f64().unwrap();
    [0, 1].map(|stream| Got { share: of(stream, "utilization"), iops: of(stream, "iops") })
}

fn simulated([sequential, random]: [u32; 2], seed: u64) -> [Got; 2] {
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
    let scenario = Scenario::parse(Path::new("demo.toml"), &text).unwrap();
    let outcome = simulate(scenario.plan(seed).unwrap()).unwrap();
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    [0, 1].map(|stream| {
        let measured = outcome
            .windows
            .iter()
            .filter(|window| window.stream.0 == stream && window.index >= IDLE + SETTLE);
        let (mut charged, mut requests) = (0.0, 0.0);
        for window in measured {
            charged += window.charged.as_secs_f64();
            requests += u32::try_from(window.requests).map(f64::from).unwrap();
        }
        let seconds = f64::from(MEASURED);
        Got { share: charged / seconds, iops: requests / seconds }
    })
}
