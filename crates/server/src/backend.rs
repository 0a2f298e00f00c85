//! Back ends: what stores a device's bytes.
//!
//! A shard hands a back end *jobs* (pieces that the engine dispatched, in a virtual disk's own
//! bytes). A job is done at once or later, through operations on the shard's ring.

use std::fmt;
use std::ops::Range;

use disktime_core::Kind;
use disktime_nbd::NbdError;

use crate::buffers::{ALIGN, Buffer, Pool};
use crate::ring::{Keep, Ring};

pub mod faulty;
mod file;
mod memory;
mod ranges;

pub use file::{FileBackEnd, OneFile};
pub use memory::MemoryBackEnd;

/// The back ends there are: `memory`, or `file:PATH`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackEndKind {
    /// Contents in this process's memory, gone when it ends.
    Memory,
    /// Extents of a regular file or block device; or one raw file per virtual disk in a directory,
    /// which is made if nothing is there.
    File(std::path::PathBuf),
}

impl std::str::FromStr for BackEndKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(format!(
                "`{text}` is no back end: use `memory`, or `file:PATH` of a directory, a \
                 regular file or a block device"
            )),
        }
    }
}

/// A piece at a back end.
pub struct Job {
    /// Which virtual disk, by its place on the device.
    pub disk: u32,
    /// What to do.
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
    /// What the back end remembers between steps.
    pub(crate) stage: file::Stage,
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
            stage: file::Stage::default(),
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

impl DeviceError {
    /// What an NBD client is told.
    #[must_use]
    pub fn to_nbd(self) -> NbdError {
        match self.0 {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => NbdError::NoSpace,
            libc::ENOMEM => NbdError::NoMemory,
            libc::EPERM | libc::EACCES | libc::EROFS => NbdError::NotPermitted,
            libc::EOPNOTSUPP => NbdError::NotSupported,
            _ => NbdError::Io,
        }
    }
}

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

/// What a back end works with.
pub struct Io<'a> {
    /// Where operations go; their token is [`crate::ring::Token::Job`].
    pub ring: &'a mut Ring,
    /// Where scratch memory comes from.
    pub pool: &'a mut Pool,
}

/// Stores bytes. Called on the shard's thread alone, and never blocks.
pub trait BackEnd {
    /// Begins a job under a name that is not in use.
    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step;
    /// An operation of the job is over: its memory and its result.
    fn finished(
        &mut self,
        id: u32,
        step: u8,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step;
    /// A job that waited for another and can go on, with [`resume`](Self::resume).
    fn unblocked(&mut self) -> Option<u32>;
    /// Goes on with an unblocked job.
    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step;
    /// Whether it can free extents (trim) and zero them without data.
    fn frees(&self) -> bool;
}

/// The whole blocks that an extent touches.
fn blocks(extent: &Range<u64>) -> Range<u64> {
    let block = ALIGN as u64;
    extent.start / block * block..extent.end.div_ceil(block) * block
}
