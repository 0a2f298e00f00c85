//! The three disks whose parameters were measured and whose traces validate the model.
//!
//! Zones, skews, seek curves, settling and overheads were extracted from the drives by DIXtrac
//! (Schindler & Ganger, CMU-CS-99-176) and, for the HP C3323A, by Worthington et al. (SIGMETRICS
//! 1995); DiskSim 4.0 publishes them as its validation set. Here `[S]`, unless a line says
//! otherwise. Cylinders without data are left out, so distances come out up to 2 % short.
//!
//! The bus of `ibm18es` and `cheetah9lp`, 5 MB/s, and that of `hp_c3323a`, 3.5 MB/s, are those on
//! which the traces were measured: slower than the drives' media, so that they limit streams.
//!
//! A seek curve here is the two-piece fit of the measured table; [`with_seek_table`] takes the
//! table itself.

use crate::disk::{
    BusStart, Destage, DiskSpec, Geometry, Layout, Order, Overhead, Prefetch, ReadAhead, SeekCurve,
    Turn, WriteBack, Zone,
};
use disktime_core::Duration;

/// The spec with another seek curve, such as the table measured on the same drive.
#[must_use]
pub fn with_seek_table(spec: DiskSpec, seek: SeekCurve) -> DiskSpec {
    DiskSpec { seek, ..spec }
}

/// Cylinders, sectors per track, track skew and cylinder skew of each zone.
fn zones<const N: usize>(rows: [[u32; 4]; N]) -> Vec<Zone> {
    let zone = |[cylinders, sectors_per_track, track_skew, cylinder_skew]: [u32; 4]| Zone {
        cylinders,
        sectors_per_track,
        track_skew,
        cylinder_skew,
    };
    rows.map(zone).to_vec()
}

const fn turn(after_read_us: u64, after_write_us: u64) -> Turn {
    Turn {
        after_read: Duration::from_micros(after_read_us),
        after_write: Duration::from_micros(after_write_us),
    }
}

/// IBM DNES-309170W (Ultrastar 18ES), 9.1 GB, 7200 rpm, 1998.
///
/// - 5 surfaces, 11 zones of 390 to 247 sectors per track, skews of .148 and .258 of a revolution
///   in the outer zone, 17,916,240 sectors, head switch .062 ms, settling of writes .126 ms,
///   7 segments of 511 sectors of which one takes writes, no read hits on written data `[S]`.
/// - Hits .088 ms and .1025 ms a sector on its bus, writes taken in .087 ms `[F]`: the lower
///   envelope of the measured responses. Overheads before the arm .252 (after a write .424) for
///   reads and .494/.793 ms for writes `[S]`.
/// - At most 64 runs of sectors in the write segment, and one command at a time `[E]`. The trace does
///   not tell 1 run from 64; the reference simulator has one, with which random writes at depth 1 are
///   36 to 48 % slower.
#[must_use]
pub fn ibm18es() -> DiskSpec {
    let geometry = Geometry::new(&Layout {
        rpm: 7200,
        surfaces: 5,
        sectors: 17_916_240,
        zones: zones([
            [376, 390, 58, 101],
            [883, 374, 56, 97],
            [980, 364, 54, 94],
            [1214, 351, 52, 91],
            [1033, 338, 51, 87],
            [1019, 325, 49, 84],
            [1512, 312, 46, 81],
            [1710, 286, 43, 74],
            [1050, 273, 41, 70],
            [864, 260, 39, 66],
            [788, 247, 37, 63],
        ]),
    });
    DiskSpec {
        geometry,
        seek: SeekCurve::TwoPiece {
            short_ms: 1.299,
            short_root_ms: 0.1477,
            short_cylinders: 590,
            long_ms: 4.445,
            long_slope_ms: 0.000_747,
        },
        head_switch: Duration::from_micros(62),
        write_settle: Duration::from_micros(126),
        overhead: Overhead {
            read_media: turn(252, 424),
            read_hit: turn(88, 121),
            write_media: turn(494, 793),
            accept: Duration::from_micros(87),
            accept_continuing: Duration::from_micros(87),
        },
        bus_bytes_per_second: 4_995_000,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead { segments: 6, segment_bytes: 511 * 512, prefetch: Prefetch::Always },
        write_back: WriteBack {
            dirty_bytes: 511 * 512,
            extents: 64,
            read_hits: false,
            destage: Destage::Nearest,
        },
        queue_depth: 1,
        order: Order::Fcfs,
    }
}

/// Seagate ST39102LW (Cheetah 9LP), 9.1 GB, 10,045 rpm, 1998.
///
/// - 12 surfaces, 11 zones of 254 to 167 sectors per track, skews of 97 and 133 sectors in the
///   outer zone, 17,783,240 sectors, head switch .030 ms, settling of writes .461 ms, 3 segments of
///   561 sectors, read hits on written data `[S]`.
/// - Hits .066 ms (after a write .250) and .105 ms a sector on its bus, writes taken in .700 ms, .458 ms
///   if they continue the write before `[F]`: from the measured responses. Overheads before the
///   arm .284 (after a write .087) for reads and .907/.896 ms for writes `[S]`.
/// - At most 64 runs of sectors in the buffer for writes, and one command at a time `[E]`.
#[must_use]
pub fn cheetah9lp() -> DiskSpec {
    let geometry = Geometry::new(&Layout {
        rpm: 10_045,
        surfaces: 12,
        sectors: 17_783_240,
        zones: zones([
            [847, 254, 97, 133],
            [796, 245, 97, 133],
            [748, 238, 97, 117],
            [703, 227, 97, 116],
            [660, 217, 97, 108],
            [621, 209, 97, 108],
            [584, 201, 97, 108],
            [550, 189, 88, 94],
            [516, 181, 88, 93],
            [486, 174, 88, 93],
            [444, 167, 88, 80],
        ]),
    });
    DiskSpec {
        geometry,
        seek: SeekCurve::TwoPiece {
            short_ms: 1.063,
            short_root_ms: 0.0978,
            short_cylinders: 1074,
            long_ms: 3.108,
            long_slope_ms: 0.001_08,
        },
        head_switch: Duration::from_micros(30),
        write_settle: Duration::from_micros(461),
        overhead: Overhead {
            read_media: turn(284, 87),
            read_hit: turn(66, 250),
            write_media: turn(907, 896),
            accept: Duration::from_micros(700),
            accept_continuing: Duration::from_micros(458),
        },
        bus_bytes_per_second: 4_876_000,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead { segments: 3, segment_bytes: 561 * 512, prefetch: Prefetch::Always },
        write_back: WriteBack {
            dirty_bytes: 561 * 512,
            extents: 64,
            read_hits: true,
            destage: Destage::Nearest,
        },
        queue_depth: 1,
        order: Order::Fcfs,
    }
}

/// HP C3323A, 1.05 GB, 5396 rpm, 1994, its write cache off.
///
/// - 7 surfaces, 8 zones of 120 to 72 sectors per track, skews of 17 and 34 sectors in the outer
///   zone, 2,056,008 sectors, head switch .65 ms, settling of writes .07 ms, 2 segments of 512
///   sectors of which one is for writes, reading ahead 256 sectors `[S]`.
/// - Overheads before the arm 2.502 ms for reads and 3.29 (after a write 2.92) ms for writes, hits
///   after a write 1.628 ms `[S]`; other hits .55 ms, .1455 ms a sector on its bus, which begins once
///   all is read `[F]`: from the measured responses.
/// - One command at a time `[E]`.
#[must_use]
pub fn hp_c3323a() -> DiskSpec {
    let geometry = Geometry::new(&Layout {
        rpm: 5396,
        surfaces: 7,
        sectors: 2_056_008,
        zones: zones([
            [961, 120, 17, 34],
            [136, 116, 16, 33],
            [172, 112, 16, 32],
            [308, 104, 15, 30],
            [334, 96, 14, 27],
            [284, 88, 13, 25],
            [348, 80, 12, 23],
            [368, 72, 11, 21],
        ]),
    });
    DiskSpec {
        geometry,
        seek: SeekCurve::TwoPiece {
            short_ms: 1.574,
            short_root_ms: 0.2722,
            short_cylinders: 622,
            long_ms: 5.778,
            long_slope_ms: 0.004_158,
        },
        head_switch: Duration::from_micros(650),
        write_settle: Duration::from_micros(70),
        overhead: Overhead {
            read_media: turn(2502, 2502),
            read_hit: turn(550, 1628),
            write_media: turn(3290, 2920),
            accept: Duration::from_micros(550),
            accept_continuing: Duration::from_micros(550),
        },
        bus_bytes_per_second: 3_519_000,
        bus_start: BusStart::LastSector,
        read_ahead: ReadAhead { segments: 1, segment_bytes: 256 * 512, prefetch: Prefetch::Always },
        write_back: WriteBack::OFF,
        queue_depth: 1,
        order: Order::Fcfs,
    }
}
