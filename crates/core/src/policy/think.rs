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

#[cfg(test)]
mod tests {
    use super::*;

    fn thinks(times: &[(u32, u64)]) -> Think {
        let mut think = Think::default();
        for (count, millis) in times {
            (0..*count).for_each(|_| think.add(Duration::from_millis(*millis)));
        }
        think
    }

    /// A client that pauses once does not lose its slices, and one that has become slow does.
    #[test]
    fn a_think_time_is_a_mean_over_some_thirty_requests() {
        let mean = thinks(&[(100, 0), (32, 10)]).mean();
        assert!((5_500_000..=7_000_000).contains(&mean), "{mean}");
    }

    /// A client that comes back in the morning is reckoned with as one that was away for a tenth of a second.
    #[test]
    fn a_night_of_absence_raises_a_think_time_by_a_few_milliseconds() {
        let mean = thinks(&[(32, 1), (1, 36_000_000)]).mean();
        assert!((3_000_000..=6_000_000).contains(&mean), "{mean}");
    }

    /// The device waits for a stream that nothing is known of if a switch to another one costs more than a
    /// millisecond: on a disk it does, on flash it does not.
    #[test]
    fn an_unknown_stream_is_waited_for_on_a_disk_and_not_on_flash() {
        let think = Think::default();
        assert_eq!(think.timeout(800_000), None);
        assert_eq!(think.timeout(1_500_000), Some(1_500_000));
    }
}
