//! Virtual disks that get another name, or become smaller, while the daemon runs; and the same done for
//! a daemon that was killed in the middle of it. Blocks, at files: shards go on meanwhile.

use std::path::{Path, PathBuf};

use super::live::{answered, changed};
use super::{AlterError, Server};
use crate::backend::{BackEndKind, PoolDirectory};
use crate::config::DeviceConfig;
use crate::layout::{Move, Record};
use crate::place::PlaceError;
use crate::room::{misplaced, recorded_wrong};
use crate::shard::{Message, VdiskId};
use crate::start_error::StartError;

impl Server {
    /// Whether a virtual disk can get another name now.
    ///
    /// # Errors
    /// If there is no such virtual disk, the name is taken, or it has bitmaps or children.
    pub fn may_rename(&self, name: &str, to: &str) -> Result<(), AlterError> {
        let (at, place) = self.vdisk_at(name)?;
        if self.roll.catalog.entry(to).is_some() || !self.rooms[at].is_vacant(to) {
            return Err(AlterError::Taken { what: "vdisk", name: to.to_owned() });
        }
        self.is_not_leaving(to)?;
        self.has_no_bitmaps(at, place)?;
        self.has_no_children(at, name)
    }

    /// Whether a virtual disk can become smaller now.
    ///
    /// # Errors
    /// If there is no such virtual disk, a client has it, or its device can't do it.
    pub fn may_shrink(&self, name: &str, bytes: u64) -> Result<(), AlterError> {
        let (at, place) = self.vdisk_at(name)?;
        let before = self.config.devices[at].vdisks[place].size;
        self.has_no_bitmaps(at, place)?;
        let fixed = |reason: &str| {
            let (name, reason) = (name.to_owned(), reason.to_owned());
            Err(AlterError::Fixed { name, reason })
        };
        if bytes == 0 || bytes > before {
            return fixed(&format!("it has {before} bytes, and can have 1 to {before}"));
        }
        if !self.rooms[at].can_shrink() {
            return fixed(
                "only virtual disks with files of their own, or in memory, become smaller: make a smaller \
                 one and copy the data",
            );
        }
        match self.roll.catalog.entry(name).map_or(0, |entry| entry.stats.connections()) {
            0 => Ok(()),
            clients => Err(AlterError::Connected { name: name.to_owned(), clients }),
        }
    }

    /// Gives a virtual disk another name. Its clients go on; those that connect from now on ask for the
    /// new name.
    ///
    /// # Errors
    /// If there is no such virtual disk, the name is taken, it has bitmaps, or the system refuses: then
    /// it has its old name.
    pub fn rename_vdisk(&mut self, name: &str, to: &str) -> Result<(), AlterError> {
        self.may_rename(name, to)?;
        let (at, place) = self.vdisk_at(name)?;
        let id = self.id_of(name)?;
        if !self.shards[at].takes_changes() {
            return Err(AlterError::Deaf(self.config.devices[at].name.clone()));
        }
        self.rooms[at].rename(&self.config.devices[at], name, to)?;
        self.shards[at].tell_surely(Message::Rename(id, to.to_owned()));
        self.roll.catalog.rename(name, to);
        if let Some(view) = self.vdisks.iter_mut().find(|view| view.name == name) {
            to.clone_into(&mut view.name);
        }
        to.clone_into(&mut self.config.devices[at].vdisks[place].name);
        Ok(())
    }

    /// Makes a virtual disk smaller: its data beyond are lost. No client may be connected.
    ///
    /// # Errors
    /// If there is no such virtual disk, a client has it, its device can't do it, or the system refuses:
    /// then it has its old size.
    pub fn shrink_vdisk(&mut self, name: &str, bytes: u64) -> Result<(), AlterError> {
        self.may_shrink(name, bytes)?;
        let (at, place) = self.vdisk_at(name)?;
        let id = self.id_of(name)?;
        // No client gets a place on it from now on.
        let Some(entry) = self.roll.catalog.hide(name) else {
            return Err(AlterError::NoVdisk(name.to_owned()));
        };
        let clients = entry.stats.connections();
        let shrunk = if clients > 0 {
            Err(AlterError::Connected { name: name.to_owned(), clients })
        } else {
            self.shrink_unused((at, place), id, bytes)
        };
        self.roll.catalog.show(entry);
        shrunk
    }

    fn shrink_unused(
        &mut self,
        (at, place): (usize, usize),
        id: VdiskId,
        bytes: u64,
    ) -> Result<(), AlterError> {
        let device = self.config.devices[at].name.clone();
        let before = self.config.devices[at].vdisks[place].size;
        let base = self.grounds[at].bases[place];
        let set = |server: &Self, bytes, grows: bool| {
            let extent = server.grounds[at].extent(base, bytes);
            let (answer, outcome) = crossbeam_channel::bounded(1);
            let vdisk = id;
            if grows {
                server.shards[at].tell_surely(Message::Grow { vdisk, bytes, extent, answer });
            } else {
                let shrink = Message::Shrink { vdisk, bytes, extent, answer };
                changed(&server.shards[at], shrink, &device)?;
            }
            answered(&outcome, &device)
        };
        // First the shard: nothing is asked of the bytes beyond any more.
        if let Err(error) = set(self, bytes, false) {
            // A device that hears of it later hears of the old size after it.
            if matches!(error, AlterError::Silent(_)) {
                let extent = self.grounds[at].extent(base, before);
                let (answer, _) = crossbeam_channel::bounded(1);
                let grow = Message::Grow { vdisk: id, bytes: before, extent, answer };
                self.shards[at].tell_surely(grow);
            }
            return Err(error);
        }
        let mut altered = self.config.devices[at].clone();
        altered.vdisks[place].size = bytes;
        if let Err(error) = self.rooms[at].shrink(&altered, place) {
            set(self, before, true)?;
            return Err(error.into());
        }
        self.config.devices[at].vdisks[place].size = bytes;
        Ok(())
    }

    fn has_no_bitmaps(&self, at: usize, place: usize) -> Result<(), AlterError> {
        let vdisk = &self.config.devices[at].vdisks[place];
        if vdisk.bitmaps.names.is_empty() {
            return Ok(());
        }
        let reason = "it has bitmaps, which are of its name and size: take `bitmaps` away first";
        Err(AlterError::Fixed { name: vdisk.name.clone(), reason: reason.to_owned() })
    }
}

/// Finishes a move that a killed daemon may have left half-way, while none serves the device; whether the move is
/// made. One that is not has changed nothing. Doing it again does nothing.
///
/// # Errors
/// If the device is not there, or the system refuses.
pub fn finish_move(
    device: &DeviceConfig,
    state: Option<&Path>,
    it: &Move<'_>,
) -> Result<bool, StartError> {
    let (path, names) = match &device.back_end {
        BackEndKind::Memory => return Ok(true),
        BackEndKind::File(path) => (path.clone(), false),
        BackEndKind::Raid0 { members, .. } => (members[0].clone(), true),
        BackEndKind::Tiered { slow, .. } => (slow.clone(), true),
        BackEndKind::Nbd { .. } => (PathBuf::new(), true),
    };
    if let BackEndKind::File(path) = &device.back_end {
        let failed = |error| misplaced(device, PlaceError::Io { path: path.clone(), error });
        let kind = std::fs::metadata(path).map_err(failed)?;
        if kind.is_dir() {
            let pool =
                PoolDirectory::open(path).map_err(|error| misplaced(device, error.into()))?;
            let Some(mut pool) = pool else {
                let error = std::io::Error::other("the directory is no pool any more");
                return Err(failed(error));
            };
            return pool.finish_move(it).map_err(|error| misplaced(device, error.into()));
        }
    }
    let mut record = Record::of(&path, &device.name, state);
    if names {
        record = record.naming(device.back_end.identity());
    }
    let mut recorded = record.load().map_err(recorded_wrong(device))?;
    let Some(extent) = recorded.extents.iter_mut().find(|extent| extent.name == it.from) else {
        return Ok(true);
    };
    it.to.clone_into(&mut extent.name);
    record.save(&recorded).map_err(recorded_wrong(device))?;
    Ok(true)
}
