//! The table of pieces at the device.

use alloc::vec::Vec;

use crate::account::posting::Debited;
use crate::cost::{PieceShape, Used};
use crate::types::ids::{PieceId, RequestId, StreamId};
use crate::types::rank::Rank;
use crate::types::request::Direction;
use crate::types::time::{Duration, Instant};

/// A piece at the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) request: RequestId,
    pub(crate) stream: StreamId,
    pub(crate) rank: Rank,
    pub(crate) bytes: u64,
    /// It went ahead of guaranteed rates, on the slack register.
    pub(crate) on_slack: bool,
    /// The debit at dispatch.
    pub(crate) estimate: Duration,
    pub(crate) modelled: Duration,
    pub(crate) shape: PieceShape,
    pub(crate) used: Option<Used>,
    /// It took tokens of best effort.
    pub(crate) paid: Option<Direction>,
    pub(crate) dispatched_at: Instant,
}

impl Piece {
    /// Its debit, as that of one piece.
    pub(crate) fn debited(&self) -> Debited {
        let (modelled, estimates) = (self.modelled.as_nanos(), self.estimate.as_tokens());
        let mut debited = Debited { pieces: 1, modelled, estimates, ..Debited::default() };
        debited.by_rank[self.rank.at()] = modelled;
        if let Some(way) = self.paid {
            debited.paid[way as usize] = (modelled, estimates);
        }
        debited
    }

    /// Whether write-back debt concerns it: guaranteed classes are apart.
    pub(crate) fn may_owe(&self) -> bool {
        matches!(self.rank, Rank::Best | Rank::Background)
    }

    /// Whether it may leave write-back debt.
    pub(crate) fn writes(&self) -> bool {
        self.may_owe() && self.shape.kind.writes()
    }
}

/// Slots with generations, so that a stale id is noticed.
#[derive(Default)]
pub(crate) struct PieceTable {
    slots: Vec<(u32, Option<Piece>)>,
    free: Vec<u32>,
    pub(crate) len: u32,
}

impl PieceTable {
    pub(crate) fn insert(&mut self, piece: Piece) -> PieceId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("the depth is a u32")
        });
        self.len += 1;
        let (generation, entry) = &mut self.slots[slot as usize];
        *entry = Some(piece);
        PieceId { slot, generation: *generation }
    }

    /// The piece of that id, once.
    pub(crate) fn take(&mut self, id: PieceId) -> Option<Piece> {
        let (generation, entry) = self.slots.get_mut(id.slot as usize)?;
        if *generation != id.generation {
            return None;
        }
        let piece = entry.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(id.slot);
        self.len -= 1;
        Some(piece)
    }
}
