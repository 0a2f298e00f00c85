//! Proportional sharing by count: start-time fair queueing (Goyal, Vin and Cheng 1996) in which every
//! piece costs 1, whatever it takes. What paper `reward` argues against, and its foil.
//!
//! A piece starts at its stream's last finish tag, or at virtual time if that is later, and finishes
//! 1/w after. The smallest start tag goes, and becomes virtual time; ties by stream.
//!
//! Guarantees: of two streams that stay ready each gets pieces by its weight, to one piece each.
//! Nothing about time: whose pieces are dear is paid for by whose are cheap. A pick is O(log n).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::edf::Order;
use super::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use crate::contract::Contract;
use crate::request::{Request, StreamId};
use crate::stream::{StreamView, Streams};
use crate::time::Instant;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "proportional",
    doc: "requests by weight, whatever each takes: what reward scheduling is compared with",
    source: "reward scheduling for tiers, section 2; Goyal, Vin and Cheng 1996",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Proportional::new()),
};

/// A piece of a stream of weight 1; 2^128 of them never go out.
const PIECE: Tag = Contract::WEIGHT_MAX as Tag * 1_000_000;

type Tag = u128;

struct Proportional {
    /// Ready streams by the start tag of their next piece.
    order: Order<Tag>,
    /// Each stream's last finish tag; its next start tag while it is ready.
    tags: Vec<Tag>,
    virtual_time: Tag,
}

impl Proportional {
    const fn new() -> Self {
        Self { order: Order::new(), tags: Vec::new(), virtual_time: 0 }
    }

    fn tag(&mut self, id: StreamId) -> &mut Tag {
        let slot = id.0 as usize;
        if slot >= self.tags.len() {
            self.tags.resize(slot + 1, 0);
        }
        &mut self.tags[slot]
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let (id, now) = (stream.id(), self.virtual_time);
        let returns = stream.ready() && !self.order.contains(id);
        let tag = self.tag(id);
        if returns {
            *tag = now.max(*tag);
        }
        let tag = *tag;
        self.order.set(id, stream.ready().then_some(tag));
    }
}

impl Policy for Proportional {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            self.place(stream);
        }
    }

    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        self.order.first().map_or(Pick::Nothing, |(_, id)| Pick::Stream(id))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        let tag = self.tag(stream.id());
        let start = *tag;
        *tag = start + PIECE / Tag::from(stream.contract().weight);
        self.virtual_time = start.max(self.virtual_time);
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
        *self.tag(stream) = 0;
    }
}
