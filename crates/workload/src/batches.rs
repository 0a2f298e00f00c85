//! The clockwork of a load that asks for a cycle's worth at the start of each cycle: see
//! [`Cycles`].
//!
//! Does not know: whether what was asked for before has completed.

use crate::pace::Cycles;
use disktime_core::{Duration, Instant};

const SECOND: u128 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Batches {
    cycles: Cycles,
    /// When the next cycle starts.
    next: Instant,
    /// Bytes that may be asked for now.
    due: u64,
    /// The rest of rate × cycle below a byte, in parts of a second.
    part: u64,
    /// The length of the next operation.
    bytes: u64,
}

impl Batches {
    /// From the first cycle on that starts at `start` or later; the first operation has `bytes`.
    pub(crate) fn new(cycles: Cycles, start: Instant, bytes: u64) -> Self {
        let length = cycles.cycle.as_nanos();
        let first = start.as_nanos().div_ceil(length).saturating_mul(length);
        Self { cycles, next: Instant::from_nanos(first), due: 0, part: 0, bytes }
    }

    /// When the next operation is due, maybe in the past.
    pub(crate) fn next_at(&self) -> Instant {
        if self.due < self.bytes { self.next } else { Instant::ZERO }
    }

    /// Whether an operation may be issued now.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        while self.due < self.bytes && self.next <= now {
            let worth = u128::from(self.cycles.bytes_per_second)
                * u128::from(self.cycles.cycle.as_nanos())
                + u128::from(self.part);
            self.due = self.due.saturating_add(u64::try_from(worth / SECOND).unwrap_or(u64::MAX));
            self.part = u64::try_from(worth % SECOND).unwrap_or(0);
            self.next = self.next + Duration::from_nanos(self.cycles.cycle.as_nanos());
        }
        self.due >= self.bytes
    }

    /// The operation has been issued; `bytes` is the length of the one after it.
    pub(crate) fn issued(&mut self, bytes: u64) {
        self.due -= self.bytes;
        self.bytes = bytes;
    }
}
