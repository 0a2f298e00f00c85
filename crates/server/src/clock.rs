//! The daemon's one clock: the system's monotonic one, in nanoseconds.

use disktime_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now, on a scale that all threads share and the core understands.
#[must_use]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts up from the start of the machine: both parts are positive.
    let seconds = time.tv_sec.cast_unsigned();
    Instant::from_nanos(seconds * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}
