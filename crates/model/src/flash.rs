//! A flash drive: channels, dies, a write buffer and garbage collection.
//!
//! - A read of a page: `s = max(t + firmware, die)`; `die = s + tR`; `x = max(die, channel)`;
//!   `channel = x + bytes/rate`; done after the host link. A channel and a direction of the link move
//!   one operation's bytes at a time, in the order in which they are ready.
//! - A write is done when the firmware and the link have had it and the buffer has room. Full pages
//!   leave the buffer for the dies in turn: the channel, then tPROG; their room is back after it.
//! - Mapping is by unit of the map, 4 KiB or more; a write of a part of one reads the rest of it
//!   first, and writes it whole (read-modify-write). A block of every die makes a line, written from
//!   front to back. With few free lines left, every page that the host programs pays its part of
//!   collecting the line with the fewest valid pages: a read and a program for each that is valid,
//!   an erase at the end. These are page steps, so that reads slip in between.
//!
//! Sources: Kim, Lim et al., "NVMeVirt: a versatile software-defined virtual NVMe device", FAST
//! 2023; Hu et al., "Write amplification analysis in flash-based solid state drives", SYSTOR 2009.
//!
//! Does not know: wear, read disturb, SLC caches, power states, reads served from the write buffer. A
//! page that was never written is read as if it lay on a die in order of its number.

mod lane;
mod map;
#[cfg(test)]
mod tests;

use crate::device::{Completion, Device, Op};
use crate::pending::Pending;
use disktime_core::{Duration, Instant, Kind};
use lane::Lane;
use map::Map;
use std::collections::VecDeque;

/// The smallest unit of a map, and what firmware counts writes in.
const MAP_UNIT_MIN: u64 = 4096;

/// Properties in which one flash drive differs from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashSpec {
    /// The capacity that the host sees, in bytes: a multiple of the map's unit.
    pub capacity_bytes: u64,
    /// Flash beyond the capacity, in thousandths of it.
    pub spare_permille: u32,
    /// Channels, each shared by its dies.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Pages and how they are mapped.
    pub page: Page,
    /// Reading a page into the die's register.
    pub read: Duration,
    /// Programming a page.
    pub program: Duration,
    /// Erasing a block.
    pub erase: Duration,
    /// How long reads wait for programs and erases.
    pub suspend: Suspend,
    /// Rate of a channel, bytes per second.
    pub channel_bytes_per_second: u64,
    /// The link to the host.
    pub link: Link,
    /// Time in the firmware.
    pub firmware: Firmware,
    /// Bytes of writes that may be waiting for their programs to end.
    pub write_buffer_bytes: u64,
    /// How many operations it holds.
    pub queue_depth: u32,
    /// Its further work, if there is any.
    pub later: Option<Later>,
}

impl FlashSpec {
    /// Pages of a line: a block of every die.
    #[must_use]
    pub fn pages_per_line(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.dies_per_channel) * u64::from(self.page.per_block)
    }

    /// Whether garbage collection gains on writes wherever they go: a drive of few pages in a line needs more
    /// spare for that.
    #[must_use]
    pub fn can_collect(&self) -> bool {
        map::always_frees(self)
    }
}

/// Pages of flash, and how they are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Bytes that a die reads or programs at once: a multiple of `unit_bytes`.
    pub bytes: u64,
    /// Pages that are erased together.
    pub per_block: u32,
    /// Bytes of a unit of the map, the least that is written: a multiple of 4096.
    pub unit_bytes: u64,
}

/// The link to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Rate of each direction, bytes per second.
    pub bytes_per_second: u64,
    /// Whether both directions move bytes at once.
    pub duplex: Duplex,
}

/// Whether the data of reads and of writes pass each other on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duplex {
    /// One direction at a time, as on SATA: data frames go one way, and the other way only primitives.
    Half,
    /// Each direction by itself, as on PCI Express.
    Full,
}

/// How long a read waits at most for what its die does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspend {
    /// For programs.
    pub program: Wait,
    /// For an erase.
    pub erase: Wait,
}

/// How long a read waits for one kind of work of its die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Until its die has done all that it was given before.
    ForAll,
    /// Until what is under way ends: reads go before what has not begun.
    ForUnderWay,
    /// So long at most, until what is under way is suspended.
    Within(Duration),
}

impl Suspend {
    /// The same for both.
    #[must_use]
    pub const fn within(time: Duration) -> Self {
        Self { program: Wait::Within(time), erase: Wait::Within(time) }
    }

    /// Neither is ever suspended, and reads take their turn.
    pub const NEVER: Self = Self { program: Wait::ForAll, erase: Wait::ForAll };
}

/// A drive that changes: worn, or throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Later {
    /// From this on, on the device's own timeline,
    pub after: Duration,
    /// programming a page takes so long.
    pub program: Duration,
}

/// Time that the firmware takes. It works on any number of operations at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Firmware {
    /// For a read; also for flushes and trims. More than zero.
    pub read: Duration,
    /// For a write. More than zero.
    pub write: Duration,
    /// For each 4 KiB of a write beyond that.
    pub write_each: Duration,
}

/// A flash drive.
#[derive(Debug)]
pub struct Flash {
    spec: FlashSpec,
    map: Map,
    dies: Vec<Die>,
    channels: Vec<Lane>,
    /// To the host and from it; the first alone if one direction is used at a time.
    link: [Lane; 2],
    buffer: Buffer,
    /// Copies that garbage collection still has to make, in thousandths of a page.
    copies_left_permille: u64,
    pending: Pending,
}

/// A direction of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the host.
    Out,
    /// From the host.
    In,
}

/// Until when a die is busy: with reads, with everything, with an erase.
#[derive(Clone, Copy, Debug)]
struct Die {
    read_until: Instant,
    until: Instant,
    /// Until when the latest erase lasts, if nothing delays it.
    erasing_until: Instant,
}

/// The write buffer.
#[derive(Debug)]
struct Buffer {
    /// In the page being filled.
    filling_bytes: u64,
    /// When programs under way end, and the bytes that they free; in order of time.
    programming: VecDeque<(Instant, u64)>,
    programming_bytes: u64,
    /// When the last program ends.
    until: Instant,
    /// When what the page being filled takes over from flash has been read.
    merged_at: Instant,
    /// When the last write that waited for room had it: those behind it have theirs no earlier.
    room_at: Instant,
}

impl Flash {
    /// A drive on which nothing was written. No two differ: the seed of other models has nothing
    /// to decide here.
    ///
    /// # Panics
    /// If the spec contradicts itself: something is empty, sizes that aren't multiples of 4096, or
    /// a write buffer of less than a page, no spare, or [too little](FlashSpec::can_collect).
    #[must_use]
    pub fn new(spec: FlashSpec) -> Self {
        assert!(spec.channels > 0 && spec.dies_per_channel > 0 && spec.queue_depth > 0, "{spec:?}");
        let Page { bytes, unit_bytes, .. } = spec.page;
        assert!(unit_bytes > 0 && unit_bytes.is_multiple_of(MAP_UNIT_MIN), "{spec:?}");
        assert!(bytes > 0 && bytes.is_multiple_of(unit_bytes), "{spec:?}");
        assert!(spec.channel_bytes_per_second > 0 && spec.link.bytes_per_second > 0, "{spec:?}");
        assert!(spec.firmware.read > Duration::ZERO, "{spec:?}");
        assert!(spec.firmware.write > Duration::ZERO, "{spec:?}");
        assert!(spec.write_buffer_bytes >= bytes && spec.spare_permille > 0, "{spec:?}");
        assert!(spec.can_collect(), "{spec:?}");
        let dies = spec.channels as usize * spec.dies_per_channel as usize;
        let zero = Instant::ZERO;
        let idle = Die { read_until: zero, until: zero, erasing_until: zero };
        Self {
            map: Map::new(&spec),
            dies: vec![idle; dies],
            channels: (0..spec.channels).map(|_| Lane::default()).collect(),
            link: Default::default(),
            buffer: Buffer {
                filling_bytes: 0,
                programming: VecDeque::new(),
                programming_bytes: 0,
                until: Instant::ZERO,
                merged_at: Instant::ZERO,
                room_at: Instant::ZERO,
            },
            copies_left_permille: 0,
            pending: Pending::new(spec.capacity_bytes, spec.queue_depth),
            spec,
        }
    }

    /// Pages programmed for the host and for garbage collection together, over those for the host,
    /// in thousandths: write amplification. 1000 before anything was written.
    #[must_use]
    pub fn amplification_permille(&self) -> u64 {
        self.map.amplification_permille()
    }

    fn read(&mut self, now: Instant, op: Op) -> Instant {
        let begin = now + self.spec.firmware.read;
        let mut done = begin;
        let unit_bytes = self.spec.page.unit_bytes;
        let mut unit = op.offset / unit_bytes;
        let end = (op.offset + op.bytes).div_ceil(unit_bytes);
        while unit < end {
            // Neighbours on one page are read at once.
            let page = self.map.page_of(unit);
            let first = unit;
            while unit < end && self.map.page_of(unit) == page {
                unit += 1;
            }
            let from = op.offset.max(first * unit_bytes);
            let bytes = (op.offset + op.bytes).min(unit * unit_bytes) - from;
            let sensed = self.sense(begin, self.map.die_of(page));
            let moved = self.move_on_channel(sensed, self.map.die_of(page), bytes);
            done = done.max(self.move_on_link(moved, bytes, Way::Out));
        }
        done
    }

    /// Reads a page into the register of a die.
    fn sense(&mut self, from: Instant, die: usize) -> Instant {
        let Suspend { program, erase } = self.spec.suspend;
        let one = self.programming(from);
        let Die { read_until, until, erasing_until } = &mut self.dies[die];
        let ready = from.max(*read_until);
        let erasing = from < *erasing_until;
        let free = match if erasing { erase } else { program } {
            Wait::ForAll => *until,
            Wait::ForUnderWay if erasing => *erasing_until,
            // Programs follow one another until the last ends.
            Wait::ForUnderWay => {
                let left = until.since(ready).as_nanos() % one.as_nanos();
                ready + Duration::from_nanos(left)
            }
            Wait::Within(time) => (*until).min(ready + time),
        };
        let sensed = ready.max(free) + self.spec.read;
        // The suspended operation takes up again behind the read.
        *until = if free < *until { *until + self.spec.read } else { sensed };
        if from < *erasing_until && free < *erasing_until {
            *erasing_until = *erasing_until + self.spec.read;
        }
        *read_until = sensed;
        sensed
    }

    fn move_on_channel(&mut self, from: Instant, die: usize, bytes: u64) -> Instant {
        let count = self.channels.len();
        let time = time_of(bytes, self.spec.channel_bytes_per_second);
        self.channels[die % count].take(self.pending.now(), from, time)
    }

    fn move_on_link(&mut self, from: Instant, bytes: u64, way: Way) -> Instant {
        let Link { bytes_per_second, duplex } = self.spec.link;
        let lane = usize::from(duplex == Duplex::Full && way == Way::In);
        self.link[lane].take(self.pending.now(), from, time_of(bytes, bytes_per_second))
    }

    fn write(&mut self, now: Instant, op: Op) -> Instant {
        let Firmware { write, write_each, .. } = self.spec.firmware;
        let unit_bytes = self.spec.page.unit_bytes;
        let end = op.offset + op.bytes;
        let units = op.offset / unit_bytes..end.div_ceil(unit_bytes);
        let each = end.div_ceil(MAP_UNIT_MIN) - op.offset / MAP_UNIT_MIN;
        let each = write_each.as_nanos().saturating_mul(each);
        let ready = now + write + Duration::from_nanos(each);
        let mut done = self.move_on_link(ready, op.bytes, Way::In);
        for unit in units {
            done = self.buffer_room(done);
            if unit * unit_bytes < op.offset || end < (unit + 1) * unit_bytes {
                self.merge(done, unit);
            }
            self.map.write(unit);
            self.buffer.filling_bytes += unit_bytes;
            if self.buffer.filling_bytes == self.spec.page.bytes {
                self.program(done);
            }
        }
        if op.fua { self.flush(done) } else { done }
    }

    /// Reads what a unit holds that is written in part, if it holds anything: the page that it goes to
    /// is programmed behind that.
    fn merge(&mut self, from: Instant, unit: u64) {
        let Some(page) = self.map.written_page_of(unit) else { return };
        let die = self.map.die_of(page);
        let sensed = self.sense(from, die);
        let moved = self.move_on_channel(sensed, die, self.spec.page.unit_bytes);
        self.buffer.merged_at = self.buffer.merged_at.max(moved);
    }

    /// When a unit may come into the buffer that is ready at `from`.
    fn buffer_room(&mut self, from: Instant) -> Instant {
        let buffer = &mut self.buffer;
        let mut from = from.max(buffer.room_at);
        loop {
            while let Some((_, bytes)) = buffer.programming.pop_front_if(|it| it.0 <= from) {
                buffer.programming_bytes -= bytes;
            }
            let used = buffer.programming_bytes + buffer.filling_bytes;
            if used + self.spec.page.unit_bytes <= self.spec.write_buffer_bytes {
                return from;
            }
            // The page being filled is programmed once full, so something is under way here.
            let Some(&(until, _)) = buffer.programming.front() else { return from };
            from = until;
            buffer.room_at = until;
        }
    }

    /// Programs the page being filled.
    fn program(&mut self, from: Instant) {
        let bytes = std::mem::take(&mut self.buffer.filling_bytes);
        let until = self.program_page(from.max(self.buffer.merged_at));
        let buffer = &mut self.buffer;
        // Dies differ in load: keep the order of time.
        let index = buffer.programming.partition_point(|it| it.0 <= until);
        buffer.programming.insert(index, (until, bytes));
        buffer.programming_bytes += bytes;
        buffer.until = buffer.until.max(until);
        self.collect(from);
    }

    /// Puts a page of the map's current line on its die: when it is programmed.
    fn program_page(&mut self, from: Instant) -> Instant {
        let page = self.map.finish_page();
        let die = self.map.die_of(page);
        let moved = self.move_on_channel(from, die, self.spec.page.bytes);
        let begin = moved.max(self.dies[die].until);
        let until = begin + self.programming(begin);
        self.dies[die].until = until;
        until
    }

    /// The time that programming a page takes that begins then.
    fn programming(&self, begin: Instant) -> Duration {
        let later = self.spec.later.filter(|later| begin.since(Instant::ZERO) >= later.after);
        later.map_or(self.spec.program, |later| later.program)
    }

    /// Pays for a page that the host has programmed: its part of collecting the emptiest line.
    fn collect(&mut self, now: Instant) {
        self.map.choose_victim();
        self.copies_left_permille += self.map.copies_per_page_permille();
        while self.map.is_collecting()
            && (self.copies_left_permille >= 1000 || self.map.is_urgent())
        {
            self.copies_left_permille = self.copies_left_permille.saturating_sub(1000);
            self.copy_page(now);
            if self.map.is_urgent() {
                self.map.choose_victim();
            }
        }
        if !self.map.is_collecting() {
            self.copies_left_permille = 0;
        }
    }

    /// Moves a page's worth of valid units out of the victim, and erases it behind the last.
    fn copy_page(&mut self, now: Instant) {
        let mut copied = Instant::ZERO;
        let mut last = None;
        let units = self.spec.page.bytes / self.spec.page.unit_bytes;
        for _ in 0..units {
            let Some(page) = self.map.copy_unit() else { break };
            if last.replace(page) != Some(page) {
                let die = self.map.die_of(page);
                copied = copied.max(self.sense(now, die));
            }
        }
        if last.is_some() {
            // Host and collection fill pages of their own.
            let page = self.map.finish_copy();
            let die = self.map.die_of(page);
            let begin = copied.max(self.dies[die].until);
            self.dies[die].until = begin + self.programming(begin);
        }
        if self.map.reclaim() {
            for die in &mut self.dies {
                die.until = now.max(die.until) + self.spec.erase;
                die.erasing_until = die.until;
            }
        }
    }

    /// Programs what is in the buffer: when all of it is on flash.
    fn flush(&mut self, from: Instant) -> Instant {
        if self.buffer.filling_bytes > 0 {
            self.program(from);
        }
        from.max(self.buffer.until)
    }

    /// Forgets whole units.
    fn trim(&mut self, op: Op) {
        let unit_bytes = self.spec.page.unit_bytes;
        let units = op.offset.div_ceil(unit_bytes)..(op.offset + op.bytes) / unit_bytes;
        for unit in units {
            self.map.trim(unit);
        }
    }
}

impl Device for Flash {
    fn capacity_bytes(&self) -> u64 {
        self.pending.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.pending.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.pending.enter(now, &op);
        let at = match op.kind {
            Kind::Read | Kind::Cache => self.read(now, op),
            Kind::Write | Kind::Zeroes => self.write(now, op),
            Kind::Flush => self.flush(now + self.spec.firmware.read),
            Kind::Trim => {
                self.trim(op);
                now + self.spec.firmware.read
            }
        };
        self.pending.push(at, tag);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.pending.next()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.pending.advance(now, done);
    }
}

/// Time to move so many bytes, rounded up.
fn time_of(bytes: u64, bytes_per_second: u64) -> Duration {
    let nanos = match bytes.checked_mul(1_000_000_000) {
        Some(product) => product.div_ceil(bytes_per_second),
        None => {
            let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_second));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        }
    };
    Duration::from_nanos(nanos)
}
