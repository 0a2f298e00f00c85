//! Where a disk's sectors lie: cylinders, surfaces, zones and skew.
//!
//! Sectors are numbered along a track, then over the surfaces of a cylinder, then inwards.
//!
//! Does not know: spare sectors and defects, serpentine layouts, time other than one revolution.

/// Bytes in a sector.
pub const SECTOR_BYTES: u64 = 512;

/// A run of sectors: `first` up to but not including `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

impl Extent {
    pub(crate) const EMPTY: Self = Self { first: 0, end: 0 };

    /// The sectors that hold these bytes: partial ones count whole.
    pub(crate) fn of_bytes(offset: u64, bytes: u64) -> Self {
        let end = offset.checked_add(bytes).expect("an extent ends within 64 bits");
        Self { first: offset / SECTOR_BYTES, end: end.div_ceil(SECTOR_BYTES) }
    }

    pub(crate) fn bytes(self) -> u64 {
        self.sectors() * SECTOR_BYTES
    }

    pub(crate) fn sectors(self) -> u64 {
        self.end - self.first
    }

    pub(crate) fn is_empty(self) -> bool {
        self.first >= self.end
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.end <= self.end
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.first < other.end && other.first < self.end
    }
}

/// Neighbouring cylinders with equally many sectors per track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// Sectors by which a track starts later than the one before it in the same cylinder: they pass
    /// while the heads switch.
    pub track_skew: u32,
    /// The same from a cylinder's last track to the next cylinder's first.
    pub cylinder_skew: u32,
}

/// Skews as parts of a revolution: the same time, thus more sectors in the outer zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkewPermille {
    /// From track to track within a cylinder, in thousandths of a revolution.
    pub track: u32,
    /// From cylinder to cylinder, in thousandths of a revolution.
    pub cylinder: u32,
}

/// Zones of which only the outermost and the innermost are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taper {
    /// How many zones, at least two.
    pub zones: u32,
    /// Cylinders in each.
    pub cylinders_each: u32,
    /// Sectors per track of the outermost zone.
    pub outer_sectors_per_track: u32,
    /// Sectors per track of the innermost zone.
    pub inner_sectors_per_track: u32,
    /// Skews of all zones.
    pub skew: SkewPermille,
}

impl Taper {
    /// The zones, outermost first; sectors per track fall evenly and skews are rounded up.
    ///
    /// # Panics
    /// With fewer than two zones, or if the outer zone is the smaller one.
    #[must_use]
    pub fn zones(&self) -> Vec<Zone> {
        assert!(self.zones >= 2, "a taper has two ends");
        let fall = self.outer_sectors_per_track - self.inner_sectors_per_track;
        let zone = |index: u32| {
            let sectors_per_track = self.outer_sectors_per_track - fall * index / (self.zones - 1);
            Zone {
                cylinders: self.cylinders_each,
                sectors_per_track,
                track_skew: (sectors_per_track * self.skew.track).div_ceil(1000),
                cylinder_skew: (sectors_per_track * self.skew.cylinder).div_ceil(1000),
            }
        };
        (0..self.zones).map(zone).collect()
    }
}

/// A disk's dimensions, as data sheets and profilers give them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces, one head each.
    pub surfaces: u32,
    /// Capacity in sectors; the innermost tracks may stay unused.
    pub sectors: u64,
    /// Outermost first.
    pub zones: Vec<Zone>,
}

/// Where a sector is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    /// Its position on the track counted from the spindle's index mark, below `sectors_per_track`.
    pub(crate) slot: u64,
    pub(crate) sectors_per_track: u64,
    /// Sectors from it to the end of its track, itself included.
    pub(crate) left_on_track: u64,
}

/// A layout made ready for looking up sectors.
#[derive(Clone, Debug)]
pub struct Geometry {
    surfaces: u32,
    sectors: u64,
    cylinders: u32,
    revolution_ns: u64,
    sector_ns_min: u64,
    zones: Vec<ZoneStart>,
}

#[derive(Clone, Copy, Debug)]
struct ZoneStart {
    zone: Zone,
    first_sector: u64,
    first_cylinder: u32,
}

impl Geometry {
    /// Prepares a layout.
    ///
    /// # Panics
    /// If the layout contradicts itself: an empty part, or zones that don't hold the capacity.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        assert!(layout.rpm > 0 && layout.surfaces > 0 && layout.sectors > 0, "{layout:?}");
        let mut zones = Vec::with_capacity(layout.zones.len());
        let (mut first_sector, mut first_cylinder) = (0, 0);
        for &zone in &layout.zones {
            assert!(zone.cylinders > 0 && zone.sectors_per_track > 0, "an empty zone: {zone:?}");
            zones.push(ZoneStart { zone, first_sector, first_cylinder });
            first_sector += u64::from(zone.cylinders)
                * u64::from(layout.surfaces)
                * u64::from(zone.sectors_per_track);
            first_cylinder += zone.cylinders;
        }
        assert!(
            first_sector >= layout.sectors,
            "the zones hold {first_sector} sectors of {}",
            layout.sectors
        );
        let revolution_ns = 60_000_000_000 / u64::from(layout.rpm);
        let most = layout.zones.iter().map(|zone| zone.sectors_per_track).max();
        Self {
            surfaces: layout.surfaces,
            sectors: layout.sectors,
            cylinders: first_cylinder,
            revolution_ns,
            sector_ns_min: revolution_ns / u64::from(most.unwrap_or(1)),
            zones,
        }
    }

    /// Capacity in sectors.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders over all zones.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Time of one revolution in nanoseconds, rounded down.
    #[must_use]
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// The shortest time in which a sector passes, in nanoseconds, rounded down.
    pub(crate) fn sector_ns_min(&self) -> u64 {
        self.sector_ns_min
    }

    /// The zones, outermost first.
    pub fn zones(&self) -> impl Iterator<Item = Zone> + '_ {
        self.zones.iter().map(|start| start.zone)
    }

    /// Bytes per second that a zone sustains over whole cylinders, skews included:
    /// `S·spt·512 / ((S·spt + (S-1)·track_skew + cylinder_skew)/spt · T)`.
    #[must_use]
    pub fn sustained_bytes_per_second(&self, zone: Zone) -> u64 {
        let surfaces = u64::from(self.surfaces);
        let per_track = u64::from(zone.sectors_per_track);
        let slots = surfaces * per_track + self.skew_of_cylinder(zone);
        // In 128 bits: bytes · spt · 1e9 passes 2^64 on a large modern track.
        let bytes = u128::from(surfaces * per_track * SECTOR_BYTES);
        let rate = bytes * u128::from(per_track) * 1_000_000_000
            / (u128::from(slots) * u128::from(self.revolution_ns));
        u64::try_from(rate).expect("a rate in bytes per second fits 64 bits")
    }

    /// Where `sector` is. Each zone's first track starts at the index mark.
    pub(crate) fn locate(&self, sector: u64) -> Place {
        debug_assert!(sector < self.sectors, "sector {sector} of {}", self.sectors);
        let after = self.zones.partition_point(|start| start.first_sector <= sector);
        let ZoneStart { zone, first_sector, first_cylinder } = self.zones[after - 1];
        let surfaces = u64::from(self.surfaces);
        let per_track = u64::from(zone.sectors_per_track);
        let (track, on_track) =
            ((sector - first_sector) / per_track, (sector - first_sector) % per_track);
        let (cylinder, surface) = (track / surfaces, track % surfaces);
        let skew = cylinder * self.skew_of_cylinder(zone) + surface * u64::from(zone.track_skew);
        Place {
            cylinder: first_cylinder + u32::try_from(cylinder).expect("below the zone's cylinders"),
            surface: u32::try_from(surface).expect("below the surfaces"),
            slot: (skew + on_track) % per_track,
            sectors_per_track: per_track,
            left_on_track: per_track - on_track,
        }
    }

    /// Sectors of skew from a cylinder's first track to the next cylinder's first.
    fn skew_of_cylinder(&self, zone: Zone) -> u64 {
        u64::from(self.surfaces - 1) * u64::from(zone.track_skew) + u64::from(zone.cylinder_skew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Geometry {
        let zone = |cylinders, sectors_per_track| Zone {
            cylinders,
            sectors_per_track,
            track_skew: 3,
            cylinder_skew: 4,
        };
        let zones = vec![zone(2, 10), zone(3, 6)];
        Geometry::new(&Layout { rpm: 6000, surfaces: 2, sectors: 75, zones })
    }

    #[test]
    fn sectors_run_along_the_track_then_the_cylinder_then_inwards() {
        let geometry = small();
        let at = |sector| {
            let place = geometry.locate(sector);
            (place.cylinder, place.surface, place.slot, place.left_on_track)
        };
        assert_eq!(at(0), (0, 0, 0, 10));
        assert_eq!(at(9), (0, 0, 9, 1));
        assert_eq!(at(10), (0, 1, 3, 10));
        assert_eq!(at(20), (1, 0, 7, 10));
        assert_eq!(at(39), (1, 1, 9, 1));
        // The second zone begins at the index mark.
        assert_eq!(at(40), (2, 0, 0, 6));
        assert_eq!(at(74), (4, 1, (2 * 7 + 3 + 4) % 6, 2));
        assert_eq!(geometry.cylinders(), 5);
        assert_eq!(geometry.revolution_ns(), 10_000_000);
    }

    #[test]
    fn partial_sectors_count_whole() {
        assert_eq!(Extent::of_bytes(511, 2), Extent { first: 0, end: 2 });
        assert_eq!(Extent::of_bytes(512, 512), Extent { first: 1, end: 2 });
        assert_eq!(Extent::of_bytes(0, 1).bytes(), 512);
    }

    #[test]
    #[should_panic(expected = "the zones hold")]
    fn zones_must_hold_the_capacity() {
        let zone = Zone { cylinders: 1, sectors_per_track: 1, track_skew: 0, cylinder_skew: 0 };
        let _ = Geometry::new(&Layout { rpm: 1, surfaces: 1, sectors: 2, zones: vec![zone] });
    }

    #[test]
    fn a_taper_falls_evenly_to_the_inner_zone() {
        let skew = SkewPermille { track: 100, cylinder: 200 };
        let taper = Taper {
            zones: 3,
            cylinders_each: 7,
            outer_sectors_per_track: 30,
            inner_sectors_per_track: 11,
            skew,
        };
        let zones = taper.zones();
        let per_track: Vec<u32> = zones.iter().map(|zone| zone.sectors_per_track).collect();
        assert_eq!(per_track, [30, 21, 11]);
        assert_eq!((zones[2].track_skew, zones[2].cylinder_skew), (2, 3));
    }
}
