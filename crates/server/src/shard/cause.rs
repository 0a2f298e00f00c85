//! Causes of log lines about a virtual disk, each logged once in a while.

use disktime_core::Kind;

/// Why a line is logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cause {
    /// The back end failed requests of a kind with one error.
    BackEnd(Kind, i32),
    /// Clients beyond what it takes, or at its end.
    Client,
    /// Requests beyond what its queue takes.
    Queue,
    /// Acknowledged data that may be gone.
    Loss,
    Behind,
    Late,
    Cycle,
    Cut,
    Restored,
}
