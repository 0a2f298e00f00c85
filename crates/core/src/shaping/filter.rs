//! A token bucket filter: best effort passes while there are tokens (mdn, section 3).
//!
//! Tokens are counted in grains, the smallest thing that a token is made of: requests, bytes or
//! nanoseconds of disk time. The bucket fills at R times a token's grains a second, the part of a
//! grain that is left over is carried, so no sequence of operations drifts. Tokens are handed out in
//! bursts, each to one stream, so that what passes comes in runs; the bucket holds two.
//!
//! Does not know: which stream gets a burst, why R changes.

use crate::shaping::feedback::{FeedbackConfig, TokenRate};
use crate::types::time::{Duration, Instant};

/// A rate in thousandths of a token a second over nanoseconds: so many parts are a grain.
const PARTS: u128 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    /// Grains of a token.
    grains: u64,
    /// Grains of a burst.
    burst: i64,
    rate: Option<TokenRate>,
    level: i64,
    /// Parts of a grain not yet credited, below [`PARTS`].
    remainder: u64,
    at: Instant,
}

impl Filter {
    /// One that lets everything pass.
    pub(crate) fn new(config: &FeedbackConfig) -> Self {
        let grains = config.token.grains();
        let burst = grains.saturating_mul(u64::from(config.burst));
        let burst = i64::try_from(burst).unwrap_or(i64::MAX);
        Self { grains, burst, rate: None, level: 0, remainder: 0, at: Instant::ZERO }
    }

    /// R; `None` if everything passes.
    pub(crate) fn rate(&self) -> Option<TokenRate> {
        self.rate
    }

    /// Another rate from now on. A bucket that begins to count is empty.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<TokenRate>) {
        self.fill(now);
        self.rate = rate;
        if rate.is_none() {
            (self.level, self.remainder) = (0, 0);
        }
        self.cap();
    }

    /// A burst, if the bucket holds one.
    pub(crate) fn hand(&mut self, now: Instant) -> Option<i64> {
        self.fill(now);
        self.rate.filter(|_| self.level >= self.burst)?;
        self.level -= self.burst;
        Some(self.burst)
    }

    /// When it holds a burst, rounded up; [`Instant::MAX`] without a rate.
    pub(crate) fn hands_at(&self) -> Instant {
        let Some(rate) = self.rate else { return Instant::MAX };
        let missing = i128::from(self.burst) - i128::from(self.level);
        let missing = u128::try_from(missing).unwrap_or(0) * PARTS;
        let parts = missing.saturating_sub(u128::from(self.remainder));
        let per_nano = u128::from(rate.as_milli()) * u128::from(self.grains);
        let nanos = parts.div_ceil(per_nano.max(1));
        self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn fill(&mut self, now: Instant) {
        let span = now.since(self.at).as_nanos();
        self.at = self.at.max(now);
        let Some(rate) = self.rate.filter(|_| span > 0) else { return };
        let parts = u128::from(span) * u128::from(rate.as_milli()) * u128::from(self.grains);
        let parts = parts + u128::from(self.remainder);
        self.remainder = u64::try_from(parts % PARTS).unwrap_or(0);
        let grains = i64::try_from(parts / PARTS).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(grains);
        self.cap();
    }

    fn cap(&mut self) {
        let most = self.burst.saturating_mul(2);
        if self.level >= most {
            (self.level, self.remainder) = (most, 0);
        }
    }
}

/// The service that passed in the last second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    /// Which second `now` counts.
    second: u64,
    before: i64,
    now: i64,
    /// When the filter last held something back.
    held_at: Option<Instant>,
}

impl Observed {
    /// So many grains passed, or were corrected.
    pub(crate) fn note(&mut self, now: Instant, grains: i64) {
        self.turn(now);
        self.now = self.now.saturating_add(grains);
    }

    /// The filter holds something back.
    pub(crate) fn held(&mut self, now: Instant) {
        self.held_at = Some(now);
    }

    /// Whether it did so within the last second.
    pub(crate) fn has_held(&self, now: Instant) -> bool {
        self.held_at.is_some_and(|at| now.since(at) < Duration::from_nanos(SECOND))
    }

    /// The rate over the last second: the second before is weighed by the part of it that lies
    /// within.
    pub(crate) fn rate(&mut self, now: Instant, grains_per_token: u64) -> TokenRate {
        self.turn(now);
        let old = u128::from(SECOND - now.as_nanos() % SECOND);
        let whole = |grains: i64| u128::from(grains.max(0).unsigned_abs());
        let grains = whole(self.now) + whole(self.before) * old / u128::from(SECOND);
        let milli = grains * 1000 / u128::from(grains_per_token);
        TokenRate::from_milli(u64::try_from(milli).unwrap_or(u64::MAX))
    }

    fn turn(&mut self, now: Instant) {
        let second = now.as_nanos() / SECOND;
        if second > self.second {
            self.before = if second == self.second + 1 { self.now } else { 0 };
            (self.second, self.now) = (second, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaping::feedback::Token;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn filter(milli: u64, token: Token) -> Filter {
        let config = FeedbackConfig { token, ..FeedbackConfig::default() };
        let mut filter = Filter::new(&config);
        filter.set_rate(at(0), Some(TokenRate::from_milli(milli)));
        filter
    }

    #[test]
    fn accounts_are_exact_whatever_the_steps() {
        for token in [Token::Request, Token::Data, Token::Time] {
            for milli in [1, 333, 10_000, 49_700, 9_999_999] {
                let mut filter = filter(milli, token);
                let per_nano = i128::from(milli) * i128::from(token.grains());
                let burst = i128::from(token.grains()) * 8;
                // A bucket in exact parts of a grain.
                let (mut parts, grain) = (0, 1_000_000_000_000);
                let (mut now, mut x) = (0, 1_u64);
                for _ in 0..20_000 {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let span = (x >> 33) % 200_000_000;
                    now += span;
                    parts = (parts + per_nano * i128::from(span)).min(burst * 2 * grain);
                    let burst = Some(burst).filter(|burst| parts >= burst * grain);
                    parts -= burst.unwrap_or(0) * grain;
                    assert_eq!(
                        filter.hand(at(now)).map(i128::from),
                        burst,
                        "{token:?} {milli} at {now}"
                    );
                    let (level, remainder) =
                        (i128::from(filter.level), i128::from(filter.remainder));
                    assert_eq!(level * grain + remainder, parts, "{token:?} {milli} at {now}");
                }
            }
        }
    }

    #[test]
    fn it_hands_at_the_first_nanosecond_that_holds_a_burst() {
        for milli in [1, 777, 50_000] {
            let mut filter = filter(milli, Token::Data);
            let hands = filter.hands_at();
            assert_eq!(filter.hand(hands - Duration::from_nanos(1)), None, "{milli}");
            assert!(filter.hand(hands).is_some(), "{milli}");
            assert_eq!(filter.hand(hands), None, "it has been handed");
        }
    }

    #[test]
    fn without_a_rate_nothing_is_counted() {
        let mut filter = Filter::new(&FeedbackConfig::default());
        assert_eq!((filter.hand(at(7)), filter.hands_at()), (None, Instant::MAX));
        filter.set_rate(at(9), Some(TokenRate::per_second(10)));
        assert_eq!(filter.hand(at(10)), None, "it begins empty");
        let hands = [(); 3].map(|()| filter.hand(at(u64::MAX)).is_some());
        assert_eq!(hands, [true, true, false], "it holds two");
    }

    #[test]
    fn the_last_second_is_what_is_observed() {
        let mut observed = Observed::default();
        for tenth in 0..25 {
            observed.note(at(tenth * 100_000_000), 3);
        }
        assert_eq!(observed.rate(at(2_500_000_000), 1).as_milli(), 30_000);
        assert_eq!(observed.rate(at(3_000_000_000), 1).as_milli(), 15_000);
        assert_eq!(observed.rate(at(9_000_000_000), 1), TokenRate::ZERO);
    }

    /// Tokens of a time without a limit must not pass in a burst once there is one.
    #[test]
    fn a_bucket_that_begins_to_count_anew_is_empty() {
        let mut filter = filter(10_000, Token::Request);
        filter.set_rate(at(100_000_000_000), None);
        filter.set_rate(at(200_000_000_000), Some(TokenRate::per_second(10)));
        assert_eq!(filter.hand(at(200_000_000_000)), None);
    }

    #[test]
    fn what_passed_before_a_second_without_any_is_not_observed() {
        let mut observed = Observed::default();
        observed.note(at(500_000_000), 30);
        assert_eq!(observed.rate(at(2_100_000_000), 1), TokenRate::ZERO);
    }
}
