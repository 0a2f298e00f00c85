//! A volume of a cloud: caps on operations and bytes per second, with credit that lets it burst, and a
//! latency that varies by the time of day.
//!
//! - Credit is a token bucket: it fills at the base rate up to its size, and begins full. While there is
//!   credit, operations start at the burst rate; without, at the base rate. Operations and bytes have a
//!   bucket each, and an operation starts once both let it.
//! - An operation of more than `operation_bytes` counts as several.
//! - From its start it takes a latency: a fixed part and an exponential one, both longer or shorter by
//!   the time of day. Operations don't wait for one another's latency.
//!
//! Sources: Amazon EC2 User Guide, "Amazon EBS volume types" (I/O credits, burst performance and
//! throughput of gp2). Measurements of such volumes agree that latency moves without their own load; by how much is
//! an estimate of each preset.
//!
//! Does not know: the network, snapshots that are loaded lazily, an instance's own caps.

use crate::device::{Completion, Device, Op};
use crate::drawn;
use crate::pending::Pending;
use disktime_core::{Duration, Instant, Kind};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Properties in which one cloud volume differs from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloudSpec {
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// How many operations it holds.
    pub queue_depth: u32,
    /// Bytes that count as one operation at most.
    pub operation_bytes: u64,
    /// Operations per second.
    pub operations: Cap,
    /// Bytes per second.
    pub bytes: Cap,
    /// Mean latency of a read, and of all that isn't a write, over a day.
    pub read: Duration,
    /// Mean latency of a write over a day.
    pub write: Duration,
    /// The part of a latency that is exponential, in thousandths; the rest is fixed.
    pub jitter_permille: u32,
    /// The length of a day; the run begins at its mean latency, which rises first.
    pub day: Duration,
    /// How far latencies rise above their mean and fall below it by the time of day, in thousandths.
    pub amplitude_permille: u32,
}

/// A rate with credit for bursts, in units per second. All are more than zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cap {
    /// The rate at which credit fills, and which is kept without any.
    pub base: u64,
    /// The rate while there is credit, at least the base rate.
    pub burst: u64,
    /// The most credit, in units.
    pub credit: u64,
}

impl Cap {
    /// A rate without bursts, over spans of a second.
    #[must_use]
    pub const fn flat(rate: u64) -> Self {
        Self { base: rate, burst: rate, credit: rate }
    }
}

/// A volume of a cloud.
#[derive(Debug)]
pub struct Cloud {
    spec: CloudSpec,
    random: Pcg64,
    operations: Bucket,
    bytes: Bucket,
    pending: Pending,
}

/// Nanoseconds in a second: a unit of credit is as many grains, so that a rate of one unit a second
/// fills a grain each nanosecond.
const SECOND: i128 = 1_000_000_000;

/// The state of a cap.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    cap: Cap,
    /// Credit in grains; below zero where an operation took more than the bucket ever holds.
    level: i128,
    /// The time of `level`.
    at: Instant,
    /// When the burst rate lets the next unit start.
    next: Instant,
}

impl Bucket {
    fn new(cap: Cap) -> Self {
        Self { cap, level: grains(cap.credit), at: Instant::ZERO, next: Instant::ZERO }
    }

    /// When so many units may start that are there at `now`; they are taken from the credit.
    fn take(&mut self, now: Instant, units: u64) -> Instant {
        let mut start = now.max(self.next).max(self.at);
        self.fill(start);
        // More than the bucket ever holds starts when it is full, and is paid for afterwards.
        let needed = grains(units.min(self.cap.credit));
        if self.level < needed {
            let missing = (needed - self.level).unsigned_abs().div_ceil(self.cap.base.into());
            start = start + Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX));
            self.fill(start);
        }
        self.level -= grains(units);
        let spacing = grains(units).unsigned_abs().div_ceil(self.cap.burst.into());
        self.next = start + Duration::from_nanos(u64::try_from(spacing).unwrap_or(u64::MAX));
        start
    }

    fn fill(&mut self, now: Instant) {
        let filled = i128::from(now.since(self.at).as_nanos()) * i128::from(self.cap.base);
        self.level = (self.level + filled).min(grains(self.cap.credit));
        self.at = self.at.max(now);
    }
}

fn grains(units: u64) -> i128 {
    i128::from(units) * SECOND
}

impl Cloud {
    /// A volume with all its credit; `seed` decides its latencies.
    ///
    /// # Panics
    /// If the spec has no queue, capacity or day, or a cap is zero or bursts below its base.
    #[must_use]
    pub fn new(spec: CloudSpec, seed: u64) -> Self {
        assert!(spec.operation_bytes > 0 && spec.day > Duration::ZERO, "{spec:?}");
        assert!(spec.jitter_permille <= 1000 && spec.amplitude_permille <= 1000, "{spec:?}");
        for Cap { base, burst, credit } in [spec.operations, spec.bytes] {
            assert!(base > 0 && burst >= base && credit > 0, "{spec:?}");
        }
        Self {
            random: Pcg64::seed_from_u64(seed),
            operations: Bucket::new(spec.operations),
            bytes: Bucket::new(spec.bytes),
            pending: Pending::new(spec.capacity_bytes, spec.queue_depth),
            spec,
        }
    }

    fn start(&mut self, now: Instant, op: Op) -> Instant {
        let operations = op.bytes.div_ceil(self.spec.operation_bytes).max(1);
        let start = self.operations.take(now, operations);
        self.bytes.take(start, op.bytes)
    }

    fn latency(&mut self, kind: Kind, start: Instant) -> Duration {
        let mean = match kind {
            Kind::Write | Kind::Zeroes => self.spec.write,
            Kind::Read | Kind::Cache | Kind::Flush | Kind::Trim => self.spec.read,
        };
        let jitter = f64::from(self.spec.jitter_permille) / 1e3;
        let drawn = drawn::exponential(&mut self.random);
        let part_of_day = start.as_nanos() % self.spec.day.as_nanos();
        #[expect(clippy::cast_precision_loss, reason = "a part of a day is known well enough")]
        let angle = part_of_day as f64 / self.spec.day.as_nanos() as f64 * std::f64::consts::TAU;
        let amplitude = 1.0 + f64::from(self.spec.amplitude_permille) / 1e3 * angle.sin();
        drawn::times(mean, (1.0 - jitter + jitter * drawn) * amplitude)
    }
}

impl Device for Cloud {
    fn capacity_bytes(&self) -> u64 {
        self.pending.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.pending.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.pending.enter(now, &op);
        let start = match op.kind {
            Kind::Flush | Kind::Trim => now,
            Kind::Read | Kind::Cache | Kind::Write | Kind::Zeroes => self.start(now, op),
        };
        let at = start + self.latency(op.kind, start);
        self.pending.push(at, tag);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.pending.next()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.pending.advance(now, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 operations a second, 3,000 while 5,400 of credit last; 1 MB/s, 2 while 1 MB lasts.
    fn spec() -> CloudSpec {
        CloudSpec {
            capacity_bytes: 1 << 30,
            queue_depth: 64,
            operation_bytes: 256 << 10,
            operations: Cap { base: 300, burst: 3000, credit: 5400 },
            bytes: Cap::flat(1 << 30),
            read: Duration::from_micros(800),
            write: Duration::from_millis(1),
            jitter_permille: 0,
            day: Duration::from_secs(100),
            amplitude_permille: 0,
        }
    }

    /// Keeps the volume busy with reads of so many bytes until then: operations in each second.
    fn each_second(cloud: &mut Cloud, bytes: u64, seconds: usize) -> Vec<u32> {
        let op = Op { kind: Kind::Read, offset: 0, bytes, fua: false };
        let (mut counts, mut done) = (vec![0; seconds], Vec::new());
        for tag in 0..32 {
            cloud.submit(Instant::ZERO, tag, op);
        }
        loop {
            let now = cloud.next_completion().unwrap();
            cloud.advance(now, &mut done);
            for completion in done.drain(..) {
                let second = usize::try_from(completion.at.as_nanos() / 1_000_000_000).unwrap();
                let Some(count) = counts.get_mut(second) else { return counts };
                *count += 1;
                cloud.submit(now, completion.tag, op);
            }
        }
    }

    #[test]
    fn it_bursts_while_there_is_credit_and_then_keeps_its_base_rate() {
        let counts = each_second(&mut Cloud::new(spec(), 1), 4096, 10);
        assert!((2990..=3000).contains(&counts[0]), "{counts:?}");
        // 5,400 of credit and 300 more a second are spent at 3,000 a second after 2 s.
        assert!((295..=310).contains(&counts[4]) && counts[9] == 300, "{counts:?}");
    }

    #[test]
    fn a_large_operation_counts_as_several_and_bytes_have_a_cap_of_their_own() {
        let counts = each_second(&mut Cloud::new(spec(), 1), 1 << 20, 10);
        assert_eq!(counts[9], 75);
        let bytes = Cap { base: 1 << 20, burst: 2 << 20, credit: 4 << 20 };
        let counts = each_second(&mut Cloud::new(CloudSpec { bytes, ..spec() }, 1), 64 << 10, 10);
        assert_eq!((counts[1], counts[9]), (32, 16), "{counts:?}");
    }

    /// An operation of more bytes than the bucket holds took what it holds: a volume of 1 MB/s that may
    /// burst did 64 MB/s without end.
    #[test]
    fn no_operation_is_so_large_that_its_rate_is_above_the_base() {
        let bytes = Cap { base: 1 << 20, burst: 100 << 20, credit: 16 << 10 };
        let counts = each_second(&mut Cloud::new(CloudSpec { bytes, ..spec() }, 1), 64 << 10, 10);
        assert_eq!((counts[1], counts[9]), (16, 16), "{counts:?}");
        let operations = Cap { base: 8, burst: 3000, credit: 2 };
        let spec = CloudSpec { operations, ..spec() };
        assert_eq!(each_second(&mut Cloud::new(spec, 1), 1 << 20, 10)[9], 2);
    }

    #[test]
    fn latency_rises_and_falls_by_the_time_of_day() {
        let spec = CloudSpec { amplitude_permille: 250, ..spec() };
        let at = |second: u64| {
            let mut cloud = Cloud::new(spec, 1);
            let now = Instant::ZERO + Duration::from_secs(second);
            let op = Op { kind: Kind::Read, offset: 0, bytes: 4096, fua: false };
            cloud.submit(now, 0, op);
            cloud.next_completion().unwrap().since(now)
        };
        let times = [0, 25, 50, 75].map(|second| at(second).as_nanos());
        assert_eq!(times, [800_000, 1_000_000, 800_000, 600_000]);
    }

    #[test]
    fn the_mean_latency_does_not_depend_on_its_jitter() {
        let spec = CloudSpec { jitter_permille: 500, ..spec() };
        let mut cloud = Cloud::new(spec, 1);
        let mut sum = Duration::ZERO;
        for _ in 0..4000 {
            let latency = cloud.latency(Kind::Write, Instant::ZERO);
            assert!(latency >= Duration::from_micros(500));
            sum += latency;
        }
        let mean = sum.as_secs_f64() / 4000.0 * 1e3;
        assert!((0.98..1.02).contains(&mean), "{mean} ms");
    }
}
