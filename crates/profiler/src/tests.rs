//! A profiler without a device: its bounds, its errors and its file.

use super::*;
use disktime_core::{Duration, Instant, Positioning, Profile, Transfer, Zone};

fn options() -> ProfilerOptions {
    let budget = Duration::from_secs(10);
    ProfilerOptions { name: "d".to_owned(), size: 1 << 30, writes: false, budget, seed: 1 }
}

/// Answers everything after the same time.
fn run(mut profiler: Profiler, each: Duration) -> (Profiler, Instant) {
    let mut now = Instant::from_nanos(5);
    while let Some(Issue { at, op }) = profiler.next(now) {
        assert!(at >= now && op.offset + op.bytes <= 1 << 30, "{op:?}");
        assert!(op.kind == disktime_core::Kind::Read, "{op:?}");
        now = at + each;
        profiler.completed(now, each);
    }
    (profiler, now)
}

#[test]
fn a_device_that_does_not_rotate_is_found_not_to() {
    let each = Duration::from_micros(80);
    let (profiler, _) = run(Profiler::new(options()).unwrap(), each);
    assert!(profiler.progress().part >= 1.0);
    let found = profiler.finish().unwrap();
    assert_eq!(found.rotation, None);
    assert_eq!(found.profile.check(), Ok(()));
    assert_eq!(found.profile.size(), 1 << 30);
    let zone = found.profile.zones[0];
    // Nothing but time per request.
    assert!(zone.read.per_request > Duration::from_micros(79), "{zone:?}");
    for at in &found.profile.positioning {
        assert!(at.mean <= each && at.worst >= each && at.deviation == Duration::ZERO, "{at:?}");
    }
}

#[test]
fn a_slow_device_ends_in_time_without_a_profile() {
    let each = Duration::from_millis(300);
    let (profiler, now) = run(Profiler::new(options()).unwrap(), each);
    assert!(now <= Instant::ZERO + Duration::from_secs(11), "{now:?}");
    assert!(profiler.finish().is_ok());
    let (profiler, _) = run(Profiler::new(options()).unwrap(), Duration::from_secs(20));
    let error = profiler.finish().unwrap_err();
    assert_eq!(error, ProfilerError::Nothing { missing: "rates" });
    assert!(error.to_string().contains("raise the budget"), "{error}");
}

#[test]
fn sizes_and_budgets_out_of_range_are_named() {
    let small = ProfilerOptions { size: 1 << 20, ..options() };
    let said = Profiler::new(small).unwrap_err().to_string();
    assert_eq!(said, "size: 1048576 bytes; at least 16777216 can be profiled");
    let short = ProfilerOptions { budget: Duration::from_millis(5), ..options() };
    let said = Profiler::new(short).unwrap_err().to_string();
    assert!(said.starts_with("budget: 5ms; 2s to"), "{said}");
}

fn found() -> Found {
    let transfer = Transfer { per_request: Duration::from_nanos(3), bytes_per_second: 1_000 };
    let zones = vec![Zone { end: 1 << 30, read: transfer, write: transfer }];
    let (mean, worst) = (Duration::from_nanos(5), Duration::from_nanos(9));
    let positioning = vec![Positioning { distance: 4096, mean, deviation: mean, worst }];
    Found {
        name: "d".to_owned(),
        profile: Profile { zones, positioning, destage: Duration::from_nanos(7), prices: None },
        rotation: Some(Duration::from_nanos(8_333_333)),
        overhead: Duration::from_nanos(1),
        writes: false,
        seeks: vec![Seek { distance: 4096, from: 0, time: mean, samples: 3 }],
        rates: vec![Rate { offset: 0, bytes_per_second: 1_000 }],
        speeds: None,
        requests: 7,
        took: Duration::from_secs(1),
    }
}

/// A file that was never written was said to read 37 GB/s, without a word.
#[test]
fn times_that_are_shorter_than_any_devices_are_of_memory() {
    let read = |each| run(Profiler::new(options()).unwrap(), each).0.finish().unwrap();
    let of_memory = |nanos| read(Duration::from_nanos(nanos)).answered_from_memory();
    let memory = of_memory(1_000).expect("it is no device's");
    assert!(memory.as_nanos().abs_diff(1_000) < 50, "{memory:?}");
    assert!(of_memory(3_900).is_some());
    assert_eq!([4_100, 8_000_000].map(of_memory), [None; 2]);
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let text = toml::to_string(&found()).unwrap();
    assert_eq!(toml::from_str::<Found>(&text).unwrap(), found());
    let refused = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        toml::from_str::<Found>(&changed).unwrap_err().to_string()
    };
    assert!(refused("mean_ns = 5", "mean_ns = 50").contains("positioning[0].mean_ns: above"));
    assert!(refused("bytes_per_second = 1000", "bytes_per_second = 0").contains("zones[0]"));
    assert!(refused("size_bytes = 1073741824", "size_bytes = 1").contains("size_bytes: 1, but"));
    assert!(refused("requests", "request").contains("request"));
}

/// As [`found`], with prices.
fn priced() -> Found {
    let nanos = Duration::from_nanos;
    let price =
        |each: u64| disktime_core::cost::Price { each: nanos(each), per_mib: nanos(2 * each) };
    let cell = |depth, batches| Cell { bytes: 4096, depth, requests: 9, each: nanos(8), batches };
    let work = WorkSpeed {
        work: Work::RandomRead,
        best_depth: 2,
        parallelism_permille: 1_900,
        cells: vec![cell(1, None), cell(2, Some([1, 2, 3, 4, 5].map(nanos)))],
    };
    let prices = disktime_core::cost::PriceList {
        sequential_read: price(1),
        random_read: price(2),
        sequential_write: price(3),
        random_write: price(4),
    };
    let (streams, kinds) = (nanos(1), nanos(2));
    let switching = Switching { streams, kinds, read_write: Some(nanos(3)) };
    let (read_first, read_again) = (nanos(9), nanos(2));
    let cache = Caches { read_first, read_again, write_burst: None, write_burst_bytes: None };
    let speeds = Speeds { works: vec![work], switching: Some(switching), cache: Some(cache) };
    found().with_prices(Priced { prices, speeds, requests: 1, took: nanos(5) })
}

#[test]
fn the_last_tenth_is_not_worth_its_depth() {
    let cell = |bytes, depth, each| Cell {
        bytes,
        depth,
        requests: 9,
        each: Duration::from_nanos(each),
        batches: None,
    };
    let ladder = [(1, 80), (2, 41), (4, 22), (8, 12), (16, 11), (32, 10)];
    let mut cells: Vec<Cell> = ladder.map(|(depth, each)| cell(4096, depth, each)).into();
    // Other sizes say nothing of it.
    cells.push(cell(65_536, 1, 2));
    let work = Work::RandomRead;
    let speed = WorkSpeed { work, best_depth: 32, parallelism_permille: 8_000, cells };
    let found = [0, 99, 100, 200, 10_000].map(|permille| speed.shallowest(permille));
    assert_eq!(found, [32, 32, 16, 8, 1]);
    let unknown = WorkSpeed { cells: Vec::new(), ..speed };
    assert_eq!(unknown.shallowest(100), 32);
}

#[test]
fn prices_are_read_as_they_were_written() {
    let text = toml::to_string(&priced()).unwrap();
    let read: Found = toml::from_str(&text).unwrap();
    assert_eq!(read, priced());
    assert_eq!(read.profile.prices.unwrap().random_write.each, Duration::from_nanos(4));
    assert_eq!((read.requests, read.took), (8, Duration::from_nanos(1_000_000_005)));
    let refused = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        toml::from_str::<Found>(&changed).unwrap_err().to_string()
    };
    assert!(refused("best_depth = 2", "best_depth = 0").contains("random read: a depth of 0"));
    assert!(refused("each_ns = 8", "each_ns = 0").contains("in 0 ns; each is at least 1"));
    assert!(refused("random_read\"", "random\"").contains("random"));
    assert!(refused("per_mib_ns", "per_gib_ns").contains("per_gib_ns"));
}

/// A short budget had long requests priced as short ones, at 5 GB/s from a disk of 23 MB/s, and admission
/// believed it.
#[test]
fn a_price_below_the_fastest_zones_transfer_is_found() {
    let mut disk = priced();
    disk.profile.zones[0].read.bytes_per_second = 1_000_000_000;
    disk.profile.zones[0].write.bytes_per_second = 500_000_000;
    let prices = disk.profile.prices.as_mut().unwrap();
    for price in [&mut prices.sequential_read, &mut prices.random_read] {
        price.per_mib = Duration::from_nanos(530_000);
    }
    for price in [&mut prices.sequential_write, &mut prices.random_write] {
        price.per_mib = Duration::from_secs(1);
    }
    assert_eq!(disk.beyond_zones(), None, "at most twice as fast");
    disk.profile.prices.as_mut().unwrap().sequential_write.per_mib = Duration::from_nanos(530_000);
    let (work, price, zone) = disk.beyond_zones().unwrap();
    assert_eq!(work, Work::SequentialWrite);
    assert_eq!((price.as_nanos(), zone.as_nanos()), (530_003, 2_097_152));
    disk.rotation = None;
    assert_eq!(disk.beyond_zones(), None, "several at once may be faster than one");
    // A budget that is too short for a rotation is too short for long requests.
    disk.profile.prices.as_mut().unwrap().random_read.per_mib = Duration::ZERO;
    assert_eq!(disk.beyond_zones().map(|it| it.0), Some(Work::RandomRead), "bytes are not free");
}

#[test]
fn a_profile_of_another_device_is_refused() {
    assert_eq!(found().fits(1 << 30), Ok(()));
    let said = found().fits(1 << 31).unwrap_err().to_string();
    assert!(said.contains("1073741824 bytes, this one has 2147483648"), "{said}");
}
