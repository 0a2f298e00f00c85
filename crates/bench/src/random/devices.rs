//! The devices of random cells.

use std::fmt;

use disktime_core::{Duration, Instant};
use disktime_model::Device;
use disktime_model::cloud::{Cap, Cloud, CloudSpec};
use disktime_model::disk::{Disk, DiskSpec, Order, WriteBack};
use disktime_model::exponential::{Exponential, ExponentialSpec, Service};
use disktime_model::faulty::{Cleaning, Faults, Faulty, Outliers, Pauses, Step, age};
use disktime_model::flash::{Duplex, Flash, FlashSpec, Link, Page, Suspend};
use disktime_model::preset;
use disktime_model::raid0::Raid0;
use disktime_model::shingled::{Shingled, ShingledSpec};
use disktime_model::tiered::{Cached, Tiered};

use super::times::scale;

/// Devices whose sharing is a problem of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// One command at a time.
    Depth1,
    /// Disks with a queue, stripes, parity.
    Disks,
    /// Flash, tiers, caches, volumes of a cloud.
    Flash,
}

/// How long things take on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tempo {
    /// Requests take microseconds.
    Fast,
    /// Some take microseconds, some milliseconds.
    Middling,
    /// Requests take milliseconds.
    Slow,
}

impl Tempo {
    /// Until the steady state, in milliseconds; a cell is measured for twice as long after that.
    pub(super) const fn warm_ms(self) -> u64 {
        match self {
            Self::Fast => 2_000,
            Self::Middling => 4_000,
            Self::Slow => 20_000,
        }
    }
}

/// A device of random cells.
pub struct DeviceKind {
    /// Its name in rows.
    pub name: &'static str,
    /// The group to which it belongs.
    pub group: Group,
    /// The least seed whose cells may have it: a device that comes later changes no cell of a smaller
    /// seed.
    pub(super) first_seed: u64,
    /// Queue depths that make sense.
    pub depths: &'static [u32],
    /// How long it takes to see its steady state.
    pub(super) tempo: Tempo,
    /// Bytes of a cache that all streams share and that one stream's reads can lose to another's.
    pub cache_bytes: Option<u64>,
    /// Its faults, if it has any, in its own time.
    pub(super) faults: Faults,
    /// Whether it was full and in use before.
    pub(super) aged: bool,
    /// Makes the device without its faults; the seed decides what the model leaves open.
    pub(super) build: fn(u64) -> Box<dyn Device>,
}

/// Requests that age a device, in bytes, and how many follow those that fill it.
const AGED: (u64, u64) = (32 << 10, 32 << 10);

impl fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl DeviceKind {
    /// Whether something happens now and then, or once.
    fn has_faults(&self) -> bool {
        self.faults != Faults::default()
    }

    /// The smallest part of a run that is like all of it: all, if its speed changes once.
    pub(super) fn part_min(&self) -> f64 {
        match self.faults {
            Faults { step: Some(_), .. } => 1.0,
            // Three pauses.
            _ if self.has_faults() || self.aged => 0.25,
            _ => 0.0,
        }
    }

    /// Makes one on which time runs as in its row, but all times of its own are so many times as
    /// long: when it pauses, for how long, and when its speed changes. (How much longer a slow request
    /// takes, and how long it cleans, is work like any other.)
    pub(super) fn make(&self, seed: u64, times: f64) -> Box<dyn Device> {
        let mut device = (self.build)(seed);
        let age = if self.aged { age(&mut *device, AGED.0, AGED.1) } else { Instant::ZERO };
        if !self.has_faults() && !self.aged {
            return device;
        }
        let scaled = |time| scale(time, times);
        let pauses = |it: Pauses| Pauses { every: scaled(it.every), length: scaled(it.length) };
        let step = |it: Step| Step { after: scaled(it.after), ..it };
        let Faults { outliers, cleaning, .. } = self.faults;
        let (pauses, step) = (self.faults.pauses.map(pauses), self.faults.step.map(step));
        Box::new(Faulty::new(device, age, Faults { pauses, step, outliers, cleaning }))
    }
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Depth1, Self::Disks, Self::Flash];

    /// Its name on command lines and in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Depth1 => "depth1",
            Self::Disks => "disks",
            Self::Flash => "flash",
        }
    }
}

const fn kind(
    name: &'static str,
    group: Group,
    depths: &'static [u32],
    tempo: Tempo,
    build: fn(u64) -> Box<dyn Device>,
) -> DeviceKind {
    let (first_seed, cache_bytes, faults, aged) = (1, None, NONE, false);
    DeviceKind { name, group, first_seed, depths, tempo, cache_bytes, faults, aged, build }
}

/// The first seed of devices that came when 1 to 100 had been used for figures.
const LATER: u64 = 101;

const NONE: Faults = Faults { pauses: None, step: None, outliers: None, cleaning: None };

/// Pauses of a tenth of the time, so many milliseconds each.
const fn pauses(ms: u64) -> Faults {
    let (every, length) = (Duration::from_millis(10 * ms), Duration::from_millis(ms));
    Faults { pauses: Some(Pauses { every, length }), ..NONE }
}

/// A change of speed in the middle of what is measured.
const fn step(tempo: Tempo, speed_permille: u32) -> Faults {
    let after = Duration::from_millis(tempo.warm_ms() * 5 / 2);
    Faults { step: Some(Step { after, speed_permille }), ..NONE }
}

const fn outliers(one_in: u64, ms: u64) -> Faults {
    Faults { outliers: Some(Outliers { one_in, delay: Duration::from_millis(ms) }), ..NONE }
}

const fn cleaning(after_mib: u64, ms: u64) -> Faults {
    let (after_bytes, takes) = (after_mib << 20, Duration::from_millis(ms));
    Faults { cleaning: Some(Cleaning { after_bytes, takes }), ..NONE }
}

const ONE: &[u32] = &[1];
const QUEUE: &[u32] = &[4, 8, 16, 32];
const STRIPES: &[u32] = &[8, 16, 32, 64];
const PAIR: &[u32] = &[2];
const DEEP: &[u32] = &[16, 32, 64];

/// Every device, by group.
pub static DEVICES: &[DeviceKind] = &[
    kind("cheetah9lp", Group::Depth1, ONE, Tempo::Slow, |seed| named("cheetah9lp", seed)),
    kind("deskstar-34gxp", Group::Depth1, ONE, Tempo::Slow, |seed| named("deskstar-34gxp", seed)),
    kind("exp", Group::Depth1, ONE, Tempo::Slow, |seed| named("exp", seed)),
    kind("hp-c3323a", Group::Depth1, ONE, Tempo::Slow, |seed| named("hp-c3323a", seed)),
    kind("ibm18es", Group::Depth1, ONE, Tempo::Slow, |seed| named("ibm18es", seed)),
    kind("nearline-depth1", Group::Depth1, ONE, Tempo::Slow, |seed| named("nearline-7200", seed)),
    kind("st318437lw", Group::Depth1, ONE, Tempo::Slow, |seed| named("st318437lw", seed)),
    kind("st330630a", Group::Depth1, ONE, Tempo::Slow, |seed| named("st330630a", seed)),
    kind("st340810a", Group::Depth1, ONE, Tempo::Slow, |seed| named("st340810a", seed)),
    DeviceKind {
        faults: pauses(500),
        ..kind("deskstar-pauses", Group::Depth1, ONE, Tempo::Slow, |seed| {
            named("deskstar-34gxp", seed)
        })
    },
    DeviceKind {
        faults: step(Tempo::Slow, 500),
        ..kind("deskstar-slower", Group::Depth1, ONE, Tempo::Slow, |seed| {
            named("deskstar-34gxp", seed)
        })
    },
    kind("nearline-7200", Group::Disks, QUEUE, Tempo::Slow, |seed| named("nearline-7200", seed)),
    kind("nearline-through", Group::Disks, QUEUE, Tempo::Slow, |seed| {
        disk(DiskSpec { write_back: WriteBack::OFF, ..preset::nearline_7200() }, seed)
    }),
    kind("nearline-256mib", Group::Disks, QUEUE, Tempo::Slow, |seed| {
        let large = WriteBack {
            dirty_bytes: 256 << 20,
            extents: 1024,
            ..preset::nearline_7200().write_back
        };
        disk(DiskSpec { write_back: large, ..preset::nearline_7200() }, seed)
    }),
    kind("nearline-c-scan", Group::Disks, QUEUE, Tempo::Slow, |seed| {
        disk(DiskSpec { order: Order::CScan, ..preset::nearline_7200() }, seed)
    }),
    kind("nearline-sstf", Group::Disks, QUEUE, Tempo::Slow, |seed| {
        disk(DiskSpec { order: Order::Sstf, ..preset::nearline_7200() }, seed)
    }),
    kind("raid0-deskstar", Group::Disks, PAIR, Tempo::Slow, |seed| {
        Box::new(preset::raid0("deskstar-34gxp", 2, 64 << 10, seed))
    }),
    kind("raid0-nearline", Group::Disks, STRIPES, Tempo::Slow, |seed| {
        named("raid0-nearline", seed)
    }),
    kind("raid5-nearline", Group::Disks, STRIPES, Tempo::Slow, |seed| {
        named("raid5-nearline", seed)
    }),
    DeviceKind {
        faults: cleaning(256, 3_000),
        ..kind("nearline-cleaning", Group::Disks, QUEUE, Tempo::Slow, |seed| {
            named("nearline-7200", seed)
        })
    },
    DeviceKind {
        faults: outliers(200, 300),
        ..kind("nearline-outliers", Group::Disks, QUEUE, Tempo::Slow, |seed| {
            named("nearline-7200", seed)
        })
    },
    DeviceKind {
        faults: step(Tempo::Slow, 2000),
        ..kind("raid0-faster", Group::Disks, STRIPES, Tempo::Slow, |seed| {
            named("raid0-nearline", seed)
        })
    },
    kind("cloud", Group::Flash, DEEP, Tempo::Fast, |seed| {
        let spec = ExponentialSpec {
            capacity_bytes: 16 << 30,
            read_mean: Duration::from_millis(1),
            write_mean: Duration::from_micros(1500),
            ..preset::exponential(Duration::from_millis(1))
        };
        Box::new(Raid0::new(servers(16, spec, seed), 64 << 10))
    }),
    kind("exp-ssd", Group::Flash, DEEP, Tempo::Fast, |seed| named("exp-ssd", seed)),
    kind("flash-4", Group::Flash, &[8, 16, 32], Tempo::Fast, |_| flash(dies(2, 2))),
    kind("flash-8", Group::Flash, DEEP, Tempo::Fast, |_| flash(dies(4, 2))),
    kind("flash-generic", Group::Flash, DEEP, Tempo::Fast, |_| flash(preset::flash_generic())),
    kind("flash-no-suspend", Group::Flash, DEEP, Tempo::Fast, |_| {
        flash(FlashSpec { suspend: Suspend::NEVER, ..dies(4, 4) })
    }),
    kind("flash-one-server", Group::Flash, DEEP, Tempo::Fast, |seed| {
        let spec = ExponentialSpec {
            service: Service::Constant,
            write_mean: Duration::from_micros(60),
            ..preset::exponential(Duration::from_micros(20))
        };
        Box::new(Exponential::new(spec, seed))
    }),
    kind("nvme-970pro", Group::Flash, DEEP, Tempo::Fast, |seed| named("nvme-970pro", seed)),
    DeviceKind {
        aged: true,
        ..kind("flash-collecting", Group::Flash, DEEP, Tempo::Fast, |_| flash(small()))
    },
    DeviceKind {
        faults: cleaning(256, 100),
        ..kind("flash-folding", Group::Flash, DEEP, Tempo::Fast, |_| flash(dies(4, 2)))
    },
    DeviceKind {
        faults: outliers(1000, 10),
        ..kind("flash-outliers", Group::Flash, DEEP, Tempo::Fast, |_| flash(dies(4, 2)))
    },
    DeviceKind {
        faults: pauses(50),
        ..kind("flash-pauses", Group::Flash, DEEP, Tempo::Fast, |_| flash(dies(4, 2)))
    },
    DeviceKind {
        faults: step(Tempo::Fast, 500),
        ..kind("flash-slower", Group::Flash, DEEP, Tempo::Fast, |_| flash(dies(4, 2)))
    },
    DeviceKind {
        cache_bytes: Some(CACHE_BYTES),
        ..kind("cached", Group::Flash, DEEP, Tempo::Middling, |seed| {
            let placement = Cached::new((CACHE_BYTES / CACHE_LINE) as usize, CACHE_LINE);
            let slow = Box::new(Disk::new(preset::nearline_7200(), seed));
            Box::new(Tiered::new(flash(dies(4, 2)), slow, Box::new(placement)))
        })
    },
    kind("tiered", Group::Flash, DEEP, Tempo::Middling, |seed| named("tiered", seed)),
    kind("tiered-90", Group::Flash, DEEP, Tempo::Middling, |seed| {
        Box::new(preset::tiered(900_000, seed))
    }),
    DeviceKind {
        first_seed: LATER,
        ..kind("slow-bus", Group::Disks, QUEUE, Tempo::Slow, |seed| {
            let order = Order::Satf { aging_permille: 10 };
            disk(DiskSpec { queue_depth: 32, order, ..preset::cheetah9lp() }, seed)
        })
    },
    DeviceKind {
        first_seed: LATER,
        ..kind("shingled", Group::Disks, QUEUE, Tempo::Slow, |seed| {
            // A cache that seconds of writes fill: it cleans all the time.
            let spec =
                ShingledSpec { band_bytes: 16 << 20, cache_bytes: 256 << 20, ..preset::shingled() };
            Box::new(Shingled::new(spec, seed))
        })
    },
    DeviceKind {
        first_seed: LATER,
        ..kind("cloud-gp2-1tib", Group::Flash, DEEP, Tempo::Fast, |seed| {
            named("cloud-gp2-1tib", seed)
        })
    },
    DeviceKind {
        first_seed: LATER,
        ..kind("cloud-gp3", Group::Flash, DEEP, Tempo::Fast, |seed| named("cloud-gp3", seed))
    },
    DeviceKind {
        first_seed: LATER,
        ..kind("cloud-spent", Group::Flash, DEEP, Tempo::Middling, |seed| {
            // A second of bursts is left, and as much again after 10 s of rest.
            let gp2 = preset::cloud_gp2(100);
            let operations = Cap { credit: 3000, ..gp2.operations };
            Box::new(Cloud::new(CloudSpec { operations, ..gp2 }, seed))
        })
    },
    DeviceKind {
        first_seed: LATER,
        ..kind("flash-mqsim", Group::Flash, DEEP, Tempo::Fast, |seed| named("flash-mqsim", seed))
    },
    DeviceKind {
        first_seed: LATER,
        ..kind("flash-sata", Group::Flash, DEEP, Tempo::Fast, |_| {
            let link = Link { bytes_per_second: 550_000_000, duplex: Duplex::Half };
            flash(FlashSpec { link, queue_depth: 64, ..dies(4, 2) })
        })
    },
];

const CACHE_BYTES: u64 = 64 << 20;
const CACHE_LINE: u64 = 256 << 10;

fn named(name: &str, seed: u64) -> Box<dyn Device> {
    (preset::find(name).expect("a preset's name").build)(seed)
}

fn disk(spec: DiskSpec, seed: u64) -> Box<dyn Device> {
    Box::new(Disk::new(spec, seed))
}

fn flash(spec: FlashSpec) -> Box<dyn Device> {
    Box::new(Flash::new(spec))
}

/// The generic drive with so many channels and dies on each.
fn dies(channels: u32, dies_per_channel: u32) -> FlashSpec {
    FlashSpec {
        channels,
        dies_per_channel,
        capacity_bytes: 64_000_000_000 / 4096 * 4096,
        ..preset::flash_generic()
    }
}

/// A drive so small that seconds of writes go round it: it collects garbage all the time.
fn small() -> FlashSpec {
    let spec = dies(4, 2);
    FlashSpec { capacity_bytes: 1 << 30, page: Page { per_block: 32, ..spec.page }, ..spec }
}

fn servers(count: u64, spec: ExponentialSpec, seed: u64) -> Vec<Box<dyn Device>> {
    let server = |index| {
        let seed = seed.wrapping_mul(64).wrapping_add(index);
        Box::new(Exponential::new(spec, seed)) as Box<dyn Device>
    };
    (0..count).map(server).collect()
}
