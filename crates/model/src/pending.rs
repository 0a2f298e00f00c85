//! Operations whose completion times are known, until they are handed back.

use crate::device::Completion;
use disktime_core::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue by completion time; of equal times the earlier submitted comes first.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Time, sequence number, tag.
    heap: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    pushed: u64,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn push(&mut self, at: Instant, tag: u64) {
        self.heap.push(Reverse((at, self.pushed, tag)));
        self.pushed += 1;
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _, _))| at)
    }

    /// Hands back everything up to and including `now`.
    pub(crate) fn drain(&mut self, now: Instant, done: &mut Vec<Completion>) {
        while self.next().is_some_and(|at| at <= now) {
            if let Some(Reverse((at, _, tag))) = self.heap.pop() {
                done.push(Completion::new(tag, at));
            }
        }
    }
}
