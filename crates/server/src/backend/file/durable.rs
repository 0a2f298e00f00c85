//! Whether a write with `RWF_DSYNC` on a file is durable once it is over.
//!
//! Linux takes the flag on every file, and some file systems ignore it: FUSE answers an
//! asynchronous direct write without a sync. So the flag counts only where it is known to be
//! honoured; everywhere else an fdatasync follows the write. An unknown file system costs time,
//! never data.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;

use rustix::fs::FsWord;

/// File systems that honour the flag for asynchronous direct writes and for writes through the page
/// cache, by the magic number of statfs(2). The first three sync the range and then flush the disk's
/// write cache as part of the write; on tmpfs nothing is more durable than the write itself. Absent on
/// purpose: FUSE (ignores the flag), NFS and SMB (the server decides), overlayfs (whatever is below).
const HONOUR: [(&str, FsWord); 4] =
    [("ext4", 0xEF53), ("xfs", 0x5846_5342), ("btrfs", 0x9123_683E), ("tmpfs", 0x0102_1994)];

/// Whether writes to this file with `RWF_DSYNC` are durable. A block device honours the flag itself,
/// by a flush or a write with FUA to the device, wherever its node lies.
pub(in crate::backend) fn honours_dsync(file: &File) -> bool {
    if file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        return true;
    }
    rustix::fs::fstatfs(file).is_ok_and(|found| is_listed(found.f_type))
}

fn is_listed(magic: FsWord) -> bool {
    HONOUR.iter().any(|(_, listed)| *listed == magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FUSE was trusted once: none of 20 writes with FUA had reached the lower layer's disk.
    #[test]
    fn only_known_file_systems_are_trusted() {
        let unknown: [(&str, FsWord); 7] = [
            ("fuse", 0x6573_5546),
            ("nfs", 0x6969),
            ("overlayfs", 0x794C_7630),
            ("smb2", 0xFE53_4D42),
            ("9p", 0x0102_1997),
            ("f2fs", 0xF2F5_2010),
            ("zfs", 0x2FC1_2FC1),
        ];
        for (name, magic) in unknown {
            assert!(!is_listed(magic), "{name}");
        }
        let proc = File::open("/proc/self/stat").expect("Linux has it");
        assert!(!honours_dsync(&proc));
        assert!(is_listed(0xEF53) && is_listed(0x0102_1994));
    }
}
