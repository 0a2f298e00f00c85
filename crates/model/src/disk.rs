//! A hard disk: service = overhead + seek + rotational wait + transfer + the switches crossed.
//!
//! One operation is served at a time, out of a queue inside the disk. After a read, or only after a
//! sequence of two, the head goes on reading ahead until a segment is full; a read that continues
//! there is served from the buffer or waits for the head, with no new seek and no lost revolution.
//! Electronics, arm and spindle are on one timeline; the spindle's angle is a function of time.
//!
//! Writes: with a write cache they are taken into the buffer at bus speed, whatever the arm does,
//! while they fit under the dirty limit. The disk destages them when nothing else is inside and the
//! reading ahead has come to its limit, the nearest or the oldest first, at most a track at a time. A
//! write that finds no room waits for destaging to make it; a flush waits for all of it; FUA, and
//! what is larger than the limit, goes through to the medium.
//!
//! Data that comes off the medium faster than the bus takes it waits for the bus: a read from the
//! medium ends no earlier than its first sector's passing plus its time on the bus. The arm does not
//! wait: it goes to the next operation of the queue once the read before has left the bus (`bus`).
//!
//! Sources: Ruemmler & Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994;
//! Worthington, Ganger, Patt & Wilkes, "On-line extraction of SCSI disk drive parameters",
//! SIGMETRICS 1995.
//!
//! Does not know: defects, recalibration, or contention on the bus between reads and writes. A read that shares only part of its sectors with unwritten ones goes to the
//! medium as if they were there.

mod bus;
mod cache;
mod dirty;
mod geometry;
mod mechanics;
mod queue;
mod seek;
mod spec;
#[cfg(test)]
mod tests;
mod write;

pub use geometry::{Geometry, Layout, SECTOR_BYTES, SkewPermille, Taper, Zone};
pub use queue::Order;
pub use seek::{PublishedSeek, SeekCurve, SeekTable, SeekTableError};
pub use spec::{BusStart, Destage, DiskSpec, Overhead, Prefetch, ReadAhead, Turn, WriteBack};

use crate::device::{Completion, Device, Op};
use bus::{Bus, Served};
use cache::Segments;
use dirty::Dirty;
use disktime_core::{Duration, Instant, Kind};
use geometry::Extent;
use mechanics::{Head, Intent, Mechanics, Track};
use queue::{Sight, Sweep, Waiting};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::VecDeque;

/// A hard disk.
#[derive(Debug)]
pub struct Disk {
    mechanics: Mechanics,
    overhead: Overhead,
    bus: Bus,
    queue_depth: u32,
    order: Order,
    sweep: Sweep,
    head: Head,
    /// The sectors that the head is reading ahead, unless a write was last.
    ahead: Option<Ahead>,
    segments: Segments,
    written: Written,
    /// In order of arrival.
    queue: Vec<Waiting>,
    /// The operation that the arm works for.
    serving: Option<Served>,
    /// Writes on their way into the buffer, in order of time.
    accepted: VecDeque<Completion>,
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
    /// The track that the head passes, if it has not stopped since it came there.
    track: Option<Track>,
}

/// Writes in the buffer, and what they left behind.
#[derive(Debug)]
struct Written {
    dirty: Dirty,
    read_hits: bool,
    destage: Destage,
    /// The extent that the arm is writing out of the buffer, and until when.
    destaging: Option<(Extent, Instant)>,
    /// Since when nothing has been inside, if nothing is.
    idle_since: Instant,
    /// Until when the bus takes in the data of writes, one after the other.
    bus_until: Instant,
    /// Whether the last command was a write, and where the last write ended.
    last_was_write: bool,
    last_end: u64,
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
        let served = self.queue.len() + usize::from(self.serving.is_some());
        let leaving = self.bus.leaving.len();
        let inside = served + leaving + self.accepted.len() + self.done.len();
        assert!(inside < self.queue_depth as usize, "{op:?} above the queue depth");
        let extent = self.extent_of(op);
        let waiting = Waiting { tag, kind: op.kind, fua: op.fua, extent, arrived: now };
        if self.accepts(&waiting) {
            let at = self.accept(now.max(self.written.bus_until), extent);
            self.written.bus_until = at;
            self.accepted.push_back(Completion::new(tag, at));
        } else if self.serving.is_some() {
            self.queue.push(waiting);
        } else {
            self.serve(now, &waiting);
        }
    }

    fn next_completion(&self) -> Option<Instant> {
        if let Some(completion) = self.done.first() {
            return Some(completion.at);
        }
        // The next of the queue may end before what is on the bus: then the disk is looked at as
        // soon as the arm is free.
        let served = self.serving.as_ref().map(|served| match self.queue.is_empty() {
            true => served.at,
            false => served.free,
        });
        let others = [&self.accepted, &self.bus.leaving].map(|it| it.front().map(|it| it.at));
        others.into_iter().chain([served]).flatten().min()
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
        assert!(spec.overhead.is_positive(), "{:?}", spec.overhead);
        let phase_ns = Pcg64::seed_from_u64(seed).random_range(0..spec.geometry.revolution_ns());
        let WriteBack { dirty_bytes, extents, read_hits, destage } = spec.write_back;
        Self {
            segments: Segments::new(spec.read_ahead),
            written: Written {
                dirty: Dirty::new(dirty_bytes / SECTOR_BYTES, extents as usize),
                read_hits,
                destage,
                destaging: None,
                idle_since: Instant::ZERO,
                bus_until: Instant::ZERO,
                last_was_write: false,
                last_end: 0,
            },
            mechanics: Mechanics {
                geometry: spec.geometry,
                seek: spec.seek,
                head_switch: spec.head_switch,
                write_settle: spec.write_settle,
                phase_ns,
            },
            overhead: spec.overhead,
            bus: Bus::new(spec.bus_bytes_per_second, spec.bus_start),
            queue_depth: spec.queue_depth,
            order: spec.order,
            sweep: Sweep::default(),
            head: Head { cylinder: 0, surface: 0, at: Instant::ZERO },
            ahead: None,
            queue: Vec::with_capacity(spec.queue_depth as usize),
            serving: None,
            accepted: VecDeque::new(),
            done: Vec::new(),
            now: Instant::ZERO,
        }
    }

    fn extent_of(&self, op: Op) -> Extent {
        if op.kind == Kind::Flush {
            return Extent::EMPTY;
        }
        assert!(op.bytes > 0, "{op:?} is empty");
        let extent = Extent::of_bytes(op.offset, op.bytes);
        assert!(extent.end <= self.mechanics.geometry.sectors(), "{op:?} is past the end");
        extent
    }

    /// Completes what completes by `now`, each time choosing the next at the disk's own time, and
    /// destages in between.
    fn run_until(&mut self, now: Instant) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
        loop {
            let accepted = self.accepted.front().map_or(Instant::MAX, |it| it.at);
            let free = self.serving.as_ref().map_or(Instant::MAX, |it| it.free);
            let others = now.min(accepted).min(free);
            if let Some(completion) = self.bus.leaving.pop_front_if(|it| it.at <= others) {
                self.done.push(completion);
            } else if let Some(served) = self.serving.take_if(|it| it.free <= now.min(accepted)) {
                self.take_served(served);
                self.serve_next(served.free);
            } else if let Some(completion) = self.accepted.pop_front_if(|it| it.at <= now) {
                self.done.push(completion);
            } else {
                break;
            }
        }
        self.destage_until(now);
    }

    /// The arm is free: what it worked for is done, or goes on over the bus alone.
    fn take_served(&mut self, served: Served) {
        let Served { tag, free, at } = served;
        let completion = Completion::new(tag, at);
        if at > free { self.bus.leaving.push_back(completion) } else { self.done.push(completion) }
    }

    /// Chooses an operation at `picked`, when the arm has got free.
    fn serve_next(&mut self, picked: Instant) {
        if self.queue.len() > 1 && self.order.looks_at_the_head() {
            self.read_ahead_until(picked);
        }
        let mut sweep = self.sweep;
        let view = View { disk: self, picked };
        let index = self.order.pick(&mut sweep, picked, &self.queue, &view);
        self.sweep = sweep;
        let Some(index) = index else {
            self.written.idle_since = picked.max(self.bus.until);
            return;
        };
        let waiting = self.queue.remove(index);
        self.serve(picked, &waiting);
    }

    fn serve(&mut self, picked: Instant, waiting: &Waiting) {
        let hit = picked + self.overhead.read_hit.after_read;
        let tag = waiting.tag;
        let whole = |at| Served { tag, free: at, at };
        let served = match waiting.kind {
            Kind::Read | Kind::Cache => {
                let served = self.read(picked, waiting);
                self.segments.last_read_end = waiting.extent.end;
                self.written.last_was_write = false;
                served
            }
            Kind::Write | Kind::Zeroes => whole(self.write(picked, waiting)),
            Kind::Flush => whole(self.flush(picked).max(hit)),
            Kind::Trim => whole(hit),
        };
        self.serving = Some(served);
    }

    fn read(&mut self, picked: Instant, waiting: &Waiting) -> Served {
        let extent = waiting.extent;
        let hit = picked + self.overhead.read_hit.after(self.written.last_was_write);
        match self.read_hit(hit, extent) {
            Some(at) => Served { tag: waiting.tag, free: at, at },
            None => {
                let overhead = self.overhead.read_media.after(self.written.last_was_write);
                self.read_media(picked.max(waiting.arrived + overhead), waiting)
            }
        }
    }

    /// A read that the buffer serves, or that the head is about to pass: when it has gone over the
    /// bus. `hit` is when the electronics are ready for it.
    fn read_hit(&mut self, hit: Instant, extent: Extent) -> Option<Instant> {
        let over_bus = hit.max(self.bus.until) + self.bus.time(extent);
        if let Some(from_media) = self.follow_on_track(hit, extent) {
            return Some(from_media.max(over_bus));
        }
        if self.ahead.is_some_and(|ahead| extent.first <= ahead.limit) {
            self.read_ahead_until(hit);
        }
        if self.continues(extent) {
            Some(self.follow(hit, extent.end).max(over_bus))
        } else if self.segments.holds(extent) {
            self.segments.touch(extent);
            Some(over_bus)
        } else {
            (self.written.read_hits && self.written.holds(extent)).then_some(over_bus)
        }
    }

    /// Whether the head has read the extent's beginning, or is about to: at most a track away, and
    /// within what it would read ahead.
    fn continues(&self, extent: Extent) -> bool {
        let Some(Ahead { segment, limit, .. }) = self.ahead else { return false };
        let on_the_way = extent.first.saturating_sub(segment.end);
        (segment.first..=limit).contains(&extent.first)
            && (on_the_way == 0
                || on_the_way < self.mechanics.geometry.locate(segment.end).left_on_track)
    }

    /// The short way of [`Self::follow`] for what is next on the track that the head passes: when
    /// it is read. `None` wherever anything else is the case, or may be.
    fn follow_on_track(&mut self, hit: Instant, extent: Extent) -> Option<Instant> {
        let Ahead { segment, limit, track } = self.ahead.as_ref()?;
        let track = track.as_ref()?;
        let segment_sectors = self.segments.segment_sectors();
        // How far the head has got by now isn't worked out: the buffer holds at least this much.
        let oldest = segment.first.max(limit.saturating_sub(segment_sectors));
        if extent.first < oldest || extent.first > segment.end {
            return None;
        }
        if extent.end > *limit || extent.end > track.end {
            return None;
        }
        let until_full = (limit - segment.end) * self.mechanics.geometry.sector_ns_min();
        if self.head.at + Duration::from_nanos(until_full) <= hit {
            // The head may have stopped.
            return None;
        }
        let mut read_at = hit;
        let end = segment.end.max(extent.end);
        if segment.end < extent.end {
            read_at = self.mechanics.passed_at(track, end);
            self.head.at = read_at;
        }
        let limit = (*limit).max(self.ahead_limit(extent.end));
        let segment = self.segments.kept(Extent { end, ..*segment });
        let ahead = self.ahead.as_mut()?;
        ahead.segment = segment;
        ahead.limit = limit;
        Some(read_at)
    }

    /// Lets the reading ahead go on at least to `end`, and a segment beyond it: when `end` is read.
    fn follow(&mut self, now: Instant, end: u64) -> Instant {
        let Some(Ahead { segment, limit, mut track }) = self.ahead else { return now };
        if segment.end == limit {
            // It had stopped: the head waits over its track and takes up again now.
            self.head.at = self.head.at.max(now);
            track = None;
        }
        let mut read_at = now;
        if segment.end < end {
            let extent = Extent { first: segment.end, end };
            let passed = self.mechanics.pass(self.head, extent, Intent::Read);
            self.head = passed.head;
            track = Some(passed.track);
            read_at = self.head.at;
        }
        let segment = self.segments.kept(Extent { end: segment.end.max(end), ..segment });
        self.ahead = Some(Ahead { segment, limit: limit.max(self.ahead_limit(end)), track });
        read_at
    }

    /// Moves the arm to read from the medium, and starts reading ahead behind the extent if this
    /// disk does so.
    fn read_media(&mut self, begin: Instant, waiting: &Waiting) -> Served {
        let Waiting { tag, extent, .. } = *waiting;
        self.stop_reading_ahead(begin);
        if self.segments.holds(extent) {
            // The reading ahead got there while the electronics prepared for the medium.
            self.segments.touch(extent);
            let at = begin.max(self.bus.until) + self.bus.time(extent);
            return Served { tag, free: at, at };
        }
        // The buffer may hold the beginning: only the rest is read.
        let empty = Extent { first: extent.first, end: extent.first };
        let held = self.segments.take(extent.first).unwrap_or(empty);
        let rest = Extent { first: held.end, ..extent };
        let passed = self.mechanics.pass(self.head, rest, Intent::Read);
        self.head = passed.head;
        if !self.segments.is_absent() {
            self.segments.make_room();
            let segment = self.segments.kept(Extent { end: held.end.max(extent.end), ..held });
            if self.segments.goes_on_behind(extent) {
                let limit = self.ahead_limit(segment.end);
                self.ahead = Some(Ahead { segment, limit, track: Some(passed.track) });
            } else {
                self.segments.put(segment);
            }
        }
        self.bus.take(tag, passed.first_done, self.head.at, [rest, extent])
    }

    /// Brings the reading ahead up to what it has read by `until`.
    fn read_ahead_until(&mut self, until: Instant) {
        let Some(Ahead { segment, limit, track }) = self.ahead else { return };
        let extent = Extent { first: segment.end, end: limit };
        let (head, end) = self.mechanics.reach(self.head, extent, until);
        self.head = head;
        let track = track.filter(|track| (track.first..=track.end).contains(&end));
        let segment = self.segments.kept(Extent { end, ..segment });
        self.ahead = Some(Ahead { segment, limit, track });
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
}

/// The disk at the moment of choosing.
struct View<'a> {
    disk: &'a Disk,
    picked: Instant,
}

impl View<'_> {
    /// The arm's work for an operation: none for one that the buffer serves.
    fn intent(&self, waiting: &Waiting) -> Option<Intent> {
        let extent = waiting.extent;
        match waiting.kind {
            Kind::Flush | Kind::Trim => None,
            Kind::Write | Kind::Zeroes => Some(Intent::Write),
            Kind::Read | Kind::Cache => {
                let buffered = self.disk.continues(extent) || self.disk.segments.holds(extent);
                (!buffered).then_some(Intent::Read)
            }
        }
    }
}

impl Sight for View<'_> {
    /// A write that waits for room is as far as if it went through.
    fn begins(&self, waiting: &Waiting) -> Instant {
        let Some(intent) = self.intent(waiting) else { return self.picked };
        let Disk { mechanics, overhead, written, head, .. } = self.disk;
        let overhead = match intent {
            Intent::Read => overhead.read_media.after(written.last_was_write),
            Intent::Write => overhead.write_media.after(written.last_was_write),
        };
        let head = Head { at: self.picked.max(waiting.arrived + overhead), ..*head };
        mechanics.arrive(head, &mechanics.geometry.locate(waiting.extent.first), intent)
    }

    fn cylinders_away(&self, waiting: &Waiting) -> u32 {
        if self.intent(waiting).is_none() {
            return 0;
        }
        let place = self.disk.mechanics.geometry.locate(waiting.extent.first);
        place.cylinder.abs_diff(self.disk.head.cylinder)
    }
}
