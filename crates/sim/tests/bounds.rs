//! Latency bounds on devices with deep queues: what the bounded stream waits, and what the others pay.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::{Device, preset};
use disktime_sim::{Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Source, Spec};

#[derive(Clone, Copy)]
struct Load {
    bytes: u64,
    outstanding: u32,
    think: Duration,
    /// 0 or 1000.
    reads: u16,
}

/// A device, a heavy load, and a client that asks now and then.
struct Case {
    name: &'static str,
    device: fn() -> Box<dyn Device>,
    depth: u32,
    hog: Load,
    light: Load,
    seconds: u64,
}

const GIB: u64 = 1 << 30;

fn flash() -> Box<dyn Device> {
    (preset::find("flash-generic").unwrap().build)(1)
}

fn raid() -> Box<dyn Device> {
    Box::new(preset::raid0("nearline-7200", 4, 64 << 10, 1))
}

/// Large reads are 32 KiB here, the length of pieces at depth 1: reads of 128 KiB leave the bound nothing to keep.
const READS: Load = Load { bytes: 32 << 10, outstanding: 512, think: Duration::ZERO, reads: 1000 };
const LIGHT: Load =
    Load { bytes: 4096, outstanding: 1, think: Duration::from_millis(1), reads: 1000 };

const FLASH: Case = Case {
    name: "flash, 512 reads of 32 KiB",
    device: flash,
    depth: 512,
    hog: READS,
    light: LIGHT,
    seconds: 20,
};

const RAID: Case = Case {
    name: "RAID 0 of four disks, 124 small reads",
    device: raid,
    depth: 124,
    hog: Load { bytes: 4096, outstanding: 124, ..READS },
    light: Load { think: Duration::from_millis(100), ..LIGHT },
    seconds: 300,
};

/// The 99th percentile of the light stream's responses in ms, and the hog's MB/s.
fn run(case: &Case, bound: Duration) -> (f64, f64) {
    let stream = |index: u64, name: &str, percent, latency, load: Load| {
        let extent = Extent { start: index * 8 * GIB, end: (index + 1) * 8 * GIB };
        let spec = Spec::reads(Pattern::Random, extent, load.bytes);
        let spec = Spec { reads_permille: load.reads, ..spec };
        let pace = Pace::Closed { outstanding: load.outstanding, think: load.think };
        let share = Share::from_percent(percent).unwrap();
        StreamPlan {
            name: name.to_owned(),
            contract: Contract { latency, ..Contract::reserving(share) },
            base: 0,
            parent: None,
            extent: None,
            traffic: Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into(),
        }
    };
    let plan = Plan {
        device: (case.device)(),
        profile: None,
        scheduling: Scheduling::new("disktime", "learned"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: case.depth,
        streams: vec![
            stream(0, "light", 30, Some(bound), case.light),
            stream(1, "hog", 70, None, case.hog),
        ],
        changes: Vec::new(),
        duration: Duration::from_secs(case.seconds),
        window: Duration::from_secs(1),
        decisions: None,
    };
    let outcome = simulate(plan).unwrap();
    assert_eq!(outcome.violations, []);
    let p99 = outcome.streams[0].response.quantile(0.99).as_secs_f64() * 1e3;
    let hog = outcome.streams[1].counters;
    let bytes = (hog.bytes_read + hog.bytes_written) as f64;
    (p99, bytes / case.seconds as f64 / 1e6)
}

/// A bound of 10 s holds nothing back; but it cuts requests into pieces, as any does.
const NONE: Duration = Duration::from_secs(10);

/// The table's figures in `docs/black-box-measured.md`.
fn keeps(case: &Case, bound: Duration, pays: f64) {
    let (free_p99, free) = run(case, NONE);
    let (p99, paid) = run(case, bound);
    let bound = bound.as_secs_f64() * 1e3;
    eprintln!(
        "{}: bound {bound} ms: p99 {free_p99:.2} -> {p99:.2} ms; others {free:.2} -> {paid:.2} MB/s",
        case.name
    );
    assert!(free_p99 > bound, "{}: nothing to keep: {free_p99} ms", case.name);
    assert!(p99 <= bound, "{}: {p99} ms for {bound}", case.name);
    assert!(paid >= free * (1.0 - pays), "{}: {paid} of {free} MB/s", case.name);
}

#[test]
fn on_flash_a_bound_costs_the_others_next_to_nothing() {
    keeps(&FLASH, Duration::from_millis(2), 0.05);
}

#[test]
fn on_disks_with_queues_a_bound_costs_the_others_an_eighth() {
    keeps(&RAID, Duration::from_millis(60), 0.2);
}
