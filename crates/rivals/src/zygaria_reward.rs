//! Zygaria with slack in the order of `reward-service`: to the stream whose time by weight, as its own
//! pieces take it, is furthest behind.
//!
//! Time that reservations give counts there, too. So all time evens out as far as reservations let
//! it, and a stream whose requests take little time has many of them.

use alloc::boxed::Box;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry, Zygaria};
use disktime_core::{Instant, Request, StreamId, StreamView, Streams};

use crate::reward::Reward;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "zygaria-reward",
    doc: "zygaria with slack in reward's order: to those whose requests are cheap",
    source: "disktime's own: reward scheduling with the guarantees that its section 5 asks for",
    currency: Currency::Time,
    keeps_reservations: true,
    reorders: false,
    holds: false,
    build: || Box::new(ZygariaReward { due: Zygaria::default(), slack: Reward::by_service() }),
};

struct ZygariaReward {
    due: Zygaria,
    slack: Reward,
}

impl Policy for ZygariaReward {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, request: &Request) {
        self.slack.arrived(now, stream, request);
        self.due.arrived(now, stream, request);
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        let due = self.due.due(now, streams).map(Pick::Stream);
        due.unwrap_or_else(|| self.slack.pick(now, streams))
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.slack.dispatched(now, stream);
        self.due.dispatched(now, stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        self.slack.completed(now, stream, piece);
        self.due.completed(now, stream, piece);
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.slack.changed(now, stream);
        self.due.changed(now, stream);
    }

    fn removed(&mut self, now: Instant, stream: StreamId) {
        self.slack.removed(now, stream);
        self.due.removed(now, stream);
    }
}
