//! Live figures: written by one shard, read by anyone, without locks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Buckets of a [`Histogram`]: four an octave of nanoseconds, up to 2^40 ns (18 minutes).
const BUCKETS: usize = 4 * 40;

/// Times, counted in buckets of a quarter octave (19 % wide). Takes no memory until the first one.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: OnceLock<Box<[AtomicU64; BUCKETS]>>,
}

impl Histogram {
    /// Counts a time in nanoseconds. Called by one thread only.
    pub fn record(&self, nanos: u64) {
        let none = || Box::new(std::array::from_fn(|_| AtomicU64::new(0)));
        add(&self.buckets.get_or_init(none)[bucket_of(nanos)], 1);
    }

    /// The counts so far, of the times that a device's requests have.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let Some(buckets) = self.buckets.get() else { return snapshot };
        for (bucket, count) in buckets.iter().enumerate() {
            let place = bucket.clamp(FIRST, LAST) - FIRST;
            let count = count.load(Ordering::Relaxed);
            // Only differences count, which wrap around as this does.
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let count = count as u32;
            snapshot.0[place] = snapshot.0[place].wrapping_add(count);
        }
        snapshot
    }

    /// The time that a fraction 0 to 1 of those counted did not exceed (the upper edge of its
    /// bucket); `None` if nothing was counted.
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Option<Duration> {
        self.counts().quantile(fraction)
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let buckets = self.buckets.get().into_iter().flat_map(|buckets| buckets.iter());
        let mut counts: Vec<u64> = buckets.map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        counts.resize(BUCKETS, 0);
        Counts(counts)
    }
}

/// Counts of a [`Histogram`] at one moment, or between moments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// Adds what was counted between two moments.
    pub fn add_span(&mut self, from: &Self, to: &Self) {
        self.0.resize(BUCKETS, 0);
        for ((sum, from), to) in self.0.iter_mut().zip(&from.0).zip(&to.0) {
            *sum += to.saturating_sub(*from);
        }
    }

    /// Counts by octave, as a [`Snapshot`] has them: times beyond its edges count in the outermost.
    #[must_use]
    pub fn octaves(&self) -> [u64; Snapshot::OCTAVES] {
        let mut octaves = [0; Snapshot::OCTAVES];
        for (bucket, count) in self.0.iter().enumerate() {
            octaves[(bucket.clamp(FIRST, LAST) - FIRST) / 4] += count;
        }
        octaves
    }

    /// As [`Histogram::quantile`].
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Option<Duration> {
        let bucket = bucket_at(self.0.iter().copied(), fraction)?;
        Some(Duration::from_nanos(upper_edge(bucket)))
    }
}

/// The first and last bucket of a [`Snapshot`]: from 512 ns to 17 s. Times beyond count there.
const FIRST: usize = 4 * 9;
const LAST: usize = 4 * 34 - 1;

/// Counts of a [`Histogram`] at one moment or between two, in little memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot([u32; LAST - FIRST + 1]);

impl Default for Snapshot {
    fn default() -> Self {
        Self([0; LAST - FIRST + 1])
    }
}

impl Snapshot {
    /// Octaves of times in a snapshot.
    pub const OCTAVES: usize = (LAST - FIRST + 1) / 4;

    /// The counts since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].wrapping_sub(before.0[at])))
    }

    /// As [`Histogram::quantile`].
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Option<Duration> {
        let bucket = bucket_at(self.0.iter().map(|count| u64::from(*count)), fraction)?;
        Some(Duration::from_nanos(upper_edge(FIRST + bucket)))
    }

    /// Counts by octave.
    #[must_use]
    pub fn octaves(&self) -> [u32; Self::OCTAVES] {
        std::array::from_fn(|octave| {
            self.0[4 * octave..4 * octave + 4].iter().fold(0_u32, |sum, it| sum.saturating_add(*it))
        })
    }

    /// The longest time of each octave.
    #[must_use]
    pub fn edges() -> [Duration; Self::OCTAVES] {
        std::array::from_fn(|octave| Duration::from_nanos(upper_edge(FIRST + 4 * octave + 3)))
    }
}

/// The bucket in which a fraction of the counts is reached; `None` if there are none.
fn bucket_at(counts: impl Iterator<Item = u64> + Clone, fraction: f64) -> Option<usize> {
    let total = counts.clone().sum::<u64>();
    if total == 0 {
        return None;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among counts, for display"
    )]
    let rank = ((total as f64 * fraction).ceil() as u64).max(1);
    let mut seen = 0;
    let mut counts = counts;
    counts.position(|count| {
        seen += count;
        seen >= rank
    })
}

fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(1);
    let octave = nanos.ilog2();
    let quarter = if octave < 2 { 0 } else { (nanos >> (octave - 2)) & 3 };
    let bucket = 4 * octave as usize + usize::try_from(quarter).expect("two bits");
    bucket.min(BUCKETS - 1)
}

fn upper_edge(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / 4, bucket as u64 % 4);
    if octave < 2 { 2 << octave } else { (5 + quarter) << (octave - 2) }
}

/// How the promises to one virtual disk were kept since the start.
#[derive(Debug, Default)]
pub(crate) struct PromiseStats {
    pub(crate) cycles: AtomicU64,
    pub(crate) cycles_missed: AtomicU64,
    pub(crate) promises_broken: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) misses: AtomicU64,
}

/// One virtual disk's figures since the start.
#[derive(Debug, Default)]
pub struct VdiskStats {
    pub(crate) requests: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) charged_ns: AtomicU64,
    pub(crate) fast: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// The size in bytes that clients hear when they connect.
    pub(crate) size: AtomicU64,
    pub(crate) promises: PromiseStats,
    pub(crate) depth: AtomicU64,
    /// Bytes of memory that its clients hold beyond what each has for itself.
    pub(crate) memory: AtomicUsize,
    /// From arrival to dispatch.
    pub queue_time: Histogram,
    /// From dispatch to completion.
    pub service_time: Histogram,
}

impl VdiskStats {
    /// Requests completed.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests that completed with an error.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Disk time charged.
    pub fn charged(&self) -> Duration {
        Duration::from_nanos(self.charged_ns.load(Ordering::Relaxed))
    }

    /// Pieces on tiers that were read or written on the fast one alone, and those that the slow one
    /// had part in.
    pub fn hits_and_misses(&self) -> [u64; 2] {
        [&self.fast, &self.slow].map(|figure| figure.load(Ordering::Relaxed))
    }

    /// How many of its pieces the device may hold, where that goes by latency and a span is over.
    #[must_use]
    pub fn depth(&self) -> Option<u64> {
        Some(self.depth.load(Ordering::Relaxed)).filter(|depth| *depth > 0)
    }

    /// Cycles of a guaranteed rate that began with work waiting and are over.
    pub fn cycles(&self) -> u64 {
        self.promises.cycles.load(Ordering::Relaxed)
    }

    /// Cycles that were not kept.
    pub fn cycles_missed(&self) -> u64 {
        self.promises.cycles_missed.load(Ordering::Relaxed)
    }

    /// How often it was further behind its reservation than is promised.
    pub fn promises_broken(&self) -> u64 {
        self.promises.promises_broken.load(Ordering::Relaxed)
    }

    /// Requests that completed after the deadline that they stated.
    pub fn late(&self) -> u64 {
        self.promises.late.load(Ordering::Relaxed)
    }

    /// How often its rate went last, because the device could not keep all.
    pub fn cuts(&self) -> u64 {
        self.promises.cuts.load(Ordering::Relaxed)
    }

    /// Missed deadlines that its clients have reported, of several within 10 ms one.
    pub fn misses(&self) -> u64 {
        self.promises.misses.load(Ordering::Relaxed)
    }

    /// The figures of a virtual disk of so many bytes.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self { size: bytes.into(), ..Self::default() }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Clients connected now.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

/// One device's figures since the start.
#[derive(Debug)]
pub struct DeviceStats {
    /// For an emulated device: how much later than the model said a completion was handed on.
    pub timing_error: Histogram,
    /// Extents that were moved between tiers.
    pub(crate) moved: AtomicU64,
    /// Time that the shard's thread ran, as the system counts it.
    pub(crate) cpu_ns: AtomicU64,
    /// Time that threads ran which carry its clients' bytes. Each adds its own.
    pub(crate) carriers_cpu_ns: AtomicU64,
    /// Thousandths of a token per second; `u64::MAX` for no limit.
    pub(crate) best_effort_reads: AtomicU64,
    pub(crate) best_effort_writes: AtomicU64,
    pub(crate) reports: AtomicU64,
    pub(crate) reports_ignored: AtomicU64,
}

impl Default for DeviceStats {
    fn default() -> Self {
        Self {
            timing_error: Histogram::default(),
            moved: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            carriers_cpu_ns: AtomicU64::new(0),
            best_effort_reads: AtomicU64::new(u64::MAX),
            best_effort_writes: AtomicU64::new(u64::MAX),
            reports: AtomicU64::new(0),
            reports_ignored: AtomicU64::new(0),
        }
    }
}

impl DeviceStats {
    /// Extents that were moved from one tier to the other, there and back.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// CPU time of the device's threads, as of their last wake-ups.
    pub fn cpu(&self) -> Duration {
        let (shard, carriers) = (&self.cpu_ns, &self.carriers_cpu_ns);
        Duration::from_nanos(shard.load(Ordering::Relaxed) + carriers.load(Ordering::Relaxed))
    }

    /// The rate of best effort that reads, in thousandths of a token per second, as of the shard's
    /// last wake-up; `None` while nothing is held back.
    pub fn best_effort_reads(&self) -> Option<u64> {
        Some(self.best_effort_reads.load(Ordering::Relaxed)).filter(|rate| *rate < u64::MAX)
    }

    /// The same of best effort that writes.
    pub fn best_effort_writes(&self) -> Option<u64> {
        Some(self.best_effort_writes.load(Ordering::Relaxed)).filter(|rate| *rate < u64::MAX)
    }

    /// Reported misses that counted.
    pub fn reports(&self) -> u64 {
        self.reports.load(Ordering::Relaxed)
    }

    /// Reported misses that did not: no soft real time, too soon, not behind.
    pub fn reports_ignored(&self) -> u64 {
        self.reports_ignored.load(Ordering::Relaxed)
    }
}

/// Adds to a figure that only the calling thread writes: a plain store, no locked instruction.
pub(crate) fn add(figure: &AtomicU64, more: u64) {
    figure.store(figure.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_their_edges_say() {
        let mut last = 0;
        for nanos in [1, 2, 3, 4, 5, 7, 8, 1000, 1_000_000, 123_456_789, u64::MAX] {
            let bucket = bucket_of(nanos);
            assert!(
                bucket >= last && (nanos < upper_edge(bucket) || bucket == BUCKETS - 1),
                "{nanos}"
            );
            last = bucket;
        }
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1000).for_each(|micros| histogram.record(micros * 1000));
        let median = histogram.quantile(0.5).expect("counted").as_secs_f64();
        assert!((500e-6..600e-6).contains(&median), "{median}");
        assert!(histogram.quantile(1.0).expect("counted") >= Duration::from_micros(1000));
    }

    #[test]
    fn spans_are_counted_alone() {
        let histogram = Histogram::default();
        (0..100).for_each(|_| histogram.record(1_000_000_000));
        let (from, mut spans) = (histogram.counts(), Counts::default());
        assert_eq!(spans.quantile(0.5), None);
        (0..10).for_each(|_| histogram.record(1000));
        spans.add_span(&from, &histogram.counts());
        assert!(spans.quantile(1.0).expect("counted") < Duration::from_micros(2));
    }
}
