//! The daemon's threads: how they are started, how one that fails is noticed, how all of them end in
//! bounded time.
//!
//! Does not know: what they do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use disktime_core::Instant;

use crate::clock;

/// How long is waited before it is looked again whether a thread has ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(2);
/// Failures that nobody has taken yet.
const FAILURES_MAX: usize = 64;

/// A thread that the daemon can't be without has ended, though nobody had told it to.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}: its thread has failed, so the daemon ends: {reason}")]
pub struct ThreadFailure {
    /// The part of the daemon that it served: `device disk`, `the front desk`.
    pub what: String,
    /// Why it ended.
    pub reason: String,
}

/// The threads that the daemon can't be without.
pub(crate) struct Threads {
    running: Vec<JoinHandle<io::Result<()>>>,
    failed: Sender<ThreadFailure>,
    failures: Receiver<ThreadFailure>,
}

impl Threads {
    pub(crate) fn new() -> Self {
        let (failed, failures) = crossbeam_channel::bounded(FAILURES_MAX);
        Self { running: Vec::new(), failed, failures }
    }

    /// Starts one; `what` it serves is for people.
    pub(crate) fn start(
        &mut self,
        name: &str,
        what: &str,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (what, failed) = (what.to_owned(), self.failed.clone());
        let run = move || {
            // The thread's state is dropped on its way here, and is not looked at again.
            let outcome = catch_unwind(AssertUnwindSafe(run));
            let outcome = outcome.unwrap_or_else(|panic| Err(io::Error::other(said(&*panic))));
            if let Err(error) = &outcome {
                let failure = ThreadFailure { what, reason: error.to_string() };
                // One that finds no room is one of many.
                let _told = failed.try_send(failure);
            }
            outcome
        };
        self.running.push(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Where failures come in.
    pub(crate) fn failures(&self) -> Receiver<ThreadFailure> {
        self.failures.clone()
    }

    /// Waits for the end of all of them, not longer than until then: those that are left end with the
    /// process. Answers whether none is.
    pub(crate) fn join(&mut self, until: Instant) -> io::Result<bool> {
        let mut outcome = Ok(true);
        for thread in self.running.drain(..) {
            let ended = join(thread, until);
            outcome = outcome.and_then(|all| Ok(ended? && all));
        }
        outcome
    }
}

/// Waits for a thread's end, not longer than until then; answers whether it has ended.
pub(crate) fn join(thread: JoinHandle<io::Result<()>>, until: Instant) -> io::Result<bool> {
    while !thread.is_finished() {
        if clock::now() >= until {
            let name = thread.thread().name().unwrap_or_default();
            tracing::warn!(thread = name, "it does not end: it is left behind");
            return Ok(false);
        }
        std::thread::park_timeout(LOOK);
    }
    let ended = thread.join().unwrap_or_else(|panic| Err(io::Error::other(said(&*panic))));
    ended.map(|()| true)
}

/// The message of a panic.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a word"))
}

#[cfg(test)]
mod tests {
    use disktime_core::Duration;

    use super::*;

    #[test]
    fn failures_are_told_and_ends_are_not() {
        let mut threads = Threads::new();
        let failures = threads.failures();
        threads.start("good", "a good one", || Ok(())).unwrap();
        threads.start("bad", "a bad one", || Err(io::Error::other("no ring"))).unwrap();
        let outcome = threads.join(Instant::MAX);
        assert_eq!(outcome.unwrap_err().to_string(), "no ring");
        threads.start("worse", "a worse one", || panic!("of all {}", "things")).unwrap();
        assert!(threads.join(Instant::MAX).is_err());
        let said: Vec<String> = failures.try_iter().map(|failure| failure.to_string()).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("a bad one: ") && said[0].ends_with("no ring"), "{said:?}");
        assert!(said[1].ends_with("it panicked: of all things"), "{said:?}");
    }

    /// The daemon waited for a thread that dialled a dead server for half a minute.
    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let mut threads = Threads::new();
        let (end, ends) = crossbeam_channel::bounded::<()>(0);
        let waits = move || ends.recv().map_err(io::Error::other);
        threads.start("stuck", "a stuck one", waits).unwrap();
        threads.join(clock::now() + Duration::from_millis(10)).unwrap();
        drop(end);
    }
}
