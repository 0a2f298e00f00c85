//! The thread's turns: what one leaves for the next, and when they end.

use disktime_core::Instant;

use super::guests::Guests;
use super::idle::Idle;
use super::own_time::OwnTime;
use super::parting::Parting;

pub(super) struct Turns {
    /// When completions were last taken off the ring.
    pub(super) heard_at: Instant,
    /// When the clock was looked at last.
    pub(super) now: Instant,
    /// The last turn ended with work left.
    pub(super) unfinished: bool,
    /// The last wait was awake.
    pub(super) spun: bool,
    pub(super) drain_until: Option<Instant>,
    /// The drain is a hand-over.
    pub(super) parting: Option<Parting>,
    /// All virtual disks are flushed at the end.
    pub(super) flushes_at_end: bool,
    pub(super) own_time: OwnTime,
    pub(super) idle: Idle,
    /// Processes that move bytes themselves, each piece in its turn.
    pub(super) guests: Guests,
}
