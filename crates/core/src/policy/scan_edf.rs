//! SCAN-EDF (Reddy & Wyllie 1993): earliest deadline first, equal deadlines in one sweep.
//!
//! Among the heads with the earliest deadline the next one at or ahead of the last piece goes, then
//! from the start again (C-SCAN). Heads without a deadline come last, in the order of arrival: a
//! sweep without deadlines could leave a stream behind for ever.
//!
//! Guarantees what EDF does, and that a batch of one deadline costs one sweep of seeks. So it pays
//! only where deadlines are equal: cycles that end together, or deadlines rounded to a grid. A pick
//! is O(log n). A stream that is not ready after all, or whose head has changed, is put right when
//! it comes up.

use alloc::boxed::Box;

use super::edf::deadline_of;
use super::view::{StreamView, Streams};
use super::{Currency, Pick, Policy, PolicyEntry};
use crate::types::ids::StreamId;
use crate::types::order::StreamOrder;
use crate::types::time::Instant;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "scan-edf",
    doc: "earliest deadline first, equal deadlines in one sweep; without a deadline as they arrive",
    source: "Reddy and Wyllie 1993, in the survey of quality of service for storage",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(ScanEdf { order: StreamOrder::default(), position: 0 }),
};

/// The deadline, and the first byte; without a deadline the order of arrival.
type Key = (Instant, u64);

struct ScanEdf {
    /// Ready streams.
    order: StreamOrder<Key>,
    /// Where the last piece that was sent ended.
    position: u64,
}

fn key_of(stream: StreamView<'_>) -> Option<Key> {
    let head = stream.head().filter(|_| stream.ready())?;
    let deadline = deadline_of(&head);
    Some((deadline, if deadline == Instant::MAX { head.sequence } else { head.offset }))
}

impl ScanEdf {
    /// The first of the earliest deadline that lies ahead, or else of all of it.
    fn next(&self) -> Option<(Key, StreamId)> {
        let first = self.order.first()?;
        let (deadline, _) = first.0;
        if deadline == Instant::MAX {
            return Some(first);
        }
        let ahead = self.order.first_from((deadline, self.position));
        ahead.filter(|(key, _)| key.0 == deadline).or(Some(first))
    }
}

impl Policy for ScanEdf {
    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        while let Some((key, id)) = self.next() {
            let truth = streams.get(id).and_then(key_of);
            if truth == Some(key) {
                return Pick::Stream(id);
            }
            self.order.set(id, truth);
        }
        Pick::Nothing
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.position = stream.last_piece().map_or(self.position, |(_, end)| end);
        self.changed(now, stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.order.set(stream.id(), key_of(stream));
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.order.set(stream, None);
    }
}
