//! Flushes: which stream pays for the writes that a flush brings to the medium.
//!
//! To a device with a write cache all streams that write are one group: it brings their writes to the medium
//! when it likes, or at a flush. A flush is for its asker's own writes, unless other streams have written more
//! since the last one: then each of them pays its part of the time that the flush took, by what its writes are
//! reckoned to take. With nothing written since the last one the asker pays all of it.
//!
//! The flush's own time must be seen for this, as at depth 1 and in slices: where pieces of several streams come back
//! together, windows are divided by prices.
//!
//! Nothing is charged twice or not at all: what one stream pays another does not. Guaranteed rates
//! neither pay nor are paid for: beside them nothing stays in a cache (decision 3).
//!
//! Does not know: how large a cache is, or what is in it.

use alloc::vec::Vec;

use super::posting::Debt;
use crate::types::ids::StreamId;
use crate::types::ratio::scaled;
use crate::types::time::Duration;

/// The writes that no flush has brought to the medium.
#[derive(Default)]
pub(crate) struct WriteBack {
    /// The modelled time of each stream's, in ns.
    unflushed: Vec<u64>,
    /// The same of all streams.
    total: u64,
    /// The streams that wrote it.
    writers: Vec<StreamId>,
}

impl WriteBack {
    fn of(&self, stream: StreamId) -> u64 {
        self.unflushed.get(stream.0 as usize).copied().unwrap_or(0)
    }

    /// A stream goes.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        if let Some(unflushed) = self.unflushed.get_mut(stream.0 as usize) {
            self.total -= core::mem::take(unflushed);
        }
        self.writers.retain(|id| *id != stream);
    }

    /// A stream's write came back, whose modelled time is `reckoned`.
    pub(crate) fn wrote(&mut self, stream: StreamId, reckoned: Duration) {
        let slot = stream.0 as usize;
        if slot >= self.unflushed.len() {
            self.unflushed.resize(slot + 1, 0);
        }
        let reckoned = reckoned.as_nanos().min(u64::MAX - self.total);
        if self.unflushed[slot] == 0 && reckoned > 0 {
            self.writers.push(stream);
        }
        self.unflushed[slot] += reckoned;
        self.total += reckoned;
    }

    /// A flush came back that took that long: adds the parts that other streams than its asker pay of it,
    /// rounded down. No write is unflushed then.
    pub(crate) fn flushed(&mut self, asker: StreamId, took: Duration, debts: &mut Vec<Debt>) {
        if self.total > self.of(asker).saturating_mul(2) {
            for payer in self.writers.iter().copied().filter(|id| *id != asker) {
                let part = scaled(took.as_nanos(), self.of(payer), self.total);
                let time = Duration::from_nanos(part);
                debts.push(Debt { payer, time });
            }
        }
        self.forget_written();
    }

    /// Nothing is unwritten.
    pub(crate) fn forget_written(&mut self) {
        for id in self.writers.drain(..) {
            self.unflushed[id.0 as usize] = 0;
        }
        self.total = 0;
    }
}
