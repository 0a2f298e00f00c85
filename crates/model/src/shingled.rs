//! A drive-managed shingled disk: any write is taken, and put in order later.
//!
//! - Tracks overlap, so that a band of them is written from front to back. A write that begins at its
//!   band's beginning, or where the band's last such write ended, goes straight there.
//! - Any other write goes to the persistent cache at the outer edge, one behind the other. Reads take
//!   each part of what they want from where it lies.
//! - Cleaning takes the band whose oldest write has been in the cache for longest, reads all of it and
//!   writes all of it, in pieces; then its room in the cache is free again. The disk cleans when
//!   nothing was inside for a while, and finishes the band that it has begun. A write that finds no
//!   room waits for a band to be cleaned.
//!
//! Source: Aghayev & Desnoyers, "Skylight: a window on shingled disk operation", FAST 2015.
//!
//! Does not know: how the cache's map is kept, guard tracks, the order of zones on surfaces; what lies
//! behind a band's write that goes straight stays readable where it is.

#[cfg(test)]
mod tests;

use crate::device::{Completion, Device, Op};
use crate::disk::{Disk, DiskSpec};
use disktime_core::{Duration, Instant, Kind};
use std::collections::{BTreeMap, VecDeque};

/// Properties in which one shingled disk differs from another.
#[derive(Clone, Debug)]
pub struct ShingledSpec {
    /// The disk under it, cache included.
    pub disk: DiskSpec,
    /// Bytes of a band, a multiple of `piece_bytes`.
    pub band_bytes: u64,
    /// Bytes of the persistent cache, a multiple of `band_bytes`.
    pub cache_bytes: u64,
    /// How long nothing has to be inside before it cleans.
    pub clean_after: Duration,
    /// How much of a band it reads or writes at a time when it cleans.
    pub piece_bytes: u64,
}

/// A part of an operation, at the disk under it.
#[derive(Clone, Copy, Debug)]
struct Part {
    owner: Owner,
    op: Op,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// The operation in this slot.
    Host(usize),
    Cleaning,
}

/// An operation of the host: its tag, and its parts that are not done.
#[derive(Clone, Copy, Debug)]
struct Host {
    tag: u64,
    parts: usize,
}

/// A run of bytes in the cache.
#[derive(Clone, Copy, Debug)]
struct Cached {
    end: u64,
    /// Where it begins in the cache.
    at: u64,
}

/// The persistent cache.
#[derive(Debug, Default)]
struct Cache {
    /// Runs by their first byte; they don't overlap.
    runs: BTreeMap<u64, Cached>,
    /// In all runs.
    bytes: u64,
    /// Where it is written next.
    head: u64,
    /// Bands with bytes in it, the one with the oldest first.
    dirty: VecDeque<u64>,
}

/// The band being cleaned: the next piece to read, then to write, of all its pieces twice.
#[derive(Clone, Copy, Debug)]
struct Cleaning {
    band: u64,
    next: u64,
}

/// A shingled disk.
pub struct Shingled {
    spec: ShingledSpec,
    disk: Disk,
    bands: u64,
    /// Where writes that go straight to a band have got to, in bytes from its beginning.
    written: BTreeMap<u64, u64>,
    cache: Cache,
    cleaning: Option<Cleaning>,
    /// Operations of the host inside, by slot.
    hosts: Vec<Option<Host>>,
    /// Writes that wait for room in the cache, and what came behind them.
    waiting: VecDeque<(usize, Op)>,
    /// Parts that wait for room at the disk, and those inside it by tag.
    parts: VecDeque<Part>,
    inside: BTreeMap<u64, Owner>,
    tags: u64,
    /// Since when no operation of the host was inside, if none is.
    idle_since: Instant,
    /// When the latest band was clean.
    cleaned_at: Instant,
    done: Vec<Completion>,
}

impl Shingled {
    /// A disk with an empty cache; the seed is its spindle's.
    ///
    /// # Panics
    /// If sizes are not multiples of each other, or no band is left beside the cache.
    #[must_use]
    pub fn new(spec: ShingledSpec, seed: u64) -> Self {
        let ShingledSpec { band_bytes, cache_bytes, piece_bytes, .. } = spec;
        assert!(piece_bytes > 0 && band_bytes.is_multiple_of(piece_bytes), "{band_bytes}");
        assert!(cache_bytes > 0 && cache_bytes.is_multiple_of(band_bytes), "{cache_bytes}");
        let disk = Disk::new(spec.disk.clone(), seed);
        let bands = disk.capacity_bytes().saturating_sub(cache_bytes) / band_bytes;
        assert!(bands > 0, "a cache of {cache_bytes} bytes leaves no band");
        let hosts = vec![None; disk.queue_depth() as usize];
        Self {
            spec,
            disk,
            bands,
            written: BTreeMap::new(),
            cache: Cache::default(),
            cleaning: None,
            hosts,
            waiting: VecDeque::new(),
            parts: VecDeque::new(),
            inside: BTreeMap::new(),
            tags: 0,
            idle_since: Instant::ZERO,
            cleaned_at: Instant::ZERO,
            done: Vec::new(),
        }
    }

    fn is_idle(&self) -> bool {
        self.hosts.iter().all(Option::is_none)
    }

    /// Runs the disk to `now`, and what follows from its completions at their times.
    fn run_until(&mut self, now: Instant) {
        let mut done = Vec::new();
        loop {
            let due = self.disk.next_completion().filter(|at| *at <= now);
            let cleans = self.cleans_at().filter(|at| *at <= now);
            match (due, cleans) {
                (Some(at), cleans) if cleans.is_none_or(|cleans| at <= cleans) => {
                    self.disk.advance(at, &mut done);
                    for completion in done.drain(..) {
                        self.completed(completion);
                    }
                    self.feed(at);
                }
                (_, Some(at)) => {
                    self.clean();
                    self.feed(at);
                }
                (_, None) => break,
            }
        }
        self.disk.advance(now, &mut done);
    }

    /// When it begins to clean by itself, if nothing comes.
    fn cleans_at(&self) -> Option<Instant> {
        let rests = self.cleaning.is_none() && self.is_idle() && !self.cache.dirty.is_empty();
        rests.then(|| self.cleaned_at.max(self.idle_since + self.spec.clean_after))
    }

    /// Begins to clean the band whose oldest bytes have waited for longest.
    fn clean(&mut self) {
        let Some(band) = self.cache.dirty.pop_front() else { return };
        self.cleaning = Some(Cleaning { band, next: 0 });
        self.clean_piece();
    }

    fn clean_piece(&mut self) {
        let Some(Cleaning { band, next }) = self.cleaning else { return };
        let ShingledSpec { band_bytes, cache_bytes, piece_bytes: bytes, .. } = self.spec;
        let pieces = band_bytes / bytes;
        let kind = if next < pieces { Kind::Read } else { Kind::Write };
        let offset = cache_bytes + band * band_bytes + next % pieces * bytes;
        self.parts
            .push_back(Part { owner: Owner::Cleaning, op: Op { kind, offset, bytes, fua: false } });
    }

    fn completed(&mut self, completion: Completion) {
        let owner = self.inside.remove(&completion.tag).expect("the disk has what it was given");
        match owner {
            Owner::Host(slot) => self.part_done(slot, completion.at),
            Owner::Cleaning => {
                let Some(cleaning) = &mut self.cleaning else { return };
                cleaning.next += 1;
                let Cleaning { band, next } = *cleaning;
                if next < 2 * (self.spec.band_bytes / self.spec.piece_bytes) {
                    self.clean_piece();
                } else {
                    self.cleaned(band, completion.at);
                }
            }
        }
    }

    /// All of a band lies in order again.
    fn cleaned(&mut self, band: u64, now: Instant) {
        self.cleaning = None;
        let begin = band * self.spec.band_bytes;
        // A write that came while the band was cleaned has put it in the list again, and stays in the
        // cache.
        if !self.cache.dirty.contains(&band) {
            self.forget(begin, begin + self.spec.band_bytes);
        }
        self.cleaned_at = now;
        while let Some((slot, op)) = self.waiting.pop_front() {
            if !self.place(slot, op) {
                self.waiting.push_front((slot, op));
                self.clean();
                break;
            }
        }
    }

    fn part_done(&mut self, slot: usize, at: Instant) {
        let host = self.hosts[slot].as_mut().expect("parts are of an operation inside");
        host.parts -= 1;
        if host.parts == 0 {
            let tag = host.tag;
            self.hosts[slot] = None;
            self.done.push(Completion::new(tag, at));
            if self.is_idle() {
                self.idle_since = at;
            }
        }
    }

    /// Gives the disk what it has room for.
    fn feed(&mut self, now: Instant) {
        while self.inside.len() < self.disk.queue_depth() as usize {
            let Some(Part { owner, op }) = self.parts.pop_front() else { break };
            self.tags += 1;
            self.inside.insert(self.tags, owner);
            self.disk.submit(now, self.tags, op);
        }
    }

    /// Divides an operation into parts at the disk; `false` if a write finds no room.
    fn place(&mut self, slot: usize, op: Op) -> bool {
        let mut parts = Vec::new();
        match op.kind {
            Kind::Flush => parts.push(op),
            Kind::Read | Kind::Cache => self.find(op, &mut parts),
            Kind::Write | Kind::Zeroes => {
                if self.cache.bytes + self.needed(op) > self.spec.cache_bytes {
                    return false;
                }
                self.put(op, &mut parts);
            }
            Kind::Trim => {
                self.forget(op.offset, op.offset + op.bytes);
                parts.push(Op { offset: self.spec.cache_bytes + op.offset, ..op });
            }
        }
        let host = self.hosts[slot].as_mut().expect("the operation is inside");
        host.parts = parts.len();
        let owner = Owner::Host(slot);
        self.parts.extend(parts.into_iter().map(|op| Part { owner, op }));
        true
    }

    /// Where what is read lies: in the cache, and in its band between.
    fn find(&self, op: Op, parts: &mut Vec<Op>) {
        let end = op.offset + op.bytes;
        let mut at = op.offset;
        let first = self.cache.runs.range(..=at).next_back().map_or(at, |(first, _)| *first);
        for (&first, &Cached { end: run_end, at: place }) in self.cache.runs.range(first..end) {
            if run_end <= at {
                continue;
            }
            if first > at {
                parts.push(self.in_band(op, at, first));
            }
            let (from, to) = (first.max(at), run_end.min(end));
            parts.push(Op { offset: place + (from - first), bytes: to - from, ..op });
            at = to;
        }
        if at < end {
            parts.push(self.in_band(op, at, end));
        }
    }

    fn in_band(&self, op: Op, from: u64, to: u64) -> Op {
        Op { offset: self.spec.cache_bytes + from, bytes: to - from, ..op }
    }

    /// Bytes of a write that go to the cache: all in its first band, or none.
    fn needed(&self, op: Op) -> u64 {
        let (band, within) = (op.offset / self.spec.band_bytes, op.offset % self.spec.band_bytes);
        if self.goes_straight(band, within) {
            return 0;
        }
        op.bytes.min(self.spec.band_bytes - within)
    }

    /// Whether a write goes straight to its band that begins so many bytes from its beginning.
    fn goes_straight(&self, band: u64, within: u64) -> bool {
        within == 0 || self.written.get(&band) == Some(&within)
    }

    /// Writes each band's part straight to the band, or to the cache.
    fn put(&mut self, op: Op, parts: &mut Vec<Op>) {
        let (mut at, end) = (op.offset, op.offset + op.bytes);
        while at < end {
            let band = at / self.spec.band_bytes;
            let begin = band * self.spec.band_bytes;
            let to = end.min(begin + self.spec.band_bytes);
            self.forget(at, to);
            if self.goes_straight(band, at - begin) {
                self.written.insert(band, to - begin);
                parts.push(self.in_band(op, at, to));
            } else {
                self.put_in_cache(op, at, to, parts);
                if !self.cache.dirty.contains(&band) {
                    self.cache.dirty.push_back(band);
                }
            }
            at = to;
        }
    }

    /// Writes behind what is in the cache, from its beginning again at its end.
    fn put_in_cache(&mut self, op: Op, mut at: u64, to: u64, parts: &mut Vec<Op>) {
        while at < to {
            let bytes = (to - at).min(self.spec.cache_bytes - self.cache.head);
            parts.push(Op { offset: self.cache.head, bytes, ..op });
            self.cache.runs.insert(at, Cached { end: at + bytes, at: self.cache.head });
            self.cache.bytes += bytes;
            self.cache.head = (self.cache.head + bytes) % self.spec.cache_bytes;
            at += bytes;
        }
    }

    /// Forgets what the cache has of these bytes.
    fn forget(&mut self, from: u64, to: u64) {
        let first = self.cache.runs.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let runs: Vec<(u64, Cached)> =
            self.cache.runs.range(first..to).map(|(first, run)| (*first, *run)).collect();
        for (first, run) in runs {
            if run.end <= from {
                continue;
            }
            self.cache.runs.remove(&first);
            self.cache.bytes -= run.end.min(to) - first.max(from);
            if first < from {
                self.cache.runs.insert(first, Cached { end: from, ..run });
            }
            if run.end > to {
                self.cache.runs.insert(to, Cached { end: run.end, at: run.at + (to - first) });
            }
        }
    }
}

impl Device for Shingled {
    fn capacity_bytes(&self) -> u64 {
        self.bands * self.spec.band_bytes
    }

    fn queue_depth(&self) -> u32 {
        self.disk.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.run_until(now);
        let inside = self.hosts.iter().flatten().count() + self.done.len();
        assert!(inside < self.hosts.len(), "{op:?} above the queue depth");
        if op.kind != Kind::Flush {
            assert!(op.bytes > 0, "{op:?} is empty");
            let end = op.offset.checked_add(op.bytes);
            assert!(end.is_some_and(|end| end <= self.capacity_bytes()), "{op:?} is past the end");
        }
        let free = self.hosts.iter().position(Option::is_none);
        let slot = free.expect("fewer are inside than there are slots");
        self.hosts[slot] = Some(Host { tag, parts: 0 });
        if !self.waiting.is_empty() || !self.place(slot, op) {
            self.waiting.push_back((slot, op));
            if self.cleaning.is_none() {
                self.clean();
            }
        }
        self.feed(now);
    }

    /// A look may hand nothing back: parts end, and cleaning goes on, at times of their own.
    fn next_completion(&self) -> Option<Instant> {
        match self.done.first() {
            Some(completion) => Some(completion.at),
            None if self.is_idle() => None,
            None => self.disk.next_completion(),
        }
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.done);
    }
}
