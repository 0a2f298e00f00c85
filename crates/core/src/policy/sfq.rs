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

use super::edf::Order;
use super::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use crate::contract::Contract;
use crate::request::{Request, StreamId};
use crate::stream::{StreamView, Streams};
use crate::time::{Duration, Instant};

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
type Tag = u128;

struct Sfq {
    /// Ready streams by the start tag of their next piece.
    order: Order<Tag>,
    /// Each stream's last finish tag; its next start tag while it is ready.
    tags: Vec<Tag>,
    virtual_time: Tag,
    /// The largest finish tag of what went out.
    finish_max: Tag,
    /// Pieces at the device.
    out: u32,
    /// What was picked, and its estimate: its dispatch follows.
    picked: Option<(StreamId, Duration)>,
}

/// Disk time by weight, rounded down by less than 0.1 ns at the default weight.
fn span(stream: StreamView<'_>, time: Duration) -> Tag {
    Tag::from(time.as_nanos()) * Tag::from(Contract::WEIGHT_MAX)
        / Tag::from(stream.contract().weight)
}

impl Sfq {
    const fn new() -> Self {
        Self {
            order: Order::new(),
            tags: Vec::new(),
            virtual_time: 0,
            finish_max: 0,
            out: 0,
            picked: None,
        }
    }

    fn tag(&mut self, id: StreamId) -> &mut Tag {
        let slot = id.0 as usize;
        if slot >= self.tags.len() {
            self.tags.resize(slot + 1, 0);
        }
        &mut self.tags[slot]
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let (id, now) = (stream.id(), self.virtual_time);
        let returns = stream.ready() && !self.order.contains(id);
        let tag = self.tag(id);
        if returns {
            *tag = now.max(*tag);
        }
        let tag = *tag;
        self.order.set(id, stream.ready().then_some(tag));
    }
}

impl Policy for Sfq {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            self.place(stream);
        }
    }

    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        let Some((_, id)) = self.order.first() else { return Pick::Nothing };
        let head = streams.get(id).and_then(StreamView::head);
        self.picked = head.map(|head| (id, head.estimate));
        Pick::Stream(id)
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.out += 1;
        if let Some((id, estimate)) = self.picked.take().filter(|(id, _)| *id == stream.id()) {
            let start = *self.tag(id);
            let finish = start + span(stream, estimate);
            *self.tag(id) = finish;
            self.virtual_time = start.max(self.virtual_time);
            self.finish_max = finish.max(self.finish_max);
        }
        self.place(stream);
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        self.out -= 1;
        let (more, less) = (span(stream, piece.charge), span(stream, piece.estimate));
        let now = self.virtual_time;
        let finish = (*self.tag(stream.id()) + more).saturating_sub(less).max(now);
        *self.tag(stream.id()) = finish;
        self.finish_max = self.finish_max.max(finish);
        self.place(stream);
        if self.out == 0 && self.order.is_empty() {
            self.virtual_time = self.virtual_time.max(self.finish_max);
        }
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.order.set(stream, None);
        *self.tag(stream) = 0;
    }
}
