//! Wakes a thread that waits on an eventfd.

use std::os::fd::OwnedFd;

/// Counts on an eventfd, which wakes the thread that waits on it.
pub(crate) fn wake(eventfd: &OwnedFd) {
    if let Err(error) = rustix::io::write(eventfd, &1u64.to_ne_bytes()) {
        tracing::debug!(%error, "a thread can't be woken: it has a wake-up waiting");
    }
}
