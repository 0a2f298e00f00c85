//! C-SCAN with per-stream batches: what an operating system's elevator does for its streams.
//!
//! Requests go out in ascending order of offset from the head's position, then from the start
//! again. Within a sweep the stream that is being served keeps the device for a batch, as long as
//! its next request lies ahead and near; then the sweep goes on with the next stream. No stream is
//! promised anything but its turn.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Instant, Request, RequestId, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    doc: "C-SCAN over all streams, each served for a batch of 1 MiB while it goes on in sequence",
    ..elevator_with_batch::<{ 1 << 20 }>()
};

/// Policy `elevator` with another batch: bytes of one stream before the sweep goes on.
#[must_use]
pub const fn elevator_with_batch<const BATCH: u64>() -> PolicyEntry {
    PolicyEntry {
        name: "elevator",
        doc: "C-SCAN over all streams, each served for a batch while it goes on in sequence",
        source: "the kernel's elevator under missed-deadline notification, section 5",
        currency: Currency::Time,
        keeps_reservations: false,
        reorders: true,
        holds: false,
        build: || Box::new(Elevator::<BATCH>::default()),
    }
}

/// Where a queued request is.
type Place = (u64, RequestId);

#[derive(Default)]
struct Elevator<const BATCH: u64> {
    /// All queued requests by offset, with their streams.
    sweep: BTreeMap<Place, StreamId>,
    /// Each stream's queued requests by offset.
    streams: BTreeMap<StreamId, BTreeSet<Place>>,
    places: BTreeMap<RequestId, Place>,
    /// Where the last piece ended.
    head: u64,
    /// The stream being served, and how much of its batch is left.
    batch: Option<(StreamId, u64)>,
}

impl<const BATCH: u64> Elevator<BATCH> {
    /// The next request of the stream being served: it continues exactly where the head is.
    fn continues(&self, streams: Streams<'_>) -> Option<Place> {
        let (stream, left) = self.batch?;
        let next = self.streams.get(&stream)?.range((self.head, RequestId(0))..).next()?;
        let goes_on = left > 0 && next.0 == self.head;
        (goes_on && is_ready(streams, stream)).then_some(*next)
    }

    /// The first request ahead of the head, or from the start, of a stream that is ready.
    fn sweeps(&self, streams: Streams<'_>) -> Option<Place> {
        let from = (self.head, RequestId(0));
        let ahead = self.sweep.range(from..).chain(self.sweep.range(..from));
        let mut ready = ahead.filter(|(_, stream)| is_ready(streams, **stream));
        let served = self.batch.map(|(stream, _)| stream);
        let first = ready.next()?;
        // A stream that has had its batch lets the next stream go first, if another one is ready.
        let other =
            Some(first).into_iter().chain(ready).find(|(_, stream)| Some(**stream) != served);
        Some(*other.unwrap_or(first).0)
    }
}

fn is_ready(streams: Streams<'_>, stream: StreamId) -> bool {
    streams.get(stream).is_some_and(StreamView::ready)
}

impl<const BATCH: u64> Policy for Elevator<BATCH> {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, request: &Request) {
        let place = (request.offset, request.id);
        self.sweep.insert(place, stream.id());
        self.streams.entry(stream.id()).or_default().insert(place);
        self.places.insert(request.id, place);
    }

    fn left(&mut self, _now: Instant, stream: StreamId, request: RequestId) {
        let Some(place) = self.places.remove(&request) else { return };
        self.sweep.remove(&place);
        if let Some(places) = self.streams.get_mut(&stream) {
            places.remove(&place);
        }
    }

    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        if let Some((_, request)) = self.continues(streams) {
            return Pick::Request(request);
        }
        let Some((_, request)) = self.sweeps(streams) else { return Pick::Nothing };
        Pick::Request(request)
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        let Some((start, end)) = stream.last_piece() else { return };
        let left = match self.batch {
            Some((served, left)) if served == stream.id() && start == self.head => left,
            _ => BATCH,
        };
        self.head = end;
        self.batch = Some((stream.id(), left.saturating_sub(end - start)));
    }

    fn completed(&mut self, _now: Instant, _stream: StreamView<'_>, _piece: &PieceDone) {}

    fn changed(&mut self, _now: Instant, _stream: StreamView<'_>) {}

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.streams.remove(&stream);
    }
}
