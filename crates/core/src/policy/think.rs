//! Means in which older values fade, and think times by them.

use crate::types::time::Duration;

/// A mean over the last `LAST` values or so; the first ones count alike.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Mean<const LAST: i64> {
    pub(crate) value: i64,
    pub(crate) count: i64,
}

impl<const LAST: i64> Mean<LAST> {
    pub(crate) fn add(&mut self, value: i64) {
        self.count = (self.count + 1).min(LAST);
        self.value += (value - self.value) / self.count;
    }

    /// Whether it is of as many values as it remembers.
    pub(crate) fn is_full(self) -> bool {
        self.count == LAST
    }
}

/// From a completion that leaves a stream without work to its next request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Think(Mean<32>);

impl Think {
    /// Until it was seen.
    const UNSEEN: i64 = 1_000_000;

    /// A long absence says no more than that.
    pub(crate) const LONG: Duration = Duration::from_millis(100);

    pub(crate) fn add(&mut self, think: Duration) {
        self.0.add(think.min(Self::LONG).as_tokens());
    }

    pub(crate) fn mean(self) -> i64 {
        self.0.value
    }

    /// How long the device may wait for the next request before another stream has it, which costs that much.
    pub(crate) fn timeout(self, cost: i64) -> Option<i64> {
        let think = if self.0.count == 0 { Self::UNSEEN } else { self.0.value };
        (think < cost).then_some(cost)
    }
}
