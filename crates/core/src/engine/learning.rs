//! The way of a completion's time to the cost book, and of learned costs back.

use alloc::vec::Vec;

use super::Engine;
use super::event::Event;
use super::pieces::Piece;
use crate::cost::book::Back;
use crate::cost::{Estimate, Moved, PieceKind, Seen, Trust};
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::tiers::Tier;
use crate::types::time::Duration;

impl Engine {
    /// A piece came back: costs may be learned from it. Answers the time since the completion before it,
    /// or since the device was idle. Notes the part of it that another stream pays as write-back debt.
    pub(super) fn learn(&mut self, piece: &Piece, tier: Option<Tier>) -> Duration {
        if tier.is_some()
            && !self.prices.tiers_are_told()
            && let Some(turns) = self.policies[Rank::Best.at()].turns()
        {
            turns.has_tiers();
        }
        let before = self.books.ledger.last_completion();
        let between = self.prices.between(self.now, before);
        if self.prices.trust() == Trust::Learned && !self.books.guests && self.charges_alone() {
            let (writes, concerned) = (piece.shape.kind.writes(), piece.may_owe());
            let id = piece.stream;
            let owed = self.books.write_back.take_owed(self.now, id, writes, concerned, between);
            self.books.debts.extend(owed);
        }
        let owed = self.books.debts.first().map_or(Duration::ZERO, |debt| debt.time);
        let of_last = self.prices.last().map_or(0, |last| {
            // This one is still counted as a piece of its stream.
            self.streams[last].pieces - u32::from(last == piece.stream)
        });
        let back = Back {
            shape: piece.shape,
            used: piece.used,
            tier,
            dispatched_at: piece.dispatched_at,
            before,
            owed,
            settling: self.device.settling.time(),
            in_flight: self.in_flight(),
            of_last,
        };
        if let Some(seen) = self.prices.completed(self.now, &back) {
            self.priced(piece, seen);
        }
        between
    }

    /// A stream's price was found, or found anew. Tells if it has moved beyond chance.
    fn priced(&mut self, piece: &Piece, seen: Seen) {
        let stream = piece.stream;
        if let Some(turns) = self.policies[Rank::Best.at()].turns() {
            turns.priced(self.now, stream, seen);
        }
        if seen != Seen::Alone {
            return;
        }
        if let Some(Moved { before, now, listed }) = self.prices.moved(self.now, &piece.shape) {
            let (kind, bytes) = (PieceKind::of(&piece.shape), piece.shape.bytes);
            self.events.push(Event::CostMoved { stream, kind, bytes, before, now, listed });
        }
    }

    /// The estimated cost of each kind of a stream's pieces, of those that it has sent; nothing if
    /// the cost model knows none.
    pub fn estimates(&mut self, stream: StreamId) -> Vec<Estimate> {
        if self.stream(stream).is_some() { self.prices.estimates(stream) } else { Vec::new() }
    }
}
