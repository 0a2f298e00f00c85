//! Encoders for replies ("Simple reply message", "Structured reply chunk message").
//!
//! Each returns a small message on the stack; a read's data is sent after its header by the
//! caller, from where it already lies. Nothing here allocates.

use crate::bytes::{Encoded, prefix};
use crate::code::{ChunkType, Command};
use crate::error::NbdError;
use crate::flags::ReplyFlags;
use crate::limits::{ERROR_MESSAGE_BYTES_MAX, READ_BYTES_MAX};
use crate::magic;

/// Length of a simple reply's header in bytes.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a chunk's header in bytes.
pub const CHUNK_HEADER_BYTES: usize = 20;

/// A reply's header: the longest is that of a hole.
pub type HeaderBytes = Encoded<{ CHUNK_HEADER_BYTES + 12 }>;
/// A whole error reply, message and offset included.
pub type ErrorBytes = Encoded<{ CHUNK_HEADER_BYTES + 6 + ERROR_MESSAGE_BYTES_MAX + 8 }>;

/// How a session's reads are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStyle {
    /// One header, then the data.
    Simple,
    /// Chunks; `STRUCTURED_REPLY` was negotiated.
    Structured,
}

/// Whether a chunk ends its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Further chunks with this cookie follow.
    More,
    /// The reply ends here.
    Last,
}

/// The header before the data of a read that succeeded as a whole; `length` bytes of it follow.
///
/// The data must be at hand: after this header nothing can tell the client of an error.
///
/// # Panics
/// If `length` exceeds [`READ_BYTES_MAX`], which [`validate`](crate::RequestHeader::validate)
/// refuses.
#[inline]
#[must_use]
pub fn read_ok_header(style: ReplyStyle, cookie: u64, offset: u64, length: u32) -> HeaderBytes {
    match style {
        ReplyStyle::Simple => simple(0, cookie),
        ReplyStyle::Structured if length == 0 => none(cookie),
        ReplyStyle::Structured => data_chunk_header(Chunk::Last, cookie, offset, length),
    }
}

/// The whole reply to a command that succeeded without data: anything but a read, or a read of
/// no bytes.
#[inline]
#[must_use]
pub fn done(style: ReplyStyle, command: Command, cookie: u64) -> HeaderBytes {
    match (style, command) {
        (ReplyStyle::Structured, Command::Read) => none(cookie),
        _ => simple(0, cookie),
    }
}

/// The whole reply to a command that failed. A structured reply carries `message`, cut to
/// [`ERROR_MESSAGE_BYTES_MAX`]; a simple one can't.
#[must_use]
pub fn error(style: ReplyStyle, cookie: u64, error: NbdError, message: &str) -> ErrorBytes {
    match style {
        ReplyStyle::Simple => simple(error.to_wire(), cookie),
        ReplyStyle::Structured => {
            error_chunk(Chunk::Last, ChunkType::Error, cookie, error, message, &[])
        }
    }
}

/// A chunk that says that a structured read failed at `offset`, counted from the start of the
/// export. Data before it, sent in earlier chunks, stays valid.
#[must_use]
pub fn error_offset_chunk(
    chunk: Chunk,
    cookie: u64,
    error: NbdError,
    offset: u64,
    message: &str,
) -> ErrorBytes {
    let offset = offset.to_be_bytes();
    error_chunk(chunk, ChunkType::ErrorOffset, cookie, error, message, &offset)
}

/// The header before `length` bytes of data of a structured read, at `offset` from the start of the
/// export. `length` isn't 0.
///
/// # Panics
/// If `length` exceeds [`READ_BYTES_MAX`].
#[inline]
#[must_use]
pub fn data_chunk_header(chunk: Chunk, cookie: u64, offset: u64, length: u32) -> HeaderBytes {
    assert!(length <= READ_BYTES_MAX, "a chunk's length field counts its offset too");
    header(chunk, ChunkType::OffsetData, cookie, length + 8).with(&offset.to_be_bytes())
}

/// A whole chunk that says that `length` bytes at `offset` of a structured read are zeroes.
/// `length` isn't 0.
#[must_use]
pub fn hole_chunk(chunk: Chunk, cookie: u64, offset: u64, length: u32) -> HeaderBytes {
    header(chunk, ChunkType::OffsetHole, cookie, 12)
        .with(&offset.to_be_bytes())
        .with(&length.to_be_bytes())
}

/// A whole chunk that ends a structured reply without saying more.
#[inline]
#[must_use]
pub fn none(cookie: u64) -> HeaderBytes {
    header(Chunk::Last, ChunkType::None, cookie, 0)
}

#[inline]
fn simple<const N: usize>(error: u32, cookie: u64) -> Encoded<N> {
    Encoded::new()
        .with(&magic::SIMPLE_REPLY.to_be_bytes())
        .with(&error.to_be_bytes())
        .with(&cookie.to_be_bytes())
}

#[inline]
fn header<const N: usize>(
    chunk: Chunk,
    kind: ChunkType,
    cookie: u64,
    payload_bytes: u32,
) -> Encoded<N> {
    let flags = match chunk {
        Chunk::More => ReplyFlags::EMPTY,
        Chunk::Last => ReplyFlags::DONE,
    };
    Encoded::new()
        .with(&magic::STRUCTURED_REPLY.to_be_bytes())
        .with(&flags.to_wire().to_be_bytes())
        .with(&kind.to_wire().to_be_bytes())
        .with(&cookie.to_be_bytes())
        .with(&payload_bytes.to_be_bytes())
}

fn error_chunk(
    chunk: Chunk,
    kind: ChunkType,
    cookie: u64,
    error: NbdError,
    message: &str,
    offset: &[u8],
) -> ErrorBytes {
    let message = prefix(message, ERROR_MESSAGE_BYTES_MAX).as_bytes();
    let message_length = u16::try_from(message.len()).expect("the longest message fits 16 bits");
    let offset_length = u16::try_from(offset.len()).expect("an offset has 8 bytes");
    let payload_bytes = 6 + u32::from(message_length) + u32::from(offset_length);
    header(chunk, kind, cookie, payload_bytes)
        .with(&error.to_wire().to_be_bytes())
        .with(&message_length.to_be_bytes())
        .with(message)
        .with(offset)
}
