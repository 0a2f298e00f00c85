//! Requests as shards take them, in the terms of no protocol.
//!
//! A front end turns what its clients send into [`Work`], and tells its clients how the work ended
//! in the words of its own protocol. A back end that moves its own data asks for the same work
//! without a client. Does not know: protocols, the engine, the device.

use std::ops::Range;

use disktime_core::Kind;

use crate::backend::DeviceError;
use crate::buffers::ALIGN;

/// One request, or one part of a long request, between a front end and a shard.
#[derive(PartialEq, Eq, Debug)]
pub struct Work {
    /// The asker.
    pub origin: Origin,
    /// The operation.
    pub op: Op,
    /// Bytes on the virtual disk (internal work: on the device); empty where `op` has no range.
    pub range: Range<u64>,
    /// The work is over only once its result is durable.
    pub fua: bool,
}

/// The asker of some work.
#[derive(PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client of a front end, by its key in the shard's table of clients.
    Client {
        /// The client's key.
        client: u32,
        /// The front end's name for the work.
        ticket: Ticket,
    },
    /// A guest, which moves the bytes itself.
    Guest {
        /// The guest.
        guest: u64,
        /// The guest's number for the work.
        request: u32,
    },
    /// The back end itself.
    Internal,
}

/// A front end's name for work that it gave to a shard. The shard hands the ticket back with the
/// work's end, once.
#[derive(PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The request's key in the front end's own table.
    pub(super) request: u32,
    /// Memory that the work holds of its client's account, in bytes.
    pub(super) memory: usize,
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read the range.
    Read,
    /// Write data to the range.
    Write,
    /// Make everything durable that was acknowledged before.
    Flush,
    /// The data of the range are not needed any more.
    Trim,
    /// The range reads as zeroes from now on.
    Zeroes {
        /// The range must stay allocated.
        no_hole: bool,
    },
    /// Tell which bytes of the range were never written; of its start alone, if there is much to tell.
    Status {
        /// The first stretch is all that is wanted.
        one: bool,
    },
    /// Bring the range nearer; for internal work: move the range between tiers.
    Cache,
}

impl Op {
    /// The kind of request that the engine and the back end take it for. A status moves no data, and
    /// takes about as long as freeing: the engine has no kind of its own for it.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Read => Kind::Read,
            Self::Write => Kind::Write,
            Self::Flush => Kind::Flush,
            Self::Trim | Self::Status { .. } => Kind::Trim,
            Self::Zeroes { .. } => Kind::Zeroes,
            Self::Cache => Kind::Cache,
        }
    }

    /// Whether the request or its answer carries data.
    #[must_use]
    pub fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

impl Work {
    /// Length of the range in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Where the work's data are in their buffer; empty at the place of the first byte if the work
    /// has no data.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        place(self.range.start, if self.op.has_data() { self.bytes() } else { 0 })
    }
}

/// Where data of the virtual disk are in their buffer: as far into the buffer's first block as they
/// are into a block of the virtual disk.
///
/// # Panics
/// If there are more bytes than memory can have.
#[must_use]
pub fn place(offset: u64, bytes: u64) -> Range<usize> {
    let start = usize::try_from(offset % ALIGN as u64).expect("below a block");
    start..start + usize::try_from(bytes).expect("data fit into memory")
}

/// Why work was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlockError {
    /// The device failed it.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The virtual disk has as many requests waiting as it may have.
    #[error("the virtual disk's queue is full")]
    QueueFull,
    /// The shard gave it up before the device had done all of it.
    #[error("the request was given up")]
    GivenUp,
    /// The virtual disk was removed before the device had begun it.
    #[error("the virtual disk is removed")]
    Removed,
    /// A flush succeeded, but an earlier failure has lost data that it was to make durable.
    #[error("a flush of this device failed: data acknowledged before may be gone")]
    DataLost,
}

/// Whether a front end takes more requests from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Yes.
    Open,
    /// No; the client's requests are finished and answered, and then its connection is closed.
    Closing,
    /// No; the client's requests are finished and answered, and then its connection leaves for another
    /// process.
    Parting,
    /// The client is gone: nothing can be answered.
    Dead,
}

/// An event that a front end has found in a client's input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A request, which is to be issued.
    Request,
    /// A request that was refused or asks for nothing: its reply is gathered.
    Answered,
    /// Nothing to do now: more bytes, or room, must come first.
    Nothing,
    /// The client wants to go.
    Disconnect,
    /// The client broke its protocol beyond an answer.
    Violation,
}
