//! Errors of a trace, and where they are.

use crate::error::SpecError;
use disktime_core::{Instant, Request};
use std::fmt;
use std::io;

/// An error of a trace: `FILE:LINE: FIELD: what it is; what is possible`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; `None` if it is about the whole file.
    pub line: Option<u64>,
    /// The fault.
    pub fault: TraceFault,
}

/// The faults that a trace can have. Values are cut after 40 characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceFault {
    /// The file can't be opened.
    Open {
        /// The kind of error.
        kind: io::ErrorKind,
        /// The system's words.
        message: String,
    },
    /// The file can't be read.
    Read {
        /// The kind of error.
        kind: io::ErrorKind,
        /// The system's, or the decompressor's, words.
        message: String,
    },
    /// There is nothing in it, or nothing that is asked for.
    Empty,
    /// It goes on for longer than can be added up.
    TooLong {
        /// Most periods with requests.
        periods: usize,
    },
    /// The first line belongs to no format.
    Unknown {
        /// The line.
        found: String,
    },
    /// The first line is not that of the format.
    Header {
        /// The line.
        found: String,
        /// The expected format.
        expected: &'static str,
    },
    /// A line with more or fewer columns than it should have.
    Columns {
        /// How many there are.
        found: usize,
        /// The expected column.
        expected: &'static str,
    },
    /// Not the number that it should be.
    Number {
        /// The field's name in the format.
        field: &'static str,
        /// The value that is there.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// Not a word that could be there.
    Word {
        /// The field's name in the format.
        field: &'static str,
        /// The value that is there.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A time before that of the operation above.
    TimeBack {
        /// The field's name in the format.
        field: &'static str,
        /// The time.
        at: Instant,
        /// The time of the operation above.
        last: Instant,
    },
    /// An operation of 0 bytes that is no flush.
    NoBytes {
        /// The field's name in the format.
        field: &'static str,
    },
    /// An operation that doesn't fit where it shall go.
    PastEnd {
        /// The field's name in the format.
        field: &'static str,
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
        /// How many bytes there are.
        end: u64,
    },
    /// An operation that is longer than a request can be.
    Long {
        /// The field's name in the format.
        field: &'static str,
        /// Length.
        bytes: u64,
    },
    /// A line of more than 64 KiB.
    LineLong {
        /// The most that is possible, in bytes.
        bytes_max: usize,
    },
    /// A line that is no UTF-8.
    NoText,
    /// A trace that shall be repeated, but takes no time, or none once that is scaled.
    NoSpan,
    /// It shall be replayed in a way that makes no sense.
    Spec(SpecError),
}

/// The beginning of a text.
pub(super) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl TraceError {
    pub(crate) fn of_file(file: &str, fault: TraceFault) -> Self {
        Self { file: file.to_owned(), line: None, fault }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.fault),
            None => write!(f, "{}: {}", self.file, self.fault),
        }
    }
}

impl std::error::Error for TraceError {}

impl fmt::Display for TraceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { message, .. } => write!(f, "can't be opened: {message}"),
            Self::Read { message, .. } => write!(f, "can't be read: {message}"),
            Self::Empty => f.write_str("no operations; at least one is needed"),
            Self::TooLong { periods } => {
                write!(f, "requests in more than {periods} seconds; cut the trace")
            }
            Self::Unknown { found } => {
                write!(f, "{found:?} begins no format that is known; name the format")
            }
            Self::Header { found, expected } => {
                write!(f, "{found:?}; the first line must be `{expected}`")
            }
            Self::Columns { found, expected } => {
                let s = if *found == 1 { "" } else { "s" };
                write!(f, "{found} column{s}; `{expected}` is needed")
            }
            Self::Number { field, value, allowed } | Self::Word { field, value, allowed } => {
                write!(f, "{field}: {value:?}; {allowed} is needed")
            }
            Self::TimeBack { field, at, last } => write!(
                f,
                "{field}: {at:?} comes after {last:?}; times must not go back unless disorder is \
                 allowed"
            ),
            Self::NoBytes { field } => write!(f, "{field}: 0; at least 1 is needed"),
            Self::PastEnd { field, offset, bytes, end } => write!(
                f,
                "{field}: {bytes} bytes at byte {offset} pass the end at {end}; wrap, or enlarge \
                 the extent"
            ),
            Self::Long { field, bytes } => {
                write!(f, "{field}: {bytes} bytes; at most {} are possible", Request::BYTES_MAX)
            }
            Self::LineLong { bytes_max } => {
                write!(f, "the line is longer than {bytes_max} bytes; no format has such lines")
            }
            Self::Spec(error) => error.fmt(f),
            Self::NoText => f.write_str("the line is no UTF-8 text"),
            Self::NoSpan => {
                f.write_str("all operations have one time; a trace to repeat must take some time")
            }
        }
    }
}
