//! A file that virtual disks are in, and what must stay true of it while it is served.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A virtual disk's file in a pool, opened and locked, on its way to the shard.
pub struct PoolFile {
    pub(crate) file: Arc<ServedFile>,
    /// As long as it is open, no other server has the pool.
    pub(crate) lock: Arc<File>,
    pub(crate) direct: bool,
}

/// An open file or block device with what it had when it was opened.
pub struct ServedFile {
    file: File,
    path: PathBuf,
    /// The virtual disks in it, for the log.
    holds: OnceLock<String>,
    expected: Option<Expected>,
    told: AtomicBool,
}

/// Properties that a regular file must keep. A block device's node says nothing of the device.
struct Expected {
    bytes: AtomicU64,
    /// It had a name: some file systems don't count names.
    named: bool,
}

impl ServedFile {
    /// A file at a path, as it is now.
    pub(crate) fn new(file: File, path: &Path) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let named = metadata.nlink() > 0;
        let expected = metadata.is_file().then(|| Expected { bytes: metadata.len().into(), named });
        let (path, holds) = (path.to_owned(), OnceLock::new());
        Ok(Self { file, path, holds, expected, told: AtomicBool::new(false) })
    }

    /// Names the virtual disks in it; the first time counts.
    pub(crate) fn hold(&self, vdisks: &str) {
        let _named_already = self.holds.set(vdisks.to_owned());
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Makes a regular file so long, durably; from now on it must be no shorter. Blocks.
    pub(crate) fn set_length(&self, bytes: u64) -> io::Result<()> {
        // While its length changes it has the smaller one at least.
        let expected = self.expected.as_ref();
        let before = expected.map(|it| it.bytes.fetch_min(bytes, Ordering::Relaxed));
        if let Err(error) = self.file.set_len(bytes) {
            if let (Some(expected), Some(before)) = (expected, before) {
                expected.bytes.store(before, Ordering::Relaxed);
            }
            return Err(error);
        }
        self.file.sync_all()?;
        if let Some(expected) = &self.expected {
            expected.bytes.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether it can be looked at whether it is still there.
    pub(crate) fn can_go(&self) -> bool {
        self.expected.is_some()
    }

    /// Whether a file with so many names and bytes is the one that was opened, and whole. The first
    /// time that it is not is logged.
    pub(crate) fn is_whole(&self, names: u32, bytes: u64) -> bool {
        let Some(expected) = &self.expected else { return true };
        let removed = expected.named && names == 0;
        let expected_bytes = expected.bytes.load(Ordering::Relaxed);
        if !removed && bytes >= expected_bytes {
            return true;
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            let what = if removed { "was removed" } else { "was made shorter" };
            tracing::error!(
                vdisk = self.holds.get().map_or("", String::as_str),
                file = %self.path.display(),
                bytes,
                expected_bytes,
                "the file of the virtual disk {what} while it is served: flushes fail from now on; \
                 stop the daemon and restore the file"
            );
        }
        false
    }
}

impl AsRawFd for ServedFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
