//! Virtual disks as extents of *media*: a file, stripes over several, a server's export.
//!
//! Direct I/O moves whole blocks, and so do some servers. Reads are widened to them; a write whose
//! edges are not on block boundaries reads the blocks at its edges, puts its bytes in and writes
//! them back, under a range lock. Disks are as long as whole blocks, so data never end inside one.
//! A range that is too long for one transfer is moved in several. Does not know what a medium is
//! made of.

use std::collections::VecDeque;
use std::ops::Range;

use disktime_core::{Kind, Tier};
use disktime_model::Op;

use super::survey::{Run, Survey, Surveyor};
use super::{Abilities, BackEnd, DeviceError, Io, Job, Step, blocks};
use crate::buffers::{ALIGN, Buffer, Pool};
use crate::ring::{Keep, Payload, Token};
use crate::served_file::PoolFile;

mod disk;

pub(crate) use disk::Disk;

pub(super) const BLOCK: u64 = ALIGN as u64;

/// A device, file or export that virtual disks are extents of. Operations are named by their job
/// and a step of it, and are over when the ring says so under [`Token::Job`], or when
/// [`answer`](Self::answer) does.
pub trait Medium {
    /// Whether the ring moves its data between buffers and files.
    const IN_FILES: bool = false;
    /// Whether operations without an answer are asked again after a loss.
    const ASKS_AGAIN: bool = false;
    /// As [`BackEnd::begin`].
    fn begin(&mut self, _io: &mut Io<'_>) {}
    /// How many bytes from `offset` on one transfer can move; at least a block from any block.
    fn reach(&self, offset: u64) -> u64;
    /// Reads into memory.
    fn read(&mut self, name: Name, offset: u64, to: Payload, io: &mut Io<'_>);
    /// Writes from memory; durably, if that is asked for and [`durable`](Self::durable).
    fn write(&mut self, name: Name, offset: u64, from: Payload, fua: bool, io: &mut Io<'_>);
    /// Frees or zeroes an extent. Answers how many operations that takes: steps from 0.
    fn free(&mut self, job: u32, extent: Range<u64>, how: Free, io: &mut Io<'_>) -> u32;
    /// Makes what was written by the disk at this place durable. Answers as [`free`](Self::free).
    fn sync(&mut self, job: u32, disk: u32, io: &mut Io<'_>) -> u32;
    /// Brings an extent nearer, for the disk at this place. Answers as [`free`](Self::free).
    fn cache(&mut self, _job: u32, _disk: u32, _extent: Range<u64>, _io: &mut Io<'_>) -> u32 {
        0
    }
    /// Where the bytes of an extent, or of its start, are, to be asked for holes.
    fn runs(&self, extent: &Range<u64>) -> Vec<Run> {
        vec![Run::data(extent.end - extent.start)]
    }
    /// Asks for an extent's holes itself, in one operation of that name; false if [`runs`](Self::runs)
    /// is the way.
    fn describe(&mut self, _: Name, _: Range<u64>, _: &mut Survey, _: &mut Io<'_>) -> bool {
        false
    }
    /// Whether writes can be durable by themselves.
    fn durable(&self) -> bool;
    /// The same as [`BackEnd::migration`].
    fn migration(&mut self) -> Option<Range<u64>> {
        None
    }
    /// Whether it may have lost what was written and not synced since it was asked last; as
    /// [`BackEnd::lost`].
    fn lost(&mut self) -> bool {
        false
    }
    /// As [`BackEnd::parts`].
    fn parts(&self, _op: Op, _parts: &mut Vec<(Tier, Op)>) {}
    /// The medium that is this file alone, if media of this kind can be.
    fn of_file(_file: PoolFile) -> Option<(Self, bool)>
    where
        Self: Sized,
    {
        None
    }
    /// Its last disk is gone: files are closed.
    fn let_go(&mut self) {}
    /// As [`BackEnd::heard`].
    fn heard(&mut self, _what: u32, _done: (Keep, i32), _io: &mut Io<'_>) {}
    /// An operation that is over, if the ring doesn't tell, with its result as the ring would
    /// have it.
    fn answer(&mut self) -> Option<(Name, i32)> {
        None
    }
}

/// An operation's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    /// Its job.
    pub job: u32,
    /// Which of the job's operations.
    pub step: u32,
}

impl Name {
    /// As the ring has it.
    pub(crate) fn token(self) -> Token {
        Token::Job { job: self.job, step: self.step }
    }
}

/// Ways to get rid of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Free {
    /// Not needed any more.
    Trim,
    /// Zeroes from now on, allocated or not.
    Zero,
    /// Zeroes that stay allocated; `EOPNOTSUPP` if that takes a `Zero` and an `Allocate`.
    ZeroInPlace,
    /// Only room.
    Allocate,
}

impl Free {
    /// As for fallocate(2).
    pub(super) fn mode(self) -> i32 {
        let how = match self {
            Self::Trim | Self::Zero => libc::FALLOC_FL_PUNCH_HOLE,
            Self::ZeroInPlace => libc::FALLOC_FL_ZERO_RANGE,
            Self::Allocate => 0,
        };
        libc::FALLOC_FL_KEEP_SIZE | how
    }
}

/// A part of a job that is one transfer.
#[derive(Clone, Debug)]
struct Part {
    /// Where on the disk.
    offset: u64,
    /// Where in the memory.
    range: Range<usize>,
    /// The memory is the job's scratch blocks, not its buffer.
    edge: bool,
}

/// A job's parts by step; most jobs have one, which takes no allocation.
#[derive(Default)]
struct Parts {
    first: Option<Part>,
    more: Vec<Option<Part>>,
    count: usize,
}

impl Parts {
    fn push(&mut self, part: Part) {
        if self.count == 0 {
            self.first = Some(part);
        } else {
            self.more.push(Some(part));
        }
        self.count += 1;
    }

    /// The part of a step; `None` once it is moved.
    fn at(&mut self, step: usize) -> Option<&mut Option<Part>> {
        match step.checked_sub(1) {
            None => Some(&mut self.first),
            Some(more) => self.more.get_mut(more),
        }
    }

    /// The parts that are not moved yet.
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.first.iter_mut().chain(self.more.iter_mut().flatten())
    }
}

/// Where a job is.
#[derive(Default)]
pub(crate) struct Stage {
    phase: Phase,
    parts: Parts,
    /// Operations under way.
    pending: u32,
    /// An operation is over.
    answered: bool,
    error: Option<DeviceError>,
    /// Two blocks for the edges of an unaligned write.
    scratch: Option<Buffer>,
    locked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Phase {
    #[default]
    New,
    /// Reading the edges of a write.
    Edges,
    /// Moving data, or syncing, or freeing.
    Body,
    /// Zeroing by a hole, where the medium can't zero in place.
    Hole,
    /// Allocating again what that freed.
    Refill,
    /// Making it durable.
    Sync,
}

/// Work that goes on without a completion from the ring.
enum Ready {
    /// A job has the range that it waited for.
    Granted(u32),
    /// An operation is over.
    Answered(Name, i32),
}

/// The medium of a number that no disk has had yet.
const NO_MEDIUM: usize = usize::MAX;

/// Virtual disks on media.
pub struct BlockBackEnd<M> {
    media: Vec<M>,
    disks: Vec<Disk>,
    abilities: Abilities,
    /// Whether transfers of disks that come later are of whole blocks; `None` if none may come,
    /// because each disk has a medium of its own.
    later: Option<bool>,
    granted: VecDeque<u32>,
    next: Option<Ready>,
    surveyor: Surveyor,
}

impl<M: Medium> BlockBackEnd<M> {
    /// Disks on their media, none over another.
    pub(super) fn new(media: Vec<M>, disks: Vec<Disk>, abilities: Abilities) -> Self {
        let (granted, surveyor) = (VecDeque::new(), Surveyor::default());
        Self { media, disks, abilities, later: None, granted, next: None, surveyor }
    }

    /// With more disks to come as extents of the only medium, direct or not.
    pub(super) fn open_ended(mut self, direct: bool) -> Self {
        self.later = Some(direct);
        self
    }

    /// The media that the disks lie on.
    pub(super) fn media(&self) -> &[M] {
        &self.media
    }

    fn carry_on(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let disk = &self.disks[job.disk as usize];
        match job.kind {
            Kind::Read => {
                job.stage.parts = self.split(job, [Some(disk.whole(job)), None, None]);
                self.transfer(id, job, io)
            }
            Kind::Write => {
                let (parts, edges) = disk.write_parts(job);
                job.stage.parts = self.split(job, parts);
                if !edges {
                    return self.transfer(id, job, io);
                }
                job.stage.scratch = Some(io.pool.take(2 * ALIGN));
                job.stage.phase = Phase::Edges;
                self.issue(id, job, io, |part| part.edge);
                Step::Pending
            }
            Kind::Trim => self.free(id, job, io, Phase::Body, Free::Trim),
            Kind::Zeroes if job.no_hole => self.free(id, job, io, Phase::Body, Free::ZeroInPlace),
            Kind::Zeroes => self.free(id, job, io, Phase::Body, Free::Zero),
            Kind::Flush => self.sync(id, job, io),
            Kind::Cache if job.survey.is_some() => self.survey(id, job, io),
            Kind::Cache => self.cache(id, job, io),
        }
    }

    /// Finds out what an extent has, where files or another server have to be asked.
    fn survey(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let Some(survey) = &mut job.survey else { return Step::Done(Ok(())) };
        let disk = &self.disks[job.disk as usize];
        let extent = disk.base + survey.extent.start..disk.base + survey.extent.end;
        let (name, medium) = (Name { job: id, step: 0 }, &mut self.media[disk.medium]);
        (job.stage.phase, job.stage.pending) = (Phase::Body, 1);
        if medium.describe(name, extent.clone(), survey, io) {
            return Step::Pending;
        }
        let runs = medium.runs(&extent);
        match self.surveyor.ask(name.token(), runs, survey, io) {
            Ok(()) => Step::Pending,
            Err(error) => Step::Done(Err(DeviceError(error.raw_os_error().unwrap_or(libc::EIO)))),
        }
    }

    /// Cuts parts where the medium's transfers end.
    fn split(&self, job: &Job, parts: [Option<Part>; 3]) -> Parts {
        let disk = &self.disks[job.disk as usize];
        let mut cut = Parts::default();
        for mut part in parts.into_iter().flatten() {
            loop {
                let reach = self.media[disk.medium].reach(disk.base + part.offset);
                let len = size(reach.min(part.range.len() as u64));
                let mut head = part.clone();
                head.range.end = head.range.start + len;
                (part.offset, part.range.start) = (part.offset + len as u64, head.range.end);
                cut.push(head);
                if part.range.is_empty() {
                    break;
                }
            }
        }
        cut
    }

    fn transfer(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        job.stage.phase = Phase::Body;
        self.issue(id, job, io, |_| true);
        Step::Pending
    }

    /// Starts the transfers of some of the job's parts.
    fn issue(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>, which: impl Fn(&Part) -> bool) {
        for step in 0..job.stage.parts.count {
            let part = job.stage.parts.at(step).and_then(|part| part.as_ref());
            if part.is_some_and(&which) {
                self.issue_one(id, u32::try_from(step).expect("at most a part a block"), job, io);
            }
        }
    }

    fn issue_one(&mut self, id: u32, step: u32, job: &mut Job, io: &mut Io<'_>) {
        let part = job.stage.parts.at(step as usize).and_then(|part| part.as_ref());
        let part = part.expect("only parts that exist are issued").clone();
        let memory = if part.edge { job.stage.scratch.as_ref() } else { job.buffer.as_ref() };
        let memory = memory.expect("a part's memory is there while it is moved").clone();
        let disk = &self.disks[job.disk as usize];
        let (medium, offset) = (&mut self.media[disk.medium], disk.base + part.offset);
        let (name, memory) = (Name { job: id, step }, (memory, part.range));
        if job.kind == Kind::Read || job.stage.phase == Phase::Edges {
            medium.read(name, offset, memory, io);
        } else {
            medium.write(name, offset, memory, job.fua && medium.durable(), io);
        }
        job.stage.pending += 1;
    }

    fn free(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>, phase: Phase, how: Free) -> Step {
        let disk = &self.disks[job.disk as usize];
        let start = disk.base + job.offset;
        job.stage.phase = phase;
        job.stage.pending = self.media[disk.medium].free(id, start..start + job.bytes, how, io);
        if job.stage.pending == 0 { self.next_phase(id, job, io) } else { Step::Pending }
    }

    fn cache(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let disk = &self.disks[job.disk as usize];
        let start = disk.base + job.offset;
        let extent = start..start + job.bytes;
        job.stage.phase = Phase::Body;
        job.stage.pending = self.media[disk.medium].cache(id, job.disk, extent, io);
        if job.stage.pending == 0 { self.next_phase(id, job, io) } else { Step::Pending }
    }

    fn sync(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        job.stage.phase = Phase::Sync;
        let medium = &mut self.media[self.disks[job.disk as usize].medium];
        job.stage.pending = medium.sync(id, job.disk, io);
        if job.stage.pending == 0 { self.next_phase(id, job, io) } else { Step::Pending }
    }

    /// All operations of a phase are over.
    fn next_phase(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let phase = job.stage.phase;
        if let Some(error) = job.stage.error.take() {
            let in_place = job.kind == Kind::Zeroes && job.no_hole && phase == Phase::Body;
            if in_place && error == DeviceError(libc::EOPNOTSUPP) {
                return self.free(id, job, io, Phase::Hole, Free::Zero);
            }
            // A sync after a write also reports failures of other writes.
            let of_others = phase == Phase::Sync && job.kind != Kind::Flush;
            let error = if of_others { DeviceError(libc::EIO) } else { error };
            return self.over(id, job, io, Err(error));
        }
        let durable = self.media[self.disks[job.disk as usize].medium].durable();
        let sync_after = match job.kind {
            Kind::Trim | Kind::Zeroes => job.fua,
            Kind::Write => job.fua && !durable,
            _ => false,
        };
        match phase {
            Phase::Edges => {
                self.merge_edges(job);
                self.transfer(id, job, io)
            }
            Phase::Hole => self.free(id, job, io, Phase::Refill, Free::Allocate),
            Phase::Body | Phase::Refill if sync_after => self.sync(id, job, io),
            _ => self.over(id, job, io, Ok(())),
        }
    }

    /// Puts a write's bytes into the blocks read for its edges.
    fn merge_edges(&self, job: &mut Job) {
        let extent = job.extent();
        let scratch = job.stage.scratch.as_ref().expect("edges are read into scratch");
        for part in job.stage.parts.iter_mut().filter(|part| part.edge) {
            let start = extent.start.max(part.offset);
            let end = extent.end.min(part.offset + BLOCK);
            let from = job.at + size(start - extent.start);
            let to = part.range.start + size(start - part.offset);
            scratch.put_from(
                to,
                job.buffer.as_ref().expect("a write has data"),
                &(from..from + size(end - start)),
            );
        }
    }

    fn over(
        &mut self,
        id: u32,
        job: &mut Job,
        io: &mut Io<'_>,
        result: Result<(), DeviceError>,
    ) -> Step {
        if let Some(scratch) = job.stage.scratch.take() {
            io.pool.give_back(scratch);
        }
        if let Some(survey) = &mut job.survey {
            survey.collect();
        }
        if std::mem::take(&mut job.stage.locked) {
            self.disks[job.disk as usize].ranges.release(id, &mut self.granted);
        }
        Step::Done(result)
    }

    /// One transfer moved `count` bytes: whether its part is complete. A short one goes on.
    fn moved(&mut self, id: u32, step: u32, job: &mut Job, io: &mut Io<'_>, count: usize) {
        let phase = job.stage.phase;
        let Some(slot) = job.stage.parts.at(step as usize) else { return };
        let Some(part) = slot else { return };
        if count >= part.range.len() {
            if phase == Phase::Body {
                *slot = None;
            }
            return;
        }
        let stuck =
            count == 0 || (self.disks[job.disk as usize].direct && !count.is_multiple_of(ALIGN));
        if stuck || phase == Phase::Edges {
            job.stage.error = Some(DeviceError(libc::EIO));
            return;
        }
        part.offset += count as u64;
        part.range.start += count;
        self.issue_one(id, step, job, io);
    }

    fn stepped(&mut self, name: Name, job: &mut Job, result: i32, io: &mut Io<'_>) -> Step {
        job.stage.pending -= 1;
        job.stage.answered = true;
        match usize::try_from(result) {
            Ok(count) => self.moved(name.job, name.step, job, io, count),
            Err(_) => job.stage.error = job.stage.error.or(Some(DeviceError(-result))),
        }
        if job.stage.pending > 0 {
            return Step::Pending;
        }
        self.next_phase(name.job, job, io)
    }
}

impl<M: Medium> BackEnd for BlockBackEnd<M> {
    fn begin(&mut self, io: &mut Io<'_>) {
        self.media.iter_mut().for_each(|medium| medium.begin(io));
    }

    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let disk = &mut self.disks[job.disk as usize];
        // Front ends have checked it; beyond the end there may be another virtual disk.
        if job.offset.checked_add(job.bytes).is_none_or(|end| end > disk.len) {
            return Step::Done(Err(DeviceError(libc::EINVAL)));
        }
        let changes = matches!(job.kind, Kind::Write | Kind::Zeroes | Kind::Trim);
        if changes && !self.abilities.write {
            return Step::Done(Err(DeviceError(libc::EROFS)));
        }
        if disk.direct && changes {
            let span = blocks(&job.extent());
            let exclusive = span != job.extent();
            job.stage.locked = true;
            if !disk.ranges.acquire(id, span, exclusive) {
                return Step::Pending;
            }
        }
        self.carry_on(id, job, io)
    }

    fn finished(
        &mut self,
        id: u32,
        step: u32,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        let (keep, result) = done;
        drop(keep);
        self.stepped(Name { job: id, step }, job, result, io)
    }

    fn heard(&mut self, what: u32, done: (Keep, i32), io: &mut Io<'_>) {
        // Media that hear something are alone on their device.
        if let Some(medium) = self.media.first_mut() {
            medium.heard(what, done, io);
        }
    }

    fn unblocked(&mut self) -> Option<u32> {
        let granted = self.granted.pop_front().map(Ready::Granted);
        self.next = granted.or_else(|| {
            // Media that answer are alone on their device.
            let (name, result) = self.media.first_mut()?.answer()?;
            Some(Ready::Answered(name, result))
        });
        match self.next {
            Some(Ready::Granted(id) | Ready::Answered(Name { job: id, .. }, _)) => Some(id),
            None => None,
        }
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        match self.next.take() {
            Some(Ready::Granted(_)) => self.carry_on(id, job, io),
            Some(Ready::Answered(name, result)) => self.stepped(name, job, result, io),
            None => Step::Pending,
        }
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn add_disk(&mut self, disk: u32, extent: Range<u64>) -> Result<(), DeviceError> {
        let direct = self.later.ok_or(DeviceError(libc::EOPNOTSUPP))?;
        let at = disk as usize;
        self.disks.resize_with(self.disks.len().max(at + 1), || Disk::new(0, direct, 0, 0));
        self.disks[at] = Disk::new(0, direct, extent.start, extent.end - extent.start);
        Ok(())
    }

    fn add_file(&mut self, disk: u32, bytes: u64, file: PoolFile) -> Result<(), DeviceError> {
        let at = disk as usize;
        if self.later.is_some() {
            return Err(DeviceError(libc::EOPNOTSUPP));
        }
        let (medium, direct) = M::of_file(file).ok_or(DeviceError(libc::EOPNOTSUPP))?;
        // Numbers that are passed over are of streams that have no disk here.
        let none = || Disk::new(NO_MEDIUM, direct, 0, 0);
        self.disks.resize_with(self.disks.len().max(at + 1), none);
        // Each disk has a medium of its own: that of the last one of its number, if there was one.
        let place = self.disks[at].medium.min(self.media.len());
        self.disks[at] = Disk::new(place, direct, 0, bytes);
        if place == self.media.len() {
            self.media.push(medium);
        } else {
            self.media[place] = medium;
        }
        Ok(())
    }

    fn grow_disk(&mut self, disk: u32, bytes: u64) -> Result<(), DeviceError> {
        self.disks[disk as usize].grow(bytes);
        Ok(())
    }

    fn remove_disk(&mut self, disk: u32) {
        let disk = &mut self.disks[disk as usize];
        disk.len = 0;
        if self.later.is_none() {
            self.media[disk.medium].let_go();
        }
    }

    fn migration(&mut self) -> Option<Range<u64>> {
        self.media.first_mut()?.migration()
    }

    fn medium(&self, disk: u32) -> u32 {
        let disk = self.disks.get(disk as usize);
        u32::try_from(disk.map_or(0, |disk| disk.medium)).expect("media are as few as disks")
    }

    fn pool(&self) -> Pool {
        if M::IN_FILES { Pool::for_files() } else { Pool::new() }
    }

    fn lost(&mut self) -> Option<u32> {
        // Media that lose something by themselves are alone on their device.
        self.media.first_mut()?.lost().then_some(0)
    }

    fn begins_anew(&self, job: &Job) -> bool {
        M::ASKS_AGAIN && !job.stage.answered
    }

    fn parts(&self, op: Op, parts: &mut Vec<(Tier, Op)>) {
        if let Some(medium) = self.media.first() {
            medium.parts(op, parts);
        }
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("data are at most 32 MiB")
}
