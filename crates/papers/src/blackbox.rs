//! Not a paper: what the product's own learned costs keep on devices whose insides nobody tells.
//!
//! Judged by throughput alone by share, as in `docs/black-box.md`: no stream is told what it costs,
//! nor is the device.

use crate::Paper;
use crate::claims;
use crate::experiment::{Check, Experiment, Sample};
use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::{Device, preset};
use disktime_report::chart::{Axis, Line, Marks, Panel, Series};
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

mod cached;
mod drift;
mod parity;

pub(crate) const PAPER: Paper = Paper {
    id: "blackbox",
    title: "Black boxes: shares over learned costs",
    parameters,
    experiments: &[FLASH, RAID, drift::DRIFT, parity::EXPERIMENT, cached::EXPERIMENT],
};

const FLASH: Experiment = Experiment {
    id: "blackbox-flash",
    title: "Flash: reads, large reads and writes at 20/30/50",
    claim: "Ours: on flash each stream has what its share would give it alone",
    note: "Our own bars: mean 0.95, first percentile over 5 s 0.9, shares within 3 points. Where streams lose among each \
           other they have turns; where they don't they mix, and all gain.",
    reason: "",
    open: &[],
    measure: measure_flash,
};

const RAID: Experiment = Experiment {
    id: "blackbox-raid",
    title: "RAID 0 of two and four disks, queues of 1 and 31: a sequential and a random stream at 30/70",
    claim: "Ours: the same on RAID 0",
    note: "Bars: mean 0.94, first percentile over 30 s 0.9.",
    reason: "",
    open: &[],
    measure: measure_raid,
};

/// Before this prices are still being found.
const SETTLED: usize = 10;
/// For throughput alone, on disks and on flash.
const ALONE: u64 = 20;
const ALONE_FLASH: u64 = 5;
const SECOND: Duration = Duration::from_secs(1);
/// A stream's place on its device.
const REGION: u64 = 512 << 20;

fn parameters() -> Vec<(&'static str, String)> {
    vec![
        ("policy", "disktime over learned costs, no profile".to_owned()),
        (
            "counted",
            format!("from second {SETTLED} on; alone for {ALONE} s, on flash {ALONE_FLASH} s"),
        ),
    ]
}

/// A stream that always has so many requests outstanding.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    percent: u32,
    pattern: Pattern,
    bytes: u64,
    reads: bool,
    outstanding: u32,
    /// How much of the device it uses.
    region: u64,
}

const fn load(
    name: &'static str,
    percent: u32,
    pattern: Pattern,
    kib: u64,
    outstanding: u32,
) -> Load {
    let bytes = kib << 10;
    Load { name, percent, pattern, bytes, reads: true, outstanding, region: REGION }
}

#[derive(Clone, Copy)]
struct Case<'a> {
    name: &'a str,
    device: &'a dyn Fn(u64) -> Box<dyn Device>,
    depth: u32,
    loads: &'a [Load],
    seconds: u64,
    /// For throughput alone, in seconds.
    alone: u64,
    /// The length of windows, in seconds.
    window: usize,
    /// Bars; below all numbers where it is only reported.
    mean: f64,
    p01: f64,
    /// How far, in points, what a stream is charged may be off its share.
    points: Option<f64>,
}

/// No bar.
const REPORTED: f64 = f64::NEG_INFINITY;

fn measure_flash(seed: u64) -> Sample {
    let generic = |seed| named("flash-generic", seed);
    let pro = |seed| named("nvme-970pro", seed);
    let writes = Load { reads: false, ..load("random 4 KiB writes", 50, Pattern::Random, 4, 32) };
    let mixed = [
        load("random 4 KiB", 20, Pattern::Random, 4, 32),
        load("random 128 KiB", 30, Pattern::Random, 128, 16),
        writes,
    ];
    let large = Load { reads: false, ..load("random 64 KiB writes", 50, Pattern::Random, 64, 16) };
    let other = [mixed[0], load("sequential 128 KiB", 30, Pattern::Sequential, 128, 8), large];
    let shallow = [
        load("sequential 4 KiB, one at a time", 30, Pattern::Sequential, 4, 1),
        load("random 4 KiB", 70, Pattern::Random, 4, 32),
    ];
    let case = Case {
        name: "generic",
        device: &generic,
        depth: 64,
        loads: &mixed,
        seconds: 30,
        alone: ALONE_FLASH,
        window: 5,
        mean: 0.95,
        p01: 0.9,
        points: Some(3.0),
    };
    judged(
        &[
            Case { name: "one at a time", loads: &shallow, depth: 32, ..case },
            Case { name: "970 PRO", device: &pro, loads: &other, ..case },
            case,
        ],
        seed,
    )
}

fn measure_raid(seed: u64) -> Sample {
    let raid = |name, count| {
        move |seed| -> Box<dyn Device> { Box::new(preset::raid0(name, count, 64 << 10, seed)) }
    };
    let (two, four) = (raid("deskstar-34gxp", 2), raid("deskstar-34gxp", 4));
    let (two_deep, four_deep) = (raid("nearline-7200", 2), raid("nearline-7200", 4));
    let loads = |outstanding| {
        [
            load("sequential 128 KiB", 30, Pattern::Sequential, 128, outstanding),
            load("random 4 KiB", 70, Pattern::Random, 4, outstanding),
        ]
    };
    let (few, some, many) = (loads(4), loads(8), loads(16));
    let (seconds, window, mean, p01) = (300, 30, 0.94, 0.9);
    let case = |name, device, depth, loads| Case {
        name,
        device,
        depth,
        loads,
        seconds,
        alone: ALONE,
        window,
        mean,
        p01,
        points: None,
    };
    judged(
        &[
            case("two disks", &two, 2, &few),
            case("four disks", &four, 4, &some),
            case("two disks, queues of 31", &two_deep, 31, &many),
            case("four disks, queues of 31", &four_deep, 31, &many),
        ],
        seed,
    )
}

fn named(name: &str, seed: u64) -> Box<dyn Device> {
    (preset::find(name).expect("a preset's name").build)(seed)
}

fn judged(cases: &[Case<'_>], seed: u64) -> Sample {
    let (mut checks, mut panels, mut seconds, mut violations) = (Vec::new(), Vec::new(), 0, 0);
    for case in cases {
        let all: Vec<usize> = (0..case.loads.len()).collect();
        let shared = case.run(&all, case.seconds, seed);
        violations += shared.violations.len();
        seconds += case.seconds;
        let (mut series, charged) = (Vec::new(), charged(&shared));
        for (stream, load) in case.loads.iter().enumerate() {
            let alone = case.run(&[stream], case.alone, seed);
            seconds += case.alone;
            let due = mean(&rates(&alone, 0, 2)) * f64::from(load.percent) / 100.0;
            let done = rates(&shared, stream, SETTLED);
            let mut windows: Vec<f64> =
                done.windows(case.window).map(|window| mean(window) / due).collect();
            let at = |at: usize| (at + case.window + SETTLED) as f64;
            series.push(Series::new(
                load.name,
                windows.iter().enumerate().map(|(index, window)| (at(index), *window)),
            ));
            windows.sort_by(f64::total_cmp);
            let name = |what: &str| format!("{}: {}, insulation, {what}", case.name, load.name);
            checks.push(at_least(name("mean"), mean(&windows), case.mean));
            let percentile = format!("first percentile of {} s", case.window);
            checks.push(at_least(name(&percentile), windows[windows.len() / 100], case.p01));
            if let Some(bar) = case.points {
                let off = charged[stream] / charged.iter().sum::<f64>() * 100.0;
                let name = format!("{}: {}, share, points off", case.name, load.name);
                checks.push(Check::deviation(name, (off - f64::from(load.percent)).abs(), bar));
            }
        }
        panels.push(Panel {
            title: format!("Insulation over {} s: {}", case.window, case.name),
            marks: Marks::Lines,
            x: Axis::linear("time (s)"),
            y: Axis::linear("by share and throughput alone"),
            series,
            level: Some(Line { name: "its share".to_owned(), at: 1.0 }),
        });
    }
    checks.push(claims::kept(violations));
    Sample { seconds: seconds as f64, panels, checks }
}

/// The charges of each stream once costs were known, in seconds.
fn charged(outcome: &Outcome) -> Vec<f64> {
    let mut charged = vec![0.0; outcome.streams.len()];
    for window in outcome.windows.iter().skip(SETTLED * charged.len()) {
        charged[window.stream.0 as usize] += window.charged.as_secs_f64();
    }
    charged
}

/// An insulation, with its bar if it has one.
fn at_least(name: String, measured: f64, bar: f64) -> Check {
    if bar > REPORTED {
        return Check::at_least(name, measured, bar);
    }
    Check::reported(name, 1.0, measured)
}

impl Case<'_> {
    /// Only these streams.
    fn run(&self, streams: &[usize], seconds: u64, seed: u64) -> Outcome {
        let device = (self.device)(seed);
        let capacity = device.capacity_bytes();
        let most = capacity / self.loads.len() as u64;
        let region = |load: &Load| load.region.min(most) >> 20 << 20;
        let stream = |index: &usize| {
            let load = self.loads[*index];
            let start = self.loads[..*index].iter().map(region).sum();
            let extent = Extent { start, end: start + region(&load) };
            let spec = Spec::reads(load.pattern, extent, load.bytes);
            let spec = Spec { reads_permille: if load.reads { 1000 } else { 0 }, ..spec };
            let pace = Pace::Closed { outstanding: load.outstanding, think: Duration::ZERO };
            let traffic =
                Phases::new(vec![Phase::always(spec, pace)], seed, load.name, Instant::ZERO);
            let share = Share::from_percent(load.percent).expect("at most 100 %");
            StreamPlan {
                name: load.name.to_owned(),
                contract: Contract { weight: load.percent, ..Contract::reserving(share) },
                base: 0,
                parent: None,
                extent: None,
                traffic: traffic.expect("the loads make sense").into(),
            }
        };
        let plan = Plan {
            streams: streams.iter().map(stream).collect(),
            device,
            profile: None,
            scheduling: Scheduling::new(
                if streams.len() == 1 { "fifo" } else { "disktime" },
                "learned",
            ),
            cost: CostParameters::default(),
            reports: Vec::new(),
            depth: self.depth,
            changes: Vec::new(),
            duration: Duration::from_secs(seconds),
            window: SECOND,
            decisions: None,
        };
        simulate(plan).expect("the cases can be run")
    }
}

/// Requests in each second from one on.
fn rates(outcome: &Outcome, stream: usize, from: usize) -> Vec<f64> {
    let windows = outcome.windows.iter().skip(stream).step_by(outcome.streams.len());
    windows.skip(from).map(|window| window.requests as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
