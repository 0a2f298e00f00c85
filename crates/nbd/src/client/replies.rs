//! The client's half of the transmission phase: finding replies in a stream of bytes
//! ("Simple reply message", "Structured reply chunk message").
//!
//! The parser knows what was asked only through its caller, and keeps nothing of a read's data.
//! It checks that content lies in the range that was asked for, and that as many bytes came as
//! were asked for; that no two chunks of one reply overlap is not checked.

use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::code::{ChunkType, Command};
use crate::error::{NbdError, ProtocolError};
use crate::flags::ReplyFlags;
use crate::limits::{ERROR_PAYLOAD_BYTES_MAX, OPEN_REPLIES_MAX};
use crate::magic;
use crate::server::reply::{CHUNK_HEADER_BYTES, ReplyStyle, SIMPLE_REPLY_BYTES};

/// A request that waits for its reply, as its sender remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The command that was asked.
    pub command: Command,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

/// A reply, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyEvent<'a> {
    /// Data of a read, inside the range that was asked for. Not to be trusted before `Done`.
    Data {
        /// The read.
        cookie: u64,
        /// Where the bytes belong, counted from the start of the export.
        offset: u64,
        /// A fragment of the data, as much as was in the input.
        bytes: &'a [u8],
    },
    /// A part of a read, inside the range that was asked for, that is all zeroes.
    Hole {
        /// The read.
        cookie: u64,
        /// Where the zeroes belong, counted from the start of the export.
        offset: u64,
        /// How many, in bytes; not 0.
        length: u32,
    },
    /// An extent of a block status, behind the one before it; the first begins at the request's
    /// offset, and the last may end behind the request's range. As many may come as a server likes:
    /// a caller keeps what it wants.
    Extent {
        /// The block status.
        cookie: u64,
        /// The extent's length in bytes; not 0.
        length: u32,
        /// Its state, in the terms of the metadata context.
        state: u32,
    },
    /// The reply is complete; its cookie is free again. A read that succeeded got all its bytes.
    Done {
        /// The request.
        cookie: u64,
        /// How it went.
        result: Result<(), NbdError>,
    },
}

/// Finds replies in the bytes that a server sends.
///
/// Hand input to [`poll`](Self::poll) until it returns no event; then read more.
#[derive(Debug)]
pub struct ReplyParser {
    style: ReplyStyle,
    state: State,
    /// The message whose bytes are still arriving.
    partial: [u8; MESSAGE_BYTES_MAX],
    partial_length: usize,
    /// Structured replies of which some chunk came but not the last. Servers seldom interleave
    /// replies, so this holds an entry or two, and a search is a glance.
    open: Vec<OpenReply>,
}

/// The longest run of bytes that is looked at as a whole: a chunk's header after its magic.
const MESSAGE_BYTES_MAX: usize = CHUNK_HEADER_BYTES - MAGIC_BYTES;
const MAGIC_BYTES: usize = 4;
/// An extent of a block status.
const EXTENT_BYTES: usize = 8;
const EXTENT_BYTES_U32: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum State {
    /// The first four bytes, which tell the styles apart.
    Magic,
    /// The rest of a simple reply.
    Simple,
    /// The rest of a chunk's header.
    ChunkHeader,
    /// The fields at the front of a chunk's payload, `bytes` long.
    ChunkFields(ChunkHeader, usize),
    /// Data of a read, on its way to the caller.
    Data { cookie: u64, offset: u64, bytes_left: u32, last: bool },
    /// Extents of a block status.
    Extents { cookie: u64, bytes_left: u32, last: bool },
    /// The rest of an error chunk: text and fields that nobody here reads.
    Skip { cookie: u64, bytes_left: u32, last: bool },
    /// The stream makes no sense any more.
    Broken(ProtocolError),
}

#[derive(Clone, Copy, Debug)]
struct ChunkHeader {
    chunk: ChunkType,
    cookie: u64,
    asked: Pending,
    payload_bytes: u32,
    last: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenReply {
    cookie: u64,
    /// Bytes of a read that haven't come.
    missing_bytes: u32,
    error: Option<NbdError>,
}

impl ReplyParser {
    /// A parser at the start of the transmission phase, for what the handshake agreed.
    #[must_use]
    pub fn new(style: ReplyStyle) -> Self {
        Self {
            style,
            state: State::Magic,
            partial: [0; MESSAGE_BYTES_MAX],
            partial_length: 0,
            open: Vec::new(),
        }
    }

    /// Takes bytes off the front of `input` up to the next event. Returns how many were consumed,
    /// and the event; without one, all of `input` was consumed and more is needed.
    ///
    /// `pending` names the request that waits under a cookie; it is asked once for each reply or
    /// chunk, and must know a cookie until its `Done`. One call copies at most one header and
    /// never data.
    ///
    /// # Errors
    /// The connection must be closed. Every later call returns the same error.
    pub fn poll<'a>(
        &mut self,
        input: &'a [u8],
        pending: impl Fn(u64) -> Option<Pending>,
    ) -> Result<(usize, Option<ReplyEvent<'a>>), ProtocolError> {
        let mut rest = input;
        match self.advance(&mut rest, &pending) {
            Ok(event) => Ok((input.len() - rest.len(), event)),
            Err(error) => {
                self.state = State::Broken(error);
                self.open = Vec::new();
                Err(error)
            }
        }
    }

    /// Every turn of the loop consumes input, or moves on to a state that does or returns.
    fn advance<'a>(
        &mut self,
        input: &mut &'a [u8],
        pending: &impl Fn(u64) -> Option<Pending>,
    ) -> Result<Option<ReplyEvent<'a>>, ProtocolError> {
        loop {
            match self.state {
                State::Magic => {
                    let Some(bytes) = self.message::<MAGIC_BYTES>(input) else { return Ok(None) };
                    self.state = self.magic(u32::from_be_bytes(bytes))?;
                }
                State::Simple => {
                    let Some(bytes) = self.message::<{ SIMPLE_REPLY_BYTES - MAGIC_BYTES }>(input)
                    else {
                        return Ok(None);
                    };
                    self.state = self.simple(&bytes, pending)?;
                }
                State::ChunkHeader => {
                    let Some(bytes) = self.message::<{ CHUNK_HEADER_BYTES - MAGIC_BYTES }>(input)
                    else {
                        return Ok(None);
                    };
                    self.state = self.chunk_header(&bytes, pending)?;
                }
                State::ChunkFields(header, length) => {
                    if !self.fill(length, input) {
                        return Ok(None);
                    }
                    self.partial_length = 0;
                    if let Some(hole) = self.chunk_fields(header)? {
                        return Ok(Some(hole));
                    }
                }
                State::Data { bytes_left: 0, cookie, last, .. }
                | State::Extents { bytes_left: 0, cookie, last }
                | State::Skip { bytes_left: 0, cookie, last } => {
                    self.state = State::Magic;
                    if last {
                        let result = self.close(cookie)?;
                        return Ok(Some(ReplyEvent::Done { cookie, result }));
                    }
                }
                State::Data { cookie, offset, bytes_left, last } => {
                    let (bytes, length) = split(input, bytes_left);
                    if length == 0 {
                        return Ok(None);
                    }
                    let (next, bytes_left) =
                        (offset.wrapping_add(length.into()), bytes_left - length);
                    self.state = State::Data { cookie, offset: next, bytes_left, last };
                    return Ok(Some(ReplyEvent::Data { cookie, offset, bytes }));
                }
                State::Extents { cookie, bytes_left, last } => {
                    let Some(bytes) = self.message::<EXTENT_BYTES>(input) else { return Ok(None) };
                    let left = bytes_left.saturating_sub(EXTENT_BYTES_U32);
                    self.state = State::Extents { cookie, bytes_left: left, last };
                    return extent(cookie, &bytes).map(Some);
                }
                State::Skip { cookie, bytes_left, last } => {
                    let (_, length) = split(input, bytes_left);
                    if length == 0 {
                        return Ok(None);
                    }
                    self.state = State::Skip { cookie, bytes_left: bytes_left - length, last };
                }
                State::Broken(error) => return Err(error),
            }
        }
    }

    fn magic(&self, magic: u32) -> Result<State, ProtocolError> {
        match (magic, self.style) {
            (magic::SIMPLE_REPLY, _) => Ok(State::Simple),
            (magic::STRUCTURED_REPLY, ReplyStyle::Structured) => Ok(State::ChunkHeader),
            _ => Err(ProtocolError::ReplyMagic(magic)),
        }
    }

    fn simple(
        &mut self,
        bytes: &[u8; SIMPLE_REPLY_BYTES - MAGIC_BYTES],
        pending: &impl Fn(u64) -> Option<Pending>,
    ) -> Result<State, ProtocolError> {
        let mut fields = Cursor(bytes);
        let (Some(error), Some(cookie)) = (fields.u32(), fields.u64()) else {
            return Err(ProtocolError::ReplyMagic(0));
        };
        let asked = pending(cookie).ok_or(ProtocolError::UnknownCookie(cookie))?;
        if self.style == ReplyStyle::Structured && asked.command == Command::Read {
            return Err(ProtocolError::SimpleReplyToRead { cookie });
        }
        let reply = self.begin(cookie, asked)?;
        reply.error = reply.error.or(NbdError::from_wire(error));
        let bytes_left = if error == 0 { core::mem::take(&mut reply.missing_bytes) } else { 0 };
        Ok(State::Data { cookie, offset: asked.offset, bytes_left, last: true })
    }

    fn chunk_header(
        &mut self,
        bytes: &[u8; CHUNK_HEADER_BYTES - MAGIC_BYTES],
        pending: &impl Fn(u64) -> Option<Pending>,
    ) -> Result<State, ProtocolError> {
        let mut fields = Cursor(bytes);
        let (Some(flags), Some(kind), Some(cookie), Some(payload_bytes)) =
            (fields.u16(), fields.u16(), fields.u64(), fields.u32())
        else {
            return Err(ProtocolError::ReplyMagic(0));
        };
        let last = ReplyFlags::from_wire(flags).contains(ReplyFlags::DONE);
        let chunk = ChunkType::from_wire(kind);
        let asked = pending(cookie).ok_or(ProtocolError::UnknownCookie(cookie))?;
        self.begin(cookie, asked)?;
        let is_read = asked.command == Command::Read;
        let (fields_bytes, well_formed) = match chunk {
            ChunkType::None => (0, payload_bytes == 0 && last),
            ChunkType::OffsetData if is_read => (8, payload_bytes > 8),
            ChunkType::OffsetHole if is_read => (12, payload_bytes == 12),
            ChunkType::BlockStatus if asked.command == Command::BlockStatus => {
                let extents = payload_bytes.saturating_sub(4);
                (4, extents > 0 && extents.is_multiple_of(EXTENT_BYTES_U32))
            }
            _ if chunk.is_error() => (6, (6..=ERROR_PAYLOAD_BYTES_MAX).contains(&payload_bytes)),
            _ => return Err(ProtocolError::UnexpectedChunk { cookie, chunk }),
        };
        if !well_formed {
            return Err(ProtocolError::MalformedChunk { cookie, chunk });
        }
        let header = ChunkHeader { chunk, cookie, asked, payload_bytes, last };
        Ok(State::ChunkFields(header, fields_bytes))
    }

    /// Looks at the fields at the front of a chunk's payload. Only a hole is an event as soon as
    /// its fields are here; other chunks need their data.
    fn chunk_fields(
        &mut self,
        header: ChunkHeader,
    ) -> Result<Option<ReplyEvent<'static>>, ProtocolError> {
        let ChunkHeader { chunk, cookie, asked, payload_bytes, last } = header;
        let malformed = ProtocolError::MalformedChunk { cookie, chunk };
        let partial = self.partial;
        let mut fields = Cursor(&partial);
        self.state = State::Skip { cookie, bytes_left: 0, last };
        match chunk {
            ChunkType::None => Ok(None),
            ChunkType::OffsetData => {
                let offset = fields.u64().ok_or(malformed)?;
                let bytes_left = payload_bytes.checked_sub(8).ok_or(malformed)?;
                self.claim(cookie, asked, offset, bytes_left)?;
                self.state = State::Data { cookie, offset, bytes_left, last };
                Ok(None)
            }
            ChunkType::OffsetHole => {
                let offset = fields.u64().ok_or(malformed)?;
                let length = fields.u32().filter(|length| *length > 0).ok_or(malformed)?;
                self.claim(cookie, asked, offset, length)?;
                Ok(Some(ReplyEvent::Hole { cookie, offset, length }))
            }
            // One context is chosen, so its identifier says nothing.
            ChunkType::BlockStatus => {
                let bytes_left = payload_bytes.checked_sub(4).ok_or(malformed)?;
                self.state = State::Extents { cookie, bytes_left, last };
                Ok(None)
            }
            _ => {
                let error = fields.u32().and_then(NbdError::from_wire).ok_or(malformed)?;
                let message_bytes = fields.u16().ok_or(malformed)?;
                let tail_bytes = if chunk == ChunkType::ErrorOffset { 8 } else { 0 };
                let bytes_left = payload_bytes.checked_sub(6).ok_or(malformed)?;
                if u32::from(message_bytes) + tail_bytes > bytes_left {
                    return Err(malformed);
                }
                let reply = self.begin(cookie, asked)?;
                reply.error = reply.error.or(Some(error));
                self.state = State::Skip { cookie, bytes_left, last };
                Ok(None)
            }
        }
    }

    /// Takes content off what a read still misses.
    fn claim(
        &mut self,
        cookie: u64,
        asked: Pending,
        offset: u64,
        length: u32,
    ) -> Result<(), ProtocolError> {
        let inside = offset
            .checked_sub(asked.offset)
            .and_then(|start| start.checked_add(length.into()))
            .is_some_and(|end| end <= asked.length.into());
        let reply = self.begin(cookie, asked)?;
        match reply.missing_bytes.checked_sub(length) {
            Some(missing_bytes) if inside => reply.missing_bytes = missing_bytes,
            _ => return Err(ProtocolError::OutOfRange { cookie }),
        }
        Ok(())
    }

    /// The account of a reply that has begun, now if not before.
    fn begin(&mut self, cookie: u64, asked: Pending) -> Result<&mut OpenReply, ProtocolError> {
        let at = match self.open.iter().position(|reply| reply.cookie == cookie) {
            Some(at) => at,
            None if self.open.len() == OPEN_REPLIES_MAX => {
                return Err(ProtocolError::TooManyOpenReplies);
            }
            None => {
                let missing_bytes = if asked.command == Command::Read { asked.length } else { 0 };
                self.open.push(OpenReply { cookie, missing_bytes, error: None });
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[at])
    }

    /// Settles the account of a reply whose last byte was taken.
    fn close(&mut self, cookie: u64) -> Result<Result<(), NbdError>, ProtocolError> {
        let at = self.open.iter().position(|reply| reply.cookie == cookie);
        let reply = self.open.swap_remove(at.ok_or(ProtocolError::UnknownCookie(cookie))?);
        match reply.error {
            Some(error) => Ok(Err(error)),
            None if reply.missing_bytes > 0 => Err(ProtocolError::ShortRead { cookie }),
            None => Ok(Ok(())),
        }
    }

    fn message<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if !self.fill(N, input) {
            return None;
        }
        self.partial_length = 0;
        self.partial.first_chunk::<N>().copied()
    }

    /// Collects a message of `length` bytes, at most [`MESSAGE_BYTES_MAX`].
    fn fill(&mut self, length: usize, input: &mut &[u8]) -> bool {
        let missing = length.saturating_sub(self.partial_length);
        let (head, tail) = input.split_at(missing.min(input.len()));
        let end = self.partial_length + head.len();
        self.partial[self.partial_length..end].copy_from_slice(head);
        self.partial_length = end;
        *input = tail;
        head.len() == missing
    }
}

fn extent(cookie: u64, bytes: &[u8; EXTENT_BYTES]) -> Result<ReplyEvent<'static>, ProtocolError> {
    let mut fields = Cursor(bytes);
    let chunk = ChunkType::BlockStatus;
    match (fields.u32(), fields.u32()) {
        (Some(length), Some(state)) if length > 0 => {
            Ok(ReplyEvent::Extent { cookie, length, state })
        }
        _ => Err(ProtocolError::MalformedChunk { cookie, chunk }),
    }
}

/// Takes up to `length_max` bytes off the front of `input`.
fn split<'a>(input: &mut &'a [u8], length_max: u32) -> (&'a [u8], u32) {
    let length = u32::try_from(input.len()).unwrap_or(u32::MAX).min(length_max);
    let (head, tail) = input.split_at(length as usize);
    *input = tail;
    (head, length)
}
