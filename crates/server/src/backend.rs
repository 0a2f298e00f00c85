//! Back ends: what stores a device's bytes.
//!
//! A shard hands a back end *jobs* (pieces that the engine dispatched, in a virtual disk's own
//! bytes). A job is done at once or later, through operations on the shard's ring.

use std::fmt;
use std::ops::Range;

use disktime_core::{Kind, Tier};
use disktime_model::Op;

use crate::buffers::{ALIGN, Buffer, Pool};
use crate::ring::{Keep, Payload, Ring};

mod blocks;
pub mod delayed;
pub mod faulty;
mod file;
mod kind;
mod memory;
mod nbd;
mod ranges;
mod survey;
mod tiers;
pub mod traced;
pub mod volatile;

pub use crate::served_file::PoolFile;
pub use blocks::BlockBackEnd;
pub(crate) use file::at;
pub use file::pool::{
    CloneError, GrowingPool, IDENTITY, PoolClone, PoolDirectory, PoolDisk, PoolError, SeenPool,
    make_image, nothing_was_at,
};
pub use file::{FileBackEnd, OneFile};
pub use kind::{BackEndKind, CHUNK_DEFAULT, check_chunk};
pub use memory::MemoryBackEnd;
pub use nbd::{Export, NbdBackEnd};
pub(crate) use survey::push as push_stretch;
pub use survey::{EXTENTS_MAX, Stretch, Survey};
pub use tiers::{TieredBackEnd, TwoTiers};

/// A piece at a back end.
pub struct Job {
    /// Which virtual disk, by its place on the device.
    pub disk: u32,
    /// The operation.
    pub kind: Kind,
    /// First byte in the virtual disk.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Durable before it is done.
    pub fua: bool,
    /// Zeroes must stay allocated.
    pub no_hole: bool,
    /// The data of a read or write.
    pub buffer: Option<Buffer>,
    /// Where in the buffer the first byte is: at `offset`'s place in its aligned block, plus
    /// whole blocks.
    pub at: usize,
    /// A [`Kind::Cache`] that has one does not bring its extent nearer: it describes it here.
    pub survey: Option<Box<Survey>>,
    /// The back end's own state between steps.
    pub(crate) stage: blocks::Stage,
}

impl Job {
    /// A job about to start.
    #[must_use]
    pub fn new(disk: u32, kind: Kind, offset: u64, bytes: u64) -> Self {
        Self {
            disk,
            kind,
            offset,
            bytes,
            fua: false,
            no_hole: false,
            buffer: None,
            at: 0,
            survey: None,
            stage: blocks::Stage::default(),
        }
    }

    /// Its bytes in the virtual disk.
    #[must_use]
    pub fn extent(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// Its bytes in the buffer.
    fn in_buffer(&self) -> Range<usize> {
        self.at..self.at + usize::try_from(self.bytes).expect("data are at most 32 MiB")
    }

    fn data(&self) -> &Buffer {
        self.buffer.as_ref().expect("reads and writes come with a buffer")
    }
}

/// Why a device did not do as asked: an error number of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceError(pub i32);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for DeviceError {}

/// Where a job stands after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Operations are under way, or it waits for another job.
    Pending,
    /// It is over; nothing of it is under way.
    Done(Result<(), DeviceError>),
}

/// The resources that a back end works with.
pub struct Io<'a> {
    /// Where operations go; their token is [`crate::ring::Token::Job`].
    pub ring: &'a mut Ring,
    /// Where scratch memory comes from.
    pub pool: &'a mut Pool,
}

/// Operations that a back end supports beside reads and flushes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Anything that changes bytes.
    pub write: bool,
    /// Freeing extents.
    pub trim: bool,
    /// Zeroing them without data.
    pub zero: bool,
    /// Zeroing is never as slow as writing zeroes.
    pub fast_zero: bool,
    /// Bringing extents nearer.
    pub cache: bool,
    /// Telling extents that were never written: [`Job::survey`].
    pub survey: bool,
}

impl Abilities {
    /// Reads and writes alone.
    pub const PLAIN: Self = Self {
        write: true,
        trim: false,
        zero: false,
        fast_zero: false,
        cache: false,
        survey: false,
    };

    /// Everything that changes bytes, or everything but freeing and zeroing.
    #[must_use]
    pub const fn all(frees: bool) -> Self {
        Self { trim: frees, zero: frees, ..Self::PLAIN }
    }

    /// The same for files: a hole is punched at once, and is told of.
    #[must_use]
    pub const fn of_files(frees: bool) -> Self {
        Self { fast_zero: frees, survey: true, ..Self::all(frees) }
    }
}

/// Stores bytes. Called on the shard's thread alone, and never blocks.
pub trait BackEnd {
    /// Called once, before anything else: what waits from the start (for a server's replies, say)
    /// goes to the ring.
    fn begin(&mut self, _io: &mut Io<'_>) {}
    /// Begins a job under a name that is not in use.
    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step;
    /// Where a disk's bytes are, all of an extent in one piece, if the back end has them in memory:
    /// a read is then answered from there, and its job has this memory as its buffer. A write may
    /// change the bytes until they are sent, as it may change what a read finds that it is
    /// concurrent with: until the reply to a read is there, both are under way.
    fn lend(&self, _disk: u32, _extent: &Range<u64>) -> Option<Payload> {
        None
    }
    /// An operation of the job is over: its memory and its result.
    fn finished(
        &mut self,
        id: u32,
        step: u32,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step;
    /// An operation of no one job ([`crate::ring::Token::BackEnd`]) is over.
    fn heard(&mut self, _what: u32, _done: (Keep, i32), _io: &mut Io<'_>) {}
    /// A job that waited for another job, or for something [`heard`](Self::heard), and can go on.
    /// The caller asks again after every call until there is none, and calls
    /// [`resume`](Self::resume) after each that it is told.
    fn unblocked(&mut self) -> Option<u32>;
    /// Goes on with the job that was named last.
    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step;
    /// The operations that it supports.
    fn abilities(&self) -> Abilities;
    /// A pool for its data: one with an arena where the ring moves them between buffers and files.
    fn pool(&self) -> Pool {
        Pool::new()
    }
    /// Takes in a virtual disk under a number that no disk has: an extent of the device, over no
    /// other disk's. The caller sees to it that the device is as large.
    ///
    /// # Errors
    /// If the back end takes none in while it runs: then nothing has changed.
    fn add_disk(&mut self, _disk: u32, _extent: Range<u64>) -> Result<(), DeviceError> {
        Err(DeviceError(libc::EOPNOTSUPP))
    }
    /// Takes in a virtual disk of so many bytes that has a file of its own, under a number that no
    /// disk has.
    ///
    /// # Errors
    /// If disks of this back end have no files of their own: then nothing has changed.
    fn add_file(&mut self, _disk: u32, _bytes: u64, _file: PoolFile) -> Result<(), DeviceError> {
        Err(DeviceError(libc::EOPNOTSUPP))
    }
    /// A virtual disk has so many bytes from now on, no fewer than before; what lies behind it is no
    /// other disk's. The caller sees to it that the device is as large.
    ///
    /// # Errors
    /// If the back end can't while it runs: then nothing has changed.
    fn grow_disk(&mut self, _disk: u32, _bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError(libc::EOPNOTSUPP))
    }
    /// A virtual disk goes, of which no job is under way. Its number may be another one's from now on.
    fn remove_disk(&mut self, _disk: u32) {}
    /// Something of its own that it wants done in time that nobody else wants: an extent of the
    /// device, to be handed back in a [`Kind::Cache`] of the disk after the last, whole or in
    /// pieces in their order. A caller that asks again has given the last one up, or is done with
    /// it.
    fn migration(&mut self) -> Option<Range<u64>> {
        None
    }
    /// The medium that a virtual disk lies on: virtual disks on one medium are made durable
    /// together, and a failure there concerns them all. All are on one unless the back end says
    /// otherwise.
    fn medium(&self, _disk: u32) -> u32 {
        0
    }
    /// A medium that may have lost what was acknowledged and not flushed, by something that is no
    /// job's failure. The caller asks after each call, once nothing is [`unblocked`](Self::unblocked)
    /// any more, until there is none.
    fn lost(&mut self) -> Option<u32> {
        None
    }
    /// Whether a job that is under way at a [loss](Self::lost) is done after it, all of it: its part in
    /// the loss is none.
    fn begins_anew(&self, _job: &Job) -> bool {
        false
    }
    /// Appends where the parts of an operation on the device would go now, if there are tiers.
    fn parts(&self, _op: Op, _parts: &mut Vec<(Tier, Op)>) {}
}

/// The whole blocks that an extent touches.
fn blocks(extent: &Range<u64>) -> Range<u64> {
    let block = ALIGN as u64;
    extent.start / block * block..extent.end.div_ceil(block) * block
}
