//! The operations inside a device that knows each one's completion time when it comes: they are checked
//! on their way in, and handed back in order of time.

use crate::device::{Completion, Op};
use disktime_core::{Instant, Kind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Operations by completion time; of equal times the earlier submitted comes first.
#[derive(Debug)]
pub(crate) struct Pending {
    capacity_bytes: u64,
    queue_depth: u32,
    /// Time, sequence number, tag.
    heap: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    pushed: u64,
    /// The latest time seen from the caller.
    now: Instant,
}

impl Pending {
    /// Nothing inside a device that holds so many bytes and so many operations.
    ///
    /// # Panics
    /// If it holds nothing.
    pub(crate) fn new(capacity_bytes: u64, queue_depth: u32) -> Self {
        assert!(queue_depth > 0, "a device without a queue");
        assert!(capacity_bytes > 0, "a device without capacity");
        Self { capacity_bytes, queue_depth, heap: BinaryHeap::new(), pushed: 0, now: Instant::ZERO }
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes / 512 * 512
    }

    pub(crate) fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    /// The latest time seen from the caller.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Checks an operation that comes at `now`.
    ///
    /// # Panics
    /// As [`Device::submit`](crate::Device::submit).
    pub(crate) fn enter(&mut self, now: Instant, op: &Op) {
        self.pass(now);
        assert!(self.heap.len() < self.queue_depth as usize, "{op:?} above the queue depth");
        if op.kind != Kind::Flush {
            assert!(op.bytes > 0, "{op:?} is empty");
            let end = op.offset.checked_add(op.bytes);
            assert!(end.is_some_and(|end| end <= self.capacity_bytes), "{op:?} is past the end");
        }
    }

    /// The operation of that tag, which has entered, is done at `at`.
    pub(crate) fn push(&mut self, at: Instant, tag: u64) {
        self.heap.push(Reverse((at, self.pushed, tag)));
        self.pushed += 1;
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _, _))| at)
    }

    /// Hands back everything up to and including `now`.
    ///
    /// # Panics
    /// As [`Device::advance`](crate::Device::advance).
    pub(crate) fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.pass(now);
        while self.next().is_some_and(|at| at <= now) {
            if let Some(Reverse((at, _, tag))) = self.heap.pop() {
                done.push(Completion::new(tag, at));
            }
        }
    }

    fn pass(&mut self, now: Instant) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }
}
