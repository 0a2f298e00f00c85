//! Moving bytes between the source's files and memory, and how much memory that may take.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use rustix::io::{self, Errno, IoSlice, IoSliceMut, ReadWriteFlags};

use crate::file_system::{Answer, Place, ReadReply};
use crate::nodes::lock;
use crate::source::length;

/// The longest read or write that the kernel sends.
pub(crate) const TRANSFER_MAX: usize = 1 << 20;
/// The most bytes of writes that wait for their turn, beside those from the kernel's cache.
const WAITING_MAX: u64 = 512 << 20;
/// Buffers that are kept for later reads.
const KEPT_MAX: usize = 64;
/// The most buffers that reads keep whose next pieces wait for their turns: 256 MiB.
pub(crate) const USED_MAX: usize = 256;

thread_local! {
    /// Room for transfers that go straight through.
    static BUFFER: RefCell<Option<Aligned>> = const { RefCell::new(None) };
}

/// Reads until the buffer is full or the file ends; answers how many bytes there were. It fails if some can't be
/// read: to the kernel fewer bytes than it asked for are the file's end.
pub(crate) fn read_at(file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Answer<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match io::pread(file, &mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            // Past a source's cache nothing can be asked for behind an end within a block.
            Err(Errno::INVAL) if !done.is_multiple_of(Aligned::ALIGNMENT) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads until the buffer is full or the file ends, if the system has all of that in its cache; answers how
/// many bytes there were.
pub(crate) fn read_cached(file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Option<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut [IoSliceMut::new(&mut buffer[done..])];
        let at = offset.saturating_add(done as u64);
        match io::preadv2(file, rest, at, ReadWriteFlags::NOWAIT).ok()? {
            0 => break,
            bytes => done += bytes,
        }
    }
    Some(done)
}

/// Writes until all is written; answers how many bytes are, if any. Where `whole`, it fails if not all are.
fn write_at(file: &OwnedFd, offset: u64, data: &[u8], whole: bool) -> Answer<usize> {
    let mut done = 0;
    while done < data.len() {
        let error = match io::pwrite(file, &data[done..], offset.saturating_add(done as u64)) {
            Err(Errno::INTR) => continue,
            Ok(0) => Errno::IO,
            Ok(bytes) => {
                done += bytes;
                continue;
            }
            Err(error) => error,
        };
        return if done > 0 && !whole { Ok(done) } else { Err(error) };
    }
    Ok(done)
}

/// Writes at the end of the file, wherever that is by now; answers how many bytes were written.
fn append(file: &OwnedFd, data: &[u8]) -> Answer<usize> {
    loop {
        match io::pwritev2(file, &[IoSlice::new(data)], 0, ReadWriteFlags::APPEND) {
            Err(Errno::INTR) => {}
            written => return written,
        }
    }
}

/// Reads on the calling thread and answers.
pub(crate) fn read_straight(file: &OwnedFd, offset: u64, bytes: usize, reply: ReadReply) {
    BUFFER.with_borrow_mut(|buffer| {
        let buffer = buffer.get_or_insert_with(|| Aligned::new(TRANSFER_MAX));
        match read_at(file, offset, buffer.first(bytes)) {
            Ok(done) => reply(Ok(buffer.first(done))),
            Err(error) => reply(Err(error)),
        }
    });
}

/// Writes on the calling thread.
pub(crate) fn write_straight(file: &OwnedFd, to: Place, data: &[u8]) -> Answer<usize> {
    let write = |data: &[u8]| match to.at_end {
        false => write_at(file, to.offset, data, to.user.is_none()),
        true => append(file, data),
    };
    match write(data) {
        // Its memory may lie where the source can't take it from: then it is copied.
        Err(Errno::INVAL) => write(Aligned::of(data).all()),
        written => written,
    }
}

/// Memory that begins at a multiple of 4 KiB: a file that was opened with `O_DIRECT` moves no other.
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// The largest block of devices.
    const ALIGNMENT: usize = 4096;

    /// So many bytes, all zero.
    pub(crate) fn new(length: usize) -> Self {
        let memory = vec![0; length + Self::ALIGNMENT];
        let start = memory.as_ptr().align_offset(Self::ALIGNMENT).min(Self::ALIGNMENT);
        Self { memory, start, length }
    }

    /// A copy.
    pub(crate) fn of(data: &[u8]) -> Self {
        let mut copy = Self::new(data.len());
        copy.first(data.len()).copy_from_slice(data);
        copy
    }

    /// All bytes.
    pub(crate) fn all(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// So many of the first bytes, or all.
    pub(crate) fn first(&mut self, bytes: usize) -> &mut [u8] {
        let bytes = bytes.min(self.length);
        &mut self.memory[self.start..self.start + bytes]
    }
}

/// Buffers that are used again: each is as long as the longest read.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    kept: Vec<Aligned>,
    /// Buffers that were taken and not given back.
    used: usize,
}

impl Buffers {
    pub(crate) fn take(&self) -> Aligned {
        let mut pool = lock(&self.0);
        pool.used += 1;
        pool.kept.pop().unwrap_or_else(|| Aligned::new(TRANSFER_MAX))
    }

    pub(crate) fn give_back(&self, buffer: Aligned) {
        let mut pool = lock(&self.0);
        pool.used -= 1;
        if pool.kept.len() < KEPT_MAX {
            pool.kept.push(buffer);
        }
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        lock(&self.0).used
    }

    /// So many are used that a read which has to wait for more turns should keep none.
    pub(crate) fn are_scarce(&self) -> bool {
        lock(&self.0).used > USED_MAX
    }
}

/// An account of the bytes of writes that wait, by users.
pub(crate) struct Waiting {
    held: Mutex<Held>,
    fell: Condvar,
}

#[derive(Default)]
struct Held {
    all: u64,
    users: BTreeMap<u32, u64>,
}

/// The data of a write that waits; its room is free again when this is dropped.
pub(crate) struct Data {
    bytes: Aligned,
    account: Arc<Waiting>,
    user: Option<u32>,
    /// It goes to the end that the file has when the first bytes of it are written: here once that is known.
    end: Option<OnceLock<u64>>,
    /// It goes past the source's cache.
    pub(crate) is_direct: bool,
}

impl Data {
    /// It goes to the end of the file, and not where it was told to.
    pub(crate) fn append(&mut self) {
        self.end = Some(OnceLock::new());
    }

    /// Writes a range of it, which begins at that offset if it does not go to the end.
    pub(crate) fn write(&self, file: &OwnedFd, offset: u64, range: Range<usize>) -> Answer<usize> {
        let offset = match &self.end {
            None => offset,
            Some(end) => {
                let now = if end.get().is_none() { length(file)? } else { 0 };
                end.get_or_init(|| now).saturating_add(range.start as u64)
            }
        };
        write_at(file, offset, &self.all()[range], self.is_cached())
    }

    /// It comes from the kernel's cache: the kernel hears of an error, never of bytes that are missing.
    pub(crate) fn is_cached(&self) -> bool {
        self.user.is_none()
    }

    pub(crate) fn all(&self) -> &[u8] {
        self.bytes.all()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let bytes = self.all().len() as u64;
        let mut held = lock(&self.account.held);
        held.all -= bytes;
        if let Some(user) = self.user
            && let Some(of_user) = held.users.get_mut(&user)
        {
            *of_user -= bytes;
            if *of_user == 0 {
                held.users.remove(&user);
            }
        }
        self.account.fell.notify_all();
    }
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { held: Mutex::default(), fell: Condvar::new() }
    }

    /// Copies what a user writes. A user holds at most as much as is left for all: beyond that only the first
    /// bytes are taken, and the program writes the others later. Without a user they are from the kernel's
    /// cache, which holds a hundredth of the memory of such bytes at most: all are taken.
    pub(crate) fn take(self: &Arc<Self>, user: Option<u32>, data: &[u8]) -> Data {
        let taken = match user {
            None => data,
            Some(user) => &data[..self.room(user, data.len())],
        };
        let bytes = taken.len() as u64;
        let mut held = lock(&self.held);
        if let Some(user) = user {
            // Only if users have taken all in small pieces: then it waits.
            let full = |held: &mut Held| held.all > 0 && held.all + bytes > WAITING_MAX;
            let waited = self.fell.wait_while(held, full);
            held = waited.unwrap_or_else(PoisonError::into_inner);
            *held.users.entry(user).or_default() += bytes;
        }
        held.all += bytes;
        drop(held);
        Data {
            bytes: Aligned::of(taken),
            account: Arc::clone(self),
            user,
            end: None,
            is_direct: false,
        }
    }

    /// How many of so many bytes there is room for.
    fn room(&self, user: u32, bytes: usize) -> usize {
        let held = lock(&self.held);
        let of_user = held.users.get(&user).copied().unwrap_or(0);
        let left = WAITING_MAX.saturating_sub(held.all);
        if of_user + bytes as u64 <= left { bytes } else { bytes.min(Aligned::ALIGNMENT) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;
    use crate::file_system::OpenId;

    /// The end was that of the moment in which the write came: what the source got while it waited for its turn
    /// was lost.
    #[test]
    fn an_append_goes_to_the_end_that_there_is_when_it_begins() {
        let mut source = tempfile::tempfile().unwrap();
        let file = OwnedFd::from(source.try_clone().unwrap());
        source.write_all(b"abc").unwrap();
        let mut data = Arc::new(Waiting::new()).take(Some(1), b"12345");
        data.append();
        source.write_all(b"def").unwrap();
        assert_eq!(data.write(&file, 3, 0..2), Ok(2));
        assert_eq!(data.write(&file, 5, 2..5), Ok(3));
        // Once more, since its turn has begun anew.
        assert_eq!(data.write(&file, 3, 0..2), Ok(2));
        let first =
            Place { file: OpenId(0), offset: 0, at_end: false, direct: false, user: Some(1) };
        assert_eq!(write_straight(&file, Place { at_end: true, ..first }, b"67"), Ok(2));
        assert_eq!(write_straight(&file, first, b"A"), Ok(1));
        let mut found = String::new();
        source.rewind().unwrap();
        source.read_to_string(&mut found).unwrap();
        assert_eq!(found, "Abcdef1234567");
    }

    /// The kernel forgot the bytes of its cache that the source had no space for, and told nobody.
    #[test]
    fn a_write_of_the_kernels_cache_that_is_cut_short_fails() {
        use rustix::fs::{MemfdFlags, SealFlags};
        let file = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        rustix::fs::fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let account = Arc::new(Waiting::new());
        let write = |user| account.take(user, &[7; 8192]).write(&file, 0, 0..8192);
        assert_eq!(write(Some(1)), Ok(4096), "a program writes the others later");
        assert_eq!(write(None), Err(Errno::PERM));
        let to = Place { file: OpenId(0), offset: 0, at_end: false, direct: false, user: None };
        assert_eq!(write_straight(&file, to, &[7; 8192]), Err(Errno::PERM));
        let of_program = Place { user: Some(1), ..to };
        assert_eq!(write_straight(&file, of_program, &[7; 8192]), Ok(4096));
    }

    /// One user's writes that waited for a small limit kept everybody's calls waiting.
    #[test]
    fn a_user_whose_writes_wait_leaves_room_for_others() {
        let account = Arc::new(Waiting::new());
        let data = vec![7; TRANSFER_MAX];
        let take = |user| account.take(Some(user), &data);
        let many: Vec<Data> = (0..1000).map(|_| take(1)).collect();
        let whole = many.iter().filter(|it| it.all().len() == TRANSFER_MAX).count();
        assert_eq!(whole as u64, WAITING_MAX / 2 / TRANSFER_MAX as u64);
        assert!(many[whole..].iter().all(|it| it.all() == &data[..4096]));
        assert_eq!(take(2).all().len(), TRANSFER_MAX, "another user");
        assert_eq!(account.take(Some(1), &data[..100]).all().len(), 100);
        assert_eq!(account.take(None, &data).all().len(), TRANSFER_MAX, "the kernel's cache");
        drop(many);
        assert_eq!(take(1).all().len(), TRANSFER_MAX);
        let held = lock(&account.held);
        assert!(held.all == 0 && held.users.is_empty());
    }
}
