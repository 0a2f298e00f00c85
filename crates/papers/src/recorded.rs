//! Figures that a recorded trace joins, if the caller has one.
//!
//! Papers' traces are lost, so a figure's own loads are generated. A trace of another system shows
//! whether its claim is one about the generator.
//!
//! Does not know: files. The caller opens the trace.

use std::fmt;
use std::num::NonZero;

use disktime_workload::OpenTrace;
use disktime_workload::trace::TraceError;

use crate::claims::Sample;
use crate::experiment::Report;
use crate::{RECORDED, Runs, find};

/// Answers how the trace is opened, once for each stream that replays it.
pub type Trace<'a> = dyn Fn() -> OpenTrace + Sync + 'a;

/// Why there is no figure with a trace.
#[derive(Debug)]
pub enum RecordedError {
    /// The trace can't be opened, or its first request makes no sense.
    Trace(TraceError),
    /// The trace can't be read on, or one of its requests can't be replayed: the rest of the run is without it.
    Replay {
        /// Where and why.
        reason: String,
    },
}

impl fmt::Display for RecordedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Replay { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for RecordedError {}

impl From<TraceError> for RecordedError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// A figure with a trace in place of one of its streams.
pub struct Recorded {
    /// The experiment's.
    pub id: &'static str,
    /// Runs it under a seed.
    pub(crate) measure: fn(trace: &Trace<'_>, seed: u64) -> Result<Sample, RecordedError>,
}

/// Says in each figure that a trace can join that none did, and answers with their names.
pub fn leave_out(reports: &mut [Report]) -> Vec<&'static str> {
    let can_join = |report: &&mut Report| RECORDED.iter().any(|it| it.id == report.id);
    let left_out = |report: &mut Report| {
        report.left_out = Some(LEFT_OUT);
        report.id
    };
    reports.iter_mut().filter(can_join).map(left_out).collect()
}

const LEFT_OUT: &str =
    "No recorded trace took the place of its first stream: --trace FILE gives one.";

/// Runs the figures among the reports that a trace can join, with the seeds of their reports, and
/// adds what they measure: how many there were.
///
/// # Errors
/// If the trace can't be opened or a request of it makes no sense.
///
/// # Panics
/// If a figure's plan can't be run.
pub fn join(
    reports: &mut [Report],
    trace: &Trace<'_>,
    runs: Runs,
    threads: NonZero<usize>,
) -> Result<usize, RecordedError> {
    let mut joined = 0;
    for report in reports {
        let Some(recorded) = RECORDED.iter().find(|it| it.id == report.id) else { continue };
        let seeds: Vec<u64> = (runs.first_seed..).take(runs.seeds.get() as usize).collect();
        let samples = disktime_sim::each(&seeds, threads, |seed| (recorded.measure)(trace, *seed));
        let samples = samples.into_iter().collect::<Result<Vec<Sample>, RecordedError>>()?;
        let experiment = find(recorded.id).expect("a trace joins figures that there are");
        report.absorb(Report::new(experiment, runs.first_seed, &samples, Vec::new()));
        joined += 1;
    }
    Ok(joined)
}
