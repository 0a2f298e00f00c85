//! Silence: a device that has stopped for a while, which is nobody's doing.
//!
//! Where costs are learned, a read that comes back after a silence of 100 ms, and of eight times what
//! it is likely to take, came back from a stall: all of the silence but what is likely is spare, and no
//! price. That is not so
//!
//! - with anything but reads at the device: flushes, and writes that a cache has no room for, take as
//!   long as that in their own right;
//! - if of the last few stalls this stream's pieces met more than all others' did: they may be its own
//!   (a sector that is read in a second, if at all), or just what its pieces take.
//!
//! Then it pays for 100 ms, or eight times what is likely, as where streams mix ([`longest`]).
//!
//! Does not know: why a device is silent.

use super::Engine;
use super::pieces::Piece;
use crate::account::ledger::longest;
use crate::types::ids::StreamId;
use crate::types::request::Kind;

/// So many stalls are remembered.
const LAST: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Whose piece came back after each of the last ones.
    met: [Option<StreamId>; LAST],
    next: usize,
    /// Pieces at the device that are no reads.
    others: u32,
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
    /// A piece came back: a stall before it is nobody's.
    pub(super) fn skip_stall(&mut self, piece: &Piece) {
        let reads = self.stalls.others == 0;
        self.stalls.others -= u32::from(piece.shape.kind != Kind::Read);
        let silent = self.ledger.silent(self.now);
        if !self.learns || self.limits.depth == 1 || silent <= longest(piece.estimate) {
            return;
        }
        if reads && self.stalls.meets(piece.stream) {
            let stall = self.ledger.skip_stall(self.now, piece.estimate);
            self.sole.skip(stall);
        }
    }
}
