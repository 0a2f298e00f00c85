//! Room for virtual disks that grow while their device is served: longer files, or the bytes behind an
//! extent, recorded before any of them is written.
//!
//! Does not know: engines, clients. Blocks; not to be called on a shard.

use crate::backend::{GrowingPool, OneFile, PoolClone, PoolFile};
use crate::buffers::ALIGN;
use crate::config::{DeviceConfig, VdiskConfig};
use crate::layout::{Extent, Record, RecordError, Recorded};
use crate::place::PlaceError;
use crate::start_error::StartError;

/// Where a device's virtual disks lie, and where there is room for more of them.
pub(crate) struct Room {
    pub(crate) layout: Vec<Extent>,
    pub(crate) ground: Ground,
}

/// The thing that the virtual disks lie on.
pub(crate) enum Ground {
    /// Nothing that is to be made larger.
    Memory,
    /// Files of their own.
    Pool(GrowingPool),
    /// Extents of a device, recorded.
    Extents(Record, Size),
}

/// A device's size in bytes.
pub(crate) enum Size {
    Is(u64),
    /// It may grow, too.
    Of(OneFile),
}

impl Room {
    /// The layout with the sizes of a configuration, none of them smaller than before: nothing is
    /// changed by asking.
    ///
    /// # Errors
    /// If there is no room; says how much there is.
    pub(crate) fn plan(&self, device: &DeviceConfig) -> Result<Vec<Extent>, StartError> {
        let room = match &self.ground {
            Ground::Extents(_, size) => {
                let size = size.now();
                let failed = |error| StartError::BackEnd { device: device.name.clone(), error };
                room(device, size.map_err(failed)?)
            }
            Ground::Pool(pool) => {
                let checked = pool.check(&sizes(device));
                checked.map_err(|error| misplaced(device, error.into()))?;
                device.room()
            }
            Ground::Memory => device.room(),
        };
        // Without places on a device an extent is only a size.
        if !self.is_placed() && device.capacity().is_none() {
            return Ok(self.layout.clone());
        }
        let layout = device.lay_out(room, &self.layout);
        layout.map_err(|error| StartError::Layout { device: device.name.clone(), error })
    }

    /// Plans room for one more virtual disk: its first byte, and the layout with it where virtual disks
    /// have places. Where they have none this costs the same however many there are.
    ///
    /// # Errors
    /// If there is no room; says how much there is.
    pub(crate) fn plan_one(
        &self,
        device: &DeviceConfig,
        vdisk: &VdiskConfig,
    ) -> Result<(u64, Option<Vec<Extent>>), StartError> {
        if !self.is_placed() && device.capacity().is_none() {
            if let Ground::Pool(pool) = &self.ground {
                let checked = pool.check(&[(&vdisk.name, vdisk.size)]);
                checked.map_err(|error| misplaced(device, error.into()))?;
            }
            return Ok((0, None));
        }
        let mut grown = device.clone();
        grown.vdisks.push(vdisk.clone());
        let layout = self.plan(&grown)?;
        let base = layout.iter().find(|it| it.name == vdisk.name).map_or(0, |it| it.start);
        Ok((base, Some(layout)))
    }

    /// Makes the room that was planned, durably.
    ///
    /// # Errors
    /// If the system refuses: then some of it may be there.
    pub(crate) fn make(
        &mut self,
        device: &DeviceConfig,
        layout: Vec<Extent>,
    ) -> Result<(), StartError> {
        match &mut self.ground {
            Ground::Memory => {}
            Ground::Pool(pool) => {
                let grown = pool.grow(&sizes(device));
                grown.map_err(|error| misplaced(device, error.into()))?;
            }
            Ground::Extents(record, _) => {
                let recorded = Recorded { extents: layout.clone(), ..Recorded::default() };
                record.save(&recorded).map_err(recorded_wrong(device))?;
            }
        }
        self.layout = layout;
        Ok(())
    }

    /// Makes room for one more virtual disk, by the layout that was planned. Answers its file, if it has
    /// one of its own.
    ///
    /// # Errors
    /// If the system refuses: then the virtual disk has no room.
    pub(crate) fn add(
        &mut self,
        device: &DeviceConfig,
        vdisk: &VdiskConfig,
        layout: Option<Vec<Extent>>,
    ) -> Result<Option<PoolFile>, StartError> {
        let file = match &mut self.ground {
            Ground::Pool(pool) => {
                let file = pool.add(&vdisk.name, vdisk.size);
                Some(file.map_err(|error| misplaced(device, error.into()))?)
            }
            Ground::Memory | Ground::Extents(..) => {
                if let Some(layout) = layout {
                    self.make(device, layout)?;
                }
                return Ok(None);
            }
        };
        if let Some(layout) = layout {
            self.layout = layout;
        }
        Ok(file)
    }

    /// Makes the file of a virtual disk to come, which is to become a clone of another one's; nothing
    /// where virtual disks have no files of their own.
    ///
    /// # Errors
    /// If a file of that name is there, or the system refuses.
    pub(crate) fn begin_clone(
        &mut self,
        device: &DeviceConfig,
        of: &str,
        to: &VdiskConfig,
    ) -> Result<Option<PoolClone>, StartError> {
        let Ground::Pool(pool) = &mut self.ground else { return Ok(None) };
        let clone = pool.begin_clone(of, (&to.name, to.size));
        clone.map(Some).map_err(|error| misplaced(device, error.into()))
    }

    /// Whether no data of that name are here that outlive their virtual disk.
    pub(crate) fn is_vacant(&self, name: &str) -> bool {
        let placed = self.is_placed() && self.layout.iter().any(|extent| extent.name == name);
        let filed = matches!(&self.ground, Ground::Pool(pool) if !pool.is_vacant(name));
        !placed && !filed
    }

    /// Gives up the room of a virtual disk, and its data. An extent whose bytes can't be made zeroes
    /// stays recorded, so that no other virtual disk reads them.
    ///
    /// # Errors
    /// If the system refuses: then some of the room may be gone.
    pub(crate) fn remove(&mut self, device: &DeviceConfig, name: &str) -> Result<(), StartError> {
        let placed = self.layout.iter().position(|extent| extent.name == name);
        let failed = |error| StartError::BackEnd { device: device.name.clone(), error };
        match &mut self.ground {
            Ground::Memory => {}
            Ground::Pool(pool) => {
                pool.remove(name).map_err(|error| misplaced(device, error.into()))?;
            }
            Ground::Extents(record, size) => {
                let Some(at) = placed else { return Ok(()) };
                let Extent { start, size: bytes, .. } = self.layout[at];
                if !size.wipe(start, bytes).map_err(failed)? {
                    let text = "its extent stays recorded: its bytes can't be wiped here";
                    tracing::warn!(vdisk = name, "{text}");
                    return Ok(());
                }
                let mut extents = self.layout.clone();
                extents.remove(at);
                let recorded = Recorded { extents, ..Recorded::default() };
                record.save(&recorded).map_err(recorded_wrong(device))?;
            }
        }
        self.layout.retain(|extent| extent.name != name);
        Ok(())
    }

    /// Gives a virtual disk's room another name, durably.
    ///
    /// # Errors
    /// If the system refuses: then it has its old name.
    pub(crate) fn rename(
        &mut self,
        device: &DeviceConfig,
        name: &str,
        to: &str,
    ) -> Result<(), StartError> {
        let mut layout = self.layout.clone();
        layout.iter_mut().filter(|it| it.name == name).for_each(|it| to.clone_into(&mut it.name));
        match &mut self.ground {
            Ground::Memory => {}
            Ground::Pool(pool) => {
                pool.rename(name, to).map_err(|error| misplaced(device, error.into()))?;
            }
            Ground::Extents(record, _) => {
                let recorded = Recorded { extents: layout.clone(), ..Recorded::default() };
                record.save(&recorded).map_err(recorded_wrong(device))?;
            }
        }
        self.layout = layout;
        Ok(())
    }

    /// Whether virtual disks can become smaller here: an extent's end would have to be wiped first.
    pub(crate) fn can_shrink(&self) -> bool {
        !self.is_placed()
    }

    /// Has a virtual disk's room be as small as a configuration states, durably. Not for extents.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn shrink(&mut self, device: &DeviceConfig, place: usize) -> Result<(), StartError> {
        let VdiskConfig { name, size, .. } = &device.vdisks[place];
        if let Ground::Pool(pool) = &mut self.ground {
            pool.shrink(name, *size).map_err(|error| misplaced(device, error.into()))?;
        }
        let mut placed = self.layout.iter_mut();
        placed.find(|it| it.name == *name).iter_mut().for_each(|it| it.size = *size);
        Ok(())
    }

    /// The bytes that are recorded for a virtual disk, if its device has a record.
    pub(crate) fn recorded(&self, name: &str) -> Option<u64> {
        match &self.ground {
            Ground::Memory => None,
            Ground::Pool(pool) => pool.entered(name),
            Ground::Extents(..) => self.layout.iter().find(|it| it.name == name).map(|it| it.size),
        }
    }

    fn is_placed(&self) -> bool {
        matches!(self.ground, Ground::Extents(..))
    }
}

impl Size {
    fn now(&self) -> std::io::Result<u64> {
        match self {
            Self::Is(size) => Ok(*size),
            Self::Of(file) => file.size_now(),
        }
    }

    /// Makes an extent zeroes, if that can be done at once.
    fn wipe(&self, start: u64, bytes: u64) -> std::io::Result<bool> {
        match self {
            Self::Is(_) => Ok(false),
            Self::Of(file) => file.wipe(start, bytes),
        }
    }
}

fn sizes(device: &DeviceConfig) -> Vec<(&str, u64)> {
    let size = |vdisk: &VdiskConfig| vdisk.size;
    device.vdisks.iter().map(|vdisk| (&*vdisk.name, size(vdisk))).collect()
}

/// Bytes for virtual disks on a back end of that size: whole blocks, as far as the emulated device has
/// them.
pub(crate) fn room(device: &DeviceConfig, size: u64) -> u64 {
    device.capacity().unwrap_or(u64::MAX).min(size / ALIGN as u64 * ALIGN as u64)
}

pub(crate) fn misplaced(device: &DeviceConfig, error: PlaceError) -> StartError {
    StartError::Place { device: device.name.clone(), error: Box::new(error) }
}

pub(crate) fn recorded_wrong(device: &DeviceConfig) -> impl Fn(RecordError) -> StartError {
    |error| StartError::Record { device: device.name.clone(), error }
}
