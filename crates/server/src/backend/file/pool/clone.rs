//! The file of a virtual disk as a clone of another one's: both share their extents until one of them is
//! written (`FICLONERANGE` of XFS and btrfs).
//!
//! Does not know: whether somebody writes the first one meanwhile.
#![allow(unsafe_code, reason = "an ioctl that no safe wrapper has")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use disktime_core::Instant;

use crate::clock;
use crate::served_file::ServedFile;

/// Bytes that are cloned at once: between two of them there is a look at the clock. A file with an extent
/// for each block has 65,536 of them in so many bytes.
const CHUNK: u64 = 256 << 20;

/// A file that is to become a clone of another one. Blocks; not to be used on a shard.
pub struct PoolClone {
    pub(super) from: Arc<ServedFile>,
    pub(super) to: File,
    pub(super) path: PathBuf,
    /// How long both are.
    pub(super) bytes: u64,
}

/// Why a file is no clone.
#[derive(Debug)]
pub enum CloneError {
    /// The file system has no clones.
    Unsupported,
    /// The time is over.
    Late,
    /// The system refuses.
    Io(io::Error),
}

impl PoolClone {
    /// Clones the first bytes, to see whether that can be done.
    ///
    /// # Errors
    /// If not.
    pub fn try_first(&self) -> Result<(), CloneError> {
        self.clone(0..self.bytes.min(CHUNK))
    }

    /// Clones all bytes, if that can be done by then.
    ///
    /// # Errors
    /// If the system refuses, or the time is over: then some of them are cloned.
    pub fn clone_all(&self, until: Instant) -> Result<(), CloneError> {
        let mut at = 0;
        while at < self.bytes {
            if clock::now() >= until {
                return Err(CloneError::Late);
            }
            let end = self.bytes.min(at + CHUNK);
            self.clone(at..end)?;
            at = end;
        }
        Ok(())
    }

    /// Makes durable what was cloned, but for the file's name.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn sync(&self) -> Result<(), CloneError> {
        self.to.sync_all().map_err(CloneError::Io)
    }

    /// The file's path.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn clone(&self, Range { start, end }: Range<u64>) -> Result<(), CloneError> {
        let range = libc::file_clone_range {
            src_fd: self.from.as_raw_fd().into(),
            src_offset: start,
            src_length: end - start,
            dest_offset: start,
        };
        // SAFETY: the call reads a structure that outlives it, and both files are open.
        let done =
            unsafe { libc::ioctl(self.to.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EXDEV | libc::EINVAL) => {
                CloneError::Unsupported
            }
            _ => CloneError::Io(error),
        })
    }
}
