//! Group sweeping (Yu, Chen & Kandlur 1993): groups of streams in turn, each in one sweep.
//!
//! Streams are dealt to g groups by their number. When a group's turn comes, each of its ready
//! streams gets one piece, in the order of offsets; the next group is swept the other way, so that
//! the head turns around instead of flying back. A stream that becomes ready in its group's sweep waits
//! for the next one. With g = 1 this is SCAN (one piece a stream a round), with one stream a group
//! it is round robin; in between, a larger g makes the wait between two pieces of a stream more
//! even (less buffer), a smaller one the seeks shorter.
//!
//! Guarantees: a stream that stays ready has one piece in every round, and at most two sweeps of
//! its own group and one of each other between two pieces. The paper chooses g to need the least
//! buffer, about √n for its disks; here it is fixed. The paper's groups share a joint deadline,
//! their earliest; here no deadline counts.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, Policy, PolicyEntry};
use disktime_core::{Instant, Request, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "gss",
    doc: "group sweeping: four groups of streams in turn, in each a sweep with a piece a stream",
    source: "Yu, Chen and Kandlur 1993, in the survey of quality of service for storage",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Gss::default()),
};

/// g: near √n for the 10 to 30 streams that a disk of then and now can carry.
const GROUPS: usize = 4;

#[derive(Default)]
struct Gss {
    /// Ready streams.
    groups: [BTreeSet<StreamId>; GROUPS],
    /// The group that is swept next.
    next: usize,
    /// Streams that the current sweep has not reached yet, last first.
    sweep: Vec<StreamId>,
    /// The next sweep goes towards the start.
    down: bool,
}

impl Gss {
    fn place(&mut self, stream: StreamView<'_>) {
        let group = &mut self.groups[group_of(stream.id())];
        if stream.ready() {
            group.insert(stream.id())
        } else {
            group.remove(&stream.id())
        };
    }

    /// Begins the sweep of the next group that has a ready stream, if any has.
    fn begin(&mut self, streams: Streams<'_>) {
        let turns = (self.next..self.next + GROUPS).map(|turn| turn % GROUPS);
        let Some(group) = turns.into_iter().find(|group| !self.groups[*group].is_empty()) else {
            return;
        };
        let offset = |id: &StreamId| streams.get(*id)?.head().map(|head| head.offset);
        self.sweep.extend(&self.groups[group]);
        self.sweep.sort_by_key(offset);
        if !self.down {
            self.sweep.reverse();
        }
        self.down = !self.down;
        self.next = (group + 1) % GROUPS;
    }
}

fn group_of(stream: StreamId) -> usize {
    stream.0 as usize % GROUPS
}

impl Policy for Gss {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        self.place(stream);
    }

    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        // A stream that is not ready when the sweep reaches it waits for the next round.
        while self.sweep.pop_if(|id| !streams.get(*id).is_some_and(StreamView::ready)).is_some() {}
        if self.sweep.is_empty() {
            self.begin(streams);
        }
        self.sweep.last().map_or(Pick::Nothing, |id| Pick::Stream(*id))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.sweep.pop_if(|id| *id == stream.id());
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.groups[group_of(stream)].remove(&stream);
        self.sweep.retain(|id| *id != stream);
    }
}
