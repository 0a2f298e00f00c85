//! Who has the device to itself: then what its pieces take can be seen. On a device that tells
//! which tier served a piece it is seen always.

use alloc::vec::Vec;

use super::Engine;
use super::event::Event;
use super::pieces::Piece;
use crate::cost::{self, Estimate, Moved, OnTier, PieceKind, PieceShape, SeenAlone, SeenOnTier};
use crate::types::ids::StreamId;
use crate::types::tiers::Tier;
use crate::types::time::{Duration, Instant};

/// That a stream's price has moved is told at most this often.
const QUIET: Duration = Duration::from_secs(10);

/// The stream that sent the last piece, and since when only its pieces are at the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sole {
    stream: Option<StreamId>,
    since: Option<Instant>,
    /// Its pieces that came back since then.
    pieces: u32,
    /// Others may have gone between: a pause of its own is not theirs.
    released: Instant,
}

impl Sole {
    /// A piece goes out.
    pub(super) fn dispatched(&mut self, stream: StreamId, idle: bool, now: Instant) {
        let same = self.stream.replace(stream) == Some(stream);
        if idle {
            self.released = now;
            if !same || self.since.is_none() {
                (self.since, self.pieces) = (Some(now), 0);
            }
        } else if !same {
            self.since = None;
        }
    }

    /// The device did nothing for so long.
    pub(super) fn skip(&mut self, stall: Duration) {
        self.since = self.since.map(|since| since + stall);
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        if self.stream == Some(stream) {
            *self = Self::default();
        }
    }
}

/// When each tier last finished a piece.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TierEnds([Instant; Tier::COUNT]);

impl TierEnds {
    /// Whether the device tells which tier serves a piece.
    pub(super) fn are_told(&self) -> bool {
        self.0.iter().any(|end| *end > Instant::ZERO)
    }
}

impl Engine {
    /// What a tier took for a piece that came back is told to the cost model.
    fn learn_on(&mut self, piece: &Piece, tier: Tier, alone: Option<SeenAlone>) {
        let before = core::mem::replace(&mut self.tiers.0[tier as usize], self.now);
        let took = self.now.since(before.max(piece.dispatched_at));
        let response = self.now.since(piece.dispatched_at);
        let (shape, used) = (piece.shape, piece.used);
        let seen = SeenOnTier { piece: shape, used, tier, took, response, alone };
        let told = self.cost.seen_on_tier(&seen);
        let stream = self.streams[piece.stream.0 as usize].as_mut();
        let stream = stream.expect("streams outlive pieces");
        if told != OnTier::Unknown {
            (stream.priced_at, stream.priced_by_tier) = (Some(self.now), true);
        }
        stream.crowded += u32::from(told == OnTier::Crowded);
    }

    /// A piece came back: the cost model may learn from it. Answers the time since the completion
    /// before it, or since the device was idle. Notes what of it another stream owes for its writes.
    pub(super) fn learn(&mut self, piece: &Piece, tier: Option<Tier>) -> Duration {
        let Sole { stream: last, since, released, pieces } = self.sole;
        let between = self.now.since(self.ledger.last_completion().max(released));
        let seen = self.learns && self.charges_alone();
        let (writes, concerned) = (piece.shape.kind.writes(), piece.may_owe());
        let owed = if seen {
            self.write_back.take_owed(self.now, piece.stream, writes, concerned, between)
        } else {
            None
        };
        self.debts.extend(owed);
        let others = owed.map_or(Duration::ZERO, |debt| debt.time);
        let mut alone = None;
        if let Some(since) = since.filter(|_| last == Some(piece.stream)) {
            let took = self.now.since(self.ledger.last_completion().max(released).max(since));
            let took = Duration::from_nanos(took.as_nanos().saturating_sub(others.as_nanos()));
            let (since, in_flight) = (self.now.since(since), self.in_flight + 1);
            let (shape, settling) = (piece.shape, self.settling.time());
            let seen = SeenAlone { piece: shape, took, since, pieces, in_flight, settling };
            self.sole.pieces = pieces.saturating_add(1);
            alone = Some(seen);
            if tier.is_none() && self.cost.seen_alone(&seen) {
                self.priced(piece);
            }
        } else if let Some(last) = last {
            let stream =
                self.streams[last.0 as usize].as_ref().expect("it is forgotten if it goes");
            // This one is still counted as a piece of its stream.
            let own = u32::from(last == piece.stream);
            if self.in_flight > 0 && stream.pieces - own == self.in_flight {
                (self.sole.since, self.sole.pieces) = (Some(self.now), 0);
            }
        }
        if let Some(tier) = tier {
            self.learn_on(piece, tier, alone);
        }
        between
    }

    /// A stream's price was found, or found anew. Tells if it has moved beyond chance, of each stream
    /// now and then.
    fn priced(&mut self, piece: &Piece) {
        let stream = self.streams[piece.stream.0 as usize].as_mut();
        let stream = stream.expect("streams outlive pieces");
        stream.priced_at = Some(self.now);
        if stream.moved_at.is_some_and(|at| self.now.since(at) < QUIET) {
            return;
        }
        let PieceShape { bytes, .. } = piece.shape;
        if let Some(Moved { before, now, listed }) = self.cost.moved(&piece.shape) {
            stream.moved_at = Some(self.now);
            let (stream, kind) = (piece.stream, PieceKind::of(&piece.shape));
            self.events.push(Event::CostMoved { stream, kind, bytes, before, now, listed });
        }
    }

    /// What each kind of a stream's pieces is taken to cost, of those that it has sent; nothing if
    /// the cost model knows nothing of that.
    pub fn estimates(&mut self, stream: StreamId) -> Vec<Estimate> {
        let known = self.streams.get(stream.0 as usize).and_then(Option::as_ref);
        let lengths = known.map(|known| known.lengths).unwrap_or_default();
        cost::estimates(&mut *self.cost, stream, &lengths)
    }
}
