//! Why a server hangs up on a client that hasn't chosen an export.

use core::error::Error;
use core::fmt;

use crate::code::OptionCode;
use crate::flags::ClientFlags;
use crate::limits::{HANDSHAKE_REPLY_BYTES_MAX, OPTIONS_MAX};

/// Why a handshake ended in a hang-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// The client set flags that weren't offered.
    UnknownClientFlags(ClientFlags),
    /// The bytes aren't an option.
    OptionMagic(u64),
    /// An option other than `EXPORT_NAME` from a client without fixed newstyle.
    NotFixedNewstyle(OptionCode),
    /// An option too long to drain, or an `EXPORT_NAME` too long to be a name.
    OptionTooLong {
        /// The option.
        option: OptionCode,
        /// Its length in bytes.
        length_bytes: u32,
    },
    /// More than [`OPTIONS_MAX`] options.
    TooManyOptions,
    /// More than [`HANDSHAKE_REPLY_BYTES_MAX`] bytes of answers.
    TooManyReplies,
    /// `EXPORT_NAME`, which can't be answered with an error, whose name isn't UTF-8 without NUL.
    ExportName,
    /// `EXPORT_NAME`, which can't be answered with an error, of an export that doesn't exist.
    UnknownExport,
    /// `EXPORT_NAME`, which can't be answered with an error, of an export that takes no more clients.
    NotAdmitted,
    /// `EXPORT_NAME`, which can't be answered with an error, before TLS where that is required.
    TlsRequired,
    /// Input after the end: the caller's mistake.
    Over,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownClientFlags(flags) => {
                write!(f, "client flags {:#x} weren't offered", flags.to_wire())
            }
            Self::OptionMagic(magic) => write!(f, "{magic:#018x} doesn't begin an option"),
            Self::NotFixedNewstyle(option) => {
                write!(f, "option {option:?} from a client without fixed newstyle")
            }
            Self::OptionTooLong { option, length_bytes } => {
                write!(f, "option {option:?} of {length_bytes} bytes")
            }
            Self::TooManyOptions => write!(f, "more than {OPTIONS_MAX} options"),
            Self::TooManyReplies => {
                write!(f, "more than {HANDSHAKE_REPLY_BYTES_MAX} bytes of answers asked for")
            }
            Self::ExportName => f.write_str("an export's name isn't UTF-8 without NUL"),
            Self::UnknownExport => f.write_str("no such export"),
            Self::NotAdmitted => f.write_str("the export takes no more clients"),
            Self::TlsRequired => f.write_str("an export was chosen before TLS, which is required"),
            Self::Over => f.write_str("input after the end of the handshake"),
        }
    }
}

impl Error for HandshakeError {}
