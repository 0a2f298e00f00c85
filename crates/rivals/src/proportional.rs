//! Proportional sharing by count: start-time fair queueing (Goyal, Vin and Cheng 1996) in which every
//! piece costs 1, whatever it takes. Paper `reward` argues against this policy and measures itself by it.
//!
//! A piece starts at its stream's last finish tag, or at virtual time if that is later, and finishes
//! 1/w after. The smallest start tag goes, and becomes virtual time; ties by stream.
//!
//! Guarantees: of two streams that stay ready each gets pieces by its weight, to one piece each.
//! Time is not guaranteed: streams with fast pieces pay for streams with slow ones. A pick is O(log n).

use alloc::boxed::Box;

use super::sfq::{Tag, Tags};
use disktime_core::policy::{Currency, Pick, Policy, PolicyEntry};
use disktime_core::{Contract, Instant, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "proportional",
    doc: "requests by weight, whatever each takes: what reward scheduling is compared with",
    source: "reward scheduling for tiers, section 2; Goyal, Vin and Cheng 1996",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Proportional(Tags::new())),
};

/// A piece of a stream of weight 1; 2^128 of them never go out.
const PIECE: Tag = Contract::WEIGHT_MAX as Tag * 1_000_000;

struct Proportional(Tags);

impl Policy for Proportional {
    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        self.0.order.first().map_or(Pick::Nothing, |(_, id)| Pick::Stream(id))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.0.goes(stream.id(), PIECE / Tag::from(stream.contract().weight));
        self.0.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.0.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.0.remove(stream);
    }
}
