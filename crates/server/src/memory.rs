//! Memory for clients' data: a budget for the daemon, and each connection's account of it.
//!
//! Every connection has [`OWN`] bytes for itself, reserved before it is told that it may begin:
//! with these alone it goes on, a part of a request at a time, whatever others hold. Beyond them
//! the connections of a virtual disk take from the free memory, together at most an eighth of the
//! rest (dynamic thresholds for shared buffers: Choudhury and Hahne, IEEE/ACM Transactions on
//! Networking, 1998): a virtual disk whose clients take all they can get and read nothing leaves
//! eight ninths of it to the others.
//!
//! A connection that may not hold more waits for itself alone: something of its own is under way.
//!
//! Does not know: buffers. It counts what their holders say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stats::VdiskStats;

/// Bytes of received input that a connection may hold.
pub const INPUT: usize = 64 << 10;
/// Bytes that are counted for a request beside its data: its entries in the tables of front end and
/// engine, and its reply's.
pub const REQUEST: usize = 512;
/// The shortest part that a long request is cut into, in bytes.
pub const PART_MIN: usize = 64 << 10;
/// Bytes that are reserved for every connection: its input, a part that is on no block's boundary
/// with the buffer's rounding, and some small requests.
pub const OWN: usize = INPUT + PART_MIN + (32 << 10);
/// The most that a connection may hold: two cycles of 8 MB/s for 4 s in requests of 128 KiB, one that
/// is served and one that waits, and its requests themselves.
pub const HELD_MAX: usize = (64 << 20) + (1 << 20);
/// Beyond their own, the connections of a virtual disk may hold one part in so many of what is free.
const PART_OF_FREE: usize = 8;

/// A daemon's memory for clients' data.
#[derive(Debug)]
pub struct Budget {
    total: usize,
    used: AtomicUsize,
}

impl Budget {
    /// So many bytes.
    #[must_use]
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, used: AtomicUsize::new(0) })
    }

    /// Bytes of it.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Bytes that are reserved or held now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes bytes if so many are free, and if what is free before that allows it.
    fn take(&self, bytes: usize, allowed: impl Fn(usize) -> bool) -> bool {
        let next = |used: usize| {
            let after = used.checked_add(bytes).filter(|after| *after <= self.total)?;
            allowed(self.total - used).then_some(after)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The part of the budget that one connection holds; it gives all of it back when it is dropped.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    vdisk: Arc<VdiskStats>,
    held: usize,
}

impl Account {
    /// An account with its own bytes, of which the input's are held from now on; `None` if the budget
    /// has no room for it.
    #[must_use]
    pub fn open(budget: &Arc<Budget>, vdisk: &Arc<VdiskStats>) -> Option<Self> {
        let (budget, vdisk) = (Arc::clone(budget), Arc::clone(vdisk));
        budget.take(OWN, |_| true).then(|| Self { budget, vdisk, held: INPUT })
    }

    /// Holds so many bytes more, if it may.
    pub fn take(&mut self, bytes: usize) -> bool {
        let held = self.held.saturating_add(bytes);
        let more = held.saturating_sub(OWN).saturating_sub(self.extra());
        let may = held <= HELD_MAX && (more == 0 || self.take_more(more));
        if may {
            self.held = held;
        }
        may
    }

    /// Takes so many bytes of what is free, if its virtual disk may have them. Other threads may take for
    /// the same virtual disk at this moment: each counts its own before it looks.
    fn take_more(&mut self, more: usize) -> bool {
        let together = self.vdisk.memory.fetch_add(more, Ordering::Relaxed) + more;
        let fair = |free: usize| together * PART_OF_FREE <= free.saturating_sub(more);
        let may = self.budget.take(more, fair);
        if !may {
            self.vdisk.memory.fetch_sub(more, Ordering::Relaxed);
        }
        may
    }

    /// Holds so many bytes less.
    ///
    /// # Panics
    /// If it does not hold as many.
    pub fn give(&mut self, bytes: usize) {
        let extra = self.extra();
        assert!(self.held >= INPUT + bytes, "only what was taken is given back");
        self.held -= bytes;
        let less = extra - self.extra();
        self.vdisk.memory.fetch_sub(less, Ordering::Relaxed);
        self.budget.give(less);
    }

    /// Bytes that it holds beyond its own.
    fn extra(&self) -> usize {
        self.held.saturating_sub(OWN)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.vdisk.memory.fetch_sub(self.extra(), Ordering::Relaxed);
        self.budget.give(OWN + self.extra());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{ALIGN, Pool};

    const MIB: usize = 1 << 20;

    /// Takes parts until it may have no more; answers its bytes.
    fn fill(account: &mut Account, part: usize) -> usize {
        let mut taken = 0;
        while account.take(part) {
            taken += part;
        }
        taken
    }

    fn vdisk() -> Arc<VdiskStats> {
        Arc::default()
    }

    #[test]
    fn the_shortest_part_always_fits_beside_the_input() {
        let part = Pool::bytes_of(PART_MIN + ALIGN - 1) + REQUEST;
        assert!(INPUT + part <= OWN, "{part}");
        let (budget, vdisk) = (Budget::new(OWN), vdisk());
        let mut only = Account::open(&budget, &vdisk).unwrap();
        assert!(Account::open(&budget, &vdisk).is_none(), "no room for a second one");
        for _ in 0..3 {
            assert!(only.take(part) && !only.take(part));
            only.give(part);
        }
        drop(only);
        assert_eq!(budget.used(), 0);
        assert!(Account::open(&budget, &vdisk).is_some());
    }

    /// Fifteen clients of one virtual disk that never read held all that there was; then a client of
    /// another one had nothing.
    #[test]
    fn greedy_virtual_disks_leave_eight_ninths_each() {
        for (disks, clients, left) in [(1, 15, 88), (2, 16, 78), (5, 3, 55)] {
            let budget = Budget::new(1024 * MIB);
            let mut greedy = Vec::new();
            for _ in 0..disks {
                let vdisk = vdisk();
                let open = |_| Account::open(&budget, &vdisk).unwrap();
                let mut accounts: Vec<_> = (0..clients).map(open).collect();
                assert!(
                    accounts.iter_mut().map(|account| fill(account, PART_MIN)).sum::<usize>() > 0
                );
                greedy.extend(accounts);
            }
            let free = budget.total() - budget.used();
            assert!(free * 100 / budget.total() >= left, "{disks} x {clients}: {free}");
            let mut good = Account::open(&budget, &vdisk()).unwrap();
            let own = fill(&mut good, MIB);
            assert!(own + MIB >= (free / 9).min(64 * MIB), "{own} of {free}");
        }
    }

    /// Each refusal would have left less for the virtual disk's next client.
    #[test]
    fn a_refusal_counts_for_nothing() {
        let (budget, vdisk) = (Budget::new(16 * MIB), vdisk());
        let mut account = Account::open(&budget, &vdisk).unwrap();
        let counts = || (budget.used(), vdisk.memory.load(Ordering::Relaxed));
        let before = counts();
        assert!((0..10).all(|_| !account.take(8 * MIB)));
        assert_eq!(counts(), before);
        assert!(account.take(MIB));
    }

    #[test]
    fn one_connection_is_bounded_and_gives_all_back() {
        let (budget, vdisk) = (Budget::new(4096 * MIB), vdisk());
        let mut account = Account::open(&budget, &vdisk).unwrap();
        let taken = fill(&mut account, MIB);
        assert_eq!(taken, 64 * MIB);
        account.give(taken);
        assert_eq!(budget.used(), OWN);
        assert!(account.take(10 * MIB));
        drop(account);
        assert_eq!((budget.used(), vdisk.memory.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    #[should_panic(expected = "only what was taken")]
    fn more_than_was_taken_is_not_given_back() {
        let mut account = Account::open(&Budget::new(MIB), &vdisk()).unwrap();
        account.give(1);
    }
}
