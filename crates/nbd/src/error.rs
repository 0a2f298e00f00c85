//! Errors that a request can fail with, and errors that end a connection.

use core::error::Error;
use core::fmt;

use crate::code::ChunkType;

/// Why a request failed, in the numbers of "Error values".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NbdError {
    /// `EPERM`: the export is read-only or the operation forbidden.
    NotPermitted,
    /// `EIO`: the device failed.
    Io,
    /// `ENOMEM`: the server is out of memory.
    NoMemory,
    /// `EINVAL`: the request makes no sense here.
    Invalid,
    /// `ENOSPC`: no room, or a write past the export's end.
    NoSpace,
    /// `EOVERFLOW`: too long to answer in one chunk.
    Overflow,
    /// `ENOTSUP`: a fast zero that wouldn't be fast.
    NotSupported,
    /// `ESHUTDOWN`: the server is shutting down.
    Shutdown,
}

impl NbdError {
    /// The number on the wire, never 0.
    #[inline]
    #[must_use]
    pub const fn to_wire(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }

    /// The error in a reply's error field: `None` for 0. Numbers without a name count as
    /// [`NbdError::Invalid`], as "Error values" asks.
    #[inline]
    #[must_use]
    pub const fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            1 => Self::NotPermitted,
            5 => Self::Io,
            12 => Self::NoMemory,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::Shutdown,
            _ => Self::Invalid,
        })
    }
}

impl fmt::Display for NbdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPermitted => "operation not permitted",
            Self::Io => "input/output error",
            Self::NoMemory => "the server is out of memory",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space left on the export",
            Self::Overflow => "too long for one reply",
            Self::NotSupported => "operation not supported",
            Self::Shutdown => "the server is shutting down",
        })
    }
}

impl Error for NbdError {}

/// A violation in the transmission phase after which the stream of bytes means nothing any more:
/// the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A request that doesn't begin as one.
    RequestMagic(u32),
    /// A reply that doesn't begin as one, or is of a style that wasn't negotiated.
    ReplyMagic(u32),
    /// A reply to a request that isn't outstanding.
    UnknownCookie(u64),
    /// A simple reply to a read although structured replies were negotiated.
    SimpleReplyToRead {
        /// The read's cookie.
        cookie: u64,
    },
    /// A chunk that isn't known, or doesn't belong to its request's command.
    UnexpectedChunk {
        /// The request's cookie.
        cookie: u64,
        /// The chunk that came.
        chunk: ChunkType,
    },
    /// A chunk whose contents contradict its length, its type or each other.
    MalformedChunk {
        /// The request's cookie.
        cookie: u64,
        /// The chunk that came.
        chunk: ChunkType,
    },
    /// Content outside of the range that was read, or more of it than was asked for.
    OutOfRange {
        /// The request's cookie.
        cookie: u64,
    },
    /// A read that claims success before all of its bytes came.
    ShortRead {
        /// The request's cookie.
        cookie: u64,
    },
    /// More than [`OPEN_REPLIES_MAX`](crate::limits::OPEN_REPLIES_MAX) replies begun, none ended.
    TooManyOpenReplies,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestMagic(magic) => write!(f, "{magic:#010x} doesn't begin a request"),
            Self::ReplyMagic(magic) => write!(f, "{magic:#010x} doesn't begin a reply here"),
            Self::UnknownCookie(cookie) => {
                write!(f, "a reply to cookie {cookie:#x}, which isn't outstanding")
            }
            Self::SimpleReplyToRead { cookie } => {
                write!(f, "a simple reply to read {cookie:#x} despite structured replies")
            }
            Self::UnexpectedChunk { cookie, chunk } => {
                write!(f, "chunk {chunk:?} can't answer request {cookie:#x}")
            }
            Self::MalformedChunk { cookie, chunk } => {
                write!(f, "malformed chunk {chunk:?} for request {cookie:#x}")
            }
            Self::OutOfRange { cookie } => {
                write!(f, "content outside of the range of read {cookie:#x}")
            }
            Self::ShortRead { cookie } => {
                write!(f, "read {cookie:#x} ended before all of its bytes came")
            }
            Self::TooManyOpenReplies => f.write_str("too many replies begun and not ended"),
        }
    }
}

impl Error for ProtocolError {}
