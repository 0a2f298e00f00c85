//! A probe in real time: back ends that are slow, that fail, that are silent, and files.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_core::cost::PriceList;
use disktime_core::{Duration, Kind};
use disktime_model::preset;
use disktime_profiler::Priced;
use disktime_server::backend::delayed::Delayed;
use disktime_server::backend::faulty::{Fault, Faulty};
use disktime_server::backend::{BackEnd, DeviceError, MemoryBackEnd};
use disktime_server::clock;
use disktime_server::emulate::Emulate;
use disktime_server::probe::{ProbeError, ProbeOptions, Space, price, price_file};
use disktime_server::{Config, Server};

const SIZES: [u64; 2] = [20 << 20, 3 << 20];

fn spaces() -> Vec<Space> {
    let mut base = 0;
    let space = |(disk, bytes)| {
        base += bytes;
        Space { disk, base: base - bytes, bytes }
    };
    (0..).zip(SIZES).map(space).collect()
}

fn memory() -> Box<dyn BackEnd> {
    Box::new(MemoryBackEnd::new(&SIZES))
}

fn options(millis: u64, writes: bool) -> ProbeOptions {
    let budget = Duration::from_millis(millis);
    let patience = Duration::from_millis(300);
    ProbeOptions { writes, depth_max: 16, budget, thorough: false, patience }
}

fn probe(mut back_end: Box<dyn BackEnd>, options: ProbeOptions) -> Result<Priced, ProbeError> {
    price(&mut *back_end, None, &spaces(), &options, |_| {})
}

/// A back end with a time of its own: as parallel as one likes, so the deepest queue is the best.
#[test]
fn a_delayed_back_end_is_probed_at_its_best_depth() {
    let delay = Duration::from_millis(2);
    let inner = Delayed::new(memory(), std::time::Duration::from_nanos(delay.as_nanos()));
    let mut told = 0;
    let mut back_end: Box<dyn BackEnd> = Box::new(inner);
    let priced = price(&mut *back_end, None, &spaces(), &options(1_500, false), |_| told += 1);
    let priced = priced.unwrap();
    let of = &priced.speeds.works[0];
    assert!(of.best_depth >= 4, "{of:?}");
    assert!(of.cells[0].each >= delay && of.cells[0].depth == 1, "{of:?}");
    // 16 at once wait 2 ms together.
    let each = priced.prices.random_read.of(4096);
    assert!(each >= Duration::from_micros(100) && each < delay, "{each:?}");
    assert!(told > 100 && priced.requests > 100, "{told}");
}

#[test]
fn writes_are_measured_where_they_are_allowed() {
    let priced = probe(memory(), options(400, true)).unwrap();
    assert_eq!(priced.speeds.works.len(), 4);
    let priced = probe(memory(), options(400, false)).unwrap();
    assert_eq!(priced.speeds.works.len(), 2);
}

#[test]
fn a_request_that_fails_ends_it() {
    let error = DeviceError(5);
    let fault = Fault { disk: 0, kind: Kind::Read, extent: 0..u64::MAX, every: 50, error };
    let faulty = Box::new(Faulty::new(memory(), vec![fault]));
    let said = probe(faulty, options(400, false)).unwrap_err().to_string();
    assert!(said.starts_with("Read at byte "), "{said}");
}

#[test]
fn a_device_that_is_silent_is_given_up() {
    let begun = clock::now();
    let silent = Box::new(Delayed::new(memory(), std::time::Duration::from_secs(3600)));
    let error = probe(silent, options(400, false)).unwrap_err();
    assert!(matches!(error, ProbeError::Stalled { .. }), "{error}");
    assert!(clock::now().since(begun) < Duration::from_secs(2), "{error}");
}

#[test]
fn files_are_read_without_being_writable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    std::fs::write(&path, vec![7; 32 << 20]).unwrap();
    let mut rights = std::fs::metadata(&path).unwrap().permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(&path, rights).unwrap();
    let priced = price_file(&path, &options(600, false), |_| {}).unwrap();
    assert!(priced.prices.random_read.of(4096) > Duration::ZERO);
    let error = price_file(directory.path(), &options(600, false), |_| {}).unwrap_err();
    assert!(matches!(error, ProbeError::Open(_)), "{error}");
}

/// An emulated disk takes what its model says, whatever stores the bytes.
#[test]
fn an_emulated_device_is_priced_as_it_is_emulated() {
    let disk = preset::find("deskstar-34gxp").unwrap();
    let bytes = 1 << 30;
    let mut back_end = MemoryBackEnd::new(&[bytes]);
    let spaces = [Space { disk: 0, base: 0, bytes }];
    let options = ProbeOptions { depth_max: 1, ..options(1_800, false) };
    let priced = price(&mut back_end, Some(Emulate::One(disk)), &spaces, &options, |_| {}).unwrap();
    let random = priced.prices.random_read.of(4096);
    let sequential = priced.prices.sequential_read.of(4096);
    assert!((3..20).contains(&(random.as_nanos() / 1_000_000)), "{random:?}");
    assert!(sequential < Duration::from_millis(1), "{sequential:?}");
}

/// A daemon on these devices; how long its start took, what it has found, and how deep they go.
fn started(devices: &str) -> (Duration, Vec<Option<PriceList>>, Vec<u32>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nbd.sock");
    std::fs::write(directory.path().join("full"), vec![7; 64 << 20]).unwrap();
    let hollow = std::fs::File::create(directory.path().join("hollow")).unwrap();
    hollow.set_len(64 << 20).unwrap();
    let devices = devices.replace("DIRECTORY", directory.path().to_str().unwrap());
    let text = format!("[server]\nnbd = [\"unix:{}\"]\n{devices}", socket.display());
    let begun = clock::now();
    let server = Server::start(Config::parse(&text).unwrap()).unwrap();
    let took = clock::now().since(begun);
    let prices = server.quick_prices().map(Option::<&PriceList>::copied).collect();
    let depths = server.queue_depths().collect();
    server.shutdown().unwrap();
    (took, prices, depths)
}

fn device(back_end: &str, lines: &str, size: &str) -> String {
    format!(
        "[[device]]\nname = \"d\"\nback_end = \"{back_end}\"\n{lines}\n\
         [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"{size}\"\n"
    )
}

#[test]
fn a_daemon_looks_before_it_serves() {
    let disk = device("memory", "emulate = \"deskstar-34gxp\"\nquick_profile = true", "1GiB");
    let (took, prices, _) = started(&disk);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let random = prices[0].unwrap().random_read.of(4096);
    assert!((3..20).contains(&(random.as_nanos() / 1_000_000)), "{random:?}");
    let file = device("file:DIRECTORY/full", "queue_depth = 8\nquick_profile = true", "32MiB");
    let (took, prices, _) = started(&file);
    assert!(took < Duration::from_secs(4) && prices[0].is_some(), "{took:?} {prices:?}");
}

/// As deep as makes it fast: flash of 32 dies wants many at once, whatever it could take.
#[test]
fn a_daemon_finds_how_deep_its_devices_go() {
    let flash = device("memory", "emulate = \"flash-generic\"", "1GiB");
    let (took, prices, depths) = started(&flash);
    assert!(took < Duration::from_secs(4) && prices[0].is_some(), "{took:?} {prices:?}");
    assert!((16..=256).contains(&depths[0]), "{depths:?}");
    // A path that can't be looked at may be anything.
    for (back_end, lines) in [
        ("file:DIRECTORY/hollow", ""),
        ("file:DIRECTORY/full", "quick_profile = false"),
        ("tiered:DIRECTORY/hollow,DIRECTORY/full", ""),
    ] {
        let (_, prices, depths) = started(&device(back_end, lines, "32MiB"));
        assert_eq!((prices[0], depths[0]), (None, 32), "{back_end} {lines}");
    }
    let (_, _, depths) = started(&device("memory", "", "32MiB"));
    assert_eq!(depths, [1]);
}

/// Without a learner nobody looks; at what holds nothing there is nothing to see; and what can't be
/// found out keeps nobody from serving.
#[test]
fn a_daemon_that_cannot_look_serves_all_the_same() {
    for (back_end, lines, size) in [
        ("file:DIRECTORY/full", "queue_depth = 8\ncost_model = \"fixed\"", "32MiB"),
        ("file:DIRECTORY/full", "queue_depth = 8\nquick_profile = false", "32MiB"),
        ("file:DIRECTORY/hollow", "quick_profile = true", "32MiB"),
        ("memory", "quick_profile = true", "1MiB"),
    ] {
        let (took, prices, _) = started(&device(back_end, lines, size));
        assert_eq!(prices, [None], "{back_end} {lines} {size}");
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}
