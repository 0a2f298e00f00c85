//! What is due to the streams of a cell, by what each does alone.

use super::alone::{busy, own_disk};
use super::cells::{Cell, Tenant};
use super::loads::Rhythm;

/// A stream's figures alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Alone {
    /// Requests per second alone: of a load that arrives by itself as a closed loop of the device's
    /// depth.
    pub(super) per_second: f64,
    /// Requests per second with as many at once as the device takes, if that was measured.
    pub(super) saturated: Option<f64>,
    /// Requests per second that are due to it.
    pub(super) due: f64,
    /// The 99th percentile of its response times on a disk of its own, `share` times as fast, in
    /// milliseconds; none of a load that no such disk could serve.
    pub(super) p99_own_disk_ms: Option<f64>,
}

/// Every stream's of a cell.
pub(super) fn alone(cell: &Cell) -> Vec<Alone> {
    cell.tenants.iter().zip(cell.shares()).map(|(tenant, share)| of(cell, tenant, share)).collect()
}

/// - A stream that is always busy is due its share of what it does alone.
/// - A stream that offers more than its share is due its share of what the device does when it is
///   full of the stream's requests.
/// - Any other is due what it would get on a disk of its own that is as fast as its share.
fn of(cell: &Cell, tenant: &Tenant, share: f64) -> Alone {
    let Tenant { load, .. } = tenant;
    let full = load.is_open() || cell.prices_are_told();
    let saturated = full.then(|| busy(cell, tenant, cell.depth));
    let ms = |own: disktime_core::Duration| own.as_secs_f64() * 1e3 / share;
    let figures = |per_second, due, p99_own_disk_ms| {
        let saturated = saturated.map(|solo| solo.per_second);
        Alone { per_second, saturated, due, p99_own_disk_ms }
    };
    match (load.rhythm, saturated) {
        (Rhythm::Poisson(part), Some(full)) if part >= 1.0 => {
            figures(full.per_second, share * full.per_second, None)
        }
        (Rhythm::Poisson(_) | Rhythm::OnOff(..), Some(full)) => {
            let rate = share * full.per_second;
            let own = own_disk(cell, tenant, rate, share);
            let due = share * own.per_second.min(full.per_second);
            figures(full.per_second, due, Some(ms(own.p99)))
        }
        (Rhythm::Think(_) | Rhythm::Bursts(..), _) => {
            let own = own_disk(cell, tenant, 1.0, share);
            let alone = own_disk(cell, tenant, 1.0, 1.0);
            figures(alone.per_second, share * own.per_second, Some(ms(own.p99)))
        }
        (Rhythm::Busy | Rhythm::Poisson(_) | Rhythm::OnOff(..), _) => {
            let alone = busy(cell, tenant, load.outstanding);
            figures(alone.per_second, share * alone.per_second, Some(ms(alone.p99)))
        }
    }
}
