//! Pieces: what of a request can be at the device, and the kinds of them that cost unlike times.

use super::ids::StreamId;
use super::request::Kind;

/// A piece that starts fewer sectors than this from the end of the stream's previous one is sequential
/// (zygaria §3).
const SEQUENTIAL_SECTORS: u64 = 100;

/// The properties of a piece that a cost model may know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceShape {
    /// The stream that sent it.
    pub stream: StreamId,
    /// Its kind of request.
    pub kind: Kind,
    /// Its length.
    pub bytes: u64,
    /// Sectors of 512 bytes between the end of the stream's previous piece and the start of this
    /// one, in either direction; `None` for a stream's first.
    pub distance_sectors: Option<u64>,
}

/// Kinds of pieces that have prices of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PieceKind {
    /// Reads that continue the one before; also requests to cache.
    SequentialRead,
    /// Reads anywhere.
    RandomRead,
    /// Writes that continue the one before.
    SequentialWrite,
    /// Writes anywhere.
    RandomWrite,
    /// Flushes.
    Flush,
    /// Trims.
    Trim,
    /// Zeroes that the device writes without being sent them.
    Zeroes,
}

impl PieceKind {
    /// Every kind; a kind's place here is its number.
    pub const ALL: [Self; 7] = [
        Self::SequentialRead,
        Self::RandomRead,
        Self::SequentialWrite,
        Self::RandomWrite,
        Self::Flush,
        Self::Trim,
        Self::Zeroes,
    ];

    /// Classifies a piece: one that starts fewer than 100 sectors from its predecessor is
    /// sequential (zygaria §3).
    #[must_use]
    pub fn of(piece: &PieceShape) -> Self {
        let near = piece.distance_sectors.is_some_and(|sectors| sectors < SEQUENTIAL_SECTORS);
        match (piece.kind, near) {
            (Kind::Flush, _) => Self::Flush,
            (Kind::Trim, _) => Self::Trim,
            (Kind::Zeroes, _) => Self::Zeroes,
            (Kind::Cache, _) | (Kind::Read, true) => Self::SequentialRead,
            (Kind::Read, false) => Self::RandomRead,
            (Kind::Write, true) => Self::SequentialWrite,
            (Kind::Write, false) => Self::RandomWrite,
        }
    }

    /// Whether it brings no data to the device.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::SequentialRead | Self::RandomRead | Self::Trim | Self::Zeroes)
    }

    /// The name of each kind, and a kind of request that may make it, near the one before or not.
    const FACTS: [(&str, Kind, bool); 7] = [
        ("sequential-read", Kind::Read, true),
        ("random-read", Kind::Read, false),
        ("sequential-write", Kind::Write, true),
        ("random-write", Kind::Write, false),
        ("flush", Kind::Flush, false),
        ("trim", Kind::Trim, false),
        ("zeroes", Kind::Zeroes, false),
    ];

    /// Its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::FACTS[self as usize].0
    }

    /// Its place among the means of a stream's charges: a trim or zeroes say nothing of the pieces
    /// that move data, nor these of them.
    pub(crate) const fn usual(self) -> usize {
        match self {
            Self::Trim => 1,
            Self::Zeroes => 2,
            _ => 0,
        }
    }

    /// Some piece of this kind.
    pub(crate) fn shape(self, stream: StreamId, bytes: u64) -> PieceShape {
        let (_, kind, near) = Self::FACTS[self as usize];
        PieceShape { stream, kind, bytes, distance_sectors: near.then_some(0) }
    }
}
