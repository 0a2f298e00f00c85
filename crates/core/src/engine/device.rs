//! The pieces at the device, how many are enough, and the stream that the device is left idle for.

use super::pieces::{Piece, PieceTable};
use crate::account::late::Late;
use crate::account::settling::Settling;
use crate::account::stalls::Stalls;
use crate::cost::Trust;
use crate::cost::book::PriceBook;
use crate::types::ids::{PieceId, StreamId};
use crate::types::time::{Duration, Instant};

/// Work for so long is enough for a disk's queue or an elevator to choose from.
const AHEAD: Duration = Duration::from_millis(200);

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
    pub(super) hold: Option<Hold>,
    pub(super) stalls: Stalls,
    pub(super) settling: Settling,
    pub(super) late: Late,
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
        in_flight >= depth || (counts && is_enough(self.sent, prices.trust))
    }

    /// A piece goes out.
    pub(super) fn send(&mut self, piece: Piece) -> PieceId {
        self.stalls.dispatched(piece.shape.kind);
        self.sent += u128::from(piece.estimate.as_nanos());
        self.late.moved(piece.dispatched_at, self.pieces.len);
        self.pieces.insert(piece)
    }

    /// A piece comes back.
    pub(super) fn take(&mut self, now: Instant, id: PieceId) -> Piece {
        let piece = self.pieces.take(id).expect("a piece completes once, after its dispatch");
        self.sent -= u128::from(piece.estimate.as_nanos());
        self.settling.seen(now, now.since(piece.dispatched_at));
        self.late.returned(now, self.pieces.len + 1, piece.dispatched_at);
        piece
    }
}

/// Whether so much work at the device is enough, in ns, by learned costs. Experiments with stated costs fill the
/// device's queue; costs that don't compare say nothing of time.
fn is_enough(sent: u128, trust: Trust) -> bool {
    trust == Trust::Learned && sent >= u128::from(AHEAD.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u128 = 1_000_000;

    #[test]
    fn work_for_a_while_is_enough_where_costs_are_learned() {
        assert!(!is_enough(199 * MS, Trust::Learned) && is_enough(200 * MS, Trust::Learned));
        assert!(![Trust::None, Trust::Stated].into_iter().any(|trust| is_enough(u128::MAX, trust)));
    }
}
