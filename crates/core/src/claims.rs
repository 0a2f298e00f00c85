//! What soft real-time streams claim, and what speaks for it.
//!
//! A stream *pauses* when it has nothing asked for a moment: it has what it wants. One that never
//! pauses is behind, whether or not it says so.

use crate::feedback::Standing;
use crate::time::{Duration, Instant};

/// A shorter time without a request is the client's turn-around, not a pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Who reports has been behind for this long.
const BEHIND_MIN: Duration = Duration::from_millis(250);

/// Who reports has to pause within this time: what it asks for is then bounded, and was granted.
const PATIENCE: Duration = Duration::from_secs(10);
/// By how much a stream may be ahead of the rate that it is known for.
const SLACK: Duration = Duration::from_secs(2);
/// Who has not: none of its reports count for this long, twice as long each time, up to a bound.
const DISTRUST: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(3_600)];
/// What its reports brought it is paid back at this part of what it had without them, and a quarter
/// more: that is not known to the byte.
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
    /// What earlier reports brought was never enough: it has to be paid back, and more.
    Distrusted,
}

/// Who has paused for less than this part of the time is behind: one in so many.
const PAUSE_PART: u64 = 50;
/// A longer pause says nothing of a stream's rate: it rests.
const REST_MIN: Duration = Duration::from_secs(1);
/// A rate is what was served in about this time.
const LEARN: Duration = Duration::from_secs(16);
const SECOND: u64 = 1_000_000_000;

/// One stream's.
#[derive(Clone, Copy, Debug)]
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
    /// When its last pause ended, and what it had been served by then: it had all that it wants.
    content: Option<(Instant, u64)>,
    /// Nanoseconds between such times, and the bytes that it was served in them: its rate.
    used: (u64, u64),
    /// What is on loan to it since a report that counted, until it pauses.
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

/// What is paid back: less than it had before its reports, for a time.
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
            reported: None,
            idle_since: Some(now),
            asked_at: now,
            paused_at: now,
            paused: Duration::ZERO,
            looked_at: now,
            content: None,
            used: (0, 0),
            loan: None,
            debt: None,
            distrusted_until: Instant::ZERO,
            distrust: DISTRUST[0],
        }
    }

    /// Its first request arrived, or its last one is over; it has been served so many bytes in all.
    pub(crate) fn turned(&mut self, now: Instant, idle: bool, served: u64) {
        if idle {
            self.idle_since = Some(now);
        } else if let Some(since) = self.idle_since.take() {
            self.asked_at = now;
            let pause = now.since(since);
            if pause >= PAUSE_MIN {
                self.paused += pause;
                self.learn(now, pause, served);
            }
        }
    }

    /// It has all that it wants, as it had before: what it was served since is what it used.
    fn learn(&mut self, now: Instant, pause: Duration, served: u64) {
        self.paused_at = now;
        let before = self.content.replace((now, served));
        let Some((at, before)) = before.filter(|_| pause < REST_MIN) else { return };
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
            self.paused += now.since(since);
            self.learn(now, now.since(since), served);
            self.idle_since = Some(now);
        } else if self.idle_since.is_none() {
            self.asked_at = now;
        }
        let since = now.since(self.looked_at).as_nanos();
        let paused = core::mem::take(&mut self.paused).as_nanos();
        self.looked_at = now;
        let behind = paused.saturating_mul(PAUSE_PART) < since.max(1);
        if !behind {
            self.loan = None;
            return Standing { behind, lag: Some(Duration::ZERO) };
        }
        let lag = self.played(now, served).map(|(since, played)| since.saturating_sub(played));
        Standing { behind, lag }
    }

    /// The time since it had enough, and how long what it was served since lasts at its rate; `None`
    /// while that is not known.
    fn played(&self, now: Instant, served: u64) -> Option<(Duration, Duration)> {
        let (span, bytes) = self.used;
        let (at, before) = self.content.filter(|_| bytes > 0)?;
        let since = u128::from(served.saturating_sub(before));
        let played = since * u128::from(span) / u128::from(bytes);
        Some((now.since(at), Duration::from_nanos(u64::try_from(played).unwrap_or(u64::MAX))))
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
        if self.reported.is_some_and(|at| now.since(at) < interval) {
            return Err(Ignored::TooSoon);
        }
        let pauses = self.idle_since.is_some_and(|since| now.since(since) >= PAUSE_MIN);
        if proof && (pauses || now.since(self.paused_at) < BEHIND_MIN) {
            return Err(Ignored::NotBehind);
        }
        self.reported = Some(now);
        if lends && self.loan.is_none() {
            let (at, before) = self.content.unwrap_or((self.paused_at, served));
            let before = per_second(served.saturating_sub(before), now.since(at));
            self.loan = Some(Loan { since: now, served, before });
        }
        Ok(())
    }

    /// Whether it has never had enough since its report, nor kept to the rate that it is known for:
    /// then what that brought it becomes a debt.
    pub(crate) fn overdue(&mut self, now: Instant, served: u64) -> bool {
        let Some(loan) = self.loan.filter(|loan| now.since(loan.since) >= PATIENCE) else {
            return false;
        };
        let as_known = |(since, played)| played <= since + SLACK;
        if self.played(now, served).is_some_and(as_known) {
            return false;
        }
        let span = now.since(loan.since);
        let had = served.saturating_sub(loan.served);
        let due = u128::from(loan.before) * u128::from(span.as_nanos()) / u128::from(SECOND);
        let gained = had.saturating_sub(u64::try_from(due).unwrap_or(u64::MAX));
        let before = loan.before.max(PAYS_RATE_MIN);
        let owed = gained.saturating_add(gained / INTEREST);
        let back = u128::from(owed) * u128::from(SECOND) / u128::from(before / PAID_BACK);
        let back = Duration::from_nanos(u64::try_from(back).unwrap_or(u64::MAX)).min(PAYS_MAX);
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

fn per_second(bytes: u64, span: Duration) -> u64 {
    let rate = u128::from(bytes) * u128::from(SECOND) / u128::from(span.as_nanos().max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
