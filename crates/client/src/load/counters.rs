//! State that a load's thread and its holder share: numbers one way, the wish to stop the other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Counts of a load since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests issued, answered or not.
    pub issued: u64,
    /// Requests that succeeded.
    pub completed: u64,
    /// Requests that the server answered with an error.
    pub failed: u64,
    /// Bytes of the reads that succeeded.
    pub bytes_read: u64,
    /// Bytes of the writes that succeeded.
    pub bytes_written: u64,
    /// Sum of the latencies of the requests that succeeded, in nanoseconds.
    pub latency_ns_sum: u64,
    /// The longest of them, in nanoseconds.
    pub latency_ns_max: u64,
    /// Deadlines that a player has missed.
    pub misses: u64,
    /// Misses that were not reported although they should have been.
    pub unreported: u64,
    /// For how long a player has stood still, in nanoseconds.
    pub stalled_ns: u64,
    /// The longest of these times, in nanoseconds: how late data came at worst.
    pub stalled_ns_max: u64,
}

/// The driver writes its counters once a turn; readers may see one turn's numbers half written, so
/// sums that hold in a [`Counters`] of the report hold in a snapshot only roughly.
#[derive(Debug)]
pub(super) struct Shared {
    issued: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    latency_ns_sum: AtomicU64,
    latency_ns_max: AtomicU64,
    misses: AtomicU64,
    unreported: AtomicU64,
    stalled_ns: AtomicU64,
    stalled_ns_max: AtomicU64,
    stopping: AtomicBool,
    /// Readable once the load shall stop.
    wake: OwnedFd,
}

impl Shared {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            issued: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            latency_ns_sum: AtomicU64::new(0),
            latency_ns_max: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            unreported: AtomicU64::new(0),
            stalled_ns: AtomicU64::new(0),
            stalled_ns_max: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(super) fn publish(&self, counters: &Counters) {
        let store = |to: &AtomicU64, value| to.store(value, Ordering::Relaxed);
        store(&self.issued, counters.issued);
        store(&self.completed, counters.completed);
        store(&self.failed, counters.failed);
        store(&self.bytes_read, counters.bytes_read);
        store(&self.bytes_written, counters.bytes_written);
        store(&self.latency_ns_sum, counters.latency_ns_sum);
        store(&self.latency_ns_max, counters.latency_ns_max);
        store(&self.misses, counters.misses);
        store(&self.unreported, counters.unreported);
        store(&self.stalled_ns, counters.stalled_ns);
        store(&self.stalled_ns_max, counters.stalled_ns_max);
    }

    pub(super) fn counters(&self) -> Counters {
        let load = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Counters {
            issued: load(&self.issued),
            completed: load(&self.completed),
            failed: load(&self.failed),
            bytes_read: load(&self.bytes_read),
            bytes_written: load(&self.bytes_written),
            latency_ns_sum: load(&self.latency_ns_sum),
            latency_ns_max: load(&self.latency_ns_max),
            misses: load(&self.misses),
            unreported: load(&self.unreported),
            stalled_ns: load(&self.stalled_ns),
            stalled_ns_max: load(&self.stalled_ns_max),
        }
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // It can only fail when the eventfd is readable already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(super) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
