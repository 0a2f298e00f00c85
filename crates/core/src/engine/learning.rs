//! The way of a completion's time to the cost book, and of learned costs back.

use alloc::vec::Vec;

use super::Engine;
use super::event::Event;
use super::pieces::Piece;
use crate::cost::book::Back;
use crate::cost::{Estimate, Moved, PieceKind, Seen};
use crate::types::ids::StreamId;
use crate::types::tiers::Tier;

impl Engine {
    /// A piece came back: costs may be learned from it.
    pub(super) fn learn(&mut self, piece: &Piece, tier: Option<Tier>) {
        if tier.is_none() && !self.prices.learns {
            return;
        }
        if tier.is_some()
            && !self.prices.tiers_are_told()
            && let Some(slices) = self.slices()
        {
            slices.has_tiers();
        }
        let before = self.books.ledger.last_completion();
        let of_last = self.prices.last().map_or(0, |last| {
            // This one is still counted as a piece of its stream.
            self.streams[last].pieces - u32::from(last == piece.stream)
        });
        let steady = self.slices().and_then(|slices| slices.is_steady(piece.stream));
        let back = Back {
            shape: piece.shape,
            used: piece.used,
            tier,
            dispatched_at: piece.dispatched_at,
            before,
            settling: self.device.settling.time(),
            in_flight: self.in_flight(),
            of_last,
            steady,
        };
        if let Some(seen) = self.prices.completed(self.now, &back) {
            self.priced(piece, seen);
        }
    }

    /// A stream's price was found, or found anew. Tells if it has moved beyond chance.
    fn priced(&mut self, piece: &Piece, seen: Seen) {
        let stream = piece.stream;
        let now = self.now;
        self.slices().into_iter().for_each(|slices| slices.priced(now, stream, seen));
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
        let guest_permille = self.slices().and_then(|slices| slices.guest_price(stream));
        let known = self.stream(stream).is_some().then(|| self.prices.estimates(stream));
        let estimates = known.into_iter().flatten();
        estimates.map(|estimate| Estimate { guest_permille, ..estimate }).collect()
    }
}
