//! The directory that is shown: names, attributes and links, each call one on a descriptor.
//!
//! No call builds a path of names: a name is looked up in the descriptor of its directory, so that
//! a rename or a removal meanwhile can't lead to another file. An inode is opened again through
//! its own descriptor in `/proc/self/fd`.
//!
//! Does not know: open files, streams, the kernel's protocol.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, StatVfs, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;

use crate::file_system::{Answer, At, Caller, Found, Inode, Wish};
use crate::nodes::{Node, Nodes};

/// The largest value of an extended attribute, and the longest list of names (`xattr(7)`).
const ATTRIBUTE_MAX: usize = 65_536;
/// Flags that the kernel has dealt with, or that would change what a write at an offset does: with
/// `O_APPEND` Linux writes at the end, wherever it is told to.
const NOT_FOR_THE_SOURCE: i32 = libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOFOLLOW
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND;

/// The source's directory, and all inodes of it that the kernel knows.
pub(crate) struct Source {
    pub(crate) nodes: Nodes,
    /// `/proc/self/fd`.
    descriptors: OwnedFd,
    /// New files are given to their makers: this process may.
    gives_away: bool,
}

impl Source {
    /// The directory at a path.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = fs::open(path, flags, Mode::empty())?;
        let stat = fs::fstat(&top)?;
        let descriptors = fs::open("/proc/self/fd", flags, Mode::empty())?;
        let gives_away = rustix::process::geteuid().is_root();
        Ok(Self { nodes: Nodes::new(top, &stat), descriptors, gives_away })
    }

    /// The number of the file system that the directory is on.
    pub(crate) fn medium(&self) -> Answer<u64> {
        Ok(self.stat(Inode::ROOT)?.stat.st_dev)
    }

    /// Looks a name up; the kernel knows what is found from now on.
    pub(crate) fn lookup(&self, at: At<'_>) -> Answer<Found> {
        let parent = self.nodes.get(at.parent)?;
        self.lookup_in(&parent, at.name)
    }

    /// As [`lookup`](Self::lookup), in a directory at hand.
    pub(crate) fn lookup_in(&self, parent: &Arc<Node>, name: &OsStr) -> Answer<Found> {
        let (descriptor, stat) = named(parent, name)?;
        Ok(self.nodes.found(parent, descriptor, &stat))
    }

    pub(crate) fn stat(&self, inode: Inode) -> Answer<Found> {
        let stat = fs::fstat(&self.nodes.get(inode)?.descriptor)?;
        Ok(Found { inode, stat })
    }

    /// Opens an inode for reading or writing, with the flags of a program's `open`.
    pub(crate) fn reopen(&self, node: &Node, flags: i32) -> Answer<OwnedFd> {
        let flags = (flags & !NOT_FOR_THE_SOURCE).cast_unsigned();
        let flags = OFlags::from_bits_retain(flags) | OFlags::CLOEXEC;
        fs::openat(&self.descriptors, number(&node.descriptor), flags, Mode::empty())
    }

    /// Changes attributes; the size by this descriptor, if there is one.
    pub(crate) fn change(
        &self,
        inode: Inode,
        opened: Option<&OwnedFd>,
        wish: &Wish,
    ) -> Answer<Found> {
        let node = self.nodes.get(inode)?;
        let (link, none) = (number(&node.descriptor), AtFlags::empty());
        // The kernel sends what `chown` clears as a mode of its own, after or with the owner.
        if wish.uid.is_some() || wish.gid.is_some() {
            let (uid, gid) = (wish.uid.map(Uid::from_raw), wish.gid.map(Gid::from_raw));
            fs::chownat(&node.descriptor, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = wish.mode {
            fs::chmodat(&self.descriptors, &*link, Mode::from_raw_mode(mode & 0o7777), none)?;
        }
        if let Some(size) = wish.size {
            match opened {
                Some(file) => fs::ftruncate(file, size)?,
                None => fs::ftruncate(self.reopen(&node, libc::O_WRONLY)?, size)?,
            }
        }
        if let Some((last_access, last_modification)) = wish.times {
            let times = Timestamps { last_access, last_modification };
            fs::utimensat(&self.descriptors, &*link, &times, none)?;
        }
        Ok(Found { inode, stat: fs::fstat(&node.descriptor)? })
    }

    pub(crate) fn read_link(&self, inode: Inode) -> Answer<Vec<u8>> {
        let node = self.nodes.get(inode)?;
        Ok(fs::readlinkat(&node.descriptor, c"", Vec::new())?.into_bytes())
    }

    pub(crate) fn make_node(
        &self,
        caller: Caller,
        at: At<'_>,
        mode: u32,
        device: u32,
    ) -> Answer<Found> {
        let parent = self.nodes.get(at.parent)?;
        let kind = FileType::from_raw_mode(mode);
        let rights = Mode::from_raw_mode(mode & 0o7777);
        fs::mknodat(&parent.descriptor, at.name, kind, rights, device.into())?;
        self.made(caller, &parent, at.name, mode)
    }

    pub(crate) fn make_directory(&self, caller: Caller, at: At<'_>, mode: u32) -> Answer<Found> {
        let parent = self.nodes.get(at.parent)?;
        fs::mkdirat(&parent.descriptor, at.name, Mode::from_raw_mode(mode & 0o7777))?;
        self.made(caller, &parent, at.name, 0)
    }

    pub(crate) fn make_symlink(&self, caller: Caller, at: At<'_>, target: &OsStr) -> Answer<Found> {
        let parent = self.nodes.get(at.parent)?;
        fs::symlinkat(target, &parent.descriptor, at.name)?;
        self.made(caller, &parent, at.name, 0)
    }

    /// Makes a file and opens it.
    pub(crate) fn create(
        &self,
        caller: Caller,
        at: At<'_>,
        mode: u32,
        flags: i32,
    ) -> Answer<(Found, OwnedFd)> {
        let parent = self.nodes.get(at.parent)?;
        let kept = (flags & !(NOT_FOR_THE_SOURCE & !libc::O_EXCL)).cast_unsigned();
        let kept = OFlags::from_bits_retain(kept);
        let made = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let rights = Mode::from_raw_mode(mode & 0o7777);
        let exclusive = kept | made | OFlags::EXCL;
        let file = match fs::openat(&parent.descriptor, at.name, exclusive, rights) {
            // Another program has made it since the kernel looked: it looks again, and sees who may open it.
            Err(Errno::EXIST) if !kept.contains(OFlags::EXCL) => return Err(Errno::STALE),
            opened => opened?,
        };
        self.give(caller, &file, mode)?;
        let found = self.lookup_in(&parent, at.name)?;
        let (opened, stat) = (fs::fstat(&file)?, found.stat);
        if (opened.st_dev, opened.st_ino) != (stat.st_dev, stat.st_ino) {
            // Another program has put another file there meanwhile.
            self.nodes.forget(found.inode, 1);
            return Err(Errno::STALE);
        }
        Ok((Found { stat: opened, ..found }, file))
    }

    /// An inode was made: it belongs to the program that asked, and the kernel knows it.
    fn made(&self, caller: Caller, parent: &Arc<Node>, name: &OsStr, mode: u32) -> Answer<Found> {
        let found = self.lookup_in(parent, name)?;
        let given = self.nodes.get(found.inode).and_then(|node| {
            self.give(caller, &node.descriptor, mode)?;
            fs::fstat(&node.descriptor)
        });
        match given {
            Ok(stat) => Ok(Found { stat, ..found }),
            Err(error) => {
                self.nodes.forget(found.inode, 1);
                Err(error)
            }
        }
    }

    /// Gives a new inode to its maker. A directory with the set-group-ID bit decides the group of
    /// what is made in it: the group that the source has set stays then.
    fn give(&self, caller: Caller, made: &OwnedFd, mode: u32) -> Answer<()> {
        if !self.gives_away {
            return Ok(());
        }
        let stat = fs::fstat(made)?;
        let own = rustix::process::getegid().as_raw();
        let gid = (stat.st_gid == own && caller.gid != own).then(|| Gid::from_raw(caller.gid));
        let uid = (stat.st_uid != caller.uid).then(|| Uid::from_raw(caller.uid));
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        fs::chownat(made, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        if mode & 0o6000 != 0 {
            // A change of the owner clears these bits.
            let link = number(made);
            let rights = Mode::from_raw_mode(mode & 0o7777);
            fs::chmodat(&self.descriptors, &*link, rights, AtFlags::empty())?;
        }
        Ok(())
    }

    pub(crate) fn link(&self, inode: Inode, at: At<'_>) -> Answer<Found> {
        let (node, parent) = (self.nodes.get(inode)?, self.nodes.get(at.parent)?);
        let (from, follow) = (number(&node.descriptor), AtFlags::SYMLINK_FOLLOW);
        fs::linkat(&self.descriptors, &*from, &parent.descriptor, at.name, follow)?;
        self.lookup_in(&parent, at.name)
    }

    pub(crate) fn remove(&self, at: At<'_>, flags: AtFlags) -> Answer<()> {
        fs::unlinkat(&self.nodes.get(at.parent)?.descriptor, at.name, flags)
    }

    pub(crate) fn rename(&self, from: At<'_>, to: At<'_>, flags: RenameFlags) -> Answer<()> {
        let (old, new) = (self.nodes.get(from.parent)?, self.nodes.get(to.parent)?);
        fs::renameat_with(&old.descriptor, from.name, &new.descriptor, to.name, flags)?;
        let moves = [(&new, to.name), (&old, from.name)];
        let moves =
            moves.into_iter().take(if flags.contains(RenameFlags::EXCHANGE) { 2 } else { 1 });
        for (parent, name) in moves {
            if let Ok((descriptor, stat)) = named(parent, name) {
                self.nodes.moved(&descriptor, &stat, parent);
            }
        }
        Ok(())
    }

    pub(crate) fn statistics(&self, inode: Inode) -> Answer<StatVfs> {
        fs::fstatvfs(&self.nodes.get(inode)?.descriptor)
    }

    pub(crate) fn set_attribute(
        &self,
        inode: Inode,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Answer<()> {
        let path = self.by_descriptor(self.nodes.get(inode)?.as_ref());
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        fs::setxattr(path, name, value, flags)
    }

    pub(crate) fn attribute(&self, node: &Node, name: &OsStr) -> Answer<Vec<u8>> {
        let path = self.by_descriptor(node);
        let mut value = Vec::with_capacity(256);
        match fs::getxattr(&path, name, rustix::buffer::spare_capacity(&mut value)) {
            Err(Errno::RANGE) => {
                value = Vec::with_capacity(ATTRIBUTE_MAX);
                fs::getxattr(&path, name, rustix::buffer::spare_capacity(&mut value))?;
            }
            got => {
                got?;
            }
        }
        Ok(value)
    }

    pub(crate) fn attribute_names(&self, inode: Inode) -> Answer<Vec<u8>> {
        let path = self.by_descriptor(self.nodes.get(inode)?.as_ref());
        let mut names = Vec::with_capacity(ATTRIBUTE_MAX);
        fs::listxattr(path, rustix::buffer::spare_capacity(&mut names))?;
        Ok(names)
    }

    pub(crate) fn remove_attribute(&self, inode: Inode, name: &OsStr) -> Answer<()> {
        fs::removexattr(self.by_descriptor(self.nodes.get(inode)?.as_ref()), name)
    }

    /// The link that leads to exactly this inode: calls on attributes take no descriptor of kind
    /// `O_PATH`.
    fn by_descriptor(&self, node: &Node) -> OsString {
        let mut path = b"/proc/self/fd/".to_vec();
        path.extend_from_slice(number(&node.descriptor).as_bytes());
        OsString::from_vec(path)
    }
}

/// An inode by its name in a directory, with a descriptor of kind `O_PATH`.
fn named(parent: &Node, name: &OsStr) -> Answer<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let descriptor = fs::openat(&parent.descriptor, name, flags, Mode::empty())?;
    let stat = fs::fstat(&descriptor)?;
    Ok((descriptor, stat))
}

/// The name in `/proc/self/fd` of a descriptor.
fn number(descriptor: &OwnedFd) -> OsString {
    OsString::from(descriptor.as_raw_fd().to_string())
}

/// Bytes of a file now.
pub(crate) fn length(file: &OwnedFd) -> Answer<u64> {
    let stat: Stat = fs::fstat(file)?;
    // A file's size is not negative.
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that another program had made in this moment was opened with the rights of the mount, and a
    /// thread of the mount waited for the other end of a fifo.
    #[test]
    fn a_name_that_is_there_already_is_not_opened_when_it_should_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let source = Source::open(directory.path()).unwrap();
        let (top, none) = (&source.nodes.get(Inode::ROOT).unwrap().descriptor, Mode::empty());
        std::fs::write(directory.path().join("file"), "data").unwrap();
        fs::mknodat(top, "fifo", FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let caller = Caller { uid: 1000, gid: 1000, pid: 1 };
        for name in ["file", "fifo"] {
            let at = At { parent: Inode::ROOT, name: OsStr::new(name) };
            let create = |flags| source.create(caller, at, none.bits(), flags).map(drop);
            assert_eq!(create(libc::O_WRONLY | libc::O_CREAT), Err(Errno::STALE), "{name}");
            let exclusive = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
            assert_eq!(create(exclusive), Err(Errno::EXIST), "{name}");
        }
        let at = At { parent: Inode::ROOT, name: OsStr::new("new") };
        source.create(caller, at, 0o600, libc::O_WRONLY | libc::O_CREAT).unwrap();
    }
}
