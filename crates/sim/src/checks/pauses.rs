//! Pauses that a device plans, left out of time.

use disktime_core::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pauses {
    /// All but the latest one, in sum.
    before: Duration,
    latest: Option<(Instant, Instant)>,
}

impl Pauses {
    pub(super) fn note(&mut self, latest: Option<(Instant, Instant)>) {
        if latest != self.latest {
            let (begin, end) = self.latest.unwrap_or_default();
            self.before += end.since(begin);
            self.latest = latest;
        }
    }

    /// The time without the pauses until then. `now` is not before the end of the pause before the latest.
    pub(super) fn left_out(&self, now: Instant) -> Instant {
        let (begin, end) = self.latest.unwrap_or_default();
        now - (self.before + now.min(end).since(begin))
    }
}
