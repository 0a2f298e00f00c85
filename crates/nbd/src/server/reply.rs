//! Encoders for replies ("Simple reply message", "Structured reply chunk message", "Extended reply
//! chunk message").
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

/// Length of a chunk's header in bytes, with extended headers.
pub const EXTENDED_CHUNK_HEADER_BYTES: usize = 32;

/// A reply's header: the longest is that of a hole.
pub type HeaderBytes = Encoded<{ EXTENDED_CHUNK_HEADER_BYTES + 12 }>;
/// A whole error reply, message and offset included.
pub type ErrorBytes = Encoded<{ EXTENDED_CHUNK_HEADER_BYTES + 6 + ERROR_MESSAGE_BYTES_MAX + 8 }>;
/// A block status's description of one extent.
pub type ExtentBytes = Encoded<16>;

/// How a session's requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyStyle {
    /// One header, then the data.
    #[default]
    Simple,
    /// Reads in chunks; `STRUCTURED_REPLY` was negotiated.
    Structured,
    /// Every request in chunks with 64-bit lengths; `EXTENDED_HEADERS` was negotiated.
    Extended,
}

/// A request as its reply names it, and the style of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The session's.
    pub style: ReplyStyle,
    /// The request's.
    pub cookie: u64,
    /// The request's first byte; extended headers repeat it.
    pub offset: u64,
}

impl ReplyTo {
    /// The header before the data of a read that succeeded as a whole; `length` bytes of it follow.
    ///
    /// The data must be at hand: after this header nothing can tell the client of an error.
    ///
    /// # Panics
    /// If `length` exceeds [`READ_BYTES_MAX`], which [`validate`](crate::RequestHeader::validate)
    /// refuses.
    #[inline]
    #[must_use]
    pub fn read_ok_header(self, length: u32) -> HeaderBytes {
        match self.style {
            ReplyStyle::Simple => simple(0, self.cookie),
            _ if length == 0 => self.none(),
            _ => self.data_chunk_header(Chunk::Last, self.offset, length),
        }
    }

    /// The whole reply to a command that succeeded without data: anything but a read or a block
    /// status, or a read of no bytes.
    #[inline]
    #[must_use]
    pub fn done(self, command: Command) -> HeaderBytes {
        match (self.style, command) {
            (ReplyStyle::Structured, Command::Read) | (ReplyStyle::Extended, _) => self.none(),
            _ => simple(0, self.cookie),
        }
    }

    /// The whole reply to a command that failed. A chunk carries `message`, cut to
    /// [`ERROR_MESSAGE_BYTES_MAX`]; a simple reply can't.
    #[must_use]
    pub fn error(self, error: NbdError, message: &str) -> ErrorBytes {
        match self.style {
            ReplyStyle::Simple => simple(error.to_wire(), self.cookie),
            _ => self.error_chunk(Chunk::Last, ChunkType::Error, error, message, &[]),
        }
    }

    /// The header before `length` bytes of data of a read, at `offset` from the start of the
    /// export. `length` isn't 0.
    ///
    /// # Panics
    /// If `length` exceeds [`READ_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub fn data_chunk_header(self, chunk: Chunk, offset: u64, length: u32) -> HeaderBytes {
        assert!(length <= READ_BYTES_MAX, "a chunk's length field counts its offset too");
        self.header(chunk, ChunkType::OffsetData, length + 8).with(&offset.to_be_bytes())
    }

    /// The header before the description of `count` extents in a metadata context, each an
    /// [`extent`](Self::extent). The first one begins at the request's offset.
    ///
    /// # Panics
    /// If there are more extents than a chunk's length can count.
    #[must_use]
    pub fn status_header(self, chunk: Chunk, context: u32, count: u32) -> HeaderBytes {
        let bytes = |each| count.checked_mul(each).expect("a reply's extents are bounded");
        let context = context.to_be_bytes();
        if self.style == ReplyStyle::Extended {
            let header = self.header(chunk, ChunkType::BlockStatusExt, bytes(16) + 8);
            return header.with(&context).with(&count.to_be_bytes());
        }
        self.header(chunk, ChunkType::BlockStatus, bytes(8) + 4).with(&context)
    }

    /// One extent of a block status: its length in bytes and its state, in the context's terms.
    ///
    /// # Panics
    /// If a length has more than 32 bits without extended headers: within a request none has.
    #[must_use]
    pub fn extent(self, length: u64, state: u32) -> ExtentBytes {
        if self.style == ReplyStyle::Extended {
            let state = u64::from(state).to_be_bytes();
            return Encoded::new().with(&length.to_be_bytes()).with(&state);
        }
        let length = u32::try_from(length).expect("a compact request's length has 32 bits");
        Encoded::new().with(&length.to_be_bytes()).with(&state.to_be_bytes())
    }

    /// A whole chunk that ends a reply without saying more.
    #[inline]
    #[must_use]
    pub fn none(self) -> HeaderBytes {
        self.header(Chunk::Last, ChunkType::None, 0)
    }

    #[inline]
    fn header<const N: usize>(self, chunk: Chunk, kind: ChunkType, bytes: u32) -> Encoded<N> {
        let flags = match chunk {
            Chunk::More => ReplyFlags::EMPTY,
            Chunk::Last => ReplyFlags::DONE,
        };
        let extended = self.style == ReplyStyle::Extended;
        let magic = if extended { magic::EXTENDED_REPLY } else { magic::STRUCTURED_REPLY };
        let header = Encoded::new()
            .with(&magic.to_be_bytes())
            .with(&flags.to_wire().to_be_bytes())
            .with(&kind.to_wire().to_be_bytes())
            .with(&self.cookie.to_be_bytes());
        if extended {
            return header.with(&self.offset.to_be_bytes()).with(&u64::from(bytes).to_be_bytes());
        }
        header.with(&bytes.to_be_bytes())
    }

    fn error_chunk(
        self,
        chunk: Chunk,
        kind: ChunkType,
        error: NbdError,
        message: &str,
        offset: &[u8],
    ) -> ErrorBytes {
        let message = prefix(message, ERROR_MESSAGE_BYTES_MAX).as_bytes();
        let length = u16::try_from(message.len()).expect("the longest message fits 16 bits");
        let offset_length = u16::try_from(offset.len()).expect("an offset has 8 bytes");
        let payload_bytes = 6 + u32::from(length) + u32::from(offset_length);
        self.header(chunk, kind, payload_bytes)
            .with(&error.to_wire().to_be_bytes())
            .with(&length.to_be_bytes())
            .with(message)
            .with(offset)
    }
}

/// Whether a chunk ends its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Further chunks with this cookie follow.
    More,
    /// The reply ends here.
    Last,
}

/// As [`ReplyTo::read_ok_header`].
///
/// # Panics
/// As there.
#[inline]
#[must_use]
pub fn read_ok_header(style: ReplyStyle, cookie: u64, offset: u64, length: u32) -> HeaderBytes {
    ReplyTo { style, cookie, offset }.read_ok_header(length)
}

/// As [`ReplyTo::done`], without extended headers.
#[inline]
#[must_use]
pub fn done(style: ReplyStyle, command: Command, cookie: u64) -> HeaderBytes {
    ReplyTo { style, cookie, offset: 0 }.done(command)
}

/// As [`ReplyTo::error`], without extended headers.
#[must_use]
pub fn error(style: ReplyStyle, cookie: u64, error: NbdError, message: &str) -> ErrorBytes {
    ReplyTo { style, cookie, offset: 0 }.error(error, message)
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
    structured(cookie).error_chunk(chunk, ChunkType::ErrorOffset, error, message, &offset)
}

/// As [`ReplyTo::data_chunk_header`], of a structured reply.
///
/// # Panics
/// As there.
#[inline]
#[must_use]
pub fn data_chunk_header(chunk: Chunk, cookie: u64, offset: u64, length: u32) -> HeaderBytes {
    structured(cookie).data_chunk_header(chunk, offset, length)
}

/// A whole chunk that says that `length` bytes at `offset` of a structured read are zeroes.
/// `length` isn't 0.
#[must_use]
pub fn hole_chunk(chunk: Chunk, cookie: u64, offset: u64, length: u32) -> HeaderBytes {
    structured(cookie)
        .header(chunk, ChunkType::OffsetHole, 12)
        .with(&offset.to_be_bytes())
        .with(&length.to_be_bytes())
}

/// As [`ReplyTo::none`], of a structured reply.
#[inline]
#[must_use]
pub fn none(cookie: u64) -> HeaderBytes {
    structured(cookie).none()
}

#[inline]
fn structured(cookie: u64) -> ReplyTo {
    ReplyTo { style: ReplyStyle::Structured, cookie, offset: 0 }
}

#[inline]
fn simple<const N: usize>(error: u32, cookie: u64) -> Encoded<N> {
    Encoded::new()
        .with(&magic::SIMPLE_REPLY.to_be_bytes())
        .with(&error.to_be_bytes())
        .with(&cookie.to_be_bytes())
}
