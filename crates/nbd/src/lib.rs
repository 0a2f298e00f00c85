#![no_std]
#![forbid(unsafe_code)]
//! A codec and session state machines for the Network Block Device protocol, both sides, without
//! input or output.
//!
//! Bytes that arrived go in, bytes to send come out; sockets, buffers, time and devices belong to
//! the caller. A connection has two phases, and so have the modules:
//!
//! | phase | server | client |
//! |---|---|---|
//! | handshake | [`ServerHandshake`] | [`ClientHandshake`] |
//! | requests | [`RequestHeader::parse`], [`RequestHeader::validate`] | [`RequestHeader::to_bytes`] |
//! | replies | [`server::reply`] | [`ReplyParser`] |
//!
//! Spoken by both sides: fixed newstyle with `LIST`, `INFO`, `GO`, `EXPORT_NAME`, `ABORT` and
//! `STRUCTURED_REPLY`; the commands read, write, flush, trim, cache and write-zeroes; metadata
//! contexts and block status. Spoken by the server alone: extended headers, and `STARTTLS`, whose
//! cryptography belongs to the caller. Not spoken: resizing, payloads of block status, oldstyle. A
//! peer that asks for those gets the protocol's refusal.
//!
//! A peer is hostile until proved otherwise: no sequence of bytes makes this crate panic, and what
//! it stores or writes is bounded by the constants in [`limits`].
//!
//! Section names in these docs are those of the protocol's description, `doc/proto.md` of the
//! `NetworkBlockDevice/nbd` repository. Every integer on the wire is big-endian.

extern crate alloc;

mod bytes;
pub mod client;
mod code;
mod error;
mod export;
mod flags;
pub mod limits;
mod request;
pub mod server;

pub use bytes::Encoded;
pub use client::{
    ClientError, ClientHandshake, ClientProgress, Goal, ListedExport, Pending, ReplyEvent,
    ReplyParser,
};
pub use code::{ChunkType, Command, InfoType, OptionCode, OptionReply};
pub use error::{NbdError, ProtocolError};
pub use export::{BlockSizes, BlockSizesError, ExportInfo};
pub use flags::{ClientFlags, CommandFlags, HandshakeFlags, ReplyFlags, TransmissionFlags};
pub use request::{EXTENDED_REQUEST_BYTES, REQUEST_BYTES, RequestHeader};
pub use server::reply::{self, ReplyStyle};
pub use server::{
    Checked, Context, Exports, Handshake, HandshakeError, Operation, Reject, ServerHandshake,
    Session, Tls,
};

/// Magic numbers: what tells one kind of message from another.
pub mod magic {
    /// First eight bytes of every server greeting: `NBDMAGIC`.
    pub const GREETING: u64 = 0x4e42_444d_4147_4943;
    /// `IHAVEOPT`: second word of a newstyle greeting and first of every option request.
    pub const OPTION: u64 = 0x4948_4156_454f_5054;
    /// Second word of an oldstyle greeting, which the client refuses.
    pub const OLDSTYLE: u64 = 0x0000_4202_8186_1253;
    /// First word of every reply to an option.
    pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
    /// First word of every request in the transmission phase.
    pub const REQUEST: u32 = 0x2560_9513;
    /// First word of a simple reply.
    pub const SIMPLE_REPLY: u32 = 0x6744_6698;
    /// First word of a structured reply's chunk.
    pub const STRUCTURED_REPLY: u32 = 0x668e_33ef;
    /// First word of a request with extended headers.
    pub const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
    /// First word of a reply's chunk with extended headers.
    pub const EXTENDED_REPLY: u32 = 0x6e8a_278c;
}
