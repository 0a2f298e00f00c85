//! Writes that were acknowledged before they were on the medium: who pays for what they cost later.
//!
//! To a device with a write cache all who write are one group: it brings their writes to the medium
//! when it likes, or when somebody flushes, in whoever's time that is.
//!
//! - A flush is for its asker's own writes, unless others have written more since the last one: then
//!   each of them pays his part of the time it took, by what his writes are reckoned to take. With
//!   nothing written since the last one it is its asker's.
//! - A write that took less than it does in the long run *owes* the rest. While somebody owes, what
//!   others' pieces take longer than their price is his, until it is paid. What nobody needs to wait for
//!   is paid by waiting.
//!
//! The second takes prices that compare with what pieces take: a cost model that learns. Both take
//! that a piece's time is seen (depth 1, turns): where streams mix windows are divided by prices, and
//! who loses by that has turns.
//!
//! Nothing is charged twice or not at all: what one stream pays another does not. Guaranteed rates
//! neither pay nor owe: beside them nothing stays in a cache (decision 3).
//!
//! Does not know: how large a cache is, or what is in it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Engine;
use crate::pieces::Piece;
use crate::rank::Rank;
use crate::request::{Kind, StreamId};
use crate::stream::Stream;
use crate::time::{Duration, Instant};

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
    /// Until when time counts as waited for.
    at: Instant,
    /// Whose pieces come back now, one after the other; by how much they take longer than their
    /// prices, and what others have paid of it.
    waiter: Option<StreamId>,
    lag: i64,
    paid: Duration,
    /// The most that was paid for others in one such spell, or one flush.
    most: Duration,
}

/// What a stream has written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wrote {
    /// What it is reckoned to take, since the last flush, in ns.
    unflushed: u64,
    /// What it will take beyond what was paid, in ns.
    owed: u64,
}

impl Written {
    /// By how much more than it was served for a stream may have been charged, with so many of them.
    pub(super) fn lead(&self, streams: usize) -> Duration {
        let streams = u64::try_from(streams).unwrap_or(u64::MAX);
        Duration::from_nanos(self.most.as_nanos().saturating_mul(streams))
    }

    /// A stream that goes.
    pub(super) fn forget(&mut self, stream: &Stream) {
        self.unflushed -= stream.wrote.unflushed;
        self.writers.retain(|id| *id != stream.id);
        self.debtors.retain(|id| *id != stream.id);
        self.waiter = self.waiter.filter(|id| *id != stream.id);
    }

    /// The first debtor's debt is less by that much.
    fn settle(&mut self, debtor: &mut Stream, by: Duration) {
        debtor.wrote.owed = debtor.wrote.owed.saturating_sub(by.as_nanos());
        if debtor.wrote.owed == 0 {
            self.debtors.pop_front();
        }
    }

    /// How much of the time that a piece took is beyond its price, in the sum over its stream's last
    /// ones, but for one of them: chance does that.
    fn excess(&mut self, stream: StreamId, took: Duration, price: Duration) -> Duration {
        if self.waiter.replace(stream) != Some(stream) {
            // A return is the stream's own.
            (self.lag, self.paid) = (0, Duration::ZERO);
            return Duration::ZERO;
        }
        let bound = OWED_MAX.cast_signed();
        let longer = took.as_tokens().saturating_sub(price.as_tokens());
        self.lag = self.lag.saturating_add(longer).clamp(-bound, bound);
        let beyond = self.lag.saturating_sub(price.as_tokens()).clamp(0, took.as_tokens());
        Duration::from_nanos(beyond.unsigned_abs())
    }

    fn note_paid(&mut self, paid: Duration) {
        self.lag -= paid.as_tokens();
        self.paid += paid;
        self.most = self.most.max(self.paid);
    }
}

impl Engine {
    /// How much of the time since the last completion is the first debtor's, when this piece comes
    /// back whose stream has the device to itself. Takes it off what he owes.
    pub(super) fn take_owed(
        &mut self,
        piece: &Piece,
        took: Duration,
    ) -> Option<(StreamId, Duration)> {
        let waited = self.now.since(self.written.at);
        self.written.at = self.now;
        let id = *self.written.debtors.front()?;
        let priced = self.find_stream(piece.stream)?.priced_at.is_some();
        let writes = matches!(piece.shape.kind, Kind::Write | Kind::Zeroes);
        if id == piece.stream && writes {
            return None;
        }
        let debtor = self.streams[id.0 as usize].as_mut().expect("it is forgotten if it goes");
        if id == piece.stream || !priced || !concerns(piece) {
            self.written.settle(debtor, waited);
            return None;
        }
        let excess = self.written.excess(piece.stream, took, piece.modelled);
        let excess = excess.min(Duration::from_nanos(debtor.wrote.owed));
        let by = if excess > Duration::ZERO { excess } else { waited };
        self.written.settle(debtor, by);
        self.written.note_paid(excess);
        (excess > Duration::ZERO).then_some((id, excess))
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
        if matches!(piece.shape.kind, Kind::Write | Kind::Zeroes) {
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
        self.written.most = self.written.most.max(passed);
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
        let (weight, lead) = (self.usage_clock.weight(self.now), self.lead());
        let stream = self.streams[id.0 as usize].as_mut().expect("it is forgotten if it goes");
        stream.charge(part + lead, 0, part, weight, self.now);
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

/// Guaranteed classes are apart.
fn concerns(piece: &Piece) -> bool {
    matches!(piece.rank, Rank::Best | Rank::Background)
}
