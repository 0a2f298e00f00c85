//! Why a set of streams, or a bound, is refused, in words.

use core::fmt;

use crate::classes::profile::ProfileError;
use crate::types::contract::Rate;
use crate::types::share::Share;
use crate::types::time::Duration;

/// Why a set was not admitted. `S` names a stream and displays as a message names it: its place in the
/// list at first, `stream 3` or `vdisk db` once it is [`renamed`](Self::renamed).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionError<S = usize> {
    /// The device's profile is none.
    Profile(ProfileError),
    /// Others' reservations and the headroom are more than the device.
    Overbooked {
        /// The share that other streams reserve.
        reserved: Share,
        /// The share that no stream gets.
        headroom: Share,
    },
    /// A rate of zero.
    ZeroRate {
        /// Which stream.
        stream: S,
    },
    /// An extent that is empty or ends past the device.
    Extent {
        /// Which stream.
        stream: S,
        /// Its extent.
        extent: (u64, u64),
        /// The device's size in bytes.
        size: u64,
    },
    /// A cycle that is out of range, or too short for one request.
    Cycle {
        /// Which stream.
        stream: S,
        /// Its cycle.
        cycle: Duration,
        /// The shortest that can be: [`Rate::CYCLE_MIN`], or one worst positioning and request.
        min: Duration,
    },
    /// A rate above what its zone transfers without any positioning.
    AboveZone {
        /// Which stream.
        stream: S,
        /// Its rate.
        bytes_per_second: u64,
        /// The transfer rate of the zone.
        max: u64,
    },
    /// A probability of misses that is 0, or all.
    Miss {
        /// Which stream.
        stream: S,
        /// The probability.
        miss: Share,
    },
    /// The first stream of the list that does not fit with those before it.
    Refused {
        /// Which stream.
        stream: S,
        /// Its rate.
        bytes_per_second: u64,
        /// The largest rate with which the list would fit, all else unchanged; 0 if none would.
        largest: u64,
    },
}

/// A bound on response times that no piece size keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyError {
    /// The bound asked for.
    pub bound: Duration,
    /// The smallest that could be kept.
    pub smallest: Duration,
}

impl<S> AdmissionError<S> {
    /// The same with other names for streams.
    #[must_use]
    pub fn renamed<T>(self, mut name: impl FnMut(S) -> T) -> AdmissionError<T> {
        match self {
            Self::Profile(error) => AdmissionError::Profile(error),
            Self::Overbooked { reserved, headroom } => {
                AdmissionError::Overbooked { reserved, headroom }
            }
            Self::ZeroRate { stream } => AdmissionError::ZeroRate { stream: name(stream) },
            Self::Extent { stream, extent, size } => {
                AdmissionError::Extent { stream: name(stream), extent, size }
            }
            Self::Cycle { stream, cycle, min } => {
                AdmissionError::Cycle { stream: name(stream), cycle, min }
            }
            Self::AboveZone { stream, bytes_per_second, max } => {
                AdmissionError::AboveZone { stream: name(stream), bytes_per_second, max }
            }
            Self::Miss { stream, miss } => AdmissionError::Miss { stream: name(stream), miss },
            Self::Refused { stream, bytes_per_second, largest } => {
                AdmissionError::Refused { stream: name(stream), bytes_per_second, largest }
            }
        }
    }
}

impl<S: fmt::Display> fmt::Display for AdmissionError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(error) => write!(f, "the device's profile: {error}"),
            Self::Overbooked { reserved, headroom } => {
                write!(f, "reservations of {reserved} and headroom of {headroom} are more than ")?;
                f.write_str("100% of the device: lower one")
            }
            Self::ZeroRate { stream } => {
                write!(f, "{stream}: rate = 0 B/s: it must be at least 1 B/s")
            }
            Self::Extent { stream, extent: (start, end), size } => {
                write!(f, "{stream}: extent = {start} to {end}: it must hold at least a ")?;
                write!(f, "byte and end within the device's {size} bytes")
            }
            Self::Cycle { stream, cycle, min } => {
                let (min, max) = (*min, Rate::CYCLE_MAX);
                write!(f, "{stream}: cycle = {cycle:?}: ")?;
                if min > max {
                    write!(
                        f,
                        "one request can take {min:?} here, more than the longest cycle of "
                    )?;
                    return write!(f, "{max:?}: ask for best-effort admission on a faster device");
                }
                write!(f, "it must be {min:?} (one worst seek and request, at least ")?;
                write!(f, "{:?}) to {max:?}: choose one in this range", Rate::CYCLE_MIN)
            }
            Self::AboveZone { stream, bytes_per_second, max } => {
                write!(f, "{stream}: rate = {bytes_per_second} B/s: its zone transfers at ")?;
                write!(f, "most {max} B/s: lower the rate, or place it in a faster zone")
            }
            Self::Miss { stream, miss } => {
                write!(f, "{stream}: miss = {miss}: it must be above 0% and below 100%: ")?;
                f.write_str("ask for deterministic or best-effort admission instead")
            }
            Self::Refused { stream, bytes_per_second, largest: 0 } => {
                write!(f, "{stream}: rate = {bytes_per_second} B/s: no rate fits beside ")?;
                f.write_str("the others: lower their rates or reservations, or the headroom")
            }
            Self::Refused { stream, bytes_per_second, largest } => {
                write!(f, "{stream}: rate = {bytes_per_second} B/s: 1 to {largest} B/s fit ")?;
                f.write_str("beside the others: lower it, or make its cycle longer")
            }
        }
    }
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, smallest } = self;
        write!(
            f,
            "latency = {bound:?}: it must be at least {smallest:?} on this device: raise it, "
        )?;
        f.write_str("or lower the depth or the size of its own requests")
    }
}

impl<S: fmt::Debug + fmt::Display> core::error::Error for AdmissionError<S> {}
impl core::error::Error for LatencyError {}
