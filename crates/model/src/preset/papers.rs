//! The disks of the papers, and one of today.

use crate::disk::{
    BusStart, Destage, DiskSpec, Geometry, Layout, Order, Overhead, Prefetch, PublishedSeek,
    ReadAhead, SeekCurve, SkewPermille, Taper, WriteBack,
};
use disktime_core::Duration;

/// IBM Deskstar 34GXP, the disk of paper `zygaria`.
///
/// - 40,088,160 sectors, 6 heads, 1961 KiB of buffer, average seek 9.0 ms `[S]`; 7200 rpm `[P,S]`.
/// - Seek 1.5 ms track to track and 15.5 ms full stroke, writes settling 1 ms longer, 454 to 288
///   sectors per track in 12 zones of 18,012 cylinders `[E]`.
/// - Skews .15 and .26 of a revolution and 1.15 ms per head switch `[E]`: those of the IBM
///   DNES-309170W, its contemporary, whose 58 and 101 of 390 sectors were measured `[S]`.
/// - 10 segments of 196 KiB, hits .07 ms and the bus of ATA-66 `[E]`; one command at a time, as its
///   driver of the day. Its write cache is off `[E]`: the paper only reads.
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
        overhead: Overhead::plain(Duration::from_micros(1275), Duration::from_micros(70)),
        bus_bytes_per_second: 66_600_000,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead {
            segments: 10,
            segment_bytes: 196 * 1024,
            prefetch: Prefetch::Always,
        },
        write_back: WriteBack::OFF,
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
/// - 32 segments of 4 MiB, hits 15 µs, SATA at 550 MB/s, 64 MiB of writes in at most 64 runs `[E]`.
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
        overhead: Overhead::plain(Duration::from_micros(500), Duration::from_micros(15)),
        bus_bytes_per_second: 550_000_000,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead { segments: 32, segment_bytes: 4 << 20, prefetch: Prefetch::Always },
        write_back: WriteBack {
            dirty_bytes: 64 << 20,
            extents: 64,
            read_hits: true,
            destage: Destage::Nearest,
        },
        queue_depth: 32,
        order: Order::Satf { aging_permille: 60 },
    }
}

/// Common properties of the three Seagate disks below: a taper of zones and three published seek
/// times.
struct Seagate {
    rpm: u32,
    surfaces: u32,
    sectors: u64,
    taper: Taper,
    seek: PublishedSeek,
    head_switch: Duration,
    write_settle: Duration,
    bus_bytes_per_second: u64,
}

/// 2 MB of buffer: 4 segments of 256 KiB for reading ahead, 1 MiB for writes in at most 64 runs `[E]`.
/// Overheads of .5 ms for the medium and .07 ms for hits, one command at a time `[E]`.
fn seagate(disk: &Seagate) -> DiskSpec {
    let geometry = Geometry::new(&Layout {
        rpm: disk.rpm,
        surfaces: disk.surfaces,
        sectors: disk.sectors,
        zones: disk.taper.zones(),
    });
    DiskSpec {
        seek: SeekCurve::published(disk.seek, geometry.cylinders()),
        geometry,
        head_switch: disk.head_switch,
        write_settle: disk.write_settle,
        overhead: Overhead::plain(Duration::from_micros(500), Duration::from_micros(70)),
        bus_bytes_per_second: disk.bus_bytes_per_second,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead { segments: 4, segment_bytes: 256 << 10, prefetch: Prefetch::Always },
        write_back: WriteBack {
            dirty_bytes: 1 << 20,
            extents: 64,
            read_hits: true,
            destage: Destage::Nearest,
        },
        queue_depth: 1,
        order: Order::Fcfs,
    }
}

/// Seagate ST340810A, 40 GB, the disk of paper `mdn`.
///
/// - 78,165,360 sectors, 2048 KiB of buffer `[S]`.
/// - 5400 rpm, 2 heads, seek 1.2 ms track to track, 8.9 ms on average, 20 ms full stroke, writes
///   settling 1 ms longer, 680 to 410 sectors per track in 15 zones of 71,850 cylinders, 1 ms per
///   head switch, ATA-100 `[E]`.
/// - Skews of .12 and .1515 of a revolution `[E]`, calibrated: one sequential stream of 128 KiB reads
///   has 27.59 MB/s in the outer zone `[P]`.
/// - 4 segments of 256 KiB for reading ahead and 1 MiB for writes, in at most 64 runs; overheads of
///   .5 ms for the medium and .07 ms for hits; one command at a time `[E]`.
#[must_use]
pub fn st340810a() -> DiskSpec {
    seagate(&Seagate {
        rpm: 5400,
        surfaces: 2,
        sectors: 78_165_360,
        taper: Taper {
            zones: 15,
            cylinders_each: 4790,
            outer_sectors_per_track: 680,
            inner_sectors_per_track: 410,
            skew: SkewPermille { track: 120, cylinder: 151 },
        },
        seek: PublishedSeek { track_to_track_ms: 1.2, average_ms: 8.9, full_stroke_ms: 20.0 },
        head_switch: Duration::from_millis(1),
        write_settle: Duration::from_millis(1),
        bus_bytes_per_second: 100_000_000,
    })
}

/// Seagate ST318437LW, 18 GB, the disk of paper `ucsb`.
///
/// - 7200 rpm, average seek 8.5 ms reading and 9.1 ms writing `[S]`.
/// - 35,885,168 sectors, 2 MB of buffer, 2 heads, 1.0 ms track to track, 16 ms full stroke, 740 to
///   470 sectors per track in 12 zones of 29,700 cylinders, .9 ms per head switch, Ultra160 SCSI `[E]`.
/// - Skews of .12 and .153 of a revolution `[E]`, calibrated: about 40 MB/s for one stream in the
///   outer zone `[P]`.
/// - 4 segments of 256 KiB for reading ahead and 1 MiB for writes, in at most 64 runs; overheads of
///   .5 ms for the medium and .07 ms for hits; one command at a time `[E]`.
#[must_use]
pub fn st318437lw() -> DiskSpec {
    seagate(&Seagate {
        rpm: 7200,
        surfaces: 2,
        sectors: 35_885_168,
        taper: Taper {
            zones: 12,
            cylinders_each: 2475,
            outer_sectors_per_track: 740,
            inner_sectors_per_track: 470,
            skew: SkewPermille { track: 120, cylinder: 153 },
        },
        seek: PublishedSeek { track_to_track_ms: 1.0, average_ms: 8.5, full_stroke_ms: 16.0 },
        head_switch: Duration::from_micros(900),
        write_settle: Duration::from_micros(600),
        bus_bytes_per_second: 160_000_000,
    })
}

/// Seagate ST330630A, 30 GB.
///
/// - 59,777,640 sectors, 7200 rpm, 2048 KiB of buffer, average seek 8.6 ms `[S]`; 6 heads.
/// - 1.2 ms track to track, 17 ms full stroke, writes settling 1 ms longer, 580 to 370 sectors per
///   track in 12 zones of 21,000 cylinders, skews of .12 and .16 of a revolution, .9 ms per head
///   switch, ATA-66 `[E]`. Nothing was published to calibrate it on.
/// - 4 segments of 256 KiB for reading ahead and 1 MiB for writes, in at most 64 runs; overheads of
///   .5 ms for the medium and .07 ms for hits; one command at a time `[E]`.
#[must_use]
pub fn st330630a() -> DiskSpec {
    seagate(&Seagate {
        rpm: 7200,
        surfaces: 6,
        sectors: 59_777_640,
        taper: Taper {
            zones: 12,
            cylinders_each: 1750,
            outer_sectors_per_track: 580,
            inner_sectors_per_track: 370,
            skew: SkewPermille { track: 120, cylinder: 160 },
        },
        seek: PublishedSeek { track_to_track_ms: 1.2, average_ms: 8.6, full_stroke_ms: 17.0 },
        head_switch: Duration::from_micros(900),
        write_settle: Duration::from_millis(1),
        bus_bytes_per_second: 66_600_000,
    })
}
