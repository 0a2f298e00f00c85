//! The client's one clock: the system's monotonic one, in nanoseconds. It is the server's too, so
//! that on one machine a load's cycles and the scheduler's begin together.

use disktime_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now, on a scale that all threads share.
pub(crate) fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    // Both count up from a start: neither part is negative.
    let (seconds, nanos) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}
