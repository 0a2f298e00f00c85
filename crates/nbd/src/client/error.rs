//! Why a client gives up on a server.

use alloc::string::String;
use core::error::Error;
use core::fmt;

use crate::code::{OptionCode, OptionReply};
use crate::export::BlockSizesError;
use crate::limits::STRING_BYTES_MAX;

/// Why a handshake with a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The caller's export name is longer than [`STRING_BYTES_MAX`] bytes or contains NUL.
    Name,
    /// The server doesn't speak NBD.
    NotNbd,
    /// The server speaks only the oldstyle handshake.
    Oldstyle,
    /// The server can't list or describe.
    NotFixedNewstyle,
    /// The bytes aren't an answer to an option.
    ReplyMagic,
    /// An answer to an option that wasn't asked.
    WrongOption(OptionCode),
    /// An answer that doesn't belong to the option that was asked.
    UnexpectedReply {
        /// The option that was asked.
        option: OptionCode,
        /// The reply that came.
        reply: OptionReply,
    },
    /// An answer of more than [`OPTION_REPLY_BYTES_MAX`](crate::limits::OPTION_REPLY_BYTES_MAX) bytes.
    ReplyTooLong {
        /// The reply that came.
        reply: OptionReply,
        /// Its length in bytes.
        length_bytes: u32,
    },
    /// More answers than are worth waiting for, or a list too long to keep.
    TooManyReplies,
    /// An answer whose contents contradict its length or the protocol.
    MalformedReply(OptionReply),
    /// The server told block sizes that the protocol doesn't allow.
    BlockSizes(BlockSizesError),
    /// The server accepted without telling the export's size.
    NoExportInfo,
    /// The server said no.
    Refused {
        /// The option that was asked.
        option: OptionCode,
        /// How it was refused.
        reply: OptionReply,
        /// The server's words, may be empty. Not to be trusted.
        message: String,
    },
    /// Input after the end: the caller's mistake.
    Over,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => {
                write!(f, "an export's name has at most {STRING_BYTES_MAX} bytes and no NUL")
            }
            Self::NotNbd => f.write_str("the server doesn't speak NBD"),
            Self::Oldstyle => f.write_str("the server speaks only the oldstyle handshake"),
            Self::NotFixedNewstyle => f.write_str("the server can't list or describe exports"),
            Self::ReplyMagic => f.write_str("the server's answer isn't one"),
            Self::WrongOption(option) => write!(f, "an answer to {option:?}, which wasn't asked"),
            Self::UnexpectedReply { option, reply } => {
                write!(f, "{reply:?} is no answer to {option:?}")
            }
            Self::ReplyTooLong { reply, length_bytes } => {
                write!(f, "an answer {reply:?} of {length_bytes} bytes")
            }
            Self::TooManyReplies => f.write_str("the server's answers don't end"),
            Self::MalformedReply(reply) => write!(f, "a malformed answer {reply:?}"),
            Self::BlockSizes(error) => write!(f, "the server's {error}"),
            Self::NoExportInfo => f.write_str("the server didn't tell the export's size"),
            Self::Refused { option, reply, message } if message.is_empty() => {
                write!(f, "the server refused {option:?}: {reply:?}")
            }
            Self::Refused { option, reply, message } => {
                write!(f, "the server refused {option:?}: {reply:?} ({message:?})")
            }
            Self::Over => f.write_str("input after the end of the handshake"),
        }
    }
}

impl Error for ClientError {}
