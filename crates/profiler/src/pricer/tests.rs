//! A pricer on devices that are a line of arithmetic: servers side by side, a head, caches.

use super::*;
use std::collections::BTreeSet;

const SIZE: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// So many servers, each of which takes `each + per_mib`, and `seek` if it continues nothing.
#[derive(Clone)]
struct Toy {
    servers: usize,
    each: u64,
    per_mib: u64,
    seek: u64,
    /// Bytes that writes are taken for at once, in 1 µs, while they are on their way.
    cache: u64,
    /// Whether what was read before takes 1 µs.
    remembers: bool,
}

const TOY: Toy =
    Toy { servers: 4, each: 100_000, per_mib: 1_000_000, seek: 0, cache: 0, remembers: false };

/// Issued requests and their results.
struct Run {
    priced: Result<Priced, ProfilerError>,
    ops: Vec<IoOp>,
    outstanding_max: usize,
}

impl Toy {
    fn run(&self, options: PricerOptions) -> Run {
        let mut pricer = Pricer::new(options).unwrap();
        let mut now = Instant::from_nanos(7);
        let mut free = vec![0_u64; self.servers];
        let mut ends = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut pending: BTreeSet<(u64, u32)> = BTreeSet::new();
        let (mut ops, mut outstanding_max) = (Vec::new(), 0);
        loop {
            match pricer.next(now) {
                Ask::Done => break,
                Ask::Issue(name, op) => {
                    assert!(op.offset + op.bytes <= SIZE && op.offset % 4096 == 0, "{op:?}");
                    assert!(pending.iter().all(|(_, used)| *used != name), "{name} twice");
                    let done = self.done(now.as_nanos(), op, &mut free, &mut ends, &mut seen);
                    pending.insert((done, name));
                    outstanding_max = outstanding_max.max(pending.len());
                    ops.push(op);
                }
                Ask::Wait => {
                    let (done, name) = pending.pop_first().expect("it waits for something");
                    now = now.max(Instant::from_nanos(done));
                    pricer.completed(now, name);
                }
            }
        }
        assert!(pending.is_empty(), "done with requests outstanding");
        Run { priced: pricer.finish(), ops, outstanding_max }
    }

    fn done(
        &self,
        now: u64,
        op: IoOp,
        free: &mut [u64],
        ends: &mut BTreeSet<u64>,
        seen: &mut BTreeSet<u64>,
    ) -> u64 {
        let last = free.iter().copied().max().unwrap_or(0);
        if op.kind == Kind::Flush {
            return last.max(now) + 1;
        }
        if self.remembers && op.kind == Kind::Read && !seen.insert(op.offset) {
            return now + 1_000;
        }
        let seek = if ends.remove(&op.offset) { 0 } else { self.seek };
        ends.insert(op.offset + op.bytes);
        let server = free.iter_mut().min().expect("at least one server");
        let took = self.each + self.per_mib * op.bytes / MIB + seek;
        *server = now.max(*server) + took;
        // As long as its data stay within the cache, a write is done before it is on its way.
        let held = took * (self.cache / self.servers as u64 / op.bytes);
        match op.kind {
            Kind::Write if held > 0 => (now + 1_000).max(server.saturating_sub(held)),
            _ => *server,
        }
    }
}

fn options(writes: bool) -> PricerOptions {
    let budget = Duration::from_secs(8);
    PricerOptions { size: SIZE, writes, depth_max: 64, budget, thorough: true, seed: 3 }
}

fn near(found: Duration, expected: u64) {
    let (found, expected) = (float(found.as_nanos()), float(expected));
    assert!((found / expected - 1.0).abs() < 0.03, "{found}, not {expected}");
}

#[test]
fn servers_side_by_side_are_found_and_priced_together() {
    let Run { priced, ops, outstanding_max } = TOY.run(options(false));
    let priced = priced.unwrap();
    near(priced.prices.random_read.of(4096), (100_000 + 1_000_000 / 256) / 4);
    near(priced.prices.random_read.per_mib, 250_000);
    near(priced.prices.sequential_read.of(MIB), 1_100_000 / 4);
    let of = priced.speeds.of(Work::RandomRead).unwrap();
    assert_eq!((of.best_depth, (of.parallelism_permille + 5) / 10), (4, 400), "{of:?}");
    assert!(ops.iter().all(|op| op.kind == Kind::Read), "a write was issued");
    assert!(outstanding_max <= 64, "{outstanding_max}");
    let switching = priced.speeds.switching.unwrap();
    assert!(switching.streams < Duration::from_micros(3), "{switching:?}");
    assert!(!priced.speeds.cache.unwrap().reads());
    assert_eq!(priced.requests, ops.len() as u64);
}

/// Writes of 1 MiB taken at once, later ones as they reach the servers: the price is the servers'.
#[test]
fn writes_cost_what_reaches_the_medium() {
    let cached = Toy { cache: 4 << 20, ..TOY };
    let Run { priced, ops, .. } = cached.run(options(true));
    let priced = priced.unwrap();
    near(priced.prices.random_write.of(4096), (100_000 + 1_000_000 / 256) / 4);
    near(priced.prices.sequential_write.of(MIB), 1_100_000 / 4);
    let cache = priced.speeds.cache.unwrap();
    assert!(cache.write_burst.unwrap() < Duration::from_micros(10), "{cache:?}");
    assert!(cache.write_burst_bytes.unwrap() >= 1 << 20, "{cache:?}");
    assert!(ops.iter().any(|op| op.kind == Kind::Flush));
}

#[test]
fn a_head_that_seeks_and_a_cache_that_remembers_are_seen() {
    let disk = Toy { servers: 1, seek: 5_000_000, ..TOY };
    let priced = disk.run(options(false)).priced.unwrap();
    near(priced.prices.random_read.of(4096), 5_100_000 + 1_000_000 / 256);
    near(priced.prices.sequential_read.of(4096), 100_000 + 1_000_000 / 256);
    let remembers = Toy { remembers: true, ..TOY };
    let short = PricerOptions { budget: Duration::from_secs(1), ..options(false) };
    let cache = remembers.run(short).priced.unwrap().speeds.cache.unwrap();
    assert!(cache.reads() && cache.read_again == Duration::from_micros(1), "{cache:?}");
}

/// An emulated disk was profiled within 20 s: there was no time for long requests at the best depth, those
/// with one outstanding were left out, and a long request cost as much as a short one.
#[test]
fn long_requests_that_were_seen_at_depth_one_alone_are_priced() {
    let slow = Toy { servers: 1, each: 8_000_000, per_mib: 50_000_000, seek: 5_000_000, ..TOY };
    let short = PricerOptions { budget: Duration::from_secs(5), ..options(true) };
    let priced = slow.run(short).priced.unwrap();
    let deep = |of: &WorkSpeed| of.cells.iter().filter(|cell| cell.batches.is_some()).count();
    assert!(priced.speeds.works.iter().any(|of| deep(of) == 1), "too much time: {priced:?}");
    for work in Work::ALL {
        let price = work.price(&priced.prices);
        near(price.per_mib, 50_000_000);
    }
}

/// A shallow queue is all that a device may have.
#[test]
fn no_more_are_outstanding_than_allowed() {
    let Run { priced, outstanding_max, .. } =
        TOY.run(PricerOptions { depth_max: 2, ..options(false) });
    assert_eq!((outstanding_max, priced.unwrap().speeds.works[0].best_depth), (2, 2));
    let one = TOY.run(PricerOptions { depth_max: 0, ..options(false) });
    assert_eq!(one.outstanding_max, 1);
}

/// 10 times as slow, or so slow that nothing can be found out: it ends when the time is over and
/// what was outstanding has completed.
#[test]
fn slow_devices_end_in_time() {
    for each in [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 30_000_000_000_u64] {
        let slow = Toy { each, servers: 1, ..TOY };
        let quick =
            PricerOptions { budget: QUICK_BUDGET, thorough: false, depth_max: 1, ..options(false) };
        let Run { priced, ops, .. } = slow.run(quick);
        let at_most = 2 + 2 * QUICK_BUDGET.as_nanos() / each;
        assert!(ops.len() as u64 <= at_most, "{each}: {} requests", ops.len());
        match priced {
            Ok(priced) => assert!(priced.took < QUICK_BUDGET + Duration::from_nanos(3 * each)),
            Err(error) => {
                assert!(each >= 100_000_000, "{each}: {error}");
                assert!(error.to_string().contains("prices of reads: raise the budget"));
            }
        }
    }
}

#[test]
fn sizes_and_budgets_out_of_range_are_named() {
    let said = |options: PricerOptions| Pricer::new(options).unwrap_err().to_string();
    let small = said(PricerOptions { size: 4096, ..options(false) });
    assert_eq!(small, "size: 4096 bytes; at least 16777216 can be profiled");
    let short = said(PricerOptions { budget: Duration::from_millis(1), ..options(false) });
    assert!(short.starts_with("budget: 1ms"), "{short}");
}

#[test]
fn how_far_it_is_only_grows() {
    let mut pricer = Pricer::new(options(true)).unwrap();
    let (mut now, mut last) = (Instant::ZERO, 0.0);
    let mut names = Vec::new();
    loop {
        match pricer.next(now) {
            Ask::Done => break,
            Ask::Issue(name, _) => names.push(name),
            Ask::Wait => {
                now = now + Duration::from_micros(500);
                pricer.completed(now, names.remove(0));
            }
        }
        let part = pricer.progress().part;
        assert!((last..=1.0).contains(&part), "{part} after {last}");
        last = part;
    }
    assert!(pricer.progress().part >= 1.0);
}
