//! What soft real-time streams claim, and what speaks for it.
//!
//! A stream *pauses* when it has nothing asked for a moment: it has what it wants. One that never
//! pauses is behind, whether or not it says so.

use crate::feedback::Standing;
use crate::time::{Duration, Instant};

/// A shorter time without a request is the client's turn-around, not a pause.
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// Who reports has been behind for this long.
const BEHIND_MIN: Duration = Duration::from_millis(250);

/// Why a report did not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// The stream is not soft real-time.
    OtherClass,
    /// One of the stream's reports has counted a moment ago.
    TooSoon,
    /// The stream has paused just now: it had all that it asked for.
    NotBehind,
    /// What earlier reports brought was never enough: it is being paid back.
    Distrusted,
}

/// Who has paused for less than this part of the time is behind: one in so many.
const PAUSE_PART: u64 = 50;
/// A rate is learned from what was served between two pauses that are so far apart.
const LEARN_MIN: Duration = Duration::from_millis(400);
const SECOND: u64 = 1_000_000_000;

/// One stream's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// When its last report counted.
    reported: Option<Instant>,
    /// Since when it has asked for nothing.
    idle_since: Option<Instant>,
    /// End of its last pause.
    paused_at: Instant,
    /// Pauses since the last look.
    paused: Duration,
    looked_at: Instant,
    /// When it was last seen to have all that it wants, and what it had been served by then.
    content: Option<(Instant, u64)>,
    /// Bytes per second that it wants: what it was served between such times.
    demand: Option<u64>,
}

impl Claim {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            reported: None,
            idle_since: Some(now),
            paused_at: now,
            paused: Duration::ZERO,
            looked_at: now,
            content: None,
            demand: None,
        }
    }

    /// Its first request arrived, or its last one is over.
    pub(crate) fn turned(&mut self, now: Instant, idle: bool) {
        if idle {
            self.idle_since = Some(now);
        } else if let Some(since) = self.idle_since.take() {
            let pause = now.since(since);
            if pause >= PAUSE_MIN {
                self.paused += pause;
                self.paused_at = now;
            }
        }
    }

    /// How it does since the last look; it has been served so many bytes in all.
    pub(crate) fn look(&mut self, now: Instant, served: u64) -> Standing {
        if let Some(since) = self.idle_since.filter(|since| now.since(*since) >= PAUSE_MIN) {
            self.paused += now.since(since);
            (self.idle_since, self.paused_at) = (Some(now), now);
        }
        let since = now.since(self.looked_at).as_nanos();
        let paused = core::mem::take(&mut self.paused).as_nanos();
        self.looked_at = now;
        let behind = paused.saturating_mul(PAUSE_PART) < since.max(1);
        if !behind {
            self.learn(now, served);
            return Standing { behind, lag: Some(Duration::ZERO) };
        }
        let lag = self.content.zip(self.demand).map(|((at, before), demand)| {
            let played = u128::from(served - before) * u128::from(SECOND) / u128::from(demand);
            let played = Duration::from_nanos(u64::try_from(played).unwrap_or(u64::MAX));
            now.since(at).saturating_sub(played)
        });
        Standing { behind, lag }
    }

    /// It has all that it wants, as it had before: so what it was served since is what it used.
    fn learn(&mut self, now: Instant, served: u64) {
        let Some((at, before)) = self.content else {
            self.content = Some((now, served));
            return;
        };
        let span = now.since(at);
        if span < LEARN_MIN {
            return;
        }
        let rate = u128::from(served - before) * u128::from(SECOND) / u128::from(span.as_nanos());
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let demand = self.demand.map_or(rate, |demand| demand - demand / 4 + rate / 4);
        self.demand = Some(demand).filter(|demand| *demand > 0);
        self.content = Some((now, served));
    }

    /// Whether a report made now counts.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        interval: Duration,
        proof: bool,
    ) -> Result<(), Ignored> {
        if self.reported.is_some_and(|at| now.since(at) < interval) {
            return Err(Ignored::TooSoon);
        }
        if proof && (self.idle_since.is_some() || now.since(self.paused_at) < BEHIND_MIN) {
            return Err(Ignored::NotBehind);
        }
        self.reported = Some(now);
        Ok(())
    }
}
