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

#[cfg(test)]
mod tests {
    use disktime_core::Duration;
    use disktime_core::cost::Certainty;
    use disktime_workload::SizeWeight;

    use super::super::loads::Load;
    use super::super::samples::{busy, cell, with};
    use super::*;

    /// 100 µs give or take 5 % for pieces of this kind and length.
    fn estimate(kind: PieceKind, bytes: u64) -> Estimate {
        let (basis, spread_permille) = (Basis::Learned, Some(50));
        let certainty = Certainty { basis, spread_permille, drift_permille: None };
        let (cost, seen_at, guest_permille) = (Duration::from_micros(100), None, None);
        Estimate { kind, bytes, cost, certainty, seen_at, guest_permille }
    }

    /// The learned cost of the only stream of a device, which has 12,500 requests a second alone.
    fn on(device: &str, load: Load, estimates: &[Estimate]) -> Option<LearnedCost> {
        let cell = cell(device, 8, vec![(load, 100)]);
        of(&cell, &cell.tenants[0], 12_500.0, estimates)
    }

    #[test]
    fn a_cost_is_that_of_the_streams_own_kind_and_length() {
        let others = [
            Estimate {
                cost: Duration::from_micros(7),
                ..estimate(PieceKind::SequentialRead, 4096)
            },
            Estimate { cost: Duration::from_micros(9), ..estimate(PieceKind::RandomRead, 8192) },
            estimate(PieceKind::RandomRead, 4096),
        ];
        let found = on("flash-8", busy(4), &others).expect("a cost");
        assert_eq!(
            found,
            LearnedCost { learned_us: 100.0, plus_minus_percent: 5.0, alone_us: 80.0 }
        );
        assert_eq!(on("flash-8", busy(4), &others[..2]), None);
        for (pattern, reads_permille, kind) in [
            (Pattern::Sequential, 1000, PieceKind::SequentialRead),
            (Pattern::Sequential, 0, PieceKind::SequentialWrite),
            (Pattern::Random, 0, PieceKind::RandomWrite),
        ] {
            let load = Load { pattern, reads_permille, ..busy(4) };
            assert!(on("flash-8", load, &[estimate(kind, 4096)]).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn a_cost_that_was_not_learned_or_has_no_spread_does_not_count() {
        let learned = estimate(PieceKind::RandomRead, 4096);
        for certainty in [
            Certainty { basis: Basis::Anchored, ..learned.certainty },
            Certainty { spread_permille: None, ..learned.certainty },
        ] {
            assert_eq!(on("flash-8", busy(4), &[Estimate { certainty, ..learned }]), None);
        }
    }

    #[test]
    fn a_stream_without_one_true_cost_does_not_count() {
        let counts = |device: &str, load| {
            on(device, load, &[estimate(PieceKind::RandomRead, 4096)]).is_some()
        };
        assert!(counts("flash-8", busy(4)));
        assert!(!counts("flash-8", with(Rhythm::Poisson(0.5))), "it is not always busy");
        assert!(!counts("flash-8", Load { reads_permille: 500, ..busy(4) }), "it also writes");
        assert!(!counts("flash-8", Load { trims_permille: 10, ..busy(4) }), "it also trims");
        assert!(!counts("flash-8", Load { flush_after: Some(8), ..busy(4) }), "it also flushes");
        let sizes = [4096, 8192].map(|bytes| SizeWeight { bytes, weight: 1 }).to_vec();
        assert!(!counts("flash-8", Load { sizes, ..busy(4) }), "its lengths differ");
        assert!(!counts("flash-collecting", busy(4)), "the device cleans now and then");
        let mut cached = cell("cached", 8, vec![(busy(4), 100)]);
        let estimates = [estimate(PieceKind::RandomRead, 4096)];
        assert!(of(&cached, &cached.tenants[0], 12_500.0, &estimates).is_some());
        cached.tenants[0].bytes = 64 << 20;
        let lives_in_cache = of(&cached, &cached.tenants[0], 12_500.0, &estimates);
        assert_eq!(lives_in_cache, None, "others' reads empty its cache");
    }

    #[test]
    fn a_cost_is_honest_within_twice_its_spread() {
        let cost = |alone_us| LearnedCost { learned_us: 100.0, plus_minus_percent: 5.0, alone_us };
        assert!((cost(91.0).off() - 0.09).abs() < 1e-9 && (cost(109.0).off() - 0.09).abs() < 1e-9);
        for (alone_us, honest) in [(89.0, false), (91.0, true), (109.0, true), (111.0, false)] {
            assert_eq!(cost(alone_us).is_honest(), honest, "{alone_us}");
        }
    }
}
