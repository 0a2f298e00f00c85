//! mClock (Gulati, Merchant & Varman 2010): reservations, limits and weights in requests per second.
//!
//! Each request has a reservation tag, 1/r after its stream's previous one or at its arrival if that
//! is later, and a weight tag, 1/w after the previous one. If the earliest reservation tag is due,
//! that request goes; else the one with the smallest weight tag, and then the stream's reservation
//! tags move back by 1/r, so that only what went on reservations counts against them. A stream that
//! was idle joins at the smallest weight tag of the others. A request of S bytes counts as
//! 1 + S/300 kB, the paper's reference disk (5 ms at 60 MB/s), and requests of a stream within
//! 4 MiB of each other go as a batch of up to 8.
//!
//! Guarantees: a stream that stays ready gets its reserved requests per second as long as the device
//! does that many in all, its weight's part of what is left, and not more than its limit. All of
//! it in requests: the device time of a request is charged to no stream, only its size counts.
//!
//! r is the reserved share of the nominal requests per second, and each piece counts. The engine
//! holds the limits, in place of the paper's limit tags: a bucket of a second that counts pieces,
//! whatever their size. Left out: the extra credit of idle streams (σ, 0 in the paper unless set),
//! and dmClock. Tags are made when a piece comes to its queue's head, from the arrival of its
//! request; and weight tags are compared with each other only, never with the clock, to which the
//! paper shifts them. A pick is O(log n).

use alloc::boxed::Box;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, Policy, PolicyEntry};
use disktime_core::{
    Contract, Head, Instant, Request, Share, StreamId, StreamOrder, StreamView, Streams,
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "mclock",
    doc: "reserved requests per second when due, the rest by weight",
    source: "Gulati, Merchant and Varman, OSDI 2010",
    currency: Currency::Requests,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(MClock::new()),
};

/// T·B of the paper's reference disk: so many bytes cost as much as positioning for them.
const BYTES_PER_REQUEST: u128 = 300_000;
/// Requests this close to the last one of their stream, in bytes, join its batch.
const NEAR: u64 = 4 << 20;
/// Requests in a batch.
const BATCH: u32 = 8;

/// Time in ns, or weight tags in ns at the largest weight.
type Tag = u128;

/// Tags of what a stream was served last.
#[derive(Clone, Copy, Default)]
struct Tags {
    reserve: Tag,
    weight: Tag,
}

#[derive(Clone, Copy)]
struct Picked {
    stream: StreamId,
    /// It goes because its reservation is due.
    due: bool,
    /// The tags of the piece.
    tags: Tags,
    /// 1/r for it.
    reserve_span: Tag,
    /// Requests that may follow it in its batch.
    batch_left: u32,
}

struct MClock {
    /// Ready streams with a reservation.
    reserved: StreamOrder<Tag>,
    /// All ready streams.
    weighted: StreamOrder<Tag>,
    tags: Vec<Tags>,
    /// The smallest weight tag so far of a stream with work.
    weight_min: Tag,
    /// By request.
    arrivals: Vec<Instant>,
    picked: Option<Picked>,
    /// The request that went out last.
    last: Option<Picked>,
}

/// The cost of a piece, in ns of the nominal rate: the engine's estimate is one request of it.
fn cost(head: &Head) -> Tag {
    let one = Tag::from(head.estimate.as_nanos());
    one + one * Tag::from(head.bytes) / BYTES_PER_REQUEST
}

/// 1/r for the next piece, if anything is reserved.
fn reserve_span(stream: StreamView<'_>, head: &Head) -> Option<Tag> {
    let reserve = stream.contract().reserve;
    let parts = Tag::from(reserve.ppm());
    (reserve > Share::ZERO).then(|| cost(head) * Tag::from(Share::PARTS) / parts)
}

/// 1/w for the next piece.
fn weight_span(stream: StreamView<'_>, head: &Head) -> Tag {
    cost(head) * Tag::from(Contract::WEIGHT_MAX) / Tag::from(stream.contract().weight)
}

impl MClock {
    fn new() -> Self {
        Self {
            reserved: StreamOrder::default(),
            weighted: StreamOrder::default(),
            tags: Vec::new(),
            weight_min: 0,
            arrivals: Vec::new(),
            picked: None,
            last: None,
        }
    }

    fn tags(&mut self, id: StreamId) -> &mut Tags {
        let slot = id.0 as usize;
        if slot >= self.tags.len() {
            self.tags.resize(slot + 1, Tags::default());
        }
        &mut self.tags[slot]
    }

    /// The tags of the next piece.
    fn next_tags(&mut self, stream: StreamView<'_>, head: &Head) -> Tags {
        let arrived = self.arrivals.get(head.request.0 as usize).copied().unwrap_or_default();
        let last = *self.tags(stream.id());
        let span = reserve_span(stream, head).unwrap_or(0);
        let reserve = (last.reserve + span).max(Tag::from(arrived.as_nanos()));
        Tags { reserve, weight: last.weight + weight_span(stream, head) }
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id();
        let head = stream.head().filter(|_| stream.ready());
        let tags = head.map(|head| self.next_tags(stream, &head));
        let reserves = stream.contract().reserve > Share::ZERO;
        self.reserved.set(id, tags.filter(|_| reserves).map(|tags| tags.reserve));
        self.weighted.set(id, tags.map(|tags| tags.weight));
    }

    /// An idle stream has work: it joins at the smallest weight tag.
    fn wake(&mut self, stream: StreamView<'_>) {
        self.note_weight_min();
        let span = stream.head().map_or(0, |head| weight_span(stream, &head));
        let floor = self.weight_min.saturating_sub(span);
        let tags = self.tags(stream.id());
        tags.weight = tags.weight.max(floor);
    }

    fn note_weight_min(&mut self) {
        let first = self.weighted.first().map_or(0, |(tag, _)| tag);
        self.weight_min = self.weight_min.max(first);
    }

    /// The stream that was served last, if its next piece belongs to the batch.
    fn goes_on(&self, streams: Streams<'_>) -> Option<(StreamId, bool, u32)> {
        let last = self.last.filter(|last| last.batch_left > 0)?;
        let stream = streams.get(last.stream).filter(|stream| stream.ready())?;
        let (head, (_, end)) = (stream.head()?, stream.last_piece()?);
        let near = head.offset.abs_diff(end) <= NEAR;
        near.then_some((last.stream, last.due, last.batch_left - 1))
    }
}

impl Policy for MClock {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, request: &Request) {
        let slot = request.id.0 as usize;
        if slot >= self.arrivals.len() {
            self.arrivals.resize(slot + 1, Instant::ZERO);
        }
        self.arrivals[slot] = now;
        if stream.queued() == 1 {
            self.wake(stream);
            self.place(stream);
        }
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        self.note_weight_min();
        let now = Tag::from(now.as_nanos());
        let due = self.reserved.first().filter(|(tag, _)| *tag <= now);
        let new =
            due.or_else(|| self.weighted.first()).map(|(_, id)| (id, due.is_some(), BATCH - 1));
        let Some((id, due, batch_left)) = self.goes_on(streams).or(new) else {
            return Pick::Nothing;
        };
        let stream = streams.get(id);
        self.picked = stream.and_then(|stream| stream.head().map(|head| (stream, head))).map(
            |(stream, head)| Picked {
                stream: id,
                due,
                tags: self.next_tags(stream, &head),
                reserve_span: reserve_span(stream, &head).unwrap_or(0),
                batch_left,
            },
        );
        Pick::Stream(id)
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        let picked = self.picked.take().filter(|picked| picked.stream == stream.id());
        if let Some(Picked { due, tags, reserve_span, .. }) = picked {
            let back = if due { 0 } else { reserve_span };
            let reserve = tags.reserve.saturating_sub(back);
            *self.tags(stream.id()) = Tags { reserve, weight: tags.weight };
        }
        self.last = picked;
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.reserved.set(stream, None);
        self.weighted.set(stream, None);
        *self.tags(stream) = Tags::default();
        self.last = self.last.filter(|last| last.stream != stream);
    }
}
