//! Guests: processes that move bytes on a device by themselves, each piece in its turn.
//!
//! A guest (a mount of `disktime mount --device`) has streams in the device's engine, beside those of
//! virtual disks. It says which requests it has; the shard says when a piece of one may begin, and
//! the guest says when that piece has ended. The bytes themselves never come here.
//!
//! Guests come in by the daemon's own socket, one packet a message. Does not know: files, FUSE.

mod desk;
mod line;
mod medium;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use desk::Invitation;
pub use line::{GuestLine, GuestTerms};

use crate::config::DeviceConfig;
use crate::shard::ShardHandle;

/// The devices that guests can come to.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<Known>);

#[derive(Default)]
struct Known {
    devices: BTreeMap<String, (ShardHandle, DeviceConfig)>,
    /// The number of the last guest.
    last: u64,
}

impl Hosts {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device is served from now on.
    pub(crate) fn add(&self, device: &DeviceConfig, shard: &ShardHandle) {
        let device = DeviceConfig { vdisks: Vec::new(), ..device.clone() };
        self.known().devices.insert(device.name.clone(), (shard.clone(), device));
    }

    /// A device is served no longer.
    pub(crate) fn remove(&self, device: &str) {
        self.known().devices.remove(device);
    }
}
