//! Files whose reads and writes the kernel takes over (`FOPEN_PASSTHROUGH`): they don't come here any more.
//!
//! The kernel has a file open either so or with a cache of its own, never both at once. So a file that is
//! open with a cache stays so for whoever opens it next. Beside one that the kernel has taken over each has
//! to name what it was taken over to; one whose requests are to come here is opened without a cache.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use fuser::{BackingId, InitFlags, KernelConfig, ReplyOpen};

use crate::file_system::Inode;
use crate::nodes::lock;

/// States of the whole mount.
const UNWANTED: u8 = 0;
const ON: u8 = 1;
const NOT_OFFERED: u8 = 2;
const REFUSED: u8 = 3;

/// How an inode's files are open that are not direct.
enum Use {
    TakenOver(Arc<BackingId>, u32),
    Cached(u32),
}

/// How an open file is to be opened by the kernel.
pub(super) enum How {
    TakenOver(Arc<BackingId>),
    Cached,
    /// Its reads and writes come here, past a cache. Beside files that the kernel has taken over it has
    /// their backing as well.
    Direct(Option<Arc<BackingId>>),
}

#[derive(Default)]
struct Table {
    inodes: BTreeMap<u64, Use>,
    /// The inode of each open file that is counted.
    files: BTreeMap<u64, u64>,
}

/// The files that the kernel has taken over.
pub(crate) struct PassThrough {
    state: AtomicU8,
    table: Mutex<Table>,
}

impl PassThrough {
    pub(crate) fn new(wanted: bool) -> Self {
        let state = AtomicU8::new(if wanted { NOT_OFFERED } else { UNWANTED });
        Self { state, table: Mutex::default() }
    }

    /// Why it is wanted and off; none if it is on or not wanted.
    pub(crate) fn off_because(&self) -> Option<&'static str> {
        match self.state.load(Ordering::Acquire) {
            NOT_OFFERED => Some("this kernel does not offer it (Linux 6.9 and later may)"),
            REFUSED => Some("the kernel refuses it for files of this source"),
            _ => None,
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Acquire) == ON
    }

    /// Agrees on it with the kernel, if it is wanted.
    pub(super) fn agree(&self, config: &mut KernelConfig) {
        if self.state.load(Ordering::Acquire) == UNWANTED {
            return;
        }
        // The source may be of a file system that lies on another one's files itself, not of two.
        let offered = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(2).is_ok();
        self.state.store(if offered { ON } else { NOT_OFFERED }, Ordering::Release);
    }

    /// How a file is opened: it may be taken over if it has a descriptor there; if it is direct it is not
    /// cached either.
    pub(super) fn open(
        &self,
        (file, Inode(inode)): (u64, Inode),
        (descriptor, direct): (Option<OwnedFd>, bool),
        reply: &ReplyOpen,
    ) -> How {
        if matches!(self.state.load(Ordering::Acquire), UNWANTED | NOT_OFFERED) {
            return if direct { How::Direct(None) } else { How::Cached };
        }
        let table = &mut *lock(&self.table);
        let how = match (table.inodes.get_mut(&inode), descriptor) {
            (Some(Use::TakenOver(backing, files)), descriptor) => {
                *files += 1;
                let backing = Arc::clone(backing);
                match descriptor {
                    Some(_) => How::TakenOver(backing),
                    None => How::Direct(Some(backing)),
                }
            }
            _ if direct => return How::Direct(None),
            (Some(Use::Cached(files)), _) => {
                *files += 1;
                How::Cached
            }
            (None, descriptor) => match descriptor.and_then(|it| self.back(reply, &it)) {
                Some(backing) => {
                    let backing = Arc::new(backing);
                    table.inodes.insert(inode, Use::TakenOver(Arc::clone(&backing), 1));
                    How::TakenOver(backing)
                }
                None => {
                    table.inodes.insert(inode, Use::Cached(1));
                    How::Cached
                }
            },
        };
        table.files.insert(file, inode);
        how
    }

    /// Shows the kernel the source's file.
    fn back(&self, reply: &ReplyOpen, descriptor: &OwnedFd) -> Option<BackingId> {
        if self.state.load(Ordering::Acquire) != ON {
            return None;
        }
        let backed = reply.open_backing(descriptor);
        if let Err(error) = &backed
            && self.state.swap(REFUSED, Ordering::AcqRel) == ON
        {
            tracing::warn!(%error, "--pass-through is off: the kernel refuses it for this source");
        }
        backed.ok()
    }

    /// How a file is open that was made.
    pub(super) fn created(&self, file: u64, Inode(inode): Inode) -> How {
        if matches!(self.state.load(Ordering::Acquire), UNWANTED | NOT_OFFERED) {
            return How::Cached;
        }
        let table = &mut *lock(&self.table);
        table.files.insert(file, inode);
        match table.inodes.entry(inode).or_insert(Use::Cached(0)) {
            Use::Cached(files) => {
                *files += 1;
                How::Cached
            }
            // Another program had it open before.
            Use::TakenOver(backing, files) => {
                *files += 1;
                How::Direct(Some(Arc::clone(backing)))
            }
        }
    }

    /// A file is not open any more.
    pub(super) fn released(&self, file: u64) {
        let table = &mut *lock(&self.table);
        let Some(inode) = table.files.remove(&file) else { return };
        let Some(of_inode) = table.inodes.get_mut(&inode) else { return };
        let (Use::TakenOver(_, files) | Use::Cached(files)) = of_inode;
        *files -= 1;
        if *files == 0 {
            table.inodes.remove(&inode);
        }
    }
}
