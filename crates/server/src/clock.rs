//! The daemon's one clock: the system's monotonic one, in nanoseconds.
#![allow(unsafe_code, reason = "one system call, twice as cheap as through std's Instant")]

use disktime_core::Instant;

/// Now, on a scale that all threads share and the core understands.
#[must_use]
pub fn now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// Milliseconds since 1970, as the system has them: for people, never for durations.
#[must_use]
pub fn wall_ms() -> u64 {
    read(libc::CLOCK_REALTIME) / 1_000_000
}

/// CPU time of the calling thread in ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(failed, 0, "every Linux has these clocks");
    // Both count up from a start: neither part is negative.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
