//! Promise bounds while the engine runs: who is watched, and when a bound is broken.
//!
//! Every backlogged stream with a reservation stands in a heap by a time before which it can't break
//! its bound. A time there may be too early: a stream that was served moves on only when its time is
//! near. So a completion costs nothing here but the account in [`Behind`](crate::classes::promise), and
//! a timer fires only for a stream that is behind its bound.
//!
//! The stream that would break its bound first, within a second or two slices, *presses*: policies that give slices
//! serve it next.
//!
//! A breach is told once, and the stream's intervals begin anew: it is told again when the stream is
//! behind by as long once more.
//!
//! Does not know: policies, why others were served.

use alloc::vec::Vec;

use super::Engine;
use super::event::{BrokenBy, Event};
use crate::classes::lane::Gate;
use crate::classes::promise::{PIECE_BYTES, Terms, piece_time};
use crate::classes::stream::{Stream, StreamTable};
use crate::types::contract::Contract;
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// Times in the heap that are nearer than this are made exact.
const NEAR: Duration = Duration::from_secs(1); // no bound is shorter: less fires timers for nothing

/// The promises given at the device, and the streams that are watched.
#[derive(Debug)]
pub(super) struct Promises {
    terms: Terms,
    /// The piece's time without a profile.
    piece: Duration,
    /// Watched streams by when they break their bounds at the earliest, in ns.
    due: IndexedHeap,
    /// The stream that breaks its bound first, if that is soon.
    pub(super) pressing: Option<StreamId>,
    /// Streams whose bounds may have become shorter: their times in the heap may be too late.
    shorter: Shorter,
}

/// The streams whose bounds may have become shorter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Shorter {
    Nobodys,
    /// The streams in the heap. The others are not backlogged: a device may have many thousands of them.
    Watched,
    /// All streams: some had no bound before.
    All,
}

impl Promises {
    pub(super) fn new(terms: Terms) -> Self {
        let (piece, due) = (terms.piece, IndexedHeap::default());
        Self { terms, piece, due, pressing: None, shorter: Shorter::Nobodys }
    }

    /// When a bound is broken at the earliest.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|(at, _)| super::instant(at))
    }

    /// The slice length is another.
    pub(super) fn set_slice(&mut self, slice: Duration) {
        self.terms.slice = slice;
        self.shorter = self.shorter.max(Shorter::Watched);
    }

    /// A contract no longer counts in others' bounds.
    fn remove(&mut self, contract: &Contract, cycle: Option<Duration>) {
        let before = self.terms.withholds();
        self.terms.remove(contract, cycle);
        let same = self.terms.withholds() == before;
        self.shorter = self.shorter.max(if same { Shorter::Watched } else { Shorter::All });
    }

    /// A stream has another contract, or another cycle.
    pub(super) fn follow(&mut self, stream: &mut Stream, now: Instant) {
        let contract = stream.promised();
        let cycle = stream.cycle.as_ref().map(|cycle| cycle.period);
        let new = Some((contract, cycle));
        let old = core::mem::replace(&mut stream.behind.counted, new);
        if old == new {
            return;
        }
        if let Some((old, cycle)) = old {
            self.remove(&old, cycle);
        }
        self.terms.add(&contract, cycle);
        stream.behind.set_reserve(contract.reserve, now);
        stream.behind.begin(now);
        let backlogged = stream.lanes[stream.home()].gate == Gate::Ready;
        self.turned(stream, backlogged, now);
    }

    /// A stream goes.
    pub(super) fn forget(&mut self, stream: &Stream) {
        self.due.remove(stream.id.0);
        if let Some((contract, cycle)) = &stream.behind.counted {
            self.remove(contract, *cycle);
        }
    }

    /// A stream is backlogged from now on, or no more.
    pub(super) fn turned(&mut self, stream: &mut Stream, backlogged: bool, now: Instant) {
        if stream.accounts.own == Share::ZERO {
            return;
        }
        stream.behind.turned(backlogged, now);
        if backlogged && !self.due.contains(stream.id.0) {
            let at = self.breaks_at(stream, now);
            self.due.lower(stream.id.0, at);
        }
    }

    fn breaks_at(&self, stream: &Stream, now: Instant) -> Option<i64> {
        let (contract, pending) = (stream.promised(), stream.accounts.pending);
        let bound = self.terms.bound(&contract)?;
        stream.behind.breaks_at(contract.reserve, bound, pending, now)
    }

    /// Times that bounds have made too late are lowered.
    #[cold]
    fn look_again(&mut self, streams: &StreamTable, now: Instant) {
        let ids: Vec<u32> = match core::mem::replace(&mut self.shorter, Shorter::Nobodys) {
            Shorter::All => streams.iter().map(|stream| stream.id.0).collect(),
            Shorter::Nobodys | Shorter::Watched => self.due.some(usize::MAX, i64::MAX).collect(),
        };
        for id in ids {
            let at = streams.get(StreamId(id)).and_then(|stream| self.breaks_at(stream, now));
            self.due.lower(id, at);
        }
    }

    /// The stream that breaks its bound first, if that is near, and when: a slice that goes on and its own slice may
    /// come before.
    fn first(&mut self, streams: &StreamTable, now: Instant) -> Option<(Instant, StreamId)> {
        let near = NEAR.max(self.terms.slice + self.terms.slice);
        let near = now.as_nanos().saturating_add(near.as_nanos()).cast_signed();
        if self.shorter != Shorter::Nobodys {
            self.look_again(streams, now);
        } else if self.due.peek().is_none_or(|(at, _)| at > near) {
            return None;
        }
        let mut due = core::mem::take(&mut self.due);
        let at = |id: u32| self.breaks_at(streams.get(StreamId(id))?, now);
        let id = due.first(at, near);
        self.due = due;
        let (at, id) = self.due.peek().filter(|_| id.is_some())?;
        Some((super::instant(at), StreamId(id)))
    }
}

impl Engine {
    /// The longest time that a stream, while it is backlogged, can be behind its reservation; `None`
    /// if it reserves nothing, or is promised something else (`docs/promises.md`).
    #[must_use]
    pub fn promise(&self, id: StreamId) -> Option<Duration> {
        let stream = self.streams.get(id)?;
        self.promises.terms.bound(&stream.promised())
    }

    /// The terms that the promise bounds of this device's streams follow from.
    #[must_use]
    pub fn promise_terms(&self) -> Terms {
        self.promises.terms
    }

    /// Tells of streams that are behind their bounds by now, and notes who would be first.
    pub(super) fn watch_promises(&mut self) {
        let now = self.now;
        loop {
            let first = self.promises.first(&self.streams, now);
            self.promises.pressing = first.map(|(_, id)| id);
            let Some((_, id)) = first.filter(|(at, _)| *at <= now) else { return };
            let bound = self.promise(id).expect("a stream that is watched has a bound");
            let stream = &mut self.streams[id];
            let behind = stream.behind.time(stream.accounts.own, now);
            stream.behind.begin(now);
            let silent = self.books.ledger.silent(now).as_nanos() >= behind.as_nanos() / 2;
            let by = if silent { BrokenBy::Device } else { BrokenBy::Others };
            self.events.push(Event::PromiseBroken { stream: id, behind, bound, by });
        }
    }

    /// A stream's contract or cycle may be another.
    pub(super) fn follow_promise(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        self.promises.follow(stream, self.now);
    }

    /// The depth, the profile or the largest piece may be others.
    pub(super) fn follow_device(&mut self) {
        let piece_max = self.guarantees.piece_max(Rank::Best).min(PIECE_BYTES);
        let profile = self.guarantees.profile.as_ref();
        let piece = profile.map_or(self.promises.piece, |it| piece_time(it, piece_max));
        let Promises { terms, .. } = &mut self.promises;
        let shorter = piece < terms.piece || self.limits.depth < terms.depth;
        (terms.piece, terms.depth) = (piece, self.limits.depth);
        if shorter {
            self.promises.shorter = self.promises.shorter.max(Shorter::Watched);
        }
    }
}
