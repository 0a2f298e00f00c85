//! A load's report at its end.

use disktime_core::Duration;

use super::counters::Counters;
use super::tally::Ended;
use crate::error::ConnectionError;

/// A load from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// The load's name.
    pub name: String,
    /// Everything that was done, replies after [`stop`](crate::Load::stop) included.
    pub counters: Counters,
    /// Requests that never got a reply.
    pub unanswered: u64,
    /// From the start until sending stopped.
    pub elapsed: Duration,
    /// Latencies of the requests that succeeded.
    pub latency: Latency,
    /// Processor time of the load's own thread.
    pub cpu: Duration,
    /// The error that ended the connection before its time.
    pub lost: Option<ConnectionError>,
}

/// Times from a request to the end of its reply, in microseconds; all 0 where nothing succeeded.
///
/// A request's time starts when it was issued in a closed loop, when it was due in an open one: a
/// server that holds up requests must not make its latencies look better.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Exact.
    pub mean_us: f64,
    /// The median, within 0.1 %.
    pub p50_us: f64,
    /// Within 0.1 %.
    pub p99_us: f64,
    /// The 99.9th percentile, within 0.1 %.
    pub p999_us: f64,
    /// Exact.
    pub max_us: f64,
}

pub(super) fn report(name: String, ended: &Ended) -> LoadReport {
    let counters = ended.counters;
    LoadReport {
        name,
        counters,
        unanswered: counters.issued - counters.completed - counters.failed,
        elapsed: ended.elapsed,
        latency: latency(ended),
        cpu: ended.cpu,
        lost: ended.lost,
    }
}

fn latency(ended: &Ended) -> Latency {
    let Counters { completed, latency_ns_sum, latency_ns_max, .. } = ended.counters;
    if completed == 0 {
        return Latency::default();
    }
    // The histogram rounds up within its bucket, but nothing was longer than the maximum.
    let quantile = |q| ended.latencies.value_at_quantile(q).min(latency_ns_max);
    Latency {
        mean_us: micros(latency_ns_sum) / float(completed),
        p50_us: micros(quantile(0.50)),
        p99_us: micros(quantile(0.99)),
        p999_us: micros(quantile(0.999)),
        max_us: micros(latency_ns_max),
    }
}

fn micros(nanos: u64) -> f64 {
    float(nanos) / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "for reports only; counts stay in integers")]
fn float(value: u64) -> f64 {
    value as f64
}
