//! A hard disk: service = overhead + seek + rotational wait + transfer + the switches crossed.
//!
//! One operation is served at a time, out of a queue inside the disk. After a read the head goes on
//! reading ahead until a segment is full; a read that continues there is served from the buffer or
//! waits for the head, with no new seek and no lost revolution. Electronics, arm and spindle are on
//! one timeline; the spindle's angle is a function of time.
//!
//! Sources: Ruemmler & Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994;
//! Worthington, Ganger, Patt & Wilkes, "On-line extraction of SCSI disk drive parameters",
//! SIGMETRICS 1995.
//!
//! Does not know: write-back. Every write goes through to the medium, so FUA changes nothing, a
//! flush has nothing to do, and sequential writes one at a time lose a revolution each, as they do
//! on a disk with its write cache off. Nor defects, or the time of the bus where it overlaps with
//! the medium.

mod cache;
mod geometry;
mod mechanics;
mod queue;
mod seek;
#[cfg(test)]
mod tests;

pub use geometry::{Geometry, Layout, SECTOR_BYTES, SkewPermille, Taper, Zone};
pub use queue::Order;
pub use seek::{PublishedSeek, SeekCurve, SeekTable, SeekTableError};

use crate::device::{Completion, Device, Op};
use cache::Segments;
use disktime_core::{Duration, Instant, Kind};
use geometry::Extent;
use mechanics::{Head, Intent, Mechanics};
use queue::Waiting;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// What makes one disk differ from another.
#[derive(Clone, Debug)]
pub struct DiskSpec {
    /// Where its sectors lie and how fast it turns.
    pub geometry: Geometry,
    /// How long the arm moves.
    pub seek: SeekCurve,
    /// Time to switch to another surface of the same cylinder.
    pub head_switch: Duration,
    /// How much longer a write settles after the head has moved.
    pub write_settle: Duration,
    /// Time in the electronics.
    pub overhead: Overhead,
    /// Rate at which the buffer's content goes to the host, bytes per second.
    pub bus_bytes_per_second: u64,
    /// The buffer for reading ahead.
    pub read_ahead: ReadAhead,
    /// How many operations it holds.
    pub queue_depth: u32,
    /// In which order it serves them.
    pub order: Order,
}

/// Time that a command spends in the electronics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overhead {
    /// Before the arm starts for a command; passes while the arm works for the command before.
    pub media: Duration,
    /// For a command that needs no arm: buffer hits, flushes, trims. More than zero; the bus is extra.
    pub hit: Duration,
}

/// The buffer for reading ahead. Zero segments: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAhead {
    /// How many sequential streams are remembered.
    pub segments: u32,
    /// Bytes of each, and how far ahead of the host the head reads.
    pub segment_bytes: u64,
}

/// A hard disk.
#[derive(Debug)]
pub struct Disk {
    mechanics: Mechanics,
    overhead: Overhead,
    bus_bytes_per_second: u64,
    queue_depth: u32,
    order: Order,
    head: Head,
    /// What the head is reading, unless a write was last.
    ahead: Option<Ahead>,
    segments: Segments,
    /// In order of arrival.
    queue: Vec<Waiting>,
    serving: Option<Completion>,
    /// Done and not yet collected.
    done: Vec<Completion>,
    /// The latest time seen from the caller.
    now: Instant,
}

/// Reading ahead under way. All of `segment` is in the buffer as of the head's time, and the head
/// goes on from `segment.end` until `limit`.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    segment: Extent,
    limit: u64,
}

impl Device for Disk {
    fn capacity_bytes(&self) -> u64 {
        self.mechanics.geometry.sectors() * SECTOR_BYTES
    }

    fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.run_until(now);
        let inside = self.queue.len() + usize::from(self.serving.is_some()) + self.done.len();
        assert!(inside < self.queue_depth as usize, "{op:?} above the queue depth");
        let extent = self.extent_of(op);
        self.queue.push(Waiting { tag, kind: op.kind, extent, arrived: now });
        if self.serving.is_none() {
            self.serve_next(now);
        }
    }

    fn next_completion(&self) -> Option<Instant> {
        self.done.first().or(self.serving.as_ref()).map(|completion| completion.at)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.done);
    }
}

impl Disk {
    /// A disk at rest over its first track; `seed` decides where the spindle is at time zero.
    ///
    /// # Panics
    /// If the spec has no queue, no bus, or an overhead of zero.
    #[must_use]
    pub fn new(spec: DiskSpec, seed: u64) -> Self {
        assert!(spec.queue_depth > 0 && spec.bus_bytes_per_second > 0, "{spec:?}");
        let overhead = spec.overhead;
        assert!(overhead.media > Duration::ZERO && overhead.hit > Duration::ZERO, "{overhead:?}");
        let phase_ns = Pcg64::seed_from_u64(seed).random_range(0..spec.geometry.revolution_ns());
        let segments = Segments::new(
            spec.read_ahead.segments as usize,
            spec.read_ahead.segment_bytes / SECTOR_BYTES,
        );
        Self {
            mechanics: Mechanics {
                geometry: spec.geometry,
                seek: spec.seek,
                head_switch: spec.head_switch,
                write_settle: spec.write_settle,
                phase_ns,
            },
            overhead,
            bus_bytes_per_second: spec.bus_bytes_per_second,
            queue_depth: spec.queue_depth,
            order: spec.order,
            head: Head { cylinder: 0, surface: 0, at: Instant::ZERO },
            ahead: None,
            segments,
            queue: Vec::with_capacity(spec.queue_depth as usize),
            serving: None,
            done: Vec::new(),
            now: Instant::ZERO,
        }
    }

    fn extent_of(&self, op: Op) -> Extent {
        if op.kind == Kind::Flush {
            return Extent { first: 0, end: 0 };
        }
        assert!(op.bytes > 0, "{op:?} is empty");
        let extent = Extent::of_bytes(op.offset, op.bytes);
        assert!(extent.end <= self.mechanics.geometry.sectors(), "{op:?} is past the end");
        extent
    }

    /// Completes what completes by `now`, each time choosing the next at the disk's own time.
    fn run_until(&mut self, now: Instant) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
        while let Some(completion) = self.serving.take_if(|serving| serving.at <= now) {
            self.done.push(completion);
            self.serve_next(completion.at);
        }
    }

    /// Chooses an operation at `picked`, when the disk has got free.
    fn serve_next(&mut self, picked: Instant) {
        self.read_ahead_until(picked);
        let Some(index) =
            self.order.pick(picked, &self.queue, |waiting| self.begins(picked, waiting))
        else {
            return;
        };
        let waiting = self.queue.remove(index);
        let at = match waiting.kind {
            Kind::Read | Kind::Cache => self.read(picked, &waiting),
            Kind::Write | Kind::Zeroes => self.write(picked, &waiting),
            Kind::Flush | Kind::Trim => picked + self.overhead.hit,
        };
        self.serving = Some(Completion { tag: waiting.tag, at });
    }

    fn read(&mut self, picked: Instant, waiting: &Waiting) -> Instant {
        let extent = waiting.extent;
        let hit = picked + self.overhead.hit;
        self.read_ahead_until(hit);
        if self.continues(extent) {
            let from_media = self.follow(hit, extent.end);
            from_media.max(hit + self.bus_time(extent))
        } else if self.segments.holds(extent) {
            self.segments.touch(extent);
            hit + self.bus_time(extent)
        } else {
            self.read_media(self.arm_starts(picked, waiting), extent)
        }
    }

    /// Whether the head has read the extent's beginning, or is about to: at most a track away, and
    /// within what it would read ahead.
    fn continues(&self, extent: Extent) -> bool {
        let Some(Ahead { segment, limit }) = self.ahead else { return false };
        let on_the_way = extent.first.saturating_sub(segment.end);
        (segment.first..=limit).contains(&extent.first)
            && (on_the_way == 0
                || on_the_way < self.mechanics.geometry.locate(segment.end).left_on_track)
    }

    /// Lets the reading ahead go on at least to `end`, and a segment beyond it: when `end` is read.
    fn follow(&mut self, now: Instant, end: u64) -> Instant {
        let Some(Ahead { segment, limit }) = self.ahead else { return now };
        if segment.end == limit {
            // It had stopped: the head waits over its track and takes up again now.
            self.head.at = self.head.at.max(now);
        }
        let mut read_at = now;
        if segment.end < end {
            let extent = Extent { first: segment.end, end };
            self.head = self.mechanics.pass(self.head, extent, Intent::Read);
            read_at = self.head.at;
        }
        let segment = self.segments.kept(Extent { end: segment.end.max(end), ..segment });
        self.ahead = Some(Ahead { segment, limit: limit.max(self.ahead_limit(end)) });
        read_at
    }

    /// Moves the arm to read from the medium, and starts reading ahead behind the extent.
    fn read_media(&mut self, begin: Instant, extent: Extent) -> Instant {
        self.stop_reading_ahead(begin);
        // The buffer may hold the beginning: only the rest is read.
        let empty = Extent { first: extent.first, end: extent.first };
        let held = self.segments.take(extent.first).unwrap_or(empty);
        let rest = Extent { first: held.end, ..extent };
        self.head = self.mechanics.pass(self.head, rest, Intent::Read);
        if !self.segments.is_absent() {
            self.segments.make_room();
            let segment = self.segments.kept(Extent { end: held.end.max(extent.end), ..held });
            let limit = self.ahead_limit(segment.end);
            self.ahead = Some(Ahead { segment, limit });
        }
        self.head.at
    }

    fn write(&mut self, picked: Instant, waiting: &Waiting) -> Instant {
        self.stop_reading_ahead(self.arm_starts(picked, waiting));
        self.segments.forget(waiting.extent);
        self.head = self.mechanics.pass(self.head, waiting.extent, Intent::Write);
        self.head.at
    }

    /// When the arm may start for an operation chosen at `picked`: its decoding overlapped with
    /// what the disk did before.
    fn arm_starts(&self, picked: Instant, waiting: &Waiting) -> Instant {
        picked.max(waiting.arrived + self.overhead.media)
    }

    /// When data would begin to move if the operation were chosen at `picked`.
    fn begins(&self, picked: Instant, waiting: &Waiting) -> Instant {
        let extent = waiting.extent;
        let intent = match waiting.kind {
            Kind::Flush | Kind::Trim => return picked,
            Kind::Read | Kind::Cache => Intent::Read,
            Kind::Write | Kind::Zeroes => Intent::Write,
        };
        if intent == Intent::Read && (self.continues(extent) || self.segments.holds(extent)) {
            return picked;
        }
        let head = Head { at: self.arm_starts(picked, waiting), ..self.head };
        self.mechanics.arrive(head, &self.mechanics.geometry.locate(extent.first), intent)
    }

    /// Brings the reading ahead up to what it has read by `until`.
    fn read_ahead_until(&mut self, until: Instant) {
        let Some(Ahead { segment, limit }) = self.ahead else { return };
        let extent = Extent { first: segment.end, end: limit };
        let (head, end) = self.mechanics.reach(self.head, extent, until);
        self.head = head;
        self.ahead = Some(Ahead { segment: self.segments.kept(Extent { end, ..segment }), limit });
    }

    /// Ends the reading ahead at `begin`, keeps what it has read, and frees the head.
    fn stop_reading_ahead(&mut self, begin: Instant) {
        self.read_ahead_until(begin);
        if let Some(ahead) = self.ahead.take() {
            self.segments.put(ahead.segment);
        }
        self.head.at = self.head.at.max(begin);
    }

    /// Where to stop reading ahead when the host has had everything up to `end`.
    fn ahead_limit(&self, end: u64) -> u64 {
        (end + self.segments.segment_sectors()).min(self.mechanics.geometry.sectors())
    }

    /// Time on the bus, rounded down. No overflow in 128 bits.
    fn bus_time(&self, extent: Extent) -> Duration {
        let nanos =
            u128::from(extent.bytes()) * 1_000_000_000 / u128::from(self.bus_bytes_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
