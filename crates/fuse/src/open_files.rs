//! Files and directories that programs have open through the mount.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use disktime_core::{Contract, StreamId};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use slab::Slab;

use crate::abi::Refused;
use crate::extents::Extents;
use crate::file_system::{Answer, OpenId};
use crate::nodes::{Node, lock};

/// An open file without a stream of its own.
const SHARED: u32 = u32::MAX;

/// A regular file that is open: descriptors that were duplicated share it.
pub(crate) struct OpenFile {
    pub(crate) descriptor: OwnedFd,
    pub(crate) node: Arc<Node>,
    /// Its reads go past the system's cache, and so do writes that ask for it.
    pub(crate) is_direct: bool,
    /// A descriptor of it whose writes go to the cache, once one has asked for that.
    cached: OnceLock<OwnedFd>,
    extents: Mutex<Extents>,
    /// The stream of its own, or [`SHARED`].
    stream: AtomicU32,
    /// The contract that it has.
    pub(crate) contract: Mutex<Contract>,
    /// Why the last one that it asked for was refused.
    pub(crate) refused: Mutex<Refused>,
    /// A program has set its contract by ioctl, or it is closed: defaults change nothing any more.
    pub(crate) is_set: Mutex<bool>,
    /// The kernel has taken it over: its reads and writes don't come here.
    pub(crate) is_handed_over: AtomicBool,
}

impl OpenFile {
    /// An open file that shares the stream of all that have none.
    pub(crate) fn new(descriptor: OwnedFd, node: Arc<Node>) -> Self {
        let flags = rustix::fs::fcntl_getfl(&descriptor);
        Self {
            is_direct: flags.is_ok_and(|flags| flags.contains(OFlags::DIRECT)),
            descriptor,
            node,
            cached: OnceLock::new(),
            extents: Mutex::new(Extents::default()),
            stream: AtomicU32::new(SHARED),
            contract: Mutex::new(Contract::default()),
            refused: Mutex::new(Refused::default()),
            is_set: Mutex::new(false),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// The stream of its own, if it has one.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        let stream = self.stream.load(Ordering::Acquire);
        (stream != SHARED).then_some(StreamId(stream))
    }

    fn link(&self) -> String {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())
    }

    /// The descriptor for a write. A file that was opened with `O_DIRECT` has writes of any length too: from the
    /// kernel's cache, and of a program that has taken the flag away.
    pub(crate) fn to_write(&self, direct: bool) -> Answer<&OwnedFd> {
        if direct || !self.is_direct {
            return Ok(&self.descriptor);
        }
        if let Some(cached) = self.cached.get() {
            return Ok(cached);
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let cached = rustix::fs::open(self.link(), flags, Mode::empty())?;
        Ok(self.cached.get_or_init(|| cached))
    }

    /// Its path at the source now, for people; `?` if the system does not say.
    pub(crate) fn path(&self) -> String {
        let path = rustix::fs::readlink(self.link(), Vec::new());
        path.map_or("?".to_owned(), |path| path.to_string_lossy().escape_debug().to_string())
    }

    /// Where the file system below has a byte of it, if it says so.
    pub(crate) fn place(&self, offset: u64) -> Option<u64> {
        lock(&self.extents).place(&self.descriptor, offset)
    }

    /// Its requests are of this stream from now on.
    pub(crate) fn set_stream(&self, StreamId(stream): StreamId) {
        self.stream.store(stream, Ordering::Release);
    }
}

/// Anything that is open.
#[derive(Clone)]
pub(crate) enum Open {
    File(Arc<OpenFile>),
    /// The descriptor's place moves with each listing.
    Directory(Arc<Mutex<OwnedFd>>),
    /// A file that the source does not have, with what it said when it was opened.
    Virtual(u64, Arc<str>),
}

/// All that is open, by the number that the kernel hands back.
pub(crate) struct OpenTable(RwLock<Slab<Open>>);

impl OpenTable {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Slab::new()))
    }

    pub(crate) fn add(&self, open: Open) -> OpenId {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        OpenId(table.insert(open) as u64)
    }

    pub(crate) fn get(&self, OpenId(id): OpenId) -> Answer<Open> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = usize::try_from(id).ok().and_then(|id| table.get(id)).cloned();
        found.ok_or(Errno::BADF)
    }

    /// The open file of that number.
    pub(crate) fn file(&self, id: OpenId) -> Answer<Arc<OpenFile>> {
        match self.get(id)? {
            Open::File(file) => Ok(file),
            Open::Directory(_) => Err(Errno::ISDIR),
            Open::Virtual(..) => Err(Errno::OPNOTSUPP),
        }
    }

    pub(crate) fn remove(&self, OpenId(id): OpenId) -> Option<Open> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(id).ok().and_then(|id| table.try_remove(id))
    }

    /// Every open file of an inode.
    pub(crate) fn files_of(&self, node: &Arc<Node>) -> Vec<Arc<OpenFile>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let files = table.iter().filter_map(|(_, open)| match open {
            Open::File(file) if Arc::ptr_eq(&file.node, node) => Some(Arc::clone(file)),
            _ => None,
        });
        files.collect()
    }
}
