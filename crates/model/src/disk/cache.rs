//! The segments of a disk's buffer: what has been read ahead, most recently used first.
//!
//! Does not know: data, or the segment that the head is filling right now (the disk has it).

use super::geometry::{Extent, SECTOR_BYTES};
use super::spec::{Prefetch, ReadAhead};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Segments {
    limit: usize,
    segment_sectors: u64,
    prefetch: Prefetch,
    /// Where the latest read ended; behind all sectors before the first one.
    pub(crate) last_read_end: u64,
    /// Most recently used first; never more than `limit`.
    held: VecDeque<Extent>,
}

impl Segments {
    pub(crate) fn new(spec: ReadAhead) -> Self {
        let limit = spec.segments as usize;
        Self {
            limit,
            segment_sectors: spec.segment_bytes / SECTOR_BYTES,
            prefetch: spec.prefetch,
            last_read_end: u64::MAX,
            held: VecDeque::with_capacity(limit + 1),
        }
    }

    /// Whether the head reads ahead behind an extent that is read from the medium now.
    pub(crate) fn goes_on_behind(&self, extent: Extent) -> bool {
        match self.prefetch {
            Prefetch::Never => false,
            Prefetch::Always => true,
            Prefetch::AfterSequence => extent.first == self.last_read_end,
        }
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.limit == 0 || self.segment_sectors == 0
    }

    pub(crate) fn segment_sectors(&self) -> u64 {
        self.segment_sectors
    }

    /// The part of an extent that a segment keeps: its end, since it is filled as a ring.
    pub(crate) fn kept(&self, extent: Extent) -> Extent {
        Extent {
            first: extent.first.max(extent.end.saturating_sub(self.segment_sectors)),
            ..extent
        }
    }

    /// Whether one segment holds all of `extent`.
    pub(crate) fn holds(&self, extent: Extent) -> bool {
        self.held.iter().any(|held| held.contains(extent))
    }

    /// Marks the segment that holds `extent` as used.
    pub(crate) fn touch(&mut self, extent: Extent) {
        let holds = |held: &Extent| held.contains(extent);
        if let Some(segment) = self.held.iter().position(holds).and_then(|i| self.held.remove(i)) {
            self.held.push_front(segment);
        }
    }

    /// Takes out the segment that `sector` is in or continues, to be filled further.
    pub(crate) fn take(&mut self, sector: u64) -> Option<Extent> {
        let index = self.held.iter().position(|held| (held.first..=held.end).contains(&sector))?;
        self.held.remove(index)
    }

    /// Makes room for a segment to be filled.
    pub(crate) fn make_room(&mut self) {
        self.held.truncate(self.limit.saturating_sub(1));
    }

    /// Keeps a segment that is no longer being filled.
    pub(crate) fn put(&mut self, segment: Extent) {
        self.held.push_front(segment);
        self.held.truncate(self.limit);
    }

    /// Drops every segment that shares a sector with a written extent.
    pub(crate) fn forget(&mut self, written: Extent) {
        self.held.retain(|held| !held.overlaps(written));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, end: u64) -> Extent {
        Extent { first, end }
    }

    fn segments(segments: u32, sectors: u64) -> Segments {
        let segment_bytes = sectors * SECTOR_BYTES;
        Segments::new(ReadAhead { segments, segment_bytes, prefetch: Prefetch::Always })
    }

    #[test]
    fn the_least_recently_used_segment_goes() {
        let mut segments = segments(2, 100);
        segments.put(extent(0, 10));
        segments.put(extent(20, 30));
        segments.touch(extent(3, 5));
        segments.put(extent(40, 50));
        assert!(segments.holds(extent(0, 10)) && segments.holds(extent(45, 50)));
        assert!(!segments.holds(extent(20, 21)));
        segments.make_room();
        assert!(!segments.holds(extent(0, 10)));
    }

    #[test]
    fn a_segment_is_found_by_what_it_holds_or_continues_with() {
        let mut segments = segments(4, 100);
        segments.put(extent(10, 20));
        assert!(!segments.holds(extent(19, 21)));
        assert_eq!(segments.take(21), None);
        assert_eq!(segments.take(20), Some(extent(10, 20)));
        assert_eq!(segments.take(20), None);
    }

    #[test]
    fn a_write_makes_what_it_touches_stale() {
        let mut segments = segments(4, 100);
        segments.put(extent(10, 20));
        segments.forget(extent(20, 30));
        segments.forget(extent(0, 10));
        assert!(segments.holds(extent(10, 20)));
        segments.forget(extent(19, 20));
        assert!(!segments.holds(extent(12, 13)));
    }

    #[test]
    fn a_ring_keeps_its_newest_part() {
        let segments = segments(1, 8);
        assert_eq!(segments.kept(extent(0, 20)), extent(12, 20));
        assert_eq!(segments.kept(extent(0, 5)), extent(0, 5));
    }
}
