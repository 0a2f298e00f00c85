//! What is due to the streams of a cell, by what each does alone.

use serde::{Deserialize, Serialize};

use super::alone::{busy, own_disk};
use super::cells::{Cell, Tenant};
use super::loads::Rhythm;

/// A stream's figures alone.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Alone {
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
    /// The bound on its response times that its contract states, in milliseconds.
    pub(super) latency_ms: Option<f64>,
}

/// A place for figures alone: runs of the same cells find them there.
pub trait AloneStore: Sync {
    /// What was kept under this key.
    fn load(&self, key: &str) -> Option<Vec<Alone>>;
    /// Keeps figures under this key, if it can.
    fn save(&self, key: &str, alone: &[Alone]);
}

/// A store that keeps nothing.
pub struct NoStore;

impl AloneStore for NoStore {
    fn load(&self, _: &str) -> Option<Vec<Alone>> {
        None
    }

    fn save(&self, _: &str, _: &[Alone]) {}
}

/// Every stream's of a cell, from the store if it has them.
pub(super) fn alone(cell: &Cell, store: &dyn AloneStore) -> Vec<Alone> {
    let key = key(cell);
    if let Some(kept) = store.load(&key).filter(|kept| kept.len() == cell.tenants.len()) {
        return kept;
    }
    let measured = measure(cell);
    store.save(&key, &measured);
    measured
}

/// A name for all that figures alone depend on, but for the models themselves.
fn key(cell: &Cell) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{} {:?} {cell:?}", Cell::WARMS, cell.warm()).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{}-{}-{hash:016x}", cell.id.seed, cell.id.number)
}

pub(super) fn measure(cell: &Cell) -> Vec<Alone> {
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
        let latency_ms = tenant.latency.zip(p99_own_disk_ms);
        // No shorter than twice what its requests take alone: no order could keep that.
        let latency_ms = latency_ms.map(|(factor, p99)| p99 * factor.max(2.0 * share));
        Alone { per_second, saturated, due, p99_own_disk_ms, latency_ms }
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
