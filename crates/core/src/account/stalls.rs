//! Stalls: a device that has stopped for a while, which is no stream's doing.
//!
//! Where costs are learned, and at depth 1 under any cost model, a read that comes back after a silence
//! of 100 ms, and of eight times what it is likely to take, came back from a stall: all of the silence
//! but what is likely is spare, and no price. The silence is no stall
//!
//! - with anything but reads at the device: flushes, and writes that a cache has no room for, take as
//!   long as that in their own right;
//! - if of the last few stalls this stream's pieces met more than all others' did: the stalls may be its own
//!   (a sector that is read in a second, if at all), or just what its pieces take.
//!
//! Then the stream pays for 100 ms, or eight times what is likely, as where streams mix ([`longest`]).
//!
//! At depth 1 each piece's time is seen: likely is what pieces of that kind took there lately, of any stream,
//! if that is more than the estimate. So a device that is slow throughout is soon known for it, and a
//! cost model that learns nothing makes no stalls of its pieces.
//!
//! Does not know: why a device is silent.

use super::ledger::longest;
use crate::types::ids::StreamId;
use crate::types::piece::{PieceKind, PieceShape};
use crate::types::request::Kind;
use crate::types::time::Duration;

/// So many stalls are remembered.
const LAST: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// The streams whose pieces came back after each of the last ones.
    met: [Option<StreamId>; LAST],
    next: usize,
    /// Pieces at the device that are no reads.
    others: u32,
    /// The time that pieces of each kind took at depth 1: exponential moving averages over the last eight, in
    /// which a piece counts for no more than the longest that was likely.
    seen: [Duration; PieceKind::ALL.len()],
}

/// A judgement on the silence before a piece that came back.
pub(crate) struct Silence {
    /// How long the piece was likely to take.
    pub(crate) likely: Duration,
    /// The rest of the silence is a stall.
    pub(crate) is_stall: bool,
}

impl Stalls {
    /// A piece goes out.
    pub(crate) fn dispatched(&mut self, kind: Kind) {
        self.others += u32::from(kind != Kind::Read);
    }

    /// A stream goes.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        for met in self.met.iter_mut().filter(|met| **met == Some(stream)) {
            *met = None;
        }
    }

    /// A piece comes back after the device was silent for so long; `alone` at a device of depth 1. Stalls
    /// are told apart if the piece was alone or costs are `learned`.
    pub(crate) fn completed(
        &mut self,
        piece: &PieceShape,
        estimate: Duration,
        silent: Duration,
        alone: bool,
        learned: bool,
    ) -> Silence {
        let reads = self.others == 0;
        self.others -= u32::from(piece.kind != Kind::Read);
        let likely = if alone { self.sees(piece, estimate, silent) } else { estimate };
        let long = (alone || learned) && silent > longest(likely) && reads;
        Silence { likely, is_stall: long && self.meets(piece.stream) }
    }

    /// A piece took that long at depth 1. Answers what was likely before.
    fn sees(&mut self, piece: &PieceShape, estimate: Duration, took: Duration) -> Duration {
        let seen = &mut self.seen[PieceKind::of(piece) as usize];
        let likely = estimate.max(*seen);
        let counts = took.min(longest(likely)).as_nanos();
        *seen = Duration::from_nanos(seen.as_nanos() - seen.as_nanos() / 8 + counts / 8);
        likely
    }

    /// One more stall. Answers whether it is the device's.
    fn meets(&mut self, stream: StreamId) -> bool {
        let own = self.met.iter().filter(|met| **met == Some(stream)).count();
        let all = self.met.iter().flatten().count();
        self.met[self.next] = Some(stream);
        self.next = (self.next + 1) % LAST;
        2 * own <= all
    }
}
