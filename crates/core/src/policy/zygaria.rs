//! Utilization-based virtual disks as published: EDF by reserve bucket, slack to the lowest usage.
//!
//! The head request of each ready stream has a deadline: the time at which the stream's reserve
//! bucket will hold its estimate. If the earliest is due, that stream goes; else there is slack,
//! and the stream with the lowest recent usage per weight goes (zygaria §3; with equal weights
//! exactly the paper's rule, which has none). Limits make a stream not ready, in the engine.

use alloc::boxed::Box;

use super::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use crate::heap::IndexedHeap;
use crate::request::StreamId;
use crate::share::Share;
use crate::stream::StreamView;
use crate::time::Instant;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "zygaria",
    doc: "each virtual disk gets its reserved disk time, slack goes to the lowest recent usage",
    source: "virtual disks by utilization, sections 2 and 3",
    currency: Currency::Time,
    keeps_reservations: true,
    build: || Box::new(Zygaria::default()),
};

#[derive(Default)]
struct Zygaria {
    /// Ready streams with a reservation, by deadline in ns.
    deadlines: IndexedHeap<i64>,
    /// All ready streams, by recent usage per weight.
    usage: IndexedHeap<i64>,
    /// Where the stream that changed last belongs: it often changes again before the next pick
    /// (at depth 1 a dispatch and its completion), and then moves once.
    moved: Option<Place>,
}

/// A stream's keys in the two orders; `None` where it is not in.
struct Place {
    stream: StreamId,
    deadline: Option<i64>,
    usage: Option<i64>,
}

impl Zygaria {
    fn place(&mut self, stream: StreamView<'_>) {
        if self.moved.as_ref().is_some_and(|moved| moved.stream != stream.id()) {
            self.settle();
        }
        let ready = stream.ready();
        let reserves = ready && stream.contract().reserve != Share::ZERO;
        self.moved = Some(Place {
            stream: stream.id(),
            deadline: reserves.then(|| stream.deadline_ns()),
            usage: ready.then(|| stream.usage_per_weight()),
        });
    }

    /// Moves the stream that changed last to its place.
    fn settle(&mut self) {
        let Some(Place { stream: StreamId(id), deadline, usage }) = self.moved.take() else {
            return;
        };
        match usage {
            Some(usage) => self.usage.set(id, usage),
            None => self.usage.remove(id),
        }
        match deadline {
            Some(deadline) => self.deadlines.set(id, deadline),
            None => self.deadlines.remove(id),
        }
    }
}

impl Policy for Zygaria {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>) {
        if stream.queued() == 1 {
            self.place(stream);
        }
    }

    fn pick(&mut self, now: Instant) -> Pick {
        self.settle();
        let is_due = |at: i64| u64::try_from(at).map_or(true, |at| at <= now.as_nanos());
        let chosen = match self.deadlines.peek() {
            Some((deadline, id)) if is_due(deadline) => Some(id),
            _ => self.usage.peek().map(|(_, id)| id),
        };
        chosen.map_or(Pick::Nothing, |id| Pick::Stream(StreamId(id)))
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.settle();
        self.deadlines.remove(stream.0);
        self.usage.remove(stream.0);
    }

    fn timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
