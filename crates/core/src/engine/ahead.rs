//! How much work may be at the device at once, and how long one piece.
//!
//! Enough work for its best throughput: for a queue or an elevator to choose from. One piece at a time, a piece
//! is no longer than a part of the tightest latency bound, since it is in the way of whoever comes.

use crate::cost::Trust;
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::time::Duration;

/// Work for so long is enough for a disk's queue or an elevator to choose from.
const AHEAD: Duration = Duration::from_millis(200);
/// The part of the tightest latency bound that a piece may take: one in this many. The rest is for pieces that go
/// out before a request's turn comes, and for the request itself.
const PART: u64 = 4;

/// The latency bounds that the length of pieces follows from.
#[derive(Default)]
pub(super) struct Ahead {
    /// The bounds of all streams of best effort that have one, in ns.
    bounds: IndexedHeap,
}

impl Ahead {
    /// A stream of best effort has that bound, if any. Answers whether the longest piece is another by that.
    pub(super) fn follow(&mut self, id: StreamId, bound: Option<Duration>) -> bool {
        let before = self.bounds.peek().map(|(bound, _)| bound);
        self.bounds.put(id.0, bound.map(Duration::as_tokens));
        before != self.bounds.peek().map(|(bound, _)| bound)
    }

    /// The longest that a piece may take beside the streams with a bound, also those that do not want to run
    /// now: their next request may come at any time. Costs that don't compare say nothing of time: pieces are
    /// to be the smallest then.
    pub(super) fn longest_piece(&self, trust: Trust) -> Option<Duration> {
        let (bound, _) = self.bounds.peek()?;
        let part = if trust == Trust::None { 0 } else { bound.unsigned_abs() / PART };
        Some(Duration::from_nanos(part))
    }
}

/// Whether so much work at the device is enough, in ns, by learned costs. Experiments with stated costs fill the
/// device's queue; costs that don't compare say nothing of time.
pub(super) fn is_enough(sent: u128, trust: Trust) -> bool {
    trust == Trust::Learned && sent >= u128::from(AHEAD.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u128 = 1_000_000;

    #[test]
    fn work_for_a_while_is_enough_where_costs_are_learned() {
        assert!(!is_enough(199 * MS, Trust::Learned) && is_enough(200 * MS, Trust::Learned));
        assert!(![Trust::None, Trust::Stated].into_iter().any(|trust| is_enough(u128::MAX, trust)));
    }

    /// Beside a bound all requests once went out in pieces of 32 KiB, whatever the device did with those: where
    /// a piece takes as long whatever its length, a stream of 1 MiB requests had a thirtieth of its share.
    #[test]
    fn a_piece_may_take_a_part_of_the_tightest_bound_there_is() {
        let (ms, mut ahead) = (Duration::from_millis, Ahead::default());
        assert_eq!(ahead.longest_piece(Trust::Learned), None);
        assert!(ahead.follow(StreamId(1), Some(ms(40))), "the first bound");
        assert!(!ahead.follow(StreamId(2), Some(ms(80))), "a wider one");
        assert_eq!(ahead.longest_piece(Trust::Learned), Some(ms(10)));
        assert_eq!(ahead.longest_piece(Trust::None), Some(Duration::ZERO), "of unknown length");
        assert!(ahead.follow(StreamId(1), None), "it is no more");
        assert_eq!(ahead.longest_piece(Trust::Stated), Some(ms(20)));
    }
}
