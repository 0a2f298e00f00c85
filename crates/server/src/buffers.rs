//! Aligned, bounded, reused memory for data on its way between sockets and devices.
//!
//! A [`Buffer`] is a handle on memory that a device or a socket may be reading or writing at this
//! moment, so its bytes are never borrowed: they are copied in and out. Small buffers come from one
//! arena that is registered with the ring; the others from size classes. Memory returns to its pool
//! when the last handle on it is dropped, wherever that is: in the shard or in the ring.
#![allow(unsafe_code, reason = "direct I/O needs aligned memory that the kernel writes into")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use slab::Slab;

/// Alignment of every buffer: enough for direct I/O on any device.
pub const ALIGN: usize = 4096;
/// Buffers in the registered arena, each of [`ALIGN`] bytes.
const ARENA_SLOTS: usize = 1024;
/// Bytes of free memory that a pool keeps for reuse, all size classes together.
const KEPT_BYTES: usize = 8 << 20;
/// Memory from this length on is mapped: its pages exist once touched, and the system has them back
/// once it is freed.
const MAPPED: usize = 64 << 10;
/// Bytes that a pool holds whatever its clients do.
pub const POOL_BYTES: usize = ARENA_SLOTS * ALIGN + KEPT_BYTES;
/// The same of a [small](Pool::small) one.
pub const SMALL_POOL_BYTES: usize = ALIGN + KEPT_BYTES;

/// Memory from the system, aligned and zeroed.
struct Memory {
    start: NonNull<u8>,
    len: usize,
}

impl Memory {
    /// `None` if the system has none.
    fn new(len: usize) -> Option<Self> {
        let layout = Self::layout(len);
        let start = if len < MAPPED {
            // SAFETY: the layout's size is not zero.
            unsafe { alloc_zeroed(layout) }
        } else {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new mapping at an address of the system's choice touches no other memory.
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) }.ok()?.cast()
        };
        NonNull::new(start).map(|start| Self { start, len })
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0, "a buffer has bytes");
        Layout::from_size_align(len, ALIGN).expect("requests are far below the address space")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.len < MAPPED {
            // SAFETY: `start` came from `alloc_zeroed` with this very layout.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
        } else {
            // SAFETY: `start` came from a mapping of this very length, and no handle on it is left.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok(), "a mapping of this length is there");
        }
    }
}

/// Where a buffer's memory comes from, and goes when it is dropped.
enum Origin {
    Own(Memory),
    /// A slot of the pool's arena.
    Arena(NonNull<u8>),
    /// Memory of another thread, which is told when it is not used any more, and so many bytes of its pool.
    Loan(Lent, usize),
}

/// A pool's free memory, which its buffers know as well.
struct Home {
    arena: Memory,
    slots: RefCell<Vec<NonNull<u8>>>,
    kept: RefCell<Kept>,
    /// Loans that nobody here uses any more.
    ended: RefCell<Vec<(Lent, usize)>>,
}

#[derive(Default)]
struct Kept {
    /// Free memory by size class.
    free: Vec<Vec<Memory>>,
    bytes: usize,
}

impl Kept {
    fn take(&mut self, class: usize) -> Option<Memory> {
        let memory = self.free.get_mut(class)?.pop()?;
        self.bytes -= memory.len;
        Some(memory)
    }

    fn give(&mut self, memory: Memory) {
        if self.bytes + memory.len > KEPT_BYTES {
            return;
        }
        let (class, _) = class_of(memory.len);
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.bytes += memory.len;
        self.free[class].push(memory);
    }
}

struct Inner {
    /// `None` once it is dropped.
    origin: Option<Origin>,
    start: NonNull<u8>,
    len: usize,
    /// Where its memory goes; that of a buffer of its own goes back to the system.
    home: Option<Rc<Home>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        match (self.origin.take(), &self.home) {
            (Some(Origin::Own(memory)), Some(home)) => home.kept.borrow_mut().give(memory),
            (Some(Origin::Arena(slot)), Some(home)) => home.slots.borrow_mut().push(slot),
            (Some(Origin::Loan(lent, held)), Some(home)) => {
                home.ended.borrow_mut().push((lent, held));
            }
            _ => {}
        }
    }
}

/// A handle on a buffer; clones name the same bytes.
#[derive(Clone)]
pub struct Buffer(Rc<Inner>);

impl Buffer {
    /// A buffer of its own, in no pool: of at least 64 KiB, all zeroes, of which each page
    /// exists once it was touched. `None` if the system has no memory.
    ///
    /// # Panics
    /// If it would be shorter.
    #[must_use]
    pub fn mapped(len: usize) -> Option<Self> {
        assert!(len >= MAPPED, "shorter memory is not mapped");
        let memory = Memory::new(len)?;
        let (start, origin) = (memory.start, Some(Origin::Own(memory)));
        Some(Self(Rc::new(Inner { origin, start, len, home: None })))
    }

    /// Gives whole pages of a [mapped](Self::mapped) buffer back to the system: they read as zeroes
    /// from now on.
    ///
    /// # Panics
    /// If the buffer is in a pool, or the range is not of whole pages within it.
    pub fn release(&self, range: &Range<usize>) {
        let whole = range.start.is_multiple_of(ALIGN) && range.end.is_multiple_of(ALIGN);
        assert!(self.0.home.is_none() && whole, "{range:?} can't be given back");
        let start = self.pointer(range).cast();
        // SAFETY: the range is within a private mapping of this buffer's own, as checked. Pages that
        // are given back read as zeroes; nobody has a reference into them.
        let released = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "these pages are mapped");
    }

    /// Whether both are handles on the same bytes.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
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
        matches!(self.0.origin, Some(Origin::Arena(_)))
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
    home: Rc<Home>,
}

impl Pool {
    /// A pool with its arena.
    ///
    /// # Panics
    /// If the system has no memory for the arena.
    #[must_use]
    pub fn new() -> Self {
        Self::with_slots(ARENA_SLOTS)
    }

    /// A pool whose arena is hardly any: for a thread that reads and writes no files.
    ///
    /// # Panics
    /// If the system has no memory for it.
    #[must_use]
    pub fn small() -> Self {
        Self::with_slots(1)
    }

    fn with_slots(count: usize) -> Self {
        let arena = Memory::new(count * ALIGN).expect("4 MiB of memory can be had");
        let slot = |index: usize| {
            // SAFETY: slot `index` is within the arena.
            unsafe { arena.start.add(index * ALIGN) }
        };
        let slots = RefCell::new((0..count).rev().map(slot).collect());
        let (kept, ended) = (RefCell::default(), RefCell::default());
        Self { home: Rc::new(Home { arena, slots, kept, ended }) }
    }

    /// The arena, to be registered with a ring.
    #[must_use]
    pub fn arena(&self) -> libc::iovec {
        let Memory { start, len } = &self.home.arena;
        libc::iovec { iov_base: start.as_ptr().cast(), iov_len: *len }
    }

    /// A buffer of at least `len` bytes; its content is whatever was left there.
    ///
    /// # Panics
    /// If the system has no memory: for lengths that a client chooses [`try_take`](Self::try_take)
    /// is right.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Buffer {
        self.try_take(len).expect("a little memory can be had")
    }

    /// As [`take`](Self::take); `None` if the system has no memory.
    #[must_use]
    pub fn try_take(&mut self, len: usize) -> Option<Buffer> {
        let slot = if len <= ALIGN { self.home.slots.borrow_mut().pop() } else { None };
        let (start, len, origin) = if let Some(start) = slot {
            (start, ALIGN, Origin::Arena(start))
        } else {
            let (class, len) = class_of(len);
            let kept = self.home.kept.borrow_mut().take(class);
            let memory = kept.or_else(|| Memory::new(len))?;
            (memory.start, len, Origin::Own(memory))
        };
        let (origin, home) = (Some(origin), Some(Rc::clone(&self.home)));
        Some(Buffer(Rc::new(Inner { origin, start, len, home })))
    }

    /// Memory of another thread as a buffer of this one. Its lender hears of the end through
    /// [`take_ended`](Self::take_ended).
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "a loan is borrowed once")]
    pub fn borrow(&self, loan: Loan) -> Buffer {
        let Loan { lent, start, len, held } = loan;
        let (origin, home) = (Some(Origin::Loan(lent, held)), Some(Rc::clone(&self.home)));
        Buffer(Rc::new(Inner { origin, start, len, home }))
    }

    /// A loan that nobody here uses any more, to be told to its lender, and the bytes of the
    /// lender's pool that it holds.
    #[must_use]
    pub fn take_ended(&self) -> Option<(Lent, usize)> {
        self.home.ended.borrow_mut().pop()
    }

    /// Takes a buffer back; dropping it does the same.
    pub fn give_back(&mut self, buffer: Buffer) {
        drop(buffer);
    }

    /// How many bytes a buffer of at least `len` bytes takes.
    #[must_use]
    pub fn bytes_of(len: usize) -> usize {
        class_of(len).1
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

/// A loan as lender and borrower name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lent {
    /// The lender, by its place among those that the borrower has.
    pub lender: u32,
    /// The loan's key at its lender.
    pub key: u32,
}

/// Memory on its way to another thread, which may use it until it says that it does not any more.
pub struct Loan {
    lent: Lent,
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the lender's pool; none of a store.
    held: usize,
}

// SAFETY: the memory stays valid wherever the loan is: its lender keeps a handle until it is told that
// the loan has ended, or for ever. Bytes are copied through raw pointers, and which side may do that when
// is settled by who lends: see `Lender`.
unsafe impl Send for Loan {}

/// The buffers of a thread that other threads use.
///
/// A lender does not touch a buffer that it has lent, so that only one thread copies bytes in it or out of it.
/// Memory of a store is the exception: its owner goes on to write there. The borrower has only the system
/// read it, for a reply, as the system reads a reply of the owner's own.
#[derive(Default)]
pub struct Lender {
    lent: Slab<Buffer>,
    /// This lender, by its place among those that a borrower has.
    place: u32,
}

impl Lender {
    /// The lender in that place.
    #[must_use]
    pub fn new(place: u32) -> Self {
        Self { lent: Slab::new(), place }
    }

    /// Lends a buffer.
    ///
    /// # Panics
    /// If more than 2^32 are lent.
    pub fn lend(&mut self, buffer: Buffer) -> Loan {
        let (start, len) = (buffer.0.start, buffer.0.len);
        let held = if buffer.0.home.is_some() { len } else { 0 };
        let key = u32::try_from(self.lent.insert(buffer)).expect("loans are bounded by requests");
        Loan { lent: Lent { lender: self.place, key }, start, len, held }
    }

    /// The borrower does not use it any more.
    pub fn take_back(&mut self, lent: Lent) {
        drop(self.lent.try_remove(lent.key as usize));
    }

    /// How many are lent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lent.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }
}

impl Drop for Lender {
    /// Other threads, or the system for them, may still use what is lent: it is leaked.
    fn drop(&mut self) {
        std::mem::take(&mut self.lent).into_iter().for_each(|(_, lent)| std::mem::forget(lent));
    }
}

/// The size class of a length, and the bytes of its buffers: steps of [`ALIGN`] up to four, then four
/// steps to each doubling, so that at most a fifth of a buffer is unused.
fn class_of(len: usize) -> (usize, usize) {
    let slots = len.div_ceil(ALIGN).max(1);
    let step = if slots <= 4 { 0 } else { (slots - 1).ilog2() - 2 };
    let steps = slots.div_ceil(1 << step);
    (4 * step as usize + steps, (steps << step) * ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_put_in_come_out() {
        let mut pool = Pool::new();
        for len in [1, 4096, 4097, 1 << 20] {
            let buffer = pool.take(len);
            assert!(buffer.len() >= len);
            assert_eq!(buffer.pointer(&(0..0)).addr() % ALIGN, 0);
            buffer.put(len - 1, b"x");
            let mut byte = [0];
            buffer.get(len - 1, &mut byte);
            assert_eq!(&byte, b"x");
        }
    }

    /// A client that died in the middle of a write left its slot with the ring, and the slot was lost
    /// when the ring let go of it: only the first of two handles was ever looked at.
    #[test]
    fn buffers_are_reused_once_their_last_handle_is_dropped_and_not_before() {
        let mut pool = Pool::new();
        for len in [4096, 20_000, 100_000] {
            let first = pool.take(len);
            let (address, other) = (first.pointer(&(0..1)), first.clone());
            drop(first);
            assert_ne!(pool.take(len).pointer(&(0..1)), address);
            drop(other);
            assert_eq!(pool.take(len).pointer(&(0..1)), address);
        }
    }

    #[test]
    fn classes_waste_a_fifth_at_most_and_hold_what_is_asked() {
        let mut last = (0, 0);
        for len in (1..300).map(|slots| slots * ALIGN).chain([2 << 20, (2 << 20) + 1, 32 << 20]) {
            let (class, bytes) = class_of(len);
            assert!(bytes >= len && (bytes - len) * 5 <= bytes, "{len}: {bytes}");
            assert!((class, bytes) >= last && class_of(bytes) == (class, bytes), "{len}");
            last = (class, bytes);
        }
    }

    #[test]
    fn buffers_that_are_kept_are_bounded() {
        let mut pool = Pool::new();
        let taken: Vec<_> = (0..40).map(|at| pool.take((1 + at % 5) << 18)).collect();
        drop(taken);
        let kept = pool.home.kept.borrow();
        let bytes = kept.free.iter().flatten().map(|memory| memory.len).sum::<usize>();
        assert_eq!(bytes, kept.bytes);
        assert!(bytes <= KEPT_BYTES && bytes > KEPT_BYTES / 2, "{bytes}");
    }

    #[test]
    fn the_arena_runs_out_and_small_buffers_still_come() {
        let mut pool = Pool::new();
        let taken: Vec<_> = (0..ARENA_SLOTS + 1).map(|_| pool.take(1)).collect();
        assert_eq!(taken.iter().filter(|buffer| buffer.registered()).count(), ARENA_SLOTS);
    }

    #[test]
    fn memory_that_is_lent_comes_back_once_its_borrower_has_dropped_it_and_not_before() {
        let (mut pool, mut lender) = (Pool::new(), Lender::new(3));
        let buffer = pool.take(100_000);
        let address = buffer.pointer(&(0..0)).addr();
        buffer.put(0, b"x");
        let loan = lender.lend(buffer);
        let other = std::thread::spawn(move || {
            let there = Pool::small();
            let buffer = there.borrow(loan);
            let (mut byte, same) = ([0], buffer.clone());
            same.get(0, &mut byte);
            buffer.put(1, b"y");
            drop(buffer);
            assert_eq!(there.take_ended(), None, "a handle is left");
            drop(same);
            (byte, there.take_ended(), there.take_ended())
        });
        let (byte, ended, none) = other.join().unwrap();
        assert_eq!((&byte, none), (b"x", None));
        assert_ne!(pool.take(100_000).pointer(&(0..0)).addr(), address, "it is lent");
        let kept = pool.home.kept.borrow().bytes;
        lender.take_back(ended.unwrap().0);
        assert!(lender.is_empty() && pool.home.kept.borrow().bytes > kept);
    }

    #[test]
    fn pages_that_are_given_back_read_as_zeroes() {
        let buffer = Buffer::mapped(MAPPED).unwrap();
        (0..2).for_each(|page| buffer.put(page * ALIGN, b"x"));
        buffer.release(&(0..ALIGN));
        let byte = |at| {
            let mut byte = [1];
            buffer.get(at, &mut byte);
            byte[0]
        };
        assert_eq!([byte(0), byte(ALIGN)], [0, b'x']);
        let other = Buffer::mapped(MAPPED).unwrap();
        assert!(buffer.is_same(&buffer.clone()) && !buffer.is_same(&other));
    }

    #[test]
    #[should_panic(expected = "can't be given back")]
    fn memory_of_a_pool_is_not_given_back() {
        Pool::new().take(100_000).release(&(0..ALIGN));
    }

    #[test]
    #[should_panic(expected = "of 4096 bytes")]
    fn out_of_range_is_refused() {
        Pool::new().take(1).put(4090, b"too long");
    }
}
