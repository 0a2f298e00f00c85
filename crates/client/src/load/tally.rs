//! Counts of a load's thread, for every kind of target.

use disktime_core::{Duration, Instant, Kind};
use disktime_workload::{IoOp, Source};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use super::counters::Counters;
use crate::clock;
use crate::error::ConnectionError;
use crate::misses::MissReports;

/// Longest latency that the histogram tells apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

pub(super) struct Tally {
    pub(super) counters: Counters,
    latencies: Histogram<u64>,
    started: Instant,
    /// Where misses are told.
    reports: Option<MissReports>,
}

/// The rest of a load that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) counters: Counters,
    pub(super) latencies: Histogram<u64>,
    /// From the start until sending stopped.
    pub(super) elapsed: Duration,
    /// The thread's own.
    pub(super) cpu: Duration,
    pub(super) lost: Option<ConnectionError>,
}

impl Tally {
    pub(super) fn new(started: Instant, reports: Option<MissReports>) -> Self {
        let latencies = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("the bounds are constants that the histogram takes");
        Self { counters: Counters::default(), latencies, started, reports }
    }

    pub(super) fn failed(&mut self) {
        self.counters.failed += 1;
    }

    pub(super) fn succeeded(&mut self, op: &IoOp, latency: Duration) {
        let latency_ns = latency.as_nanos();
        self.latencies.saturating_record(latency_ns);
        let counters = &mut self.counters;
        counters.completed += 1;
        counters.latency_ns_sum = counters.latency_ns_sum.saturating_add(latency_ns);
        counters.latency_ns_max = counters.latency_ns_max.max(latency_ns);
        match op.kind {
            Kind::Read => counters.bytes_read += op.bytes,
            Kind::Write => counters.bytes_written += op.bytes,
            _ => {}
        }
    }

    /// Reports what a player has missed since, and counts how it does.
    pub(super) fn look(&mut self, now: Instant, source: &mut Source) {
        while source.missed().is_some() {
            let failed = self.reports.as_ref().is_some_and(|reports| reports.send().is_err());
            self.counters.unreported += u64::from(failed);
        }
        let stalls = source.stalls(now);
        let counters = &mut self.counters;
        counters.misses = stalls.misses;
        counters.stalled_ns = stalls.total.as_nanos();
        counters.stalled_ns_max = stalls.longest.as_nanos();
    }

    /// The end, on the load's own thread; sending stopped after `elapsed`.
    pub(super) fn end(self, elapsed: Duration, lost: Option<ConnectionError>) -> Ended {
        let Self { counters, latencies, .. } = self;
        Ended { counters, latencies, elapsed, cpu: thread_cpu(), lost }
    }

    pub(super) fn elapsed(&self) -> Duration {
        clock::now().since(self.started)
    }
}

fn thread_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = |value: i64| Duration::from_nanos(u64::try_from(value).unwrap_or(0));
    Duration::from_secs(u64::try_from(spent.tv_sec).unwrap_or(0)) + nanos(spent.tv_nsec)
}
