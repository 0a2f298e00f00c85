//! Moving bytes between the source's files and memory, and how much memory that may take.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::io::{self, Errno, IoSliceMut, ReadWriteFlags};

use crate::file_system::{Answer, ReadReply};
use crate::nodes::lock;

/// The longest read or write that the kernel sends.
pub(crate) const TRANSFER_MAX: usize = 1 << 20;
/// The most bytes of writes that wait for their turn; the thread that takes one more from the
/// kernel waits. The kernel itself has 4096 asynchronous ones outstanding at most.
const WAITING_MAX: u64 = 512 << 20;
/// Buffers that are kept for later reads.
const KEPT_MAX: usize = 64;

thread_local! {
    /// Room for transfers that go straight through.
    static BUFFER: RefCell<Option<Aligned>> = const { RefCell::new(None) };
}

/// Reads until the buffer is full or the file ends; answers how many bytes there were.
pub(crate) fn read_at(file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Answer<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match io::pread(file, &mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            // The program gets what there was; the error comes with its next read.
            Err(_) if done > 0 => break,
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

/// Writes until all is written; answers how many bytes are, if any.
pub(crate) fn write_at(file: &OwnedFd, offset: u64, data: &[u8]) -> Answer<usize> {
    let mut done = 0;
    while done < data.len() {
        match io::pwrite(file, &data[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
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
pub(crate) fn write_straight(file: &OwnedFd, offset: u64, data: &[u8]) -> Answer<usize> {
    match write_at(file, offset, data) {
        // Its memory may lie where the source can't take it from: then it is copied.
        Err(Errno::INVAL) => write_at(file, offset, Aligned::of(data).all()),
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
pub(crate) struct Buffers(Mutex<Vec<Aligned>>);

impl Buffers {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn take(&self) -> Aligned {
        lock(&self.0).pop().unwrap_or_else(|| Aligned::new(TRANSFER_MAX))
    }

    pub(crate) fn give_back(&self, buffer: Aligned) {
        let mut kept = lock(&self.0);
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    }
}

/// An account of the bytes of writes that wait.
pub(crate) struct Waiting {
    bytes: Mutex<u64>,
    fell: Condvar,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { bytes: Mutex::new(0), fell: Condvar::new() }
    }

    /// Takes room for so many bytes, when there is any.
    pub(crate) fn take(&self, bytes: u64) {
        let full = |waiting: &mut u64| *waiting > 0 && *waiting + bytes > WAITING_MAX;
        let waiting = self.fell.wait_while(lock(&self.bytes), full);
        *waiting.unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        *lock(&self.bytes) -= bytes;
        self.fell.notify_all();
    }
}
