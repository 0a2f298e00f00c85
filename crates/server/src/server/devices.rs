//! Devices that come and go while the daemon runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AlterError, Server, Starting, Wrap};
use crate::backend::BackEnd;
use crate::config::DeviceConfig;
use crate::handover::patiently;
use crate::opened_device::{Opened, record_of};
use crate::room::recorded_wrong;
use crate::shard::Message;
use crate::start_error::StartError;

/// Devices that are opened at once.
pub(super) const COMING_MAX: usize = 16;

/// The long part of serving another device, which any thread may do: a server far away may take seconds to
/// answer.
pub struct DeviceJob {
    device: DeviceConfig,
    state: Option<PathBuf>,
    /// Virtual disks of the server.
    vdisks: usize,
}

/// A device that was opened.
pub struct OpenedDevice(Opened);

impl DeviceJob {
    /// Opens the device.
    ///
    /// # Errors
    /// If its back end can't be used.
    pub fn run(&self) -> Result<OpenedDevice, AlterError> {
        // No device has this name: a record of another one is of a device that was removed.
        let (device, state) = (&self.device, self.state.as_deref());
        if let Some(record) = state.and_then(|_| record_of(device, state)) {
            record.set_other_aside().map_err(recorded_wrong(device))?;
        }
        let opened = open(device, state);
        Ok(OpenedDevice(opened.map_err(|error| error.with_descriptors(&device.name, self.vdisks))?))
    }
}

/// Opens a device's back end, whose paths are claimed.
pub(super) fn open(device: &DeviceConfig, state: Option<&Path>) -> Result<Opened, StartError> {
    patiently(|| Opened::new(device, state), StartError::is_in_use)
}

impl Server {
    /// Takes a device's name and paths; [`end_device`](Self::end_device) serves it once the job is done.
    ///
    /// # Errors
    /// If its name or a path is taken.
    pub fn begin_device(&mut self, device: DeviceConfig) -> Result<DeviceJob, AlterError> {
        if self.config.devices.iter().any(|known| known.name == device.name) {
            return Err(AlterError::Taken { what: "device", name: device.name });
        }
        let coming = &mut self.roll.coming;
        if coming.contains_key(&device.name) || coming.len() >= COMING_MAX {
            return Err(AlterError::Coming(device.name));
        }
        let device = DeviceConfig { vdisks: Vec::new(), ..device };
        if let Err(error) = self.roll.claims.claim(&device) {
            self.roll.claims.release(&device.name);
            return Err(error.into());
        }
        coming.insert(device.name.clone(), device.clone());
        let (state, vdisks) = (self.config.state.clone(), self.config.vdisks().count());
        Ok(DeviceJob { device, state, vdisks })
    }

    /// Serves a device that was opened, without virtual disks; gives its name and paths back if it was
    /// not.
    ///
    /// # Errors
    /// If it was not opened, or can't be served.
    pub fn end_device(
        &mut self,
        name: &str,
        opened: Result<OpenedDevice, AlterError>,
    ) -> Result<(), AlterError> {
        let Some(device) = self.roll.coming.remove(name) else {
            return Err(AlterError::Coming(name.to_owned()));
        };
        let index = self.config.devices.len();
        let wrap: Wrap = Arc::new(|_, back_end: Box<dyn BackEnd>| back_end);
        let mut starting = Starting { wrap: &wrap, looked: None };
        let started = opened
            .and_then(|opened| Ok(self.start_opened(index, &device, opened.0, &mut starting)?));
        if let Err(error) = started {
            self.rooms.truncate(index);
            self.devices.truncate(index);
            self.shards.truncate(index);
            self.grounds.truncate(index);
            self.roll.claims.release(name);
            return Err(error);
        }
        self.config.devices.push(device);
        Ok(())
    }

    /// Serves a device no longer, which has no virtual disk. Its contents stay.
    ///
    /// # Errors
    /// If there is no such device, or it has virtual disks.
    pub fn remove_device(&mut self, name: &str) -> Result<(), AlterError> {
        let at = self.device_at(name)?;
        let vdisks = self.config.devices[at].vdisks.len();
        if vdisks > 0 {
            return Err(AlterError::NotEmpty { name: name.to_owned(), vdisks });
        }
        self.config.devices.remove(at);
        self.devices.remove(at);
        self.grounds.remove(at);
        self.rooms.remove(at);
        self.roll.hosts.remove(name);
        self.shards.remove(at).tell_surely(Message::Drain);
        self.roll.claims.release(name);
        Ok(())
    }
}
