//! The cost for a stream of having the device again after others had it.
//!
//! A seek back is not always in the first piece: a drive may first answer from its cache, or write
//! out what others left in it. So the beginning of a stay, for as long as the device may take to
//! settle (50 ms on a disk), is compared with what comes after in this and earlier stays: the excess
//! of its time over that of as many usual pieces is the cost.

use crate::account::settling::Settling;
use crate::types::time::{Duration, Instant};

/// The part of older stays that each sum forgets whenever it grows: one in this.
const MEMORY: i64 = 32;
/// The cost of a return until one was seen: optimistic, or a device that never stays with a stream never
/// learns that it should.
const UNSEEN: i64 = 10_000_000;
/// Every so many stays one is as long as that, however low the cost of returns seems.
const EXPLORE: u32 = 32;

/// A sum of times and how many pieces they were of; older ones fade.
#[derive(Clone, Copy, Default)]
struct Sum {
    nanos: i64,
    /// In 1/1024, so that small numbers fade as well.
    pieces: i64,
    times: i64,
}

impl Sum {
    fn add(&mut self, nanos: i64, pieces: i64) {
        let fade = |sum: i64| sum - sum / MEMORY;
        self.nanos = fade(self.nanos).saturating_add(nanos);
        self.pieces = fade(self.pieces).saturating_add(pieces * 1024);
        self.times = fade(self.times) + 1024;
    }
}

/// Learns what returns cost one stream, from what its pieces take.
#[derive(Clone, Copy, Default)]
pub(super) struct Returns {
    /// The beginnings of stays.
    settling: Sum,
    /// The sum over them of the square of the excess over usual pieces; fades likewise.
    squares: i128,
    /// The rest of stays.
    settled: Sum,
    /// This stay: when it began, pieces and their time so far.
    began: Instant,
    pieces: i64,
    nanos: i64,
    /// The part of these that was taken in already.
    before: Option<(i64, i64)>,
    stays: u32,
}

impl Returns {
    /// How long the device stays with a stream to learn.
    pub(super) const CURIOUS: Duration = Duration::from_nanos(2 * Settling::MOST.as_nanos());

    /// The stream gets the device.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = now;
        self.stays = self.stays.wrapping_add(1);
    }

    /// One of its pieces took so long; the return may still be in what comes back within `settling`.
    pub(super) fn piece(&mut self, now: Instant, took: i64, settling: Duration) {
        let settled = now.since(self.began) > settling && self.pieces > 0;
        if settled && self.before.is_none() {
            self.before = Some((self.nanos, self.pieces));
        }
        self.nanos = self.nanos.saturating_add(took);
        self.pieces += 1;
    }

    /// Others get the device. Answers whether anything was learned.
    pub(super) fn end(&mut self) -> bool {
        let (nanos, pieces) = self.before.take().unwrap_or((self.nanos, self.pieces));
        if pieces > 0 {
            let excess = self.excess(nanos, pieces * 1024);
            self.squares += excess.pow(2) - self.squares / i128::from(MEMORY);
            self.settling.add(nanos, pieces);
        }
        if self.pieces > pieces {
            self.settled.add(self.nanos - nanos, self.pieces - pieces);
        }
        (self.nanos, self.pieces) = (0, 0);
        pieces > 0
    }

    /// Whether this stay is to go on for the sake of learning.
    pub(super) fn is_curious(&self, now: Instant) -> bool {
        let explores = self.explores() || self.settled.pieces == 0;
        explores && now.since(self.began) < Self::CURIOUS
    }

    /// Whether what was learned is to be tried again.
    pub(super) fn explores(&self) -> bool {
        self.stays.is_multiple_of(EXPLORE)
    }

    /// The time of one of its pieces when it has the device for long.
    pub(super) fn usual(&self) -> Option<i64> {
        let Sum { nanos, pieces, .. } = self.settled;
        (pieces > 0).then(|| nanos.saturating_mul(1024) / pieces)
    }

    /// The cost of a return: its mean, and the error that the mean may have; a stream with an unsure mean
    /// stays. A mean below 0 is an error as well: of a stream whose pieces come in unlike spells, when the
    /// spells and its stays keep step.
    pub(super) fn cost(&self) -> i64 {
        let Sum { nanos, pieces, times } = self.settling;
        if times < 2 * 1024 || self.settled.pieces == 0 {
            return UNSEEN;
        }
        let times = i128::from(times);
        let mean = self.excess(nanos, pieces) * 1024 / times;
        let variance = (self.squares * 1024 / times - mean.pow(2)).max(0);
        let error = (variance * 1024 / times).isqrt();
        i64::try_from(mean.abs() + error).unwrap_or(i64::MAX)
    }

    /// By how much more than usual that many pieces, in 1/1024, took.
    fn excess(&self, nanos: i64, pieces: i64) -> i128 {
        let settled = i128::from(self.settled.pieces.max(1));
        i128::from(nanos) - i128::from(self.settled.nanos) * i128::from(pieces) / settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Stays of 200 ms: `first` pieces of 1 ms, one that takes `seek` more, and then 1 ms each.
    fn learned(first: i64, seek: i64) -> i64 {
        let mut returns = Returns::default();
        for stay in 0..300 {
            let mut now = Instant::from_nanos(stay * 1_000_000_000);
            returns.begin(now);
            for piece in 0..200 {
                let took = if piece == first { MS + seek } else { MS };
                now = now + Duration::from_nanos(took.unsigned_abs());
                returns.piece(now, took, Settling::MOST);
            }
            returns.end();
        }
        returns.cost()
    }

    #[test]
    fn a_seek_counts_wherever_it_comes_within_the_first_50_ms() {
        for first in [0, 7, 30] {
            let cost = learned(first, 12 * MS);
            assert!((cost - 12 * MS).abs() < MS / 20, "at piece {first}: {cost}");
        }
        assert!(learned(0, 0) < MS / 5, "and none where there is none");
    }

    #[test]
    fn what_was_not_seen_is_taken_to_be_worth_staying() {
        let mut returns = Returns::default();
        assert_eq!(returns.cost(), UNSEEN);
        returns.begin(Instant::ZERO);
        assert!(returns.is_curious(Instant::ZERO));
        assert!(!returns.end(), "nothing was learned");
        assert_eq!(returns.usual(), None);
    }
}
