//! Measurements: windows of each stream's figures, and histograms over the whole run.

use std::ops::Range;

use disktime_core::cost::Costs;
use disktime_core::feedback::TokenRate;
use disktime_core::{Completion, Duration, Engine, Instant, StreamCounters, StreamId, StreamView};
use hdrhistogram::Histogram;

/// One stream's figures in one window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// Which window: it starts at `index` × the window's length.
    pub index: u32,
    /// Which stream.
    pub stream: StreamId,
    /// Disk time charged in the window.
    pub charged: Duration,
    /// Requests completed in the window.
    pub requests: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Their mean time from arrival to dispatch.
    pub queue_mean: Duration,
    /// Their mean time from dispatch to completion.
    pub service_mean: Duration,
    /// The mean of what was debited for them at dispatch.
    pub estimate_mean: Duration,
    /// The mean of what the device really took for them.
    pub truth_mean: Duration,
    /// The longest time without a completion that ended in the window or lasted at its end; it may
    /// have begun in earlier ones. (A stream that pauses has gaps that say nothing of the device.)
    pub gap_max: Duration,
}

/// A distribution of times.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    fn new() -> Self {
        Self(Histogram::new(2).expect("two digits are possible"))
    }

    fn record(&mut self, time: Duration) {
        self.0.record(time.as_nanos()).expect("it grows to hold any time");
    }

    /// The time that a fraction 0 to 1 of them did not exceed, within 1 %.
    #[must_use]
    pub fn quantile(&self, fraction: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(fraction))
    }

    /// The longest, within 1 %.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Their mean in seconds.
    #[must_use]
    pub fn mean_secs(&self) -> f64 {
        self.0.mean() / 1e9
    }

    /// The distribution in bins, `per_decade` of them to a tenfold time: each bin's end in
    /// microseconds, and which part of all times is in it. The first begins at 1 µs and takes what is
    /// shorter, too.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    pub fn bins(&self, per_decade: u32) -> Vec<(f64, f64)> {
        let end = |bin: usize| 10_f64.powf((bin as f64 + 1.0) / f64::from(per_decade));
        let mut bins: Vec<(f64, f64)> = Vec::new();
        for value in self.0.iter_recorded() {
            let time_us = value.value_iterated_to() as f64 / 1e3;
            while bins.last().is_none_or(|bin| bin.0 <= time_us) {
                bins.push((end(bins.len()), 0.0));
            }
            if let Some((_, part)) = bins.last_mut() {
                *part += value.count_at_value() as f64 / self.0.len() as f64;
            }
        }
        bins
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

/// One stream over the whole run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The name for people.
    pub name: String,
    /// Counts of its requests, and its disk time.
    pub counters: StreamCounters,
    /// From arrival to dispatch.
    pub queue: Times,
    /// From dispatch to completion.
    pub service: Times,
    /// From arrival to completion.
    pub response: Times,
}

/// Sums of an open window: those of times are of 128 bits, since requests may wait for years.
#[derive(Clone, Copy, Default)]
struct Running {
    last: Totals,
    requests: u64,
    bytes: u64,
    queue_ns: u128,
    service_ns: u128,
    estimate_ns: u128,
    truth_ns: u128,
    gap_ns_max: u64,
    /// When its latest request completed; the start before that.
    done_at: Instant,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    charged: u64,
}

pub(crate) struct Metrics {
    window: Duration,
    index: u32,
    ends: Instant,
    running: Vec<Running>,
    /// Times of each stream: from arrival to dispatch, from there to completion, and together.
    times: Vec<[Times; 3]>,
    /// By stream: of requests that complete in this span only; of all, if there is none.
    pub(crate) timed: Vec<Range<Instant>>,
    pub(crate) windows: Vec<Window>,
    /// The policy's cost estimates at the end of each window.
    pub(crate) costs: Vec<Costs>,
    /// R for what reads at the end of each window.
    pub(crate) best_effort: Vec<Option<TokenRate>>,
}

/// A finished request as the metrics see it.
pub(crate) struct Finished {
    pub(crate) at: Instant,
    pub(crate) completion: Completion,
    pub(crate) bytes: u64,
    pub(crate) estimate: Duration,
    pub(crate) truth: Duration,
}

impl Metrics {
    pub(crate) fn new(window: Duration, streams: usize) -> Self {
        Self {
            window,
            index: 0,
            ends: Instant::ZERO + window,
            running: vec![Running::default(); streams],
            times: (0..streams).map(|_| [(); 3].map(|()| Times::new())).collect(),
            timed: Vec::new(),
            windows: Vec::new(),
            costs: Vec::new(),
            best_effort: Vec::new(),
        }
    }

    /// When the open window ends.
    pub(crate) fn ends(&self) -> Instant {
        self.ends
    }

    pub(crate) fn finished(&mut self, finished: &Finished) {
        let Finished { at, completion, bytes, estimate, truth } = finished;
        let stream = completion.stream.0 as usize;
        let running = &mut self.running[stream];
        running.requests += 1;
        running.bytes += bytes;
        running.queue_ns += u128::from(completion.queue_time.as_nanos());
        running.service_ns += u128::from(completion.service_time.as_nanos());
        running.estimate_ns += u128::from(estimate.as_nanos());
        running.truth_ns += u128::from(truth.as_nanos());
        running.gap_ns_max = running.gap_ns_max.max(at.since(running.done_at).as_nanos());
        running.done_at = *at;
        if self.timed.get(stream).is_some_and(|span| !span.contains(at)) {
            return;
        }
        let [queue, service, response] = &mut self.times[stream];
        queue.record(completion.queue_time);
        service.record(completion.service_time);
        response.record(completion.queue_time + completion.service_time);
    }

    /// Closes the open window: one row for every stream.
    pub(crate) fn close(&mut self, engine: &mut Engine) {
        for (running, view) in self.running.iter_mut().zip(engine.streams()) {
            let charged = view.counters().charged.as_nanos();
            let lasting = self.ends.since(running.done_at).as_nanos();
            let mean = |sum: u128| {
                let nanos = sum / u128::from(running.requests.max(1));
                Duration::from_nanos(u64::try_from(nanos).expect("no mean is above every part"))
            };
            self.windows.push(Window {
                index: self.index,
                stream: view.id(),
                charged: Duration::from_nanos(charged - running.last.charged),
                requests: running.requests,
                bytes: running.bytes,
                queue_mean: mean(running.queue_ns),
                service_mean: mean(running.service_ns),
                estimate_mean: mean(running.estimate_ns),
                truth_mean: mean(running.truth_ns),
                gap_max: Duration::from_nanos(running.gap_ns_max.max(lasting)),
            });
            let done_at = running.done_at;
            *running = Running { last: Totals { charged }, done_at, ..Running::default() };
        }
        self.costs.extend(engine.costs());
        self.best_effort.push(engine.best_effort().reads);
        self.index += 1;
        self.ends = self.ends + self.window;
    }

    pub(crate) fn summaries(
        self,
        names: Vec<String>,
        engine: &Engine,
    ) -> (Vec<Summary>, Vec<Window>) {
        let streams = names.into_iter().zip(self.times).zip(engine.streams());
        let summary =
            |((name, [queue, service, response]), view): ((_, [Times; 3]), StreamView<'_>)| {
                Summary { name, counters: view.counters(), queue, service, response }
            };
        (streams.map(summary).collect(), self.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_every_time_once() {
        let mut times = Times::new();
        assert_eq!(times.bins(1), []);
        for micros in [0, 5, 50, 60] {
            times.record(Duration::from_micros(micros));
        }
        let bins = times.bins(1);
        let expected = [(10.0, 0.5), (100.0, 0.5)];
        assert!(
            bins.iter().zip(expected).all(|(bin, it)| (bin.0 - it.0).abs() < 1e-9 && bin.1 == it.1)
        );
        assert_eq!(bins.len(), 2);
        times.record(Duration::from_millis(20));
        assert_eq!(
            times.bins(1).iter().map(|bin| bin.1).collect::<Vec<_>>(),
            [0.4, 0.4, 0.0, 0.0, 0.2]
        );
    }
}
