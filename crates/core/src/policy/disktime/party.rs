//! Whether those who mix lose by it: what each of them does, by what its share would give it alone.
//!
//! Pieces of several streams at the device at once may be a gain for all (a stream that asks for one
//! page at a time leaves most of a flash device idle), no matter, or a great loss (a sequential
//! stream among random ones, reads behind a backlog of writes). Which it is shows when they do: over
//! some windows each stream that wanted all it could get should have done as much as its share of
//! that time is by its learned price.

use crate::time::Duration;

/// After so many windows a stream that has done less than so many 64ths of its due does not belong to
/// those who mix; after the last it is clear that the others do.
const BARS: [(u32, i128); 3] = [(4, 48), (16, 58), (64, 62)];
/// Prices must have changed if together they do so many 64ths more or less than before.
const CHANGE: i128 = 8;

/// Windows of those who mix, since the last one came or went.
#[derive(Default)]
pub(super) struct Party {
    busy: i128,
    windows: u32,
    /// What all did when this was judged last, in 64ths of their due.
    before: Option<i128>,
    /// Counts companies.
    pub(super) epoch: u32,
}

impl Party {
    /// Somebody came or went.
    pub(super) fn begin(&mut self) {
        (self.busy, self.windows) = (0, 0);
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// It is another company, not the same once more.
    pub(super) fn change(&mut self) {
        self.before = None;
        self.begin();
    }

    /// A window is over. Answers what a stream must have done, in 64ths of its due, if it is time to
    /// judge.
    pub(super) fn window(&mut self, busy: Duration) -> Option<i128> {
        self.busy += i128::from(busy.as_nanos());
        self.windows += 1;
        BARS.iter().find(|(windows, _)| *windows == self.windows).map(|(_, bar)| *bar)
    }

    /// What that much by its price is of a part of the time, in 64ths.
    pub(super) fn of_due(&self, reckoned: i128, share: i64, shares: i64) -> i128 {
        let due = self.busy * i128::from(share) / i128::from(shares.max(1));
        reckoned * 64 / due.max(1)
    }

    /// Whether a stream that was idle for so long wanted all it could get: seven eighths of the time.
    pub(super) fn wanted(&self, idle: i64) -> bool {
        i128::from(idle) * 8 < self.busy
    }

    /// The last bar is passed, with that much done together: whether some price must have changed.
    /// Begins anew.
    pub(super) fn passes(&mut self, reckoned: i128) -> Option<bool> {
        if self.windows < BARS[2].0 {
            return None;
        }
        let now = self.of_due(reckoned, 1, 1);
        self.begin();
        let before = self.before.replace(now)?;
        Some((now - before).abs() > CHANGE.max(before / 8))
    }
}
