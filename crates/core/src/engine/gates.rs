//! Which streams may go: lanes that are ready, streams that their limit holds back, and marks of those whose
//! gates are to be worked out again.

use alloc::vec::Vec;

use super::instant;
use crate::classes::lane::Gate;
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::Instant;

#[derive(Default)]
pub(super) struct Gates {
    /// Lanes that are ready, by class.
    pub(super) ready: [u32; Rank::COUNT],
    /// Streams of which something has changed since the last flush.
    pub(super) marked: Vec<StreamId>,
    /// Streams with work that their limit holds back, by when it will not, in ns.
    pub(super) parked: IndexedHeap,
}

impl Gates {
    pub(super) fn any_ready(&self) -> bool {
        self.ready.iter().any(|ready| *ready > 0)
    }

    pub(super) fn turned(&mut self, rank: Rank, was: Gate, gate: Gate) {
        let ready = &mut self.ready[rank.at()];
        *ready = *ready + u32::from(gate == Gate::Ready) - u32::from(was == Gate::Ready);
    }

    /// The view of a stream has changed, or whether it may run.
    pub(super) fn mark(&mut self, id: StreamId) {
        if self.marked.last() != Some(&id) {
            self.marked.push(id);
        }
    }

    /// When a limit lets a stream go.
    pub(super) fn next(&self) -> Option<Instant> {
        self.parked.peek().map(|(at, _)| instant(at))
    }

    /// Marks the streams that their limits let go by now.
    pub(super) fn unpark(&mut self, now: Instant) {
        while let Some((_, id)) = self.parked.peek().filter(|(at, _)| instant(*at) <= now) {
            self.parked.remove(id);
            self.mark(StreamId(id));
        }
    }
}
