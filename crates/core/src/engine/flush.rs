//! One flush of changes: the gates of each stream that a call has touched are worked out again, and the
//! policies are told.
//!
//! A call *marks* the streams whose queues, accounts or contracts it changes. Before it answers, or asks
//! a policy, [`Engine::flush`] works out each marked stream's gates and tells the policies of its classes
//! what they see of it now. Nothing else opens or shuts a gate, and nothing else calls a policy's
//! `arrived`, `dispatched`, `completed` or `changed`.

use super::Engine;
use crate::classes::lane::Gate;
use crate::policy::PieceDone;
use crate::types::ids::StreamId;
use crate::types::rank::{Rank, Ranks};
use crate::types::request::Request;

/// News of a stream for the policy of one class, in place of `changed`.
#[derive(Clone, Copy)]
pub(super) enum News<'a> {
    Arrived(&'a Request),
    Dispatched,
    Completed(&'a PieceDone),
}

impl Engine {
    /// Works out the gates of the streams that are marked and tells the policies, in the order of marks.
    #[inline]
    pub(super) fn flush(&mut self) {
        if !self.gates.marked.is_empty() {
            self.flush_marked();
        }
    }

    #[inline(never)]
    fn flush_marked(&mut self) {
        for at in 0..self.gates.marked.len() {
            let id = self.gates.marked[at];
            if self.stream(id).is_some() {
                self.refresh(id);
                self.tell(id, None);
            }
        }
        self.gates.marked.clear();
    }

    /// As [`flush`](Self::flush), and tells the policy of one class what has happened to a stream of its.
    pub(super) fn flush_with(&mut self, id: StreamId, rank: Rank, news: News<'_>) {
        let marked = self.gates.marked.pop_if(|last| *last == id).is_some();
        self.flush();
        if marked {
            self.refresh(id);
        }
        let (policy, view) = (&mut self.policies[rank.at()], self.streams[id].view(rank));
        match news {
            News::Arrived(request) => policy.arrived(self.now, view, request),
            News::Dispatched => policy.dispatched(self.now, view),
            News::Completed(piece) => policy.completed(self.now, view, piece),
        }
        // The policy of that class has just seen the stream: the others are told.
        if marked && self.streams[id].active != Ranks::of(rank) {
            self.tell(id, Some(rank));
        }
    }

    /// Works out which lanes of a stream may go.
    fn refresh(&mut self, id: StreamId) {
        let stream = &self.streams[id];
        let wants = stream.queued > 0 && stream.pieces < stream.spec.depth_max;
        let held_back = if wants { self.held_back(id) } else { None };
        self.gates.parked.put(id.0, held_back);
        let stream = &mut self.streams[id];
        for rank in stream.active {
            let lane = &stream.lanes[rank];
            let was = lane.gate;
            let gate = match lane.head.as_ref().map(|head| head.sequence) {
                Some(sequence) if wants && held_back.is_none() => {
                    let shaping = self.shaping.as_mut();
                    let held = shaping.is_some_and(|it| it.holds(self.now, stream, rank));
                    match stream.guarantee(rank, self.now) {
                        Ok(()) if held => Gate::Shut,
                        Ok(()) => Gate::Ready,
                        Err(until) => {
                            self.guarantees.overdraw(rank, id, sequence, until);
                            Gate::Overdrawn
                        }
                    }
                }
                _ => Gate::Shut,
            };
            if gate == was {
                continue;
            }
            if was == Gate::Overdrawn {
                self.guarantees.settle(rank, id);
            }
            self.gates.turned(rank, was, gate);
            stream.lanes[rank].gate = gate;
            if rank == stream.home() {
                self.promises.turned(stream, gate == Gate::Ready, self.now);
            }
        }
    }

    /// Tells the policies of a stream's classes that what they see of it has changed, but for the class
    /// that was `told` otherwise.
    fn tell(&mut self, id: StreamId, told: Option<Rank>) {
        let stream = &mut self.streams[id];
        for rank in stream.active {
            if Some(rank) != told {
                self.policies[rank.at()].changed(self.now, stream.view(rank));
            }
            // Its policy knows by now that nothing waits there; at home it hears of contracts.
            if stream.lanes[rank].head.is_none() && rank != stream.home() {
                stream.active.remove(rank);
            }
        }
    }
}
