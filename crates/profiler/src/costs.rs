//! Device time of requests of one size, by a cost table or by the device's mechanics.

use disktime_core::cost::{Price, PriceList};
use disktime_core::{Access, Duration};

/// Device time of requests of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// One that continues nothing.
    pub first: Duration,
    /// One that continues the one before.
    pub next: Duration,
}

impl Costs {
    /// zygaria's: half the longest seek and half a revolution, then each block's transfer.
    #[must_use]
    pub const fn mechanical(seek_max: Duration, revolution: Duration, transfer: Duration) -> Self {
        let halves = seek_max.as_nanos().saturating_add(revolution.as_nanos()).div_ceil(2);
        let first = Duration::from_nanos(halves.saturating_add(transfer.as_nanos()));
        Self { first, next: transfer }
    }

    /// By a price list, for requests of so many bytes; where either may come, the dearer.
    #[must_use]
    pub fn priced(prices: &PriceList, access: Access, bytes: u64) -> Self {
        let PriceList { sequential_read, random_read, sequential_write, random_write } = prices;
        let (read, write) = match access {
            Access::Read => (true, false),
            Access::Write => (false, true),
            Access::Both => (true, true),
        };
        let dearer = |reads: &Price, writes: &Price| {
            let cost =
                |price: &Price, taken: bool| if taken { price.of(bytes) } else { Duration::ZERO };
            cost(reads, read).max(cost(writes, write))
        };
        Self {
            first: dearer(random_read, random_write),
            next: dearer(sequential_read, sequential_write),
        }
    }

    /// The time of a run of `requests`.
    #[must_use]
    pub fn run_time(&self, requests: u64) -> Duration {
        Duration::from_nanos(u64::try_from(self.run_nanos(requests)).unwrap_or(u64::MAX))
    }

    /// The time of a run in nanoseconds: at least 1 for each request, so that nothing is free.
    #[must_use]
    pub fn run_nanos(&self, requests: u64) -> u128 {
        let [first, next] = [self.first, self.next].map(|cost| u128::from(cost.as_nanos().max(1)));
        first + next * u128::from(requests.max(1) - 1)
    }

    /// b_s: the most requests in sequence that a stay has time for, at least one.
    #[must_use]
    pub fn run_within(&self, stay: Duration) -> u64 {
        let left = stay.saturating_sub(self.first).as_nanos();
        (left / self.next.as_nanos().max(1)).saturating_add(1)
    }
}
