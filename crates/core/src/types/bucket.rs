//! Signed token buckets in nanoseconds of disk time.
//!
//! A bucket fills at its share of wall time. Filling is exact: the part of a token that a span of
//! time leaves over is carried to the next, so no sequence of operations drifts.
//!
//! Does not know: why tokens are taken, or when a level should be capped.

use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// Tokens (ns of disk time) that fill at a share of wall time and may be overdrawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    level: i64,
    /// Tokens × [`Share::PARTS`] not yet credited, below one token.
    remainder: u32,
    rate: Share,
    at: Instant,
}

/// Spans up to this many ns are credited in 64-bit arithmetic (2^43 · 10^6 < 2^63); 2.4 hours.
const SPAN_SHORT: u64 = 1 << 43;
/// Deadlines are computed for shortfalls up to this many tokens; larger ones are as good as this.
const SHORTFALL_MAX: i64 = 1 << 43;
const PARTS: u64 = Share::PARTS as u64;

impl TokenBucket {
    /// An empty bucket at `now`.
    #[must_use]
    pub fn new(rate: Share, now: Instant) -> Self {
        Self { level: 0, remainder: 0, rate, at: now }
    }

    /// Credits the time that passed since the last call; time that went back credits nothing.
    pub fn advance(&mut self, now: Instant) {
        let span = now.since(self.at).as_nanos();
        if span == 0 {
            return;
        }
        self.at = now;
        let (ppm, left) = (u64::from(self.rate.ppm()), u64::from(self.remainder));
        let (tokens, rest) = if span < SPAN_SHORT {
            let parts = span * ppm + left;
            (parts / PARTS, parts % PARTS)
        } else {
            let parts = u128::from(span) * u128::from(ppm) + u128::from(left);
            let whole = |parts: u128| u64::try_from(parts).unwrap_or(u64::MAX);
            (whole(parts / u128::from(PARTS)), whole(parts % u128::from(PARTS)))
        };
        self.remainder = u32::try_from(rest).expect("a remainder is below PARTS, which is a u32");
        self.level = self.level.saturating_add(Duration::from_nanos(tokens).as_tokens());
    }

    /// Takes `tokens` (gives them back if negative); the level may go below zero.
    pub fn take(&mut self, tokens: i64) {
        self.level = self.level.saturating_sub(tokens);
    }

    /// Lowers the level to at most `max`.
    pub fn cap(&mut self, max: i64) {
        if self.level >= max {
            self.level = max;
            self.remainder = 0;
        }
    }

    /// Changes the filling rate from the last [`advance`](Self::advance) on.
    pub fn set_rate(&mut self, rate: Share) {
        self.rate = rate;
    }

    /// The share of wall time at which it fills.
    #[must_use]
    pub fn rate(&self) -> Share {
        self.rate
    }

    /// The level as of the last [`advance`](Self::advance).
    #[must_use]
    pub fn level(&self) -> i64 {
        self.level
    }

    /// When the bucket holds `need` tokens, in ns after the epoch and rounded up; a bucket that
    /// holds them already answers when it got there, so that the longest overdue sorts first.
    /// `i64::MAX` if it never fills.
    #[must_use]
    pub fn holds_at(&self, need: i64) -> i64 {
        if self.rate == Share::ZERO {
            return i64::MAX;
        }
        let missing = need.saturating_sub(self.level).clamp(-SHORTFALL_MAX, SHORTFALL_MAX);
        let parts = missing * i64::from(Share::PARTS) - i64::from(self.remainder);
        let ppm = i64::from(self.rate.ppm());
        let span = parts.div_euclid(ppm) + i64::from(parts.rem_euclid(ppm) != 0);
        Duration::from_nanos(self.at.as_nanos()).as_tokens().saturating_add(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(ppm: u32) -> TokenBucket {
        TokenBucket::new(Share::from_ppm(ppm).unwrap(), Instant::ZERO)
    }

    #[test]
    fn a_billion_operations_do_not_drift() {
        let mut b = bucket(333_333);
        let (mut now, mut taken, mut x) = (0u64, 0i64, 1u64);
        for _ in 0..1_000_000_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += x >> 54; // 0..1023 ns
            b.advance(Instant::from_nanos(now));
            let take = i64::from((x >> 40).to_le_bytes()[0]);
            b.take(take);
            taken += take;
        }
        let filled = i64::try_from(u128::from(now) * 333_333 / 1_000_000).unwrap();
        assert_eq!(b.level(), filled - taken);
    }

    #[test]
    fn the_answered_time_is_the_first_at_which_the_tokens_are_there() {
        for ppm in [1, 3, 299_999, 700_000, 1_000_000] {
            for need in [-5_000, 0, 1, 300_000, 20_000_000] {
                let mut b = bucket(ppm);
                b.advance(Instant::from_nanos(12_345));
                b.take(777);
                let at = b.holds_at(need);
                if at <= 12_345 {
                    assert!(b.level() >= need);
                    continue;
                }
                let (mut before, mut then) = (b, b);
                before.advance(Instant::from_nanos(at.cast_unsigned() - 1));
                then.advance(Instant::from_nanos(at.cast_unsigned()));
                assert!(before.level() < need && then.level() >= need, "{ppm} ppm, {need}");
            }
        }
    }

    #[test]
    fn extremes_saturate() {
        let mut b = bucket(1_000_000);
        b.advance(Instant::MAX);
        assert_eq!(b.level(), i64::MAX);
        b.take(i64::MAX);
        b.take(i64::MAX);
        b.take(i64::MAX);
        assert_eq!(b.level(), i64::MIN);
        assert_eq!(bucket(0).holds_at(1), i64::MAX);
        assert!(b.holds_at(i64::MAX) > 0);
    }

    #[test]
    fn parts_of_tokens_are_kept_until_the_level_is_capped() {
        let mut b = bucket(500_000);
        (1..=2).for_each(|now| b.advance(Instant::from_nanos(now)));
        assert_eq!(b.level(), 1, "two halves");
        b.advance(Instant::from_nanos(3));
        b.cap(1);
        b.advance(Instant::from_nanos(4));
        assert_eq!(b.level(), 1, "the half was beyond the cap");
    }
}
