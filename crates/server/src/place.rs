//! Finds the file, device or pool at a back end's path and compares it with the record: a path at
//! which something is missing is never taken for a new one.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::backend::{IDENTITY, PoolDirectory, PoolError, SeenPool, TwoTiers};
use crate::layout::Recorded;

/// Why a back end can't be found at its path.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Nothing is there.
    #[error("nothing is at {}, where {wanted} must be{before}: {remedy}", path.display())]
    Missing {
        /// Where.
        path: PathBuf,
        /// The kind of thing that it would have to be.
        wanted: &'static str,
        /// The thing that was there, as an addition to a sentence; else empty.
        before: String,
        /// The remedy.
        remedy: String,
    },
    /// A directory that is no pool.
    #[error("the directory {} is no pool (it has no {IDENTITY}){before}: {remedy}", path.display())]
    NoPool {
        /// Where.
        path: PathBuf,
        /// The thing that was there, as an addition to a sentence; else empty.
        before: String,
        /// The remedy.
        remedy: String,
    },
    /// Something else than was recorded.
    #[error(
        "{} is {found}, but {was} was there before, says {}: mount or restore what was there; or, if \
         the data there are given up, delete that record",
        path.display(),
        record.display()
    )]
    Other {
        /// Where.
        path: PathBuf,
        /// The thing that is there.
        found: String,
        /// The thing that was there.
        was: String,
        /// The record that says so.
        record: PathBuf,
    },
    /// A fast tier without the map that it had.
    #[error(
        "{} is blank, but was the fast tier before, says {}, and may have had the only current copy of extents: \
         restore it; or, if it had nothing or that is given up, delete the line `fast_tier = true` in that record",
        path.display(),
        record.display()
    )]
    NoMap {
        /// Where.
        path: PathBuf,
        /// The record that says so.
        record: PathBuf,
    },
    /// Neither a directory nor a file nor a block device.
    #[error("{} is no directory, regular file or block device", path.display())]
    Strange {
        /// Where.
        path: PathBuf,
    },
    /// The system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is a pool, or one was to be made, and it can't be used.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl PlaceError {
    /// Whether it may be there soon.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self, Self::Pool(PoolError::InUse { .. }))
    }
}

/// The thing at the path of a `file:` back end.
pub(crate) enum Place<P> {
    /// A regular file or block device.
    OneFile,
    Pool(P),
    /// A pool that is to be made.
    New,
}

/// A pool that says which one it is.
pub(crate) trait Identified {
    fn id(&self) -> &str;
}

impl Identified for PoolDirectory {
    fn id(&self) -> &str {
        self.id()
    }
}

impl Identified for SeenPool {
    fn id(&self) -> &str {
        self.id()
    }
}

/// Makes a pool where one is to be.
pub(crate) fn make(path: &Path) -> Result<PoolDirectory, PlaceError> {
    let pool = PoolDirectory::make(path)?;
    tracing::info!(path = %path.display(), id = pool.id(), "made a pool");
    for disk in pool.disks() {
        tracing::info!(vdisk = disk.name, bytes = disk.size, "a raw file became one of the pool's");
    }
    Ok(pool)
}

/// The record of a device, and its path.
pub(crate) struct Before<'a> {
    pub(crate) record: &'a Path,
    pub(crate) recorded: &'a Recorded,
}

impl Before<'_> {
    /// The thing that was there.
    fn was(&self) -> Option<String> {
        let Recorded { pool, extents, .. } = self.recorded;
        let names = || extents.iter().map(|extent| &*extent.name).collect::<Vec<_>>().join(", ");
        match pool {
            Some(id) => Some(format!("the pool {id}")),
            None if extents.is_empty() => None,
            None => Some(format!("a file or block device with the virtual disks {}", names())),
        }
    }

    /// The same as an addition to a sentence, and what to do.
    fn told(&self, path: &Path, make: &str) -> (String, String) {
        let path = path.display();
        match self.was() {
            None => (String::new(), format!("mount or restore it; {make}")),
            Some(was) => {
                let record = self.record.display();
                let before = format!(", and {was} was there before, says {record}");
                let remedy = format!(
                    "mount or restore what was at {path}; or, if its data are given up, delete \
                     that record"
                );
                (before, remedy)
            }
        }
    }

    fn other(&self, path: &Path, found: String) -> Option<PlaceError> {
        let (path, record) = (path.to_owned(), self.record.to_owned());
        Some(PlaceError::Other { path, found, was: self.was()?, record })
    }
}

/// Finds what a `file:` back end is, with a pool opened so. Only if nothing was there before, and
/// `create` allows it, a pool is to be made.
pub(crate) fn find<P: Identified>(
    path: &Path,
    create: bool,
    before: &Before<'_>,
    open: fn(&Path) -> Result<Option<P>, PoolError>,
) -> Result<Place<P>, PlaceError> {
    let new = before.was().is_none();
    let kind = match std::fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if create && new {
                return Ok(Place::New);
            }
            let here = path.display();
            let make = format!(
                "to make a new one run `disktime device init {here}` (a directory of raw files; with \
                 --size an image), or set `create = true` in [[device]]"
            );
            let (before, remedy) = before.told(path, &make);
            let wanted = "a directory, a regular file or a block device";
            return Err(PlaceError::Missing { path: path.to_owned(), wanted, before, remedy });
        }
        Err(error) => return Err(PlaceError::Io { path: path.to_owned(), error }),
    };
    if kind.is_file() || kind.is_block_device() {
        let was_pool = before.recorded.pool.is_some();
        let other = || before.other(path, "a file or a block device".to_owned());
        return was_pool.then(other).flatten().map_or(Ok(Place::OneFile), Err);
    }
    if !kind.is_dir() {
        return Err(PlaceError::Strange { path: path.to_owned() });
    }
    match open(path)? {
        Some(pool) if new || before.recorded.pool.as_deref() == Some(pool.id()) => {
            Ok(Place::Pool(pool))
        }
        Some(pool) => {
            let other = before.other(path, format!("the pool {}", pool.id()));
            Err(other.expect("something was there before"))
        }
        None if create && new => Ok(Place::New),
        None => {
            let here = path.display();
            let make = format!(
                "to make it a pool with the raw files that are in it run `disktime device init \
                 {here}`, or set `create = true` in [[device]]"
            );
            let (before, remedy) = before.told(path, &make);
            Err(PlaceError::NoPool { path: path.to_owned(), before, remedy })
        }
    }
}

/// Sees that a file or block device is at the path of a member or tier.
pub(crate) fn must_be_there(path: &Path, before: &Before<'_>) -> Result<(), PlaceError> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let here = path.display();
            let make = format!("to make a new file run `disktime device init {here} --size SIZE`");
            let (before, remedy) = before.told(path, &make);
            let wanted = "a regular file or a block device";
            Err(PlaceError::Missing { path: path.to_owned(), wanted, before, remedy })
        }
        Err(error) => Err(PlaceError::Io { path: path.to_owned(), error }),
    }
}

/// Sees that a fast tier has the map that it had, if it had one.
pub(crate) fn must_have_map(fast: &Path, before: &Before<'_>) -> Result<(), PlaceError> {
    if !before.recorded.fast_tier {
        return Ok(());
    }
    let path = fast.to_owned();
    match TwoTiers::is_blank(fast) {
        Ok(false) => Ok(()),
        Ok(true) => Err(PlaceError::NoMap { path, record: before.record.to_owned() }),
        Err(error) => Err(PlaceError::Io { path, error }),
    }
}
