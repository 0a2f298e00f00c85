//! Snapshots: virtual disks that begin with the data that another one has at a moment.
//!
//! A snapshot has every write that was acknowledged before it was asked for. While the file is cloned no
//! request of the virtual disk is at the device, so that the clone is of one moment: it has all of a
//! request's data or, of a request that was not acknowledged, perhaps none. Nothing of this runs on a
//! shard's thread, and other virtual disks go on.

use std::time::Duration;

use super::{AlterError, Server};
use crate::backend::{CloneError, PoolClone};
use crate::clock;
use crate::config::VdiskConfig;
use crate::place::PlaceError;
use crate::shard::{Message, ShardHandle, VdiskError, VdiskId};
use crate::start_error::StartError;

/// The longest time in seconds for which a virtual disk's requests wait for its snapshot: clients give a
/// server up after some 30 s.
const HOLD_SECONDS: u64 = 10;

/// The long part of a snapshot, which any thread may do.
pub struct SnapshotJob {
    shard: ShardHandle,
    of: (VdiskId, String),
    device: String,
    clone: PoolClone,
}

/// A virtual disk whose requests wait until this is dropped.
struct Held<'a>(&'a SnapshotJob);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.shard.tell_surely(Message::Release(self.0.of.0));
    }
}

impl Server {
    /// Begins a snapshot of a virtual disk of that device: another one, which [`add_vdisk`](Self::add_vdisk)
    /// serves once the job is done. Until then, or until [`discard`](Self::discard), its name is taken on
    /// the device.
    ///
    /// # Errors
    /// If there is no such virtual disk, the other one would not fit, its name is taken, or the device's
    /// virtual disks have no files of their own.
    pub fn begin_snapshot(
        &mut self,
        of: &str,
        device: &str,
        to: &VdiskConfig,
    ) -> Result<SnapshotJob, AlterError> {
        let (at, place) = self.vdisk_at(of)?;
        let config = &self.config.devices[at];
        let size = config.vdisks[place].size;
        let fixed = |reason| AlterError::Fixed { name: of.to_owned(), reason };
        if config.name != device || to.size != size {
            let reason =
                format!("its snapshot is on its device, {}, with {size} bytes", config.name);
            return Err(fixed(reason));
        }
        self.would_have(device, to)?;
        let id = self.id_of(of)?;
        let clone = self.rooms[at].begin_clone(&self.config.devices[at], of, to)?;
        let clone = clone.ok_or_else(|| fixed(unsupported("it has no file of its own")))?;
        let (shard, of) = (self.shards[at].clone(), (id, of.to_owned()));
        Ok(SnapshotJob { shard, of, device: device.to_owned(), clone })
    }
}

impl SnapshotJob {
    /// Makes the new virtual disk's file, durably. The requests of the first one wait meanwhile, for 10 s
    /// at most.
    ///
    /// # Errors
    /// If the file system has no clones, that time is over, or the system refuses.
    pub fn run(&self) -> Result<(), AlterError> {
        // Nobody waits yet.
        self.clone.try_first().map_err(|error| self.failed(error))?;
        let until = clock::now() + disktime_core::Duration::from_secs(HOLD_SECONDS);
        let held = self.hold()?;
        self.clone.clone_all(until).map_err(|error| self.failed(error))?;
        drop(held);
        self.clone.sync().map_err(|error| self.failed(error))
    }

    /// Waits until the device has no request of the virtual disk.
    fn hold(&self) -> Result<Held<'_>, AlterError> {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        if !self.shard.tell_change(Message::Hold(self.of.0, answer)) {
            return Err(AlterError::Deaf(self.device.clone()));
        }
        match outcome.recv_timeout(Duration::from_secs(HOLD_SECONDS)) {
            Ok(Ok(())) => Ok(Held(self)),
            Ok(Err(VdiskError::Unknown(_))) => Err(AlterError::NoVdisk(self.of.1.clone())),
            Ok(Err(error)) => Err(AlterError::Refused { device: self.device.clone(), error }),
            Err(_) => {
                // The shard may come to it yet.
                drop(Held(self));
                Err(self.failed(CloneError::Late))
            }
        }
    }

    fn failed(&self, error: CloneError) -> AlterError {
        let name = self.of.1.clone();
        match error {
            CloneError::Unsupported => {
                let reason = unsupported("its file system can't share a file's blocks");
                AlterError::Fixed { name, reason }
            }
            CloneError::Late => AlterError::Slow { name, seconds: HOLD_SECONDS },
            CloneError::Io(error) => {
                let (device, path) = (self.device.clone(), self.clone.path().to_owned());
                let error = Box::new(PlaceError::Io { path, error });
                AlterError::Start(StartError::Place { device, error })
            }
        }
    }
}

/// Why there is no snapshot, and where there would be one.
fn unsupported(why: &str) -> String {
    format!(
        "{why}: a snapshot needs a device that is a directory of raw files on XFS (with reflink=1, as mkfs.xfs \
         makes it) or btrfs: `disktime device add NAME --back-end file:DIRECTORY --create` there, and copy \
         the data"
    )
}
