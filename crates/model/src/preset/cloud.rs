//! Volumes of clouds.

use crate::cloud::{Cap, CloudSpec};
use disktime_core::Duration;

const MIB: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A volume that bursts: Amazon's gp2 of so many GiB, 1 to 16,384.
///
/// - 3 operations a second for each GiB, at least 100 and at most 16,000; 3,000 while credit lasts, if
///   that is more; 5.4 million of credit at first and at most; operations of up to 256 KiB `[S]`.
/// - At most 128 MiB/s up to 170 GiB, and 250 MiB/s above. Volumes from 171 to 333 GiB have 250 only
///   while credit lasts, and larger ones always: at 256 KiB an operation the base rate of 334 GiB is
///   250 MiB/s `[S]` (Amazon EC2 User Guide, "Amazon EBS volume types").
/// - .8 ms for a read and 1 ms for a write, half of it exponential, a quarter more and less by the time of
///   day, 256 operations inside `[E]`.
#[must_use]
pub fn cloud_gp2(gib: u64) -> CloudSpec {
    let base = (3 * gib).clamp(100, 16_000);
    let bytes = if gib <= 170 { 128 * MIB } else { 250 * MIB };
    CloudSpec {
        capacity_bytes: gib << 30,
        queue_depth: 256,
        operation_bytes: 256 << 10,
        operations: Cap { base, burst: base.max(3000), credit: 5_400_000 },
        bytes: Cap::flat(bytes),
        read: Duration::from_micros(800),
        write: Duration::from_millis(1),
        jitter_permille: 500,
        day: DAY,
        amplitude_permille: 250,
    }
}

/// A volume of 100 GiB that does not: Amazon's gp3 as it comes, 3,000 operations and 125 MiB a second `[S]`, the
/// rest as [`cloud_gp2`].
#[must_use]
pub fn cloud_gp3() -> CloudSpec {
    CloudSpec { operations: Cap::flat(3000), bytes: Cap::flat(125 * MIB), ..cloud_gp2(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MiB/s without credit: the cap on bytes, or that on operations of the largest size.
    fn lasting(spec: &CloudSpec) -> u64 {
        (spec.operations.base / 4).min(spec.bytes.base / MIB)
    }

    /// Every size once had the cap of 128 MiB/s, which is that of small volumes.
    #[test]
    fn gp2_has_the_published_caps_by_size() {
        let row = |gib| {
            let spec = cloud_gp2(gib);
            (spec.operations.base, spec.operations.burst, spec.bytes.burst / MIB, lasting(&spec))
        };
        assert_eq!(row(8), (100, 3000, 128, 25));
        assert_eq!(row(100), (300, 3000, 128, 75));
        assert_eq!(row(170), (510, 3000, 128, 127));
        assert_eq!(row(171), (513, 3000, 250, 128));
        assert_eq!(row(333), (999, 3000, 250, 249));
        assert_eq!(row(334), (1002, 3000, 250, 250));
        assert_eq!(row(2000), (6000, 6000, 250, 250));
        assert_eq!(row(16_384), (16_000, 16_000, 250, 250));
    }
}
