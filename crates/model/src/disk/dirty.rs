//! Sectors that have been written into a disk's buffer and not yet to its medium.
//!
//! Does not know: data, the arm, or in which order destaging goes.

use super::geometry::Extent;
use disktime_core::Instant;

/// A run of sectors that waits to be destaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unwritten {
    pub(crate) extent: Extent,
    /// Since when its first part has been in the buffer: destaging may begin then.
    pub(crate) since: Instant,
}

#[derive(Debug)]
pub(crate) struct Dirty {
    limit_sectors: u64,
    limit_extents: usize,
    /// By first sector; no two of them overlap or touch.
    held: Vec<Unwritten>,
    sectors: u64,
}

impl Dirty {
    /// Zero sectors or zero extents: nothing ever fits.
    pub(crate) fn new(limit_sectors: u64, limit_extents: usize) -> Self {
        Self { limit_sectors, limit_extents, held: Vec::with_capacity(limit_extents), sectors: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn held(&self) -> &[Unwritten] {
        &self.held
    }

    /// Whether `extent` would fit into an empty buffer.
    pub(crate) fn could_fit(&self, extent: Extent) -> bool {
        self.limit_extents > 0 && extent.sectors() <= self.limit_sectors
    }

    /// Whether there is room for `extent` beside `elsewhere` sectors still on their way to the
    /// medium. Sectors that it overlaps aren't counted as room, so the answer errs on the safe
    /// side.
    pub(crate) fn has_room(&self, extent: Extent, elsewhere: u64) -> bool {
        let joins = || self.touching(extent).is_some();
        self.sectors + elsewhere + extent.sectors() <= self.limit_sectors
            && (self.held.len() < self.limit_extents || joins())
    }

    pub(crate) fn holds(&self, extent: Extent) -> bool {
        self.held.iter().any(|held| held.extent.contains(extent))
    }

    /// When the oldest got here.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.since).min()
    }

    /// Adds what was written, joined with what it overlaps or touches.
    pub(crate) fn add(&mut self, extent: Extent, since: Instant) {
        let mut joined = Unwritten { extent, since };
        while let Some(index) = self.touching(joined.extent) {
            let held = self.held.remove(index);
            self.sectors -= held.extent.sectors();
            joined.extent.first = joined.extent.first.min(held.extent.first);
            joined.extent.end = joined.extent.end.max(held.extent.end);
            joined.since = joined.since.min(held.since);
        }
        self.sectors += joined.extent.sectors();
        let index = self.held.partition_point(|held| held.extent.first < joined.extent.first);
        self.held.insert(index, joined);
    }

    /// Takes out the first `sectors` of the extent at `index`, or all of it.
    pub(crate) fn take(&mut self, index: usize, sectors: u64) -> Extent {
        let extent = self.held[index].extent;
        if sectors >= extent.sectors() {
            self.held.remove(index);
            self.sectors -= extent.sectors();
            return extent;
        }
        let end = extent.first + sectors;
        self.held[index].extent.first = end;
        self.sectors -= sectors;
        Extent { first: extent.first, end }
    }

    /// Drops what a write to the medium has made stale. An extent of which the middle goes stays
    /// whole: it may be destaged again, which costs time and harms nothing.
    pub(crate) fn forget(&mut self, written: Extent) {
        for held in &mut self.held {
            let extent = &mut held.extent;
            if written.first <= extent.first {
                extent.first = extent.first.max(written.end.min(extent.end));
            } else if written.end >= extent.end {
                extent.end = extent.end.min(written.first);
            }
        }
        self.held.retain(|held| !held.extent.is_empty());
        self.sectors = self.held.iter().map(|held| held.extent.sectors()).sum();
    }

    fn touching(&self, extent: Extent) -> Option<usize> {
        let index = self.held.partition_point(|held| held.extent.end < extent.first);
        self.held.get(index).filter(|held| held.extent.first <= extent.end).map(|_| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(first: u64, end: u64) -> Extent {
        Extent { first, end }
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn neighbours_join_and_keep_the_older_time() {
        let mut dirty = Dirty::new(100, 4);
        dirty.add(extent(10, 20), at(5));
        dirty.add(extent(30, 40), at(3));
        dirty.add(extent(20, 30), at(9));
        assert_eq!(dirty.held(), [Unwritten { extent: extent(10, 40), since: at(3) }]);
        assert_eq!(dirty.take(0, 5), extent(10, 15));
        assert_eq!(dirty.take(0, 99), extent(15, 40));
        assert!(dirty.is_empty() && dirty.sectors == 0);
    }

    #[test]
    fn room_is_sectors_and_extents() {
        let mut dirty = Dirty::new(20, 1);
        assert!(dirty.has_room(extent(0, 20), 0) && !dirty.has_room(extent(0, 20), 1));
        dirty.add(extent(0, 10), at(0));
        assert!(dirty.has_room(extent(10, 20), 0) && !dirty.has_room(extent(50, 51), 0));
        assert!(!Dirty::new(0, 0).could_fit(extent(0, 1)));
    }

    proptest! {
        /// Against a set of sectors.
        #[test]
        fn it_holds_what_was_added_and_not_taken(
            steps in prop::collection::vec((0..3_u8, 0..60_u64, 1..12_u64), 1..60),
        ) {
            let mut dirty = Dirty::new(1000, 100);
            let mut model = std::collections::BTreeSet::new();
            for (what, first, length) in steps {
                let extent = extent(first, first + length);
                match what {
                    0 => {
                        dirty.add(extent, at(first));
                        model.extend(extent.first..extent.end);
                    }
                    1 if !dirty.is_empty() => {
                        let index = usize::try_from(first).unwrap() % dirty.held().len();
                        let taken = dirty.take(index, length);
                        model.retain(|sector| !(taken.first..taken.end).contains(sector));
                    }
                    _ => {
                        dirty.forget(extent);
                        let left: Vec<Extent> = dirty.held().iter().map(|it| it.extent).collect();
                        // Nothing unwritten is lost.
                        for sector in model.iter().filter(|s| !(first..first + length).contains(s)) {
                            prop_assert!(left.iter().any(|it| (it.first..it.end).contains(sector)));
                        }
                        model = left.iter().flat_map(|it| it.first..it.end).collect();
                    }
                }
                let held: Vec<u64> =
                    dirty.held().iter().flat_map(|it| it.extent.first..it.extent.end).collect();
                prop_assert!(held.iter().eq(model.iter()));
                prop_assert_eq!(dirty.sectors, model.len() as u64);
            }
        }
    }
}
