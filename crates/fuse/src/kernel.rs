//! The kernel's side: the one module that knows the crate that speaks the FUSE protocol.
//!
//! Turns each call into one of [`FileSystem`], and its answer into the kernel's structures. Does not
//! know: files, streams, devices.

mod pass_through;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    AccessFlags, BackgroundSession, BsdFileFlags, Config, CopyFileRangeFlags, FileAttr, FileHandle,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    MountOption, OpenFlags, RenameFlags as KernelRenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, FileType, RenameFlags, Stat, Timespec, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use crate::file_system::{
    Answer, At, Caller, FileSystem, Found, Inode, Item, OpenId, Opened, Place, Span, Wish,
};

use pass_through::How;
pub(crate) use pass_through::PassThrough;

/// How long the kernel goes by attributes and names without asking again: changes that are made to
/// the source behind the mount's back are seen after this time at the latest.
const CACHED: Duration = Duration::from_secs(1);
/// The longest read or write: what the crate's buffers take.
const TRANSFER_MAX: u32 = 1 << 20;
/// Reads ahead, asynchronous writes, and all reads and writes past its cache that the kernel has
/// outstanding. More wait there in the order of their arrival, whatever their files' contracts: with 256,
/// which five programs of 64 reads exceed, a file of guaranteed rate answered five times as late beside
/// them (`cargo xtask bench live --only mount-ucsb-7`).
const BACKGROUND_MAX: u16 = 4096;
/// An inode's number is never given to another file while the kernel knows it.
const GENERATION: Generation = Generation(0);

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The name of the source in the table of mounts.
    pub(crate) source: String,
    pub(crate) read_only: bool,
    /// Other users than the one who mounts may come in.
    pub(crate) for_all: bool,
    /// Threads that take the kernel's calls.
    pub(crate) threads: usize,
    /// The kernel may take files over.
    pub(crate) pass_through: bool,
}

/// A file system that is mounted; it ends when this is dropped.
pub(crate) struct Kernel {
    session: BackgroundSession,
    pass_through: Arc<PassThrough>,
}

impl Kernel {
    pub(crate) fn mount<F: FileSystem>(
        files: Arc<F>,
        at: &Path,
        terms: &Terms,
    ) -> io::Result<Self> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(terms.source.clone()),
            MountOption::Subtype("disktime".to_owned()),
            MountOption::DefaultPermissions,
            if terms.read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.acl = if terms.for_all { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(terms.threads);
        config.clone_fd = terms.threads > 1;
        let pass_through = Arc::new(PassThrough::new(terms.pass_through));
        let adapter = Adapter(files, Arc::clone(&pass_through));
        let session = Session::new(adapter, at, &config)?.spawn()?;
        Ok(Self { session, pass_through })
    }

    /// The files that the kernel has taken over.
    pub(crate) fn pass_through(&self) -> &PassThrough {
        &self.pass_through
    }

    /// Whether it has been unmounted.
    pub(crate) fn is_over(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Has the system's helper unmount it, and waits until all calls are answered.
    pub(crate) fn unmount(self) -> io::Result<()> {
        self.session.umount_and_join()
    }

    /// Waits until all calls are answered; it has been unmounted.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let nothing = std::thread::Builder::new().spawn(|| Ok(()))?;
        let session = std::mem::replace(&mut self.session.guard, nothing);
        // A session that is dropped unmounts whatever is at its place by then: also another mount.
        std::mem::forget(self.session);
        let ended = session.join();
        let ended = ended.map_err(|_| io::Error::other("a thread of the session has panicked"))?;
        match ended {
            // The kernel's other word for the end of a connection, if a thread reads while it ends it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            ended => ended,
        }
    }
}

struct Adapter<F>(Arc<F>, Arc<PassThrough>);

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

fn at(parent: INodeNo, name: &OsStr) -> At<'_> {
    At { parent: Inode(parent.0), name }
}

fn id(handle: FileHandle) -> OpenId {
    OpenId(handle.0)
}

fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let part = Duration::from_nanos(nanoseconds);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    base + part
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timespec {
                tv_sec: since.as_secs().cast_signed(),
                tv_nsec: since.subsec_nanos().into(),
            },
            // The crate has subtracted the part of a second instead of adding it.
            Err(error) => Timespec {
                tv_sec: -error.duration().as_secs().cast_signed(),
                tv_nsec: error.duration().subsec_nanos().into(),
            },
        },
    }
}

fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel's structures have 32 bits there")]
fn attributes(Found { inode, stat }: &Found) -> FileAttr {
    let Stat { st_mode, st_nlink, st_rdev, st_blksize, .. } = *stat;
    FileAttr {
        ino: INodeNo(inode.0),
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(FileType::from_raw_mode(st_mode)),
        perm: (st_mode & 0o7777) as u16,
        nlink: st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: st_rdev as u32,
        blksize: u32::try_from(st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

fn open_flags(opened: Opened) -> FopenFlags {
    // Whether cached pages are still right the kernel finds out by the time of the last change.
    if opened.direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE }
}

fn entry(reply: ReplyEntry, answer: Answer<Found>) {
    match answer {
        Ok(found) => reply.entry(&CACHED, &attributes(&found), GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

fn attr(reply: ReplyAttr, answer: Answer<Found>) {
    match answer {
        Ok(found) => reply.attr(&CACHED, &attributes(&found)),
        Err(error) => reply.error(errno(error)),
    }
}

fn empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

/// An attribute's value, its length if the program has no room, or that the room is too small.
fn sized(reply: ReplyXattr, answer: Answer<Vec<u8>>, room: u32) {
    match answer {
        Err(error) => reply.error(errno(error)),
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if room == 0 => reply.size(length),
            Ok(length) if length <= room => reply.data(&value),
            _ => reply.error(fuser::Errno::ERANGE),
        },
    }
}

impl<F: FileSystem> Filesystem for Adapter<F> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            if config.add_capabilities(wanted).is_err() {
                tracing::debug!(?wanted, "this kernel does not offer it");
            }
        }
        self.1.agree(config);
        let bounds = [
            ("max_write", config.set_max_write(TRANSFER_MAX).err()),
            ("max_readahead", config.set_max_readahead(TRANSFER_MAX).err()),
        ];
        for (bound, most) in bounds {
            if let Some(most) = most {
                tracing::debug!(bound, most, "this kernel allows less");
            }
        }
        let _never_zero = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.0.lookup(at(parent, name)));
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.0.forget(Inode(inode.0), lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        file: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        attr(reply, self.0.attributes(Inode(inode.0), file.map(id)));
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        file: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let timed = atime.is_some() || mtime.is_some();
        let times = timed.then(|| (timespec(atime), timespec(mtime)));
        let wish = Wish { mode, uid, gid, size, times };
        attr(reply, self.0.change(Inode(inode.0), file.map(id), &wish));
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        match self.0.read_link(Inode(inode.0)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        entry(reply, self.0.make_node(caller(request), at(parent, name), mode, device));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        entry(reply, self.0.make_directory(caller(request), at(parent, name), mode));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.unlink(at(parent, name)));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.remove_directory(at(parent, name)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self.0.make_symlink(caller(request), at(parent, name), target.as_os_str());
        entry(reply, made);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: KernelRenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = RenameFlags::from_bits_retain(flags.bits());
        empty(reply, self.0.rename(at(parent, name), at(new_parent, new_name), flags));
    }

    fn link(
        &self,
        _request: &Request,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        entry(reply, self.0.link(Inode(inode.0), at(parent, name)));
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = match self.0.open(caller(request), Inode(inode.0), flags.0) {
            Ok(opened) => opened,
            Err(error) => return reply.error(errno(error)),
        };
        let wanted = self.1.is_wanted() && !opened.direct;
        let descriptor = wanted.then(|| self.0.hand_over(opened.id)).flatten();
        let handed_over = descriptor.is_some();
        let file = (opened.id.0, Inode(inode.0));
        let how = self.1.open(file, (descriptor, opened.direct), &reply);
        if handed_over && !matches!(how, How::TakenOver(_)) {
            self.0.take_back(opened.id);
        }
        let handle = FileHandle(opened.id.0);
        match how {
            // The kernel goes by the source's cache, and has none of its own.
            How::TakenOver(backing) => {
                reply.opened_passthrough(handle, FopenFlags::empty(), &backing);
            }
            How::Direct(Some(backing)) => {
                reply.opened_passthrough(handle, FopenFlags::FOPEN_DIRECT_IO, &backing);
            }
            How::Direct(None) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            How::Cached => reply.opened(handle, open_flags(opened)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.0.create(caller(request), at(parent, name), mode, flags) {
            Ok((found, opened)) => {
                let (handle, attributes) = (FileHandle(opened.id.0), attributes(&found));
                match self.1.created(opened.id.0, found.inode) {
                    How::Direct(Some(backing)) | How::TakenOver(backing) => {
                        let flags = FopenFlags::FOPEN_DIRECT_IO;
                        reply.created_passthrough(
                            &CACHED,
                            &attributes,
                            GENERATION,
                            handle,
                            flags,
                            &backing,
                        );
                    }
                    How::Cached | How::Direct(None) => {
                        let flags = open_flags(opened);
                        reply.created(&CACHED, &attributes, GENERATION, handle, flags);
                    }
                }
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let span = Span { file: id(file), offset, bytes: size.into() };
        self.0.read(
            span,
            Box::new(move |answer| match answer {
                Ok(data) => reply.data(data),
                Err(error) => reply.error(errno(error)),
            }),
        );
    }

    fn write(
        &self,
        request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel has guessed the file of what it writes from its cache: that has its place.
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let at_end = !is_cached && flags.0 & libc::O_APPEND != 0;
        let direct = !is_cached && flags.0 & libc::O_DIRECT != 0;
        let user = (!is_cached).then(|| request.uid());
        self.0.write(
            Place { file: id(file), offset, at_end, direct, user },
            data,
            Box::new(move |answer| match answer {
                Ok(bytes) => reply.written(bytes),
                Err(error) => reply.error(errno(error)),
            }),
        );
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.0.flush(id(file)));
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        // After its release another open file may have its number.
        self.1.released(file.0);
        self.0.release(id(file));
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.0.sync(id(file), data_only, Box::new(|answer| empty(reply, answer)));
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.0.open_directory(Inode(inode.0)) {
            Ok(it) => reply.opened(FileHandle(it.id.0), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        directory: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut lister =
            |item: Item<'_>| !reply.add(INodeNo(item.inode), item.next, kind(item.kind), item.name);
        match self.0.list(id(directory), offset, &mut lister) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        directory: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut lister = |item: Item<'_>, found: Option<&Found>| {
            let ino = INodeNo(found.map_or(0, |it| it.inode.0));
            let mut attr = found.map_or_else(|| placeholder(item), attributes);
            if found.is_none() {
                attr.ino = INodeNo(item.inode);
            }
            // A name that is not known is looked up before it is used.
            let cached = if found.is_some() { CACHED } else { Duration::ZERO };
            !reply.add(ino, item.next, item.name, &cached, &attr, GENERATION)
        };
        let directory = (Inode(inode.0), id(directory));
        match self.0.list_full(directory, offset, &mut lister) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        directory: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.release(id(directory));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        directory: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.0.sync(id(directory), data_only, Box::new(|answer| empty(reply, answer)));
    }

    #[expect(clippy::cast_possible_truncation, reason = "the kernel's structure has 32 bits there")]
    fn statfs(&self, _request: &Request, inode: INodeNo, reply: ReplyStatfs) {
        match self.0.statistics(Inode(inode.0)) {
            Ok(it) => reply.statfs(
                it.f_blocks,
                it.f_bfree,
                it.f_bavail,
                it.f_files,
                it.f_ffree,
                it.f_bsize as u32,
                it.f_namemax as u32,
                it.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let set = self.0.set_attribute(caller(request), Inode(inode.0), name, value, flags);
        empty(reply, set);
    }

    fn getxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        sized(reply, self.0.attribute(Inode(inode.0), name), room);
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        sized(reply, self.0.attribute_names(Inode(inode.0)), room);
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.remove_attribute(caller(request), Inode(inode.0), name));
    }

    fn access(&self, _request: &Request, _inode: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // The kernel has checked it by the attributes.
        reply.ok();
    }

    fn ioctl(
        &self,
        request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        flags: IoctlFlags,
        command: u32,
        data: &[u8],
        room: u32,
        reply: ReplyIoctl,
    ) {
        if flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            return reply.error(fuser::Errno::ENOTTY);
        }
        match self.0.ioctl(caller(request), id(file), command, data, room) {
            Ok((result, data)) => reply.ioctl(result, &data),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let span = Span { file: id(file), offset, bytes };
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        empty(reply, self.0.allocate(span, flags));
    }

    fn lseek(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.0.seek(id(file), offset, whence) {
            Ok(at) => reply.offset(at.cast_signed()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        file: FileHandle,
        offset: u64,
        _to: INodeNo,
        to_file: FileHandle,
        to_offset: u64,
        bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let span = Span { file: id(file), offset, bytes };
        match self.0.copy(span, (id(to_file), to_offset)) {
            Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }
}

/// Attributes of an entry whose own are not known, or not looked at: `.` and `..`.
fn placeholder(item: Item<'_>) -> FileAttr {
    FileAttr {
        ino: INodeNo(item.inode),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: kind(item.kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
