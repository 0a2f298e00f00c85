//! Earliest deadline first (Liu & Layland 1973), among the next pieces of the ready streams.
//!
//! Heads without a deadline come last, and among equal deadlines the older request goes first.
//!
//! Guarantees: nothing by itself. On a processor that can be preempted at any time every deadline
//! is met as long as the work fits at all; a piece at the device can't be called back, so each
//! deadline may also wait for as many pieces as the device holds. Says nothing about seeks, and in
//! overload whoever is latest goes first and makes the others late too.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::view::{StreamView, Streams};
use super::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use crate::classes::lane::Head;
use crate::types::ids::StreamId;
use crate::types::request::Request;
use crate::types::time::Instant;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "edf",
    doc: "earliest deadline first; without a deadline last, in the order of arrival",
    source: "Liu and Layland 1973, in the survey of quality of service for storage",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Ranked::by(|_, head| (deadline_of(head), head.sequence))),
};

/// No deadline is later than every deadline.
pub(super) fn deadline_of(head: &Head) -> Instant {
    head.deadline.unwrap_or(Instant::MAX)
}

/// Streams in the order of a key that may change, ties by id; each operation is O(log n).
pub(super) struct Order<K> {
    streams: BTreeSet<(K, StreamId)>,
    /// The key of each stream that is in.
    keys: Vec<Option<K>>,
}

impl<K: Copy + Ord> Order<K> {
    pub(super) const fn new() -> Self {
        Self { streams: BTreeSet::new(), keys: Vec::new() }
    }

    /// Puts a stream in under that key, moves it there, or takes it out.
    pub(super) fn set(&mut self, stream: StreamId, key: Option<K>) {
        let slot = stream.0 as usize;
        if slot >= self.keys.len() {
            self.keys.resize(slot + 1, None);
        }
        let old = core::mem::replace(&mut self.keys[slot], key);
        if old == key {
            return;
        }
        if let Some(old) = old {
            self.streams.remove(&(old, stream));
        }
        if let Some(key) = key {
            self.streams.insert((key, stream));
        }
    }

    pub(super) fn first(&self) -> Option<(K, StreamId)> {
        self.streams.first().copied()
    }

    /// The first whose key is at least that.
    pub(super) fn first_from(&self, key: K) -> Option<(K, StreamId)> {
        self.streams.range((key, StreamId(0))..).next().copied()
    }

    pub(super) fn contains(&self, stream: StreamId) -> bool {
        self.keys.get(stream.0 as usize).is_some_and(Option::is_some)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

/// Serves the ready stream whose key is least.
pub(super) struct Ranked {
    order: Order<Key>,
    key: fn(StreamView<'_>, &Head) -> Key,
}

/// What counts first, and the order of arrival.
type Key = (Instant, u64);

impl Ranked {
    pub(super) fn by(key: fn(StreamView<'_>, &Head) -> Key) -> Self {
        Self { order: Order::new(), key }
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let head = stream.head().filter(|_| stream.ready());
        self.order.set(stream.id(), head.map(|head| (self.key)(stream, &head)));
    }
}

impl Policy for Ranked {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            self.place(stream);
        }
    }

    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        self.order.first().map_or(Pick::Nothing, |(_, id)| Pick::Stream(id))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.order.set(stream, None);
    }
}
