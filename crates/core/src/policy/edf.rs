//! Earliest deadline first (Liu & Layland 1973), among the next pieces of the ready streams.
//!
//! Heads without a deadline come last, and among equal deadlines the older request goes first.
//!
//! Guarantees: nothing by itself. On a processor that can be preempted at any time every deadline
//! is met as long as the work fits at all; a piece at the device can't be called back, so each
//! deadline may also wait for as many pieces as the device holds. Says nothing about seeks, and in
//! overload whoever is latest goes first and makes the others late too.

use alloc::boxed::Box;

use super::view::{StreamView, Streams};
use super::{Currency, Pick, Policy, PolicyEntry};
use crate::classes::lane::Head;
use crate::types::ids::StreamId;
use crate::types::order::StreamOrder;
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

/// The ready stream goes whose next piece has the least key, by a function of the stream and the piece.
pub struct Ranked {
    order: StreamOrder<Key>,
    key: fn(StreamView<'_>, &Head) -> Key,
}

/// The instant by which a class orders its requests, and then the order of arrival.
type Key = (Instant, u64);

impl Ranked {
    /// A key has what counts first, and the order of arrival.
    #[must_use]
    pub fn by(key: fn(StreamView<'_>, &Head) -> (Instant, u64)) -> Self {
        Self { order: StreamOrder::default(), key }
    }
}

impl Policy for Ranked {
    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        self.order.first().map_or(Pick::Nothing, |(_, id)| Pick::Stream(id))
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        let head = stream.head().filter(|_| stream.ready());
        self.order.set(stream.id(), head.map(|head| (self.key)(stream, &head)));
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.order.set(stream, None);
    }
}
