//! The result of a random cell under a policy.

use serde::Serialize;

use super::learned_cost::LearnedCost;

/// A cell under a policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// A policy by name.
    pub policy: &'static str,
    /// The seed from which the cell was drawn,
    pub seed: u64,
    /// and its number.
    pub cell: u32,
    /// The group of its device.
    pub group: &'static str,
    /// The device.
    pub device: &'static str,
    /// Pieces at the device at once.
    pub depth: u32,
    /// How requests were priced: `learned` or `stated`.
    pub costs: &'static str,
    /// Seconds of device time that were simulated.
    pub seconds: f64,
    /// Its streams.
    pub streams: Vec<StreamRow>,
    /// The sum over streams of throughput by throughput alone.
    pub work_conservation: f64,
    /// How often a stream was behind for longer than its promise bound.
    pub promises_broken: u64,
    /// Whether admission refused the latency bounds: the cell was run without them.
    pub latency_refused: bool,
    /// Why the simulator ended the run before its time: then the cell's rows say nothing of policies, see
    /// [`whole`](super::whole).
    pub ended_early: Option<String>,
}

/// A stream of a cell under a policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StreamRow {
    /// Its name.
    pub name: String,
    /// Its load in words.
    pub what: String,
    /// The loads with which it is shown.
    pub family: &'static str,
    /// Its share: its reservation, and its part of what nobody reserved.
    pub share: f64,
    /// Its throughput.
    #[serde(flatten)]
    pub throughput: Throughput,
    /// Its part of the device's time, as charged.
    pub utilization: f64,
    /// The longest time without a completion, of a stream that always waits for one.
    pub gap_ms_max: Option<f64>,
    /// The 99th percentile of its response times.
    pub p99_ms: f64,
    /// The same on a disk of its own that is as fast as its share; none of a stream that offers more
    /// than such a disk can do.
    pub p99_own_disk_ms: Option<f64>,
    /// The learned cost of its requests, if they are all alike and it was learned.
    pub learned_cost: Option<LearnedCost>,
    /// Whether it asks for 20 to 80 % of its share, at random times.
    pub light: bool,
    /// The latency bound of its contract.
    pub latency_ms: Option<f64>,
    /// Whether it lives in a cache that others can empty: no policy can give it what it has alone.
    pub hot: bool,
    /// Whether so few requests are due to it that a ratio of them says little.
    pub few: bool,
    /// The most that it got by [`smaller`](Self::smaller) with the device to itself in turns of one of several
    /// lengths, where the oracle was asked.
    pub time_division: Option<f64>,
}

/// The requests that a stream got, beside those that were due to it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Throughput {
    /// Requests per second that are due to it.
    pub due: f64,
    /// Requests per second that it got.
    pub got: f64,
    /// Requests per second alone.
    pub alone: f64,
    /// Its throughput by what was due.
    pub insulation: f64,
    /// Its throughput by its share of what it does alone, whatever was due.
    pub of_alone: f64,
}

impl StreamRow {
    /// The fewest requests whose number is a measurement.
    pub(super) const FEW: f64 = 20.0;

    /// Its throughput by the smaller of what was due and its share of what it does alone.
    #[must_use]
    pub fn smaller(&self) -> f64 {
        self.throughput.insulation.max(self.throughput.of_alone)
    }

    /// Whether its insulation says something of the policy.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        !self.hot && !self.few
    }
}

impl Row {
    /// The insulation of the judged stream that is worst off; infinite without any.
    #[must_use]
    pub fn worst(&self) -> f64 {
        let judged = self.streams.iter().filter(|stream| stream.is_judged());
        judged.map(|stream| stream.throughput.insulation).fold(f64::INFINITY, f64::min)
    }
}
