//! A pool whose virtual disks are served: their files become longer meanwhile.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{FileState, IDENTITY, PoolError, SeenPool, create, io_at, put};
use crate::backend::blocks::BLOCK;
use crate::backend::file::{Access, lock, open};
use crate::durable::sync_directory_of;
use crate::served_file::{PoolFile, ServedFile};

/// The files of a pool that is served, and its identity. Blocks; not to be called on a shard.
pub struct GrowingPool {
    pub(super) pool: SeenPool,
    /// Kept for as long as the pool is served: the identity file is replaced by each growth.
    pub(super) lock: Arc<File>,
    pub(super) files: Vec<(String, Arc<ServedFile>)>,
}

impl GrowingPool {
    /// Makes and opens the file of another virtual disk.
    ///
    /// # Errors
    /// If the pool has a virtual disk or a file of that name, or the system refuses.
    pub(crate) fn add(&mut self, name: &str, size: u64) -> Result<PoolFile, PoolError> {
        let path = self.pool.file_of(name);
        match self.pool.check(name, size)? {
            FileState::New => {}
            FileState::Whole | FileState::Short => {
                return Err(PoolError::Exists { path, what: "a file with data" });
            }
        }
        create(&path, size.next_multiple_of(BLOCK)).map_err(io_at(&path))?;
        let entered = self.enter_new(&path, name, size);
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
        self.pool.enter(name, size);
        self.lock = Arc::new(put(&self.pool.path.join(IDENTITY), &self.pool.identity)?);
        self.files.push((name.to_owned(), Arc::clone(&file)));
        Ok(PoolFile { file, lock: Arc::clone(&self.lock), direct })
    }

    /// Whether the pool has no virtual disk and no file of that name.
    pub(crate) fn is_vacant(&self, name: &str) -> bool {
        let listed = self.pool.identity.vdisk.iter().any(|disk| disk.name == name);
        !listed && self.pool.file_of(name).symlink_metadata().is_err()
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
        self.files.retain(|(known, _)| known != name);
        self.pool.identity.vdisk.retain(|disk| disk.name != name);
        self.lock = Arc::new(put(&self.pool.path.join(IDENTITY), &self.pool.identity)?);
        Ok(())
    }

    /// Gives a virtual disk and its file another name.
    ///
    /// # Errors
    /// If there is a file of that name, or the system refuses: then it has its old name.
    pub(crate) fn rename(&mut self, name: &str, to: &str) -> Result<(), PoolError> {
        let before = self.pool.identity.clone();
        self.pool.rename_file(name, to)?;
        self.pool.rename(name, to);
        match put(&self.pool.path.join(IDENTITY), &self.pool.identity) {
            Ok(identity) => self.lock = Arc::new(identity),
            Err(error) => {
                self.pool.identity = before;
                self.pool.rename_file(to, name)?;
                return Err(error);
            }
        }
        let known = self.files.iter_mut().filter(|(known, _)| known == name);
        known.for_each(|(known, _)| to.clone_into(known));
        Ok(())
    }

    /// Makes a virtual disk's file shorter: what is beyond is lost.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn shrink(&mut self, name: &str, size: u64) -> Result<(), PoolError> {
        // First the identity: a crash leaves a file that is longer than it says.
        self.pool.enter(name, size);
        self.lock = Arc::new(put(&self.pool.path.join(IDENTITY), &self.pool.identity)?);
        let path = self.pool.file_of(name);
        let served = self.files.iter().find(|(known, _)| known == name);
        served.map_or(Ok(()), |(_, file)| {
            file.set_length(size.next_multiple_of(BLOCK)).map_err(io_at(&path))
        })
    }

    /// Whether these virtual disks' files can have these sizes: whether they are as they were recorded.
    ///
    /// # Errors
    /// If one is not.
    pub(crate) fn check(&self, grown: &[(&str, u64)]) -> Result<(), PoolError> {
        self.pool.check_all(grown)
    }

    /// Makes files as long as these sizes, then enters the sizes, durably.
    ///
    /// # Errors
    /// If the system refuses: files may be longer than what is entered.
    pub(crate) fn grow(&mut self, grown: &[(&str, u64)]) -> Result<(), PoolError> {
        for (name, size) in grown {
            let path = self.pool.file_of(name);
            let served = self.files.iter().find(|(known, _)| known == name);
            if let (FileState::Short, Some((_, file))) = (self.pool.check(name, *size)?, served) {
                file.set_length(size.next_multiple_of(BLOCK)).map_err(io_at(&path))?;
            }
            self.pool.enter(name, *size);
        }
        self.lock = Arc::new(put(&self.pool.path.join(IDENTITY), &self.pool.identity)?);
        Ok(())
    }
}
