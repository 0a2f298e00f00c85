//! Two constants: sequential pieces have a low cost, all others a high one (zygaria §3).

use alloc::boxed::Box;

use super::{CostEntry, CostModel, CostParameters, PieceShape};
use crate::types::request::Kind;
use crate::types::time::Duration;

/// A piece that starts fewer sectors than this from its predecessor is sequential (zygaria §3).
const SEQUENTIAL_SECTORS: u64 = 100;

pub(super) const ENTRY: CostEntry = CostEntry {
    name: "fixed",
    doc: "300 us for a piece within 100 sectors of its stream's previous one, else 20 ms",
    source: "zygaria, section 3",
    build: |parameters| Box::new(Fixed(parameters)),
};

struct Fixed(CostParameters);

impl CostModel for Fixed {
    fn estimate(&mut self, piece: &PieceShape) -> Duration {
        let near = piece.distance_sectors.is_some_and(|sectors| sectors < SEQUENTIAL_SECTORS);
        let moves_head = !matches!(piece.kind, Kind::Trim | Kind::Cache);
        let cost = if near || !moves_head { self.0.sequential } else { self.0.random };
        cost.max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ids::StreamId;

    #[test]
    fn ninety_nine_sectors_are_sequential_and_a_hundred_are_not() {
        let mut model = (ENTRY.build)(CostParameters::default());
        let mut at = |distance_sectors| {
            let stream = StreamId(0);
            model.estimate(&PieceShape { stream, kind: Kind::Read, bytes: 4096, distance_sectors })
        };
        assert_eq!(at(Some(99)), Duration::from_micros(300));
        assert_eq!(at(Some(100)), Duration::from_millis(20));
        assert_eq!(at(None), Duration::from_millis(20));
    }
}
