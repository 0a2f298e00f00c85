//! A channel or a direction of the link: it moves one operation's bytes at a time.
//!
//! Data that is ready goes as soon as the lane is free, in packets, also in front of and between what
//! came before but waits for its die. Where several are ready at once, the first that came goes first.
//!
//! Does not know: whose bytes they are.

use disktime_core::{Duration, Instant};
use std::collections::VecDeque;

/// When a lane is busy: spans from their begin to their end, in order of time, that don't overlap.
#[derive(Debug, Default)]
pub(super) struct Lane {
    busy: VecDeque<(Instant, Instant)>,
}

impl Lane {
    /// Moves something that takes so long on an idle lane and is ready at `from`, not before `now`:
    /// when all of it has passed.
    pub(super) fn take(&mut self, now: Instant, from: Instant, time: Duration) -> Instant {
        while self.busy.pop_front_if(|(_, end)| *end < now).is_some() {}
        let first = self.busy.partition_point(|(_, end)| *end < from);
        let (mut begin, mut end, mut left) = (from, from, time);
        let mut last = first;
        // All gaps from `from` on are filled, so that one span is left of those that were passed.
        while let Some(&(busy_from, busy_until)) = self.busy.get(last) {
            let gap = busy_from.since(end);
            if gap >= left {
                break;
            }
            begin = begin.min(busy_from);
            left = left.saturating_sub(gap);
            end = end.max(busy_until);
            last += 1;
        }
        end = end + left;
        self.busy.drain(first..last);
        self.busy.insert(first, (begin, end));
        end
    }
}
