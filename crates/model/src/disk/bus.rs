//! The bus between a disk's buffer and the host, as far as what was read goes over it.
//!
//! One read at a time goes over the bus, in the order in which they came off the medium. The arm
//! works for the next operation meanwhile, and is done with it at the earliest when the read before
//! has left the bus: the buffer holds what two operations read.
//!
//! Does not know: writes, which come in over the bus as if no read went out.

use std::collections::VecDeque;

use disktime_core::{Duration, Instant};

use super::geometry::Extent;
use super::spec::BusStart;
use crate::device::Completion;

/// An operation that the arm works for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Served {
    pub(super) tag: u64,
    /// When the arm may go to the next one.
    pub(super) free: Instant,
    /// When it is done, which is not before that.
    pub(super) at: Instant,
}

#[derive(Debug)]
pub(super) struct Bus {
    bytes_per_second: u64,
    start: BusStart,
    /// When the last read from the medium has left.
    pub(super) until: Instant,
    /// Reads that the arm is done with and the bus is not, in order of time.
    pub(super) leaving: VecDeque<Completion>,
}

impl Bus {
    pub(super) fn new(bytes_per_second: u64, start: BusStart) -> Self {
        Self { bytes_per_second, start, until: Instant::ZERO, leaving: VecDeque::new() }
    }

    /// Takes a read off the medium: its first sector had passed at `first`, its last at `last`. The
    /// extents are those that came off the medium and all that goes to the host.
    pub(super) fn take(
        &mut self,
        tag: u64,
        first: Instant,
        last: Instant,
        [from_medium, all]: [Extent; 2],
    ) -> Served {
        let free = last.max(self.until);
        let at = match self.start {
            BusStart::FirstSector => last.max(first.max(self.until) + self.time(from_medium)),
            BusStart::LastSector => free + self.time(all),
        };
        self.until = at;
        Served { tag, free, at }
    }

    /// Time on the bus, rounded down.
    pub(super) fn time(&self, extent: Extent) -> Duration {
        let bytes = extent.bytes();
        let nanos = match bytes.checked_mul(1_000_000_000) {
            Some(product) => product / self.bytes_per_second,
            None => {
                let product = u128::from(bytes) * 1_000_000_000;
                let nanos = product / u128::from(self.bytes_per_second);
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        Duration::from_nanos(nanos)
    }
}
