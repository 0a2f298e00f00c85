//! Deficit round robin (Shreedhar & Varghese 1996), in disk time; MARS shares its disks with it.
//!
//! Streams with work stand in a ring. The stream that has the turn gets a quantum of disk time by its
//! weight on top of what it had left, and is served while its next piece's estimate fits. Then the next
//! stream has the turn, and the rest of the quantum is kept. Charges correct estimates afterwards: a
//! stream that took longer than estimated starts its next turn lower, or in debt. (Deeper than 1 the
//! charge of a piece is its estimate as recent windows priced it.) An empty queue forgets what was left,
//! not a debt; a stream that its limit or depth holds back keeps a quantum.
//!
//! Guarantees: of two streams that stay ready, disk time per weight differs by at most a quantum per
//! weight and their largest pieces, however unlike their requests are. No deadline counts, and a
//! round takes as long as all quanta together. O(1) a piece while quanta are at least a piece, as
//! in the paper; smaller ones pass whole rounds at once, in O(n).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Instant, StreamId, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "drr",
    doc: "deficit round robin: disk time in turns of 20 ms at weight 100, what is left is kept",
    source: "Shreedhar and Varghese 1996; MARS, in the survey of quality of service for storage",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Drr::default()),
};

/// 20 ms, a seek and a megabyte or so, at the default weight of 100.
const QUANTUM_PER_WEIGHT: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Default)]
struct Account {
    /// Disk time that it may still use, in ns; negative after it has used more.
    deficit: i64,
    /// Stands in the ring.
    listed: bool,
}

#[derive(Default)]
struct Drr {
    /// Streams with work; a stream that is not ready leaves when its turn comes.
    ring: VecDeque<StreamId>,
    accounts: Vec<Account>,
    /// The first of the ring has had this turn's quantum.
    granted: bool,
    /// The picked stream and its piece's estimate: its dispatch follows.
    picked: Option<(StreamId, Duration)>,
}

fn quantum(stream: StreamView<'_>) -> i64 {
    QUANTUM_PER_WEIGHT.as_tokens() * i64::from(stream.contract().weight)
}

/// The estimate of what goes next, if anything may.
fn wanted(stream: StreamView<'_>) -> Option<Duration> {
    stream.head().filter(|_| stream.ready()).map(|head| head.estimate)
}

impl Drr {
    fn account(&mut self, id: StreamId) -> &mut Account {
        let slot = id.0 as usize;
        if slot >= self.accounts.len() {
            self.accounts.resize(slot + 1, Account::default());
        }
        &mut self.accounts[slot]
    }

    fn add(&mut self, id: StreamId, tokens: i64) {
        let account = self.account(id);
        account.deficit = account.deficit.saturating_add(tokens);
    }

    fn place(&mut self, stream: StreamView<'_>) {
        let id = stream.id();
        let account = self.account(id);
        if stream.queued() == 0 {
            account.deficit = account.deficit.min(0);
            if self.ring.front() == Some(&id) {
                self.leave();
            }
        } else if stream.ready() && !core::mem::replace(&mut account.listed, true) {
            self.ring.push_back(id);
        }
    }

    /// The first of the ring goes.
    fn leave(&mut self) {
        self.granted = false;
        if let Some(id) = self.ring.pop_front() {
            self.account(id).listed = false;
        }
    }

    /// Nobody could be served in a whole round: as many rounds pass as leave one to the first that
    /// can be.
    fn pass_rounds(&mut self, streams: Streams<'_>) {
        let ready = |id: &StreamId| {
            let stream = streams.get(*id)?;
            Some((*id, quantum(stream), wanted(stream)?))
        };
        let ring: Vec<_> = self.ring.iter().filter_map(ready).collect();
        let rounds = |(id, quantum, estimate): &(StreamId, i64, Duration)| {
            let deficit = self.accounts[id.0 as usize].deficit;
            estimate.as_tokens().saturating_sub(deficit).max(1).saturating_sub(1) / quantum
        };
        let passed = ring.iter().map(rounds).min().unwrap_or(0);
        for (id, quantum, _) in ring {
            self.add(id, quantum.saturating_mul(passed));
        }
    }
}

impl Policy for Drr {
    fn pick(&mut self, _now: Instant, streams: Streams<'_>) -> Pick {
        let mut in_vain = 0;
        while let Some(id) = self.ring.front().copied() {
            let Some(stream) = streams.get(id) else {
                self.leave();
                continue;
            };
            let Some(estimate) = wanted(stream) else {
                // A stream that could not use its quantum keeps at most one.
                let account = self.account(id);
                account.deficit = account.deficit.min(quantum(stream));
                self.leave();
                continue;
            };
            if !core::mem::replace(&mut self.granted, true) {
                self.add(id, quantum(stream));
            }
            if self.account(id).deficit >= estimate.as_tokens() {
                self.picked = Some((id, estimate));
                return Pick::Stream(id);
            }
            self.ring.rotate_left(1);
            self.granted = false;
            in_vain += 1;
            if in_vain >= self.ring.len() {
                self.pass_rounds(streams);
                in_vain = 0;
            }
        }
        Pick::Nothing
    }

    fn dispatched(&mut self, _now: Instant, stream: StreamView<'_>) {
        if let Some((id, estimate)) = self.picked.take().filter(|(id, _)| *id == stream.id()) {
            self.add(id, -estimate.as_tokens());
        }
        self.place(stream);
    }

    fn completed(&mut self, _now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        self.add(stream.id(), piece.estimate.as_tokens() - piece.charge.as_tokens());
        self.place(stream);
    }

    fn changed(&mut self, _now: Instant, stream: StreamView<'_>) {
        self.place(stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        *self.account(stream) = Account::default();
        self.granted &= self.ring.front() != Some(&stream);
        self.ring.retain(|id| *id != stream);
    }
}
