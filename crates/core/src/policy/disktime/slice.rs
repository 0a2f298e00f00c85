//! A slice: the time for which a stream owns the device.

use crate::policy::PieceDone;
use crate::types::ids::StreamId;
use crate::types::ratio::scaled;
use crate::types::request::Kind;
use crate::types::time::{Duration, Instant};

/// Time and modelled time of pieces.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) took: i64,
    pub(super) modelled: i64,
    pub(super) pieces: i64,
}

impl Sum {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            took: self.took - before.took,
            modelled: self.modelled - before.modelled,
            pieces: self.pieces - before.pieces,
        }
    }
}

/// The time without guests in a stretch of time. A host is up for longer than anybody waits for what such time saved up:
/// at the end of [`PROBED`] half of both is forgotten.
#[derive(Default)]
pub(super) struct Probes {
    pub(super) time: Duration,
    since: Instant,
}

/// Long enough for the slice by which a part is exceeded, a third of a second, to be little of a fiftieth of it.
const PROBED: Duration = Duration::from_secs(100);

impl Probes {
    pub(super) fn begin(&mut self, now: Instant) {
        if self.since == Instant::ZERO {
            self.since = now;
        }
    }

    pub(super) fn add(&mut self, now: Instant, time: Duration) {
        self.time += time;
        let (passed, half) = (now.since(self.since).as_nanos(), PROBED.as_nanos() / 2);
        if passed > 2 * half {
            self.time = Duration::from_nanos(scaled(self.time.as_nanos(), half, passed));
            self.since = now - Duration::from_nanos(half);
        }
    }

    /// Whether it is less than one part in so many, and 20 ms.
    pub(super) fn is_below(&self, now: Instant, part: u64) -> bool {
        let most = now.since(self.since).as_nanos() / part;
        self.time < Duration::from_millis(20) + Duration::from_nanos(most)
    }
}

#[derive(Default)]
pub(super) struct Slice {
    pub(super) owner: StreamId,
    pub(super) began: Instant,
    pub(super) length: Duration,
    /// The disk time that the owner had used before.
    pub(super) used: i64,
    /// Others' pieces are at the device, or were in the open window.
    pub(super) mixed: bool,
    /// They were at some time.
    pub(super) was_mixed: bool,
    /// Guests wait until its owner's pace is seen.
    pub(super) quiet: bool,
    /// Its owner was behind by more than the slice when that began, or about to break its bound.
    pub(super) behind: bool,
    /// No pieces go out any more.
    pub(super) ends: bool,
    /// The owner's writes since the device was flushed, if slices end with that.
    pub(super) unflushed: i64,
    /// Since when the owner has the device to itself, and its pieces since then, beginning and end included.
    since: Instant,
    pub(super) clean: Sum,
    /// The sum when the beginning of that was over, and when the slice's end began.
    settled: Option<Sum>,
    ended: Option<Sum>,
    /// The pieces of the slice's beginning.
    pub(super) beginning: Option<Sum>,
}

impl Slice {
    pub(super) fn new(owner: StreamId, now: Instant, length: Duration, mixed: bool) -> Self {
        Self { owner, began: now, since: now, length, mixed, was_mixed: mixed, ..Self::default() }
    }

    /// One of the owner's pieces came back, while no other stream's was there.
    pub(super) fn piece(&mut self, now: Instant, piece: &PieceDone, in_flight: u32) {
        let half = now.since(self.since).as_nanos() > self.length.as_nanos() / 2;
        if self.settled.is_none() && half && self.clean.pieces > i64::from(in_flight) {
            self.settled = Some(self.clean);
            self.beginning = self.beginning.or(self.settled.filter(|_| !self.was_mixed));
        }
        self.clean.took += piece.took.as_tokens();
        self.clean.modelled += piece.modelled.as_tokens();
        self.clean.pieces += 1;
    }

    /// A piece of the owner was of that kind.
    pub(super) fn wrote(&mut self, kind: Kind) {
        let before = if kind == Kind::Flush { 0 } else { self.unflushed };
        self.unflushed = before + i64::from(kind.writes());
    }

    /// As [`middle`](Self::middle), which begins again.
    pub(super) fn take_middle(&mut self) -> Option<Sum> {
        let middle = self.middle()?;
        self.settled = Some(self.clean);
        Some(middle)
    }

    /// Another stream's piece goes out. Answers what was seen of the owner's pace before.
    pub(super) fn mix(&mut self) -> Option<Sum> {
        if self.mixed {
            return None;
        }
        let middle = self.middle();
        (self.mixed, self.was_mixed) = (true, true);
        (self.clean, self.settled, self.ended) = (Sum::default(), None, None);
        middle
    }

    /// The owner has the device to itself again. If that is `settled`, its pieces take what they take alone.
    pub(super) fn clear(&mut self, now: Instant, settled: bool) {
        if core::mem::take(&mut self.mixed) {
            self.since = now;
            self.settled = settled.then_some(self.clean);
        }
    }

    pub(super) fn end(&mut self) {
        self.ends = true;
        self.stop();
    }

    /// Pieces that come back from now on drain the device, and show no pace.
    pub(super) fn stop(&mut self) {
        self.ended.get_or_insert(self.clean);
    }

    /// Whether its owner's pieces take what they take alone: if its beginning is over, they do until its end.
    pub(super) fn is_steady(&self) -> Option<bool> {
        self.settled.map(|_| self.ended.is_none() && !self.mixed)
    }

    /// The pieces since the end began, if no other stream's were there.
    pub(super) fn drained(&self) -> Option<Sum> {
        let before = self.ended.filter(|_| !self.mixed && self.settled.is_some())?;
        Some(self.clean.since(before))
    }

    /// The owner's pieces while it had the device to itself, without beginning and end.
    pub(super) fn middle(&self) -> Option<Sum> {
        let middle = self.ended.unwrap_or(self.clean).since(self.settled?);
        (middle.pieces > 0 && middle.modelled > 0).then_some(middle)
    }
}
