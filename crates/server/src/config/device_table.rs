//! A device's table, and what only shows with all its virtual disks at hand.

use std::ops::RangeInclusive;

use disktime_config::quantity::{parse_duration, parse_share, parse_size};
use disktime_config::{DEPTH_MAX, DeviceFacts, Named, Scheduling};
use disktime_core::{Duration, Share};
use disktime_model::preset;

use super::{ConfigError, VdiskConfig, check_name};
use crate::backend::{BackEndKind, check_chunk};
use crate::emulate::Emulate;
use crate::layout::{Extent, LayoutError, Wanted, lay_out};
use crate::shard::{Depths, PieceMax};

/// All virtual disks of one memory back end together, in bytes.
const MEMORY_MAX: u64 = 1 << 40;

/// Connections to one server.
const CONNECTIONS_MAX: u32 = 16;
/// Threads of one device: its shard's, and those that carry its clients' bytes. By the model of `disktime bench
/// shards` requests of 4 KiB gain by two carriers, and reads of 1 MiB by all eight.
const SHARDS: RangeInclusive<u32> = 1..=9;
/// The most disk time that migrations may take unless `promotion` says otherwise: 10 %.
const PROMOTION: Share = Share::from_percent(10).expect("a part of the whole");

/// A device and its virtual disks.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its name.
    pub name: String,
    /// The back end that stores its bytes.
    pub back_end: BackEndKind,
    /// Whether a directory of raw files is made where nothing is and nothing was.
    pub create: bool,
    /// The timing model in front of it.
    pub emulate: Option<Emulate>,
    /// The most disk time that migrations between tiers may take, as a share; zero if no extent is
    /// moved.
    pub promotion: Share,
    /// Whether all extents are to go back to the slow tier.
    pub empties_fast: bool,
    /// How many threads serve it: one that decides and does the device's work, the others carry its clients'
    /// bytes. One alone does both.
    pub shards: u32,
    /// How its time is shared.
    pub scheduling: Scheduling,
    /// Its virtual disks.
    pub vdisks: Vec<VdiskConfig>,
}

impl DeviceConfig {
    /// Where its virtual disks lie when it has `room` for them and these are placed already.
    ///
    /// # Errors
    /// If they don't fit, or are not as recorded.
    pub fn lay_out(&self, room: u64, recorded: &[Extent]) -> Result<Vec<Extent>, LayoutError> {
        let wanted = self.vdisks.iter().map(|vdisk| {
            let VdiskConfig { name, size, zone, .. } = vdisk;
            Wanted { name, size: *size, zone: *zone }
        });
        lay_out(room, recorded, &wanted.collect::<Vec<_>>())
    }

    /// The same device without virtual disks.
    pub(crate) fn without_vdisks(&self) -> Self {
        let Self { back_end, scheduling, .. } = self;
        Self {
            name: self.name.clone(),
            back_end: back_end.clone(),
            create: self.create,
            emulate: self.emulate,
            promotion: self.promotion,
            empties_fast: self.empties_fast,
            shards: self.shards,
            scheduling: scheduling.clone(),
            vdisks: Vec::new(),
        }
    }

    /// The same device with this virtual disk and no other.
    pub(crate) fn with_only(&self, vdisk: VdiskConfig) -> Self {
        Self { vdisks: vec![vdisk], ..self.without_vdisks() }
    }

    /// The same device with this virtual disk, behind its parent and that one's.
    pub(crate) fn with_family(&self, vdisk: VdiskConfig) -> Self {
        let parent = self.parent_of(&vdisk).map(|at| &self.vdisks[at]);
        let above = parent.and_then(|it| self.parent_of(it)).map(|at| &self.vdisks[at]);
        let family = above.into_iter().chain(parent).filter(|it| it.name != vdisk.name);
        let mut vdisks: Vec<_> = family.cloned().collect();
        vdisks.push(vdisk);
        Self { vdisks, ..self.without_vdisks() }
    }

    /// Its virtual disks' names, for the log.
    pub(crate) fn vdisk_names(&self) -> String {
        let names = self.vdisks.iter().map(|vdisk| &*vdisk.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// The emulated device's size in bytes.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.emulate.map(Emulate::capacity_bytes)
    }

    /// Whether extents are moved between tiers.
    #[must_use]
    pub fn promotes(&self) -> bool {
        matches!(self.back_end, BackEndKind::Tiered { .. }) && self.promotion != Share::ZERO
    }

    /// Whether the shard's own thread does the device's work, a piece at a time, and nothing else
    /// meanwhile.
    pub fn works_on_the_shard(&self) -> bool {
        self.back_end == BackEndKind::Memory && self.emulate.is_none()
    }

    /// The longest piece.
    pub(crate) fn piece_max(&self) -> PieceMax {
        if self.works_on_the_shard() { PieceMax::ON_THE_SHARD } else { PieceMax::REMOTE }
    }

    /// Laws for its virtual disks' parts of so many pieces at the device, if they go by latency.
    pub(crate) fn depths(&self, depth: u32) -> Option<Depths> {
        let weights = self.vdisks.iter().map(|vdisk| vdisk.contract.weight);
        Some(Depths::new(self.scheduling.depth_latency?, depth, weights))
    }

    /// Room for virtual disks as far as the configuration alone says.
    pub(crate) fn room(&self) -> u64 {
        let memory = self.back_end == BackEndKind::Memory;
        self.capacity().unwrap_or(if memory { MEMORY_MAX } else { u64::MAX })
    }

    /// Why a zone means nothing here, where it does not; `size` is the device's, if it has one.
    pub(crate) fn check_zones(&self, size: Option<u64>) -> Result<(), ConfigError> {
        let zoned = || self.vdisks.iter().find_map(|vdisk| vdisk.zone.map(|zone| (vdisk, zone)));
        if let (None, Some((vdisk, zone))) = (size, zoned()) {
            let reason = format!(
                "device {} has no start and end: `emulate` one, or give a file or a block device \
                 as its back end",
                self.name
            );
            return Err(Named::new("vdisk", &vdisk.name).wrong("zone", zone, reason).into());
        }
        Ok(())
    }

    /// The place of a virtual disk's parent, if it has one.
    pub(crate) fn parent_of(&self, vdisk: &VdiskConfig) -> Option<usize> {
        let parent = vdisk.parent.as_ref()?;
        self.vdisks.iter().position(|it| it.name == *parent)
    }

    /// A parent stands before its children and has none itself.
    fn check_parents(&self) -> Result<(), ConfigError> {
        for (at, vdisk) in self.vdisks.iter().enumerate() {
            let Some(parent) = &vdisk.parent else { continue };
            let place = self.parent_of(vdisk).filter(|place| *place < at);
            if place.is_none_or(|place| self.vdisks[place].parent.is_some()) {
                let reason = format!(
                    "name a virtual disk of device {} that stands before this one and has no \
                     parent itself",
                    self.name
                );
                return Err(Named::new("vdisk", &vdisk.name)
                    .wrong("parent", parent, reason)
                    .into());
            }
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        self.check_parents()?;
        // A child's reservation is a part of its parent's.
        let own = self.vdisks.iter().filter(|vdisk| vdisk.parent.is_none());
        let reserved = own.map(|vdisk| u64::from(vdisk.contract.reserve.ppm()));
        let asked_ppm = reserved.sum::<u64>();
        let available = Share::PARTS - self.scheduling.headroom.ppm();
        if asked_ppm > u64::from(available) {
            let available = Share::from_ppm(available).expect("a part of the whole");
            return Err(ConfigError::Overbooked { device: name.clone(), asked_ppm, available });
        }
        let mut promised = self.vdisks.iter().filter(|_| self.scheduling.profile.is_none());
        let promised = promised.find_map(|vdisk| Some((vdisk, vdisk.needs_profile()?)));
        if let Some((vdisk, (key, text))) = promised {
            let reason = format!(
                "device {name} has no `profile` to reckon with: make one with `disktime device \
                 profile` and name its file there{}",
                if key == "rate" { ", or set `admission = \"best-effort\"`" } else { "" }
            );
            return Err(Named::new("vdisk", &vdisk.name).wrong(key, text, reason).into());
        }
        // A file's or block device's own size, and what is recorded of it, show when it is opened.
        if self.back_end == BackEndKind::Memory {
            self.check_zones(self.capacity())?;
        }
        let laid_out = self.lay_out(self.room(), &[]).map(drop);
        laid_out.map_err(|error| ConfigError::Layout { device: name.clone(), error })
    }
}

/// How long requests may be held while a server is gone.
const HOLDS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

disktime_config::scheduling_table! {
    /// The table `[[device]]`.
    pub(super) struct DeviceTable {
        pub(super) name: String,
        back_end: String,
        create: Option<bool>,
        chunk: Option<String>,
        connections: Option<u32>,
        hold: Option<String>,
        promotion: Option<String>,
        empty_fast: Option<bool>,
        shards: Option<u32>,
        emulate: Option<String>,
    }
}

impl DeviceTable {
    /// The device, without its virtual disks; `real_time` says whether some of them have deadlines.
    pub(super) fn check(&self, real_time: bool) -> Result<DeviceConfig, ConfigError> {
        check_name("device", &self.name)?;
        let of = Named::new("device", &self.name);
        let back_end = self.back_end(&of)?;
        let tiers = matches!(back_end, BackEndKind::Tiered { .. });
        let emulate = of.read("emulate", self.emulate.as_deref(), |text| emulate(text, tiers))?;
        let promotion = of.read("promotion", self.promotion.as_deref(), parse_share)?;
        if let Some(text) = self.promotion.as_deref().filter(|_| !tiers) {
            let why = "only a `tiered:` back end promotes extents: leave it out";
            return Err(of.wrong("promotion", text, why).into());
        }
        let promotion = promotion.unwrap_or(PROMOTION);
        let empties_fast = self.empty_fast.unwrap_or(false);
        if let (true, Some(why)) = (empties_fast, cannot_empty(tiers, promotion)) {
            return Err(of.wrong("empty_fast", true, why).into());
        }
        let facts = DeviceFacts {
            depth_max: emulate.map_or(DEPTH_MAX, Emulate::queue_depth),
            // Memory has no time of its own to be found out.
            timed: back_end != BackEndKind::Memory || emulate.is_some(),
            real_time,
        };
        Ok(DeviceConfig {
            name: self.name.clone(),
            back_end,
            create: self.create.unwrap_or(false),
            emulate,
            promotion,
            empties_fast,
            shards: self.shards(&of)?,
            scheduling: self.scheduling().check(&of, facts)?,
            vdisks: Vec::new(),
        })
    }

    fn shards(&self, of: &Named) -> Result<u32, ConfigError> {
        let shards = self.shards.unwrap_or(*SHARDS.start());
        if SHARDS.contains(&shards) {
            return Ok(shards);
        }
        let (least, most) = (SHARDS.start(), SHARDS.end());
        let why = format!(
            "a device has {least} to {most} threads: leave it out for one, or state how many cores its \
             clients are to have"
        );
        Err(of.wrong("shards", shards, why).into())
    }

    /// The back end, with the keys that belong to some kinds of it only.
    fn back_end(&self, of: &Named) -> Result<BackEndKind, ConfigError> {
        let back_end = self.back_end.parse();
        let mut back_end = back_end.map_err(|why| of.wrong("back_end", &self.back_end, why))?;
        if let (Some(true), false) = (self.create, matches!(back_end, BackEndKind::File(_))) {
            let why = "only a `file:` back end's directory is made: leave it out; files for members \
                       and tiers are made by `disktime device init PATH --size SIZE`";
            return Err(of.wrong("create", true, why).into());
        }
        if let Some(text) = &self.chunk {
            let bad = |why| of.wrong("chunk", text, why);
            let BackEndKind::Raid0 { chunk, .. } = &mut back_end else {
                let why = "only a `raid0:` back end has chunks: leave it out".to_owned();
                return Err(bad(why).into());
            };
            *chunk = parse_size(text).map_err(bad)?;
            check_chunk(*chunk).map_err(bad)?;
        }
        if let Some(count) = self.connections {
            let BackEndKind::Nbd { connections, .. } = &mut back_end else {
                let why = "only an `nbd:` or `nbd+unix:` back end has connections: leave it out";
                return Err(of.wrong("connections", count, why).into());
            };
            if !(1..=CONNECTIONS_MAX).contains(&count) {
                let why = format!("a server gets 1 to {CONNECTIONS_MAX}");
                return Err(of.wrong("connections", count, why).into());
            }
            *connections = Some(count);
        }
        if let Some(text) = &self.hold {
            let BackEndKind::Nbd { hold, .. } = &mut back_end else {
                let why = "only an `nbd:` or `nbd+unix:` back end can be gone: leave it out";
                return Err(of.wrong("hold", text, why).into());
            };
            let allowed = || "100 ms to 1 h; leave it out to fail requests at once".to_owned();
            let span = parse_duration(text).and_then(|span| {
                Some(span).filter(|span| HOLDS.contains(span)).ok_or_else(allowed)
            });
            *hold = Some(span.map_err(|why| of.wrong("hold", text, why))?);
        }
        Ok(back_end)
    }
}

/// Why the fast tier can't be emptied.
fn cannot_empty(tiers: bool, promotion: Share) -> Option<&'static str> {
    if !tiers {
        Some("only a `tiered:` back end has a fast tier: leave it out")
    } else if promotion == Share::ZERO {
        Some("moving needs time, and `promotion` gives it none: leave that out")
    } else {
        None
    }
}

/// Reads `emulate`: a preset, or one for each of the tiers.
fn emulate(text: &str, tiers: bool) -> Result<Emulate, String> {
    let find = |name: &str| {
        let known = || preset::PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>();
        preset::find(name.trim())
            .ok_or_else(|| format!("no such preset; there are: {}", known().join(", ")))
    };
    match (tiers, text.split_once(',')) {
        (true, Some((fast, slow))) => Ok(Emulate::Tiers { fast: find(fast)?, slow: find(slow)? }),
        (true, None) => {
            Err("tiers are emulated one by one: name two presets, the fast tier's and \
                             the slow one's, with a comma between them"
                .to_owned())
        }
        (false, Some(_)) => Err("only a `tiered:` back end has two presets".to_owned()),
        (false, None) => find(text).map(Emulate::One),
    }
}
