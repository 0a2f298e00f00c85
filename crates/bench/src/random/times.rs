//! Times in proportion.

use disktime_core::Duration;

/// A time so many times as long.
pub(super) fn scale(time: Duration, times: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole ns")]
    Duration::from_nanos((time.as_nanos() as f64 * times).round() as u64)
}

/// A time of so many seconds.
pub(super) fn seconds(seconds: f64) -> Duration {
    scale(Duration::from_secs(1), seconds)
}
