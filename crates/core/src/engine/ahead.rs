//! How much work may be at the device at once.
//!
//! Enough for its best throughput: what a queue or an elevator can choose from. Not so much that a
//! latency bound can't be kept: what is there already is in the way of whoever comes.
//!
//! Does not know: in which order a device does what it has; hence only a part of a bound.

use crate::classes::stream_table::StreamTable;
use crate::cost::Trust;
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::time::{Duration, Instant};

/// Work for so long is enough for a disk's queue or an elevator to choose from.
const AHEAD: Duration = Duration::from_millis(200);
/// The part of the tightest latency bound, among the streams that want to run, for which work may be
/// at the device: one in this many. The rest is for pieces that go out before a request's turn comes,
/// for the request itself, and for a device that lets other requests go first.
const PART: u64 = 4;
/// A stream that had work within this time wants to run: its next request must not find the device full.
const WANTS: Duration = Duration::from_secs(1);

/// The in-flight limit, and the latency bounds that it follows from.
#[derive(Default)]
pub(super) struct Ahead {
    /// Streams with a latency bound that want to run, by their bound in ns,
    bounds: IndexedHeap,
    /// and by when to look whether they still do.
    looks: IndexedHeap,
    /// The bounds of all streams of best effort that have one, in ns.
    contracts: IndexedHeap,
}

impl Ahead {
    /// A stream with a bound has work.
    pub(super) fn asked(&mut self, now: Instant, id: StreamId, bound: Duration) {
        self.bounds.set(id.0, bound.as_tokens());
        self.looks.set(id.0, (now + WANTS).as_nanos().cast_signed());
    }

    /// A stream of best effort has that bound, if any. Answers whether the longest piece is another by that.
    pub(super) fn follow(&mut self, id: StreamId, bound: Option<Duration>) -> bool {
        let before = self.contracts.peek().map(|(bound, _)| bound);
        match bound {
            Some(bound) => self.contracts.set(id.0, bound.as_tokens()),
            None => self.contracts.remove(id.0),
        }
        before != self.contracts.peek().map(|(bound, _)| bound)
    }

    /// It does not want to run.
    pub(super) fn forget(&mut self, id: StreamId) {
        self.bounds.remove(id.0);
        self.looks.remove(id.0);
    }

    /// Time has passed: who had no work for long does not count.
    pub(super) fn passed(&mut self, now: Instant, streams: &StreamTable) {
        let nanos = |at: Instant| at.as_nanos().cast_signed();
        let (due, next) = (nanos(now), nanos(now + WANTS));
        while let Some((_, id)) = self.looks.peek().filter(|(at, _)| *at <= due) {
            let stream = streams.get(StreamId(id));
            if stream.is_some_and(|stream| stream.live > 0) && next > due {
                self.looks.set(id, next);
            } else {
                self.forget(StreamId(id));
            }
        }
    }

    /// The longest that a piece may take beside the streams with a bound, also those that do not want to run
    /// now: their next request may come at any time. Costs that don't compare say nothing of time: pieces are
    /// to be the smallest then.
    pub(super) fn longest_piece(&self, trust: Trust) -> Option<Duration> {
        let (bound, _) = self.contracts.peek()?;
        let part = if trust == Trust::None { 0 } else { bound.unsigned_abs() / PART };
        Some(Duration::from_nanos(part))
    }

    /// Whether that much is enough, in ns. Costs that don't compare say nothing of time.
    pub(super) fn is_enough(&self, sent: u128, trust: Trust) -> bool {
        let bound = self.bounds.peek().map(|(bound, _)| u128::from(bound.unsigned_abs() / PART));
        let learned = (trust == Trust::Learned).then_some(u128::from(AHEAD.as_nanos()));
        let most = bound.filter(|_| trust != Trust::None).into_iter().chain(learned).min();
        most.is_some_and(|most| sent >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::stream::Stream;
    use crate::types::contract::StreamSpec;

    const MS: u128 = 1_000_000;

    #[test]
    fn the_tightest_bound_of_those_who_want_to_run_counts() {
        let mut ahead = Ahead::default();
        assert!(
            !ahead.is_enough(199 * MS, Trust::Learned) && ahead.is_enough(200 * MS, Trust::Learned)
        );
        let second = |count| Instant::ZERO + Duration::from_secs(count);
        ahead.asked(second(0), StreamId(1), Duration::from_millis(40));
        ahead.asked(second(0), StreamId(2), Duration::from_secs(4));
        assert!(
            !ahead.is_enough(9 * MS, Trust::Learned) && ahead.is_enough(10 * MS, Trust::Learned)
        );
        ahead.forget(StreamId(1));
        assert!(
            !ahead.is_enough(199 * MS, Trust::Learned) && ahead.is_enough(200 * MS, Trust::Learned)
        );
        ahead.asked(second(0), StreamId(1), Duration::from_millis(40));
        ahead.passed(second(1), &StreamTable::default());
        assert!(
            !ahead.is_enough(199 * MS, Trust::Learned),
            "who is gone for a second does not want to run"
        );
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

    #[test]
    fn only_costs_that_compare_count() {
        for (trust, enough) in [(Trust::None, false), (Trust::Stated, true), (Trust::Learned, true)]
        {
            let mut ahead = Ahead::default();
            assert_eq!(ahead.is_enough(u128::MAX, trust), trust == Trust::Learned);
            ahead.asked(Instant::ZERO, StreamId(0), Duration::from_millis(40));
            assert_eq!(ahead.is_enough(10 * MS, trust), enough);
        }
    }

    #[test]
    fn a_stream_wants_to_run_while_it_has_work_and_for_a_second_after() {
        let (bound, ms) = (Duration::from_millis(40), Duration::from_millis);
        let mut streams = StreamTable::default();
        streams.insert(Stream::new(StreamId(1), StreamSpec::default(), ms(1_000), Instant::ZERO));
        let mut ahead = Ahead::default();
        ahead.asked(Instant::ZERO, StreamId(1), bound);
        let mut counts = |streams: &StreamTable, after| {
            ahead.passed(Instant::ZERO + ms(after), streams);
            ahead.is_enough(10 * MS, Trust::Learned)
        };
        assert!(counts(&streams, 999), "it had work");
        streams[StreamId(1)].live = 1;
        assert!(counts(&streams, 1_000), "it has");
        streams[StreamId(1)].live = 0;
        assert!(!counts(&streams, 2_000));
    }
}
