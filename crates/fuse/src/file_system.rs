//! A file system as the kernel asks for it: the one seam between the kernel's protocol and files.
//!
//! Does not know: the crate that speaks the protocol, devices, streams.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, FileType, RenameFlags, Stat, StatVfs, Timespec};
use rustix::io::Errno;

/// The answer to the kernel: a value, or the error number that the program gets.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The kernel's number of an inode of this file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Inode(pub(crate) u64);

impl Inode {
    /// The directory at the top.
    pub(crate) const ROOT: Self = Self(1);
}

/// The number of an open file or directory: the kernel hands it back with each call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenId(pub(crate) u64);

/// The process that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread, as the daemon's namespace numbers it; 0 if it has no number there.
    pub(crate) pid: u32,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) parent: Inode,
    pub(crate) name: &'a OsStr,
}

/// An inode with its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) inode: Inode,
    pub(crate) stat: Stat,
}

/// Attributes that shall be different.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    /// Last access and last modification; `tv_nsec` may be `UTIME_NOW` or `UTIME_OMIT`.
    pub(crate) times: Option<(Timespec, Timespec)>,
}

/// A file or directory that is open now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) id: OpenId,
    /// Each read and write arrives: the kernel caches nothing of it.
    pub(crate) direct: bool,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
    /// Where the next listing goes on.
    pub(crate) next: u64,
}

/// Takes entries of a directory; answers whether it had room for this one.
pub(crate) type Lister<'a> = &'a mut dyn FnMut(Item<'_>) -> bool;
/// As [`Lister`], with each entry's attributes; `None` for `.` and `..`, which are not looked up.
pub(crate) type FullLister<'a> = &'a mut dyn FnMut(Item<'_>, Option<&Found>) -> bool;

/// Answers a read, from any thread and at any time, once.
pub(crate) type ReadReply = Box<dyn FnOnce(Answer<&[u8]>) + Send>;
/// Answers a write with the bytes written, from any thread and at any time, once.
pub(crate) type WriteReply = Box<dyn FnOnce(Answer<u32>) + Send>;
/// Answers that a file is durable, from any thread and at any time, once.
pub(crate) type SyncReply = Box<dyn FnOnce(Answer<()>) + Send>;

/// The place of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) file: OpenId,
    pub(crate) offset: u64,
    /// It goes to the end of the file, wherever that is: the kernel may know an older one.
    pub(crate) at_end: bool,
    /// It is to go past the source's cache.
    pub(crate) direct: bool,
    /// The user who writes; none if it comes from the kernel's cache.
    pub(crate) user: Option<u32>,
}

/// A range of an open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) file: OpenId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The answer to an ioctl: what the call returns (negative for an error number), and data.
pub(crate) type IoctlAnswer = (i32, Vec<u8>);

/// A file system. Calls come from several threads at once; each answers before it returns, but for
/// [`read`](Self::read) and [`write`](Self::write), which answer when the data have been moved.
pub(crate) trait FileSystem: Send + Sync + 'static {
    fn lookup(&self, at: At<'_>) -> Answer<Found>;
    /// The kernel has dropped so many of the lookups that it counts.
    fn forget(&self, inode: Inode, lookups: u64);
    fn attributes(&self, inode: Inode, file: Option<OpenId>) -> Answer<Found>;
    fn change(&self, inode: Inode, file: Option<OpenId>, wish: &Wish) -> Answer<Found>;
    fn read_link(&self, inode: Inode) -> Answer<Vec<u8>>;
    fn make_node(&self, caller: Caller, at: At<'_>, mode: u32, device: u32) -> Answer<Found>;
    fn make_directory(&self, caller: Caller, at: At<'_>, mode: u32) -> Answer<Found>;
    fn make_symlink(&self, caller: Caller, at: At<'_>, target: &OsStr) -> Answer<Found>;
    fn link(&self, inode: Inode, at: At<'_>) -> Answer<Found>;
    fn unlink(&self, at: At<'_>) -> Answer<()>;
    fn remove_directory(&self, at: At<'_>) -> Answer<()>;
    fn rename(&self, from: At<'_>, to: At<'_>, flags: RenameFlags) -> Answer<()>;
    fn open(&self, caller: Caller, inode: Inode, flags: i32) -> Answer<Opened>;
    fn create(&self, caller: Caller, at: At<'_>, mode: u32, flags: i32) -> Answer<(Found, Opened)>;
    /// The source's file of an open file that needs no turns now, for the kernel to take over: it can't
    /// get a contract from then on.
    fn hand_over(&self, file: OpenId) -> Option<OwnedFd>;
    /// The kernel does not take it over.
    fn take_back(&self, file: OpenId);
    fn read(&self, span: Span, reply: ReadReply);
    fn write(&self, to: Place, data: &[u8], reply: WriteReply);
    /// A descriptor of it was closed.
    fn flush(&self, file: OpenId) -> Answer<()>;
    /// The last descriptor of it was closed.
    fn release(&self, file: OpenId);
    /// Answers once it is durable, from another thread.
    fn sync(&self, file: OpenId, data_only: bool, reply: SyncReply);
    fn open_directory(&self, inode: Inode) -> Answer<Opened>;
    fn list(&self, directory: OpenId, from: u64, lister: Lister<'_>) -> Answer<()>;
    fn list_full(
        &self,
        directory: (Inode, OpenId),
        from: u64,
        lister: FullLister<'_>,
    ) -> Answer<()>;
    fn statistics(&self, inode: Inode) -> Answer<StatVfs>;
    fn set_attribute(
        &self,
        caller: Caller,
        inode: Inode,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Answer<()>;
    fn attribute(&self, inode: Inode, name: &OsStr) -> Answer<Vec<u8>>;
    fn attribute_names(&self, inode: Inode) -> Answer<Vec<u8>>;
    fn remove_attribute(&self, caller: Caller, inode: Inode, name: &OsStr) -> Answer<()>;
    fn allocate(&self, span: Span, flags: FallocateFlags) -> Answer<()>;
    fn seek(&self, file: OpenId, offset: i64, whence: i32) -> Answer<u64>;
    fn copy(&self, from: Span, to: (OpenId, u64)) -> Answer<u64>;
    /// An ioctl whose number says how long its data are: `data` is what the program gave, and at
    /// most `room` bytes go back to it.
    fn ioctl(
        &self,
        caller: Caller,
        file: OpenId,
        command: u32,
        data: &[u8],
        room: u32,
    ) -> Answer<IoctlAnswer>;
}
