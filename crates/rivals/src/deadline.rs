//! The deadline elevator of Linux (`mq-deadline`): sorted batches of reads or writes, and no request
//! forgotten for long.
//!
//! A batch is up to 16 pieces of one direction, in ascending order of offset over all streams. Then
//! reads go first, until writes have stood back for two batches. The next batch goes on where the
//! last one ended; if the direction changed, if nothing lies ahead, or if the oldest request of that
//! direction has waited for longer than 500 ms (reads) or 5 s (writes), it starts at the oldest.
//!
//! Guarantees: nothing to a stream, whose share is what it sends. Deadlines are soft: what expires
//! starts the next batch of its direction, and where many have expired, each batch saves one of them
//! and sweeps on from there.
//!
//! Requests that read (caching included) are reads, all others writes; a flush is sorted at its
//! stated offset, where Linux sends it past the elevator. A piece counts as Linux's request. Left
//! out: merging (clients send requests as large as they want them), priorities and their aging,
//! zones. A pick is O(log n); requests of streams that their limit or depth holds back, which Linux
//! doesn't have, are stepped over one by one.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Instant, Kind, Request, RequestId, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "deadline",
    doc: "sorted batches of 16 reads or writes; reads first, what waited too long starts a batch",
    source: "Linux, block/mq-deadline.c",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: true,
    holds: false,
    build: || Box::new(Deadline::default()),
};

const READ: usize = 0;
const WRITE: usize = 1;

/// How long a request may wait before it starts a batch.
const EXPIRY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];

/// Pieces of a batch.
const BATCH: u32 = 16;

/// Batches of reads that may go while writes wait.
const WRITES_STARVED: u32 = 2;

/// Offset, and order of arrival.
type Place = (u64, u64);

#[derive(Clone, Copy)]
struct Waiting {
    request: RequestId,
    stream: StreamId,
    offset: u64,
    expires: Instant,
}

/// Requests that wait in one direction.
#[derive(Default)]
struct Direction {
    sorted: BTreeMap<Place, Waiting>,
    /// By order of arrival.
    fifo: BTreeMap<u64, Waiting>,
}

#[derive(Clone, Copy, Default)]
struct Batch {
    direction: usize,
    /// Where its last piece was; `None` before the first batch.
    at: Option<Place>,
    pieces: u32,
    /// Batches of reads that have gone while writes waited.
    starved: u32,
}

#[derive(Default)]
struct Deadline {
    waiting: [Direction; 2],
    places: BTreeMap<RequestId, (usize, Place)>,
    arrivals: u64,
    batch: Batch,
    /// How the batch stands when the piece that was picked has gone out.
    picked: Option<(StreamId, Batch)>,
}

fn is_ready(streams: Streams<'_>, waiting: &Waiting) -> bool {
    streams.get(waiting.stream).is_some_and(StreamView::ready)
}

impl Deadline {
    /// The next at or after the batch's last piece, if it has this direction.
    fn ahead(&self, direction: usize, streams: Streams<'_>) -> Option<(Place, Waiting)> {
        let at = self.batch.at.filter(|_| self.batch.direction == direction)?;
        let mut ahead = self.waiting[direction].sorted.range(at..);
        ahead.find(|(_, waiting)| is_ready(streams, waiting)).map(|(at, waiting)| (*at, *waiting))
    }

    fn oldest(&self, direction: usize, streams: Streams<'_>) -> Option<(Place, Waiting)> {
        let mut fifo = self.waiting[direction].fifo.iter();
        let (order, waiting) = fifo.find(|(_, waiting)| is_ready(streams, waiting))?;
        Some(((waiting.offset, *order), *waiting))
    }

    fn choose(&self, now: Instant, streams: Streams<'_>) -> Option<(Waiting, Batch)> {
        let Batch { direction, pieces, starved, .. } = self.batch;
        if let Some((at, next)) = self.ahead(direction, streams).filter(|_| pieces < BATCH) {
            let batch = Batch { at: Some(at), pieces: pieces + 1, ..self.batch };
            return Some((next, batch));
        }
        let [reads, writes] = [READ, WRITE].map(|direction| self.oldest(direction, streams));
        let (direction, oldest, starved) = match (reads, writes) {
            (Some(_), Some(write)) if starved >= WRITES_STARVED => (WRITE, write, 0),
            (Some(read), Some(_)) => (READ, read, starved + 1),
            (Some(read), None) => (READ, read, starved),
            (None, Some(write)) => (WRITE, write, 0),
            (None, None) => return None,
        };
        let expired = oldest.1.expires <= now;
        let ahead = self.ahead(direction, streams).filter(|_| !expired);
        let (at, next) = ahead.unwrap_or(oldest);
        Some((next, Batch { direction, at: Some(at), pieces: 1, starved }))
    }
}

impl Policy for Deadline {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, request: &Request) {
        let direction = match request.kind {
            Kind::Read | Kind::Cache => READ,
            Kind::Write | Kind::Flush | Kind::Trim | Kind::Zeroes => WRITE,
        };
        let (offset, order) = (request.offset, self.arrivals);
        self.arrivals += 1;
        let expires = now + EXPIRY[direction];
        let waiting = Waiting { request: request.id, stream: stream.id(), offset, expires };
        self.waiting[direction].sorted.insert((offset, order), waiting);
        self.waiting[direction].fifo.insert(order, waiting);
        self.places.insert(request.id, (direction, (offset, order)));
    }

    fn left(&mut self, _now: Instant, _stream: StreamId, request: RequestId) {
        let Some((direction, place)) = self.places.remove(&request) else { return };
        self.waiting[direction].sorted.remove(&place);
        self.waiting[direction].fifo.remove(&place.1);
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        let Some((next, batch)) = self.choose(now, streams) else { return Pick::Nothing };
        self.picked = Some((next.stream, batch));
        Pick::Request(next.request)
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        let picked = self.picked.take().filter(|(id, _)| *id == stream.id());
        self.batch = picked.map_or(self.batch, |(_, batch)| batch);
    }

    fn completed(&mut self, _now: Instant, _stream: StreamView<'_>, _piece: &PieceDone) {}

    fn changed(&mut self, _now: Instant, _stream: StreamView<'_>) {}

    fn removed(&mut self, _now: Instant, _stream: StreamId) {}
}
