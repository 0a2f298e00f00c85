//! A price list: every stream's pieces cost what someone has measured; for shares that mean "as if
//! alone" what they take when the stream runs alone at the device's best depth.
//!
//! Does not know: how prices were found, or whether they still hold.

use alloc::boxed::Box;

use super::{Basis, Certainty, CostEntry, CostModel, CostParameters, PieceShape, Trust, fixed};
use crate::types::request::Kind;
use crate::types::time::Duration;

const MIB: u128 = 1 << 20;

pub(super) const ENTRY: CostEntry = CostEntry {
    name: "priced",
    doc: "a stated price for each stream's pieces; as `fixed` for streams without one",
    source: "disktime's own: what an exact cost model would say",
    build: |parameters| Box::new(Priced { parameters, rest: (fixed::ENTRY.build)(parameters) }),
};

struct Priced {
    parameters: CostParameters,
    rest: Box<dyn CostModel>,
}

impl CostModel for Priced {
    /// Rounded down.
    fn estimate(&mut self, piece: &PieceShape) -> Duration {
        let price = self.parameters.prices.get(piece.stream.0 as usize).copied();
        let price = price.unwrap_or_default();
        let moves_data = !matches!(piece.kind, Kind::Trim | Kind::Zeroes);
        let moved = if moves_data { piece.bytes } else { 0 };
        let by_length = u128::from(moved) * u128::from(price.per_mib.as_nanos()) / MIB;
        let nanos = by_length.saturating_add(u128::from(price.each.as_nanos()));
        match u64::try_from(nanos) {
            Ok(0) => self.rest.estimate(piece),
            Ok(nanos) => Duration::from_nanos(nanos),
            Err(_) => Duration::from_nanos(u64::MAX),
        }
    }

    fn trust(&self) -> Trust {
        Trust::Stated
    }

    fn certainty(&self, _piece: &PieceShape) -> Option<Certainty> {
        Some(Certainty { basis: Basis::Stated, spread_permille: None, drift_permille: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Price;
    use super::*;
    use crate::types::ids::StreamId;

    fn model() -> Box<dyn CostModel> {
        let mut parameters = CostParameters::default();
        let (each, per_mib) = (Duration::from_micros(10), Duration::from_millis(4));
        parameters.prices[0] = Price { each, per_mib: Duration::ZERO };
        parameters.prices[2] = Price { each, per_mib };
        (ENTRY.build)(parameters)
    }

    fn piece(stream: u32, bytes: u64) -> PieceShape {
        let (kind, distance_sectors) = (Kind::Read, Some(0));
        PieceShape { stream: StreamId(stream), kind, bytes, distance_sectors }
    }

    #[test]
    fn a_piece_costs_its_streams_price_each_and_by_length() {
        let mut model = model();
        assert_eq!(model.estimate(&piece(0, 1 << 20)), Duration::from_micros(10));
        assert_eq!(model.estimate(&piece(2, 1 << 20)), Duration::from_micros(4010));
        assert_eq!(model.estimate(&piece(2, 4096)), Duration::from_nanos(25_625));
        assert_eq!(model.estimate(&piece(2, 0)), Duration::from_micros(10), "a flush");
        for kind in [Kind::Trim, Kind::Zeroes] {
            let command = PieceShape { kind, ..piece(2, 1 << 30) };
            assert_eq!(model.estimate(&command), Duration::from_micros(10), "no data moves");
        }
        let certainty = model.certainty(&piece(2, 0)).expect("it was told");
        assert_eq!((certainty.basis, certainty.drift_permille), (Basis::Stated, None));
    }

    #[test]
    fn without_a_price_a_piece_costs_what_fixed_says() {
        let mut model = model();
        for stream in [1, 15, 16, 1000] {
            assert_eq!(model.estimate(&piece(stream, 4096)), Duration::from_micros(300));
        }
    }
}
