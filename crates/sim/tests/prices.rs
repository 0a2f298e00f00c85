//! The pricer on emulated devices: what it says a request costs is what it costs when its kind runs
//! alone, deep enough.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(clippy::print_stdout, reason = "how near it came is worth reading")]

use disktime_core::{Duration, Instant, Kind};
use disktime_model::preset;
use disktime_model::{Device, Op};
use disktime_profiler::{DEPTH_MAX, PricerOptions, QUICK_BUDGET, Work};
use disktime_sim::price;

/// How far a price may be from what requests take, whatever their size.
const ERROR: f64 = 0.12;

fn device(name: &str, seed: u64) -> Box<dyn Device> {
    (preset::find(name).unwrap().build)(seed)
}

fn options(writes: bool, budget: Duration) -> PricerOptions {
    let thorough = budget > QUICK_BUDGET;
    PricerOptions { size: 0, writes, depth_max: DEPTH_MAX, budget, thorough, seed: 1 }
}

/// The time of requests of that kind and size with so many outstanding: nanoseconds from one
/// completion to the next. Reads and writes in the middle of the device.
fn alone(name: &str, work: Work, bytes: u64, depth: u32, requests: u64) -> f64 {
    let mut device = device(name, 7);
    let size = device.capacity_bytes();
    let (depth, mut random) = (depth.min(device.queue_depth()), 5_u64);
    let mut cursor = size / 2 / bytes * bytes;
    let (mut now, mut done, mut issued, mut completed) = (Instant::ZERO, Vec::new(), 0, 0);
    let mut since = None;
    while completed < requests {
        while issued < completed + u64::from(depth) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = if work.is_random() {
                (random >> 11) % (size / bytes) * bytes
            } else {
                cursor += bytes;
                cursor
            };
            device.submit(now, issued, Op { kind: work.kind(), offset, bytes, fua: false });
            issued += 1;
        }
        now = device.next_completion().unwrap();
        device.advance(now, &mut done);
        completed += done.drain(..).count() as u64;
        if completed >= requests / 5 && since.is_none() {
            since = Some((now, completed));
        }
    }
    let (since, before) = since.unwrap();
    now.since(since).as_nanos() as f64 / (completed - before) as f64
}

/// Checks every price of a device against runs of its kind alone: reads, and writes where `writes`
/// says how far they may be off. Answers the mean error of reads.
fn check(name: &str, seed: u64, writes: Option<f64>) -> f64 {
    let priced = price(device(name, seed), options(writes.is_some(), Duration::from_secs(45)));
    let priced = priced.unwrap();
    assert!(priced.took <= Duration::from_secs(46), "{name}: {:?}", priced.took);
    let mut errors = Vec::new();
    for of in &priced.speeds.works {
        let reads = of.work.kind() == Kind::Read;
        println!(
            "{name} {seed}: {} at depth {}, {} permille: {:?}",
            of.work.name(),
            of.best_depth,
            of.parallelism_permille,
            of.work.price(&priced.prices)
        );
        for cell in of.cells.iter().filter(|cell| cell.batches.is_some()) {
            let requests = if cell.each > Duration::from_millis(8) { 600 } else { 4_000 };
            let truth = alone(name, of.work, cell.bytes, cell.depth, requests);
            let price = of.work.price(&priced.prices).of(cell.bytes).as_nanos() as f64;
            let error = price / truth - 1.0;
            println!(
                "  {} bytes: {price:.0} of {truth:.0} ns, {:+.1} %",
                cell.bytes,
                error * 100.0
            );
            let allowed = if reads { ERROR } else { writes.unwrap_or(ERROR) };
            assert!(error.abs() <= allowed, "{name} {seed}: {of:?}: {error}");
            errors.extend(reads.then_some(error.abs()));
        }
    }
    errors.iter().sum::<f64>() / errors.len() as f64
}

/// A line through three sizes is off where a device is not a line: where a die, a link and a head
/// are the narrowest in turn.
#[test]
fn reads_cost_what_they_take_alone() {
    for name in
        ["flash-generic", "nvme-970pro", "deskstar-34gxp", "nearline-7200", "raid0-nearline"]
    {
        let seeds = 1..4;
        let mean = seeds.clone().map(|seed| check(name, seed, None)).sum::<f64>() / 3.0;
        println!("{name}: reads off by {:.1} % on the mean", mean * 100.0);
        assert!(mean <= 0.04, "{name}: {mean}");
    }
}

#[test]
fn writes_cost_what_they_take_alone() {
    for name in ["flash-generic", "nvme-970pro", "deskstar-34gxp"] {
        check(name, 1, Some(ERROR));
    }
}

/// A disk's write cache brings small and large writes to the medium in pieces of its own: no line goes
/// through what they take, but the price stays below twice and above half of it.
#[test]
fn writes_into_a_disks_cache_cost_about_what_reaches_the_medium() {
    for name in ["nearline-7200", "raid0-nearline"] {
        check(name, 1, Some(0.5));
    }
}

#[test]
fn parallel_devices_are_found_to_be() {
    let works = |name: &str| {
        let priced = price(device(name, 1), options(false, Duration::from_secs(20))).unwrap();
        priced.speeds.of(Work::RandomRead).unwrap().clone()
    };
    // 32 dies; four disks with queues; one disk without.
    let flash = works("flash-generic");
    assert!(flash.best_depth >= 32 && flash.parallelism_permille > 20_000, "{flash:?}");
    let raid = works("raid0-nearline");
    assert!(raid.best_depth >= 16 && raid.parallelism_permille > 5_000, "{raid:?}");
    let disk = works("deskstar-34gxp");
    assert_eq!((disk.best_depth, disk.parallelism_permille / 100), (1, 10), "{disk:?}");
    // With less outstanding a request takes longer.
    assert_eq!(flash.slowdown_permille(4096, 1024), 1_000);
    assert!(flash.slowdown_permille(4096, 1) > 20_000, "{flash:?}");
}

#[test]
fn switching_costs_a_disk_its_positioning_and_flash_nothing() {
    let switching = |name: &str| {
        let priced = price(device(name, 1), options(false, Duration::from_secs(30))).unwrap();
        let cache = priced.speeds.cache.unwrap();
        (priced.speeds.switching.unwrap().streams, cache.reads())
    };
    let (disk, _) = switching("deskstar-34gxp");
    assert!((8..25).contains(&(disk.as_nanos() / 1_000_000)), "{disk:?}");
    let (flash, cached) = switching("flash-generic");
    assert!(flash < Duration::from_micros(20) && !cached, "{flash:?}");
}

/// A daemon's probe at its start: about 2 s, reads only.
#[test]
fn a_quick_look_is_near() {
    for preset in preset::PRESETS {
        let name = preset.name;
        let quick = price(device(name, 1), options(false, QUICK_BUDGET)).unwrap();
        println!("{name}: {:?}, {} requests", quick.took, quick.requests);
        assert!(quick.took <= Duration::from_secs(3), "{name}: {:?}", quick.took);
        if ["exp", "tiered"].contains(&name) {
            continue;
        }
        let of = quick.speeds.of(Work::RandomRead).unwrap();
        let truth = alone(name, Work::RandomRead, 4096, of.best_depth, 2_000);
        let price = quick.prices.random_read.of(4096).as_nanos() as f64;
        println!("  {price:.0} of {truth:.0} ns, {:+.1} %", (price / truth - 1.0) * 100.0);
        assert!((price / truth - 1.0).abs() <= 0.25, "{name}: {price} of {truth}");
    }
}

/// The same seed finds the same, to the nanosecond.
#[test]
fn a_seed_repeats_it() {
    let find =
        || price(device("raid0-nearline", 3), options(true, Duration::from_secs(5))).unwrap();
    assert_eq!(find(), find());
}
