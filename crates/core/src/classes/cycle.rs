//! Time cycles: what a guaranteed-rate stream may use in each, and whether each was kept.

use crate::types::time::{Duration, Instant};

/// A stream's current cycle. Cycles begin at the multiples of their length, so that streams of one
/// length share their deadlines and are served in one sweep (ucsb §III-B).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cycle {
    pub(crate) period: Duration,
    /// Bytes that each cycle guarantees.
    grant: u64,
    /// Bytes for which it keeps the device once it is there.
    pub(crate) turn: u64,
    /// Disk time that each cycle may use ahead of others.
    allowance: i64,
    pub(crate) ends: Instant,
    /// Below zero when the last piece was larger: the next cycle has that much less.
    bytes_left: i64,
    time_left: i64,
    /// The most that it can owe: what it grants, less what the last one sent too much.
    waited_max: u64,
    /// Bytes that were waiting when it began, up to that.
    waited: u64,
    /// Bytes completed in it.
    done: u64,
    /// A degraded device can't keep it: it has no rank for now.
    pub(crate) cut: bool,
}

/// How a cycle ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) waited: u64,
    pub(crate) done: u64,
}

impl Ended {
    pub(crate) fn missed(self) -> bool {
        self.done < self.waited
    }
}

impl Cycle {
    /// `allowance` of `None`: as much time as its bytes take.
    pub(crate) fn new(
        period: Duration,
        grant: u64,
        allowance: Option<Duration>,
        now: Instant,
    ) -> Self {
        let allowance = allowance.map_or(i64::MAX, Duration::as_tokens);
        let (bytes_left, time_left) = (tokens(grant), allowance);
        let (ends, waited_max) = (Self::end_of(period, now), grant);
        let left = Self { bytes_left, time_left, waited_max, ..Self::default() };
        Self { period, grant, allowance, ends, ..left }
    }

    /// Whether it has that length and grants that much.
    pub(crate) fn is_of(&self, period: Duration, grant: u64) -> bool {
        (self.period, self.grant) == (period, grant)
    }

    /// Other streams came or went: what it may use has changed.
    pub(crate) fn set_allowance(&mut self, allowance: Option<Duration>) {
        let allowance = allowance.map_or(i64::MAX, Duration::as_tokens);
        let used = self.allowance.saturating_sub(self.time_left);
        self.allowance = allowance;
        self.time_left = allowance.saturating_sub(used);
    }

    fn end_of(period: Duration, now: Instant) -> Instant {
        let period = period.as_nanos().max(1);
        let ended = now.as_nanos() / period;
        Instant::from_nanos((ended + 1).saturating_mul(period))
    }

    /// Its next piece goes in its class's turn.
    pub(crate) fn open(&self) -> bool {
        !self.cut && self.bytes_left > 0 && self.time_left > 0
    }

    /// A new one begins with that much waiting; answers how the last one ended.
    pub(crate) fn begin(&mut self, waiting: u64, now: Instant) -> Ended {
        let ended = Ended { waited: self.waited, done: self.done };
        self.ends = Self::end_of(self.period, now);
        self.bytes_left = tokens(self.grant).saturating_add(self.bytes_left.min(0));
        self.time_left = self.allowance;
        self.waited_max = u64::try_from(self.bytes_left).unwrap_or(0);
        self.waited = waiting.min(self.waited_max);
        self.done = 0;
        ended
    }

    /// Bytes arrive: at the instant at which it begins, they are there at its beginning.
    pub(crate) fn arrived(&mut self, bytes: u64, now: Instant) {
        if now + self.period == self.ends {
            self.waited = self.waited.saturating_add(bytes).min(self.waited_max);
        }
    }

    pub(crate) fn sent(&mut self, bytes: u64) {
        self.bytes_left = self.bytes_left.saturating_sub(tokens(bytes));
    }

    /// A piece is done. One that went out before this cycle began is none of its.
    pub(crate) fn completed(&mut self, bytes: u64, dispatched_at: Instant) {
        if dispatched_at + self.period >= self.ends {
            self.done = self.done.saturating_add(bytes);
        }
    }

    /// Disk time was used, or given back.
    pub(crate) fn used(&mut self, tokens: i64) {
        if self.allowance < i64::MAX {
            self.time_left = self.time_left.saturating_sub(tokens);
        }
    }
}

fn tokens(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// 1,000 bytes and 100 ms a second.
    fn cycle() -> Cycle {
        Cycle::new(SECOND, 1_000, Some(Duration::from_millis(100)), at(0))
    }

    #[test]
    fn a_cycle_is_open_while_it_has_bytes_and_time_and_its_rank() {
        let mut bytes = cycle();
        bytes.sent(999);
        assert!(bytes.open());
        bytes.sent(1);
        assert!(!bytes.open(), "all bytes are sent");
        let mut time = cycle();
        time.used(100_000_000);
        assert!(!time.open(), "all of its time is used");
        time.used(-1);
        assert!(time.open(), "some was given back");
        let mut cut = cycle();
        cut.cut = true;
        assert!(!cut.open(), "it has no rank");
    }

    /// Else a stream would have all of its time again whenever another stream comes or goes.
    #[test]
    fn a_new_allowance_counts_what_was_used() {
        let mut cycle = cycle();
        cycle.used(60_000_000);
        cycle.set_allowance(Some(Duration::from_millis(60)));
        assert!(!cycle.open());
        cycle.set_allowance(Some(Duration::from_millis(61)));
        assert!(cycle.open());
    }

    #[test]
    fn a_piece_beyond_the_grant_is_taken_off_the_next_cycle() {
        let mut cycle = cycle();
        cycle.sent(1_700);
        let _ended = cycle.begin(5_000, at(1_000));
        cycle.sent(299);
        assert!(cycle.open());
        cycle.sent(1);
        assert!(!cycle.open(), "700 bytes of it are gone");
        assert_eq!(cycle.begin(0, at(2_000)).waited, 300, "nor is more promised");
    }

    #[test]
    fn a_cycle_counts_what_waited_and_what_went_out_in_it() {
        let mut cycle = cycle();
        let _ended = cycle.begin(400, at(1_000));
        cycle.arrived(300, at(1_000));
        cycle.arrived(300, at(1_001));
        cycle.completed(500, at(999));
        cycle.completed(600, at(1_002));
        let ended = cycle.begin(9_000, at(2_000));
        assert_eq!(ended, Ended { waited: 700, done: 600 });
        assert!(ended.missed());
        assert_eq!(cycle.begin(0, at(3_000)), Ended { waited: 1_000, done: 0 }, "a grant at most");
    }
}
