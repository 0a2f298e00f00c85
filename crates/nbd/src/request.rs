//! A request's header ("Request message"): 28 bytes, or 32 once extended headers were negotiated.

use crate::code::Command;
use crate::error::ProtocolError;
use crate::flags::CommandFlags;
use crate::magic;

/// Length of a request's header in bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of an extended request's header in bytes.
pub const EXTENDED_REQUEST_BYTES: usize = 32;

/// A request's header. A write's `length` bytes of payload follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// How to carry it out.
    pub flags: CommandFlags,
    /// The command.
    pub command: Command,
    /// The client's name for the request; its reply repeats it.
    pub cookie: u64,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes; below 2^32 unless extended headers were negotiated.
    pub length: u64,
}

impl RequestHeader {
    /// Reads a header off the wire. Nothing but the magic is checked: that is for
    /// [`RequestHeader::validate`].
    ///
    /// # Errors
    /// [`ProtocolError::RequestMagic`]: where requests begin is lost, so the server must close.
    #[inline]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, ProtocolError> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != magic::REQUEST {
            return Err(ProtocolError::RequestMagic(magic));
        }
        Ok(Self {
            flags: CommandFlags::from_wire(u16::from_be_bytes(field(bytes, 4))),
            command: Command::from_wire(u16::from_be_bytes(field(bytes, 6))),
            cookie: u64::from_be_bytes(field(bytes, 8)),
            offset: u64::from_be_bytes(field(bytes, 16)),
            length: u32::from_be_bytes(field(bytes, 24)).into(),
        })
    }

    /// As [`parse`](Self::parse), for a header with a 64-bit length.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    #[inline]
    pub fn parse_extended(bytes: &[u8; EXTENDED_REQUEST_BYTES]) -> Result<Self, ProtocolError> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != magic::EXTENDED_REQUEST {
            return Err(ProtocolError::RequestMagic(magic));
        }
        Ok(Self {
            flags: CommandFlags::from_wire(u16::from_be_bytes(field(bytes, 4))),
            command: Command::from_wire(u16::from_be_bytes(field(bytes, 6))),
            cookie: u64::from_be_bytes(field(bytes, 8)),
            offset: u64::from_be_bytes(field(bytes, 16)),
            length: u64::from_be_bytes(field(bytes, 24)),
        })
    }

    /// The header as a client sends it.
    ///
    /// # Panics
    /// If the length has more than 32 bits, which takes an extended header.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&magic::REQUEST.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_wire().to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_wire().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        let length = u32::try_from(self.length).expect("a compact header's length has 32 bits");
        bytes[24..28].copy_from_slice(&length.to_be_bytes());
        bytes
    }
}

/// The `N` bytes at `start`, which the callers above keep inside the header.
#[inline]
fn field<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[start + i])
}
