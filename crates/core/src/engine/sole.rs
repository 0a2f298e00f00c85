//! Who has the device to itself: then what its pieces take can be seen. On a device that tells
//! which tier served a piece it is seen always.

use super::Engine;
use crate::cost::{OnTier, SeenAlone, SeenOnTier};
use crate::pieces::Piece;
use crate::request::StreamId;
use crate::tiers::Tier;
use crate::time::{Duration, Instant};

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
        let told = self.cost.seen_on_tier(&SeenOnTier { piece: piece.shape, tier, took, alone });
        let stream = self.streams[piece.stream.0 as usize].as_mut();
        let stream = stream.expect("streams outlive pieces");
        if told != OnTier::Unknown {
            (stream.priced_at, stream.priced_by_tier) = (Some(self.now), true);
        }
        stream.crowded += u32::from(told == OnTier::Crowded);
    }

    /// A piece came back: the cost model may learn from it. Answers the time since the completion
    /// before it, or since the device was idle.
    pub(super) fn learn(&mut self, piece: &Piece, tier: Option<Tier>) -> Duration {
        let Sole { stream: last, since, released, pieces } = self.sole;
        let between = self.now.since(self.ledger.last_completion().max(released));
        let mut alone = None;
        if let Some(since) = since.filter(|_| last == Some(piece.stream)) {
            let took = self.now.since(self.ledger.last_completion().max(released).max(since));
            let (since, in_flight) = (self.now.since(since), self.in_flight + 1);
            let seen = SeenAlone { piece: piece.shape, took, since, pieces, in_flight };
            self.sole.pieces = pieces.saturating_add(1);
            alone = Some(seen);
            if tier.is_none() && self.cost.seen_alone(&seen) {
                let stream = self.streams[piece.stream.0 as usize].as_mut();
                stream.expect("streams outlive pieces").priced_at = Some(self.now);
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
}
