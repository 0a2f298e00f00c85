//! A profiler's options, its requests to a device, and its errors.

use disktime_core::{Duration, Instant};
use disktime_workload::IoOp;
use std::fmt;

/// Smallest device that can be profiled, in bytes.
pub const SIZE_MIN: u64 = 16 << 20;
/// The alignment of offsets, in bytes: direct I/O takes it anywhere.
pub const BLOCK_BYTES: u64 = 4096;
/// Longest request, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Shortest and longest time to profile for; less finds nothing.
pub const BUDGET_MIN: Duration = Duration::from_secs(2);
/// See [`BUDGET_MIN`].
pub const BUDGET_MAX: Duration = Duration::from_secs(24 * 3600);
/// A budget within which all the disks we know are done.
pub const BUDGET_DEFAULT: Duration = Duration::from_secs(150);

/// The device and the effort of profiling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfilerOptions {
    /// The name for the device.
    pub name: String,
    /// The device's size in bytes, at least [`SIZE_MIN`].
    pub size: u64,
    /// Whether its contents may be destroyed: only then writes are measured.
    pub writes: bool,
    /// When to stop: the last request is issued before it is over.
    pub budget: Duration,
    /// Where to look is drawn from it.
    pub seed: u64,
}

/// A request to issue when nothing is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Issue {
    /// When, never before the last completion; later distorts nothing, since times are measured.
    pub at: Instant,
    /// The operation. A flush has no bytes.
    pub op: IoOp,
}

/// How far a profiler is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// The quantity that it looks for.
    pub phase: &'static str,
    /// How much of everything is done, 0 to 1.
    pub part: f64,
    /// Requests that have completed.
    pub requests: u64,
}

impl Progress {
    /// As a part of something longer, from one part of it to another.
    #[must_use]
    pub fn between(self, from: f64, to: f64) -> Self {
        Self { part: from + (to - from) * self.part, ..self }
    }
}

/// Why there is no profiler, or no profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfilerError {
    /// A device too small to be profiled.
    Size {
        /// Its size in bytes.
        size: u64,
    },
    /// A budget out of range.
    Budget {
        /// As asked.
        budget: Duration,
    },
    /// The time was over before anything was found.
    Nothing {
        /// The quantity that was still missing.
        missing: &'static str,
    },
}

impl fmt::Display for ProfilerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { size } => {
                write!(f, "size: {size} bytes; at least {SIZE_MIN} can be profiled")
            }
            Self::Budget { budget } => write!(
                f,
                "budget: {budget:?}; {BUDGET_MIN:?} to {BUDGET_MAX:?} are possible, and a hard \
                 disk takes {BUDGET_DEFAULT:?}"
            ),
            Self::Nothing { missing } => {
                write!(
                    f,
                    "the time was over before there was a figure for {missing}: raise the budget"
                )
            }
        }
    }
}

impl std::error::Error for ProfilerError {}

/// A request that has completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) op: IoOp,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
}
