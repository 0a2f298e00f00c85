//! The file system: the source's files, whose reads and writes take the device's time in their turn.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use rustix::fs::{self, AtFlags, FallocateFlags, FileType, RawDir, RenameFlags, SeekFrom, StatVfs};
use rustix::io::Errno;

use crate::contracts::{Contracts, is_reserved};
use crate::file_system::{
    Answer, At, Caller, FileSystem, Found, FullLister, Inode, IoctlAnswer, Item, Lister, OpenId,
    Opened, Place, ReadReply, Span, SyncReply, Wish, WriteReply,
};
use crate::nodes::{Default, lock};
use crate::open_files::{Open, OpenFile, OpenTable};
use crate::scheduler::{Scheduler, Transfer, Work};
use crate::source::{Source, length};
use crate::syncs::Syncs;
use crate::transfer::{TRANSFER_MAX, read_straight, write_straight};
use crate::virtual_files::{self, is_virtual};

/// Room for entries of a directory as the source lists them.
const LISTING: usize = 32 << 10;

/// The file system that is mounted.
pub(crate) struct Files {
    pub(crate) source: Source,
    pub(crate) open: OpenTable,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) contracts: Contracts,
    pub(crate) syncs: Syncs,
}

impl Files {
    /// A file that was opened at the source is open from now on.
    fn opened(&self, caller: Caller, inode: Inode, descriptor: OwnedFd) -> Answer<Opened> {
        let node = self.source.nodes.get(inode)?;
        let file = Arc::new(OpenFile::new(descriptor, node));
        // A default that is set meanwhile finds it there, or is there when it looks for one.
        let id = self.open.add(Open::File(Arc::clone(&file)));
        self.contracts.begin(&self.source, caller, &file);
        Ok(Opened { id, direct: false })
    }

    /// Has a transfer done in its turn, or at once if it takes no time of the device.
    fn read_file(&self, file: Arc<OpenFile>, span: Span, reply: ReadReply) {
        let asked = usize::try_from(span.bytes).unwrap_or(usize::MAX).min(TRANSFER_MAX);
        if self.scheduler.is_straight(&file) {
            return read_straight(&file.descriptor, span.offset, asked, reply);
        }
        let length = match length(&file.descriptor) {
            Ok(length) => length,
            Err(error) => return reply(Err(error)),
        };
        let bytes = length.saturating_sub(span.offset).min(asked as u64);
        if bytes == 0 {
            return read_straight(&file.descriptor, span.offset, asked, reply);
        }
        let (offset, work) = (span.offset, Work::Read(asked, reply));
        let place = file.place(offset);
        self.scheduler.transfer(Transfer { file, offset, bytes, length, place, work });
    }

    fn write_file(&self, file: Arc<OpenFile>, to: Place, data: &[u8], reply: WriteReply) {
        let Place { at_end, user, offset, direct, .. } = to;
        if self.scheduler.is_straight(&file) || data.is_empty() {
            let descriptor = file.to_write(direct);
            let written = descriptor.and_then(|it| write_straight(it, to, data));
            return reply(written.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)));
        }
        let length = length(&file.descriptor).unwrap_or(0);
        let mut data = self.scheduler.take(user, data);
        data.is_direct = direct;
        // It is charged for the place that the end has now.
        let offset = if at_end { length } else { offset };
        if at_end {
            data.append();
        }
        let (bytes, work) = (data.all().len() as u64, Work::Write(Arc::new(data), reply));
        let place = file.place(offset);
        self.scheduler.transfer(Transfer { file, offset, bytes, length, place, work });
    }

    /// Each entry of a directory from a place on, until one is not taken.
    fn each_entry(
        directory: &Mutex<OwnedFd>,
        from: u64,
        mut each: impl FnMut(Item<'_>) -> bool,
    ) -> Answer<()> {
        let descriptor = lock(directory);
        fs::seek(&*descriptor, SeekFrom::Start(from))?;
        let mut buffer = Vec::with_capacity(LISTING);
        let mut entries = RawDir::new(&*descriptor, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let item = Item {
                name: OsStr::from_bytes(entry.file_name().to_bytes()),
                inode: entry.ino(),
                kind: entry.file_type(),
                next: entry.next_entry_cookie(),
            };
            if !each(item) {
                break;
            }
        }
        Ok(())
    }

    fn directory(&self, id: OpenId) -> Answer<Option<Arc<Mutex<OwnedFd>>>> {
        match self.open.get(id)? {
            Open::Directory(descriptor) => Ok(Some(descriptor)),
            Open::Virtual(..) => Ok(None),
            Open::File(_) => Err(Errno::NOTDIR),
        }
    }
}

/// An inode of the source: those of `.disktime` can't be changed.
fn of_source(inode: Inode) -> Answer<()> {
    if is_virtual(inode) { Err(Errno::PERM) } else { Ok(()) }
}

/// As [`of_source`], of a name.
fn named_in_source(at: At<'_>) -> Answer<()> {
    if virtual_files::is_name(at) { Err(Errno::PERM) } else { Ok(()) }
}

impl FileSystem for Files {
    fn lookup(&self, at: At<'_>) -> Answer<Found> {
        virtual_files::lookup(&self.source, at).unwrap_or_else(|| self.source.lookup(at))
    }

    fn forget(&self, inode: Inode, lookups: u64) {
        self.source.nodes.forget(inode, lookups);
    }

    fn attributes(&self, inode: Inode, _file: Option<OpenId>) -> Answer<Found> {
        if is_virtual(inode) {
            virtual_files::stat(&self.source, inode)
        } else {
            self.source.stat(inode)
        }
    }

    fn change(&self, inode: Inode, file: Option<OpenId>, wish: &Wish) -> Answer<Found> {
        if is_virtual(inode) {
            // A shell empties a parameter's file before it writes to it.
            let Wish { mode, uid, gid, .. } = wish;
            return if mode.or(*uid).or(*gid).is_none() {
                virtual_files::stat(&self.source, inode)
            } else {
                Err(Errno::PERM)
            };
        }
        let opened = file.and_then(|id| self.open.file(id).ok());
        self.source.change(inode, opened.as_ref().map(|file| &file.descriptor), wish)
    }

    fn read_link(&self, inode: Inode) -> Answer<Vec<u8>> {
        self.source.read_link(inode)
    }

    fn make_node(&self, caller: Caller, at: At<'_>, mode: u32, device: u32) -> Answer<Found> {
        named_in_source(at)?;
        self.source.make_node(caller, at, mode, device)
    }

    fn make_directory(&self, caller: Caller, at: At<'_>, mode: u32) -> Answer<Found> {
        named_in_source(at)?;
        self.source.make_directory(caller, at, mode)
    }

    fn make_symlink(&self, caller: Caller, at: At<'_>, target: &OsStr) -> Answer<Found> {
        named_in_source(at)?;
        self.source.make_symlink(caller, at, target)
    }

    fn link(&self, inode: Inode, at: At<'_>) -> Answer<Found> {
        named_in_source(at)?;
        of_source(inode)?;
        self.source.link(inode, at)
    }

    fn unlink(&self, at: At<'_>) -> Answer<()> {
        named_in_source(at)?;
        self.source.remove(at, AtFlags::empty())
    }

    fn remove_directory(&self, at: At<'_>) -> Answer<()> {
        named_in_source(at)?;
        self.source.remove(at, AtFlags::REMOVEDIR)
    }

    fn rename(&self, from: At<'_>, to: At<'_>, flags: RenameFlags) -> Answer<()> {
        named_in_source(from)?;
        named_in_source(to)?;
        self.source.rename(from, to, flags)
    }

    fn open(&self, caller: Caller, inode: Inode, flags: i32) -> Answer<Opened> {
        if is_virtual(inode) {
            let text = virtual_files::text(&self.scheduler, inode)?;
            let id = self.open.add(Open::Virtual(inode.0, text.into()));
            return Ok(Opened { id, direct: true });
        }
        let node = self.source.nodes.get(inode)?;
        let descriptor = self.source.reopen(&node, flags)?;
        self.opened(caller, inode, descriptor)
    }

    fn create(&self, caller: Caller, at: At<'_>, mode: u32, flags: i32) -> Answer<(Found, Opened)> {
        named_in_source(at)?;
        let (found, descriptor) = self.source.create(caller, at, mode, flags)?;
        match self.opened(caller, found.inode, descriptor) {
            Ok(opened) => Ok((found, opened)),
            Err(error) => {
                self.source.nodes.forget(found.inode, 1);
                Err(error)
            }
        }
    }

    fn hand_over(&self, file: OpenId) -> Option<OwnedFd> {
        let file = self.open.file(file).ok()?;
        // Nobody gives it a contract meanwhile.
        let _is_set = lock(&file.is_set);
        if !self.scheduler.is_straight(&file) {
            return None;
        }
        let copy = rustix::io::fcntl_dupfd_cloexec(&file.descriptor, 0).ok()?;
        file.is_handed_over.store(true, Ordering::Release);
        Some(copy)
    }

    fn take_back(&self, file: OpenId) {
        if let Ok(file) = self.open.file(file) {
            file.is_handed_over.store(false, Ordering::Release);
        }
    }

    fn read(&self, span: Span, reply: ReadReply) {
        match self.open.get(span.file) {
            Ok(Open::File(file)) => self.read_file(file, span, reply),
            Ok(Open::Virtual(_, text)) => {
                let from = usize::try_from(span.offset).unwrap_or(usize::MAX);
                let rest = text.as_bytes().get(from..).unwrap_or_default();
                let bytes = usize::try_from(span.bytes).unwrap_or(usize::MAX);
                reply(Ok(&rest[..rest.len().min(bytes)]));
            }
            Ok(Open::Directory(_)) => reply(Err(Errno::ISDIR)),
            Err(error) => reply(Err(error)),
        }
    }

    fn write(&self, to: Place, data: &[u8], reply: WriteReply) {
        match self.open.get(to.file) {
            Ok(Open::File(file)) => self.write_file(file, to, data, reply),
            Ok(Open::Virtual(inode, _)) => {
                let written = virtual_files::write(&self.scheduler, Inode(inode), data);
                reply(written.map(|()| u32::try_from(data.len()).unwrap_or(u32::MAX)));
            }
            Ok(Open::Directory(_)) => reply(Err(Errno::ISDIR)),
            Err(error) => reply(Err(error)),
        }
    }

    fn flush(&self, file: OpenId) -> Answer<()> {
        // The source does what it does when a descriptor is closed: a network's file system writes back.
        let Ok(file) = self.open.file(file) else { return Ok(()) };
        let copy = rustix::io::fcntl_dupfd_cloexec(&file.descriptor, 0)?;
        nix::unistd::close(copy).map_err(|error| Errno::from_raw_os_error(error as i32))
    }

    fn release(&self, file: OpenId) {
        let Some(Open::File(file)) = self.open.remove(file) else { return };
        // An attribute that is being set finds it closed, or has given it its stream by now.
        *lock(&file.is_set) = true;
        if let Some(stream) = file.stream() {
            self.scheduler.released(stream);
        }
    }

    fn sync(&self, file: OpenId, data_only: bool, reply: SyncReply) {
        match self.open.get(file) {
            Ok(Open::Virtual(..)) => reply(Ok(())),
            Ok(open) => self.syncs.sync(open, data_only, reply),
            Err(error) => reply(Err(error)),
        }
    }

    fn open_directory(&self, inode: Inode) -> Answer<Opened> {
        if is_virtual(inode) {
            let id = self.open.add(Open::Virtual(inode.0, "".into()));
            return Ok(Opened { id, direct: false });
        }
        let node = self.source.nodes.get(inode)?;
        let descriptor = self.source.reopen(&node, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let directory = Open::Directory(Arc::new(Mutex::new(descriptor)));
        Ok(Opened { id: self.open.add(directory), direct: false })
    }

    fn list(&self, directory: OpenId, from: u64, lister: Lister<'_>) -> Answer<()> {
        match self.directory(directory)? {
            Some(directory) => Self::each_entry(&directory, from, lister),
            None => {
                virtual_files::list(from, lister);
                Ok(())
            }
        }
    }

    fn list_full(
        &self,
        (inode, directory): (Inode, OpenId),
        from: u64,
        lister: FullLister<'_>,
    ) -> Answer<()> {
        let Some(directory) = self.directory(directory)? else {
            virtual_files::list(from, &mut |item| {
                let found = virtual_files::stat(&self.source, Inode(item.inode)).ok();
                let dots = item.kind == FileType::Directory;
                lister(item, found.as_ref().filter(|_| !dots))
            });
            return Ok(());
        };
        let parent = self.source.nodes.get(inode)?;
        Self::each_entry(&directory, from, |item| {
            if matches!(item.name.as_bytes(), b"." | b"..") {
                return lister(item, None);
            }
            let found = match self.source.lookup_in(&parent, item.name) {
                Ok(found) => found,
                // An entry that is gone meanwhile is left out.
                Err(Errno::NOENT) => return true,
                // The program finds out why when it looks the name up.
                Err(_) => return lister(Item { inode: self.source.nodes.unused(), ..item }, None),
            };
            let taken = lister(item, Some(&found));
            if !taken {
                self.source.nodes.forget(found.inode, 1);
            }
            taken
        })
    }

    fn statistics(&self, inode: Inode) -> Answer<StatVfs> {
        self.source.statistics(if is_virtual(inode) { Inode::ROOT } else { inode })
    }

    fn set_attribute(
        &self,
        caller: Caller,
        inode: Inode,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Answer<()> {
        of_source(inode)?;
        if !is_reserved(name) {
            return self.source.set_attribute(inode, name, value, flags);
        }
        let node = self.source.nodes.get(inode)?;
        let contract = self.contracts.asked(caller, name, value)?;
        // Files that are opened from now on have it.
        *lock(&node.default) = Default::Is(contract);
        let set = self.contracts.set_default(&self.open, &node, contract).and_then(|before| {
            let set = self.source.set_attribute(inode, name, value, flags);
            set.inspect_err(|_| self.contracts.restore(before))
        });
        // The source says which one it was if several programs set one at once, or this one was refused.
        *lock(&node.default) = Default::Unread;
        set
    }

    fn attribute(&self, inode: Inode, name: &OsStr) -> Answer<Vec<u8>> {
        if is_virtual(inode) {
            return Err(Errno::NODATA);
        }
        let node = self.source.nodes.get(inode)?;
        self.source.attribute(&node, name)
    }

    fn attribute_names(&self, inode: Inode) -> Answer<Vec<u8>> {
        if is_virtual(inode) { Ok(Vec::new()) } else { self.source.attribute_names(inode) }
    }

    fn remove_attribute(&self, _caller: Caller, inode: Inode, name: &OsStr) -> Answer<()> {
        of_source(inode)?;
        self.source.remove_attribute(inode, name)?;
        if is_reserved(name) {
            *lock(&self.source.nodes.get(inode)?.default) = Default::Unread;
        }
        Ok(())
    }

    fn allocate(&self, span: Span, flags: FallocateFlags) -> Answer<()> {
        fs::fallocate(&self.open.file(span.file)?.descriptor, flags, span.offset, span.bytes)
    }

    fn seek(&self, file: OpenId, offset: i64, whence: i32) -> Answer<u64> {
        let file = self.open.file(file)?;
        let from = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(from),
            libc::SEEK_HOLE => SeekFrom::Hole(from),
            // The kernel answers the others itself.
            _ => return Err(Errno::INVAL),
        };
        fs::seek(&file.descriptor, to)
    }

    fn copy(&self, from: Span, (to, mut at): (OpenId, u64)) -> Answer<u64> {
        let (source, target) = (self.open.file(from.file)?, self.open.file(to)?);
        if self.scheduler.counts_all() {
            // The kernel reads and writes instead: bytes that move take the device's time.
            return Err(Errno::OPNOTSUPP);
        }
        let mut offset = from.offset;
        let bytes = usize::try_from(from.bytes).unwrap_or(usize::MAX).min(1 << 30);
        let (from, to) = (&source.descriptor, &target.descriptor);
        let copied = fs::copy_file_range(from, Some(&mut offset), to, Some(&mut at), bytes)?;
        Ok(copied as u64)
    }

    fn ioctl(
        &self,
        caller: Caller,
        file: OpenId,
        command: u32,
        data: &[u8],
        _room: u32,
    ) -> Answer<IoctlAnswer> {
        match self.open.get(file)? {
            Open::File(file) => self.contracts.call(caller, &file, command, data),
            Open::Directory(_) | Open::Virtual(..) => Err(Errno::NOTTY),
        }
    }
}
