//! Names of streams, requests and pieces.

/// Names a stream: the requests of one origin (a virtual disk, an open file, a process).
///
/// Chosen by the caller, dense from zero: it indexes tables of [`crate::Limits::streams_max`] entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u32);

impl core::fmt::Display for StreamId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// Names a request from its arrival to its one completion.
///
/// Chosen by the caller, dense from zero and below [`crate::Limits::requests_max`]: a slot of the
/// caller's own table of operations. It may be used again once the request has completed, was
/// refused or was cancelled while queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u32);

impl RequestId {
    /// No client's request: the engine's own flush of the device's write cache, if [`crate::Config::flushes`].
    pub const FLUSH: Self = Self(u32::MAX);
}

/// Names a piece of a request that is at the device. Given out by the engine, once each:
/// a stale or invented one is told apart by its generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PieceId {
    /// Slot in the engine's table of pieces, below its dispatch depth's maximum.
    pub slot: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
}
