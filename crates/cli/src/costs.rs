//! Cost estimates of pieces, as tables and JSON show them.

use disktime_core::Instant;
use disktime_core::cost::{Basis, Certainty, Estimate};
use serde::Serialize;

use crate::table::{self, Table};

/// The cost estimate of a stream's pieces of one kind.
#[derive(Serialize)]
pub struct CostRow {
    kind: &'static str,
    /// Bytes of the piece that it is for.
    bytes: u64,
    cost_ns: u64,
    /// By how much what was seen differs from it on average; null before it was seen.
    plus_minus_percent: Option<f64>,
    /// How far it is above what the device's price list says; null without a list.
    drift_percent: Option<f64>,
    basis: &'static str,
    /// When it was learned from such a piece last, in seconds since the start; null if it never was.
    seen_at_seconds: Option<f64>,
    /// The charge for a guest's pieces in the stream's slices, by what they take alone; null before one was there.
    guest_price: Option<f64>,
}

impl From<&Estimate> for CostRow {
    fn from(estimate: &Estimate) -> Self {
        let Estimate { kind, bytes, cost, certainty, seen_at, guest_permille } = *estimate;
        let Certainty { basis, spread_permille, drift_permille } = certainty;
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let drift_percent = drift_permille.map(|permille| permille as f64 / 10.0);
        Self {
            kind: kind.name(),
            bytes,
            cost_ns: cost.as_nanos(),
            plus_minus_percent: spread_permille.map(|permille| f64::from(permille) / 10.0),
            drift_percent,
            basis: match basis {
                Basis::Stated => "stated",
                Basis::Guessed => "guessed",
                Basis::Anchored => "anchored",
                Basis::Learned => "learned",
            },
            seen_at_seconds: seen_at.map(|at| at.since(Instant::ZERO).as_secs_f64()),
            guest_price: guest_permille.map(|permille| f64::from(permille) / 1e3),
        }
    }
}

/// A line for each kind that each owner has sent; `None` if there is nothing to show.
pub fn table<'a>(
    owner: &str,
    rows: impl IntoIterator<Item = (&'a str, &'a [CostRow])>,
) -> Option<Table> {
    let header = [owner, "kind", "bytes", "costs µs", "± %", "drift %", "guests ×", "known"];
    let mut table = table::new(&header, 2..7);
    for (name, costs) in rows {
        for row in costs {
            let CostRow { kind, bytes, cost_ns, plus_minus_percent, drift_percent, .. } = row;
            #[expect(clippy::cast_precision_loss, reason = "for display")]
            let micros = *cost_ns as f64 / 1e3;
            let percent = |value: Option<f64>, sign: bool| match value {
                Some(value) if sign => format!("{value:+.1}"),
                Some(value) => format!("{value:.1}"),
                None => "-".to_owned(),
            };
            table.add_row([
                name.to_owned(),
                (*kind).to_owned(),
                bytes.to_string(),
                format!("{micros:.1}"),
                percent(*plus_minus_percent, false),
                percent(*drift_percent, true),
                row.guest_price.map_or_else(|| "-".to_owned(), |price| format!("{price:.2}")),
                row.basis.to_owned(),
            ]);
        }
    }
    (table.row_count() > 0).then_some(table)
}
