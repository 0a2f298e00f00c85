//! Requests that clients make, and pieces that go out to the device.
//!
//! Does not know: virtual disks' names, sockets, buffers. Offsets are positions on the *device*.

use crate::types::contract::Class;
use crate::types::ids::{PieceId, RequestId, StreamId};
use crate::types::time::{Duration, Instant};

/// The operation that a request is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes every write completed before it durable; has no extent.
    Flush,
    /// Says that the extent's content is no longer needed.
    Trim,
    /// Writes zeroes without sending them.
    Zeroes,
    /// Asks to read the extent into a cache.
    Cache,
}

impl Kind {
    /// Whether the device has something to bring to its medium for it.
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Zeroes)
    }
}

/// Reads and writes pass apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Reads,
    Writes,
}

impl Direction {
    pub(crate) const COUNT: usize = 2;
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Reads, Self::Writes];

    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Read | Kind::Cache => Self::Reads,
            Kind::Write | Kind::Flush | Kind::Trim | Kind::Zeroes => Self::Writes,
        }
    }
}

/// A request as it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The caller's name for it.
    pub id: RequestId,
    /// The stream whose account it is charged to.
    pub stream: StreamId,
    /// The operation.
    pub kind: Kind,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes; zero for [`Kind::Flush`] only.
    pub bytes: u64,
    /// Durable before it completes.
    pub fua: bool,
    /// A class of its own, if it differs from its stream's.
    pub class: Option<Class>,
    /// When the client wants it done, if it said so.
    pub deadline: Option<Instant>,
}

impl Request {
    /// The longest request: 4 GiB. Fewer than 2^32 requests wait at once, so the sum of their lengths
    /// stays below 2^64. NBD's lengths have 32 bits.
    pub const BYTES_MAX: u64 = 1 << 32;
}

/// A piece of a request that the device shall do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// To be handed back with the completion.
    pub piece: PieceId,
    /// The stream that is charged for it.
    pub stream: StreamId,
    /// Which request it is a piece of; [`RequestId::FLUSH`] stands for a flush of the engine's own, whose completion
    /// is nobody's.
    pub request: RequestId,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// When it is done, the device's write cache is to be flushed before it completes: firm promises
    /// beside it count on an empty one.
    pub flush: bool,
    /// The disk time debited for it.
    pub estimate: Duration,
}

/// How a piece, or a request as a whole, ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// As asked.
    Done,
    /// The device reported an error.
    Failed,
    /// Given up at the caller's wish.
    Cancelled,
}
