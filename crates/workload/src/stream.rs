//! Everything that issues operations, behind one face: what the simulator and the live driver use.

use crate::phases::{Phase, PhaseError, Phases};
use crate::player::Miss;
use crate::replay::{Replay, ReplaySpec};
use crate::source::Source;
use crate::spec::IoOp;
use crate::trace::TraceError;
use disktime_core::{Duration, Instant};
use serde::Deserialize;
use std::fmt;

/// The operations of a stream, as scenario files state them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamSpec {
    /// Generated operations, in one phase after another.
    Phases(Vec<Phase>),
    /// The operations of a trace.
    Replay(ReplaySpec),
}

/// Issues operations in time, wherever they come from.
///
/// [`poll`](Self::poll) until it returns `None`, then [`missed`](Self::missed) until it does; wait
/// until [`next_at`](Self::next_at) or a completion, which goes to [`completed`](Self::completed),
/// and poll again. A refused operation counts as completed. Time never goes back; polling early is
/// harmless.
#[derive(Debug)]
pub enum Stream {
    /// Generated, without end or change.
    Source(Box<Source>),
    /// Generated, in phases.
    Phases(Box<Phases>),
    /// Out of a trace.
    Replay(Box<Replay>),
}

/// Why a stream can't start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// Its phases make no sense.
    Phases(PhaseError),
    /// Its trace can't be replayed.
    Trace(TraceError),
}

impl Stream {
    /// A stream that starts at `start`; seed and name as for
    /// [`Generator::new`](crate::Generator::new). A replay depends on neither. It opens its file here
    /// and reads on as it is polled.
    ///
    /// # Errors
    /// If the spec makes no sense or its file can't be used.
    pub fn new(
        spec: &StreamSpec,
        seed: u64,
        name: &str,
        start: Instant,
    ) -> Result<Self, StreamError> {
        match spec {
            StreamSpec::Phases(phases) => {
                Phases::new(phases.clone(), seed, name, start).map(Into::into).map_err(Into::into)
            }
            StreamSpec::Replay(spec) => {
                Replay::open(spec, start).map(Into::into).map_err(Into::into)
            }
        }
    }

    /// The next operation to issue now, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<IoOp> {
        match self {
            Self::Source(source) => source.poll(now),
            Self::Phases(phases) => phases.poll(now),
            Self::Replay(replay) => replay.poll(now),
        }
    }

    /// When to poll again, maybe in the past; `None` while it waits for a completion, and at its end.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        match self {
            Self::Source(source) => source.next_at(),
            Self::Phases(phases) => phases.next_at(),
            Self::Replay(replay) => replay.next_at(),
        }
    }

    /// One of the operations has completed, failed or been refused.
    ///
    /// # Panics
    /// If none is outstanding: a completion was counted twice.
    pub fn completed(&mut self, now: Instant, op: &IoOp) {
        match self {
            Self::Source(source) => source.completed(now, op),
            Self::Phases(phases) => phases.completed(now, op),
            Self::Replay(replay) => replay.completed(now),
        }
    }

    /// The oldest miss of a player that was not returned yet.
    pub fn missed(&mut self) -> Option<Miss> {
        match self {
            Self::Source(source) => source.missed(),
            Self::Phases(phases) => phases.missed(),
            Self::Replay(_) => None,
        }
    }

    /// How often a player has missed.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.source().map_or(0, Source::misses)
    }

    /// For how long a player has stood still, without a stall that still lasts.
    #[must_use]
    pub fn stalled(&self) -> Duration {
        self.source().map_or(Duration::ZERO, Source::stalled)
    }

    /// Operations issued and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        match self {
            Self::Source(source) => source.outstanding(),
            Self::Phases(phases) => phases.source().outstanding(),
            Self::Replay(replay) => replay.outstanding(),
        }
    }

    /// Whether it will never issue another operation.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Source(_) => false,
            Self::Phases(phases) => phases.has_ended(),
            Self::Replay(replay) => replay.has_ended(),
        }
    }

    /// The error that ended a replay before its time.
    #[must_use]
    pub fn failure(&self) -> Option<&TraceError> {
        match self {
            Self::Source(_) | Self::Phases(_) => None,
            Self::Replay(replay) => replay.failure(),
        }
    }

    fn source(&self) -> Option<&Source> {
        match self {
            Self::Source(source) => Some(source),
            Self::Phases(phases) => Some(phases.source()),
            Self::Replay(_) => None,
        }
    }
}

impl From<Source> for Stream {
    fn from(source: Source) -> Self {
        Self::Source(Box::new(source))
    }
}

impl From<Phases> for Stream {
    fn from(phases: Phases) -> Self {
        Self::Phases(Box::new(phases))
    }
}

impl From<Replay> for Stream {
    fn from(replay: Replay) -> Self {
        Self::Replay(Box::new(replay))
    }
}

impl From<PhaseError> for StreamError {
    fn from(error: PhaseError) -> Self {
        Self::Phases(error)
    }
}

impl From<TraceError> for StreamError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phases(error) => error.fmt(f),
            Self::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StreamError {}
