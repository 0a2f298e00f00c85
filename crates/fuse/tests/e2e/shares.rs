//! Open files get their shares of an emulated disk's time beside others.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use disktime_config::read_contract;
use disktime_core::Contract;
use disktime_fuse::client;
use rustix::fs::{Mode, OFlags};

use crate::support::{Mount, depth, fill, keys, lacks};

/// The nine files fill most of the disk, so that seeks are as long as over all of it.
const BYTES: u64 = 3 << 30;
const BLOCK: u64 = 4096;
/// The contract needs a moment, until others' requests are done that went before it.
const SETTLES: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(12);

/// A thread that reads blocks anywhere in a file, one after the other.
struct Reader {
    ends: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(file: OwnedFd, seed: u64) -> Self {
        let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stops, counted) = (Arc::clone(&ends), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            let (mut state, mut block) = (seed, vec![0; BLOCK as usize]);
            while !stops.load(Ordering::Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) % (BYTES / BLOCK) * BLOCK;
                assert_eq!(rustix::io::pread(&file, &mut block, at).unwrap(), block.len());
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { ends, done, thread: Some(thread) }
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _its_panic_was_told = thread.join();
        }
    }
}

fn disk() -> Mount {
    let mut keys = keys();
    keys.queue_depth = depth(1);
    Mount::emulating(Some("deskstar-34gxp"), &keys, |_| {})
}

/// A file of the disk, read past the kernel's cache.
fn open(mount: &Mount, name: &str) -> OwnedFd {
    std::fs::File::create(mount.source(name)).unwrap().set_len(BYTES).unwrap();
    rustix::fs::open(mount.path(name), OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).unwrap()
}

/// A number of a stream's line: device time in seconds that it was charged, or its promise bound.
fn figure(mount: &Mount, named: &str, column: usize) -> f64 {
    let text = mount.figure("streams");
    let line = text.lines().find(|line| line.split('\t').nth(1).unwrap().ends_with(named));
    line.unwrap_or_else(|| panic!("{named} in {text}"))
        .split('\t')
        .nth(column)
        .unwrap()
        .parse()
        .unwrap()
}

/// The outcome of a measurement.
struct Got {
    /// Reads of the file per second.
    rate: f64,
    /// Its part of the device's time.
    share: f64,
    /// The part that it may be behind by its promise bound.
    behind: f64,
}

/// Reads of one file, alone or beside eight others.
fn measure(contract: Option<Contract>, others: u64) -> Got {
    let mount = disk();
    let file = open(&mount, "own");
    if let Some(contract) = &contract {
        client::set(&file, contract).unwrap();
    }
    let reserves = contract.as_ref().is_some_and(|contract| contract.reserve.ppm() > 0);
    // A promise is about a stream that always asks: no thread's pause may leave the file without a request.
    let threads = if reserves { 4 } else { 1 };
    let own: Vec<_> =
        (0..threads).map(|at| Reader::start(file.try_clone().unwrap(), 100 + at)).collect();
    let done = || own.iter().map(Reader::done).sum::<u64>();
    let name = |other: u64| format!("other-{other}");
    let _others: Vec<_> =
        (0..others).map(|other| Reader::start(open(&mount, &name(other)), other + 2)).collect();
    std::thread::sleep(SETTLES);
    let stream = if contract.is_some() { "own" } else { "(shared)" };
    let charged = || figure(&mount, stream, 8);
    let (before, began, time) = (done(), Instant::now(), charged());
    std::thread::sleep(MEASURED);
    let seconds = began.elapsed().as_secs_f64();
    Got {
        rate: (done() - before) as f64 / seconds,
        share: (charged() - time) / seconds,
        behind: if reserves { figure(&mount, stream, 9) / seconds } else { 0.0 },
    }
}

/// The floor of a file: what the whole disk gives, times the share, though eight files without a
/// contract never rest.
#[test]
fn a_file_gets_its_reservation_beside_eight_files_without_a_contract() {
    if lacks("a_file_gets_its_reservation_beside_eight_files_without_a_contract") {
        return;
    }
    let (alone, without) = (measure(None, 0).rate, measure(None, 8).rate);
    let Got { rate, share, behind } = measure(Some(read_contract("reserve=70%").unwrap()), 8);
    let said = format!(
        "alone {alone:.1}/s, beside {without:.1}/s, with 70 % {rate:.1}/s and {share:.3} of the time; \
         it may be behind by {behind:.3}"
    );
    eprintln!("{said}");
    assert!((60.0..130.0).contains(&alone), "{said}");
    assert!(without < 0.25 * alone, "{said}");
    assert!(share > 0.7 - behind, "{said}");
    assert!(rate > 0.45 * alone, "{said}");
}

#[test]
fn a_limit_holds_on_an_idle_disk() {
    if lacks("a_limit_holds_on_an_idle_disk") {
        return;
    }
    let Got { share, .. } = measure(Some(read_contract("limit=20%").unwrap()), 0);
    eprintln!("limit 20 %: {share:.3}");
    assert!((0.15..0.22).contains(&share), "{share}");
}

#[test]
fn the_high_priority_has_nearly_all_of_the_disk() {
    if lacks("the_high_priority_has_nearly_all_of_the_disk") {
        return;
    }
    let Got { share, .. } = measure(Some(disktime_fuse::abi::priority(2).unwrap()), 8);
    eprintln!("high priority: {share:.3}");
    assert!(share > 0.8, "{share}");
}

/// The kernel handed over 256 reads at a time, in the order of their arrival: a file of high priority waited
/// there behind all those of another file that were more, seconds for each read.
#[test]
fn a_file_of_high_priority_does_not_wait_for_400_reads_of_another() {
    if lacks("a_file_of_high_priority_does_not_wait_for_400_reads_of_another") {
        return;
    }
    let mount = disk();
    let (own, other) = (open(&mount, "own"), open(&mount, "other"));
    client::set(&own, &disktime_fuse::abi::priority(2).unwrap()).unwrap();
    let others: Vec<_> =
        (0..400).map(|seed| Reader::start(other.try_clone().unwrap(), seed)).collect();
    std::thread::sleep(SETTLES);
    let (began, mut block) = (Instant::now(), vec![0; BLOCK as usize]);
    for at in 0..10 {
        assert_eq!(rustix::io::pread(&own, &mut block, at * BLOCK).unwrap(), block.len());
    }
    let took = began.elapsed();
    // All at once: else the last ones would read on while the first end.
    others.iter().for_each(|reader| reader.ends.store(true, Ordering::Relaxed));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Requests of files without a contract take no way through the engine while no file has one.
#[test]
fn files_without_a_contract_go_straight_through_until_one_has() {
    if lacks("files_without_a_contract_go_straight_through_until_one_has") {
        return;
    }
    let mount = Mount::new(|_| {});
    let requests = || {
        let text = mount.figure("streams");
        let shared = text.lines().find(|line| line.contains("(shared)")).unwrap().to_owned();
        shared.split('\t').nth(3).unwrap().parse::<u64>().unwrap()
    };
    for name in ["one", "two", "three"] {
        fill(&mount.source(name), 100_000);
    }
    std::fs::read(mount.path("one")).unwrap();
    assert_eq!(requests(), 0);
    let classed = std::fs::File::open(mount.path("two")).unwrap();
    client::set(&classed, &read_contract("reserve=10%").unwrap()).unwrap();
    std::fs::read(mount.path("three")).unwrap();
    let engine = requests();
    assert!(engine > 0, "a reservation can't be kept beside requests that the engine does not see");
    client::set(&classed, &Contract::default()).unwrap();
    std::fs::write(mount.path("one"), [1; 5000]).unwrap();
    assert_eq!(requests(), engine);
}
