//! Writes that were acknowledged before they were on the medium: who pays for what they cost later.
//!
//! To a device with a write cache all who write are one group: it brings their writes to the medium
//! when it likes, or when somebody flushes, in whoever's time that is.
//!
//! - A flush is for its asker's own writes, unless others have written more since the last one: then
//!   each of them pays his part of the time it took, by what his writes are reckoned to take. With
//!   nothing written since the last one it is its asker's.
//! - A write that took less than it does in the long run *owes* the rest: a buffer took it. While
//!   somebody owes, the device works for two, and he pays half of the time of others' pieces until all
//!   of it is paid. Time in which nobody waits for the device pays as well.
//!
//! The second takes a cost model that learns. Both take that a piece's time is seen (depth 1, turns):
//! where streams mix windows are divided by prices, and who loses by that has turns.
//!
//! Nothing is charged twice or not at all: what one stream pays another does not. Guaranteed rates
//! neither pay nor owe: beside them nothing stays in a cache (decision 3).
//!
//! Does not know: how large a cache is, or what is in it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Engine;
use super::pieces::Piece;
use crate::account::stream_accounts::Wrote;
use crate::classes::stream::Stream;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::request::Kind;
use crate::types::time::{Duration, Instant};

/// Nobody owes more: what a cache takes in a turn, not what a wrong price list adds up to.
const OWED_MAX: u64 = 1_000_000_000;

/// What the streams have written together.
#[derive(Default)]
pub(super) struct Written {
    /// What it is reckoned to take, since the last flush, in ns.
    unflushed: u64,
    /// Who wrote it.
    writers: Vec<StreamId>,
    /// Who owes; the first pays.
    debtors: VecDeque<StreamId>,
    /// Until when debts are worked out.
    at: Instant,
}

impl Written {
    /// A stream that goes.
    pub(super) fn forget(&mut self, stream: &Stream) {
        self.unflushed -= stream.wrote.unflushed;
        self.writers.retain(|id| *id != stream.id);
        self.debtors.retain(|id| *id != stream.id);
    }

    /// The device was busy until then with pieces whose own times are not known: no debt was paid.
    pub(super) fn skip_to(&mut self, now: Instant) {
        self.at = now;
    }

    /// The first debtor's debt is less by that much.
    fn settle(&mut self, debtor: &mut Stream, by: Duration) {
        debtor.wrote.owed = debtor.wrote.owed.saturating_sub(by.as_nanos());
        if debtor.wrote.owed == 0 {
            self.debtors.pop_front();
        }
    }
}

impl Engine {
    /// How much of the time that a piece took is the first debtor's, when it comes back while its
    /// stream has the device to itself. Takes it off what he owes.
    pub(super) fn take_owed(
        &mut self,
        piece: &Piece,
        took: Duration,
    ) -> Option<(StreamId, Duration)> {
        let since = self.now.since(self.written.at);
        self.written.at = self.now;
        let id = *self.written.debtors.front()?;
        if id == piece.stream && writes(piece) {
            return None;
        }
        let debtor = self.streams[id.0 as usize].as_mut().expect("it is forgotten if it goes");
        let idle = Duration::from_nanos(since.as_nanos().saturating_sub(took.as_nanos()));
        let left = debtor.wrote.owed.saturating_sub(idle.as_nanos());
        let half = Duration::from_nanos((took.as_nanos() / 2).min(left));
        self.written.settle(debtor, idle + half);
        if id == piece.stream || half == Duration::ZERO || !concerns(piece) {
            return None;
        }
        Some((id, half))
    }

    /// A piece was charged by itself: what of it others pay. `owed` is what they owe of it.
    pub(super) fn pass_on(
        &mut self,
        piece: &Piece,
        charge: Duration,
        owed: Option<(StreamId, Duration)>,
    ) -> Duration {
        if self.unit.is_some() || !concerns(piece) {
            return Duration::ZERO;
        }
        if piece.shape.kind == Kind::Flush {
            return self.pass_on_flush(piece.stream, charge);
        }
        let mut passed = Duration::ZERO;
        if let Some((debtor, part)) = owed {
            passed = part.min(charge);
            self.pay_for_another(debtor, passed);
        }
        if writes(piece) {
            let paid = Duration::from_nanos(charge.as_nanos() - passed.as_nanos());
            self.note_written(piece, Some(paid));
        }
        passed
    }

    /// A piece came back among others': its part of the window is not known yet.
    pub(super) fn note_in_window(&mut self, piece: &Piece) {
        if !concerns(piece) {
            return;
        }
        match piece.shape.kind {
            Kind::Write | Kind::Zeroes => self.note_written(piece, None),
            Kind::Flush => self.forget_written(),
            _ => {}
        }
    }

    fn note_written(&mut self, piece: &Piece, paid: Option<Duration>) {
        let long_run = if self.learns { self.cost.long_run(&piece.shape) } else { None };
        let stream =
            self.streams[piece.stream.0 as usize].as_mut().expect("streams outlive pieces");
        if stream.cycle.is_some() {
            return;
        }
        let written = &mut self.written;
        // A piece is at least 1 ns.
        let room = u64::MAX - written.unflushed;
        let reckoned = piece.modelled.as_nanos().min(room);
        if stream.wrote.unflushed == 0 && reckoned > 0 {
            written.writers.push(stream.id);
        }
        stream.wrote.unflushed += reckoned;
        written.unflushed += reckoned;
        if let (Some(long_run), Some(paid)) = (long_run, paid) {
            let was = stream.wrote.owed;
            let owed = was.saturating_add(long_run.as_nanos()).saturating_sub(paid.as_nanos());
            stream.wrote.owed = owed.min(OWED_MAX);
            if was == 0 && stream.wrote.owed > 0 {
                written.debtors.push_back(stream.id);
            } else if was > 0 && stream.wrote.owed == 0 {
                written.debtors.retain(|id| *id != stream.id);
            }
        }
    }

    /// The part of a flush that others pay; nothing is unwritten then, and nobody owes. Rounded down.
    fn pass_on_flush(&mut self, asker: StreamId, took: Duration) -> Duration {
        let all = u128::from(self.written.unflushed);
        let own = self.find_stream(asker).map_or(0, |stream| stream.wrote.unflushed);
        let mut passed = Duration::ZERO;
        if all > 2 * u128::from(own) {
            for index in 0..self.written.writers.len() {
                let id = self.written.writers[index];
                let wrote = self.find_stream(id).map_or(0, |stream| stream.wrote.unflushed);
                let part = u128::from(took.as_nanos()) * u128::from(wrote) / all;
                let part = Duration::from_nanos(u64::try_from(part).unwrap_or(0));
                if id != asker {
                    self.pay_for_another(id, part);
                    passed += part;
                }
            }
        }
        self.forget_written();
        passed
    }

    fn forget_written(&mut self) {
        for id in self.written.writers.drain(..) {
            let stream = self.streams[id.0 as usize].as_mut();
            stream.expect("it is forgotten if it goes").wrote = Wrote::default();
        }
        self.written.debtors.clear();
        self.written.unflushed = 0;
    }

    /// Charges a stream for the time of another's piece.
    fn pay_for_another(&mut self, id: StreamId, part: Duration) {
        let (weight, round) = (self.usage_clock.weight(self.now), self.round());
        let stream = self.streams[id.0 as usize].as_mut().expect("it is forgotten if it goes");
        stream.charge(part + round, 0, part, weight, self.now);
        stream.counters.charged += part;
        stream.counters.afterwards += part;
        self.by_class[stream.home().at()] += part;
        self.refresh(id);
        self.tell_changed(id);
    }

    fn find_stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(id.0 as usize)?.as_ref()
    }
}

fn writes(piece: &Piece) -> bool {
    matches!(piece.shape.kind, Kind::Write | Kind::Zeroes)
}

/// Guaranteed classes are apart.
fn concerns(piece: &Piece) -> bool {
    matches!(piece.rank, Rank::Best | Rank::Background)
}
