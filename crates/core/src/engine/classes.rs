//! Classes: whose turn it is (ucsb §III-A, the meta-scheduler).
//!
//! Guaranteed latency, guaranteed rate, best effort, background, in this order. While the slack
//! register holds time, best effort goes before guaranteed rates. Requests of a guaranteed stream that
//! are beyond its guarantee go after best effort.

use alloc::boxed::Box;

use super::Engine;
use super::guarantees::{Flushes, Turn};
use crate::classes::lane::{Gate, Head};
use crate::classes::requests::State;
use crate::policy::view::Streams;
use crate::policy::{self, Pick, Policy, Slices};
use crate::types::ids::StreamId;
use crate::types::rank::Rank;

/// The stream whose piece goes next, and the reason why it may.
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
        self.gates.any_ready() || self.guarantees.overdrawn().is_some()
    }

    pub(super) fn choose(&mut self) -> Chosen {
        let ready = |rank: Rank| self.gates.ready[rank.at()] > 0;
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
        let stream = self.streams.get(id)?;
        (stream.lanes[Rank::Rate].gate == Gate::Ready).then_some(id)
    }

    /// Whether the piece that has gone out must end with a flush: what it leaves in a write cache
    /// would be brought to the medium in somebody else's time.
    pub(super) fn ends_dirty(&mut self, id: StreamId, rank: Rank, writes: bool) -> bool {
        let flushes = self.guarantees.flushes;
        if rank != Rank::Rate {
            return writes && flushes == Flushes::All;
        }
        let stream = &mut self.streams[id];
        let open = stream.cycle.as_ref().is_some_and(|cycle| cycle.open());
        let goes_on = open && stream.lanes[rank].head.is_some();
        let Some(turn) = &mut self.guarantees.turn else { return writes };
        turn.dirty |= writes;
        if goes_on && turn.left > 0 {
            return false;
        }
        // The unused rest of its turn is over: the next batch has turns of its own.
        let dirty = turn.dirty;
        self.guarantees.turn = None;
        dirty && flushes != Flushes::None
    }

    fn ask(&mut self, rank: Rank, on_slack: bool) -> Chosen {
        let (depth, at_work) = (self.limits.depth, self.device.at_work(self.now).pieces);
        let (streams, pressing) = (&self.streams, self.promises.pressing);
        let streams = Streams { streams, rank, depth, at_work, pressing };
        let pick = self.policies[rank.at()].pick(self.now, streams);
        if rank == Rank::Best {
            self.books.slice = self.slices().and_then(|slices| slices.owner());
        }
        let none = pick == Pick::Nothing && self.gates.ready[rank.at()] > 0;
        assert!(!none, "a policy names a ready stream if there is one");
        Chosen { pick, rank, on_slack }
    }

    /// The policy of best effort, if it gives slices.
    #[inline]
    pub(super) fn slices(&mut self) -> Option<&mut dyn Slices> {
        if self.books.slices { self.policies[Rank::Best.at()].slices() } else { None }
    }

    /// Whether the request that was chosen may pass; a stream's oldest may need other tokens.
    pub(super) fn passes(&mut self, id: StreamId, rank: Rank) -> bool {
        self.gate_again(id);
        self.streams.get(id).is_some_and(|stream| stream.lanes[rank].gate != Gate::Shut)
    }

    /// The stream that a pick serves.
    pub(super) fn picked(&self, pick: Pick) -> Option<StreamId> {
        match pick {
            Pick::Stream(id) => Some(id),
            Pick::Request(request) => {
                let live = self.requests.get(request)?;
                (live.state == State::Queued).then_some(live.request.stream)
            }
            Pick::Flush(_) | Pick::Hold { .. } | Pick::Nothing => None,
        }
    }

    /// A piece goes out: guarantees are used up, and the slack register.
    pub(super) fn spend(&mut self, id: StreamId, rank: Rank, on_slack: bool, head: &Head) {
        let rates_wait = self.gates.ready[Rank::Rate.at()] > 0;
        let seek_back = self.guarantees.interrupts(rank, rates_wait);
        if on_slack {
            self.guarantees.spend_slack(head.estimate, seek_back);
        }
        let stream = &mut self.streams[id];
        if let Some(cycle) = stream.cycle.as_mut().filter(|_| rank == Rank::Rate) {
            cycle.sent(head.bytes);
            let turn = self.guarantees.turn.filter(|turn| turn.stream == id && turn.left > 0);
            let mut turn = turn.unwrap_or(Turn { stream: id, left: cycle.turn, dirty: false });
            turn.left = turn.left.saturating_sub(head.bytes);
            self.guarantees.turn = Some(turn);
        }
        if rank == Rank::Latency && seek_back > 0 {
            // The stream that it interrupts is charged for the seek: what goes ahead is bounded by this.
            stream.accounts.reserve.take(seek_back);
        }
    }
}
