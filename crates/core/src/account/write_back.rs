//! Write-back debt: writes that were acknowledged before they were on the medium, and which stream pays for
//! what they cost later.
//!
//! To a device with a write cache all streams that write are one group: it brings their writes to the medium
//! when it likes, or at a flush, in the time of whichever stream has the device then.
//!
//! - A flush is for its asker's own writes, unless other streams have written more since the last one: then
//!   each of them pays its part of the time that the flush took, by what its writes are reckoned to take.
//!   With nothing written since the last one the asker pays all of it.
//! - A write that took less than it does in the long run leaves a *write-back debt* of the rest: a cache
//!   took it. While a stream has such a debt, the device works for two, and that stream pays half of the
//!   time of others' pieces until all of the debt is paid. Time in which no stream waits for the device
//!   pays it off as well.
//!
//! The second needs a cost model that learns. Both need each piece's own time (depth 1, turns): where
//! streams mix, windows are divided by prices, and a stream that loses by that has turns.
//!
//! Nothing is charged twice or not at all: what one stream pays another does not. Guaranteed rates
//! neither pay nor owe: beside them nothing stays in a cache (decision 3).
//!
//! Does not know: how large a cache is, or what is in it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::posting::Debt;
use crate::types::ids::StreamId;
use crate::types::ratio::scaled;
use crate::types::time::{Duration, Instant};

/// The largest write-back debt of a stream, in ns: 1 s, more than a cache takes in one slice. Without this
/// bound a cost table that is wrong could add up to any debt.
const DEBT_MAX: u64 = 1_000_000_000;

/// The write-back account of one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Wrote {
    /// The modelled time of its writes since the last flush, in ns.
    unflushed: u64,
    /// Its write-back debt, in ns: the time that its writes will take beyond what was paid for them.
    debt: u64,
}

/// The write-back accounts of all streams.
#[derive(Default)]
pub(crate) struct WriteBack {
    /// By stream.
    wrote: Vec<Wrote>,
    /// The modelled time of all writes since the last flush, in ns.
    unflushed: u64,
    /// The streams that wrote it.
    writers: Vec<StreamId>,
    /// The streams that owe; the first pays.
    debtors: VecDeque<StreamId>,
    /// Until when debts are worked out.
    at: Instant,
}

impl WriteBack {
    /// A stream goes.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        if let Some(wrote) = self.wrote.get_mut(stream.0 as usize) {
            self.unflushed -= wrote.unflushed;
            *wrote = Wrote::default();
        }
        self.writers.retain(|id| *id != stream);
        self.debtors.retain(|id| *id != stream);
    }

    /// The device was busy until then with pieces whose own times are not known: no debt was paid.
    pub(crate) fn skip_to(&mut self, now: Instant) {
        self.at = now;
    }

    /// A piece came back that had the device to itself, and took that long. Pays off a part of the first
    /// debtor's write-back debt; answers how much of the piece's time the debtor pays, if the piece is
    /// another stream's. Guaranteed classes are not `concerned`.
    pub(crate) fn take_owed(
        &mut self,
        now: Instant,
        stream: StreamId,
        writes: bool,
        concerned: bool,
        took: Duration,
    ) -> Option<Debt> {
        let since = now.since(core::mem::replace(&mut self.at, now));
        let payer = *self.debtors.front()?;
        if payer == stream && writes {
            return None;
        }
        let idle = since.saturating_sub(took).as_nanos();
        let debt = &mut self.wrote[payer.0 as usize].debt;
        let half = (took.as_nanos() / 2).min(debt.saturating_sub(idle));
        *debt = debt.saturating_sub(idle + half);
        if *debt == 0 {
            self.debtors.pop_front();
        }
        if payer == stream || half == 0 || !concerned {
            return None;
        }
        let time = Duration::from_nanos(half);
        Some(Debt { payer, time })
    }

    /// A stream's write came back, whose modelled time is `reckoned`. If it had the device to itself and its
    /// cost in the long run is known, the stream's write-back debt grows by that, less the time `paid`.
    pub(crate) fn wrote(
        &mut self,
        stream: StreamId,
        reckoned: Duration,
        debt: Option<(Duration, Duration)>,
    ) {
        let slot = stream.0 as usize;
        if slot >= self.wrote.len() {
            self.wrote.resize(slot + 1, Wrote::default());
        }
        let wrote = &mut self.wrote[slot];
        let reckoned = reckoned.as_nanos().min(u64::MAX - self.unflushed);
        if wrote.unflushed == 0 && reckoned > 0 {
            self.writers.push(stream);
        }
        wrote.unflushed += reckoned;
        self.unflushed += reckoned;
        let Some((long_run, paid)) = debt else { return };
        let was = wrote.debt;
        let debt = was.saturating_add(long_run.as_nanos()).saturating_sub(paid.as_nanos());
        wrote.debt = debt.min(DEBT_MAX);
        if was == 0 && wrote.debt > 0 {
            self.debtors.push_back(stream);
        } else if was > 0 && wrote.debt == 0 {
            self.debtors.retain(|id| *id != stream);
        }
    }

    /// A flush came back that took that long: adds the parts that other streams than its asker pay of it,
    /// rounded down. No write is unflushed then, and no stream has a write-back debt.
    pub(crate) fn flushed(&mut self, asker: StreamId, took: Duration, debts: &mut Vec<Debt>) {
        let unflushed = |id: StreamId| self.wrote.get(id.0 as usize).map_or(0, |it| it.unflushed);
        if self.unflushed > unflushed(asker).saturating_mul(2) {
            for payer in self.writers.iter().copied().filter(|id| *id != asker) {
                let part = scaled(took.as_nanos(), unflushed(payer), self.unflushed);
                let time = Duration::from_nanos(part);
                debts.push(Debt { payer, time });
            }
        }
        self.forget_written();
    }

    /// Nothing is unwritten.
    pub(crate) fn forget_written(&mut self) {
        for id in self.writers.drain(..) {
            self.wrote[id.0 as usize] = Wrote::default();
        }
        self.debtors.clear();
        self.unflushed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debt is paid beside guaranteed classes' pieces too, but they are not relieved.
    #[test]
    fn guaranteed_classes_are_not_relieved_by_debts() {
        let ms = Duration::from_millis;
        let mut write_back = WriteBack::default();
        write_back.wrote(StreamId(1), ms(10), Some((ms(10), ms(1))));
        let mut now = Instant::ZERO + ms(1);
        write_back.skip_to(now);
        let mut took = |concerned| {
            now = now + ms(4);
            write_back.take_owed(now, StreamId(0), false, concerned, ms(4))
        };
        assert_eq!(took(false), None);
        assert_eq!(took(true), Some(Debt { payer: StreamId(1), time: ms(2) }));
    }
}
