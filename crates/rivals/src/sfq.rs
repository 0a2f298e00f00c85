//! Start-time fair queueing (Goyal, Vin & Cheng 1996) with depth: SFQ(D) (Jin, Chase & Kaur 2004).
//!
//! Each piece has a start tag and a finish tag in virtual time: it starts where its stream's
//! previous one finishes, or now if that is past; it finishes its cost by the stream's weight later.
//! The smallest start tag goes next, and virtual time is the start tag of what went out last; when
//! the device runs empty it moves on to the largest finish tag. D is the engine's depth. Costs are
//! estimates of disk time; as in Goyal's scheduler of processor time, a finish tag is corrected to
//! the charge once that is known (deeper than 1 a piece's charge is its estimate as recent windows
//! priced it).
//!
//! Guarantees: of two streams that stay ready in an interval, disk time per weight differs by at
//! most (D+1) times their largest pieces per weight, whatever the device's speed. A stream that was
//! away has saved nothing. A pick is O(log n).
//!
//! A stream that its limit or own depth holds back counts as away: the papers have neither. Tags
//! are given when a piece comes to its queue's head, not on arrival; as virtual time never passes
//! the start tag of what is ready, they are the same, but a cancelled request costs nothing. Left
//! out: the papers' variants FSFQ(D), which favours streams that were behind at depths above 1, and
//! MSF(D).

use alloc::boxed::Box;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Contract, Duration, Instant, StreamId, StreamOrder, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "sfq",
    doc: "start-time fair queueing with depth: disk time by weight, to a piece or so",
    source: "Jin, Chase and Kaur 2004; Goyal, Vin and Cheng 1996",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Sfq::new()),
};

/// Virtual time: ns of disk time at the largest weight; 128 bits hold 10^18 years of the smallest.
pub(super) type Tag = u128;

/// Streams by their tags, whatever a piece costs.
pub(super) struct Tags {
    /// Ready streams by the start tag of their next piece.
    pub(super) order: StreamOrder<Tag>,
    /// Each stream's last finish tag; its next start tag while it is ready.
    finish: Vec<Tag>,
    pub(super) virtual_time: Tag,
}

impl Tags {
    pub(super) fn new() -> Self {
        Self { order: StreamOrder::default(), finish: Vec::new(), virtual_time: 0 }
    }

    fn finish(&mut self, id: StreamId) -> &mut Tag {
        let slot = id.0 as usize;
        if slot >= self.finish.len() {
            self.finish.resize(slot + 1, 0);
        }
        &mut self.finish[slot]
    }

    pub(super) fn place(&mut self, stream: StreamView<'_>) {
        let (id, now) = (stream.id(), self.virtual_time);
        let returns = stream.ready() && !self.order.contains(id);
        let tag = self.finish(id);
        if returns {
            *tag = now.max(*tag);
        }
        let tag = *tag;
        self.order.set(id, stream.ready().then_some(tag));
    }

    /// A piece that costs that goes out; answers its finish tag.
    pub(super) fn goes(&mut self, id: StreamId, cost: Tag) -> Tag {
        let tag = self.finish(id);
        let start = *tag;
        *tag = start + cost;
        self.virtual_time = start.max(self.virtual_time);
        start + cost
    }

    pub(super) fn remove(&mut self, id: StreamId) {
        self.order.set(id, None);
        *self.finish(id) = 0;
    }
}

struct Sfq {
    tags: Tags,
    /// The largest finish tag of what went out.
    finish_max: Tag,
    /// Pieces at the device.
    out: u32,
    /// The picked stream and its piece's estimate: its dispatch follows.
    picked: Option<(StreamId, Duration)>,
}

/// Disk time by weight, rounded down by less than 0.1 ns at the default weight.
fn span(stream: StreamView<'_>, time: Duration) -> Tag {
    Tag::from(time.as_nanos()) * Tag::from(Contract::WEIGHT_MAX)
        / Tag::from(stream.contract().weight)
}

impl Sfq {
    fn new() -> Self {
        Self { tags: Tags::new(), finish_max: 0, out: 0, picked: None }
    }
}

impl Policy for Sfq {
    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        let Some((_, id)) = self.tags.order.first() else { return Pick::Nothing };
        let head = streams.get(id).and_then(StreamView::head);
        self.picked = head.map(|head| (id, head.estimate));
        Pick::Stream(id)
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.out += 1;
        if let Some((id, estimate)) = self.picked.take().filter(|(id, _)| *id == stream.id()) {
            let finish = self.tags.goes(id, span(stream, estimate));
            self.finish_max = finish.max(self.finish_max);
        }
        self.tags.place(stream);
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        self.out -= 1;
        let (more, less) = (span(stream, piece.charge), span(stream, piece.estimate));
        let now = self.tags.virtual_time;
        let finish = self.tags.finish(stream.id());
        *finish = (*finish + more).saturating_sub(less).max(now);
        let finish = *finish;
        self.finish_max = finish.max(self.finish_max);
        self.tags.place(stream);
        if self.out == 0 && self.tags.order.is_empty() {
            self.tags.virtual_time = now.max(self.finish_max);
        }
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.tags.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.tags.remove(stream);
    }
}
