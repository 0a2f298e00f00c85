//! The devices one can ask for by name: `emulate = "<name>"`, scenarios, benches, docs tables.
//!
//! To add one, write its spec below (or its model in its own file) and one line in [`PRESETS`];
//! `tests/conformance.rs` runs over them all, `tests/calibration.rs` holds what each promises.
//!
//! Where a number comes from: **`[S]`** a public source (data sheet, published fit), **`[P]`** the
//! paper that used the device, **`[E]`** an estimate, chosen so that the calibration comes out, **`[F]`**
//! fitted to the measured responses that the drive's demerit is taken against.

mod cloud;
mod flash;
mod measured;
mod papers;

pub use cloud::{cloud_gp2, cloud_gp3};
pub use flash::{flash_generic, flash_mqsim, nvme_970pro};
pub use measured::{cheetah9lp, hp_c3323a, ibm18es, with_seek_table};
pub use papers::{deskstar_34gxp, nearline_7200, st318437lw, st330630a, st340810a};

use crate::cloud::{Cloud, CloudSpec};
use crate::device::Device;
use crate::disk::{Disk, DiskSpec};
use crate::exponential::{Exponential, ExponentialSpec, Service};
use crate::flash::{Flash, FlashSpec};
use crate::parity::{Level, Parity};
use crate::raid0::Raid0;
use crate::shingled::{Shingled, ShingledSpec};
use crate::tiered::{HitRatio, Tiered};
use disktime_core::Duration;

/// A device that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in configuration files, lower case with dashes.
    pub name: &'static str,
    /// A description in one line.
    pub doc: &'static str,
    /// Makes one. The seed decides what a model leaves open, such as the spindle's angle at the start.
    pub build: fn(seed: u64) -> Box<dyn Device>,
    /// Its numbers, for a device that differs from it in some of them.
    pub parameters: Parameters,
}

/// The numbers of a preset.
#[derive(Clone, Copy, Debug)]
pub enum Parameters {
    /// A hard disk.
    Disk(fn() -> DiskSpec),
    /// A flash drive.
    Flash(fn() -> FlashSpec),
    /// A volume of a cloud.
    Cloud(fn() -> CloudSpec),
    /// Other devices, or no numbers of its own.
    Other,
}

/// Every preset, in order of name.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "cheetah9lp",
        doc: "Seagate ST39102LW, 9.1 GB, 10,045 rpm, 1998, as measured",
        build: |seed| Box::new(Disk::new(cheetah9lp(), seed)),
        parameters: Parameters::Disk(cheetah9lp),
    },
    Preset {
        name: "cloud-gp2",
        doc: "a cloud volume of 100 GiB: 300 IOPS, 3,000 while its credit lasts, 128 MiB/s",
        build: |seed| Box::new(Cloud::new(cloud_gp2(100), seed)),
        parameters: Parameters::Cloud(|| cloud_gp2(100)),
    },
    Preset {
        name: "cloud-gp2-1tib",
        doc: "a cloud volume of 1 TiB: 3,072 IOPS, 250 MiB/s, no bursts above that",
        build: |seed| Box::new(Cloud::new(cloud_gp2(1024), seed)),
        parameters: Parameters::Cloud(|| cloud_gp2(1024)),
    },
    Preset {
        name: "cloud-gp3",
        doc: "a cloud volume of 100 GiB: 3,000 IOPS, 125 MiB/s, no bursts",
        build: |seed| Box::new(Cloud::new(cloud_gp3(), seed)),
        parameters: Parameters::Cloud(cloud_gp3),
    },
    Preset {
        name: "deskstar-34gxp",
        doc: "IBM Deskstar 34GXP, 20.5 GB, 7200 rpm, 1999: 68 random 4 KiB reads/s (paper zygaria)",
        build: |seed| Box::new(Disk::new(deskstar_34gxp(), seed)),
        parameters: Parameters::Disk(deskstar_34gxp),
    },
    Preset {
        name: "exp",
        doc: "a server with exponential service times of 10 ms on average (paper reward)",
        build: |seed| Box::new(Exponential::new(exponential(Duration::from_millis(10)), seed)),
        parameters: Parameters::Other,
    },
    Preset {
        name: "exp-ssd",
        doc: "a server with exponential service times of 200 µs on average (paper reward)",
        build: |seed| Box::new(Exponential::new(exponential(Duration::from_micros(200)), seed)),
        parameters: Parameters::Other,
    },
    Preset {
        name: "flash-generic",
        doc: "a flash drive of 32 dies: 85 µs at depth 1, up to 533,000 random 4 KiB reads/s",
        build: |_| Box::new(Flash::new(flash_generic())),
        parameters: Parameters::Flash(flash_generic),
    },
    Preset {
        name: "flash-mqsim",
        doc: "MLC flash as MQSim models it: programs of 750 µs in the way of reads, mapped by 8 KiB",
        build: |_| Box::new(Flash::new(flash_mqsim())),
        parameters: Parameters::Flash(flash_mqsim),
    },
    Preset {
        name: "hp-c3323a",
        doc: "HP C3323A, 1.05 GB, 5396 rpm, 1994, write cache off, as measured",
        build: |seed| Box::new(Disk::new(hp_c3323a(), seed)),
        parameters: Parameters::Disk(hp_c3323a),
    },
    Preset {
        name: "ibm18es",
        doc: "IBM DNES-309170W, 9.1 GB, 7200 rpm, 1998, as measured",
        build: |seed| Box::new(Disk::new(ibm18es(), seed)),
        parameters: Parameters::Disk(ibm18es),
    },
    Preset {
        name: "nearline-7200",
        doc: "a 4 TB nearline disk, 7200 rpm, queue of 32: 270 MB/s outer, 80 random 4 KiB reads/s",
        build: |seed| Box::new(Disk::new(nearline_7200(), seed)),
        parameters: Parameters::Disk(nearline_7200),
    },
    Preset {
        name: "nvme-970pro",
        doc: "Samsung 970 PRO 512 GB: 64 µs at depth 1, programs 2.8 GB/s",
        build: |_| Box::new(Flash::new(nvme_970pro())),
        parameters: Parameters::Flash(nvme_970pro),
    },
    Preset {
        name: "raid0-nearline",
        doc: "RAID 0 over four nearline disks, chunks of 64 KiB",
        build: |seed| Box::new(raid0("nearline-7200", 4, 64 << 10, seed)),
        parameters: Parameters::Other,
    },
    Preset {
        name: "raid5-nearline",
        doc: "RAID 5 over four nearline disks, chunks of 64 KiB",
        build: |seed| Box::new(parity(Level::Five, "nearline-7200", 4, 64 << 10, seed)),
        parameters: Parameters::Other,
    },
    Preset {
        name: "shingled-nearline",
        doc: "a nearline disk that shingles: bands of 30 MiB, a cache of 25 GiB, cleans when idle",
        build: |seed| Box::new(Shingled::new(shingled(), seed)),
        parameters: Parameters::Other,
    },
    Preset {
        name: "st318437lw",
        doc: "Seagate ST318437LW, 18 GB, 7200 rpm: 40 MB/s outer (paper ucsb)",
        build: |seed| Box::new(Disk::new(st318437lw(), seed)),
        parameters: Parameters::Disk(st318437lw),
    },
    Preset {
        name: "st330630a",
        doc: "Seagate ST330630A, 30 GB, 7200 rpm",
        build: |seed| Box::new(Disk::new(st330630a(), seed)),
        parameters: Parameters::Disk(st330630a),
    },
    Preset {
        name: "st340810a",
        doc: "Seagate ST340810A, 40 GB, 5400 rpm: 27.59 MB/s outer (paper mdn)",
        build: |seed| Box::new(Disk::new(st340810a(), seed)),
        parameters: Parameters::Disk(st340810a),
    },
    Preset {
        name: "tiered",
        doc: "flash-generic in front of nearline-7200; half of the requests hit, drawn at random",
        build: |seed| Box::new(tiered(500_000, seed)),
        parameters: Parameters::Other,
    },
];

/// The preset of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// A server of that mean for reads and writes alike, as paper `reward` has its tiers: 1 TiB, so that
/// anything fits, and up to 1024 requests in its queue.
#[must_use]
pub fn exponential(mean: Duration) -> ExponentialSpec {
    ExponentialSpec {
        capacity_bytes: 1 << 40,
        queue_depth: 1024,
        read_mean: mean,
        write_mean: mean,
        service: Service::Exponential,
    }
}

/// A drive-managed shingled disk over the nearline one.
///
/// - Bands of 30 MiB in place, a persistent cache of 25 GiB at the outer edge, the band with the oldest
///   write cleaned first and only when idle: near what Skylight finds of a drive of 5 TB `[S]`.
/// - It cleans after a second of rest, a MiB at a time `[E]`.
#[must_use]
pub fn shingled() -> ShingledSpec {
    ShingledSpec {
        disk: nearline_7200(),
        band_bytes: 30 << 20,
        cache_bytes: 25_590 << 20,
        clean_after: Duration::from_secs(1),
        piece_bytes: 1 << 20,
    }
}

/// RAID 0 over `count` devices of a preset, each with a seed of its own.
///
/// # Panics
/// If there is no such preset, or as [`Raid0::new`].
#[must_use]
pub fn raid0(name: &str, count: u64, chunk_bytes: u64, seed: u64) -> Raid0 {
    Raid0::new(members(name, count, seed), chunk_bytes)
}

/// RAID 4 or 5 over `count` devices of a preset, each with a seed of its own.
///
/// # Panics
/// If there is no such preset, or as [`Parity::new`].
#[must_use]
pub fn parity(level: Level, name: &str, count: u64, chunk_bytes: u64, seed: u64) -> Parity {
    Parity::new(level, members(name, count, seed), chunk_bytes)
}

fn members(name: &str, count: u64, seed: u64) -> Vec<Box<dyn Device>> {
    let preset = find(name).expect("a preset's name");
    // Apart, so that neighbouring seeds share no member.
    let first = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..count).map(|index| (preset.build)(first.wrapping_add(index))).collect()
}

/// The generic flash drive in front of the nearline disk, with drawn hits per million.
#[must_use]
pub fn tiered(hits_ppm: u32, seed: u64) -> Tiered {
    let fast = Flash::new(flash_generic());
    let slow = Disk::new(nearline_7200(), seed);
    // Another stream of the seed than the spindle's angle.
    let hits = HitRatio::everywhere(hits_ppm, seed ^ 0x7469_6572);
    Tiered::new(Box::new(fast), Box::new(slow), Box::new(hits))
}

#[cfg(test)]
mod tests {
    use disktime_core::{Instant, Kind};

    use super::*;
    use crate::Op;

    #[test]
    fn names_are_found_unique_and_in_order() {
        assert!(PRESETS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for preset in PRESETS {
            assert_eq!(find(preset.name).map(|found| found.doc), Some(preset.doc));
        }
        assert!(find("deskstar").is_none());
    }

    /// Small reads that skip a little, at any pause: what the reading ahead has reached by the time
    /// the medium is ready may hold all of the next read.
    #[test]
    fn skipping_reads_at_any_pause_complete() {
        for preset in PRESETS {
            let mut device = (preset.build)(1);
            let (mut now, mut offset, mut random) = (Instant::ZERO, 0, 1_u64);
            let mut done = Vec::new();
            for _ in 0..100_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                offset = (offset + 512 * (random >> 57)) % (1 << 28);
                let op = Op { kind: Kind::Read, offset, bytes: 512, fua: false };
                device.submit(now + Duration::from_nanos((random >> 20) % 3_000_000), 0, op);
                now = device.next_completion().expect("a read is inside");
                device.advance(now, &mut done);
            }
            assert_eq!(done.len(), 100_000, "{}", preset.name);
        }
    }
}
