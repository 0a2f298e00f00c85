//! When operations are issued, as plain data.

use crate::spec::SpecError;
use disktime_core::Duration;

/// What decides when the next operation is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// A fixed number at once: each completion makes room for the next.
    Closed {
        /// How many may be outstanding, at least one.
        outstanding: u32,
        /// Time from a completion to the operation that takes its place.
        think: Duration,
    },
    /// By time alone, however many are outstanding.
    Open(Arrivals),
}

/// The times between the arrivals of an open loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Always the same; the first operation comes at the start.
    Constant {
        /// From one to the next, more than zero.
        interval: Duration,
    },
    /// A Poisson process: exponentially distributed, also from the start to the first.
    Poisson {
        /// Mean time from one to the next, more than zero.
        mean: Duration,
    },
}

impl Pace {
    /// Says what is wrong, if anything.
    ///
    /// # Errors
    /// A closed loop with nothing outstanding, an open one without time between arrivals.
    pub fn check(&self) -> Result<(), SpecError> {
        match *self {
            Self::Closed { outstanding: 0, .. } => Err(SpecError::NothingOutstanding),
            Self::Open(
                Arrivals::Constant { interval: Duration::ZERO }
                | Arrivals::Poisson { mean: Duration::ZERO },
            ) => Err(SpecError::IntervalZero),
            Self::Closed { .. } | Self::Open(_) => Ok(()),
        }
    }
}
