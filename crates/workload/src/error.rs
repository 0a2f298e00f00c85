//! Why a load can't be generated, and the most that a load may ask for.

use disktime_core::{Duration, Request};
use std::fmt;

/// The most operations of one load at once: each is kept in mind.
pub(crate) const OUTSTANDING_MAX: u32 = 65_536;
/// The shortest time from an arrival to the next: a million each second is more than devices do.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_micros(1);
/// The most operations that a cycle begins with.
pub(crate) const CYCLE_OPERATIONS_MAX: u64 = 1_000_000;

/// Why a load can't be generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpecError {
    /// The list of sizes is empty.
    NoSizes,
    /// A size is zero.
    SizeZero,
    /// An operation is longer than a request can be.
    SizeLong {
        /// The size.
        bytes: u64,
    },
    /// A size is not a multiple of the smallest.
    NotMultiple {
        /// The size.
        bytes: u64,
        /// The smallest size.
        unit: u64,
    },
    /// All weights are zero.
    NoWeight,
    /// More than 1000 reads among a thousand.
    ReadsAboveAll {
        /// As given.
        permille: u16,
    },
    /// More than 1000 trims among a thousand.
    TrimsAboveAll {
        /// As given.
        permille: u16,
    },
    /// A part of a skewed load that is nothing or everything.
    Skew {
        /// As given, in thousandths.
        permille: u16,
    },
    /// Flushes after no writes: there would be nothing else.
    FlushAfterNothing,
    /// A run of no operations.
    RunEmpty,
    /// A semi-sequential cycle of no operations.
    CycleEmpty,
    /// A run's bytes don't fit in 64 bits.
    RunTooLong,
    /// The extent doesn't hold the largest operation, or a whole run of them.
    ExtentShort {
        /// Bytes of the extent.
        extent: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// A closed loop with nothing outstanding.
    NothingOutstanding,
    /// A closed loop with more outstanding than can be kept in mind.
    OutstandingMany {
        /// As given.
        outstanding: u32,
    },
    /// An open loop without time between arrivals.
    IntervalZero,
    /// An open loop with less than a microsecond between arrivals.
    IntervalShort {
        /// As given.
        interval: Duration,
    },
    /// More operations in a cycle than can be kept in mind.
    CycleMany {
        /// The operations that follow from rate, cycle and sizes.
        operations: u64,
    },
    /// ON periods without length.
    OnZero,
    /// ON and OFF periods with less than a microsecond from the start of one to the next: each ON
    /// period starts with an operation.
    PeriodShort {
        /// Both together.
        period: Duration,
    },
    /// Bursts of no operations.
    BurstEmpty,
    /// The longest idle time is below the shortest.
    IdleBackwards {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A replay that takes no time.
    ScaleZero,
    /// A player, or cycles, at no rate.
    RateZero,
    /// Cycles without length.
    CycleZero,
    /// Cycles of less than a microsecond.
    CycleShort {
        /// As given.
        cycle: Duration,
    },
    /// A player that reads and writes.
    PlayerMixed {
        /// Reads among a thousand.
        permille: u16,
    },
    /// A player whose bit rate varies by more than is possible.
    Vbr {
        /// As given, in thousandths.
        permille: u16,
    },
    /// A player's buffer doesn't hold two of the largest operations: it would miss each one.
    BufferShort {
        /// The bytes that the buffer holds: rate times time.
        bytes: u64,
        /// Bytes needed.
        needed: u64,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSizes => f.write_str("sizes: at least one is needed"),
            Self::SizeZero => f.write_str("sizes: 0 bytes; at least 1 is needed"),
            Self::SizeLong { bytes } => {
                write!(f, "sizes: {bytes} bytes; 1 to {} are possible", Request::BYTES_MAX)
            }
            Self::NotMultiple { bytes, unit } => {
                write!(f, "sizes: {bytes} bytes is not a multiple of the smallest, {unit}")
            }
            Self::NoWeight => f.write_str("sizes: all weights are 0; at least one must be more"),
            Self::ReadsAboveAll { permille } => {
                write!(f, "reads: {permille} of a thousand; 0 to 1000 are possible")
            }
            Self::TrimsAboveAll { permille } => {
                write!(f, "trims: {permille} of a thousand; 0 to 1000 are possible")
            }
            Self::Skew { permille } => {
                write!(f, "skewed: {permille} of a thousand; 1 to 999 are possible")
            }
            Self::FlushAfterNothing => f.write_str("flush_after: 0 writes; at least 1 is needed"),
            Self::RunEmpty => f.write_str("run length: 0; at least 1 is needed"),
            Self::CycleEmpty => {
                f.write_str("semi-sequential: 0 random and 0 sequential; at least 1 is needed")
            }
            Self::RunTooLong => f.write_str("run length: the bytes of a run pass 2^64"),
            Self::ExtentShort { extent, needed } => {
                write!(f, "extent: {extent} bytes; at least {needed} are needed")
            }
            Self::NothingOutstanding => f.write_str("outstanding: 0; at least 1 is needed"),
            Self::OutstandingMany { outstanding } => {
                write!(f, "outstanding: {outstanding}; 1 to {OUTSTANDING_MAX} are possible")
            }
            Self::IntervalShort { interval } => {
                write!(f, "interval: {interval:?}; at least {INTERVAL_MIN:?} is needed")
            }
            Self::CycleMany { operations } => write!(
                f,
                "cycle: {operations} operations in each; at most {CYCLE_OPERATIONS_MAX} are possible"
            ),
            Self::IntervalZero => f.write_str("interval: 0 ns; at least 1 is needed"),
            Self::OnZero => f.write_str("on: 0 ns; at least 1 is needed"),
            Self::PeriodShort { period } => {
                write!(f, "on and off: {period:?} together; at least {INTERVAL_MIN:?} is needed")
            }
            Self::BurstEmpty => f.write_str("burst length: 0; at least 1 is needed"),
            Self::IdleBackwards { min, max } => {
                write!(f, "idle_max: {max:?}; at least idle_min, {min:?}, is needed")
            }
            Self::ScaleZero => f.write_str("time_scale: 0; more is needed"),
            Self::RateZero => f.write_str("rate: 0 bytes per second; at least 1 is needed"),
            Self::CycleZero => f.write_str("cycle: 0 ns; at least 1 is needed"),
            Self::CycleShort { cycle } => {
                write!(f, "cycle: {cycle:?}; at least {INTERVAL_MIN:?} is needed")
            }
            Self::PlayerMixed { permille } => {
                write!(f, "reads: {permille} of a thousand; a player takes only 0 or 1000")
            }
            Self::Vbr { permille } => {
                write!(f, "vbr: {permille} of a thousand; 0 to 900 are possible")
            }
            Self::BufferShort { bytes, needed } => write!(
                f,
                "buffer: {bytes} bytes at this rate; at least {needed}, two of the largest \
                 operations, are needed"
            ),
        }
    }
}

impl std::error::Error for SpecError {}
