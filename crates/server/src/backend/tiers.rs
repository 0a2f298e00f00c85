//! Two tiers as one medium: a fast file or block device in front of a slow one.
//!
//! Every extent of 1 MiB has its home on the slow tier. While it is *promoted* it is in a slot of
//! the fast tier, which then has its only current copy. [`map`] says, durably, which extents are;
//! [`heat`] which are worth it.
//!
//! An extent moves in a *migration*, whose pieces come back from the scheduler as jobs of a disk of
//! their own: so the time that moving takes is charged, and no stream's reserved time. Pieces copy
//! while others read and write; what is written meanwhile is copied again. With the last piece
//! others wait: what is left is copied, the copy is made durable, then the map's entry, durably,
//! and from then on data are read and written at the new place. Until then the old place has all
//! data.
//!
//! A write of the map that failed may have reached the device or not: until one has not failed, a
//! restart may find the extent here or there ([`Unsure`]).
//!
//! Does not know: when migrations' pieces come, or how long tiers take.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use disktime_core::{Kind, Tier};
use disktime_model::Op;
use slab::Slab;

use super::Io;
use super::blocks::{BLOCK, BlockBackEnd, Free, Medium, Name};
use super::file::honours_dsync;
use super::survey::{RUNS_MAX, Run};
use crate::buffers::ALIGN;
use crate::ring::{Keep, Payload, Token, Transfer};
use crate::served_file::ServedFile;

mod heat;
mod map;
mod migration;
mod open;

use heat::Heat;
use map::{EXTENT, Map};
use migration::{Migration, Phase};
pub use open::TwoTiers;

/// Virtual disks on two tiers.
pub type TieredBackEnd = BlockBackEnd<Tiers>;

/// An extent that was asked for so often lately is worth promoting; one that takes another's slot
/// must have been asked for twice as often and so many times more.
const HOT: u32 = 4;
/// Slots that are looked at for the coldest at once.
const LOOK: u32 = 64;
const EIO: i32 = -libc::EIO;
/// Extents that are looked at for one description: 64 GiB, some 200 us.
const LOOK_AT_MAX: usize = 1 << 16;
/// Half of the first pause after a write of the map that failed, and the longest.
const AGAIN: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];
/// After so many failures, some .6 s, writes wait no longer.
const TRIES: u32 = 7;

/// An operation on an extent.
enum Task {
    Read(Payload),
    /// With whether it is to be durable.
    Write(Payload, bool),
    /// Length and mode of fallocate(2).
    Free(u64, i32),
}

/// A job's operation.
struct Asked {
    name: Name,
    offset: u64,
    task: Task,
}

/// An operation on the ring.
enum Under {
    /// On an extent; with the bytes that it changes.
    Extent {
        name: Name,
        extent: u32,
        changes: Option<Range<u64>>,
    },
    /// A sync for a flush.
    Sync(Name),
    /// An operation of the migration.
    Migration,
    /// The write of an entry of the map, and the sync after it.
    Entry(Entry),
    EntrySync(Entry),
    /// The pause before an entry is tried again.
    Pause,
}

/// The reason for which an entry of the map is written.
#[derive(Clone, Copy)]
enum Entry {
    /// The end of the migration.
    Migration,
    /// Another try of the one that is [`Unsure`].
    Again,
}

/// An extent whose entry may or may not be in the map. Both places have the same until it is written
/// to, so reads go on, at the old one; writes wait, and fail once it was tried often. Once the entry is
/// written all wait for the reads that are under way: another extent may come to the old place.
#[derive(Clone, Copy)]
struct Unsure {
    extent: u32,
    slot: u32,
    /// The extent that the slot is to have.
    moved: Option<u32>,
    /// Writes of the entry that failed.
    tries: u32,
    written: bool,
}

impl Unsure {
    /// The pause after the first failure doubles with each, up to the longest.
    fn pause(self) -> Duration {
        AGAIN[0].saturating_mul(1 << self.tries.min(16)).min(AGAIN[1])
    }
}

/// Where the next migration is looked for.
#[derive(Default)]
struct Search {
    /// The hottest extent of the slow tier that was seen since one was last promoted.
    hottest: Option<u32>,
    /// The slot from which on to look for the coldest.
    hand: u32,
}

/// Two tiers.
pub struct Tiers {
    fast: Arc<ServedFile>,
    slow: Arc<ServedFile>,
    /// The fast tier honours `RWF_DSYNC`, and both do.
    fast_durable: bool,
    durable: bool,
    map: Map,
    heat: Heat,
    /// The disk whose jobs are migrations' pieces, if extents are migrated.
    migration_disk: Option<u32>,
    /// All that is promoted goes back, and nothing is.
    empties: bool,
    search: Search,
    under: Slab<Under>,
    migration: Option<Migration>,
    /// Operations that wait until their extent has moved.
    held: VecDeque<Asked>,
    answers: VecDeque<(Name, i32)>,
    /// While there is one nothing moves.
    unsure: Option<Unsure>,
    syncs: Syncs,
}

/// Syncs that have failed. The system tells that once, and other syncs hear no more of it.
#[derive(Default)]
struct Syncs {
    /// One of the tiers' own, since that was asked: clients' may have lost something.
    own: bool,
    /// A client's, since an entry was written last: that may be lost.
    clients: bool,
}

fn extent_of(offset: u64) -> u32 {
    u32::try_from(offset / EXTENT).expect("extents are counted in u32")
}

impl Tiers {
    fn new(
        fast: Arc<ServedFile>,
        slow: Arc<ServedFile>,
        map: Map,
        migration_disk: Option<u32>,
    ) -> Self {
        let heat = Heat::new(map.extents(), 16 * u64::from(map.slots()) + 64);
        let fast_durable = honours_dsync(fast.file());
        let durable = fast_durable && honours_dsync(slow.file());
        Self {
            fast,
            slow,
            fast_durable,
            durable,
            map,
            heat,
            migration_disk,
            empties: false,
            search: Search::default(),
            under: Slab::new(),
            migration: None,
            held: VecDeque::new(),
            answers: VecDeque::new(),
            unsure: None,
            syncs: Syncs::default(),
        }
    }

    /// Where a byte is: which file, and where in it.
    fn place(&self, offset: u64) -> (RawFd, u64) {
        match self.map.slot(extent_of(offset)) {
            Some(slot) => self.in_slot(slot, offset),
            None => (self.slow.as_raw_fd(), offset),
        }
    }

    /// Where a byte of the extent in a slot is.
    fn in_slot(&self, slot: u32, offset: u64) -> (RawFd, u64) {
        (self.fast.as_raw_fd(), self.map.header_bytes() + on_fast(slot, offset))
    }

    /// Does what a job asks, or has it wait while its extent moves.
    fn ask(&mut self, asked: Asked, io: &mut Io<'_>) {
        let extent = extent_of(asked.offset);
        let writes = !matches!(asked.task, Task::Read(_));
        let of_extent = |unsure: &Unsure| unsure.extent == extent && (writes || unsure.written);
        if let Some(unsure) = self.unsure.filter(of_extent) {
            if unsure.written || unsure.tries < TRIES {
                self.held.push_back(asked);
            } else {
                self.answers.push_back((asked.name, EIO));
            }
        } else if self.migration.as_ref().is_some_and(|migration| migration.holds(extent)) {
            self.held.push_back(asked);
        } else {
            self.issue(asked, io);
        }
    }

    fn issue(&mut self, Asked { name, offset, task }: Asked, io: &mut Io<'_>) {
        let (fd, at) = self.place(offset);
        let changes = match &task {
            Task::Read(_) => None,
            Task::Write((_, range), _) => Some(offset..offset + range.len() as u64),
            Task::Free(len, _) => Some(offset..offset + len),
        };
        self.changed(changes.as_ref());
        let under = Under::Extent { name, extent: extent_of(offset), changes };
        let token = self.token(under);
        let transfer = |(buffer, range): Payload| Transfer { fd, offset: at, buffer, range };
        match task {
            Task::Read(to) => io.ring.read(token, transfer(to)),
            Task::Write(from, durable) => io.ring.write(token, transfer(from), durable),
            Task::Free(len, mode) => io.ring.allocate(token, fd, at, len, mode),
        }
    }

    fn token(&mut self, under: Under) -> Token {
        let key = self.under.insert(under);
        Token::BackEnd(u32::try_from(key).expect("tables are bounded far below 2^32"))
    }

    /// Bytes that are changing or have changed: the migration's copy of them is not current.
    fn changed(&mut self, changes: Option<&Range<u64>>) {
        if let (Some(migration), Some(changes)) = (&mut self.migration, changes) {
            migration.changed(changes);
        }
    }

    /// Someone asks for a byte.
    fn touch(&mut self, offset: u64) {
        let extent = extent_of(offset);
        let heat = self.heat.touch(extent);
        if self.migration_disk.is_none() || heat < HOT || self.map.slot(extent).is_some() {
            return;
        }
        if self.search.hottest.is_none_or(|hottest| self.heat.of(hottest) < heat) {
            self.search.hottest = Some(extent);
        }
    }

    /// The next migration: the hottest extent to a free slot, or the coldest one from a slot that
    /// is worth more to the hottest.
    fn plan(&mut self) -> Option<Migration> {
        self.migration_disk.filter(|_| self.unsure.is_none())?;
        if self.empties {
            return self.plan_the_way_back();
        }
        let hot = self.search.hottest.take()?;
        let heat = self.heat.of(hot);
        if heat < HOT || self.map.slot(hot).is_some() {
            return None;
        }
        if let Some(slot) = self.map.take() {
            return Some(Migration::new(hot, slot, Tier::Fast));
        }
        let count = self.map.slots();
        let looked_at = (0..count.min(LOOK)).map(|step| (self.search.hand + step) % count);
        let heat_in = |slot| self.map.extent(slot).map(|extent| self.heat.of(extent));
        let coldest = looked_at.filter_map(|slot| Some((heat_in(slot)?, slot))).min();
        self.search.hand = (self.search.hand + count.min(LOOK)) % count;
        let (least, slot) = coldest?;
        if heat < least.saturating_mul(2).saturating_add(HOT) {
            return None;
        }
        self.search.hottest = Some(hot);
        Some(Migration::new(self.map.extent(slot)?, slot, Tier::Slow))
    }

    /// The next extent that is promoted goes back.
    fn plan_the_way_back(&mut self) -> Option<Migration> {
        let count = self.map.slots();
        let slots = (0..count).map(|step| (self.search.hand + step) % count);
        let found = slots.filter_map(|slot| Some((self.map.extent(slot)?, slot))).next();
        let Some((extent, slot)) = found else {
            tracing::info!("the fast tier is empty: all data are on the slow one");
            self.empties = false;
            self.migration_disk = None;
            return None;
        };
        // If that fails the others come first.
        self.search.hand = (slot + 1) % count;
        Some(Migration::new(extent, slot, Tier::Slow))
    }

    /// Goes on with the migration's piece as far as it goes without waiting.
    fn advance(&mut self, io: &mut Io<'_>) {
        let Some(migration) = &mut self.migration else { return };
        if migration.phase != Phase::Ready || migration.job.is_none() {
            return;
        }
        if migration.last && is_busy(&self.under, migration.extent) {
            return;
        }
        if let Some(run) = migration.next_run() {
            let bytes = size(run.end - run.start);
            let buffer = io.pool.take(bytes);
            migration.phase = Phase::Reading(run.clone());
            let tier = if migration.to == Tier::Fast { Tier::Slow } else { Tier::Fast };
            let (slot, transfer) = (migration.slot, (buffer, 0..bytes));
            let (fd, offset) = self.on(tier, slot, run.start);
            let token = self.token(Under::Migration);
            let (buffer, range) = transfer;
            io.ring.read(token, Transfer { fd, offset, buffer, range });
        } else if migration.last {
            migration.phase = Phase::Syncing;
            let (tier, slot, extent) = (migration.to, migration.slot, migration.extent);
            let (fd, _) = self.on(tier, slot, u64::from(extent) * EXTENT);
            let token = self.token(Under::Migration);
            io.ring.sync(token, fd);
        } else {
            self.piece_done(0);
        }
    }

    fn on(&self, tier: Tier, slot: u32, offset: u64) -> (RawFd, u64) {
        match tier {
            Tier::Fast => self.in_slot(slot, offset),
            Tier::Slow => (self.slow.as_raw_fd(), offset),
        }
    }

    /// The migration's operation is over.
    fn stepped(&mut self, keep: Keep, result: i32, io: &mut Io<'_>) {
        let Some(migration) = &mut self.migration else { return };
        let (tier, slot) = (migration.to, migration.slot);
        let phase = std::mem::replace(&mut migration.phase, Phase::Ready);
        self.syncs.own |= phase == Phase::Syncing && result < 0;
        let blocks = u64::try_from(result).unwrap_or(0) / BLOCK * BLOCK;
        match (phase, keep) {
            (Phase::Reading(run), Keep::Buffer(buffer)) if blocks > 0 => {
                let run = migration.short(run, blocks);
                let range = 0..size(run.end - run.start);
                migration.phase = Phase::Writing(run.clone());
                let (fd, offset) = self.on(tier, slot, run.start);
                let token = self.token(Under::Migration);
                io.ring.write(token, Transfer { fd, offset, buffer, range }, false);
            }
            (Phase::Writing(run), Keep::Buffer(buffer)) if blocks > 0 => {
                migration.short(run, blocks);
                io.pool.give_back(buffer);
                self.advance(io);
            }
            (Phase::Syncing, _) if result >= 0 => {
                if migration.is_current() {
                    self.note(io);
                } else {
                    self.advance(io);
                }
            }
            (_, keep) => {
                if let Keep::Buffer(buffer) = keep {
                    io.pool.give_back(buffer);
                }
                self.give_up(if result < 0 { result } else { EIO }, io);
            }
        }
    }

    /// The copy is durable: so shall be the map.
    fn note(&mut self, io: &mut Io<'_>) {
        let Some(migration) = &mut self.migration else { return };
        migration.phase = Phase::Noting;
        let (slot, moved) = (migration.slot, migration.moved());
        self.write_entry((slot, moved), Entry::Migration, io);
    }

    /// A client's sync or write has failed: data that were written before it may be gone. They are written
    /// again.
    fn doubt(&mut self) {
        self.syncs.clients = true;
        if let Some(migration) = &mut self.migration {
            migration.doubt();
        }
    }

    fn write_entry(&mut self, (slot, moved): (u32, Option<u32>), entry: Entry, io: &mut Io<'_>) {
        self.syncs.clients = false;
        let (offset, block) = self.map.block(slot, moved);
        let buffer = io.pool.take(ALIGN);
        buffer.put(0, &block);
        let fd = self.fast.as_raw_fd();
        let token = self.token(Under::Entry(entry));
        let transfer = Transfer { fd, offset, buffer, range: 0..ALIGN };
        io.ring.write(token, transfer, self.fast_durable);
    }

    /// An entry was written, or not. Where that alone is not durable a sync follows: until then
    /// the entry does not count, and its slot is not used again.
    fn entry_written(&mut self, entry: Entry, keep: Keep, result: i32, io: &mut Io<'_>) {
        if let Keep::Buffer(buffer) = keep {
            io.pool.give_back(buffer);
        }
        if is_written(result) && !self.fast_durable {
            let token = self.token(Under::EntrySync(entry));
            return io.ring.sync(token, self.fast.as_raw_fd());
        }
        let short = if result < 0 { result } else { EIO };
        self.entry_over(entry, if is_written(result) { 0 } else { short }, io);
    }

    /// An entry is durable, or may be: 0 or a negative error number.
    fn entry_over(&mut self, entry: Entry, result: i32, io: &mut Io<'_>) {
        self.syncs.own |= result < 0;
        match entry {
            Entry::Migration => self.noted(result, io),
            Entry::Again => self.tried(result, io),
        }
    }

    /// The migration's entry is durable, or may be.
    fn noted(&mut self, error: i32, io: &mut Io<'_>) {
        let Some(migration) = &self.migration else { return };
        let (extent, slot, moved) = (migration.extent, migration.slot, migration.moved());
        if error == 0 {
            self.enter(slot, moved);
            return self.end(0, io);
        }
        tracing::error!(
            extent,
            error = %std::io::Error::from_raw_os_error(-error),
            "the map of the tiers can't be written: it is tried again; until then nothing is moved, \
             and writes to this extent wait, after .6 s fail"
        );
        self.unsure = Some(Unsure { extent, slot, moved, tries: 0, written: false });
        self.unsettled(io);
        self.end(error, io);
    }

    fn enter(&mut self, slot: u32, moved: Option<u32>) {
        self.map.put(slot, moved);
        if moved.is_none() {
            self.map.give_back(slot);
        }
    }

    /// A write of the entry has failed: it is tried again after a pause.
    fn unsettled(&mut self, io: &mut Io<'_>) {
        let Some(unsure) = &mut self.unsure else { return };
        unsure.tries = unsure.tries.saturating_add(1);
        let (pause, gives_up) = (unsure.pause(), unsure.tries == TRIES);
        let token = self.token(Under::Pause);
        io.ring.timer(token, pause);
        if gives_up {
            self.ask_held(io);
        }
    }

    fn try_again(&mut self, io: &mut Io<'_>) {
        if let Some(Unsure { slot, moved, .. }) = self.unsure {
            self.write_entry((slot, moved), Entry::Again, io);
        }
    }

    /// The entry was tried again.
    fn tried(&mut self, error: i32, io: &mut Io<'_>) {
        if error != 0 {
            return self.unsettled(io);
        }
        let Some(unsure) = &mut self.unsure else { return };
        unsure.written = true;
        tracing::info!(extent = unsure.extent, "the map of the tiers is written");
        self.sure(io);
    }

    /// An entry that was tried again counts once it is written and nothing is under way at the old place.
    fn sure(&mut self, io: &mut Io<'_>) {
        let ready = |unsure: &mut Unsure| unsure.written && !is_busy(&self.under, unsure.extent);
        let Some(Unsure { slot, moved, .. }) = self.unsure.take_if(ready) else { return };
        self.enter(slot, moved);
        self.ask_held(io);
    }

    /// The migration is not done, and nothing has changed but bytes that no map entry points to.
    fn give_up(&mut self, result: i32, io: &mut Io<'_>) {
        let Some(migration) = &self.migration else { return };
        self.heat.cool(migration.extent);
        if migration.to == Tier::Fast {
            self.map.give_back(migration.slot);
        }
        self.end(result, io);
    }

    /// The migration is over: operations that have waited go on.
    fn end(&mut self, result: i32, io: &mut Io<'_>) {
        self.piece_done(result);
        self.migration = None;
        self.ask_held(io);
    }

    fn ask_held(&mut self, io: &mut Io<'_>) {
        for asked in std::mem::take(&mut self.held) {
            self.ask(asked, io);
        }
    }

    fn piece_done(&mut self, result: i32) {
        let job = self.migration.as_mut().and_then(|migration| migration.job.take());
        self.answers.extend(job.map(|job| (Name { job, step: 0 }, result)));
    }
}

impl Medium for Tiers {
    const IN_FILES: bool = true;

    fn reach(&self, offset: u64) -> u64 {
        EXTENT - offset % EXTENT
    }

    fn read(&mut self, name: Name, offset: u64, to: Payload, io: &mut Io<'_>) {
        self.touch(offset);
        self.ask(Asked { name, offset, task: Task::Read(to) }, io);
    }

    fn write(&mut self, name: Name, offset: u64, from: Payload, fua: bool, io: &mut Io<'_>) {
        self.touch(offset);
        self.ask(Asked { name, offset, task: Task::Write(from, fua) }, io);
    }

    fn free(&mut self, job: u32, extent: Range<u64>, how: Free, io: &mut Io<'_>) -> u32 {
        let (mut step, mut offset) = (0, extent.start);
        while offset < extent.end {
            let len = self.reach(offset).min(extent.end - offset);
            let task = Task::Free(len, how.mode());
            self.ask(Asked { name: Name { job, step }, offset, task }, io);
            (step, offset) = (step + 1, offset + len);
        }
        step
    }

    fn sync(&mut self, job: u32, _disk: u32, io: &mut Io<'_>) -> u32 {
        let mut step = 0;
        for tier in [Arc::clone(&self.fast), Arc::clone(&self.slow)] {
            let token = self.token(Under::Sync(Name { job, step }));
            io.ring.sync(token, tier.as_raw_fd());
            step += 1;
            if tier.can_go() {
                let token = self.token(Under::Sync(Name { job, step }));
                io.ring.check(token, &tier);
                step += 1;
            }
        }
        step
    }

    fn cache(&mut self, job: u32, disk: u32, extent: Range<u64>, io: &mut Io<'_>) -> u32 {
        let migration = self.migration.as_mut().filter(|_| self.migration_disk == Some(disk));
        let Some(migration) = migration.filter(|migration| migration.takes(&extent)) else {
            return 0;
        };
        migration.begin_piece(job, &extent);
        self.advance(io);
        1
    }

    /// Promoted extents are data; the others are as the slow tier has them.
    fn runs(&self, extent: &Range<u64>) -> Vec<Run> {
        let (mut runs, mut at) = (Vec::new(), extent.start);
        for _ in 0..LOOK_AT_MAX {
            let bytes = (EXTENT - at % EXTENT).min(extent.end - at);
            let promoted = self.map.slot(extent_of(at)).is_some();
            let place = (!promoted).then(|| (Arc::clone(&self.slow), at));
            Run { bytes, place }.append(&mut runs);
            at += bytes;
            if at == extent.end || runs.len() == RUNS_MAX {
                break;
            }
        }
        runs
    }

    fn durable(&self) -> bool {
        self.durable
    }

    fn lost(&mut self) -> bool {
        std::mem::take(&mut self.syncs.own)
    }

    fn heard(&mut self, what: u32, (keep, result): (Keep, i32), io: &mut Io<'_>) {
        match self.under.remove(what as usize) {
            Under::Extent { name, changes, .. } => {
                if result == EIO && changes.is_some() {
                    self.doubt();
                }
                self.changed(changes.as_ref());
                self.answers.push_back((name, result));
                self.advance(io);
                self.sure(io);
            }
            Under::Sync(name) => {
                if result < 0 {
                    self.doubt();
                }
                self.answers.push_back((name, result));
            }
            Under::Migration => self.stepped(keep, result, io),
            Under::Entry(entry) => self.entry_written(entry, keep, result, io),
            Under::EntrySync(entry) => {
                self.entry_over(entry, if self.syncs.clients { EIO } else { result.min(0) }, io);
            }
            Under::Pause => self.try_again(io),
        }
    }

    fn answer(&mut self) -> Option<(Name, i32)> {
        self.answers.pop_front()
    }

    fn migration(&mut self) -> Option<Range<u64>> {
        if let Some(migration) = self.migration.take() {
            // Nothing of it is under way between pieces, and nobody waits for it.
            assert!(migration.job.is_none(), "a piece of the migration is still under way");
            self.heat.cool(migration.extent);
            if migration.to == Tier::Fast {
                self.map.give_back(migration.slot);
            }
        }
        self.migration = self.plan();
        self.migration.as_ref().map(Migration::extent_bytes)
    }

    fn parts(&self, op: Op, parts: &mut Vec<(Tier, Op)>) {
        let Op { kind, offset, bytes, .. } = op;
        let fast = |slot, offset| Op { offset: on_fast(slot, offset), ..op };
        if kind == Kind::Flush {
            return parts.extend([(Tier::Fast, op), (Tier::Slow, op)]);
        }
        let migration = self
            .migration
            .as_ref()
            .filter(|migration| kind == Kind::Cache && migration.takes(&(offset..offset + bytes)));
        if let Some(migration) = migration {
            let [from, to] = [Kind::Read, Kind::Write];
            let on_fast = fast(migration.slot, offset);
            let [fast, slow] = if migration.to == Tier::Fast { [to, from] } else { [from, to] };
            let parts_of_it =
                [(Tier::Slow, Op { kind: slow, ..op }), (Tier::Fast, Op { kind: fast, ..on_fast })];
            return parts.extend(parts_of_it);
        }
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let len = self.reach(at).min(end - at);
            let (tier, place) = match self.map.slot(extent_of(at)) {
                Some(slot) => (Tier::Fast, on_fast(slot, at)),
                None => (Tier::Slow, at),
            };
            match parts.last_mut() {
                Some((last, op)) if *last == tier && op.offset + op.bytes == place => {
                    op.bytes += len;
                }
                _ => parts.push((tier, Op { offset: place, bytes: len, ..op })),
            }
            at += len;
        }
    }
}

/// Whether an operation on an extent is under way.
fn is_busy(under: &Slab<Under>, of: u32) -> bool {
    under.iter().any(|(_, it)| matches!(it, Under::Extent { extent, .. } if *extent == of))
}

/// Where a byte of the extent in a slot is, from the first slot on.
fn on_fast(slot: u32, offset: u64) -> u64 {
    u64::from(slot) * EXTENT + offset % EXTENT
}

fn is_written(result: i32) -> bool {
    usize::try_from(result) == Ok(ALIGN)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("an extent is small")
}

#[cfg(test)]
mod tests;
