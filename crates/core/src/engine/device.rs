//! The pieces at the device, how many are enough, and the stream that the device is left idle for.

use super::ahead::{self, Ahead};
use super::pieces::{Piece, PieceTable};
use crate::account::settling::Settling;
use crate::account::stalls::Stalls;
use crate::cost::book::PriceBook;
use crate::types::ids::{PieceId, StreamId};
use crate::types::time::Instant;

/// The time that the device is held idle for a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) stream: StreamId,
    pub(super) since: Option<Instant>,
    pub(super) until: Instant,
}

#[derive(Default)]
pub(super) struct AtDevice {
    pieces: PieceTable,
    /// Their debits, in ns.
    sent: u128,
    /// How long one may be.
    pub(super) ahead: Ahead,
    pub(super) hold: Option<Hold>,
    pub(super) stalls: Stalls,
    pub(super) settling: Settling,
}

impl AtDevice {
    /// Pieces at the device.
    pub(super) fn in_flight(&self) -> u32 {
        self.pieces.len
    }

    /// Whether the device has enough: as many pieces as it may have, or as much work. More would
    /// not make it faster, and whoever is next would wait for it. Work for one tier is none for the
    /// other, and which will serve a piece is not told beforehand.
    pub(super) fn is_full(&self, depth: u32, prices: &PriceBook) -> bool {
        let in_flight = self.in_flight();
        let counts = depth > 1 && in_flight > 0 && !prices.tiers_are_told();
        in_flight >= depth || (counts && ahead::is_enough(self.sent, prices.trust))
    }

    /// A piece goes out.
    pub(super) fn send(&mut self, piece: Piece) -> PieceId {
        self.stalls.dispatched(piece.shape.kind);
        self.sent += u128::from(piece.estimate.as_nanos());
        self.pieces.insert(piece)
    }

    /// A piece comes back.
    pub(super) fn take(&mut self, now: Instant, id: PieceId) -> Piece {
        let piece = self.pieces.take(id).expect("a piece completes once, after its dispatch");
        self.sent -= u128::from(piece.estimate.as_nanos());
        self.settling.seen(now, now.since(piece.dispatched_at));
        piece
    }
}
