//! Silence: a device that has stopped for a while, which is nobody's doing.
//!
//! Where costs are learned, and at depth 1 under any cost model, a read that comes back after a silence
//! of 100 ms, and of eight times what it is likely to take, came back from a stall: all of the silence
//! but what is likely is spare, and no price. The silence is no stall
//!
//! - with anything but reads at the device: flushes, and writes that a cache has no room for, take as
//!   long as that in their own right;
//! - if of the last few stalls this stream's pieces met more than all others' did: they may be its own
//!   (a sector that is read in a second, if at all), or just what its pieces take.
//!
//! Then it pays for 100 ms, or eight times what is likely, as where streams mix ([`longest`]).
//!
//! At depth 1 each piece's time is seen: likely is what pieces of that kind took there lately, whosever,
//! if that is more than the estimate. So a device that is slow throughout is soon known for it, and a
//! cost model that learns nothing makes no stalls of its pieces.
//!
//! Does not know: why a device is silent.

use super::Engine;
use super::pieces::Piece;
use crate::account::ledger::longest;
use crate::cost::PieceKind;
use crate::types::ids::StreamId;
use crate::types::request::Kind;
use crate::types::time::Duration;

/// So many stalls are remembered.
const LAST: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Whose piece came back after each of the last ones.
    met: [Option<StreamId>; LAST],
    next: usize,
    /// Pieces at the device that are no reads.
    others: u32,
    /// What pieces of each kind took at depth 1: exponential moving averages over the last eight, in
    /// which a piece counts for no more than the longest that was likely.
    seen: [Duration; PieceKind::ALL.len()],
}

impl Stalls {
    /// A piece goes out.
    pub(super) fn dispatched(&mut self, kind: Kind) {
        self.others += u32::from(kind != Kind::Read);
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        for met in self.met.iter_mut().filter(|met| **met == Some(stream)) {
            *met = None;
        }
    }

    /// A piece took that long at depth 1. Answers what was likely before.
    fn sees(&mut self, piece: &Piece, took: Duration) -> Duration {
        let seen = &mut self.seen[PieceKind::of(&piece.shape) as usize];
        let likely = piece.estimate.max(*seen);
        let counts = took.min(longest(likely)).as_nanos();
        *seen = Duration::from_nanos(seen.as_nanos() - seen.as_nanos() / 8 + counts / 8);
        likely
    }

    /// One more. Answers whether it is the device's.
    fn meets(&mut self, stream: StreamId) -> bool {
        let own = self.met.iter().filter(|met| **met == Some(stream)).count();
        let all = self.met.iter().flatten().count();
        self.met[self.next] = Some(stream);
        self.next = (self.next + 1) % LAST;
        2 * own <= all
    }
}

impl Engine {
    /// A piece came back: a stall before it is nobody's. Answers the most that the piece is charged.
    pub(super) fn skip_stall(&mut self, piece: &Piece) -> Duration {
        let reads = self.stalls.others == 0;
        self.stalls.others -= u32::from(piece.shape.kind != Kind::Read);
        let silent = self.ledger.silent(self.now);
        let shallow = self.limits.depth == 1 && self.in_flight == 0;
        let likely = if shallow { self.stalls.sees(piece, silent) } else { piece.estimate };
        let sees = shallow || (self.learns && self.limits.depth > 1);
        if sees && silent > longest(likely) && reads && self.stalls.meets(piece.stream) {
            let stall = self.ledger.skip_stall(self.now, likely);
            self.sole.skip(stall);
            self.forgive_stall(stall);
        }
        longest(likely)
    }
}
