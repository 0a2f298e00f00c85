//! Which device of a configuration has which file, directory or block device: each is one device's.
//!
//! Paths say little: another path may be the same file by a link or a bind mount, another node the
//! same block device. Between processes locks and exclusive opens say it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use crate::config::DeviceConfig;
use crate::start_error::StartError;

/// The identity of the file or device at a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    /// A file or directory, by its file system and its number there.
    File(u64, u64),
    /// A block device, by its number.
    Device(u64),
}

/// The files and devices that are in use, each with the device's name and the path.
#[derive(Default)]
pub(crate) struct Claims(BTreeMap<Thing, (String, PathBuf)>);

impl Claims {
    /// Claims all that is at a device's paths now; what is not there yet can be claimed later, by
    /// claiming again.
    pub(crate) fn claim(&mut self, device: &DeviceConfig) -> Result<(), StartError> {
        for path in paths(device) {
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            let thing = if metadata.file_type().is_block_device() {
                Thing::Device(metadata.rdev())
            } else {
                Thing::File(metadata.dev(), metadata.ino())
            };
            match self.0.entry(thing) {
                Entry::Vacant(entry) => drop(entry.insert((device.name.clone(), path))),
                Entry::Occupied(entry) => {
                    let (other, other_path) = entry.get().clone();
                    if other != device.name || other_path != path {
                        let device = device.name.clone();
                        return Err(StartError::Shared { device, path, other, other_path });
                    }
                }
            }
        }
        Ok(())
    }

    /// A device is gone: its files are free for others.
    pub(crate) fn release(&mut self, device: &str) {
        self.0.retain(|_, (of, _)| of != device);
    }
}

/// All paths of a device's back end.
fn paths(device: &DeviceConfig) -> Vec<PathBuf> {
    let mut paths = device.back_end.paths();
    if let [directory] = &paths[..]
        && directory.is_dir()
    {
        let file = |name: &str| directory.join(format!("{name}.raw"));
        let files: Vec<_> = device.vdisks.iter().map(|vdisk| file(&vdisk.name)).collect();
        paths.extend(files);
    }
    paths
}
