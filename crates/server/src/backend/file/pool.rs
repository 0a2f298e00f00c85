//! Pools: directories of raw files, one for each virtual disk, that are known again.
//!
//! A pool's identity file says which pool it is and which virtual disks were made there. So a mount
//! point without its file system is no pool, another pool mounted there is another one, and a file
//! that vanished is missed. It is also the pool's lock. Blocks; not to be called on a shard.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::{Access, FileBackEnd, Files, lock, open};
use crate::backend::Abilities;
use crate::backend::blocks::{BLOCK, Disk};
use crate::durable::{RECORD_MAX, directory_of, read_small, sync_directory_of};
use crate::layout::{Move, Record};
use crate::served_file::ServedFile;

mod clone;
mod growing;
mod identity;

pub use clone::{CloneError, PoolClone};
pub use growing::GrowingPool;
use identity::{Identity, IdentityFile};

/// The identity file's name in the directory.
pub const IDENTITY: &str = ".disktime-pool";
/// How often an identity file may be replaced while it is locked: only its owner does that.
const TRIES: u32 = 8;

/// A directory of raw files, locked for this process alone.
pub struct PoolDirectory {
    pool: SeenPool,
    file: IdentityFile,
}

/// A directory of raw files as it is seen from outside.
pub struct SeenPool {
    path: PathBuf,
    identity: Identity,
}

/// A virtual disk that has a file in a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolDisk {
    /// Its name: the file's without `.raw`.
    pub name: String,
    /// The bytes that the file has at least.
    pub size: u64,
}

/// Why a pool or an image can't be used, made or changed.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Someone else uses it.
    #[error(
        "{} is in use: another device of this configuration or another server has it open",
        path.display()
    )]
    InUse {
        /// Which file or directory.
        path: PathBuf,
    },
    /// The identity file is not what was written.
    #[error("{}: {reason}: restore the file from a copy", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// It is there already.
    #[error("{} is there already ({what}): nothing was changed", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
        /// The kind of thing that is there.
        what: &'static str,
    },
    /// Something was there before, says a record.
    #[error(
        "{} says that virtual disks were at {} before: restore them, or delete that record to give \
         their data up",
        record.display(),
        path.display()
    )]
    Recorded {
        /// Where.
        path: PathBuf,
        /// The record that says so.
        record: PathBuf,
    },
    /// Nothing is made among devices.
    #[error("{} is under /dev: nothing is made there, choose a path on a file system", path.display())]
    UnderDev {
        /// Where.
        path: PathBuf,
    },
    /// A virtual disk's file is gone.
    #[error(
        "vdisk {vdisk}: its file {} is gone: restore it; to give its data up and start with an empty \
         one, delete the virtual disk's entry in {}",
        path.display(),
        identity.display()
    )]
    Vanished {
        /// The virtual disk whose file it is.
        vdisk: String,
        /// Which file.
        path: PathBuf,
        /// The identity file that lists it.
        identity: PathBuf,
    },
    /// A virtual disk's file is not a file.
    #[error("vdisk {vdisk}: {} is no regular file", path.display())]
    NoFile {
        /// The virtual disk whose file it is.
        vdisk: String,
        /// The path that is no regular file.
        path: PathBuf,
    },
    /// A virtual disk's file is larger than the virtual disk.
    #[error(
        "vdisk {vdisk}: size = {size} bytes: the file is larger: {} has {file}: set that size; or, if \
         all data beyond {size} bytes may be lost, run `disktime device shrink {} --vdisk {vdisk} \
         --size {size}B --yes`",
        path.display(),
        pool.display()
    )]
    Larger {
        /// The virtual disk whose file it is.
        vdisk: String,
        /// Which file.
        path: PathBuf,
        /// The pool.
        pool: PathBuf,
        /// The file's size in bytes.
        file: u64,
        /// The virtual disk's.
        size: u64,
    },
    /// A virtual disk's file lost its end.
    #[error(
        "vdisk {vdisk}: its file {} has {file} bytes, and had {recorded}: it was cut short from \
         outside: restore it; or, if the rest is to be given up, run `disktime device shrink {} \
         --vdisk {vdisk} --size {file}B --yes`",
        path.display(),
        pool.display()
    )]
    Short {
        /// The virtual disk whose file it is.
        vdisk: String,
        /// Which file.
        path: PathBuf,
        /// The pool.
        pool: PathBuf,
        /// The file's size in bytes.
        file: u64,
        /// The size that was recorded.
        recorded: u64,
    },
    /// There is no such pool.
    #[error("{} is no pool: it has no {IDENTITY}", path.display())]
    NoPool {
        /// Where.
        path: PathBuf,
    },
    /// There is no such virtual disk.
    #[error("vdisk {vdisk}: no such virtual disk in {}; there are: {}", pool.display(), known.join(", "))]
    NoVdisk {
        /// Which.
        vdisk: String,
        /// The pool.
        pool: PathBuf,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A size that is none.
    #[error("size = {size} bytes: {allowed}")]
    Size {
        /// The size that was asked for.
        size: u64,
        /// The sizes that are allowed.
        allowed: String,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> PoolError {
    let path = path.to_owned();
    |error| match error.kind() {
        io::ErrorKind::ResourceBusy => PoolError::InUse { path },
        io::ErrorKind::FileTooLarge => {
            let error = longest_file(directory_of(&path)).map_or(error, too_long);
            PoolError::Io { path, error }
        }
        _ => PoolError::Io { path, error },
    }
}

/// The error of a file that is longer than a file system takes, with the longest in bytes.
fn too_long(most: u64) -> io::Error {
    let text =
        format!("the file system takes files of at most {most} bytes: choose a smaller size");
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// The longest file that a directory's file system takes, in whole blocks, found with one that has no name.
/// None if it has no such files.
fn longest_file(directory: &Path) -> Option<u64> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR).ok()?);
    // Blocks that it takes, and those that it does not.
    let (mut taken, mut refused) = (0, u64::MAX / BLOCK / 2);
    while refused - taken > 1 {
        let blocks = taken.midpoint(refused);
        match file.set_len(blocks * BLOCK) {
            Ok(()) => taken = blocks,
            Err(_) => refused = blocks,
        }
    }
    Some(taken * BLOCK)
}

impl PoolDirectory {
    /// Makes a directory a pool, and the directory if nothing is there. Raw files that are in it
    /// become virtual disks of the pool.
    ///
    /// # Errors
    /// If a pool or anything but a directory is there, it is under `/dev`, its parent is missing, or
    /// the system refuses.
    pub fn make(path: &Path) -> Result<Self, PoolError> {
        let exists = |what| PoolError::Exists { path: path.to_owned(), what };
        not_under_dev(path)?;
        match std::fs::create_dir(path) {
            Ok(()) => sync_directory_of(path).map_err(io_at(path))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists("no directory"));
            }
            Err(error) => return Err(io_at(path)(error)),
        }
        // The lock keeps other processes from making a pool here meanwhile.
        let directory = File::open(path).map_err(io_at(path))?;
        lock(&directory).map_err(io_at(path))?;
        let file = path.join(IDENTITY);
        if file.symlink_metadata().is_ok() {
            return Err(exists("a pool"));
        }
        let id = random_id().map_err(io_at(Path::new("/dev/urandom")))?;
        let found = raw_files(path).map_err(io_at(path))?;
        let vdisks = found.into_iter().map(|disk| (disk.name, disk.size)).collect();
        let identity = Identity { id, vdisks };
        let file = IdentityFile::make(path, &identity)?;
        Ok(Self { pool: SeenPool { path: path.to_owned(), identity }, file })
    }

    /// Opens a pool; `None` if the directory is none.
    ///
    /// # Errors
    /// If it is in use, or its identity can't be read.
    pub fn open(path: &Path) -> Result<Option<Self>, PoolError> {
        let file = path.join(IDENTITY);
        let in_use = || PoolError::InUse { path: path.to_owned() };
        for _ in 0..TRIES {
            let held = match File::options().read(true).write(true).open(&file) {
                Ok(held) => held,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(io_at(&file)(error)),
            };
            lock(&held).map_err(|error| match error.kind() {
                io::ErrorKind::ResourceBusy => in_use(),
                _ => io_at(&file)(error),
            })?;
            // Its last owner may have replaced it since: then this one locks nobody out.
            let named = file.metadata().map_err(io_at(&file))?;
            let locked = held.metadata().map_err(io_at(&file))?;
            if (named.dev(), named.ino()) != (locked.dev(), locked.ino()) {
                continue;
            }
            let (file, identity) = IdentityFile::open(path, held)?;
            return Ok(Some(Self { pool: SeenPool { path: path.to_owned(), identity }, file }));
        }
        Err(in_use())
    }

    /// Which pool it is.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.pool.identity.id
    }

    /// The virtual disks that have files here, by name.
    pub fn disks(&self) -> impl Iterator<Item = PoolDisk> {
        let listed = self.pool.identity.vdisks.iter();
        listed.map(|(name, size)| PoolDisk { name: name.clone(), size: *size })
    }

    /// Opens each virtual disk's file. One that is new in the pool gets a file, one that has grown a
    /// longer one; none is made shorter.
    ///
    /// # Errors
    /// If a file is gone, too long or too short, in use, or can't be made or opened.
    pub fn back_end(self, disks: &[(&str, u64)]) -> Result<FileBackEnd, PoolError> {
        self.serve(disks).map(|(back_end, _)| back_end)
    }

    /// As [`back_end`](Self::back_end), with what makes virtual disks larger later.
    ///
    /// # Errors
    /// As [`back_end`](Self::back_end).
    pub fn serve(mut self, disks: &[(&str, u64)]) -> Result<(FileBackEnd, GrowingPool), PoolError> {
        let mut after = self.pool.identity.clone();
        let absent = disks.iter().map(|(name, size)| {
            let state = self.pool.check(name, *size)?;
            Ok((name, size, state))
        });
        let absent: Vec<_> = absent.collect::<Result<_, PoolError>>()?;
        for (name, size, state) in absent {
            let path = self.pool.file_of(name);
            let grown = match state {
                FileState::Whole => Ok(()),
                FileState::New => create(&path, size.next_multiple_of(BLOCK)),
                FileState::Short => lengthen(&path, size.next_multiple_of(BLOCK)),
            };
            grown.map_err(io_at(&path))?;
            after.apply(&[(name, Some(*size))]);
        }
        if self.pool.identity != after {
            // First the files' names: what is entered is there.
            sync_directory_of(&self.pool.path.join(IDENTITY)).map_err(io_at(&self.pool.path))?;
            self.file.rewrite(&after)?;
            self.pool.identity = after;
        }
        let (mut media, mut all, mut files) = (Vec::new(), Vec::new(), BTreeMap::new());
        let lock = Arc::clone(self.file.lock());
        for (at, (name, bytes)) in disks.iter().enumerate() {
            let path = self.pool.file_of(name);
            let (file, direct) = open(&path, Access::Write, 0).map_err(io_at(&path))?;
            super::lock(&file).map_err(io_at(&path))?;
            let file = Arc::new(ServedFile::new(file, &path).map_err(io_at(&path))?);
            file.hold(name);
            all.push(Disk::new(at, direct, 0, *bytes));
            media.push(Files::of_pool(Arc::clone(&file), Arc::clone(&lock)));
            files.insert((*name).to_owned(), file);
        }
        let frees = media.iter().all(Files::can_free);
        let back_end = FileBackEnd::new(media, all, Abilities::of_files(frees));
        let clones = BTreeSet::new();
        Ok((back_end, GrowingPool { pool: self.pool, file: self.file, files, clones }))
    }

    /// Finishes another name or a smaller size that a killed daemon may have left half-way; whether it is made. A
    /// smaller size that was not begun is not made: it may have been refused.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn finish_move(&mut self, it: &Move<'_>) -> Result<bool, PoolError> {
        let Move { from, to, bytes } = *it;
        // The identity is the first thing that changes.
        if from == to && self.pool.identity.vdisks.get(from).is_some_and(|size| *size > bytes) {
            return Ok(false);
        }
        let mut after = self.pool.identity.clone();
        if from != to && self.pool.file_of(from).symlink_metadata().is_ok() {
            self.pool.rename_file(from, to)?;
        }
        if let Some(size) = after.vdisks.remove(from) {
            after.apply(&[(to, Some(size))]);
        }
        let path = self.pool.file_of(to);
        let file = File::options().write(true).open(&path).map_err(io_at(&path))?;
        lock(&file).map_err(io_at(&path))?;
        let len = file.metadata().map_err(io_at(&path))?.len();
        let wanted = bytes.next_multiple_of(BLOCK);
        if len > wanted {
            after.apply(&[(to, Some(bytes))]);
        }
        if self.pool.identity != after {
            self.file.rewrite(&after)?;
            self.pool.identity = after;
        }
        let cut = if len > wanted { file.set_len(wanted) } else { Ok(()) };
        cut.and_then(|()| file.sync_all()).map_err(io_at(&path))?;
        Ok(true)
    }

    /// Makes a virtual disk's file shorter: what is beyond is lost.
    ///
    /// # Errors
    /// If there is no such virtual disk, its file is not longer, or the system refuses.
    pub fn shrink(&mut self, name: &str, size: u64) -> Result<(), PoolError> {
        if !self.pool.identity.vdisks.contains_key(name) {
            let known = self.pool.identity.vdisks.keys().cloned().collect();
            let (vdisk, pool) = (name.to_owned(), self.pool.path.clone());
            return Err(PoolError::NoVdisk { vdisk, pool, known });
        }
        let path = self.pool.path.join(format!("{name}.raw"));
        let file = File::options().write(true).open(&path).map_err(io_at(&path))?;
        lock(&file).map_err(io_at(&path))?;
        let len = file.metadata().map_err(io_at(&path))?.len();
        if size == 0 || !size.is_multiple_of(512) || size > len {
            let allowed = format!(
                "vdisk {name} can have 512 to {len} bytes, in steps of 512: what {} has",
                path.display()
            );
            return Err(PoolError::Size { size, allowed });
        }
        let cut = |bytes| file.set_len(bytes).and_then(|()| file.sync_all());
        self.file.shrink(&mut self.pool.identity, (name, size), (&path, &file), cut)
    }
}

impl SeenPool {
    /// Looks at a pool, even while another server uses it; `None` if the directory is none.
    ///
    /// # Errors
    /// If its identity can't be read.
    pub fn look(path: &Path) -> Result<Option<Self>, PoolError> {
        let file = path.join(IDENTITY);
        match read_small(&file, RECORD_MAX) {
            Ok(text) => {
                let identity = Identity::parse(&file, &text)?;
                Ok(Some(Self { path: path.to_owned(), identity }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_at(&file)(error)),
        }
    }

    /// Which pool it is.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// Whether a virtual disk of that size is listed.
    pub(crate) fn lists(&self, name: &str, size: u64) -> bool {
        self.identity.vdisks.get(name) == Some(&size)
    }

    /// Whether these virtual disks' files are as they should be, or can be made.
    ///
    /// # Errors
    /// If not, the error of the first one that is not.
    pub fn check_all(&self, disks: &[(&str, u64)]) -> Result<(), PoolError> {
        disks.iter().try_for_each(|(name, size)| self.check(name, *size).map(drop))
    }

    fn file_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.raw"))
    }

    /// How a virtual disk's file differs from its record.
    fn check(&self, name: &str, size: u64) -> Result<FileState, PoolError> {
        let listed = self.identity.vdisks.get(name).copied();
        let (path, vdisk, pool) = (self.file_of(name), name.to_owned(), self.path.clone());
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let identity = self.path.join(IDENTITY);
                let vanished = PoolError::Vanished { vdisk, path, identity };
                return listed.map_or(Ok(FileState::New), |_| Err(vanished));
            }
            Err(error) => return Err(io_at(&path)(error)),
        };
        if !metadata.is_file() {
            return Err(PoolError::NoFile { vdisk, path });
        }
        let (file, len) = (metadata.len(), size.next_multiple_of(BLOCK));
        if let Some(recorded) = listed.filter(|recorded| *recorded > file) {
            return Err(PoolError::Short { vdisk, path, pool, file, recorded });
        }
        match file.cmp(&len) {
            std::cmp::Ordering::Less => Ok(FileState::Short),
            std::cmp::Ordering::Equal => Ok(FileState::Whole),
            std::cmp::Ordering::Greater => Err(PoolError::Larger { vdisk, path, pool, file, size }),
        }
    }

    /// Gives a file the name of another virtual disk, durably.
    fn rename_file(&self, name: &str, to: &str) -> Result<(), PoolError> {
        let (old, new) = (self.file_of(name), self.file_of(to));
        let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(here, &old, here, &new, flags) {
            Ok(()) => sync_directory_of(&new).map_err(io_at(&new)),
            Err(rustix::io::Errno::EXIST) => {
                Err(PoolError::Exists { path: new, what: "a file with data" })
            }
            Err(error) => Err(io_at(&old)(error.into())),
        }
    }
}

/// A virtual disk's file beside its size.
enum FileState {
    Whole,
    New,
    Short,
}

/// Makes an image: a sparse file of so many bytes for several virtual disks.
///
/// # Errors
/// If anything is at its path or was there before, it is under `/dev`, or the system refuses.
pub fn make_image(path: &Path, size: u64) -> Result<(), PoolError> {
    let most = i64::MAX.cast_unsigned();
    if size == 0 || !size.is_multiple_of(BLOCK) || size > most {
        let allowed =
            format!("an image has whole blocks of 4 KiB, at least one, and at most {most} bytes");
        return Err(PoolError::Size { size, allowed });
    }
    not_under_dev(path)?;
    create(path, size).and_then(|()| sync_directory_of(path)).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            PoolError::Exists { path: path.to_owned(), what: "a file or a directory" }
        }
        _ => PoolError::Io { path: path.to_owned(), error },
    })
}

/// Refuses where a record beside the path says that something was there.
///
/// # Errors
/// If so, or the record can't be looked for.
pub fn nothing_was_at(path: &Path) -> Result<(), PoolError> {
    let record = Record::of(path, "", None).path().to_owned();
    match record.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(PoolError::Recorded { path: path.to_owned(), record }),
        Err(error) => Err(PoolError::Io { path: record, error }),
    }
}

/// Names there are devices' own, and what is made there is gone at the next boot.
fn not_under_dev(path: &Path) -> Result<(), PoolError> {
    let parent = directory_of(path);
    let parent = parent.canonicalize().map_err(io_at(parent))?;
    let here = path.canonicalize().is_ok_and(|path| path.starts_with("/dev"));
    if here || parent.starts_with("/dev") {
        return Err(PoolError::UnderDev { path: path.to_owned() });
    }
    Ok(())
}

/// Makes a file of so many bytes, on disk but for its name.
fn create(path: &Path, len: u64) -> io::Result<()> {
    let file = create_empty(path)?;
    file.set_len(len).and_then(|()| file.sync_all()).inspect_err(|_| {
        // The file system takes none so long, or is full: an empty one would be in the way.
        let _gone_already = std::fs::remove_file(path);
    })
}

/// Makes a file, without direct I/O: a file system that has none makes the file and then refuses it.
fn create_empty(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

fn lengthen(path: &Path, len: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    lock(&file)?;
    file.set_len(len)?;
    file.sync_all()
}

/// 128 bits that no other pool has.
fn random_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// The raw files in a directory, in the order of their names.
fn raw_files(directory: &Path) -> io::Result<Vec<PoolDisk>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".raw"));
        let Some(name) = name.filter(|name| crate::vdisk_name::is_name(name)) else { continue };
        let metadata = std::fs::metadata(entry.path())?;
        if metadata.is_file() {
            found.push(PoolDisk { name: name.to_owned(), size: metadata.len() });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error was `File too large (os error 27)`, whatever would have been possible.
    #[test]
    fn a_file_that_is_too_long_is_told_the_longest() {
        let directory = tempfile::tempdir().expect("a directory");
        let Some(most) = longest_file(directory.path()) else { return };
        let path = directory.path().join("db.raw");
        create(&path, most).expect("the longest is possible");
        std::fs::remove_file(&path).expect("it is there");
        let error = create(&path, most + BLOCK).map_err(io_at(&path)).expect_err("too long");
        let said = error.to_string();
        let limit = format!("files of at most {most} bytes: choose a smaller size");
        // One that takes any file refuses lengths that are none.
        assert!(said.contains(&limit) || most > 1 << 62, "{said}");
        assert!(!path.exists());
    }
}
