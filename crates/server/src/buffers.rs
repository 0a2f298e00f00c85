//! Aligned, bounded, reused memory for data on its way between sockets and devices.
//!
//! A [`Buffer`] is a handle on memory that a device or a socket may be reading or writing at this
//! moment, so its bytes are never borrowed: they are copied in and out. Small buffers come from one
//! arena that is registered with the ring; the others from size classes that keep a few for reuse.
#![allow(unsafe_code, reason = "direct I/O needs aligned memory that the kernel writes into")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

/// Alignment of every buffer: enough for direct I/O on any device.
pub const ALIGN: usize = 4096;
/// Buffers in the registered arena, each of [`ALIGN`] bytes.
const ARENA_SLOTS: usize = 1024;
/// Bytes that the free list of one size class may keep.
const KEPT_BYTES: usize = 4 << 20;

/// Memory from the allocator, aligned and zeroed.
struct Memory {
    start: NonNull<u8>,
    len: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, len }
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0, "a buffer has bytes");
        Layout::from_size_align(len, ALIGN).expect("requests are far below the address space")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this very layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

/// Where a buffer's memory comes from.
enum Origin {
    Own(Memory),
    /// A slot of the arena, which it keeps alive.
    Arena {
        _arena: Rc<Memory>,
    },
}

struct Inner {
    origin: Origin,
    start: NonNull<u8>,
    len: usize,
}

/// A handle on a buffer; clones name the same bytes.
#[derive(Clone)]
pub struct Buffer(Rc<Inner>);

impl Buffer {
    fn own(len: usize) -> Self {
        let memory = Memory::new(len);
        let start = memory.start;
        Self(Rc::new(Inner { origin: Origin::Own(memory), start, len }))
    }

    /// Bytes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it holds none; it always holds some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Whether its memory is in the registered arena.
    #[must_use]
    pub fn registered(&self) -> bool {
        matches!(self.0.origin, Origin::Arena { .. })
    }

    /// Its memory from `at` on, for the kernel.
    ///
    /// # Panics
    /// If `range` is not within the buffer.
    #[must_use]
    pub fn pointer(&self, range: &Range<usize>) -> *mut u8 {
        self.check(range);
        // SAFETY: the range is within the allocation, as just checked.
        unsafe { self.0.start.as_ptr().add(range.start) }
    }

    /// Copies `bytes` in at `at`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        let to = self.pointer(&(at..at + bytes.len()));
        // SAFETY: `to` is valid for that many bytes, and `bytes` can't overlap it: nobody ever
        // gets a reference into a buffer.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// Copies bytes out from `at`.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn get(&self, at: usize, bytes: &mut [u8]) {
        let from = self.pointer(&(at..at + bytes.len()));
        // SAFETY: as in `put`; all of the memory is initialised, it was allocated zeroed.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Copies `range` of another buffer in at `at`.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn put_from(&self, at: usize, other: &Self, range: &Range<usize>) {
        let from = other.pointer(range);
        let to = self.pointer(&(at..at + range.len()));
        // SAFETY: both are valid for the length, as checked; `copy` allows an overlap.
        unsafe { to.copy_from(from, range.len()) }
    }

    /// Writes zeroes over `range`.
    ///
    /// # Panics
    /// If it is not within the buffer.
    pub fn clear(&self, range: &Range<usize>) {
        let to = self.pointer(range);
        // SAFETY: valid for the length, as checked.
        unsafe { to.write_bytes(0, range.len()) }
    }

    fn check(&self, range: &Range<usize>) {
        let len = self.0.len;
        assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} bytes");
    }
}

/// Where buffers come from and go to. One a shard.
pub struct Pool {
    arena: Rc<Memory>,
    arena_free: Vec<Buffer>,
    /// Free buffers by size class: `ALIGN << index` bytes.
    free: Vec<Vec<Buffer>>,
}

impl Pool {
    /// A pool with its arena.
    #[must_use]
    pub fn new() -> Self {
        let arena = Rc::new(Memory::new(ARENA_SLOTS * ALIGN));
        let slot = |index: usize| {
            // SAFETY: slot `index` is within the arena.
            let start = unsafe { arena.start.add(index * ALIGN) };
            let origin = Origin::Arena { _arena: Rc::clone(&arena) };
            Buffer(Rc::new(Inner { origin, start, len: ALIGN }))
        };
        let arena_free = (0..ARENA_SLOTS).rev().map(slot).collect();
        Self { arena, arena_free, free: Vec::new() }
    }

    /// The arena, to be registered with a ring.
    #[must_use]
    pub fn arena(&self) -> libc::iovec {
        libc::iovec { iov_base: self.arena.start.as_ptr().cast(), iov_len: self.arena.len }
    }

    /// A buffer of at least `len` bytes; its content is whatever was left there.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Buffer {
        if let Some(buffer) = (len <= ALIGN).then(|| self.arena_free.pop()).flatten() {
            return buffer;
        }
        let class = class_of(len);
        let kept = self.free.get_mut(class).and_then(Vec::pop);
        kept.unwrap_or_else(|| Buffer::own(ALIGN << class))
    }

    /// Takes a buffer back for reuse, unless someone else still has it.
    pub fn give_back(&mut self, buffer: Buffer) {
        if Rc::strong_count(&buffer.0) > 1 {
            return;
        }
        match &buffer.0.origin {
            Origin::Arena { .. } => self.arena_free.push(buffer),
            Origin::Own(memory) => {
                let class = class_of(memory.len);
                if self.free.len() <= class {
                    self.free.resize_with(class + 1, Vec::new);
                }
                if (self.free[class].len() + 1) * memory.len <= KEPT_BYTES {
                    self.free[class].push(buffer);
                }
            }
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

fn class_of(len: usize) -> usize {
    let slots = len.div_ceil(ALIGN).max(1).next_power_of_two();
    slots.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let mut pool = Pool::new();
        for len in [1, 4096, 4097, 1 << 20] {
            let buffer = pool.take(len);
            assert!(buffer.len() >= len);
            assert_eq!(buffer.pointer(&(0..0)).addr() % ALIGN, 0);
            buffer.put(len - 1, b"x");
            let mut byte = [0];
            buffer.get(len - 1, &mut byte);
            assert_eq!(&byte, b"x");
            pool.give_back(buffer);
        }
    }

    #[test]
    fn buffers_are_reused_but_not_while_someone_has_them() {
        let mut pool = Pool::new();
        let first = pool.take(100_000);
        let (address, other) = (first.pointer(&(0..1)), first.clone());
        pool.give_back(first);
        assert_ne!(pool.take(100_000).pointer(&(0..1)), address);
        pool.give_back(other);
        assert_eq!(pool.take(100_000).pointer(&(0..1)), address);
    }

    #[test]
    fn the_arena_runs_out_and_small_buffers_still_come() {
        let mut pool = Pool::new();
        let taken: Vec<_> = (0..ARENA_SLOTS + 1).map(|_| pool.take(1)).collect();
        assert_eq!(taken.iter().filter(|buffer| buffer.registered()).count(), ARENA_SLOTS);
    }

    #[test]
    #[should_panic(expected = "of 4096 bytes")]
    fn out_of_range_is_refused() {
        Pool::new().take(1).put(4090, b"too long");
    }
}
