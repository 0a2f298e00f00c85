//! Files and block devices as media, with direct I/O where the file system has it: one raw file
//! for each virtual disk, extents of one file, or extents of stripes over several. A flush also sees
//! whether the files are still there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{SeekFrom, seek};

use super::blocks::{BLOCK, Disk, Free, Medium, Name};
use super::survey::{RUNS_MAX, Run};
use super::{Abilities, BlockBackEnd, Io};
use crate::ring::{Payload, Transfer};
use crate::served_file::{PoolFile, ServedFile};

mod durable;
pub mod pool;
mod stripes;

pub(super) use durable::honours_dsync;
use stripes::Stripes;

/// Virtual disks in files.
pub type FileBackEnd = BlockBackEnd<Files>;

/// A medium of one file, or of several that take turns.
#[derive(Clone)]
pub struct Files {
    members: Vec<Arc<ServedFile>>,
    stripes: Stripes,
    /// Each member honours `RWF_DSYNC`.
    durable: bool,
    /// The lock on the pool's identity file, which keeps other servers out.
    _pool: Option<Arc<File>>,
}

/// A regular file or a block device that holds several virtual disks, or stripes over several.
pub struct OneFile {
    files: Files,
    direct: bool,
    /// Its size in bytes when it was opened.
    pub size: u64,
    /// It is a block device, or one of its members is.
    pub block_device: bool,
}

impl BlockBackEnd<Files> {
    /// Virtual disks at these extents of one file, each a first byte on a block and a size, none
    /// over another.
    #[must_use]
    pub fn extents(file: &OneFile, extents: &[(u64, u64)]) -> Self {
        let disk = |(base, bytes): &(u64, u64)| Disk::new(0, file.direct, *base, *bytes);
        // A block device frees whole sectors only and has no end to try it at: not offered yet.
        let frees = !file.block_device && file.files.can_free();
        let disks = extents.iter().map(disk).collect();
        Self::new(vec![file.files.clone()], disks, Abilities::of_files(frees))
            .open_ended(file.direct)
    }
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
        let (file, direct) = open(path, Access::Write, exclusive).map_err(|error| {
            let busy = error.kind() == io::ErrorKind::ResourceBusy;
            if busy {
                io::Error::new(error.kind(), "it is mounted, or another server has it open")
            } else {
                error
            }
        })?;
        lock(&file)?;
        Self::of(file, path, direct, block_device).map(Some)
    }

    /// The same as [`open`](Self::open), for reading alone, even while another server uses it.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn open_to_read(path: &Path) -> io::Result<Option<Self>> {
        let kind = std::fs::metadata(path)?.file_type();
        let block_device = kind.is_block_device();
        if !block_device && !kind.is_file() {
            return Ok(None);
        }
        let (file, direct) = open(path, Access::Read, 0)?;
        Self::of(file, path, direct, block_device).map(Some)
    }

    fn of(file: File, path: &Path, direct: bool, block_device: bool) -> io::Result<Self> {
        let size = seek(&file, SeekFrom::End(0))?;
        let files = Files::one(Arc::new(ServedFile::new(file, path)?));
        Ok(Self { files, direct, size, block_device })
    }

    /// Its size in bytes now: it may have become larger since it was opened.
    pub(crate) fn size_now(&self) -> io::Result<u64> {
        let size = |member: &Arc<ServedFile>| seek(member.file(), SeekFrom::End(0));
        let sizes = self.files.members.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let smallest = sizes.into_iter().min().unwrap_or(0);
        let stripes = self.files.stripes;
        if stripes == Stripes::ONE {
            return Ok(smallest);
        }
        stripes.size(smallest).ok_or_else(|| io::Error::other("together they are above 2^64 bytes"))
    }

    /// Makes an extent of a regular file zeroes by a hole; false where that can't be done. Blocks.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn wipe(&self, start: u64, bytes: u64) -> io::Result<bool> {
        let [member] = &self.files.members[..] else { return Ok(false) };
        if self.block_device {
            return Ok(false);
        }
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let bytes = bytes.next_multiple_of(BLOCK);
        match rustix::fs::fallocate(member.file(), flags, start, bytes) {
            Ok(()) => member.file().sync_data().map(|()| true),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Names the virtual disks in it, for the log.
    pub(crate) fn hold(&self, vdisks: &str) {
        self.files.members.iter().for_each(|member| member.hold(vdisks));
    }

    /// The file itself, whether I/O on it is direct, and whether holes can be punched into it.
    ///
    /// # Panics
    /// If it is several.
    pub(super) fn into_parts(self) -> (Arc<ServedFile>, bool, bool) {
        assert_eq!(self.files.members.len(), 1, "stripes are no one file");
        let frees = self.files.can_free();
        (Arc::clone(&self.files.members[0]), self.direct, frees)
    }

    /// Opens several as one device of stripes: as [`open`](Self::open), but each must be there.
    ///
    /// # Errors
    /// As [`open`](Self::open), naming the member; or if a member is shorter than a chunk.
    pub fn striped(paths: &[PathBuf], chunk: u64) -> io::Result<Self> {
        let (mut members, mut smallest) = (Vec::new(), u64::MAX);
        let (mut direct, mut block_device) = (false, false);
        for path in paths {
            let named = |why: &str| io::Error::other(format!("{}: {why}", path.display()));
            let member = Self::open(path).map_err(|error| at(path, &error))?;
            let member =
                member.ok_or_else(|| named("a member is a regular file or a block device"))?;
            if member.size < chunk {
                return Err(named(&format!("it has {} bytes, less than a chunk", member.size)));
            }
            members.extend(member.files.members);
            smallest = smallest.min(member.size);
            direct |= member.direct;
            block_device |= member.block_device;
        }
        let stripes = Stripes::new(members.len(), chunk);
        let size = stripes.size(smallest);
        let size = size.ok_or_else(|| io::Error::other("together they are above 2^64 bytes"))?;
        let files = Files::new(members, stripes);
        Ok(Self { files, direct, size, block_device })
    }
}

/// An error with the path in front, of the same kind.
pub(crate) fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Takes a file for this process alone, until it is closed.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => {
            let reason = "another device of this configuration or another server has it open";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, reason))
        }
    }
}

/// The purpose that a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The file, and whether I/O on it is direct.
fn open(path: &Path, access: Access, flags: i32) -> io::Result<(File, bool)> {
    let options = |flags| {
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Write).custom_flags(flags);
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

impl FileBackEnd {
    /// Whether regular files hold less than half of what they are long: what was never written is
    /// read from nowhere, in no time.
    #[must_use]
    pub fn is_hollow(&self) -> bool {
        let files = || self.media().iter().flat_map(|files| &files.members);
        let metadata = files().filter_map(|file| file.file().metadata().ok());
        let regular = metadata.filter(std::fs::Metadata::is_file);
        let (held, long) = regular.fold((0, 0), |(held, long): (u64, u64), file| {
            let held = held.saturating_add(file.blocks().saturating_mul(512));
            (held, long.saturating_add(file.len()))
        });
        held < long / 2
    }
}

impl Files {
    fn new(members: Vec<Arc<ServedFile>>, stripes: Stripes) -> Self {
        let durable = members.iter().all(|member| honours_dsync(member.file()));
        Self { members, stripes, durable, _pool: None }
    }

    /// One file.
    fn one(file: Arc<ServedFile>) -> Self {
        Self::new(vec![file], Stripes::ONE)
    }

    /// A virtual disk's own file in a pool.
    fn of_pool(file: Arc<ServedFile>, pool: Arc<File>) -> Self {
        Self { _pool: Some(pool), ..Self::one(file) }
    }

    /// Whether holes can be punched: tried past the end, where there is nothing to lose.
    fn can_free(&self) -> bool {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        self.members.iter().all(|file| {
            let file = file.file();
            // The length of a block device is 0 here: this would zero its first block.
            let regular = file.metadata().ok().filter(std::fs::Metadata::is_file);
            regular.is_some_and(|it| rustix::fs::fallocate(file, flags, it.len(), BLOCK).is_ok())
        })
    }

    fn transfer(&self, offset: u64, (buffer, range): Payload) -> Transfer {
        let (member, offset, _) = self.stripes.place(offset);
        Transfer { fd: self.fd(member), offset, buffer, range }
    }

    fn fd(&self, member: usize) -> RawFd {
        self.members[member].as_raw_fd()
    }
}

impl Medium for Files {
    const IN_FILES: bool = true;

    fn reach(&self, offset: u64) -> u64 {
        self.stripes.place(offset).2
    }

    fn read(&mut self, name: Name, offset: u64, to: Payload, io: &mut Io<'_>) {
        io.ring.read(name.token(), self.transfer(offset, to));
    }

    fn write(&mut self, name: Name, offset: u64, from: Payload, fua: bool, io: &mut Io<'_>) {
        io.ring.write(name.token(), self.transfer(offset, from), fua);
    }

    fn free(&mut self, job: u32, extent: Range<u64>, how: Free, io: &mut Io<'_>) -> u32 {
        let mode = how.mode();
        let mut step = 0;
        for member in 0..self.members.len() {
            let on = self.stripes.on(member, &extent);
            if !on.is_empty() {
                let (name, len) = (Name { job, step }, on.end - on.start);
                io.ring.allocate(name.token(), self.fd(member), on.start, len, mode);
                step += 1;
            }
        }
        step
    }

    fn sync(&mut self, job: u32, _disk: u32, io: &mut Io<'_>) -> u32 {
        let mut step = 0;
        for member in &self.members {
            io.ring.sync(Name { job, step }.token(), member.as_raw_fd());
            step += 1;
            if member.can_go() {
                io.ring.check(Name { job, step }.token(), member);
                step += 1;
            }
        }
        step
    }

    fn runs(&self, extent: &Range<u64>) -> Vec<Run> {
        let (mut runs, mut at) = (Vec::new(), extent.start);
        while at < extent.end && runs.len() < RUNS_MAX {
            let (member, offset, reach) = self.stripes.place(at);
            let bytes = reach.min(extent.end - at);
            Run { bytes, place: Some((Arc::clone(&self.members[member]), offset)) }
                .append(&mut runs);
            at += bytes;
        }
        runs
    }

    fn of_file(file: PoolFile) -> Option<(Self, bool)> {
        let PoolFile { file, lock, direct } = file;
        Some((Self::of_pool(file, lock), direct))
    }

    fn let_go(&mut self) {
        self.members.clear();
        self._pool = None;
    }

    fn durable(&self) -> bool {
        self.durable
    }
}

#[cfg(test)]
mod tests;
