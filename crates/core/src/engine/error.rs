//! Why the engine says no. Each error carries what a message to a person needs.

use core::fmt;

use crate::classes::admission::{AdmissionError, LatencyError};
use crate::classes::profile::ProfileError;
use crate::types::ids::{RequestId, StreamId};
use crate::types::share::Share;

/// Why a request was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No such stream.
    UnknownStream(StreamId),
    /// The stream's queue is full.
    QueueFull {
        /// Which stream.
        stream: StreamId,
        /// How many may wait.
        queue_max: u32,
    },
    /// The request's name is at or above the table's size.
    IdOutOfRange {
        /// Which request.
        request: RequestId,
        /// The table's size.
        requests_max: u32,
    },
    /// The request's name is in use by one that has not completed.
    IdInUse(RequestId),
    /// A request of no bytes that is not a flush, or a flush with an extent.
    BadLength {
        /// Which request.
        request: RequestId,
        /// Its length.
        bytes: u64,
    },
    /// The extent's end is past 2^64.
    BadExtent(RequestId),
    /// A request of more bytes than one may have.
    TooLong {
        /// Which request.
        request: RequestId,
        /// Its length.
        bytes: u64,
        /// The longest: [`crate::Request::BYTES_MAX`].
        bytes_max: u64,
    },
}

/// Why a change was not made. Nothing of it was. `S` names a stream and displays as a message names it:
/// the engine says `stream 3`, and who has better names [`renames`](Self::renamed) it to `vdisk db`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeError<S = StreamId> {
    /// One stream can't be what it is asked to be.
    Stream {
        /// Which stream.
        stream: S,
        /// Why it can't.
        error: StreamError,
    },
    /// All reservations together would be more than the device has.
    Overbooked {
        /// The sum that all reservations would come to, in parts per million.
        asked_ppm: u64,
        /// The part of the device that may be reserved: all but the headroom.
        available: Share,
    },
    /// A depth of zero, or above the table of pieces.
    Depth {
        /// The depth asked for.
        depth: u32,
        /// The largest allowed.
        depth_max: u32,
    },
    /// The parent that a stream names does not exist, or has a parent itself.
    Parent {
        /// Which stream.
        stream: S,
        /// The parent it named.
        parent: S,
    },
    /// A rate that does not fit, or can't be.
    Admission(AdmissionError<S>),
    /// A profile that is none.
    Profile(ProfileError),
}

/// Why a stream can't be what it is asked to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// No such stream.
    Unknown,
    /// The name of a new stream is in use.
    InUse,
    /// The name of a new stream is at or above the table's size.
    OutOfRange {
        /// The table's size.
        streams_max: u32,
    },
    /// The stream has requests queued or in flight.
    Busy {
        /// Requests that have not completed.
        live: u32,
    },
    /// A reservation above its own limit.
    ReserveAboveLimit {
        /// Its reservation.
        reserve: Share,
        /// Its limit.
        limit: Share,
    },
    /// A limit of zero: the stream could never run.
    ZeroLimit,
    /// A weight outside 1 to [`crate::Contract::WEIGHT_MAX`].
    Weight {
        /// The weight asked for.
        weight: u32,
    },
    /// A piece size of zero.
    PieceBytes,
    /// One stream named twice in one change.
    NamedTwice,
    /// A latency bound that can't be kept.
    Latency(LatencyError),
    /// A promise of a rate or a latency needs a profile of the device.
    NoProfile,
    /// A guaranteed-rate stream without a rate.
    NoRate,
    /// A guaranteed-latency stream without a bound.
    NoBound,
    /// A rate of a stream that is not guaranteed-rate.
    RateWithoutClass,
    /// A bound of a stream of a class that keeps none.
    BoundWithoutClass,
    /// A guaranteed-latency stream that reserves nothing.
    BoundWithoutTime,
    /// The stream's children together reserve more than the stream.
    Children {
        /// The sum of their reservations, in parts per million.
        asked_ppm: u32,
        /// The stream's own.
        reserve: Share,
    },
    /// The stream has children: it can't go before they do.
    HasChildren,
    /// A guaranteed-rate stream with a parent or children.
    RateInFamily,
}

/// Why an engine could not be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// No cost model of that name in [`crate::cost::REGISTRY`].
    UnknownCostModel(alloc::string::String),
    /// A number that must be positive, or below a bound, is not.
    OutOfRange {
        /// Which one.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownStream(StreamId(id)) => write!(f, "there is no stream {id}"),
            Self::QueueFull { stream: StreamId(id), queue_max } => {
                write!(f, "stream {id} has {queue_max} requests waiting, the most it may")
            }
            Self::IdOutOfRange { request: RequestId(id), requests_max } => {
                write!(f, "request {id} is outside the table: an id is below {requests_max}")
            }
            Self::IdInUse(RequestId(id)) => write!(f, "request {id} has not completed yet"),
            Self::BadLength { request: RequestId(id), bytes } => {
                write!(f, "request {id} has a length of {bytes} bytes: ")?;
                f.write_str("a flush has 0, any other request at least 1")
            }
            Self::TooLong { request: RequestId(id), bytes, bytes_max } => {
                write!(f, "request {id} has a length of {bytes} bytes: ")?;
                write!(f, "at most {bytes_max} are possible, split it")
            }
            Self::BadExtent(RequestId(id)) => {
                write!(f, "request {id} has an extent that ends past 2^64")
            }
        }
    }
}

impl<S> ChangeError<S> {
    /// The same with other names for streams.
    #[must_use]
    pub fn renamed<T>(self, mut name: impl FnMut(S) -> T) -> ChangeError<T> {
        match self {
            Self::Stream { stream, error } => error.of(name(stream)),
            Self::Parent { stream, parent } => {
                ChangeError::Parent { stream: name(stream), parent: name(parent) }
            }
            Self::Overbooked { asked_ppm, available } => {
                ChangeError::Overbooked { asked_ppm, available }
            }
            Self::Depth { depth, depth_max } => ChangeError::Depth { depth, depth_max },
            Self::Admission(error) => ChangeError::Admission(error.renamed(name)),
            Self::Profile(error) => ChangeError::Profile(error),
        }
    }
}

impl StreamError {
    /// The answer to a change of that stream.
    pub fn of<S>(self, stream: S) -> ChangeError<S> {
        ChangeError::Stream { stream, error: self }
    }

    fn say(self, stream: &impl fmt::Display, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Unknown => return write!(f, "there is no {stream}"),
            Self::OutOfRange { streams_max } => {
                return write!(f, "{stream} is outside the table: an id is below {streams_max}");
            }
            Self::Busy { live } => {
                return write!(f, "{stream} has {live} requests that have not completed");
            }
            Self::ReserveAboveLimit { reserve, limit } => {
                return write!(f, "{stream} reserves {reserve}, more than its limit of {limit}");
            }
            Self::Weight { weight } => {
                let max = crate::Contract::WEIGHT_MAX;
                return write!(f, "{stream} has weight {weight}: a weight is 1 to {max}");
            }
            Self::Children { asked_ppm, reserve } => {
                let (whole, part) = (asked_ppm / 10_000, asked_ppm % 10_000);
                write!(f, "the children of {stream} would reserve ")?;
                write!(f, "{whole}.{part:04}% of the device, ")?;
                return write!(f, "{reserve} fit into it: lower one, or raise its reservation");
            }
            Self::Latency(error) => return write!(f, "{stream}: {error}"),
            Self::InUse => "exists already",
            Self::ZeroLimit => "has a limit of 0%: it could never run",
            Self::PieceBytes => "has pieces of 0 bytes: at least 1",
            Self::NamedTwice => "is named twice in one change",
            Self::NoProfile => {
                "needs a profile of the device: make one with `disktime device profile`, or ask \
                 for admission = \"best-effort\""
            }
            Self::HasChildren => "has children: remove them first",
            Self::RateInFamily => {
                "has a parent or children: class guaranteed-rate is for streams without"
            }
            Self::NoRate => "is guaranteed-rate: state its rate",
            Self::NoBound => "is guaranteed-latency: state its latency bound",
            Self::RateWithoutClass => "states a rate: its class must be guaranteed-rate",
            Self::BoundWithoutClass => {
                "states a latency bound: its class must be guaranteed-latency, soft-real-time or \
                 best-effort"
            }
            Self::BoundWithoutTime => {
                "is guaranteed-latency and reserves nothing: its reservation is the time that \
                 goes first"
            }
        };
        write!(f, "{stream} {text}")
    }
}

impl<S: fmt::Display> fmt::Display for ChangeError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { stream, error } => error.say(stream, f),
            Self::Overbooked { asked_ppm, available } => {
                let (whole, part) = (asked_ppm / 10_000, asked_ppm % 10_000);
                write!(f, "reservations would come to {whole}.{part:04}% of the device, ")?;
                write!(f, "{available} may be reserved: lower one, or the headroom")
            }
            Self::Depth { depth, depth_max } => {
                write!(f, "depth {depth}: a depth is 1 to {depth_max}")
            }
            Self::Parent { stream, parent } => {
                write!(f, "{stream} names {parent} as its parent: ")?;
                f.write_str("name one that exists and has no parent")
            }
            Self::Admission(error) => error.fmt(f),
            Self::Profile(error) => write!(f, "the device's profile: {error}"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCostModel(name) => {
                write!(f, "cost model `{name}` is not known; known are:")?;
                crate::cost::REGISTRY.iter().try_for_each(|known| write!(f, " {}", known.name))
            }
            Self::OutOfRange { field, value, min, max } => {
                write!(f, "{field} = {value}: it must be {min} to {max}")
            }
        }
    }
}

impl core::error::Error for Refusal {}
impl<S: fmt::Debug + fmt::Display> core::error::Error for ChangeError<S> {}
impl core::error::Error for ConfigError {}
