//! Aligned, bounded, reused memory for data on its way between sockets and devices.
//!
//! A [`Buffer`] is a handle on memory that a device or a socket may be reading or writing at this
//! moment, so its bytes are never borrowed: they are copied in and out. Data for files come from an
//! arena of huge pages that is registered with the ring, as long as it has room; all others are memory
//! by size class. Memory returns to its pool when the last handle on it is dropped, wherever that is:
//! in the shard or in the ring.
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
/// Bytes of a huge page (x86-64; `madvise(2)` says nothing where they are longer).
const PAGE: usize = 2 << 20;
/// Huge pages in the arena: 64 requests of 128 KiB, or eight of 1 MiB. With 4 MiB that are kept a device has as
/// much memory as one without files.
const PAGES: usize = 4;
/// Bytes of free memory that a pool keeps for reuse at most, all size classes together.
const KEPT_BYTES: usize = 8 << 20;
/// Memory from this length on is mapped: its pages exist once touched, and the system has them back
/// once it is freed.
const MAPPED: usize = 64 << 10;
/// Bytes that the pool of a device holds whatever its clients do: its arena, and what it keeps.
pub const POOL_BYTES: usize = 12 << 20;
/// The same of a pool with no arena, of a thread that reads and writes no files.
pub const SMALL_POOL_BYTES: usize = KEPT_BYTES;

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
    /// The pool's arena.
    Arena,
    /// Memory of another thread, which is told when it is not used any more, and so many bytes of its pool.
    Loan(Lent, usize),
}

/// Huge pages, where the system has them, each cut into buffers of one size class while any of these is
/// in use.
struct Arena {
    start: NonNull<u8>,
    pages: [Page; PAGES],
    _mapping: Memory,
}

#[derive(Default)]
struct Page {
    class: usize,
    /// Where its free buffers are, in bytes from the arena's start.
    free: Vec<usize>,
    used: usize,
}

impl Arena {
    const BYTES: usize = PAGES * PAGE;

    /// `None` if the system has no memory.
    fn new() -> Option<Self> {
        let mapping = Memory::new(Self::BYTES + PAGE)?;
        let spare = mapping.start.align_offset(PAGE);
        // SAFETY: less than a page is left out of the one page more that was mapped.
        let start = unsafe { mapping.start.add(spare) };
        // SAFETY: the pages are within the mapping; advice changes no byte.
        let huge = unsafe { madvise(start.as_ptr().cast(), Self::BYTES, Advice::LinuxHugepage) };
        if let Err(error) = huge {
            tracing::debug!(%error, "the system has no huge pages");
        }
        Some(Self { start, pages: Default::default(), _mapping: mapping })
    }

    /// A buffer of that class and length, from a page of the class or from one that nobody uses.
    fn take(&mut self, class: usize, len: usize) -> Option<NonNull<u8>> {
        let of_class = |page: &Page| page.class == class && !page.free.is_empty();
        let unused = |page: &Page| page.used == 0 && len <= PAGE;
        let at = self.pages.iter().position(of_class);
        let at = at.or_else(|| self.pages.iter().position(unused))?;
        let page = &mut self.pages[at];
        if page.class != class {
            page.class = class;
            page.free.clear();
            page.free.extend((0..PAGE / len).rev().map(|index| at * PAGE + index * len));
        }
        page.used += 1;
        let offset =
            page.free.pop().expect("a page holds a buffer of any class that is cut from it");
        // SAFETY: the buffer is within the page, and the page within the arena.
        Some(unsafe { self.start.add(offset) })
    }

    fn give(&mut self, start: NonNull<u8>) {
        let offset = start.addr().get() - self.start.addr().get();
        let page = &mut self.pages[offset / PAGE];
        page.used -= 1;
        page.free.push(offset);
    }
}

/// A pool's free memory, which its buffers know as well.
struct Home {
    arena: Option<RefCell<Arena>>,
    kept: RefCell<Kept>,
    /// Loans that nobody here uses any more.
    ended: RefCell<Vec<(Lent, usize)>>,
}

struct Kept {
    /// Free memory by size class.
    free: Vec<Vec<Memory>>,
    bytes: usize,
    most: usize,
}

impl Kept {
    fn take(&mut self, class: usize) -> Option<Memory> {
        let memory = self.free.get_mut(class)?.pop()?;
        self.bytes -= memory.len;
        Some(memory)
    }

    fn give(&mut self, memory: Memory) {
        if self.bytes + memory.len > self.most {
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
            (Some(Origin::Arena), Some(home)) => {
                let arena = home.arena.as_ref().expect("this buffer came from it");
                arena.borrow_mut().give(self.start);
            }
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
    /// A pool with no arena: for a thread that reads and writes no files.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    /// A pool with an arena, if the system has the memory.
    #[must_use]
    pub fn for_files() -> Self {
        Self::with(Arena::new())
    }

    fn with(arena: Option<Arena>) -> Self {
        let most = if arena.is_some() { POOL_BYTES - Arena::BYTES } else { KEPT_BYTES };
        let kept = RefCell::new(Kept { free: Vec::new(), bytes: 0, most });
        let (arena, ended) = (arena.map(RefCell::new), RefCell::default());
        Self { home: Rc::new(Home { arena, kept, ended }) }
    }

    /// The arena, to be registered with a ring.
    #[must_use]
    pub fn arena(&self) -> Option<libc::iovec> {
        let start = self.home.arena.as_ref()?.borrow().start;
        Some(libc::iovec { iov_base: start.as_ptr().cast(), iov_len: Arena::BYTES })
    }

    /// A buffer of at least `len` bytes; its content is whatever was left there.
    ///
    /// # Panics
    /// If the system has no memory: for data of a client [`take_for_data`](Self::take_for_data) is
    /// right.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Buffer {
        self.take_own(len).expect("a little memory can be had")
    }

    /// A buffer of at least `len` bytes for data of a client, from the arena as long as that has room.
    /// `None` if the system has no memory.
    #[must_use]
    pub fn take_for_data(&mut self, len: usize) -> Option<Buffer> {
        let Some(arena) = &self.home.arena else { return self.take_own(len) };
        let (class, size) = class_of(len);
        let start = arena.borrow_mut().take(class, size);
        match start {
            Some(start) => Some(self.buffer(Origin::Arena, start, size)),
            None => self.take_own(len),
        }
    }

    fn take_own(&mut self, len: usize) -> Option<Buffer> {
        let (class, size) = class_of(len);
        let kept = self.home.kept.borrow_mut().take(class);
        let memory = kept.or_else(|| Memory::new(size))?;
        let start = memory.start;
        Some(self.buffer(Origin::Own(memory), start, size))
    }

    fn buffer(&self, origin: Origin, start: NonNull<u8>, len: usize) -> Buffer {
        let (origin, home) = (Some(origin), Some(Rc::clone(&self.home)));
        Buffer(Rc::new(Inner { origin, start, len, home }))
    }

    /// Memory of another thread as a buffer of this one. Its lender hears of the end through
    /// [`take_ended`](Self::take_ended).
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "a loan is borrowed once")]
    pub fn borrow(&self, loan: Loan) -> Buffer {
        let Loan { lent, start, len, held } = loan;
        self.buffer(Origin::Loan(lent, held), start, len)
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
        for (mut pool, len) in [4096, 20_000, 100_000, 1 << 20].map(|len| (Pool::for_files(), len))
        {
            for take in [Pool::take, |pool: &mut Pool, len| pool.take_for_data(len).unwrap()] {
                let first = take(&mut pool, len);
                let (address, other) = (first.pointer(&(0..1)), first.clone());
                drop(first);
                assert_ne!(take(&mut pool, len).pointer(&(0..1)), address);
                drop(other);
                assert_eq!(take(&mut pool, len).pointer(&(0..1)), address);
            }
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

    /// The arena's pages go to whatever class asks, and back; what does not fit is other memory.
    #[test]
    fn every_class_has_the_whole_arena_while_no_other_uses_it_and_no_buffer_overlaps_another() {
        let mut pool = Pool::for_files();
        let arena = pool.arena().unwrap();
        let inside = |buffer: &Buffer| {
            let at = buffer.pointer(&(0..0)).addr().wrapping_sub(arena.iov_base.addr());
            (at < Arena::BYTES).then(|| at..at + buffer.len())
        };
        for len in [1, 4096, 5000, 128 << 10, 300 << 10, 1 << 20, PAGE] {
            let size = Pool::bytes_of(len);
            let fit = PAGES * (PAGE / size);
            let taken: Vec<_> = (0..=fit).map(|_| pool.take_for_data(len).unwrap()).collect();
            let mut ranges: Vec<_> = taken.iter().filter_map(inside).collect();
            ranges.sort_by_key(|range| range.start);
            assert_eq!(ranges.len(), fit, "{len}");
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{len}");
            let own = pool.take(len);
            assert!(ranges.last().unwrap().end <= Arena::BYTES && inside(&own).is_none());
        }
        assert!(inside(&pool.take_for_data(PAGE + 1).unwrap()).is_none());
        let mixed: Vec<_> =
            (1..=PAGES + 1).map(|n| pool.take_for_data(n * ALIGN).unwrap()).collect();
        assert_eq!(
            mixed.iter().filter_map(inside).count(),
            PAGES,
            "a page has one class at a time"
        );
        assert_eq!(Pool::new().arena().map(|arena| arena.iov_len), None);
    }

    #[test]
    fn memory_that_is_lent_comes_back_once_its_borrower_has_dropped_it_and_not_before() {
        let (mut pool, mut lender) = (Pool::new(), Lender::new(3));
        let buffer = pool.take(100_000);
        let address = buffer.pointer(&(0..0)).addr();
        buffer.put(0, b"x");
        let loan = lender.lend(buffer);
        let other = std::thread::spawn(move || {
            let there = Pool::new();
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
