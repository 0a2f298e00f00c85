//! Claims of soft real-time streams for more service, and the evidence for them.
//!
//! A stream *pauses* when it has nothing asked for a moment: it has what it wants. One that never
//! pauses is behind, whether or not it says so.

use crate::shaping::feedback::Standing;
use crate::types::ratio::scaled;
use crate::types::time::{Duration, Instant};

/// A shorter time without a request is the client's turn-around, not a pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// A stream that reports a miss is taken to have been behind for this long.
const BEHIND_MIN: Duration = Duration::from_millis(250);

/// A stream must pause within this time of its report: it was then granted what it needs, which is
/// bounded.
const PAUSE_WITHIN: Duration = Duration::from_secs(10);
/// By how much a stream may be ahead of the rate that it is known for.
const SLACK: Duration = Duration::from_secs(2);
/// A stream that has not paused by then is distrusted: none of its reports count for this long,
/// which doubles each time up to the second value.
const DISTRUST: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(3_600)];
/// A debt is paid back at the rate before the reports divided by this, and a quarter (1 /
/// `INTEREST`) longer, because the gain is not known to the byte.
const PAID_BACK: u64 = 2;
const INTEREST: u64 = 4;
/// The longest time and the least rate of paying back, in bytes per second.
const PAYS_MAX: Duration = Duration::from_secs(120);
const PAYS_RATE_MIN: u64 = 64 << 10;
/// A stream that asks for nothing for so long needs nothing.
const GONE: Duration = Duration::from_secs(10);

/// Why a report did not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// The stream is not soft real-time.
    OtherClass,
    /// One of the stream's reports has counted a moment ago.
    TooSoon,
    /// The stream has paused just now: it had all that it asked for.
    NotBehind,
    /// The stream's earlier reports never brought it enough: it has to pay back their gain, and
    /// more.
    Distrusted,
}

/// A stream that has paused for less than 1 / `PAUSE_PART` of the time is behind.
const PAUSE_PART: u64 = 50;
/// A longer pause says nothing of a stream's rate: it rests.
const REST_MIN: Duration = Duration::from_secs(1);
/// A rate is what was served in about this time, and in no less than that.
const LEARN: Duration = Duration::from_secs(16);
const LEARN_MIN: Duration = Duration::from_millis(100);
const SECOND: u64 = 1_000_000_000;

/// One stream's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Claim {
    /// When its last report counted.
    reported: Option<Instant>,
    /// Since when it has asked for nothing.
    idle_since: Option<Instant>,
    /// When it last asked for something, as far as looks tell.
    asked_at: Instant,
    /// End of its last pause.
    paused_at: Instant,
    /// Pauses since the last look.
    paused: Duration,
    looked_at: Instant,
    /// It was behind at the last look.
    behind: bool,
    /// When its last pause ended, and what it had been served by then: it had all that it wants.
    content: Option<(Instant, u64)>,
    /// Until its next pause it is not served what it uses: it fills its buffer after a rest, or has
    /// stood still.
    uneven: bool,
    /// Nanoseconds between such times, and the bytes that it was served in them: its rate.
    used: (u64, u64),
    /// Service that a report brought it, on loan until it pauses.
    loan: Option<Loan>,
    debt: Option<Debt>,
    distrusted_until: Instant,
    /// For how long, next time.
    distrust: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Loan {
    since: Instant,
    /// Served by then.
    served: u64,
    /// Bytes per second that it had before.
    before: u64,
}

/// A span in which a stream gets less than it had before its reports.
#[derive(Clone, Copy, Debug)]
struct Debt {
    since: Instant,
    served: u64,
    /// Bytes per second that it may have.
    rate: u64,
    until: Instant,
}

impl Claim {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            idle_since: Some(now),
            asked_at: now,
            paused_at: now,
            looked_at: now,
            uneven: true,
            distrust: DISTRUST[0],
            ..Self::default()
        }
    }

    /// Its first request arrived, or its last one is over; it has been served so many bytes in all.
    /// Answers whether it was behind and now has what it wants, at a rate that is known.
    pub(crate) fn turned(&mut self, now: Instant, idle: bool, served: u64) -> bool {
        if idle {
            self.idle_since = Some(now);
            return false;
        }
        let Some(since) = self.idle_since.take() else { return false };
        self.asked_at = now;
        let pause = now.since(since);
        if pause < PAUSE_MIN {
            return false;
        }
        self.paused += now.since(since.max(self.looked_at));
        self.learn(now, pause, served);
        self.behind && self.has_paused(now) && self.played(now, served).is_some()
    }

    /// The stream's last client is gone: the next one starts with an empty buffer.
    pub(crate) fn left(&mut self) {
        self.content = None;
    }

    /// It has all that it wants, as it had before: what it was served since is what it used.
    fn learn(&mut self, now: Instant, pause: Duration, served: u64) {
        self.paused_at = now;
        let before = self.content.replace((now, served));
        let starts = pause >= REST_MIN || before.is_none();
        let uneven = core::mem::replace(&mut self.uneven, starts);
        let Some((at, before)) = before.filter(|_| !starts && !uneven) else { return };
        let (span, bytes) = &mut self.used;
        *span = span.saturating_add(now.since(at).as_nanos());
        *bytes = bytes.saturating_add(served.saturating_sub(before));
        if *span > LEARN.as_nanos() {
            (*span, *bytes) = (*span / 2, *bytes / 2);
        }
    }

    /// How it does since the last look; it has been served so many bytes in all.
    pub(crate) fn look(&mut self, now: Instant, served: u64) -> Standing {
        if let Some(since) = self.idle_since.filter(|since| now.since(*since) >= PAUSE_MIN) {
            self.paused += now.since(since.max(self.looked_at));
        } else if self.idle_since.is_none() {
            self.asked_at = now;
        }
        let behind = !self.has_paused(now);
        (self.behind, self.paused, self.looked_at) = (behind, Duration::ZERO, now);
        if !behind {
            self.loan = None;
            return Standing { behind, lag: Some(Duration::ZERO) };
        }
        let lag = self.played(now, served).map(|(since, played)| since.saturating_sub(played));
        Standing { behind, lag }
    }

    /// Whether it has paused since the last look, long enough to count.
    fn has_paused(&self, now: Instant) -> bool {
        let since = now.since(self.looked_at).as_nanos();
        self.paused.as_nanos().saturating_mul(PAUSE_PART) >= since.max(1)
    }

    /// The time since it had enough, and how long what it was served since lasts at its rate; `None`
    /// while that is not known.
    fn played(&self, now: Instant, served: u64) -> Option<(Duration, Duration)> {
        let (span, bytes) = self.used;
        let known = bytes > 0 && span >= LEARN_MIN.as_nanos();
        let (at, before) = self.content.filter(|_| known)?;
        let played = scaled(served.saturating_sub(before), span, bytes);
        Some((now.since(at), Duration::from_nanos(played)))
    }

    /// Whether a report made now counts.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        served: u64,
        interval: Duration,
        (proof, lends): (bool, bool),
    ) -> Result<(), Ignored> {
        if now < self.distrusted_until {
            return Err(Ignored::Distrusted);
        }
        let pauses = self.idle_since.is_some_and(|since| now.since(since) >= PAUSE_MIN);
        self.uneven |= !pauses;
        if self.reported.is_some_and(|at| now.since(at) < interval) {
            return Err(Ignored::TooSoon);
        }
        if proof && (pauses || now.since(self.paused_at) < BEHIND_MIN) {
            return Err(Ignored::NotBehind);
        }
        self.reported = Some(now);
        if lends && self.loan.is_none() {
            let (at, before) = self.content.unwrap_or((self.paused_at, served));
            let span = now.since(at).as_nanos();
            let before = scaled(served.saturating_sub(before), SECOND, span);
            self.loan = Some(Loan { since: now, served, before });
        }
        Ok(())
    }

    /// Whether it has never had enough since its report, nor kept to the rate that it is known for:
    /// then what that brought it becomes a debt.
    pub(crate) fn overdue(&mut self, now: Instant, served: u64) -> bool {
        let Some(loan) = self.loan.filter(|loan| now.since(loan.since) >= PAUSE_WITHIN) else {
            return false;
        };
        let as_known = |(since, played)| played <= since + SLACK;
        if self.played(now, served).is_some_and(as_known) {
            return false;
        }
        let span = now.since(loan.since);
        let had = served.saturating_sub(loan.served);
        let gained = had.saturating_sub(scaled(loan.before, span.as_nanos(), SECOND));
        let before = loan.before.max(PAYS_RATE_MIN);
        let repaid = gained.saturating_add(gained / INTEREST);
        let back = scaled(repaid, SECOND, before / PAID_BACK);
        let back = Duration::from_nanos(back).min(PAYS_MAX);
        let rate = before - before / PAID_BACK;
        self.debt = Some(Debt { since: now, served, rate, until: now + back });
        self.loan = None;
        self.distrusted_until = now + self.distrust;
        self.distrust = (self.distrust + self.distrust).min(DISTRUST[1]);
        true
    }

    /// Until when it has to wait, if it pays back and has had its part.
    pub(crate) fn waits_until(&mut self, now: Instant, served: u64) -> Option<Instant> {
        let debt = self.debt?;
        if now >= debt.until {
            self.debt = None;
            return None;
        }
        let had = u128::from(served.saturating_sub(debt.served)) * u128::from(SECOND);
        let nanos = u64::try_from(had.div_ceil(u128::from(debt.rate))).unwrap_or(u64::MAX);
        let at = (debt.since + Duration::from_nanos(nanos)).min(debt.until);
        Some(at).filter(|at| *at > now)
    }

    /// It has asked for nothing for a long time.
    pub(crate) fn is_gone(&self, now: Instant) -> bool {
        self.idle_since.is_some() && now.since(self.asked_at) >= GONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of each request.
    const BYTES: u64 = 1_000;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// A stream and what it has been served.
    struct Player {
        claim: Claim,
        served: u64,
    }

    impl Player {
        fn new() -> Self {
            Self { claim: Claim::new(at(0)), served: 0 }
        }

        /// Asks every 10 ms and is served within 4: it has what it uses, 100 bytes a ms. Answers
        /// whether it was seen to catch up.
        fn plays(&mut self, from: u64, to: u64) -> bool {
            let mut caught_up = false;
            for start in (from..to).step_by(10) {
                caught_up |= self.claim.turned(at(start), false, self.served);
                self.served += BYTES;
                self.claim.turned(at(start + 4), true, self.served);
            }
            caught_up
        }

        /// Asks from then on without a pause, and is served so much until a look.
        fn hurries(&mut self, from: u64, to: u64, bytes: u64) -> Standing {
            self.claim.turned(at(from), false, self.served);
            self.served += bytes;
            self.claim.look(at(to), self.served)
        }

        /// Has all it wants from then on.
        fn rests(&mut self, from: u64) {
            self.claim.turned(at(from), true, self.served);
        }
    }

    #[test]
    fn a_lag_is_what_is_gone_of_the_buffer() {
        let mut player = Player::new();
        assert!(!player.plays(0, 300), "it was not behind");
        assert!(!player.claim.look(at(300), player.served).behind);
        let standing = player.hurries(300, 800, 20_000);
        let lag = Some(Duration::from_millis(300));
        assert_eq!(standing, Standing { behind: true, lag });
        let standing = player.hurries(800, 1_300, 70_000);
        assert_eq!(standing.lag, Some(Duration::from_millis(100)));
        player.rests(1_310);
        assert!(player.plays(1_400, 1_500), "now it pauses");
    }

    #[test]
    fn a_rate_is_not_known_at_once() {
        let mut player = Player::new();
        player.plays(0, 80);
        assert!(!player.claim.look(at(80), player.served).behind);
        let standing = player.hurries(80, 580, 0);
        assert_eq!(standing, Standing { behind: true, lag: None });
    }

    /// The service that a player got while it stood still was once taken for its rate; then its lag
    /// was found too small for a quarter of a minute, and bad rates were found good.
    #[test]
    fn a_time_with_misses_does_not_count_for_the_rate() {
        let mut player = Player::new();
        player.plays(0, 300);
        player.claim.look(at(300), player.served);
        // Half of its rate for 2 s.
        player.hurries(300, 2_300, 100_000);
        let interval = Duration::from_secs(1);
        player.claim.report(at(2_300), player.served, interval, (true, true)).unwrap();
        player.rests(2_310);
        player.plays(2_330, 2_500);
        player.claim.look(at(2_500), player.served);
        let lag = player.hurries(2_500, 3_000, 20_000).lag;
        assert_eq!(lag, Some(Duration::from_millis(300)), "at 100 bytes a ms");
    }

    /// A client left, and the next one's buffer was empty: the time between was taken for a pause.
    #[test]
    fn the_next_client_is_not_taken_for_the_one_that_left() {
        let mut player = Player::new();
        player.plays(0, 300);
        player.claim.look(at(300), player.served);
        player.hurries(300, 2_300, 100_000);
        player.rests(2_310);
        player.claim.left();
        // It fills its buffer at twice its rate.
        player.hurries(2_400, 3_400, 200_000);
        player.rests(3_410);
        player.plays(3_430, 3_500);
        player.claim.look(at(3_500), player.served);
        let lag = player.hurries(3_500, 4_000, 20_000).lag;
        assert_eq!(lag, Some(Duration::from_millis(300)), "at 100 bytes a ms");
    }

    #[test]
    fn a_rest_says_nothing_of_the_rate_however_often_it_is_looked_at() {
        let mut player = Player::new();
        player.plays(0, 300);
        for half in 1..10 {
            player.claim.look(at(half * 500), player.served);
        }
        player.plays(5_000, 5_300);
        player.claim.look(at(5_300), player.served);
        let lag = player.hurries(5_300, 5_800, 20_000).lag;
        assert_eq!(lag, Some(Duration::from_millis(300)));
    }

    const INTERVAL: Duration = Duration::from_secs(1);

    fn reports(claim: &mut Claim, at: Instant, served: u64) -> Result<(), Ignored> {
        claim.report(at, served, INTERVAL, (true, true))
    }

    #[test]
    fn a_report_counts_a_quarter_of_a_second_after_a_pause_and_once_in_an_interval() {
        let mut claim = Claim::new(at(0));
        claim.turned(at(1_000), false, 0);
        assert_eq!(reports(&mut claim, at(1_249), 0), Err(Ignored::NotBehind));
        assert_eq!(claim.report(at(1_249), 0, INTERVAL, (false, false)), Ok(()), "without proof");
        assert_eq!(reports(&mut claim, at(2_248), 0), Err(Ignored::TooSoon));
        let mut claim = Claim::new(at(0));
        claim.turned(at(1_000), false, 0);
        assert_eq!(reports(&mut claim, at(1_250), 0), Ok(()));
    }

    #[test]
    fn a_millisecond_without_a_request_is_a_pause() {
        let mut claim = Claim::new(at(0));
        claim.turned(at(1_000), false, 0);
        claim.turned(at(2_000), true, 0);
        let short = at(2_000) + Duration::from_micros(999);
        assert_eq!(reports(&mut claim.clone(), short, 0), Ok(()));
        assert_eq!(reports(&mut claim, at(2_001), 0), Err(Ignored::NotBehind));
    }

    #[test]
    fn a_stream_has_paused_if_it_did_for_a_fiftieth_of_the_time() {
        for (pause, behind) in [(9, true), (10, false)] {
            let mut claim = Claim::new(at(0));
            claim.turned(at(50), false, 0);
            claim.look(at(100), 0);
            claim.turned(at(200), true, 0);
            claim.turned(at(200 + pause), false, 0);
            assert_eq!(claim.look(at(600), 0).behind, behind, "{pause} of 500 ms");
        }
    }

    #[test]
    fn a_stream_that_asks_for_nothing_for_ten_seconds_is_gone() {
        let claim = Claim::new(at(0));
        assert!(!claim.is_gone(at(9_999)));
        assert!(claim.is_gone(at(10_000)));
    }

    /// A report at 2 s that brings a stream so many bytes within 10 s, without a pause.
    fn lent(bytes: u64) -> (Claim, bool) {
        let mut claim = Claim::new(at(0));
        claim.turned(at(0), false, 0);
        reports(&mut claim, at(2_000), 0).unwrap();
        let early = claim.overdue(at(11_999), bytes);
        assert!(claim.overdue(at(12_000), bytes));
        (claim, early)
    }

    #[test]
    fn a_stream_that_does_not_pause_within_ten_seconds_is_distrusted_for_two_minutes() {
        let (mut claim, early) = lent(0);
        assert!(!early, "it may pause yet");
        assert_eq!(reports(&mut claim, at(131_999), 0), Err(Ignored::Distrusted));
        assert_eq!(reports(&mut claim, at(132_000), 0), Ok(()));
    }

    /// It had nothing before: 64 KiB/s count, of which half is paid back until that is the gain and a quarter.
    #[test]
    fn a_gain_is_paid_back_with_interest_and_for_two_minutes_at_most() {
        const MIB: u64 = 1 << 20;
        let (mut claim, _) = lent(MIB);
        let mut waits = |more| claim.waits_until(at(12_000), MIB + more);
        assert_eq!(waits(32 << 10), Some(at(13_000)), "32 KiB/s are left");
        assert_eq!(waits(MIB << 10), Some(at(52_000)), "1.25 MiB at 32 KiB/s");
        let (mut claim, _) = lent(MIB << 10);
        assert_eq!(claim.waits_until(at(12_000), u64::MAX >> 8), Some(at(132_000)));
    }

    /// A player that reads ahead of its rate by a little has no need of more.
    #[test]
    fn a_stream_may_be_two_seconds_ahead_of_its_rate() {
        for (ahead, overdue) in [(2_000, false), (2_020, true)] {
            let mut player = Player::new();
            player.plays(0, 300);
            player.claim.turned(at(300), false, player.served);
            let (since, before) = player.claim.content.unwrap();
            reports(&mut player.claim, at(600), player.served).unwrap();
            let now = at(10_600);
            let used = now.since(since).as_nanos() / 1_000_000 + ahead;
            assert_eq!(player.claim.overdue(now, before + 100 * used), overdue, "{ahead} ms");
        }
    }

    #[test]
    fn a_pause_of_a_second_is_a_rest_and_a_shorter_one_is_playing() {
        for (pause, counts) in [(999, true), (1_000, false)] {
            let mut player = Player::new();
            player.plays(0, 300);
            let (before, _) = player.claim.used;
            player.claim.turned(at(294 + pause), false, player.served);
            assert_eq!(player.claim.used.0 > before, counts, "{pause} ms");
        }
    }

    #[test]
    fn a_rate_is_that_of_a_tenth_to_sixteen_seconds() {
        let mut player = Player::new();
        player.plays(0, 150);
        assert!(player.claim.played(at(150), player.served).is_some(), "120 ms are enough");
        player.plays(150, 15_900);
        assert!(player.claim.used.0 > 15_000_000_000);
        player.plays(15_900, 20_000);
        assert!(player.claim.used.0 <= 16_000_000_000, "old times count for less");
    }
}
