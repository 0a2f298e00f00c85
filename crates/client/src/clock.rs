//! The client's one clock: monotonic nanoseconds since the process first asked.

use std::sync::OnceLock;

use disktime_workload::Instant;

static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();

/// Now, on a scale that all threads share.
#[expect(clippy::disallowed_methods, reason = "the one place where the client reads a clock")]
pub(crate) fn now() -> Instant {
    let now = std::time::Instant::now();
    let epoch = EPOCH.get_or_init(|| now);
    let nanos = now.saturating_duration_since(*epoch).as_nanos();
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
