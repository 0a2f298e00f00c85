//! Virtual disks in files, one raw file for each or extents of one file or block device, with
//! direct I/O where the file system has it.
//!
//! Direct I/O moves whole blocks. Reads are widened to them; a write whose edges are not on block
//! boundaries reads the blocks at its edges, puts its bytes in and writes them back, under a range
//! lock. Disks are as long as whole blocks, so data never end inside one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use disktime_core::Kind;

use super::{BackEnd, DeviceError, Io, Job, Step, blocks};
use crate::buffers::{ALIGN, Buffer};
use crate::ring::{Keep, Token, Transfer};

mod disk;

use disk::Disk;
pub use disk::OneFile;

const BLOCK: u64 = ALIGN as u64;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// A part of a job that is one transfer.
#[derive(Clone, Debug)]
struct Part {
    /// Where in the file.
    offset: u64,
    /// Where in the memory.
    range: Range<usize>,
    /// The memory is the job's scratch blocks, not its buffer.
    edge: bool,
}

/// Where a job is.
#[derive(Default)]
pub(crate) struct Stage {
    phase: Phase,
    parts: Vec<Option<Part>>,
    /// Operations under way.
    pending: u8,
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
    /// Zeroing by a hole, where the file system can't zero in place.
    Hole,
    /// Allocating again what that freed.
    Refill,
    /// Making it durable.
    Sync,
}

/// Virtual disks in files.
pub struct FileBackEnd {
    disks: Vec<Disk>,
    frees: bool,
    unblocked: VecDeque<u32>,
}

impl FileBackEnd {
    /// Opens or makes `NAME.raw` in the directory for each virtual disk; a file that is too short
    /// is made longer, none is made shorter. Blocks; not to be called on a shard.
    ///
    /// # Errors
    /// If the directory or a file can't be made or opened.
    pub fn open(directory: &Path, disks: &[(&str, u64)]) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let open =
            |(name, size): &(&str, u64)| Disk::open(&directory.join(format!("{name}.raw")), *size);
        let disks = disks.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let frees = disks.iter().all(Disk::can_free);
        Ok(Self { disks, frees, unblocked: VecDeque::new() })
    }

    /// Virtual disks at these extents of one file, each a first byte on a block and a size, none
    /// over another.
    #[must_use]
    pub fn extents(file: &OneFile, extents: &[(u64, u64)]) -> Self {
        let disks: Vec<_> = extents.iter().map(|(base, size)| file.disk(*base, *size)).collect();
        // A block device frees whole sectors only and has no end to try it at: not offered yet.
        let frees = !file.block_device && disks.iter().all(Disk::can_free);
        Self { disks, frees, unblocked: VecDeque::new() }
    }

    fn begin(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let disk = &self.disks[job.disk as usize];
        match job.kind {
            Kind::Read => {
                job.stage.parts = vec![Some(disk.whole(job))];
                self.transfer(id, job, io)
            }
            Kind::Write => {
                let (parts, edges) = disk.write_parts(job);
                job.stage.parts = parts;
                if !edges {
                    return self.transfer(id, job, io);
                }
                job.stage.scratch = Some(io.pool.take(2 * ALIGN));
                job.stage.phase = Phase::Edges;
                self.issue(id, job, io, |part| part.edge);
                Step::Pending
            }
            Kind::Trim => self.free(id, job, io, Phase::Body, PUNCH),
            Kind::Zeroes if job.no_hole => self.free(id, job, io, Phase::Body, ZERO),
            Kind::Zeroes => self.free(id, job, io, Phase::Body, PUNCH),
            Kind::Flush => self.sync(id, job, io),
            Kind::Cache => Step::Done(Ok(())),
        }
    }

    fn transfer(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        job.stage.phase = Phase::Body;
        self.issue(id, job, io, |_| true);
        Step::Pending
    }

    /// Starts the transfers of some of the job's parts.
    fn issue(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>, which: impl Fn(&Part) -> bool) {
        for step in 0..job.stage.parts.len() {
            if job.stage.parts[step].as_ref().is_some_and(&which) {
                self.issue_one(id, u8::try_from(step).expect("three parts"), job, io);
            }
        }
    }

    fn issue_one(&mut self, id: u32, step: u8, job: &mut Job, io: &mut Io<'_>) {
        let part =
            job.stage.parts[step as usize].as_ref().expect("only parts that exist are issued");
        let memory = if part.edge { job.stage.scratch.as_ref() } else { job.buffer.as_ref() };
        let transfer = Transfer {
            fd: self.fd(job),
            offset: self.disks[job.disk as usize].base + part.offset,
            buffer: memory.expect("a part's memory is there while it is moved").clone(),
            range: part.range.clone(),
        };
        let token = Token::Job { job: id, step };
        if job.kind == Kind::Read || job.stage.phase == Phase::Edges {
            io.ring.read(token, transfer);
        } else {
            io.ring.write(token, transfer, job.fua);
        }
        job.stage.pending += 1;
    }

    fn free(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>, phase: Phase, mode: i32) -> Step {
        job.stage.phase = phase;
        job.stage.pending += 1;
        let token = Token::Job { job: id, step: 0 };
        let offset = self.disks[job.disk as usize].base + job.offset;
        io.ring.allocate(token, self.fd(job), offset, job.bytes, mode);
        Step::Pending
    }

    fn sync(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        job.stage.phase = Phase::Sync;
        job.stage.pending += 1;
        io.ring.sync(Token::Job { job: id, step: 0 }, self.fd(job));
        Step::Pending
    }

    /// All operations of a phase are over.
    fn next_phase(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        if let Some(error) = job.stage.error.take() {
            return self.over(id, job, io, Err(error));
        }
        let sparse_zeroes = job.kind == Kind::Zeroes || job.kind == Kind::Trim;
        match job.stage.phase {
            Phase::Edges => {
                self.merge_edges(job);
                self.transfer(id, job, io)
            }
            Phase::Hole => self.free(id, job, io, Phase::Refill, libc::FALLOC_FL_KEEP_SIZE),
            Phase::Body | Phase::Refill if sparse_zeroes && job.fua => self.sync(id, job, io),
            _ => self.over(id, job, io, Ok(())),
        }
    }

    /// Puts a write's bytes into the blocks read for its edges.
    fn merge_edges(&self, job: &mut Job) {
        let extent = job.extent();
        let scratch = job.stage.scratch.as_ref().expect("edges are read into scratch");
        for part in job.stage.parts.iter_mut().flatten().filter(|part| part.edge) {
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
        if std::mem::take(&mut job.stage.locked) {
            self.disks[job.disk as usize].ranges.release(id, &mut self.unblocked);
        }
        Step::Done(result)
    }

    /// One transfer moved `count` bytes: whether its part is complete. A short one goes on.
    fn moved(&mut self, id: u32, step: u8, job: &mut Job, io: &mut Io<'_>, count: usize) {
        let phase = job.stage.phase;
        let Some(part) = job.stage.parts.get_mut(step as usize).and_then(Option::as_mut) else {
            return;
        };
        if count == part.range.len() {
            if phase == Phase::Body {
                job.stage.parts[step as usize] = None;
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

    fn fd(&self, job: &Job) -> RawFd {
        self.disks[job.disk as usize].file.as_raw_fd()
    }
}

impl BackEnd for FileBackEnd {
    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let disk = &mut self.disks[job.disk as usize];
        // Front ends have checked it; beyond the end there may be another virtual disk.
        if job.offset.checked_add(job.bytes).is_none_or(|end| end > disk.len) {
            return Step::Done(Err(DeviceError(libc::EINVAL)));
        }
        if disk.direct && matches!(job.kind, Kind::Write | Kind::Zeroes | Kind::Trim) {
            let span = blocks(&job.extent());
            let exclusive = span != job.extent();
            job.stage.locked = true;
            if !disk.ranges.acquire(id, span, exclusive) {
                return Step::Pending;
            }
        }
        self.begin(id, job, io)
    }

    fn finished(
        &mut self,
        id: u32,
        step: u8,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        job.stage.pending -= 1;
        let result = done.1;
        drop(done);
        match usize::try_from(result) {
            Ok(count) => self.moved(id, step, job, io, count),
            Err(_) if result == -libc::EOPNOTSUPP && job.kind == Kind::Zeroes && job.no_hole => {
                // No ZERO_RANGE here: make a hole and allocate it again.
                return match job.stage.phase {
                    Phase::Body => self.free(id, job, io, Phase::Hole, PUNCH),
                    _ => self.over(id, job, io, Err(DeviceError(libc::EOPNOTSUPP))),
                };
            }
            Err(_) => job.stage.error = Some(DeviceError(-result)),
        }
        if job.stage.pending > 0 {
            return Step::Pending;
        }
        self.next_phase(id, job, io)
    }

    fn unblocked(&mut self) -> Option<u32> {
        self.unblocked.pop_front()
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        self.begin(id, job, io)
    }

    fn frees(&self) -> bool {
        self.frees
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("data are at most 32 MiB")
}

#[cfg(test)]
mod tests;
