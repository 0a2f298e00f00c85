//! Two tiers before their shard runs: opened, their map read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::map::{EXTENT, Map, MapError, Shape};
use super::{TieredBackEnd, Tiers};
use crate::backend::blocks::Disk;
use crate::backend::{Abilities, BlockBackEnd, OneFile, file};
use crate::buffers::ALIGN;
use crate::served_file::ServedFile;

/// A fast and a slow tier, opened for this server alone.
pub struct TwoTiers {
    fast: Arc<ServedFile>,
    slow: Arc<ServedFile>,
    map: Map,
    direct: bool,
    frees: bool,
    empties: bool,
    /// One of them is a block device.
    pub block_device: bool,
}

impl TwoTiers {
    /// Opens both, each a regular file or a block device; makes a map at the start of the fast one
    /// if it is blank there. Slots must be within the emulated fast device, if there is one. Blocks;
    /// not to be called on a shard.
    ///
    /// # Errors
    /// If one can't be opened, is too small or in use, or the fast one has anything but this slow
    /// one's extents. Names the tier.
    pub fn open(fast: &Path, slow: &Path, emulated: Option<u64>) -> io::Result<Self> {
        let open = |path: &Path| {
            let file = OneFile::open(path).map_err(|error| file::at(path, &error))?;
            file.ok_or_else(|| at(path, &"a tier is a regular file or a block device"))
        };
        let (first, second) = (open(fast)?, open(slow)?);
        let shape = shape((fast, first.size), (slow, second.size))?;
        // Not the descriptor for direct I/O, which wants aligned memory.
        let plain = File::options().read(true).write(true).open(fast);
        let map = plain.and_then(|file| Map::open(&file, shape, slow));
        let map = map.map_err(|error| at(fast, &error))?;
        fits(fast, map.slots().into(), emulated)?;
        let block_device = first.block_device || second.block_device;
        let ((fast, one, can), (slow, other, too)) = (first.into_parts(), second.into_parts());
        let frees = !block_device && can && too;
        let direct = one || other;
        Ok(Self { fast, slow, map, direct, frees, empties: false, block_device })
    }

    /// Whether tiers of so many bytes each could be opened, as far as the fast one's map says. Writes nothing, and
    /// locks nothing: beside a server that has them, too. Blocks.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look(
        (fast, fast_bytes): (&Path, u64),
        (slow, slow_bytes): (&Path, u64),
        emulated: Option<u64>,
    ) -> io::Result<()> {
        let shape = shape((fast, fast_bytes), (slow, slow_bytes))?;
        let map = File::open(fast).and_then(|file| Map::look(&file, shape, slow));
        let map = map.map_err(|error| at(fast, &error))?;
        fits(fast, map.map_or(shape.slots, |map| map.slots().into()), emulated)
    }

    /// Whether a fast tier has no map and nothing else in its first block. Blocks.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn is_blank(fast: &Path) -> io::Result<bool> {
        let mut block = Vec::new();
        File::open(fast)?.take(ALIGN as u64).read_to_end(&mut block)?;
        Ok(block.iter().all(|byte| *byte == 0))
    }

    /// Nothing is promoted: what is on the fast tier goes back, so that it can be taken away.
    #[must_use]
    pub fn emptying(self) -> Self {
        Self { empties: true, ..self }
    }

    /// Names the virtual disks on them, for the log.
    pub(crate) fn hold(&self, vdisks: &str) {
        [&self.fast, &self.slow].iter().for_each(|tier| tier.hold(vdisks));
    }

    /// Extents that are on the fast tier.
    #[must_use]
    pub fn promoted(&self) -> u32 {
        let slots = 0..self.map.slots();
        slots.map(|slot| u32::from(self.map.extent(slot).is_some())).sum()
    }

    /// The device's size in bytes: whole extents of the slow tier.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.map.extents() as u64 * EXTENT
    }

    pub(crate) fn abilities(&self) -> Abilities {
        Abilities::of_files(self.frees)
    }

    /// Virtual disks at these extents of it, each a first byte on a block and a size, none over
    /// another; if `promotes`, with a disk after the last for migrations' pieces.
    #[must_use]
    pub fn on_shard(self, extents: &[(u64, u64)], promotes: bool) -> TieredBackEnd {
        let disk = |(base, bytes): &(u64, u64)| Disk::new(0, self.direct, *base, *bytes);
        let mut disks: Vec<_> = extents.iter().map(disk).collect();
        let last = u32::try_from(disks.len()).expect("virtual disks are bounded");
        if promotes {
            disks.push(Disk::new(0, self.direct, 0, self.size()));
        }
        let (abilities, direct) = (self.abilities(), self.direct);
        let mut tiers = Tiers::new(self.fast, self.slow, self.map, promotes.then_some(last));
        tiers.empties = self.empties;
        BlockBackEnd::new(vec![tiers], disks, abilities).open_ended(direct)
    }
}

/// The numbers of slots and extents of two tiers, each with its path and size.
fn shape((fast, first): (&Path, u64), (slow, second): (&Path, u64)) -> io::Result<Shape> {
    Shape::new(first, second).map_err(|error| match error {
        MapError::SlowTooSmall { .. } | MapError::TooLarge { .. } => at(slow, &error),
        error => at(fast, &error),
    })
}

/// Whether slots are within the emulated fast device, if there is one.
fn fits(fast: &Path, slots: u64, emulated: Option<u64>) -> io::Result<()> {
    let bytes = slots * EXTENT;
    match emulated.filter(|emulated| *emulated < bytes) {
        Some(emulated) => Err(at(fast, &MapError::Emulated { bytes, emulated })),
        None => Ok(()),
    }
}

fn at(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}
