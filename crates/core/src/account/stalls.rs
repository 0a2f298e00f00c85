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
//! Then the stream pays for 100 ms, or eight times what is likely, as where streams mix ([`longest`]); under a
//! policy that gives slices also for what it has room for (`Slices::room`).
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: u32) -> PieceShape {
        let (stream, kind) = (StreamId(stream), Kind::Read);
        PieceShape { stream, kind, bytes: 4096, distance_sectors: None }
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Stalls after which a stream met eight, and others so many.
    fn met(others: u32) -> Stalls {
        let mut stalls = Stalls::default();
        (0..8).for_each(|_| _ = stalls.meets(StreamId(0)));
        (0..others).for_each(|other| _ = stalls.meets(StreamId(1 + other)));
        stalls
    }

    #[test]
    fn a_stream_that_met_every_stall_is_cleared_as_others_meet_them() {
        assert!(!met(3).meets(StreamId(0)), "most were its own");
        assert!(met(5).meets(StreamId(0)), "most were others'");
    }

    /// An id may come back for another stream, which has met no stall.
    #[test]
    fn a_new_stream_does_not_inherit_stalls() {
        let mut stalls = met(0);
        stalls.forget(StreamId(0));
        assert!(stalls.meets(StreamId(0)));
    }

    #[test]
    fn a_device_that_slows_down_is_known_after_some_pieces() {
        let mut stalls = Stalls::default();
        (0..60).for_each(|_| _ = stalls.sees(&read(0), Duration::ZERO, ms(1)));
        (0..8).for_each(|_| _ = stalls.sees(&read(0), Duration::ZERO, ms(9)));
        let likely = stalls.sees(&read(0), Duration::ZERO, ms(9));
        assert!((ms(5)..ms(8)).contains(&likely), "{likely:?}");
    }

    /// A stall of 30 s that counted in full would make another of 20 s likely.
    #[test]
    fn a_stall_does_not_make_the_next_one_likely() {
        let mut stalls = Stalls::default();
        let mut silent = |stream, time| {
            stalls.dispatched(Kind::Read);
            stalls.completed(&read(stream), ms(1), time, true, false).is_stall
        };
        assert!(!(0..20).any(|_| silent(0, ms(1))));
        assert!(silent(0, ms(30_000)));
        assert!(silent(1, ms(20_000)), "a second one after it");
    }
}
