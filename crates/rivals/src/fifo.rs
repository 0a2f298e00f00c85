//! First in, first out over all streams: what a device without a scheduler does.

use alloc::boxed::Box;

use disktime_core::policy::{Currency, Pick, Policy, PolicyEntry};
use disktime_core::{IndexedHeap, Instant, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    doc: "in the order of arrival, whoever sends most gets most; limits hold, reservations do not",
    source: "the foil of every paper",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Fifo::default()),
};

/// Ready streams by the arrival of their oldest request.
#[derive(Default)]
struct Fifo(IndexedHeap);

impl Fifo {
    fn place(&mut self, stream: StreamView<'_>) {
        match stream.head().filter(|_| stream.ready()) {
            Some(head) => self.0.set(stream.id().0, head.sequence.cast_signed()),
            None => self.0.remove(stream.id().0),
        }
    }
}

impl Policy for Fifo {
    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        self.0.peek().map_or(Pick::Nothing, |(_, id)| Pick::Stream(StreamId(id)))
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.0.remove(stream.0);
    }
}
