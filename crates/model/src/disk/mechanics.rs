//! Arm and spindle: when does the head reach a sector, and when has it passed an extent?
//!
//! The platter's angle is a function of time alone, so lost revolutions, skews and zones need no
//! cases of their own. Times of slots are rounded down to nanoseconds from the index mark, always
//! the same way: an extent that continues where the last ended has exactly no wait.
//!
//! Does not know: requests, queues, caches.

use super::geometry::{Extent, Geometry, Place};
use super::seek::SeekCurve;
use disktime_core::{Duration, Instant};

/// Where the head is, and since when it has nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    pub(crate) at: Instant,
}

/// The head's work on arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intent {
    Read,
    /// Settles longer if the head has moved.
    Write,
}

#[derive(Debug)]
pub(crate) struct Mechanics {
    pub(crate) geometry: Geometry,
    pub(crate) seek: SeekCurve,
    pub(crate) head_switch: Duration,
    pub(crate) write_settle: Duration,
    /// How far the spindle has turned at time zero, in nanoseconds below one revolution.
    pub(crate) phase_ns: u64,
}

/// The rest of the track under a passing head: there is no wait until it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// When the head is over the beginning of `first`.
    begin: Instant,
    pub(crate) first: u64,
    /// Behind the track's last sector.
    pub(crate) end: u64,
    slot: u64,
    sectors_per_track: u64,
    begin_slot_ns: u64,
}

/// The result of passing over an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) head: Head,
    /// When the first sector had passed.
    pub(crate) first_done: Instant,
    /// The track that the head is on.
    pub(crate) track: Track,
}

/// The part of an extent on one track, and when the head is over its beginning.
struct Piece {
    begin: Instant,
    place: Place,
    sectors: u64,
}

impl Mechanics {
    /// When the head, starting at `head.at`, is over the beginning of the sector at `place`.
    pub(crate) fn arrive(&self, head: Head, place: &Place, intent: Intent) -> Instant {
        let settled = head.at + self.moving(head, place, intent);
        let revolution = self.geometry.revolution_ns();
        let angle = (settled.as_nanos() % revolution + self.phase_ns) % revolution;
        let target = self.slot_ns(place, 0);
        settled + Duration::from_nanos((target + revolution - angle) % revolution)
    }

    /// When the head, starting at `head.at`, is over the track of `sector`.
    pub(crate) fn settled(&self, head: Head, sector: u64, intent: Intent) -> Instant {
        head.at + self.moving(head, &self.geometry.locate(sector), intent)
    }

    /// Passes over the whole extent: where the head is then, and when.
    ///
    /// Only the first sector's arrival has a write's extra settling: within a request the skews
    /// cover it.
    ///
    /// # Panics
    /// On an empty extent.
    pub(crate) fn pass(&self, head: Head, extent: Extent, intent: Intent) -> Passed {
        assert!(extent.first < extent.end, "nothing to pass over: {extent:?}");
        let piece = self.piece(head, extent, intent);
        let first_done = self.after(&piece, 1).at;
        let mut track = self.track(&piece, extent.first);
        let mut head = self.after(&piece, piece.sectors);
        let mut rest = Extent { first: extent.first + piece.sectors, ..extent };
        while rest.first < rest.end {
            let piece = self.piece(head, rest, Intent::Read);
            track = self.track(&piece, rest.first);
            head = self.after(&piece, piece.sectors);
            rest.first += piece.sectors;
        }
        Passed { head, first_done, track }
    }

    fn track(&self, piece: &Piece, first: u64) -> Track {
        let Piece { begin, place, .. } = *piece;
        Track {
            begin,
            first,
            end: first + place.left_on_track,
            slot: place.slot,
            sectors_per_track: place.sectors_per_track,
            begin_slot_ns: self.slot_ns(&place, 0),
        }
    }

    /// When the head, staying on the track, has passed everything before `end`, which is on it.
    pub(crate) fn passed_at(&self, track: &Track, end: u64) -> Instant {
        debug_assert!(track.first <= end && end <= track.end, "{end} is not on {track:?}");
        let slot = track.slot + (end - track.first);
        let slot_ns = slot * self.geometry.revolution_ns() / track.sectors_per_track;
        track.begin + Duration::from_nanos(slot_ns - track.begin_slot_ns)
    }

    /// Passes over as much of the extent as is complete at `until`: where the head was when the
    /// last complete sector ended, and the first sector that is not complete.
    pub(crate) fn reach(&self, head: Head, extent: Extent, until: Instant) -> (Head, u64) {
        let mut head = head;
        let mut rest = extent;
        while rest.first < rest.end {
            let piece = self.piece(head, rest, Intent::Read);
            if piece.begin > until {
                break;
            }
            let sectors = self.complete(&piece, until);
            head = self.after(&piece, sectors);
            rest.first += sectors;
            if sectors < piece.sectors {
                break;
            }
        }
        (head, rest.first)
    }

    fn piece(&self, head: Head, extent: Extent, intent: Intent) -> Piece {
        let place = self.geometry.locate(extent.first);
        let begin = self.arrive(head, &place, intent);
        Piece { begin, place, sectors: place.left_on_track.min(extent.end - extent.first) }
    }

    /// The head when `sectors` of the piece have passed.
    fn after(&self, piece: &Piece, sectors: u64) -> Head {
        let place = &piece.place;
        let span = self.slot_ns(place, sectors) - self.slot_ns(place, 0);
        let at = piece.begin + Duration::from_nanos(span);
        Head { cylinder: place.cylinder, surface: place.surface, at }
    }

    /// How many of the piece's sectors have passed at `until`: the most whose end is not later.
    fn complete(&self, piece: &Piece, until: Instant) -> u64 {
        let revolution = self.geometry.revolution_ns();
        // A piece lies on one track: past a revolution all of it is complete.
        let elapsed = until.since(piece.begin).as_nanos().min(revolution);
        let angle = elapsed + self.slot_ns(&piece.place, 0);
        // The largest slot with slot·T/spt, rounded down, not above the angle.
        let slot = ((angle + 1) * piece.place.sectors_per_track - 1) / revolution;
        (slot - piece.place.slot).min(piece.sectors)
    }

    fn moving(&self, head: Head, place: &Place, intent: Intent) -> Duration {
        let distance = head.cylinder.abs_diff(place.cylinder);
        if distance == 0 && head.surface == place.surface {
            return Duration::ZERO;
        }
        let arm = if distance == 0 { self.head_switch } else { self.seek.time(distance) };
        match intent {
            Intent::Read => arm,
            Intent::Write => arm + self.write_settle,
        }
    }

    /// Time from the index mark to the slot `further` on from the place, rounded down. No
    /// overflow: at most two tracks of slots times a revolution of nanoseconds.
    fn slot_ns(&self, place: &Place, further: u64) -> u64 {
        (place.slot + further) * self.geometry.revolution_ns() / place.sectors_per_track
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Layout, Zone};
    use super::*;
    use proptest::prelude::*;

    /// 7 sectors per track don't divide the revolution: rounding shows.
    fn mechanics() -> Mechanics {
        let zone = Zone { cylinders: 50, sectors_per_track: 7, track_skew: 2, cylinder_skew: 3 };
        let layout = Layout { rpm: 7200, surfaces: 3, sectors: 1050, zones: vec![zone] };
        Mechanics {
            geometry: Geometry::new(&layout),
            seek: SeekCurve::RootAndLine { first_ms: 1.0, root_ms: 0.1, slope_ms: 0.01 },
            head_switch: Duration::from_micros(800),
            write_settle: Duration::from_micros(200),
            phase_ns: 1_234_567,
        }
    }

    const HEAD: Head = Head { cylinder: 0, surface: 0, at: Instant::ZERO };

    #[test]
    fn an_extent_that_continues_has_no_wait() {
        let mechanics = mechanics();
        let whole = mechanics.pass(HEAD, Extent { first: 0, end: 1050 }, Intent::Read).head;
        let stepwise = (0..1050).fold(HEAD, |head, sector| {
            let passed =
                mechanics.pass(head, Extent { first: sector, end: sector + 1 }, Intent::Read);
            assert_eq!(mechanics.passed_at(&passed.track, sector + 1), passed.head.at);
            passed.head
        });
        assert_eq!(whole, stepwise);
        // Every cylinder takes three tracks and its skews, as long as those cover the switches.
        let revolution = mechanics.geometry.revolution_ns();
        let slots = 50 * (3 * 7 + 2 * 2 + 3) - 3;
        let begin = mechanics.arrive(HEAD, &mechanics.geometry.locate(0), Intent::Read);
        let span = whole.at.since(begin).as_nanos();
        assert!(span.abs_diff(slots * revolution / 7) <= 1, "{span} ns");
    }

    #[test]
    fn a_write_that_moves_settles_longer() {
        let mechanics = mechanics();
        let place = mechanics.geometry.locate(30);
        let moved = |intent| mechanics.moving(HEAD, &place, intent);
        let extra = moved(Intent::Write).saturating_sub(moved(Intent::Read));
        assert_eq!(extra, mechanics.write_settle);
        let here = mechanics.geometry.locate(3);
        assert_eq!(mechanics.moving(HEAD, &here, Intent::Write), Duration::ZERO);
    }

    proptest! {
        /// Stopping on the way and going on later is the same as going through.
        #[test]
        fn reaching_and_going_on_is_passing(
            first in 0_u64..1000, length in 1_u64..50, start in 0_u64..20_000_000, stop in 0_u64..60_000_000,
        ) {
            let mechanics = mechanics();
            let extent = Extent { first, end: first + length };
            let head = Head { at: Instant::from_nanos(start), ..HEAD };
            let through = mechanics.pass(head, extent, Intent::Read).head;
            let until = Instant::from_nanos(start + stop);
            let (halfway, next) = mechanics.reach(head, extent, until);
            prop_assert!(halfway.at <= until);
            prop_assert_eq!(next == extent.end, through.at <= until);
            let rest = Extent { first: next, end: extent.end };
            if rest.first < rest.end {
                prop_assert_eq!(mechanics.pass(halfway, rest, Intent::Read).head, through);
            } else {
                prop_assert_eq!(halfway, through);
            }
        }
    }
}
