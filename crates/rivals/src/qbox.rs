//! QBox as published: shares of the time of a device of unknown insides.
//!
//! Each request is sequential or random, by the others near it in its stream's queue. A request that
//! is estimated to take e has the deadline T + e/r, r its stream's share and T the sum of the stream's
//! e/r so far; the earliest deadline goes next. The estimates are worked out from what completes in
//! windows of 100 ms (see `estimator`), not from the engine's charges. Deadlines only order requests:
//! nothing is late.
//!
//! Guarantees: nothing. Streams that stay ready get time in proportion to their shares as far as the
//! ratio of the two estimates is that of the true costs, which it is not: the estimator is biased,
//! and all random requests count alike, as all sequential ones do.
//!
//! The paper assumes that all queues are full. A stream that becomes active here gets T = max(T,
//! smallest active T), so it has saved nothing. Writes, which the paper leaves out, are classified
//! like reads; so is everything else. Streams without a reservation share by weight what is not
//! reserved. A pick is O(log n); the end of a window O(n log n) in the streams with work.

use alloc::boxed::Box;
use alloc::vec::Vec;

use disktime_core::cost::Costs;
use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{
    Duration, Instant, Request, RequestId, Share, StreamId, StreamOrder, StreamView, Streams,
};
use estimator::{Estimator, INITIAL, Met, Window};

mod estimator;
#[cfg(test)]
mod tests;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "qbox",
    doc: "earliest deadline by shares of estimated time; two costs, learned from windows of 100 ms",
    source: "QBox: guaranteeing I/O performance on black box storage systems, sections 2 and 3",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(QBox::new()),
};

/// How long a window is (§3.3).
const WINDOW: Duration = Duration::from_millis(100);

/// A request this close to the end of one before it is sequential, in bytes: fewer than 100 sectors,
/// as in paper `zygaria`, since the paper doesn't say.
const NEAR: u64 = 100 * 512;

/// How many requests before it count. The paper wants the first of a sequential group to be random if
/// it follows "m random ones, if m is large enough" (§4.3).
const NEIGHBOURS: usize = 16;

/// A deadline, or the sum of deadlines, in ns.
type Deadline = u128;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Sort {
    Sequential,
    #[default]
    Random,
}

#[derive(Clone, Copy, Default)]
struct Account {
    /// T: all relative deadlines so far.
    sum: Deadline,
    /// The reservation of the contract, in parts per million.
    reserve: u32,
    weight: u32,
    /// Which part of the device it gets, in parts per million, at least 1.
    rate: u32,
    /// Its next request, if it is ready.
    head: Option<Sort>,
    /// Ends of its latest requests, in a ring.
    ends: [Option<u64>; NEIGHBOURS],
    arrivals: usize,
}

struct QBox {
    /// Ready streams, by the deadline of their next request.
    deadlines: StreamOrder<Deadline>,
    /// The same by T.
    sums: StreamOrder<Deadline>,
    /// The smallest T so far of a stream with work.
    floor: Deadline,
    accounts: Vec<Option<Account>>,
    /// By request.
    sorts: Vec<Sort>,
    /// The picked stream and the kind of its request: its dispatch follows.
    picked: Option<(StreamId, Sort)>,
    estimator: Estimator,
    /// The open window: when it began, and what completed in it.
    since: Option<Instant>,
    open: Window,
}

/// The work of the end of a window (§4.7): a step for each pair of windows, and a place in two orders
/// for each deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Work {
    met: Met,
    /// Deadlines that were worked out again: one for each stream with work.
    deadlines: usize,
}

impl Account {
    /// Sequential if it goes on where, or near where, one of the latest ended.
    fn classify(&mut self, request: &Request) -> Sort {
        let near = |end: &Option<u64>| end.is_some_and(|end| end.abs_diff(request.offset) < NEAR);
        let sequential = self.ends.iter().any(near);
        self.ends[self.arrivals % NEIGHBOURS] = Some(request.offset.saturating_add(request.bytes));
        self.arrivals += 1;
        if sequential { Sort::Sequential } else { Sort::Random }
    }
}

impl QBox {
    fn new() -> Self {
        Self {
            deadlines: StreamOrder::default(),
            sums: StreamOrder::default(),
            floor: 0,
            accounts: Vec::new(),
            sorts: Vec::new(),
            picked: None,
            estimator: Estimator::new(INITIAL),
            since: None,
            open: Window { length: WINDOW, ..Window::default() },
        }
    }

    fn account(&mut self, stream: StreamView<'_>) -> &mut Account {
        let slot = stream.id().0 as usize;
        if slot >= self.accounts.len() {
            self.accounts.resize(slot + 1, None);
        }
        self.accounts[slot].get_or_insert_default()
    }

    fn get(&self, stream: StreamId) -> Option<&Account> {
        self.accounts.get(stream.0 as usize)?.as_ref()
    }

    fn sort(&self, request: RequestId) -> Sort {
        self.sorts.get(request.0 as usize).copied().unwrap_or_default()
    }

    /// e/r: rounded up, so that nothing is free.
    fn relative_deadline(&self, rate: u32, sort: Sort) -> Deadline {
        let Costs { sequential, random, .. } = self.estimator.costs();
        let cost = if sort == Sort::Sequential { sequential } else { random };
        let parts = Deadline::from(cost.as_nanos()) * Deadline::from(Share::PARTS);
        parts.div_ceil(Deadline::from(rate.max(1)))
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let head = stream.head().filter(|_| stream.ready()).map(|head| self.sort(head.request));
        let (id, floor) = (stream.id(), self.floor);
        let account = self.account(stream);
        if account.head.is_none() && head.is_some() {
            account.sum = account.sum.max(floor);
        }
        account.head = head;
        self.list(id);
    }

    fn list(&mut self, id: StreamId) {
        let account = self.get(id).copied().unwrap_or_default();
        let Account { sum, rate, head, .. } = account;
        let deadline = head.map(|sort| sum + self.relative_deadline(rate, sort));
        self.deadlines.set(id, deadline);
        self.sums.set(id, head.map(|_| sum));
        let first = self.sums.first().map_or(0, |(sum, _)| sum);
        self.floor = self.floor.max(first);
    }

    /// All deadlines anew, as costs or rates have changed. Answers how many there are.
    fn list_all(&mut self) -> usize {
        let mut listed = 0;
        for id in (0..).map(StreamId).take(self.accounts.len()) {
            if self.get(id).is_some_and(|account| account.head.is_some()) {
                self.list(id);
                listed += 1;
            }
        }
        listed
    }

    /// Rates from contracts: a stream has its reservation; streams without one share the rest by weight.
    fn work_out_rates(&mut self) {
        let known = || self.accounts.iter().flatten();
        let reserved: u64 = known().map(|account| u64::from(account.reserve)).sum();
        let rest = u64::from(Share::PARTS).saturating_sub(reserved);
        let without = known().filter(|account| account.reserve == 0);
        let weights: u64 = without.map(|account| u64::from(account.weight)).sum();
        for account in self.accounts.iter_mut().flatten() {
            let part = rest * u64::from(account.weight) / weights.max(1);
            let part = u32::try_from(part).unwrap_or(Share::PARTS);
            let rate = if account.reserve > 0 { account.reserve } else { part };
            account.rate = rate.max(1);
        }
        self.list_all();
    }

    /// Closes the window that has ended by now, if one has, and answers with the work of that. It is as
    /// long as it should be, whenever that is noticed: nothing completed in between. Windows in which the
    /// device was idle are left out.
    fn roll(&mut self, now: Instant) -> Option<Work> {
        let since = self.since.filter(|since| now.since(*since) >= WINDOW)?;
        let met = self.estimator.close(self.open);
        self.open = Window { length: WINDOW, ..Window::default() };
        let late = now.since(since).as_nanos() % WINDOW.as_nanos();
        self.since = Some(Instant::from_nanos(now.as_nanos() - late));
        Some(Work { met, deadlines: self.list_all() })
    }
}

impl Policy for QBox {
    fn arrived(&mut self, _now: Instant, stream: StreamView<'_>, request: &Request) {
        let slot = request.id.0 as usize;
        if slot >= self.sorts.len() {
            self.sorts.resize(slot + 1, Sort::default());
        }
        self.sorts[slot] = self.account(stream).classify(request);
        if stream.queued() == 1 {
            self.place(stream);
        }
    }

    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        let Some((_, id)) = self.deadlines.first() else { return Pick::Nothing };
        self.picked = self.get(id).and_then(|account| account.head).map(|sort| (id, sort));
        Pick::Stream(id)
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.roll(now);
        self.since.get_or_insert(now);
        if let Some((id, sort)) = self.picked.take().filter(|(id, _)| *id == stream.id()) {
            let rate = self.get(id).map_or(1, |account| account.rate);
            let relative = self.relative_deadline(rate, sort);
            self.account(stream).sum += relative;
        }
        self.place(stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        self.roll(now);
        match self.sort(piece.request) {
            Sort::Sequential => self.open.sequential += 1,
            Sort::Random => self.open.random += 1,
        }
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        let contract = stream.contract();
        let (reserve, weight) = (contract.reserve.ppm(), contract.weight);
        let account = self.account(stream);
        if (account.reserve, account.weight, account.rate > 0) != (reserve, weight, true) {
            (account.reserve, account.weight) = (reserve, weight);
            self.work_out_rates();
        }
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.deadlines.set(stream, None);
        self.sums.set(stream, None);
        if let Some(account) = self.accounts.get_mut(stream.0 as usize) {
            *account = None;
        }
        self.work_out_rates();
    }

    fn costs(&self) -> Option<Costs> {
        Some(self.estimator.costs())
    }
}
