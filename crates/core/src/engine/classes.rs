//! Classes: whose turn it is (ucsb §III-A, the meta-scheduler).
//!
//! Guaranteed latency, guaranteed rate, best effort, background, in this order. While the slack
//! register holds time, best effort goes before guaranteed rates. What a guaranteed stream wants
//! beyond its guarantee goes after best effort.

use alloc::boxed::Box;

use super::Engine;
use super::guarantees::{Flushes, Turn};
use crate::classes::lane::{Gate, Head};
use crate::classes::requests::State;
use crate::policy::view::Streams;
use crate::policy::{self, Pick, Policy};
use crate::types::ids::StreamId;
use crate::types::rank::Rank;

/// Who goes, and why it may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) pick: Pick,
    pub(super) rank: Rank,
    /// It goes ahead of guaranteed rates that wait.
    pub(super) on_slack: bool,
}

/// Orders within each class. Guaranteed classes go by deadline and, among equal ones, in a sweep;
/// background goes by lowest recent usage.
pub(super) fn policies(best: Box<dyn Policy>) -> [Box<dyn Policy>; Rank::COUNT] {
    let of = |name| (policy::find(name).expect("it is in the registry").build)();
    [of("edf"), of("scan-edf"), best, of("zygaria")]
}

impl Engine {
    pub(super) fn work_waits(&self) -> bool {
        self.ready.iter().any(|ready| *ready > 0) || self.guarantees.overdrawn().is_some()
    }

    pub(super) fn choose(&mut self) -> Chosen {
        let ready = |rank: Rank| self.ready[rank.at()] > 0;
        let slack = ready(Rank::Rate) && ready(Rank::Best) && self.guarantees.has_slack(self.now);
        let first = if ready(Rank::Latency) {
            Rank::Latency
        } else if ready(Rank::Rate) && !slack {
            Rank::Rate
        } else {
            Rank::Best
        };
        if let Some(stream) = self.keeps_device().filter(|_| first == Rank::Rate) {
            return Chosen { pick: Pick::Stream(stream), rank: first, on_slack: false };
        }
        let chosen = self.ask(first, slack);
        if first != Rank::Best || chosen.pick != Pick::Nothing {
            return chosen;
        }
        if let Some((rank, id)) = self.guarantees.overdrawn() {
            return Chosen { pick: Pick::Stream(id), rank, on_slack: false };
        }
        self.ask(Rank::Background, false)
    }

    /// The guaranteed rate whose turn is not over.
    fn keeps_device(&self) -> Option<StreamId> {
        let id = self.guarantees.turn.filter(|turn| turn.left > 0)?.stream;
        let stream = self.streams.get(id.0 as usize)?.as_ref()?;
        (stream.lanes[Rank::Rate].gate == Gate::Ready).then_some(id)
    }

    /// Whether the piece that has gone out must end with a flush: what it leaves in a write cache
    /// would be brought to the medium in somebody else's time.
    pub(super) fn ends_dirty(&mut self, id: StreamId, rank: Rank, writes: bool) -> bool {
        let flushes = self.guarantees.flushes;
        if rank != Rank::Rate {
            return writes && flushes == Flushes::All;
        }
        let stream = self.streams[id.0 as usize].as_ref().expect("it has sent a piece");
        let open = stream.cycle.as_ref().is_some_and(|cycle| cycle.open());
        let goes_on = open && stream.lanes[rank].head.is_some();
        let Some(turn) = &mut self.guarantees.turn else { return writes };
        turn.dirty |= writes;
        if goes_on && turn.left > 0 {
            return false;
        }
        // What it did not use of its turn is over: the next batch has turns of its own.
        let dirty = turn.dirty;
        self.guarantees.turn = None;
        dirty && flushes != Flushes::None
    }

    fn ask(&mut self, rank: Rank, on_slack: bool) -> Chosen {
        let (depth, in_flight) = (self.limits.depth, self.in_flight);
        let streams = Streams { streams: &self.streams, rank, depth, in_flight };
        let pick = self.policies[rank.at()].pick(self.now, streams);
        let none = pick == Pick::Nothing && self.ready[rank.at()] > 0;
        assert!(!none, "a policy names a ready stream if there is one");
        Chosen { pick, rank, on_slack }
    }

    /// Whether the request that was chosen may pass; a stream's oldest may need other tokens.
    pub(super) fn passes(&mut self, id: StreamId, rank: Rank) -> bool {
        self.refresh(id);
        let lane = self.streams[id.0 as usize].as_ref().map(|stream| stream.lanes[rank].gate);
        let passes = lane.is_some_and(|gate| gate != Gate::Shut);
        if !passes {
            self.tell_changed(id);
        }
        passes
    }

    /// The stream that a pick serves.
    pub(super) fn picked(&self, pick: Pick) -> Option<StreamId> {
        match pick {
            Pick::Stream(id) => Some(id),
            Pick::Request(request) => {
                let live = self.requests.get(request)?;
                (live.state == State::Queued).then_some(live.request.stream)
            }
            Pick::Hold { .. } | Pick::Nothing => None,
        }
    }

    /// Works out which lanes of a stream may go; the policies are told by the caller.
    pub(super) fn refresh(&mut self, id: StreamId) {
        let stream = self.streams[id.0 as usize].as_mut().expect("streams outlive requests");
        let wants = stream.queued > 0 && stream.pieces < stream.spec.depth_max;
        let held_back = if wants { stream.below_limit(self.now).err() } else { None };
        match held_back {
            Some(until) => self.parked.set(id.0, until),
            None => self.parked.remove(id.0),
        }
        for rank in stream.active {
            let lane = &stream.lanes[rank];
            let (head, was) = (lane.head, lane.gate);
            let gate = match head {
                Some(head) if wants && held_back.is_none() => {
                    let shaping = self.shaping.as_mut();
                    let held = shaping.is_some_and(|it| it.holds(self.now, stream, rank, &head));
                    match stream.guarantee(rank, self.now) {
                        Ok(()) if held => Gate::Shut,
                        Ok(()) => Gate::Ready,
                        Err(until) => {
                            self.guarantees.overdraw(rank, id, head.sequence, until);
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
            let ready = &mut self.ready[rank.at()];
            *ready = *ready + u32::from(gate == Gate::Ready) - u32::from(was == Gate::Ready);
            stream.lanes[rank].gate = gate;
            if rank == stream.home() {
                self.promises.turned(stream, gate == Gate::Ready, self.now);
            }
        }
    }

    /// Tells the policies that what they see of a stream has changed.
    pub(super) fn tell_changed(&mut self, id: StreamId) {
        self.tell(id, None);
    }

    /// As [`tell_changed`](Self::tell_changed), but for one class, which is told otherwise.
    pub(super) fn tell_others(&mut self, id: StreamId, told: Rank) {
        self.tell(id, Some(told));
    }

    fn tell(&mut self, id: StreamId, told: Option<Rank>) {
        let stream = self.streams[id.0 as usize].as_mut().expect("streams outlive requests");
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

    /// A piece goes out: guarantees are used up, and the slack register.
    pub(super) fn spend(&mut self, id: StreamId, rank: Rank, on_slack: bool, head: &Head) {
        let rates_wait = self.ready[Rank::Rate.at()] > 0;
        let seek_back = self.guarantees.interrupts(rank, rates_wait);
        if on_slack {
            self.guarantees.spend_slack(head.estimate, seek_back);
        }
        let stream = self.streams[id.0 as usize].as_mut().expect("streams outlive pieces");
        if let Some(cycle) = stream.cycle.as_mut().filter(|_| rank == Rank::Rate) {
            cycle.sent(head.bytes);
            let turn = self.guarantees.turn.filter(|turn| turn.stream == id && turn.left > 0);
            let mut turn = turn.unwrap_or(Turn { stream: id, left: cycle.turn, dirty: false });
            turn.left = turn.left.saturating_sub(head.bytes);
            self.guarantees.turn = Some(turn);
        }
        if rank == Rank::Latency && seek_back > 0 {
            stream.pay(seek_back);
        }
    }
}
