//! The contract between a timing model and its driver.

use disktime_core::{Instant, Kind, Tier};

/// A request as a device sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// The operation.
    pub kind: Kind,
    /// First byte on the device; ignored for [`Kind::Flush`].
    pub offset: u64,
    /// Length in bytes; zero for [`Kind::Flush`] only.
    pub bytes: u64,
    /// Durable before it completes.
    pub fua: bool,
}

/// An operation that the device has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The caller's name for it, as submitted.
    pub tag: u64,
    /// When it finished, on the device's own timeline.
    pub at: Instant,
    /// Which tier served all of it, if the device has tiers.
    pub tier: Option<Tier>,
}

impl Completion {
    /// A completion of a device without tiers.
    #[must_use]
    pub fn new(tag: u64, at: Instant) -> Self {
        Self { tag, at, tier: None }
    }
}

/// A device that accepts operations and says when each is done.
///
/// One caller, on one thread. Call [`submit`](Self::submit) at the time of submission, sleep (or
/// jump) to [`next_completion`](Self::next_completion), collect with [`advance`](Self::advance).
///
/// - **Time** never goes back over the calls to `submit` and `advance` together.
/// - **The device's timeline is its own.** It chooses its next operation when it gets free, out of
///   those submitted by then, whether or not the caller looked. A late `advance` therefore changes
///   no completion time; only a late `submit` does, as it would on a real device.
/// - **Each operation completes exactly once**, later than it was submitted. There is no cancelling.
/// - **Tags** are the caller's; the device doesn't compare them.
pub trait Device: Send {
    /// Size in bytes, a multiple of 512.
    fn capacity_bytes(&self) -> u64;

    /// How many operations may be inside at once: submitted and not yet handed back by `advance`.
    fn queue_depth(&self) -> u32;

    /// Gives the device an operation at `now`.
    ///
    /// # Panics
    /// On a programmer's error: above the queue depth, outside the capacity, an empty operation
    /// other than a flush, or time going back.
    fn submit(&mut self, now: Instant, tag: u64, op: Op);

    /// When the earliest completion not yet handed back happens, if nothing else is submitted;
    /// `None` if the device is empty. It may lie in the past of a late caller.
    ///
    /// A device made of several (a stripe set, tiers) may name an earlier time: that of a part, when
    /// `advance` may hand nothing back yet and the time named next is later.
    fn next_completion(&self) -> Option<Instant>;

    /// Appends everything that has completed up to and including `now`, in order of time.
    ///
    /// # Panics
    /// On a programmer's error: time going back.
    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>);

    /// The begin and the end of the device's latest pause: a time in which it leaves what it has lying by its
    /// own plan, and not for any operation. Only [`submit`](Self::submit) begins one; it may end in the future.
    fn pause(&self) -> Option<(Instant, Instant)> {
        None
    }
}
