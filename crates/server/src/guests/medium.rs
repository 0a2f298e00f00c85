//! Whether a directory can be on a device's medium, by what the system knows of both.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::backend::BackEndKind;
use crate::config::DeviceConfig;

/// Disks below disks that are followed: a file system on a volume on a RAID set on partitions has four.
const LEVELS_MAX: usize = 8;

/// Why files of the file system with this number can't be of that device, if it is known.
pub(super) fn is_elsewhere(device: &DeviceConfig, number: u64) -> Option<String> {
    if matches!(device.back_end, BackEndKind::Tiered { .. }) {
        return Some("it has tiers, and a mount does not know which tier a byte is on".to_owned());
    }
    // An emulated device has whatever comes to it.
    if device.emulate.is_some() {
        return None;
    }
    let own: BTreeSet<u64> = match &device.back_end {
        BackEndKind::Memory => {
            return Some("its contents are in memory, and no directory is on it".to_owned());
        }
        kind => kind.paths().iter().flat_map(|path| disks_of(path)).collect(),
    };
    let disks = disks(number);
    let known =
        |disks: &BTreeSet<u64>| !disks.is_empty() && disks.iter().all(|number| major(*number) != 0);
    let apart = known(&own) && known(&disks) && own.is_disjoint(&disks);
    apart.then(|| format!("it is on {}, and the directory on {}", names(&own), names(&disks)))
}

fn names(disks: &BTreeSet<u64>) -> String {
    let name = |number: &u64| format!("disk {}:{}", major(*number), minor(*number));
    disks.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The disks that a file, a directory or a block device is on.
fn disks_of(path: &Path) -> BTreeSet<u64> {
    let Ok(found) = std::fs::metadata(path) else { return BTreeSet::new() };
    disks(if found.file_type().is_block_device() { found.rdev() } else { found.dev() })
}

/// The disks below a block device, or itself if none are.
fn disks(number: u64) -> BTreeSet<u64> {
    let mut all = BTreeSet::from([number]);
    for _ in 0..LEVELS_MAX {
        let below = |number: &u64| {
            let below = below(*number);
            if below.is_empty() { vec![*number] } else { below }
        };
        let next: BTreeSet<u64> = all.iter().flat_map(below).collect();
        if next == all {
            break;
        }
        all = next;
    }
    all
}

/// The disk of a partition, and those that a volume or a set is made of.
fn below(number: u64) -> Vec<u64> {
    let place = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
    if place.join("partition").exists() {
        return read_number(&place.join("../dev")).into_iter().collect();
    }
    let Ok(slaves) = std::fs::read_dir(place.join("slaves")) else { return Vec::new() };
    slaves.filter_map(|it| read_number(&it.ok()?.path().join("dev"))).collect()
}

/// A file of the system that has a device's number: `8:1`.
fn read_number(path: &Path) -> Option<u64> {
    // By the link's own place: `..` is of the directory that it leads to.
    let text = std::fs::read_to_string(path).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn a_directory_is_refused_where_it_is_known_to_be_elsewhere() {
        let device = |back_end: &str| {
            let text = format!(
                "[server]\nnbd = [\"unix:/nowhere\"]\n[[device]]\nname = \"d\"\n{back_end}\n"
            );
            Config::parse(&text).unwrap().devices.remove(0)
        };
        let here = std::fs::metadata("/").unwrap().dev();
        let says = |back_end: &str, number| is_elsewhere(&device(back_end), number);
        assert!(says("back_end = \"memory\"", here).unwrap().contains("in memory"));
        assert_eq!(says("back_end = \"memory\"\nemulate = \"deskstar-34gxp\"", here), None);
        assert_eq!(says("back_end = \"file:/\"", here), None);
        // A disk that the system does not have is another one than any that it has.
        let other = rustix::fs::makedev(4000, 7);
        let told = says("back_end = \"file:/\"", other);
        assert_eq!(told.is_some(), major(here) != 0, "{told:?}");
        // A file system without a disk: nothing is known.
        assert_eq!(says("back_end = \"file:/\"", rustix::fs::makedev(0, 7)), None);
    }
}
