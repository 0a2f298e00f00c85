//! What soft real-time streams claim, and what speaks for it.
//!
//! A stream *pauses* when it has nothing asked for a moment: it has what it wants. One that never
//! pauses is behind, whether or not it says so.

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
}

impl Claim {
    pub(crate) fn new(now: Instant) -> Self {
        Self { reported: None, idle_since: Some(now), paused_at: now, paused: Duration::ZERO }
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

    /// Its pauses since the last look; another begins.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        if let Some(since) = self.idle_since.filter(|since| now.since(*since) >= PAUSE_MIN) {
            self.paused += now.since(since);
            (self.idle_since, self.paused_at) = (Some(now), now);
        }
        core::mem::take(&mut self.paused)
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
