//! A pool whose virtual disks are served: their files become longer meanwhile.

use std::fs::File;
use std::sync::Arc;

use super::{FileState, IDENTITY, PoolError, SeenPool, io_at, put};
use crate::backend::blocks::BLOCK;
use crate::served_file::ServedFile;

/// The files of a pool that is served, and its identity. Blocks; not to be called on a shard.
pub struct GrowingPool {
    pub(super) pool: SeenPool,
    /// Kept for as long as the pool is served: the identity file is replaced by each growth.
    pub(super) lock: Arc<File>,
    pub(super) files: Vec<(String, Arc<ServedFile>)>,
}

impl GrowingPool {
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
                file.lengthen(size.next_multiple_of(BLOCK)).map_err(io_at(&path))?;
            }
            self.pool.enter(name, *size);
        }
        self.lock = Arc::new(put(&self.pool.path.join(IDENTITY), &self.pool.identity)?);
        Ok(())
    }
}
