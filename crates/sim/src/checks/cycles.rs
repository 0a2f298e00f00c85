//! Whether a deterministic rate was kept, counted from what passes by.
//!
//! A cycle is expected to do the bytes that wait when it begins, up to its grant. The last piece of a
//! cycle may send more than was granted, which the next cycle has less (`core::cycle`): so the largest
//! piece is taken off the grant here. The engine counts to the byte; this counts without it.

use disktime_core::{Admission, Class, Contract, Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(super) struct Cycles {
    length: Duration,
    grant: u64,
    ends: Instant,
    waiting: u64,
    piece_max: u64,
    expected: u64,
    done: u64,
    pub(super) missed: u64,
}

impl Cycles {
    /// The cycles of a deterministic rate that states its cycle.
    pub(super) fn of(contract: &Contract) -> Option<Self> {
        let rate = contract.rate.filter(|_| contract.class == Class::GuaranteedRate)?;
        let length = rate.cycle.filter(|_| rate.admission == Admission::Deterministic)?;
        let grant = u128::from(rate.bytes_per_second) * u128::from(length.as_nanos());
        Some(Self {
            length,
            grant: u64::try_from(grant / 1_000_000_000).unwrap_or(u64::MAX),
            ends: Instant::ZERO + length,
            waiting: 0,
            piece_max: 0,
            expected: 0,
            done: 0,
            missed: 0,
        })
    }

    pub(super) fn arrived(&mut self, now: Instant, bytes: u64) {
        self.begin(now);
        self.waiting += bytes;
        if now + self.length == self.ends {
            self.set_expected(self.expected + bytes);
        }
    }

    pub(super) fn dispatched(&mut self, now: Instant, bytes: u64) {
        self.begin(now);
        self.waiting -= bytes;
        self.piece_max = self.piece_max.max(bytes);
    }

    pub(super) fn completed(&mut self, now: Instant, bytes: u64) {
        self.begin(now);
        self.done += bytes;
    }

    /// Ends the cycles that are over.
    pub(super) fn begin(&mut self, now: Instant) {
        while self.ends <= now {
            self.missed += u64::from(self.done < self.expected.saturating_sub(self.piece_max));
            self.ends = self.ends + self.length;
            self.done = 0;
            self.set_expected(self.waiting);
        }
    }

    fn set_expected(&mut self, bytes: u64) {
        self.expected = bytes.min(self.grant);
    }
}
