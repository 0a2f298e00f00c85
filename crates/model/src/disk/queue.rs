//! Which of the operations inside a disk goes next.
//!
//! A new order is a variant of [`Order`] and an arm of [`Order::pick`].
//!
//! Does not know: geometry or the arm. The disk tells it when each operation would begin.

use super::geometry::Extent;
use disktime_core::{Instant, Kind};

/// How a disk orders the operations inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// Shortest access time first: the least seek and rotation together.
    Satf {
        /// Access time forgiven per thousand of time waited, so that nothing starves: at 10, an
        /// operation that has waited 400 ms counts as 4 ms nearer than it is.
        aging_permille: u32,
    },
}

/// An operation that waits inside the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tag: u64,
    pub(crate) kind: Kind,
    /// Empty for a flush.
    pub(crate) extent: Extent,
    pub(crate) arrived: Instant,
}

impl Order {
    /// Index of the operation to serve next, of a queue in order of arrival; `begins` says when the
    /// disk would begin to move an operation's data. The earliest arrived wins a tie.
    pub(crate) fn pick(
        self,
        now: Instant,
        queue: &[Waiting],
        begins: impl Fn(&Waiting) -> Instant,
    ) -> Option<usize> {
        match self {
            Self::Fcfs => (!queue.is_empty()).then_some(0),
            Self::Satf { aging_permille } => {
                let key = |waiting: &Waiting| {
                    let access = i128::from(begins(waiting).since(now).as_nanos());
                    let waited = i128::from(now.since(waiting.arrived).as_nanos());
                    access * 1000 - waited * i128::from(aging_permille)
                };
                (0..queue.len()).min_by_key(|&index| key(&queue[index]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_core::Duration;

    /// An operation that arrived at so many ms and is so many ms away: its tag.
    fn waiting(arrived_ms: u64, away_ms: u64) -> Waiting {
        let arrived = Instant::ZERO + Duration::from_millis(arrived_ms);
        let extent = Extent { first: 0, end: 1 };
        Waiting { tag: away_ms, kind: Kind::Read, extent, arrived }
    }

    fn pick(order: Order, queue: &[Waiting]) -> Option<usize> {
        let now = Instant::ZERO + Duration::from_millis(500);
        order.pick(now, queue, |waiting| now + Duration::from_millis(waiting.tag))
    }

    #[test]
    fn fcfs_takes_the_first() {
        assert_eq!(pick(Order::Fcfs, &[]), None);
        assert_eq!(pick(Order::Fcfs, &[waiting(0, 9), waiting(1, 2)]), Some(0));
    }

    #[test]
    fn satf_takes_the_nearest_until_another_has_waited_long() {
        let satf = |aging_permille| Order::Satf { aging_permille };
        assert_eq!(pick(satf(0), &[]), None);
        let queue = [waiting(100, 9), waiting(500, 6), waiting(500, 6)];
        assert_eq!(pick(satf(0), &queue), Some(1));
        // 400 ms of waiting are worth 2 ms, then 4 ms of the 3 ms that it is farther away.
        assert_eq!(pick(satf(5), &queue), Some(1));
        assert_eq!(pick(satf(10), &queue), Some(0));
    }
}
