//! Times that are drawn from a seed.

use disktime_core::Duration;
use rand::RngExt;
use rand_pcg::Pcg64;

/// A number with an exponential distribution whose mean is 1.
pub(crate) fn exponential(random: &mut Pcg64) -> f64 {
    // 1 - u is above zero, so its logarithm is finite.
    -(1.0 - random.random::<f64>()).ln()
}

/// So many times a time, to the nearest nanosecond. At least one: nothing completes when it is
/// submitted.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a time is positive and far below 2^53 ns; `as` saturates otherwise"
)]
pub(crate) fn times(time: Duration, factor: f64) -> Duration {
    let nanos = (time.as_nanos() as f64 * factor).round() as u64;
    Duration::from_nanos(nanos.max(1))
}
