//! The table of live requests and the queues threaded through it.
//!
//! A request is a slot; each stream's queue is a doubly linked list of slots, so joining, leaving
//! at the head and leaving from the middle (cancel) are O(1) and nothing is allocated per request.

use alloc::vec::Vec;

use crate::types::ids::RequestId;
use crate::types::rank::Rank;
use crate::types::request::{Outcome, Request};
use crate::types::time::Instant;

const NONE: u32 = u32::MAX;

/// Where a request is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// In its stream's queue; pieces of it may be at the device already.
    Queued,
    /// All of it is at the device.
    Sent,
}

/// A request between arrival and completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) request: Request,
    pub(crate) state: State,
    /// In which of its stream's queues it is or was.
    pub(crate) rank: Rank,
    /// The worst outcome of its pieces so far.
    pub(crate) outcome: Outcome,
    pub(crate) arrived_at: Instant,
    /// When its first piece went out.
    pub(crate) dispatched_at: Instant,
    /// Bytes in pieces that went out.
    pub(crate) bytes_sent: u64,
    /// Pieces at the device.
    pub(crate) pieces: u32,
    /// Order of arrival over all streams.
    pub(crate) sequence: u64,
    previous: u32,
    next: u32,
}

/// One stream's waiting requests, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    pub(crate) fn len(self) -> u32 {
        self.len
    }

    pub(crate) fn head(self) -> Option<RequestId> {
        (self.head != NONE).then_some(RequestId(self.head))
    }
}

/// Slots by request id; grows up to the bound that the engine checks.
#[derive(Default)]
pub(crate) struct RequestTable {
    slots: Vec<Option<Live>>,
    sequence: u64,
}

impl RequestTable {
    pub(crate) fn get(&self, id: RequestId) -> Option<&Live> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// A request that is known to live.
    pub(crate) fn live(&mut self, id: RequestId) -> &mut Live {
        self.slots[id.0 as usize].as_mut().expect("a queued or dispatched request has a slot")
    }

    /// Puts a new request at the tail of `queue`.
    pub(crate) fn push(&mut self, queue: &mut Queue, request: Request, rank: Rank, now: Instant) {
        let slot = request.id.0 as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        assert!(self.slots[slot].is_none(), "the engine refuses ids in use");
        self.slots[slot] = Some(Live {
            request,
            state: State::Queued,
            rank,
            outcome: Outcome::Done,
            arrived_at: now,
            dispatched_at: now,
            bytes_sent: 0,
            pieces: 0,
            sequence: self.sequence,
            previous: queue.tail,
            next: NONE,
        });
        self.sequence += 1;
        match queue.tail {
            NONE => queue.head = request.id.0,
            tail => self.live(RequestId(tail)).next = request.id.0,
        }
        queue.tail = request.id.0;
        queue.len += 1;
    }

    /// Takes a queued request out of its queue; it stays in the table.
    pub(crate) fn unlink(&mut self, queue: &mut Queue, id: RequestId) {
        let live = self.live(id);
        assert!(live.state == State::Queued, "only a queued request is in a queue");
        live.state = State::Sent;
        let (previous, next) = (live.previous, live.next);
        match previous {
            NONE => queue.head = next,
            at => self.live(RequestId(at)).next = next,
        }
        match next {
            NONE => queue.tail = previous,
            at => self.live(RequestId(at)).previous = previous,
        }
        queue.len -= 1;
    }

    /// Frees the slot of a request that is in no queue and has no piece at the device.
    pub(crate) fn remove(&mut self, id: RequestId) {
        let live = self.live(id);
        assert!(live.state == State::Sent && live.pieces == 0, "it is still somewhere");
        self.slots[id.0 as usize] = None;
    }
}
