//! Sequential streams at many places: what a byte and what a request take.
//!
//! At each place requests of 128 KiB, then 1 MiB, then 4 KiB follow one another without a gap, each size
//! for its part of the time. They are timed from completion to completion: the first ones, which
//! position, don't count. Writes begin at the place again and end with a flush, which counts.

use super::places::{aligned, float, spread};
use crate::asked::{BLOCK_BYTES, Done, Issue};
use disktime_core::{Duration, Instant, Kind};
use disktime_workload::IoOp;

/// Most places. Each has room for its streams.
const PLACES_MAX: u64 = 96;
const PLACE_BYTES_MIN: u64 = 8 << 20;
/// The size that admission reckons with: what a disk without a write cache loses between two requests
/// depends on where the head is by then, so other sizes don't tell.
const STREAM_BYTES: u64 = 128 << 10;
/// Requests that position, and get the reading ahead going.
const WARM_UP: u32 = 2;
/// The runs at each place; shares of its time in percent, less than all: positioning and the last
/// request of each come on top.
const READS: [Run; 3] = [
    Run { kind: Kind::Read, bytes: STREAM_BYTES, percent: 35 },
    Run { kind: Kind::Read, bytes: 1 << 20, percent: 35 },
    Run { kind: Kind::Read, bytes: BLOCK_BYTES, percent: 12 },
];
const BOTH: [Run; 5] = [
    Run { kind: Kind::Read, bytes: STREAM_BYTES, percent: 20 },
    Run { kind: Kind::Read, bytes: 1 << 20, percent: 20 },
    Run { kind: Kind::Read, bytes: BLOCK_BYTES, percent: 6 },
    Run { kind: Kind::Write, bytes: STREAM_BYTES, percent: 15 },
    Run { kind: Kind::Write, bytes: 1 << 20, percent: 15 },
];

/// Requests of one kind and size, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    bytes: u64,
    percent: u64,
}

/// The times of requests of one kind and size at a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) requests: u32,
    /// All of them together, from completion to completion.
    pub(super) ns: f64,
    /// The longest of them, from issue to completion.
    pub(super) ns_max: f64,
}

/// The measurements at a place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) timed: Vec<Timed>,
}

#[derive(Debug)]
pub(super) struct Streams {
    runs: &'static [Run],
    spacing: u64,
    /// Places still to visit, the next one last.
    left: Vec<u64>,
    count: usize,
    place_ns: f64,
    here: Option<Here>,
    found: Vec<Place>,
}

/// A visit to a place.
#[derive(Debug)]
struct Here {
    place: Place,
    run: usize,
    cursor: u64,
    warm_up: u32,
    /// When the run's first counted request began: the completion before.
    begin: Instant,
    requests: u32,
    ns_max: f64,
    flushing: bool,
}

impl Streams {
    /// Streams over a device of `size` bytes that shall take `left` altogether.
    pub(super) fn new(size: u64, writes: bool, left: Duration) -> Self {
        let count = (size / PLACE_BYTES_MIN).clamp(1, PLACES_MAX);
        let spacing = size / count;
        let count = usize::try_from(count).unwrap_or(1);
        let mut order: Vec<u64> =
            spread(count, 0).map(|index| aligned(index as u64 * spacing)).collect();
        order.reverse();
        Self {
            runs: if writes { &BOTH } else { &READS },
            spacing,
            left: order,
            count,
            place_ns: float(left.as_nanos()) / float(count as u64),
            here: None,
            found: Vec::new(),
        }
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<Issue> {
        if self.here.as_ref().is_some_and(|here| here.run >= self.runs.len()) {
            self.found.extend(self.here.take().map(|here| here.place));
        }
        if self.here.is_none() {
            let offset = self.left.pop()?;
            self.here = Some(Here::new(offset, now));
        }
        let here = self.here.as_ref()?;
        let Run { kind, bytes, .. } = self.runs[here.run];
        let op = match here.flushing {
            true => IoOp { kind: Kind::Flush, offset: 0, bytes: 0 },
            false => IoOp { kind, offset: here.cursor, bytes },
        };
        Some(Issue { at: now, op })
    }

    pub(super) fn completed(&mut self, done: Done) {
        let Some(here) = &mut self.here else { return };
        let Run { kind, bytes, percent } = self.runs[here.run];
        if done.op.kind == Kind::Flush {
            here.end_run(kind, bytes, done.at);
            here.again(self.runs);
            return;
        }
        here.cursor += bytes;
        if here.warm_up > 0 {
            here.warm_up -= 1;
            here.begin = done.at;
        } else {
            here.requests += 1;
            here.ns_max = here.ns_max.max(float(done.took.as_nanos()));
        }
        let long_enough =
            float(done.at.since(here.begin).as_nanos()) * 100.0 >= self.place_ns * float(percent);
        let room =
            self.spacing / if kind == Kind::Read { self.runs.len().min(3) as u64 } else { 1 };
        let begun = here.place.offset
            + if kind == Kind::Read { room * (here.run as u64 + 1) } else { room };
        let full = here.cursor + bytes > begun;
        if (long_enough && here.requests >= 2) || full {
            if kind == Kind::Write {
                here.flushing = true;
            } else {
                here.end_run(kind, bytes, done.at);
                here.again(self.runs);
            }
        }
    }

    pub(super) fn part(&self) -> f64 {
        float(self.found.len() as u64) / float(self.count as u64)
    }

    /// In order of place.
    pub(super) fn finish(mut self) -> Vec<Place> {
        self.found.extend(self.here.take().map(|here| here.place));
        self.found.retain(|place| !place.timed.is_empty());
        self.found.sort_by_key(|place| place.offset);
        self.found
    }
}

impl Here {
    fn new(offset: u64, now: Instant) -> Self {
        Self {
            place: Place { offset, end: offset, timed: Vec::new() },
            run: 0,
            cursor: offset,
            warm_up: WARM_UP,
            begin: now,
            requests: 0,
            ns_max: 0.0,
            flushing: false,
        }
    }

    fn end_run(&mut self, kind: Kind, bytes: u64, now: Instant) {
        self.place.end = self.place.end.max(self.cursor);
        if self.requests > 0 {
            let ns = float(now.since(self.begin).as_nanos());
            let Self { requests, ns_max, .. } = *self;
            self.place.timed.push(Timed { kind, bytes, requests, ns, ns_max });
        }
        self.begin = now;
        self.requests = 0;
        self.ns_max = 0.0;
        self.flushing = false;
        self.run += 1;
    }

    /// Writes begin where the place does; reads go on where the last ones ended.
    fn again(&mut self, runs: &[Run]) {
        if runs.get(self.run).is_some_and(|run| run.kind == Kind::Write) {
            self.cursor = self.place.offset;
            self.warm_up = 1;
        }
    }
}
