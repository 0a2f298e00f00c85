//! What clients ask for and what goes out to the device.
//!
//! Does not know: virtual disks' names, sockets, buffers. Offsets are positions on the *device*.

use crate::types::contract::Class;
use crate::types::time::{Duration, Instant};

/// Names a stream: the requests of one origin (a virtual disk, an open file, a process).
///
/// Chosen by the caller, dense from zero: it indexes tables of [`crate::Limits::streams_max`] entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// Names a request from its arrival to its one completion.
///
/// Chosen by the caller, dense from zero and below [`crate::Limits::requests_max`]: a slot of the
/// caller's own table of operations. It may be used again once the request has completed, was
/// refused or was cancelled while queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u32);

/// Names a piece of a request that is at the device. Given out by the engine, once each:
/// a stale or invented one is told apart by its generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PieceId {
    /// Slot in the engine's table of pieces, below its dispatch depth's maximum.
    pub slot: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
}

/// What a request does.
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

/// A request as it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The caller's name for it.
    pub id: RequestId,
    /// Whose account it is charged to.
    pub stream: StreamId,
    /// What it does.
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

/// A piece of a request that the device shall do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// To be handed back with the completion.
    pub piece: PieceId,
    /// Which request it is a piece of.
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
