//! A limit: a share of the device's time that holds in the mean, and over any period.
//!
//! In the mean it is a bucket that fills at the share. The bucket keeps a period's worth for a stream that waits for
//! the device, and a fiftieth of it in a pause. Over any period it is the sum of what was used in the last one: what
//! was saved up is used at no more than the share, and a fiftieth of it.
//!
//! Does not know: whose limit it is.

use alloc::collections::VecDeque;

use super::bucket::TokenBucket;
use super::ratio::scaled;
use super::share::Share;
use super::time::{Duration, Instant};

/// By one part in this, 2 %, a limit may be missed over a period: uses as near to each other are counted together,
/// and a pause saves up so much of a period's worth.
const PARTS: u64 = 50;

/// See the module.
#[derive(Default)]
pub(crate) struct Limit {
    bucket: TokenBucket,
    /// The period, none if all of the time may be used, and its worth in ns.
    period: Option<Duration>,
    worth: i64,
    /// Uses of the last period: the last moment of each, and how much it was; and the sum.
    lately: VecDeque<(Instant, i64)>,
    used: i64,
}

impl Limit {
    /// Another share of a period from `now` on. Time that was used counts, and `pending` where nothing was limited before.
    pub(crate) fn set(&mut self, share: Share, period: Duration, pending: i64, now: Instant) {
        if share == Share::FULL {
            *self = Self::default();
            return;
        }
        if self.period.replace(period).is_none() {
            self.bucket = TokenBucket::new(share, now);
            self.take(pending, now);
        }
        self.bucket.advance(now);
        self.bucket.set_rate(share);
        let worth = scaled(period.as_nanos(), share.ppm().into(), Share::PARTS.into());
        self.worth = Duration::from_nanos(worth).as_tokens().max(1);
    }

    /// Uses time, or gives it back if there is less than none.
    pub(crate) fn take(&mut self, tokens: i64, now: Instant) {
        let Some(period) = self.period else { return };
        self.bucket.take(tokens);
        self.used = self.used.saturating_add(tokens);
        let step = |at: Instant| at.as_nanos() / (period.as_nanos() / PARTS).max(1);
        match self.lately.back_mut().filter(|(at, _)| step(*at) == step(now)) {
            Some((at, used)) => (*at, *used) = (now, used.saturating_add(tokens)),
            None => self.lately.push_back((now, tokens)),
        }
        self.forget(now, period);
    }

    /// A pause ends.
    pub(crate) fn resume(&mut self, now: Instant) {
        if self.period.is_none() {
            return;
        }
        let kept = self.bucket.level().max(self.worth / PARTS.cast_signed()).max(1);
        self.bucket.advance(now);
        self.bucket.cap(kept);
    }

    /// Whether there is time left; if not, when there is again, in ns.
    pub(crate) fn has_time(&mut self, now: Instant) -> Result<(), i64> {
        let Some(period) = self.period else { return Ok(()) };
        self.bucket.advance(now);
        self.bucket.cap(self.worth);
        self.forget(now, period);
        let filled = (self.bucket.level() <= 0).then(|| self.bucket.holds_at(1));
        let mut over = self.used - self.worth - self.worth / PARTS.cast_signed();
        let until = self.lately.iter().find(|(_, used)| {
            let is_over = over >= 0;
            over -= used;
            is_over && over < 0
        });
        let below = until.map(|(at, _)| (*at + period).as_nanos().cast_signed());
        below.max(filled).map_or(Ok(()), Err)
    }

    /// Time that was used a period ago counts no more.
    fn forget(&mut self, now: Instant, period: Duration) {
        while let Some((_, used)) = self.lately.pop_front_if(|(at, _)| *at + period <= now) {
            self.used -= used;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn ms(count: i64) -> i64 {
        count * MS.cast_signed()
    }

    /// A tenth of each second from a moment on.
    fn tenth(now: Instant) -> Limit {
        let mut limit = Limit::default();
        limit.set(Share::from_percent(10).expect("a tenth"), SECOND, 0, now);
        limit
    }

    /// Time is used if it may be: pieces of 3 ms, asked for in spells and pauses of so many ms. Answers when each was.
    fn uses(spell: u64, pause: u64, seconds: u64) -> Vec<u64> {
        let (mut limit, mut now, mut used) = (tenth(at(5)), 5, Vec::new());
        while now < seconds * 1_000 {
            if now % (spell + pause) < spell && limit.has_time(at(now)).is_ok() {
                limit.take(ms(3), at(now));
                used.push(now);
                now += 3;
            } else {
                now += 1;
            }
        }
        used
    }

    /// However long it was idle before, a stream uses no more than its limit and a piece in any second.
    #[test]
    fn no_second_has_more_than_the_limit_and_a_piece() {
        for (spell, pause) in
            [(1, 0), (150, 7_850), (400, 700), (2_000, 1_500), (30, 250), (9_000, 60_000)]
        {
            let used = uses(spell, pause, 300);
            let within =
                |from: &u64| used.iter().filter(|at| (*from..from + 1_000).contains(*at)).count();
            let most = used.iter().map(within).max().expect("it was used");
            assert!(
                (32..=34).contains(&most),
                "{} ms with spells of {spell} and {pause}",
                3 * most
            );
        }
    }

    /// Nor does it use less over minutes: what is held back a second ago comes late by a fiftieth of it at most.
    #[test]
    fn who_always_asks_has_all_of_the_limit() {
        let used = 3 * uses(1, 0, 300).len();
        assert!((29_400..=30_010).contains(&used), "{used} ms of 300 s");
        // So does one who is let in for 350 ms every second and a half.
        let used = 3 * uses(350, 850, 300).len();
        assert!((24_000..=30_010).contains(&used), "{used} ms of 300 s");
    }

    /// While it has work a stream saves up 100 ms of its time at most, in a pause 2 ms.
    #[test]
    fn a_limit_lets_a_stream_save_up_while_it_waits_and_hardly_in_pauses() {
        let mut limit = tenth(at(0));
        let mut saved = |pause: bool, now: u64| {
            if pause {
                limit.resume(at(now));
            } else {
                assert_eq!(limit.has_time(at(now)), Ok(()));
            }
            limit.bucket.level() / 1_000
        };
        assert_eq!(saved(true, 60_000), 2_000, "a minute's pause");
        assert_eq!(saved(false, 60_500), 52_000, "half a second of waiting");
        assert_eq!(saved(false, 70_000), 100_000, "a second's at most");
        assert_eq!(saved(true, 80_000), 100_000, "the pause takes nothing");
    }

    /// The answer to a stream that may not go is a moment at which it may, and a step before it may not.
    #[test]
    fn it_tells_when_there_is_time_again() {
        let mut limit = tenth(at(0));
        assert_eq!(limit.has_time(at(5_000)), Ok(()));
        limit.take(ms(110), at(5_000));
        let again = limit.has_time(at(5_000)).expect_err("a period's worth was used");
        assert_eq!(limit.has_time(at(5_999)), Err(again));
        assert_eq!(again, ms(6_000));
        assert_eq!(limit.has_time(Instant::from_nanos(again.cast_unsigned())), Ok(()));
        // A piece that takes ten seconds is paid for in a hundred.
        limit.take(ms(10_000), at(7_000));
        let again = limit.has_time(at(9_000)).expect_err("it is far behind");
        assert!((ms(104_000)..=ms(106_000)).contains(&again), "{again}");
        assert_eq!(limit.has_time(at(106_000)), Ok(()));
    }

    /// Debits are corrected, and count from before there was a limit.
    #[test]
    fn what_is_at_the_device_counts_until_it_is_corrected() {
        let mut limit = Limit::default();
        limit.take(ms(60_000), at(1_000));
        assert_eq!(limit.has_time(at(1_000)), Ok(()), "nothing is limited");
        limit.set(Share::from_percent(10).expect("a tenth"), SECOND, ms(300), at(1_000));
        assert!(limit.has_time(at(3_000)).is_err());
        limit.take(ms(-290), at(3_100));
        assert_eq!(limit.has_time(at(3_100)), Ok(()));
        limit.set(Share::FULL, SECOND, 0, at(3_100));
        assert_eq!(limit.has_time(at(3_100)), Ok(()));
    }
}
