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
    /// The demand of one stream.
    Stream {
        /// Which stream.
        stream: S,
        /// Why it is refused.
        error: DemandError,
    },
}

/// Why a stream's demand was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DemandError {
    /// A rate of zero.
    ZeroRate,
    /// An extent that is empty or ends past the device.
    Extent {
        /// Its extent.
        extent: (u64, u64),
        /// The device's size in bytes.
        size: u64,
    },
    /// A cycle that is out of range, or too short for one request.
    Cycle {
        /// Its cycle.
        cycle: Duration,
        /// The shortest that can be: [`Rate::CYCLE_MIN`], or one worst positioning and request.
        min: Duration,
    },
    /// A rate above what its zone transfers without any positioning.
    AboveZone {
        /// Its rate.
        bytes_per_second: u64,
        /// The transfer rate of the zone.
        max: u64,
    },
    /// A probability of misses that is 0, or all.
    Miss {
        /// The probability.
        miss: Share,
    },
    /// The first stream of the list that does not fit with those before it.
    Refused {
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
    pub fn renamed<T>(self, name: impl FnOnce(S) -> T) -> AdmissionError<T> {
        match self {
            Self::Profile(error) => AdmissionError::Profile(error),
            Self::Overbooked { reserved, headroom } => {
                AdmissionError::Overbooked { reserved, headroom }
            }
            Self::Stream { stream, error } => error.of(name(stream)),
        }
    }
}

impl DemandError {
    /// The answer to a set with that stream.
    pub fn of<S>(self, stream: S) -> AdmissionError<S> {
        AdmissionError::Stream { stream, error: self }
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
            Self::Stream { stream, error } => write!(f, "{stream}: {error}"),
        }
    }
}

impl fmt::Display for DemandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroRate => f.write_str("rate = 0 B/s: it must be at least 1 B/s"),
            Self::Extent { extent: (start, end), size } => {
                write!(f, "extent = {start} to {end}: it must hold at least a ")?;
                write!(f, "byte and end within the device's {size} bytes")
            }
            Self::Cycle { cycle, min } => {
                let (min, max) = (*min, Rate::CYCLE_MAX);
                write!(f, "cycle = {cycle:?}: ")?;
                if min > max {
                    write!(f, "one request can take {min:?} here, more than the longest ")?;
                    write!(f, "cycle of {max:?}: ")?;
                    return f.write_str("ask for best-effort admission on a faster device");
                }
                write!(f, "it must be {min:?} (one worst seek and request, at least ")?;
                write!(f, "{:?}) to {max:?}: choose one in this range", Rate::CYCLE_MIN)
            }
            Self::AboveZone { bytes_per_second, max } => {
                write!(f, "rate = {bytes_per_second} B/s: its zone transfers at ")?;
                write!(f, "most {max} B/s: lower the rate, or place it in a faster zone")
            }
            Self::Miss { miss } => {
                write!(f, "miss = {miss}: it must be above 0% and below 100%: ")?;
                f.write_str("ask for deterministic or best-effort admission instead")
            }
            Self::Refused { bytes_per_second, largest: 0 } => {
                write!(f, "rate = {bytes_per_second} B/s: no rate fits beside ")?;
                f.write_str("the others: lower their rates or reservations, or the headroom")
            }
            Self::Refused { bytes_per_second, largest } => {
                write!(f, "rate = {bytes_per_second} B/s: 1 to {largest} B/s fit ")?;
                f.write_str("beside the others: lower it, or make its cycle longer")
            }
        }
    }
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, smallest } = self;
        write!(f, "latency = {bound:?}: it must be at least {smallest:?} on this device: ")?;
        f.write_str("raise it; where latency is guaranteed a lower depth helps, too")
    }
}

impl<S: fmt::Debug + fmt::Display> core::error::Error for AdmissionError<S> {}
impl core::error::Error for DemandError {}
impl core::error::Error for LatencyError {}
