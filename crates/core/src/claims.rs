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
    /// End of its last pause.
    paused_at: Instant,
    /// Pauses since the last look.
    paused: Duration,
    looked_at: Instant,
    /// When its last pause ended, and what it had been served by then: it had all that it wants.
    content: Option<(Instant, u64)>,
    /// Nanoseconds between such times, and the bytes that it was served in them: its rate.
    used: (u64, u64),
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
            used: (0, 0),
        }
    }

    /// Its first request arrived, or its last one is over; it has been served so many bytes in all.
    pub(crate) fn turned(&mut self, now: Instant, idle: bool, served: u64) {
        if idle {
            self.idle_since = Some(now);
        } else if let Some(since) = self.idle_since.take() {
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
        }
        let since = now.since(self.looked_at).as_nanos();
        let paused = core::mem::take(&mut self.paused).as_nanos();
        self.looked_at = now;
        let behind = paused.saturating_mul(PAUSE_PART) < since.max(1);
        if !behind {
            return Standing { behind, lag: Some(Duration::ZERO) };
        }
        let (span, bytes) = self.used;
        let known = self.content.filter(|_| bytes > 0);
        let lag = known.map(|(at, before)| {
            let since = u128::from(served.saturating_sub(before));
            let played = since * u128::from(span) / u128::from(bytes);
            let played = Duration::from_nanos(u64::try_from(played).unwrap_or(u64::MAX));
            now.since(at).saturating_sub(played)
        });
        Standing { behind, lag }
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
