//! The pieces at the device, how many are enough, and the stream that the device is left idle for.

use super::pieces::{Piece, PieceTable};
use crate::account::late::{Late, Work};
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
    sent: u64,
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

    /// Pieces at the device that are not late, and their debits.
    pub(super) fn at_work(&self, now: Instant) -> Work {
        self.late.others(now, self.all())
    }

    fn all(&self) -> Work {
        Work { pieces: self.pieces.len, debits: self.sent }
    }

    /// Whether the device has enough: as many pieces as it may have, or as much work. More would
    /// not make it faster, and whoever is next would wait for it. Work for one tier is none for the
    /// other, and which will serve a piece is not told beforehand.
    pub(super) fn is_full(&self, now: Instant, depth: u32, prices: &PriceBook) -> bool {
        let counts = depth > 1 && !prices.tiers_are_told();
        let enough = || is_enough(self.at_work(now).debits, prices.trust);
        self.in_flight() >= depth || (counts && enough())
    }

    /// A piece goes out.
    pub(super) fn send(&mut self, piece: Piece) -> PieceId {
        self.stalls.dispatched(piece.shape.kind);
        self.late.moved(piece.dispatched_at, self.all());
        self.sent += piece.estimate.as_nanos();
        self.pieces.insert(piece)
    }

    /// A piece comes back.
    pub(super) fn take(&mut self, now: Instant, id: PieceId) -> Piece {
        let all = self.all();
        let piece = self.pieces.take(id).expect("a piece completes once, after its dispatch");
        let debit = piece.estimate.as_nanos();
        self.sent -= debit;
        self.settling.seen(now, now.since(piece.dispatched_at));
        self.late.returned(now, all, piece.dispatched_at, debit);
        piece
    }
}

/// Whether so much work at the device is enough, in ns, by learned costs. Experiments with stated costs fill the
/// device's queue; costs that don't compare say nothing of time.
fn is_enough(sent: u64, trust: Trust) -> bool {
    trust == Trust::Learned && sent >= AHEAD.as_nanos()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::cost::PieceShape;
    use crate::types::ids::RequestId;
    use crate::types::rank::Rank;
    use crate::types::request::Kind;

    const MS: u64 = 1_000_000;

    /// Twenty reads of 10 ms that the device does not answer are work for as long as it may be at them, and none
    /// afterwards: neither while it is silent, nor while it answers others.
    #[test]
    fn late_pieces_are_no_work() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let (stream, kind, bytes) = (StreamId(0), Kind::Read, 4096);
        let piece = |ms| Piece {
            request: RequestId(0),
            stream,
            rank: Rank::Best,
            bytes,
            on_slack: false,
            estimate: Duration::from_millis(10),
            modelled: Duration::ZERO,
            shape: PieceShape { stream, kind, bytes, distance_sectors: None },
            used: None,
            paid: None,
            dispatched_at: at(ms),
        };
        let mut device = AtDevice::default();
        let work = |device: &AtDevice, ms| device.at_work(at(ms)).debits / MS;
        let late: Vec<_> = (0..20).map(|_| device.send(piece(0))).collect();
        assert_eq!([49, 50].map(|ms| work(&device, ms)), [200, 0]);
        let others: Vec<_> = (0..19).map(|_| device.send(piece(60))).collect();
        assert_eq!(work(&device, 61), 190);
        device.take(at(62), others[0]);
        device.take(at(63), late[0]);
        assert_eq!(work(&device, 64), 180);
    }

    #[test]
    fn work_for_a_while_is_enough_where_costs_are_learned() {
        assert!(!is_enough(199 * MS, Trust::Learned) && is_enough(200 * MS, Trust::Learned));
        assert!(![Trust::None, Trust::Stated].into_iter().any(|trust| is_enough(u64::MAX, trust)));
    }
}
