//! A virtual disk in a file: where its bytes are, and how a job's bytes lie in blocks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::{ALIGN, BLOCK, Job, Part, blocks, size};
use crate::backend::ranges::Ranges;

/// A virtual disk: a file, or an extent of one.
pub(super) struct Disk {
    pub(super) file: Arc<File>,
    pub(super) direct: bool,
    /// Its first byte in the file, on a block.
    pub(super) base: u64,
    /// Its size in whole blocks: no byte from there on is touched.
    pub(super) len: u64,
    pub(super) ranges: Ranges,
}

/// A regular file or a block device that holds several virtual disks.
pub struct OneFile {
    file: Arc<File>,
    direct: bool,
    /// Its size in bytes.
    pub size: u64,
    /// It is a block device.
    pub block_device: bool,
}

impl OneFile {
    /// Opens what is at `path` if that is a regular file or a block device, for this server alone.
    /// Blocks; not to be called on a shard.
    ///
    /// # Errors
    /// If it can't be opened, or someone else uses it.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let kind = match std::fs::metadata(path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let block_device = kind.is_block_device();
        if !block_device && !kind.is_file() {
            return Ok(None);
        }
        // Opening a block device exclusively fails while it is mounted.
        let exclusive = if block_device { libc::O_EXCL } else { 0 };
        let (mut file, direct) = open(path, false, exclusive)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {
                let reason = "another device of this configuration or another server has it open";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
            }
        }
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Some(Self { file: Arc::new(file), direct, size, block_device }))
    }

    pub(super) fn disk(&self, base: u64, size: u64) -> Disk {
        let (file, len) = (Arc::clone(&self.file), size.next_multiple_of(BLOCK));
        Disk { file, direct: self.direct, base, len, ranges: Ranges::default() }
    }
}

/// The file, and whether I/O on it is direct.
fn open(path: &Path, create: bool, flags: i32) -> io::Result<(File, bool)> {
    let options = |flags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false).custom_flags(flags);
        options.open(path)
    };
    match options(libc::O_DIRECT | flags) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            tracing::warn!(path = %path.display(), "no direct I/O here: through the page cache");
            Ok((options(flags)?, false))
        }
        Err(error) => Err(error),
    }
}

impl Disk {
    /// A file of its own, made or made longer if need be.
    pub(super) fn open(path: &Path, size: u64) -> io::Result<Self> {
        let (file, direct) = open(path, true, 0)?;
        let len = size.div_ceil(BLOCK) * BLOCK;
        if file.metadata()?.len() < len {
            file.set_len(len)?;
            file.sync_all()?;
        }
        Ok(Self { file: Arc::new(file), direct, base: 0, len, ranges: Ranges::default() })
    }

    /// Whether holes can be punched: tried past the end, where there is nothing to lose.
    pub(super) fn can_free(&self) -> bool {
        let Ok(len) = self.file.metadata().map(|metadata| metadata.len()) else { return false };
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, len, BLOCK).is_ok()
    }

    /// The job's extent, widened to blocks if need be.
    pub(super) fn whole(&self, job: &Job) -> Part {
        if !self.direct {
            return Part { offset: job.offset, range: job.in_buffer(), edge: false };
        }
        let span = blocks(&job.extent());
        let start = job.at - size(job.offset - span.start);
        Part { offset: span.start, range: start..start + size(span.end - span.start), edge: false }
    }

    /// A write's parts: the aligned middle and, through scratch, the blocks at its edges. Answers
    /// also whether there are edges.
    pub(super) fn write_parts(&self, job: &Job) -> (Vec<Option<Part>>, bool) {
        let extent = job.extent();
        let span = blocks(&extent);
        if !self.direct || span == extent {
            return (vec![Some(self.whole(job))], false);
        }
        let edge = |offset, slot| {
            Some(Part { offset, range: slot * ALIGN..(slot + 1) * ALIGN, edge: true })
        };
        let head = extent.start != span.start;
        let tail = extent.end != span.end && (span.end - span.start > BLOCK || !head);
        let start = if head { span.start + BLOCK } else { span.start };
        let end = if tail { span.end - BLOCK } else { span.end };
        let at = || job.at + size(start - extent.start);
        let middle = (start < end).then(|| Part {
            offset: start,
            range: at()..at() + size(end - start),
            edge: false,
        });
        let head = if head { edge(span.start, 0) } else { None };
        let tail = if tail { edge(span.end - BLOCK, 1) } else { None };
        (vec![middle, head, tail], true)
    }
}
