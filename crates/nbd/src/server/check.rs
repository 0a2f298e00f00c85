//! Checks of requests against an export: every reason to refuse one, in one place.
//!
//! It doesn't know contents, queues or time: a request that passes can still fail.

use crate::code::Command;
use crate::error::NbdError;
use crate::export::ExportInfo;
use crate::flags::{CommandFlags, TransmissionFlags};
use crate::limits::{READ_BYTES_MAX, WRITE_DRAIN_BYTES_MAX};
use crate::request::RequestHeader;
use crate::server::Session;
use crate::server::reply::ReplyStyle;

/// A request that the export can carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The operation.
    pub operation: Operation,
    /// The client's name for the request.
    pub cookie: u64,
    /// First byte of the range, a multiple of the minimum block size; 0 where there is no range.
    pub offset: u64,
    /// Length of the range in bytes, inside the export; 0 where there is no range. A read's and a
    /// write's is below 2^32.
    pub length: u64,
}

/// The operation of a checked request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the range.
    Read {
        /// Answer in at most one content chunk.
        dont_fragment: bool,
    },
    /// Write the `length` bytes that follow the request.
    Write {
        /// Reply only once they are durable.
        fua: bool,
    },
    /// Finish what is outstanding, then close without a reply.
    Disconnect,
    /// Make every acknowledged write durable.
    Flush,
    /// The range's data is no longer needed.
    Trim {
        /// Reply only once that is durable.
        fua: bool,
    },
    /// The range will be read soon.
    Cache,
    /// Make the range read as zeroes.
    WriteZeroes {
        /// Reply only once that is durable.
        fua: bool,
        /// The range must be allocated.
        no_hole: bool,
        /// Fail with [`NbdError::NotSupported`] rather than be as slow as writing.
        fast: bool,
    },
    /// Describe the range's extents in the contexts of the session.
    BlockStatus {
        /// One extent only.
        one: bool,
    },
    /// A valid range of no bytes: reply success at once, touch nothing. The protocol leaves this
    /// to the server, as long as it doesn't disconnect.
    Nothing,
}

/// The treatment of a request that can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Read and throw away `payload_bytes` that follow the request, then reply with `error`.
    Reply {
        /// The reply's error.
        error: NbdError,
        /// Why, for a structured reply's message.
        message: &'static str,
        /// Length of the payload to drain: 0 for everything but a write, unless extended headers
        /// announce one.
        payload_bytes: u32,
    },
    /// Close the connection: draining the payload would be work for an attacker.
    Close,
}

/// Terms that a session has agreed to beside the export's flags.
#[derive(Clone, Copy)]
struct Terms {
    payload_bytes_max: u32,
    extended: bool,
    contexts: bool,
}

impl Session {
    /// Checks a request against what was negotiated, as [`RequestHeader::validate`] does, block
    /// status and the flags of extended headers included.
    ///
    /// # Errors
    /// As [`RequestHeader::validate`].
    #[inline]
    pub fn check(&self, header: &RequestHeader, payload_max: u32) -> Result<Checked, Reject> {
        let extended = self.style == ReplyStyle::Extended;
        let contexts = !self.contexts.is_empty();
        let terms = Terms { payload_bytes_max: payload_max, extended, contexts };
        header.validate_with(&self.export, terms)
    }
}

impl RequestHeader {
    /// Checks a request against the export as it was told to this client, without extended headers
    /// or metadata contexts.
    ///
    /// `payload_bytes_max` is the longest read or write that the caller has buffers for. All of
    /// it follows "Request types", "Command flags", "Block size constraints" and "Error values";
    /// where several errors apply, flags come first, then permission, then range.
    ///
    /// # Errors
    /// [`Reject::Reply`] for a request that is to be answered with an error, [`Reject::Close`] for
    /// a refused write whose payload is longer than [`WRITE_DRAIN_BYTES_MAX`].
    #[inline]
    pub fn validate(&self, export: &ExportInfo, payload_bytes_max: u32) -> Result<Checked, Reject> {
        self.validate_with(export, Terms { payload_bytes_max, extended: false, contexts: false })
    }

    #[inline]
    fn validate_with(&self, export: &ExportInfo, terms: Terms) -> Result<Checked, Reject> {
        match self.check(export, terms) {
            Ok(checked) => Ok(checked),
            Err((error, message)) => Err(self.reject(terms, error, message)),
        }
    }

    #[cold]
    fn reject(&self, terms: Terms, error: NbdError, message: &'static str) -> Reject {
        let announced = terms.extended && self.flags.contains(CommandFlags::PAYLOAD_LEN);
        let comes = self.command == Command::Write || announced;
        match u32::try_from(if comes { self.length } else { 0 }) {
            Ok(payload_bytes) if payload_bytes <= WRITE_DRAIN_BYTES_MAX => {
                Reject::Reply { error, message, payload_bytes }
            }
            _ => Reject::Close,
        }
    }

    fn check(&self, export: &ExportInfo, terms: Terms) -> Result<Checked, Refusal> {
        let operation = self.operation(export.flags, terms)?;
        let whole = |operation| Checked { operation, cookie: self.cookie, offset: 0, length: 0 };
        match operation {
            Operation::Disconnect => return Ok(whole(operation)),
            Operation::Flush if self.offset == 0 && self.length == 0 => {
                return Ok(whole(operation));
            }
            Operation::Flush => return Err((NbdError::Invalid, "a flush has no range")),
            Operation::BlockStatus { .. } if self.length == 0 => {
                return Err((NbdError::Invalid, "a block status is of at least one byte"));
            }
            _ => {}
        }
        self.check_range(export, operation, terms.payload_bytes_max)?;
        let operation = if self.length == 0 { Operation::Nothing } else { operation };
        Ok(Checked { operation, cookie: self.cookie, offset: self.offset, length: self.length })
    }

    /// The command and its flags, as far as the export's flags allow them.
    fn operation(&self, export: TransmissionFlags, terms: Terms) -> Result<Operation, Refusal> {
        let has = |flag| self.flags.contains(flag);
        let offered = |flag, message| {
            if export.contains(flag) { Ok(()) } else { Err((NbdError::Invalid, message)) }
        };
        // A disconnect has no reply that could carry an error.
        if self.command == Command::Disconnect {
            return Ok(Operation::Disconnect);
        }
        if !flags_of(self.command, export, terms.extended).contains(self.flags) {
            return Err((NbdError::Invalid, "a command flag isn't valid for this command here"));
        }
        let writes = matches!(self.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && export.contains(TransmissionFlags::READ_ONLY) {
            return Err((NbdError::NotPermitted, "the export is read-only"));
        }
        let fua = has(CommandFlags::FUA);
        match self.command {
            Command::Read => {
                Ok(Operation::Read { dont_fragment: has(CommandFlags::DONT_FRAGMENT) })
            }
            Command::Write => Ok(Operation::Write { fua }),
            Command::Flush => {
                offered(TransmissionFlags::FLUSH, "flush isn't offered")?;
                Ok(Operation::Flush)
            }
            Command::Trim => {
                offered(TransmissionFlags::TRIM, "trim isn't offered")?;
                Ok(Operation::Trim { fua })
            }
            Command::Cache => {
                offered(TransmissionFlags::CACHE, "cache isn't offered")?;
                Ok(Operation::Cache)
            }
            Command::WriteZeroes => {
                offered(TransmissionFlags::WRITE_ZEROES, "write-zeroes isn't offered")?;
                let no_hole = has(CommandFlags::NO_HOLE);
                Ok(Operation::WriteZeroes { fua, no_hole, fast: has(CommandFlags::FAST_ZERO) })
            }
            Command::BlockStatus if terms.contexts => {
                Ok(Operation::BlockStatus { one: has(CommandFlags::REQ_ONE) })
            }
            Command::BlockStatus => Err((NbdError::Invalid, "no metadata context is selected")),
            _ => Err((NbdError::Invalid, "unknown command")),
        }
    }

    fn check_range(
        &self,
        export: &ExportInfo,
        operation: Operation,
        payload_bytes_max: u32,
    ) -> Result<(), Refusal> {
        let block = export.block_sizes;
        // Without a payload a request may be as long as the export.
        let length_max = match operation {
            Operation::Read { .. } => block.max().min(payload_bytes_max).min(READ_BYTES_MAX).into(),
            Operation::Write { .. } => block.max().min(payload_bytes_max).into(),
            _ => u64::MAX,
        };
        if self.length > length_max {
            return Err((NbdError::Invalid, "longer than the maximum block size"));
        }
        let aligned = u64::from(block.min()) - 1;
        if (self.offset | self.length) & aligned != 0 {
            return Err((NbdError::Invalid, "not aligned to the minimum block size"));
        }
        let inside =
            self.offset.checked_add(self.length).is_some_and(|end| end <= export.size_bytes);
        match operation {
            _ if inside => Ok(()),
            Operation::Write { .. } | Operation::WriteZeroes { .. } => {
                Err((NbdError::NoSpace, "past the end of the export"))
            }
            _ => Err((NbdError::Invalid, "past the end of the export")),
        }
    }
}

/// The reply's error and its message.
type Refusal = (NbdError, &'static str);

/// The flags that a command may carry on an export. `FUA`, once offered, is valid on every command
/// ("Command flags"), also where it means nothing.
const fn flags_of(command: Command, export: TransmissionFlags, extended: bool) -> CommandFlags {
    let mut flags = CommandFlags::EMPTY;
    if export.contains(TransmissionFlags::FUA) {
        flags = flags.with(CommandFlags::FUA);
    }
    match command {
        Command::Read if export.contains(TransmissionFlags::DONT_FRAGMENT) => {
            flags.with(CommandFlags::DONT_FRAGMENT)
        }
        Command::WriteZeroes if export.contains(TransmissionFlags::FAST_ZERO) => {
            flags.with(CommandFlags::NO_HOLE).with(CommandFlags::FAST_ZERO)
        }
        Command::WriteZeroes => flags.with(CommandFlags::NO_HOLE),
        Command::BlockStatus => flags.with(CommandFlags::REQ_ONE),
        Command::Write if extended => flags.with(CommandFlags::PAYLOAD_LEN),
        _ => flags,
    }
}
