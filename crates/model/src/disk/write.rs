//! The disk's writes: into the buffer, through to the medium, and from one to the other.

use super::geometry::Extent;
use super::mechanics::{Head, Intent};
use super::queue::Waiting;
use super::spec::Destage;
use super::{Disk, Written};
use disktime_core::{Instant, Kind};

impl Written {
    pub(super) fn holds(&self, extent: Extent) -> bool {
        self.dirty.holds(extent)
            || self.destaging.is_some_and(|(destaging, _)| destaging.contains(extent))
    }

    /// Whether a write fits beside what is there and what is on its way to the medium.
    fn has_room(&self, extent: Extent) -> bool {
        let elsewhere = self.destaging.map_or(0, |(destaging, _)| destaging.sectors());
        self.dirty.has_room(extent, elsewhere)
    }

    /// Whether it may be taken into the buffer, once there is room.
    fn is_for_buffer(&self, waiting: &Waiting) -> bool {
        !waiting.fua && self.dirty.could_fit(waiting.extent)
    }
}

fn is_write(waiting: &Waiting) -> bool {
    matches!(waiting.kind, Kind::Write | Kind::Zeroes)
}

impl Disk {
    /// Whether a write that arrives now can be taken in at once. It doesn't overtake another.
    pub(super) fn accepts(&self, waiting: &Waiting) -> bool {
        is_write(waiting)
            && self.written.is_for_buffer(waiting)
            && self.written.has_room(waiting.extent)
            && !self.queue.iter().any(is_write)
    }

    /// Takes a write into the buffer from `begin` on: when it is there.
    pub(super) fn accept(&mut self, begin: Instant, extent: Extent) -> Instant {
        let continuing = self.written.last_was_write && self.written.last_end == extent.first;
        let overhead = match continuing {
            true => self.overhead.accept_continuing,
            false => self.overhead.accept,
        };
        let since = begin + overhead;
        self.forget_read(begin, extent);
        self.written.dirty.add(extent, since);
        self.wrote(extent);
        since + self.bus.time(extent)
    }

    /// A write that the disk has chosen: into the buffer once there is room, or through.
    pub(super) fn write(&mut self, picked: Instant, waiting: &Waiting) -> Instant {
        let extent = waiting.extent;
        if self.written.is_for_buffer(waiting) {
            let mut begin = picked.max(self.written.bus_until);
            while !self.written.has_room(extent) {
                begin = begin.max(self.make_room(picked));
            }
            let at = self.accept(begin, extent);
            self.written.bus_until = at;
            return at;
        }
        let overhead = self.overhead.write_media.after(self.written.last_was_write);
        let begin = picked.max(waiting.arrived + overhead);
        self.stop_reading_ahead(begin);
        // The data comes over the bus while the write waits and the arm moves; the medium waits
        // for all of it.
        let first_in = (waiting.arrived + overhead).max(self.written.bus_until);
        let data_in = first_in + self.bus.time(extent);
        self.written.bus_until = data_in;
        let settled = self.mechanics.settled(self.head, extent.first, Intent::Write);
        self.head.at = self.head.at + data_in.since(settled);
        self.segments.forget(extent);
        self.written.dirty.forget(extent);
        self.wrote(extent);
        self.head = self.mechanics.pass(self.head, extent, Intent::Write).head;
        self.head.at
    }

    /// Writes everything out of the buffer: when the last of it is on the medium.
    pub(super) fn flush(&mut self, picked: Instant) -> Instant {
        while !self.written.dirty.is_empty() {
            self.destage(picked.max(self.head.at));
        }
        self.written.destaging.map_or(picked, |(_, until)| until)
    }

    /// Destages all that begins by `now` while nothing else is inside.
    pub(super) fn destage_until(&mut self, now: Instant) {
        if self.serving.is_some() || !self.bus.leaving.is_empty() {
            return;
        }
        self.settle(now);
        while let Some(since) = self.written.dirty.since() {
            self.read_ahead_until(now);
            if self.ahead.is_some_and(|ahead| ahead.segment.end < ahead.limit) {
                return;
            }
            let begin = self.head.at.max(self.written.idle_since).max(since);
            if begin > now {
                return;
            }
            self.destage(begin);
            self.settle(now);
        }
    }

    /// Waits for what is being destaged, or destages something from `picked` on: when there is
    /// more room.
    fn make_room(&mut self, picked: Instant) -> Instant {
        if self.written.destaging.is_none() {
            self.destage(picked.max(self.head.at));
        }
        let until = self.written.destaging.map_or(picked, |(_, until)| until);
        self.settle(until);
        until
    }

    /// Begins to destage, at `begin` or once something is in the buffer, the run that is next by
    /// the disk's order: the rest of one track at most.
    fn destage(&mut self, begin: Instant) {
        let begin = begin.max(self.written.dirty.since().unwrap_or(begin));
        self.settle(begin);
        self.stop_reading_ahead(begin);
        let Self { mechanics, head, written, .. } = self;
        let head = Head { at: begin, ..*head };
        let intent = |extent: Extent| {
            // Going on to the next track is as within a request: the skew covers the settling.
            let goes_on = extent.first.checked_sub(1).is_some_and(|last| {
                let place = mechanics.geometry.locate(last);
                (place.cylinder, place.surface) == (head.cylinder, head.surface)
            });
            if goes_on { Intent::Read } else { Intent::Write }
        };
        let arrival = |extent: Extent| {
            mechanics.arrive(head, &mechanics.geometry.locate(extent.first), intent(extent))
        };
        let ready = written.dirty.held().iter().enumerate().filter(|(_, it)| it.since <= begin);
        let next = match written.destage {
            Destage::Nearest => ready.min_by_key(|(_, it)| arrival(it.extent)),
            Destage::Oldest => ready.min_by_key(|(_, it)| it.since),
        };
        let Some((index, _)) = next else { return };
        let first = written.dirty.held()[index].extent.first;
        let left_on_track = mechanics.geometry.locate(first).left_on_track;
        let extent = written.dirty.take(index, left_on_track);
        self.head = mechanics.pass(head, extent, intent(extent)).head;
        self.written.destaging = Some((extent, self.head.at));
    }

    /// Gives back the room of what has been destaged by `now`.
    fn settle(&mut self, now: Instant) {
        self.written.destaging.take_if(|(_, until)| *until <= now);
    }

    /// Makes what was read of a written extent stale.
    fn forget_read(&mut self, now: Instant, extent: Extent) {
        let ahead = self.ahead.map(|ahead| Extent { end: ahead.limit, ..ahead.segment });
        if ahead.is_some_and(|ahead| ahead.overlaps(extent)) {
            self.stop_reading_ahead(now);
        }
        self.segments.forget(extent);
    }

    fn wrote(&mut self, extent: Extent) {
        self.written.last_was_write = true;
        self.written.last_end = extent.end;
    }
}
