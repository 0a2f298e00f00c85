//! Round robin (Nagle 1985): one request of each stream with work in turn.
//!
//! A request that goes out in several pieces keeps the turn until its last. A stream that its
//! limit or depth holds back loses its turn and stands at the end again when it may go.
//!
//! Guarantees: a stream that stays ready has one request in every round, however many the others
//! have queued; a stream that floods its queue hurts only itself. A turn is worth as much as the request
//! is large: unlike requests get unlike time, and weights do not count (`drr` mends both). Each pick
//! is O(1).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, Policy, PolicyEntry};
use disktime_core::{Instant, Request, RequestId, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "round-robin",
    doc: "one request of each stream in turn, whatever its size",
    source: "Nagle, RFC 970, 1985",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(RoundRobin::default()),
};

/// Streams with work in the order of their turns; a stream that is not ready leaves when its turn comes.
#[derive(Default)]
pub(super) struct Ring {
    streams: VecDeque<StreamId>,
    listed: Vec<bool>,
}

impl Ring {
    fn listed(&mut self, id: StreamId) -> &mut bool {
        let slot = id.0 as usize;
        if slot >= self.listed.len() {
            self.listed.resize(slot + 1, false);
        }
        &mut self.listed[slot]
    }

    /// Puts a stream at the end, if it is not in.
    pub(super) fn join(&mut self, id: StreamId) {
        if !core::mem::replace(self.listed(id), true) {
            self.streams.push_back(id);
        }
    }

    /// The first goes.
    pub(super) fn leave(&mut self) -> Option<StreamId> {
        let id = self.streams.pop_front()?;
        *self.listed(id) = false;
        Some(id)
    }

    /// The first that is ready; those before it leave.
    pub(super) fn first_ready(&mut self, streams: Streams<'_>) -> Option<StreamId> {
        loop {
            let id = *self.streams.front()?;
            if streams.get(id).is_some_and(StreamView::ready) {
                return Some(id);
            }
            self.leave();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = StreamId> {
        self.streams.iter().copied()
    }

    pub(super) fn remove(&mut self, id: StreamId) {
        *self.listed(id) = false;
        self.streams.retain(|other| *other != id);
    }
}

#[derive(Default)]
struct RoundRobin {
    ring: Ring,
    /// The request whose turn it is, at the front of the ring.
    turn: Option<RequestId>,
}

impl RoundRobin {
    fn place(&mut self, stream: StreamView<'_>) {
        if stream.ready() {
            self.ring.join(stream.id());
        }
    }
}

impl Policy for RoundRobin {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        self.place(stream);
    }

    fn left(&mut self, _now: Instant, stream: StreamId, request: RequestId) {
        if self.turn == Some(request) && self.ring.iter().next() == Some(stream) {
            self.ring.leave();
            self.turn = None;
        }
    }

    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        let Some(id) = self.ring.first_ready(streams) else { return Pick::Nothing };
        self.turn = streams.get(id).and_then(StreamView::head).map(|head| head.request);
        Pick::Stream(id)
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.ring.remove(stream);
    }
}
