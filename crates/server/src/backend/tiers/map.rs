//! Which extents are on the fast tier, and in which slot.
//!
//! It is kept at the start of the fast tier, ahead of the slots: a block that says whose map this
//! is, then eight bytes a slot, zero for a free one. An entry changes by itself, and no two extents'
//! entries depend on each other, so a torn write of a block loses nothing that an untorn one keeps.
//!
//! Does not know: when data are where an entry says. The caller that writes entries has seen to
//! that.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::buffers::ALIGN;
use crate::checksum::checksum;

/// Bytes of an extent, and of a slot.
pub(super) const EXTENT: u64 = 1 << 20;
const MAGIC: &[u8; 16] = b"disktime tiers 1";
/// Entries in a block.
const ENTRIES: usize = ALIGN / 8;
const PATH_MAX: usize = 4000;
const CHECKSUM: usize = ALIGN - 8;

/// Why a map can't be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// No room for an extent.
    #[error("it has {bytes} bytes: {least} are the least, the map and one extent")]
    FastTooSmall {
        /// The fast tier's size.
        bytes: u64,
        /// The least size that it needs.
        least: u64,
    },
    /// No extent.
    #[error("it has {bytes} bytes: {EXTENT} are the least, one extent")]
    SlowTooSmall {
        /// The slow tier's size.
        bytes: u64,
    },
    /// More extents than can be counted.
    #[error("it has {bytes} bytes: at most 2^32 - 2 extents of {EXTENT} are possible")]
    TooLarge {
        /// The slow tier's size.
        bytes: u64,
    },
    /// The emulated fast device has less than the fast tier.
    #[error("it has {bytes} bytes for data, the device emulated there {emulated}: make it smaller")]
    Emulated {
        /// Bytes of all slots.
        bytes: u64,
        /// Bytes of the preset.
        emulated: u64,
    },
    /// Its start is neither blank nor a map.
    #[error(
        "its first block is neither blank nor a map of ours: if what it has may go, blank that block"
    )]
    NotBlank,
    /// Its first block is blank, and something else is where the map would go.
    #[error(
        "its first block is blank, but not the {bytes} bytes where its map would go: a file system or an array \
         may be there; if what it has may go, blank them"
    )]
    Occupied {
        /// Bytes of the map, with its first block.
        bytes: u64,
    },
    /// It holds another device's data.
    #[error(
        "it holds extents of {}: name that slow tier, or blank its first block to give them up",
        of.display()
    )]
    Other {
        /// The slow tier that it belongs to.
        of: PathBuf,
    },
    /// A tier has another size than when the map was made.
    #[error(
        "its map is of {slots} slots and {extents} extents, and there is room for {has_slots} and \
         {has_extents}: tiers may grow, not shrink"
    )]
    Shrunk {
        /// Slots of the fast tier.
        slots: u64,
        /// Extents of the slow tier.
        extents: u64,
        /// Slots that there are now.
        has_slots: u64,
        /// Extents that there are now.
        has_extents: u64,
    },
    /// An entry that was never written so.
    #[error("its map is damaged at slot {slot}: nothing can be said of what is where")]
    Damaged {
        /// Which.
        slot: u64,
    },
    /// The slow tier's path does not fit into the map.
    #[error("the slow tier's path has {bytes} bytes, at most {PATH_MAX} are possible")]
    Path {
        /// Its length.
        bytes: usize,
    },
}

/// The numbers of slots and extents of two tiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) slots: u64,
    pub(super) extents: u64,
}

impl Shape {
    /// The shape of tiers of so many bytes.
    pub(super) fn new(fast: u64, slow: u64) -> Result<Self, MapError> {
        let whole = fast / EXTENT;
        let slots = whole.saturating_sub(header_bytes(whole) / EXTENT);
        if slots == 0 {
            return Err(MapError::FastTooSmall { bytes: fast, least: 2 * EXTENT });
        }
        let extents = slow / EXTENT;
        if extents == 0 {
            return Err(MapError::SlowTooSmall { bytes: slow });
        }
        if extents >= u64::from(u32::MAX) {
            return Err(MapError::TooLarge { bytes: slow });
        }
        // More slots than extents are of no use, and stay countable.
        Ok(Self { slots: slots.min(extents), extents })
    }
}

/// The place of every extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Map {
    /// By slot.
    slots: Vec<Option<u32>>,
    /// By extent.
    places: Vec<Option<u32>>,
    free: Vec<u32>,
}

impl Map {
    fn empty(shape: Shape) -> Self {
        let slots = u32::try_from(shape.slots).expect("no more slots than extents");
        Self {
            slots: vec![None; slots as usize],
            places: vec![None; usize::try_from(shape.extents).expect("extents are counted in u32")],
            free: (0..slots).rev().collect(),
        }
    }

    /// Reads the fast tier's map, or makes one on a blank tier. Blocks.
    ///
    /// # Errors
    /// If the tier can't be read or written, or holds anything but this slow tier's extents.
    pub(super) fn open(fast: &File, shape: Shape, slow: &Path) -> io::Result<Self> {
        match Self::look(fast, shape, slow)? {
            Some(map) => Ok(map),
            None => {
                make(fast, shape, slow)?;
                Ok(Self::empty(shape))
            }
        }
    }

    /// The fast tier's map as it is; none if an empty one would be made. Writes nothing. Blocks.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn look(fast: &File, shape: Shape, slow: &Path) -> io::Result<Option<Self>> {
        let mut block = [0; ALIGN];
        fast.read_exact_at(&mut block, 0)?;
        if block == [0; ALIGN] {
            has_room_for_a_map(fast, shape)?;
            return Ok(None);
        }
        let (was, of) = parse(&block).ok_or(MapError::NotBlank).map_err(io::Error::other)?;
        if was.slots > shape.slots || was.extents > shape.extents {
            let Shape { slots: has_slots, extents: has_extents } = shape;
            let Shape { slots, extents } = was;
            let error = MapError::Shrunk { slots, extents, has_slots, has_extents };
            return Err(io::Error::other(error));
        }
        // A grown fast tier keeps its slots, so that they stay where they are.
        let map = Self::read(fast, Shape { slots: was.slots, extents: shape.extents })?;
        if of == slow {
            return Ok(Some(map));
        }
        if map.slots.iter().any(Option::is_some) {
            return Err(io::Error::other(MapError::Other { of }));
        }
        Ok(None)
    }

    fn read(fast: &File, shape: Shape) -> io::Result<Self> {
        let mut map = Self::empty(shape);
        let mut entries = vec![0; map.slots.len() * 8];
        fast.read_exact_at(&mut entries, ALIGN as u64)?;
        let entries = entries.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        for (slot, entry) in (0..).zip(entries) {
            let damaged = || io::Error::other(MapError::Damaged { slot: u64::from(slot) });
            let Some(extent) = decode(slot, entry).ok_or_else(damaged)? else { continue };
            if map.places.get(extent as usize) != Some(&None) {
                return Err(damaged());
            }
            map.put(slot, Some(extent));
        }
        map.free.retain(|slot| map.slots[*slot as usize].is_none());
        Ok(map)
    }

    /// Bytes ahead of the slots.
    pub(super) fn header_bytes(&self) -> u64 {
        header_bytes(self.slots.len() as u64)
    }

    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("slots are counted in u32")
    }

    pub(super) fn extents(&self) -> usize {
        self.places.len()
    }

    /// The slot that an extent is in, if it is on the fast tier.
    pub(super) fn slot(&self, extent: u32) -> Option<u32> {
        self.places[extent as usize]
    }

    /// The extent in a slot.
    pub(super) fn extent(&self, slot: u32) -> Option<u32> {
        self.slots[slot as usize]
    }

    /// A slot that nothing is in, until it is [given back](Self::give_back) or put something in.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// From now on this is in a slot.
    pub(super) fn put(&mut self, slot: u32, extent: Option<u32>) {
        if let Some(old) = self.slots[slot as usize].take() {
            self.places[old as usize] = None;
        }
        if let Some(extent) = extent {
            self.places[extent as usize] = Some(slot);
        }
        self.slots[slot as usize] = extent;
    }

    /// The block of the map that has a slot's entry, as it will be with this in the slot, and
    /// where on the fast tier it is.
    pub(super) fn block(&self, slot: u32, extent: Option<u32>) -> (u64, [u8; ALIGN]) {
        let first = slot as usize / ENTRIES * ENTRIES;
        let mut block = [0; ALIGN];
        let entries = (first..self.slots.len()).zip(block.as_chunks_mut::<8>().0);
        for (at, bytes) in entries {
            let at = u32::try_from(at).expect("slots are counted in u32");
            let extent = if at == slot { extent } else { self.extent(at) };
            *bytes = encode(at, extent).to_le_bytes();
        }
        ((ALIGN + first * 8) as u64, block)
    }
}

/// The length of the header for so many slots, in whole extents, so that slots begin on their own
/// boundaries.
fn header_bytes(slots: u64) -> u64 {
    (ALIGN as u64 + slots.saturating_mul(8)).next_multiple_of(EXTENT)
}

/// Sees that nothing but entries of a map that was given up is behind a blank first block. Btrfs, arrays
/// and caches of Linux leave that block blank and have what they need of theirs behind it.
fn has_room_for_a_map(fast: &File, shape: Shape) -> io::Result<()> {
    let mut block = [0; ALIGN];
    for (slot, at) in
        (0..).step_by(ENTRIES).zip((ALIGN as u64..header_bytes(shape.slots)).step_by(ALIGN))
    {
        fast.read_exact_at(&mut block, at)?;
        let entries = block.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        if (slot..).zip(entries).any(|(slot, entry)| decode(slot, entry).is_none()) {
            let bytes = header_bytes(shape.slots);
            return Err(io::Error::other(MapError::Occupied { bytes }));
        }
    }
    Ok(())
}

/// Makes an empty map. The block that says that there is one comes last.
fn make(fast: &File, shape: Shape, slow: &Path) -> io::Result<()> {
    let path = slow.as_os_str().as_bytes();
    if path.len() > PATH_MAX {
        return Err(io::Error::other(MapError::Path { bytes: path.len() }));
    }
    let mut block = [0; ALIGN];
    fast.write_all_at(&block, 0)?;
    fast.sync_data()?;
    for at in (ALIGN as u64..header_bytes(shape.slots)).step_by(ALIGN) {
        fast.write_all_at(&[0; ALIGN], at)?;
    }
    fast.sync_data()?;
    block[..16].copy_from_slice(MAGIC);
    block[16..24].copy_from_slice(&shape.slots.to_le_bytes());
    block[24..32].copy_from_slice(&shape.extents.to_le_bytes());
    let len = u16::try_from(path.len()).expect("checked above");
    block[32..34].copy_from_slice(&len.to_le_bytes());
    block[34..34 + path.len()].copy_from_slice(path);
    let sum = checksum(&block[..CHECKSUM]);
    block[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
    fast.write_all_at(&block, 0)?;
    fast.sync_data()
}

/// The contents of a first block, if it is a map's.
fn parse(block: &[u8; ALIGN]) -> Option<(Shape, PathBuf)> {
    let number = |at: usize| Some(u64::from_le_bytes(*block[at..].first_chunk()?));
    if !block.starts_with(MAGIC) || number(CHECKSUM)? != checksum(&block[..CHECKSUM]) {
        return None;
    }
    let len = usize::from(u16::from_le_bytes(*block[32..].first_chunk()?));
    let path = block.get(34..34 + len).filter(|_| len <= PATH_MAX)?;
    let shape = Shape { slots: number(16)?, extents: number(24)? };
    Some((shape, OsStr::from_bytes(path).into()))
}

fn encode(slot: u32, extent: Option<u32>) -> u64 {
    extent.map_or(0, |extent| (check(slot, extent) << 48) | (u64::from(extent) + 1))
}

/// The contents of an entry; none if it was never written.
fn decode(slot: u32, entry: u64) -> Option<Option<u32>> {
    if entry == 0 {
        return Some(None);
    }
    let extent = u32::try_from((entry & ((1 << 48) - 1)).checked_sub(1)?).ok()?;
    (encode(slot, Some(extent)) == entry).then_some(Some(extent))
}

/// Sixteen bits of a slot and what is in it.
fn check(slot: u32, extent: u32) -> u64 {
    let both = (u64::from(slot) << 32) | u64::from(extent);
    checksum(&both.to_le_bytes()) >> 48
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { slots: 700, extents: 1000 };

    fn blank(bytes: u64) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(bytes).expect("room");
        file
    }

    fn open(file: &File, slow: &str) -> Result<Map, MapError> {
        let error = |error: io::Error| error.downcast::<MapError>().expect("a map's error");
        Map::open(file, SHAPE, Path::new(slow)).map_err(error)
    }

    #[test]
    fn an_entry_that_was_put_is_found_again() {
        let file = blank(2 * EXTENT);
        let mut map = open(&file, "/slow").unwrap();
        assert_eq!((map.slots(), map.extents(), map.header_bytes()), (700, 1000, EXTENT));
        for extent in [999, 0, 512] {
            let slot = map.take().unwrap() + 500 * u32::from(extent == 512);
            let (at, block) = map.block(slot, Some(extent));
            file.write_all_at(&block, at).unwrap();
            map.put(slot, Some(extent));
        }
        let (at, block) = map.block(0, None);
        file.write_all_at(&block, at).unwrap();
        map.put(0, None);
        let found = open(&file, "/slow").unwrap();
        assert_eq!((&found.slots, &found.places), (&map.slots, &map.places));
        assert_eq!([999, 0, 512].map(|extent| found.slot(extent)), [None, Some(1), Some(502)]);
        assert_eq!(found.free.len(), 698);
    }

    #[test]
    fn a_map_of_another_device_is_not_used() {
        let file = blank(2 * EXTENT);
        let mut map = open(&file, "/slow").unwrap();
        assert!(open(&file, "/other").is_ok(), "nothing was in it");
        assert!(open(&file, "/slow").is_ok());
        let slot = map.take().unwrap();
        let (at, block) = map.block(slot, Some(7));
        file.write_all_at(&block, at).unwrap();
        assert_eq!(open(&file, "/other"), Err(MapError::Other { of: "/slow".into() }));
        for (slots, extents) in [(699, 2000), (900, 999)] {
            let shrunk = Map::open(&file, Shape { slots, extents }, Path::new("/slow"));
            assert!(shrunk.unwrap_err().to_string().contains("700 slots and 1000 extents"));
        }
        let grown = Map::open(&file, Shape { slots: 900, extents: 2000 }, Path::new("/slow"));
        let grown = grown.unwrap();
        assert_eq!((grown.slots(), grown.extents(), grown.slot(7)), (700, 2000, Some(slot)));
    }

    #[test]
    fn other_bytes_are_no_map() {
        let file = blank(2 * EXTENT);
        file.write_all_at(b"something else", 0).unwrap();
        assert_eq!(open(&file, "/slow"), Err(MapError::NotBlank));
        let file = blank(2 * EXTENT);
        let _made = open(&file, "/slow").unwrap();
        file.write_all_at(&[1], 24).unwrap();
        assert_eq!(open(&file, "/slow"), Err(MapError::NotBlank), "its checksum is wrong");
    }

    /// A btrfs has its first superblock 64 KiB from its start, an array of Linux 4 KiB: the first block of
    /// both is blank, and a map was made over the superblock.
    #[test]
    fn a_blank_block_before_something_else_is_no_blank_tier() {
        for at in [4096, 64 << 10, EXTENT - 8] {
            let file = blank(2 * EXTENT);
            file.write_all_at(b"_BHRfS_M", at).unwrap();
            assert_eq!(open(&file, "/slow"), Err(MapError::Occupied { bytes: EXTENT }), "{at}");
            let mut found = [0; 8];
            file.read_exact_at(&mut found, at).unwrap();
            assert_eq!(&found, b"_BHRfS_M", "nothing was changed");
        }
        let file = blank(2 * EXTENT);
        let mut map = open(&file, "/slow").unwrap();
        let slot = map.take().unwrap();
        let (at, block) = map.block(slot, Some(7));
        file.write_all_at(&block, at).unwrap();
        file.write_all_at(&[0; ALIGN], 0).unwrap();
        let found = open(&file, "/other").unwrap();
        assert_eq!(found.slot(7), None, "a blank first block gives a map up");
    }

    #[test]
    fn damaged_entries_are_told() {
        for (slot, entry, damaged) in [
            (0, 0, false),
            (3, encode(3, Some(5)), false),
            (3, encode(4, Some(5)), true),
            (3, encode(3, Some(1000)), true),
            (3, encode(3, Some(5)) ^ 1, true),
            (3, 1 << 48, true),
            (3, u64::MAX, true),
        ] {
            let file = blank(2 * EXTENT);
            let _made = open(&file, "/slow").unwrap();
            file.write_all_at(&entry.to_le_bytes(), ALIGN as u64 + slot * 8).unwrap();
            let error = open(&file, "/slow").err();
            assert_eq!(error, damaged.then_some(MapError::Damaged { slot }), "{entry:x}");
        }
        let file = blank(2 * EXTENT);
        let _made = open(&file, "/slow").unwrap();
        for slot in [1, 2] {
            let entry = encode(slot, Some(5)).to_le_bytes();
            file.write_all_at(&entry, ALIGN as u64 + u64::from(slot) * 8).unwrap();
        }
        assert_eq!(open(&file, "/slow"), Err(MapError::Damaged { slot: 2 }), "in two slots");
    }

    #[test]
    fn tiers_have_a_least_size() {
        assert_eq!(Shape::new(2 * EXTENT, EXTENT), Ok(Shape { slots: 1, extents: 1 }));
        assert_eq!(Shape::new(u64::MAX, EXTENT), Ok(Shape { slots: 1, extents: 1 }));
        let shape = Shape::new(300_000 * EXTENT, 1 << 50).unwrap();
        assert_eq!(shape.slots, 300_000 - 3, "two and a third extents of entries");
        for (fast, slow) in [(0, EXTENT), (2 * EXTENT - 1, EXTENT), (2 * EXTENT, EXTENT - 1)] {
            assert!(Shape::new(fast, slow).is_err(), "{fast} {slow}");
        }
        assert_eq!(Shape::new(1 << 30, u64::MAX), Err(MapError::TooLarge { bytes: u64::MAX }));
    }
}
