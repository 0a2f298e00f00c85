//! A client's place on a virtual disk: counted from before it is told that it may begin until its
//! connection is gone, so that a client that can't be served is told so in its handshake.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::memory::{Account, Budget};
use crate::stats::VdiskStats;

/// Clients of one virtual disk at once.
pub const CLIENTS_MAX: u64 = 16;

/// Why there is no place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum NoSeat {
    /// The virtual disk has all its clients.
    #[error(
        "{CLIENTS_MAX} clients are connected to this virtual disk, which is the most: close one"
    )]
    Crowded,
    /// The daemon has no memory for another client.
    #[error("the server has no memory for another client: close some, or raise its `memory`")]
    Memory,
    /// So many clients wait for the thread of its device already.
    #[error("the device's thread hears nothing: see why it stands still")]
    Deaf,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Seat {
    /// The part of the daemon's memory that its client holds.
    pub account: Account,
    stats: Arc<VdiskStats>,
}

impl Seat {
    /// Takes a place.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(stats: &Arc<VdiskStats>, budget: &Arc<Budget>) -> Result<Self, NoSeat> {
        let one_more = |clients| (clients < CLIENTS_MAX).then_some(clients + 1);
        let order = Ordering::Relaxed;
        stats.connections.fetch_update(order, order, one_more).map_err(|_| NoSeat::Crowded)?;
        let Some(account) = Account::open(budget, stats) else {
            stats.connections.fetch_sub(1, order);
            return Err(NoSeat::Memory);
        };
        Ok(Self { account, stats: Arc::clone(stats) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stats.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::OWN;

    #[test]
    fn places_are_bounded_by_number_and_by_memory_and_come_back() {
        let stats: Arc<VdiskStats> = Arc::default();
        let budget = Budget::new(20 * OWN);
        let seats: Vec<_> = (0..CLIENTS_MAX).map(|_| Seat::take(&stats, &budget)).collect();
        assert!(seats.iter().all(Result::is_ok));
        assert_eq!(Seat::take(&stats, &budget).err(), Some(NoSeat::Crowded));
        let other: Arc<VdiskStats> = Arc::default();
        let more: Vec<_> = (0..4).map(|_| Seat::take(&other, &budget)).collect();
        assert!(more.iter().all(Result::is_ok));
        assert_eq!(Seat::take(&other, &budget).err(), Some(NoSeat::Memory));
        assert_eq!(other.connections(), 4, "a place that was not given is not counted");
        drop((seats, more));
        assert_eq!((stats.connections(), other.connections(), budget.used()), (0, 0, 0));
        assert!(Seat::take(&other, &budget).is_ok());
    }
}
