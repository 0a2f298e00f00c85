//! Utilization-based virtual disks as published: EDF by reserve bucket, slack to the lowest usage.
//!
//! The head request of each ready stream has a deadline: the time at which the stream's reserve
//! bucket will hold its estimate. If the earliest is due, that stream goes; else there is slack,
//! and the stream with the lowest recent usage per weight goes (zygaria §3; with equal weights
//! exactly the paper's rule, which has none). Limits make a stream not ready, in the engine.

use alloc::boxed::Box;

use super::view::{StreamView, Streams};
use super::{Currency, Pick, Policy, PolicyEntry};
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::share::Share;
use crate::types::time::Instant;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "zygaria",
    doc: "each virtual disk gets its reserved disk time, slack goes to the lowest recent usage",
    source: "virtual disks by utilization, sections 2 and 3",
    currency: Currency::Time,
    keeps_reservations: true,
    reorders: false,
    holds: false,
    build: || Box::new(Zygaria::default()),
};

/// The policy `zygaria`; others may be built on its order of what is due.
#[derive(Default)]
pub struct Zygaria {
    /// Ready streams with a reservation, by deadline in ns; none later than it is.
    deadlines: IndexedHeap,
    /// All ready streams, by recent usage per weight; none above what it is.
    usage: IndexedHeap,
    /// The stream that changed last: it often changes again before the next pick (at depth 1 a
    /// dispatch and its completion), and then is looked at once.
    changed: Option<StreamId>,
}

impl Zygaria {
    /// Notes a change, to be looked at when it counts.
    fn note(&mut self, stream: StreamView<'_>) {
        if self.changed.is_none_or(|changed| changed == stream.id()) {
            self.changed = Some(stream.id());
        } else {
            self.place(stream);
        }
    }

    /// Being served moves a stream back in both orders, and mostly in one of them nobody looks:
    /// keys that rise are left too low, until they come first.
    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id().0;
        let reserves = stream.ready() && stream.contract().reserve != Share::ZERO;
        self.usage.lower(id, stream.ready().then(|| stream.usage_per_weight()));
        self.deadlines.lower(id, reserves.then(|| stream.deadline_ns()));
    }

    /// The stream whose deadline is due and the earliest; `None` if there is slack.
    pub fn due(&mut self, now: Instant, streams: Streams<'_>) -> Option<StreamId> {
        if let Some(stream) = self.changed.take().and_then(|id| streams.get(id)) {
            self.place(stream);
        }
        let now = now.as_nanos().cast_signed();
        let deadline = |id| streams.get(StreamId(id)).map(StreamView::deadline_ns);
        self.deadlines.first(deadline, now).map(StreamId)
    }
}

impl Policy for Zygaria {
    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        let usage = |id| streams.get(StreamId(id)).map(StreamView::usage_per_weight);
        let due = self.due(now, streams);
        let chosen = due.or_else(|| self.usage.first(usage, i64::MAX).map(StreamId));
        chosen.map_or(Pick::Nothing, Pick::Stream)
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.note(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.changed = self.changed.filter(|changed| *changed != stream);
        self.deadlines.remove(stream.0);
        self.usage.remove(stream.0);
    }
}
