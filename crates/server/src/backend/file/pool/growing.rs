//! A pool whose virtual disks are served: their files become longer meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::identity::IdentityFile;
use super::{FileState, PoolClone, PoolError, SeenPool, create, create_empty, io_at};
use crate::backend::blocks::BLOCK;
use crate::backend::file::{Access, lock, open};
use crate::durable::sync_directory_of;
use crate::served_file::{PoolFile, ServedFile};

/// The files of a pool that is served, and its identity. Blocks; not to be called on a shard.
pub struct GrowingPool {
    pub(super) pool: SeenPool,
    /// Kept for as long as the pool is served.
    pub(super) file: IdentityFile,
    pub(super) files: BTreeMap<String, Arc<ServedFile>>,
    /// Virtual disks to come whose files are clones.
    pub(super) clones: BTreeSet<String>,
}

impl GrowingPool {
    /// Makes the file of a virtual disk to come, empty, which is to become a clone of another one's:
    /// [`add`](Self::add) takes it as it is then.
    ///
    /// # Errors
    /// If the pool has no virtual disk to clone, or a file of that name, or the system refuses.
    pub(crate) fn begin_clone(
        &mut self,
        of: &str,
        (name, size): (&str, u64),
    ) -> Result<PoolClone, PoolError> {
        let path = self.pool.file_of(name);
        let Some(from) = self.files.get(of).map(Arc::clone) else {
            let known = self.files.keys().cloned().collect();
            let (vdisk, pool) = (of.to_owned(), self.pool.path.clone());
            return Err(PoolError::NoVdisk { vdisk, pool, known });
        };
        let to = create_empty(&path).map_err(io_at(&path))?;
        self.clones.insert(name.to_owned());
        Ok(PoolClone { from, to, path, bytes: size.next_multiple_of(BLOCK) })
    }

    /// Makes and opens the file of another virtual disk, or opens the clone that was made for it.
    ///
    /// # Errors
    /// If the pool has a virtual disk or a file of that name, or the system refuses.
    pub(crate) fn add(&mut self, name: &str, size: u64) -> Result<PoolFile, PoolError> {
        let path = self.pool.file_of(name);
        let cloned = self.clones.remove(name);
        match self.pool.check(name, size)? {
            FileState::New => {}
            FileState::Whole if cloned => {}
            FileState::Whole | FileState::Short => {
                return Err(PoolError::Exists { path, what: "a file with data" });
            }
        }
        // A clone that is gone is not made anew: it would be empty.
        let made = if cloned { Ok(()) } else { create(&path, size.next_multiple_of(BLOCK)) };
        let of_another = |it: &io::Error| it.kind() == io::ErrorKind::AlreadyExists;
        if let Err(error) = made.as_ref()
            && of_another(error)
        {
            return Err(PoolError::Exists { path, what: "a file with data" });
        }
        let made = made.map_err(io_at(&path));
        let entered = made.and_then(|()| self.enter_new(&path, name, size));
        if entered.is_err() {
            // The error is what the caller is to hear of.
            let _left_behind = std::fs::remove_file(&path);
        }
        entered
    }

    fn enter_new(&mut self, path: &Path, name: &str, size: u64) -> Result<PoolFile, PoolError> {
        sync_directory_of(path).map_err(io_at(path))?;
        let (file, direct) = open(path, Access::Write, 0).map_err(io_at(path))?;
        lock(&file).map_err(io_at(path))?;
        let file = Arc::new(ServedFile::new(file, path).map_err(io_at(path))?);
        file.hold(name);
        self.file.change(&mut self.pool.identity, &[(name, Some(size))])?;
        self.files.insert(name.to_owned(), Arc::clone(&file));
        Ok(PoolFile { file, lock: Arc::clone(self.file.lock()), direct })
    }

    /// Whether the pool has no virtual disk and no file of that name.
    pub(crate) fn is_vacant(&self, name: &str) -> bool {
        !self.pool.identity.vdisks.contains_key(name)
            && self.pool.file_of(name).symlink_metadata().is_err()
    }

    /// Removes a virtual disk and its file: its data are lost.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), PoolError> {
        let path = self.pool.file_of(name);
        // First the file: a crash leaves an entry without one, never old data without an entry.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_at(&path)(error));
            }
            _ => {}
        }
        sync_directory_of(&path).map_err(io_at(&path))?;
        self.files.remove(name);
        self.clones.remove(name);
        self.file.change(&mut self.pool.identity, &[(name, None)])
    }

    /// Gives a virtual disk and its file another name.
    ///
    /// # Errors
    /// If there is a file of that name, or the system refuses: then it has its old name.
    pub(crate) fn rename(&mut self, name: &str, to: &str) -> Result<(), PoolError> {
        self.pool.rename_file(name, to)?;
        let size = self.pool.identity.vdisks.get(name).copied();
        if let Err(error) = self.file.change(&mut self.pool.identity, &[(name, None), (to, size)]) {
            self.pool.rename_file(to, name)?;
            return Err(error);
        }
        if let Some(file) = self.files.remove(name) {
            self.files.insert(to.to_owned(), file);
        }
        Ok(())
    }

    /// Makes a virtual disk's file shorter: what is beyond is lost.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn shrink(&mut self, name: &str, size: u64) -> Result<(), PoolError> {
        let path = self.pool.file_of(name);
        let Some(file) = self.files.get(name) else {
            return self.file.change(&mut self.pool.identity, &[(name, Some(size))]);
        };
        let cut = |bytes| file.set_length(bytes);
        self.file.shrink(&mut self.pool.identity, (name, size), (&path, file.file()), cut)
    }

    /// Whether these virtual disks' files can have these sizes: whether they are as they were recorded.
    ///
    /// # Errors
    /// If one is not.
    pub(crate) fn check(&self, grown: &[(&str, u64)]) -> Result<(), PoolError> {
        self.pool.check_all(&self.changed(grown))
    }

    /// Makes files as long as these sizes, then enters the sizes, durably.
    ///
    /// # Errors
    /// If the system refuses: then they are as they were, unless it refuses that, too.
    pub(crate) fn grow(&mut self, grown: &[(&str, u64)]) -> Result<(), PoolError> {
        let mut longer = Vec::new();
        let entered = self
            .lengthen(&self.changed(grown), &mut longer)
            .and_then(|changes| self.file.change(&mut self.pool.identity, &changes));
        if entered.is_err() {
            // A file that is longer than its entry keeps the next daemon from its start.
            for (file, before) in longer {
                if let Err(error) = file.set_length(before) {
                    tracing::warn!(%error, "a file stays longer than its virtual disk");
                }
            }
        }
        entered
    }

    /// Makes files as long as these sizes; answers the entries to be, and notes which files had which length.
    fn lengthen<'a>(
        &self,
        grown: &[(&'a str, u64)],
        longer: &mut Vec<(Arc<ServedFile>, u64)>,
    ) -> Result<Vec<(&'a str, Option<u64>)>, PoolError> {
        for (name, size) in grown {
            let path = self.pool.file_of(name);
            if let (FileState::Short, Some(file)) =
                (self.pool.check(name, *size)?, self.files.get(*name))
            {
                let before = path.metadata().map_err(io_at(&path))?.len();
                longer.push((Arc::clone(file), before));
                file.set_length(size.next_multiple_of(BLOCK)).map_err(io_at(&path))?;
            }
        }
        Ok(grown.iter().map(|(name, size)| (*name, Some(*size))).collect())
    }

    /// The bytes that are entered for a virtual disk.
    pub(crate) fn entered(&self, name: &str) -> Option<u64> {
        self.pool.identity.vdisks.get(name).copied()
    }

    /// The sizes that are not entered so: the files of the other virtual disks are as they were.
    fn changed<'a>(&self, sizes: &[(&'a str, u64)]) -> Vec<(&'a str, u64)> {
        let entered = |name: &str| self.pool.identity.vdisks.get(name).copied();
        sizes.iter().copied().filter(|(name, size)| entered(name) != Some(*size)).collect()
    }
}
