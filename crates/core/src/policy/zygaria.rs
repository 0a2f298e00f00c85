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
}

impl Zygaria {
    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id().0;
        if !stream.ready() {
            self.deadlines.remove(id);
            self.usage.remove(id);
            return;
        }
        self.usage.set(id, stream.usage_per_weight());
        if stream.contract().reserve == Share::ZERO {
            self.deadlines.remove(id);
        } else {
            self.deadlines.set(id, stream.deadline_ns());
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
        self.deadlines.remove(stream.0);
        self.usage.remove(stream.0);
    }

    fn timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
