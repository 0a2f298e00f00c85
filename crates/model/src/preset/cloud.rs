//! Volumes of clouds.

use crate::cloud::{Cap, CloudSpec};
use disktime_core::Duration;

const MIB: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A volume that bursts: Amazon's gp2 with 100 GiB.
///
/// - 3 operations a second for each GiB, 3,000 while credit lasts, 5.4 million of credit at first and at
///   most; operations of up to 256 KiB; 128 MiB/s for up to 170 GiB `[S]`.
/// - .8 ms for a read and 1 ms for a write, half of it exponential, a quarter more and less by the time of
///   day, 256 operations inside `[E]`.
#[must_use]
pub fn cloud_gp2() -> CloudSpec {
    CloudSpec {
        capacity_bytes: 100 << 30,
        queue_depth: 256,
        operation_bytes: 256 << 10,
        operations: Cap { base: 300, burst: 3000, credit: 5_400_000 },
        bytes: Cap::flat(128 * MIB),
        read: Duration::from_micros(800),
        write: Duration::from_millis(1),
        jitter_permille: 500,
        day: DAY,
        amplitude_permille: 250,
    }
}

/// A volume that does not: Amazon's gp3 as it comes, 3,000 operations and 125 MiB a second `[S]`, the
/// rest as [`cloud_gp2`].
#[must_use]
pub fn cloud_gp3() -> CloudSpec {
    CloudSpec { operations: Cap::flat(3000), bytes: Cap::flat(125 * MIB), ..cloud_gp2() }
}
