//! Threads that wait for descriptors, and the eventfds that wake them.

use std::io;
use std::os::fd::OwnedFd;

use disktime_core::Instant;
use rustix::event::{PollFd, Timespec, poll};

use crate::clock;

/// Counts on an eventfd, which wakes the thread that waits on it.
pub(crate) fn wake(eventfd: &OwnedFd) {
    if let Err(error) = rustix::io::write(eventfd, &1u64.to_ne_bytes()) {
        tracing::debug!(%error, "a thread can't be woken: it has a wake-up waiting");
    }
}

/// Waits until one of these has an event, or until then: which of them have one. None has if a signal came.
pub(crate) fn wait(polled: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<Vec<bool>> {
    let left = until.map(|until| until.since(clock::now()).as_nanos());
    let timeout = left.map(|nanos| Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    });
    match poll(polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|polled| !polled.revents().is_empty()).collect())
}
