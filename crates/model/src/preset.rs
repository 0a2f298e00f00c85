//! The devices one can ask for by name: `emulate = "<name>"`, scenarios, benches, docs tables.
//!
//! To add one, write its spec below (or its model in its own file) and one line in [`PRESETS`];
//! `tests/conformance.rs` runs over them all, `tests/calibration.rs` holds what each promises.
//!
//! Where a number comes from: **`[S]`** a public source (data sheet, published fit), **`[P]`** the
//! paper that used the device, **`[E]`** an estimate, chosen so that the calibration comes out.

use crate::device::Device;
use crate::disk::{
    Disk, DiskSpec, Geometry, Layout, Order, Overhead, PublishedSeek, ReadAhead, SeekCurve,
    SkewPermille, Taper,
};
use disktime_core::Duration;

/// A device that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in configuration files, lower case with dashes.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// Makes one. The seed decides what a model leaves open, such as the spindle's angle at the start.
    pub build: fn(seed: u64) -> Box<dyn Device>,
}

/// Every preset, in order of name.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "deskstar-34gxp",
        doc: "IBM Deskstar 34GXP, 20.5 GB, 7200 rpm, 1999: 68 random 4 KiB reads/s (paper zygaria)",
        build: |seed| Box::new(Disk::new(deskstar_34gxp(), seed)),
    },
    Preset {
        name: "nearline-7200",
        doc: "a 4 TB nearline disk, 7200 rpm, queue of 32: 270 MB/s outer, 80 random 4 KiB reads/s",
        build: |seed| Box::new(Disk::new(nearline_7200(), seed)),
    },
];

/// The preset of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// IBM Deskstar 34GXP, the disk of paper `zygaria`.
///
/// - 40,088,160 sectors, 6 heads, 1961 KiB of buffer, average seek 9.0 ms `[S]`; 7200 rpm `[P,S]`.
/// - Seek 1.5 ms track to track and 15.5 ms full stroke, writes settling 1 ms longer, 454 to 288
///   sectors per track in 12 zones of 18,012 cylinders `[E]`.
/// - Skews .15 and .26 of a revolution and 1.15 ms per head switch `[E]`: those of the IBM
///   DNES-309170W, its contemporary, whose 58 and 101 of 390 sectors were measured `[S]`.
/// - 10 segments of 196 KiB, hits .07 ms and the bus of ATA-66 `[E]`; one command at a time, as its
///   driver of the day.
/// - 1.275 ms of overhead `[E]`, calibrated: 68 random 4 KiB reads/s `[P]`. In runs of 1024 reads it
///   then does what the paper needs: at least 4,300/s over the whole surface and 5,200/s in the
///   outer tenth `[P]`.
#[must_use]
pub fn deskstar_34gxp() -> DiskSpec {
    let taper = Taper {
        zones: 12,
        cylinders_each: 1501,
        outer_sectors_per_track: 454,
        inner_sectors_per_track: 288,
        skew: SkewPermille { track: 150, cylinder: 260 },
    };
    let geometry = Geometry::new(&Layout {
        rpm: 7200,
        surfaces: 6,
        sectors: 40_088_160,
        zones: taper.zones(),
    });
    let seek = PublishedSeek { track_to_track_ms: 1.5, average_ms: 9.0, full_stroke_ms: 15.5 };
    DiskSpec {
        seek: SeekCurve::published(seek, geometry.cylinders()),
        geometry,
        head_switch: Duration::from_micros(1150),
        write_settle: Duration::from_millis(1),
        overhead: Overhead { media: Duration::from_micros(1275), hit: Duration::from_micros(70) },
        bus_bytes_per_second: 66_600_000,
        read_ahead: ReadAhead { segments: 10, segment_bytes: 196 * 1024 },
        queue_depth: 1,
        order: Order::Fcfs,
    }
}

/// A nearline disk of today, of no particular make.
///
/// - 7200 rpm, track to track .23 ms, average 7.4 ms reading, 270 MB/s in the outer zone `[S]`.
/// - 4 TB (7,814,037,168 sectors), 8 surfaces, 16 zones, full stroke 16 ms, 125 MB/s in the inner
///   zone, skews .13 of a revolution, 1 ms per head switch, writes settling .45 ms longer (data
///   sheets give .09 track to track and .8 on average) `[E]`.
/// - 32 segments of 4 MiB, hits 15 µs, SATA at 550 MB/s `[E]`.
/// - A queue of 32 `[S]` served by shortest access time, with aging of 60 ‰ and .5 ms of overhead `[E]`,
///   calibrated: 75 to 85 random 4 KiB reads/s one at a time, about 170 with 16 at once. Less aging
///   gives more (202 with 16 at once at 10 ‰) and lets some wait twice as long.
#[must_use]
pub fn nearline_7200() -> DiskSpec {
    let taper = Taper {
        zones: 16,
        cylinders_each: 16_821,
        outer_sectors_per_track: 4966,
        inner_sectors_per_track: 2299,
        skew: SkewPermille { track: 130, cylinder: 130 },
    };
    let geometry = Geometry::new(&Layout {
        rpm: 7200,
        surfaces: 8,
        sectors: 7_814_037_168,
        zones: taper.zones(),
    });
    let seek = PublishedSeek { track_to_track_ms: 0.23, average_ms: 7.4, full_stroke_ms: 16.0 };
    DiskSpec {
        seek: SeekCurve::published(seek, geometry.cylinders()),
        geometry,
        head_switch: Duration::from_millis(1),
        write_settle: Duration::from_micros(450),
        overhead: Overhead { media: Duration::from_micros(500), hit: Duration::from_micros(15) },
        bus_bytes_per_second: 550_000_000,
        read_ahead: ReadAhead { segments: 32, segment_bytes: 4 << 20 },
        queue_depth: 32,
        order: Order::Satf { aging_permille: 60 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_unique_and_in_order() {
        assert!(PRESETS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for preset in PRESETS {
            assert_eq!(find(preset.name).map(|found| found.doc), Some(preset.doc));
        }
        assert!(find("deskstar").is_none());
    }
}
