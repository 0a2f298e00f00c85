//! Who has the device to itself: then what its pieces take can be seen.

use super::Engine;
use crate::cost::SeenAlone;
use crate::pieces::Piece;
use crate::request::StreamId;
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

impl Engine {
    /// A piece came back: the cost model may learn from it. Answers the time since the completion
    /// before it, or since the device was idle, and what of it somebody owes for his writes.
    pub(super) fn learn(&mut self, piece: &Piece) -> (Duration, Option<(StreamId, Duration)>) {
        let Sole { stream: last, since, released, pieces } = self.sole;
        let between = self.now.since(self.ledger.last_completion().max(released));
        let seen = self.learns && self.charges_alone();
        let owed = if seen { self.take_owed(piece, between) } else { None };
        let others = owed.map_or(Duration::ZERO, |(_, part)| part);
        if let Some(since) = since.filter(|_| last == Some(piece.stream)) {
            let took = self.now.since(self.ledger.last_completion().max(released).max(since));
            let took = Duration::from_nanos(took.as_nanos().saturating_sub(others.as_nanos()));
            let (since, in_flight) = (self.now.since(since), self.in_flight + 1);
            let (piece, settling) = (piece.shape, self.settling.time());
            let seen = SeenAlone { piece, took, since, pieces, in_flight, settling };
            self.sole.pieces = pieces.saturating_add(1);
            if self.cost.seen_alone(&seen) {
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
        (between, owed)
    }
}
