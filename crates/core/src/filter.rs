//! A token bucket filter: best effort passes while there are tokens (mdn, section 3).
//!
//! Tokens are counted in grains, the smallest thing that a token is made of: requests, bytes or
//! nanoseconds of disk time. The bucket fills at R times a token's grains a second, the part of a
//! grain that is left over is carried, so no sequence of operations drifts. What goes out may
//! overdraw it by its own cost. Once empty the filter stays shut until the bucket holds a burst, so
//! that what passes comes in runs; it holds at most two.
//!
//! Does not know: who passes, why R changes, what is held back.

use crate::feedback::{FeedbackConfig, TokenRate};
use crate::time::{Duration, Instant};

/// A rate in thousandths of a token a second over nanoseconds: so many parts are a grain.
const PARTS: u128 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    /// Grains of a token.
    grains: u64,
    burst: Duration,
    rate: Option<TokenRate>,
    level: i64,
    /// Parts of a grain not yet credited, below [`PARTS`].
    remainder: u64,
    at: Instant,
    shut: bool,
}

impl Filter {
    /// One that lets everything pass.
    pub(crate) fn new(config: &FeedbackConfig<'_>) -> Self {
        Self::of(config.token.grains(), config.burst)
    }

    /// The same for tokens of so many grains.
    pub(crate) fn of(grains: u64, burst: Duration) -> Self {
        Self { grains, burst, rate: None, level: 0, remainder: 0, at: Instant::ZERO, shut: false }
    }

    pub(crate) fn rate(&self) -> Option<TokenRate> {
        self.rate
    }

    pub(crate) fn shut(&self) -> bool {
        self.shut
    }

    /// Another rate from now on. A bucket that begins to count is empty.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<TokenRate>) {
        self.fill(now);
        let counted = self.rate.is_some();
        self.rate = rate;
        self.shut = rate.is_some() && (self.shut || !counted);
        if rate.is_none() {
            (self.level, self.remainder) = (0, 0);
        }
        self.cap();
    }

    /// Takes what goes out, or corrects it; without a rate nothing is counted. Whatever it is, it may
    /// go: the level may fall below zero.
    pub(crate) fn take(&mut self, now: Instant, grains: i64) {
        if self.rate.is_none() {
            return;
        }
        self.fill(now);
        self.level = self.level.saturating_sub(grains);
        self.shut |= self.level <= 0;
        self.cap();
    }

    /// Whether a shut filter opens now.
    pub(crate) fn opens(&mut self, now: Instant) -> bool {
        if !self.shut {
            return false;
        }
        self.fill(now);
        self.shut = self.level < self.burst();
        !self.shut
    }

    /// When a shut filter opens if nothing else is taken, rounded up; [`Instant::MAX`] if it is open.
    pub(crate) fn opens_at(&self) -> Instant {
        let Some(rate) = self.rate.filter(|_| self.shut) else { return Instant::MAX };
        let missing = i128::from(self.burst()) - i128::from(self.level);
        let missing = u128::try_from(missing).unwrap_or(0) * PARTS;
        let parts = missing.saturating_sub(u128::from(self.remainder));
        let per_nano = u128::from(rate.as_milli()) * u128::from(self.grains);
        let nanos = parts.div_ceil(per_nano.max(1));
        self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The level as of the last call.
    #[cfg(test)]
    pub(crate) fn level(&self) -> i64 {
        self.level
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
        let most = self.burst().saturating_mul(2);
        if self.level >= most {
            (self.level, self.remainder) = (most, 0);
        }
    }

    /// At least a grain.
    fn burst(&self) -> i64 {
        let milli = u128::from(self.rate.map_or(0, TokenRate::as_milli));
        let parts = u128::from(self.burst.as_nanos()) * milli * u128::from(self.grains);
        i64::try_from(parts / PARTS).unwrap_or(i64::MAX).max(1)
    }
}

/// What passed in the last second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    /// Which second `now` counts.
    second: u64,
    before: i64,
    now: i64,
    /// The filter was last seen shut.
    shut_at: Option<Instant>,
}

impl Observed {
    /// So many grains passed, or were corrected.
    pub(crate) fn note(&mut self, now: Instant, grains: i64) {
        self.turn(now);
        self.now = self.now.saturating_add(grains);
    }

    pub(crate) fn note_shut(&mut self, now: Instant) {
        self.shut_at = Some(now);
    }

    /// Whether the filter was shut within the last second.
    pub(crate) fn was_shut(&self, now: Instant) -> bool {
        self.shut_at.is_some_and(|at| now.since(at) < Duration::from_nanos(SECOND))
    }

    /// What passed in the last second, the one before weighed by what of it is within.
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
    use crate::feedback::Token;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn filter(milli: u64, token: Token) -> Filter {
        let config = FeedbackConfig { token, ..FeedbackConfig::default() };
        let mut filter = Filter::new(&config);
        filter.set_rate(at(0), Some(TokenRate::from_milli(milli)));
        filter
    }

    /// A bucket in exact fractions of a grain.
    struct Oracle {
        parts: i128,
        most: i128,
    }

    #[test]
    fn accounts_are_exact_whatever_the_steps() {
        for token in [Token::Request, Token::Data, Token::Time] {
            for milli in [1, 333, 10_000, 49_700, 9_999_999] {
                let mut filter = filter(milli, token);
                let per_nano = i128::from(milli) * i128::from(token.grains());
                let burst = (per_nano * 150_000_000 / 1_000_000_000_000).max(1);
                let mut oracle = Oracle { parts: 0, most: burst * 2 * 1_000_000_000_000 };
                let (mut now, mut x) = (0, 1_u64);
                for _ in 0..20_000 {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let span = (x >> 33) % 40_000_000;
                    now += span;
                    oracle.parts += per_nano * i128::from(span);
                    oracle.parts = oracle.parts.min(oracle.most);
                    let take = i64::try_from((x >> 20) % (2 * token.grains() + 1)).unwrap();
                    filter.take(at(now), take);
                    oracle.parts -= i128::from(take) * 1_000_000_000_000;
                    let level = oracle.parts.div_euclid(1_000_000_000_000);
                    assert_eq!(i128::from(filter.level()), level, "{token:?} {milli} at {now}");
                }
            }
        }
    }

    #[test]
    fn it_opens_at_the_first_nanosecond_that_holds_a_burst() {
        for milli in [1, 777, 50_000] {
            let mut filter = filter(milli, Token::Data);
            filter.take(at(5), 300_000);
            let opens = filter.opens_at();
            let (mut before, mut then) = (filter, filter);
            assert!(!before.opens(opens - Duration::from_nanos(1)), "{milli}");
            assert!(then.opens(opens), "{milli}");
            assert!(!then.opens(opens), "it is open already");
            assert_eq!(then.opens_at(), Instant::MAX);
        }
    }

    #[test]
    fn without_a_rate_nothing_is_counted_or_held() {
        let mut filter = Filter::new(&FeedbackConfig::default());
        filter.take(at(7), i64::MAX);
        assert!(!filter.shut() && filter.level() == 0);
        filter.set_rate(at(9), Some(TokenRate::per_second(10)));
        assert!(filter.shut(), "it begins empty");
        filter.take(at(10), i64::MAX);
        filter.take(at(10), i64::MAX);
        filter.take(at(11), i64::MAX);
        assert_eq!(filter.level(), i64::MIN);
        filter.set_rate(at(12), None);
        assert!(!filter.shut());
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
}
