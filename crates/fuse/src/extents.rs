//! Where the file system below has put a file's bytes on its device.
#![allow(unsafe_code, reason = "the kernel's answer is written into memory of this process")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{self, Updater};

/// `FS_IOC_FIEMAP`.
const FIEMAP: u32 = 0xC020_660B;
/// Bytes of `struct fiemap`, and of `struct fiemap_extent` behind it.
const HEAD: usize = 32;
const ENTRY: usize = 56;
/// Flags of extents whose place is not known: `UNKNOWN`, `DELALLOC`, `DATA_INLINE`.
const NOWHERE: u32 = 0x2 | 0x4 | 0x200;

/// A range of a file that lies in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    logical: u64,
    physical: u64,
    bytes: u64,
}

impl Extent {
    /// The place of a byte of the file, if it lies here.
    fn place(&self, offset: u64) -> Option<u64> {
        let within = offset.checked_sub(self.logical).filter(|within| *within < self.bytes)?;
        Some(self.physical.saturating_add(within))
    }
}

/// Knowledge of an open file's places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Extents {
    /// Nothing was asked yet.
    #[default]
    Unread,
    /// The file system says no places.
    None,
    /// The extent that was asked for last.
    Last(Extent),
}

impl Extents {
    /// The place of a byte; `None` in a hole, in bytes that have no place yet, and where the file system
    /// says no places. An extent is remembered until another one is asked for: a file that is moved
    /// meanwhile is reckoned where it was.
    pub(crate) fn place(&mut self, file: &OwnedFd, offset: u64) -> Option<u64> {
        match self {
            Self::None => return None,
            Self::Last(extent) => {
                if let Some(place) = extent.place(offset) {
                    return Some(place);
                }
            }
            Self::Unread => {}
        }
        match ask(file, offset) {
            Ok(Some(extent)) => {
                *self = Self::Last(extent);
                extent.place(offset)
            }
            Ok(None) => None,
            Err(_) => {
                *self = Self::None;
                None
            }
        }
    }
}

/// The extent at an offset or the next one behind it.
fn ask(file: impl AsFd, offset: u64) -> Result<Option<Extent>, Errno> {
    let mut map = [0_u8; HEAD + ENTRY];
    map[..8].copy_from_slice(&offset.to_ne_bytes());
    map[8..16].copy_from_slice(&(u64::MAX - offset).to_ne_bytes());
    // One extent is asked for: field `fm_extent_count`.
    map[24..28].copy_from_slice(&1_u32.to_ne_bytes());
    // SAFETY: the kernel writes the head and as many extents as the head has asked for: one.
    unsafe { ioctl::ioctl(file, Updater::<{ FIEMAP }, [u8; HEAD + ENTRY]>::new(&mut map))? };
    let word = |at: usize| u32::from_ne_bytes([map[at], map[at + 1], map[at + 2], map[at + 3]]);
    let long = |at: usize| {
        let [low, high] = [word(at), word(at + 4)];
        let bytes = [low.to_ne_bytes(), high.to_ne_bytes()];
        u64::from_ne_bytes(bytes.concat().try_into().expect("twice four bytes"))
    };
    let (mapped, flags) = (word(20), word(HEAD + 40));
    if mapped == 0 || flags & NOWHERE != 0 {
        return Ok(None);
    }
    let extent = Extent { logical: long(HEAD), physical: long(HEAD + 8), bytes: long(HEAD + 16) };
    Ok(Some(extent))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Bytes of one extent lie side by side; a hole has no place. Where the file system says nothing,
    /// all of it is nowhere.
    #[test]
    fn bytes_of_an_extent_lie_side_by_side_and_a_hole_nowhere() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&[1; 65_536], 4 << 20).unwrap();
        file.sync_all().unwrap();
        let file = OwnedFd::from(file);
        let mut extents = Extents::default();
        assert_eq!(extents.place(&file, 0), None, "a hole");
        let Some(place) = extents.place(&file, 4 << 20) else {
            assert_eq!(extents, Extents::None, "the file system says places of none or of all");
            return;
        };
        assert_eq!(extents.place(&file, (4 << 20) + 4095), Some(place + 4095));
        assert!(matches!(extents, Extents::Last(_)));
        assert_eq!(extents.place(&file, 7 << 20), None, "a hole behind it");
    }
}
