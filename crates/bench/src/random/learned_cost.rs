//! The learned cost of a stream's requests, beside the time that they take alone.

use disktime_core::cost::{Basis, Estimate, PieceKind};
use disktime_workload::Pattern;
use serde::Serialize;

use super::cells::{Cell, Tenant};
use super::loads::Rhythm;

/// The cost of a stream's requests as it was learned in a cell, and as it is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LearnedCost {
    /// The learned disk time of a request, in µs.
    pub learned_us: f64,
    /// By how much spans differ from that, as it is shown, in percent.
    pub plus_minus_percent: f64,
    /// The time of a request while its stream has a fresh device to itself, in µs.
    pub alone_us: f64,
}

impl LearnedCost {
    /// The difference from the time alone, as a part of the learned cost.
    #[must_use]
    pub fn off(self) -> f64 {
        (self.alone_us / self.learned_us - 1.0).abs()
    }

    /// Whether the time alone is within twice the spread that is shown.
    #[must_use]
    pub fn is_honest(self) -> bool {
        self.off() <= 2.0 * self.plus_minus_percent / 100.0
    }
}

/// Only a stream that is always busy with requests that are all alike has one true cost, on a device whose speed stays
/// the same. `alone` is in requests per second.
pub(super) fn of(
    cell: &Cell,
    tenant: &Tenant,
    alone: f64,
    estimates: &[Estimate],
) -> Option<LearnedCost> {
    let Tenant { load, .. } = tenant;
    let [size] = load.sizes[..] else { return None };
    let alike = load.rhythm == Rhythm::Busy
        && matches!(load.reads_permille, 0 | 1000)
        && load.trims_permille == 0
        && load.flush_after.is_none();
    let steady = !tenant.lives_in_cache(cell.device) && cell.device.part_min() == 0.0;
    let kind = match (&load.pattern, load.reads_permille > 0) {
        (Pattern::Sequential, true) => PieceKind::SequentialRead,
        (Pattern::Sequential, false) => PieceKind::SequentialWrite,
        (Pattern::Random, true) => PieceKind::RandomRead,
        (Pattern::Random, false) => PieceKind::RandomWrite,
        _ => return None,
    };
    let own = |it: &&Estimate| {
        it.kind == kind && it.bytes == size.bytes && it.certainty.basis == Basis::Learned
    };
    let estimate = estimates.iter().find(own).filter(|_| alike && steady)?;
    Some(LearnedCost {
        learned_us: estimate.cost.as_secs_f64() * 1e6,
        plus_minus_percent: f64::from(estimate.certainty.spread_permille?) / 10.0,
        alone_us: 1e6 / alone,
    })
}
