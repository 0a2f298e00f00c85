//! A client that starts, stops and changes at stated times.

use crate::error::SpecError;
use crate::pace::Pace;
use crate::player::Miss;
use crate::source::Source;
use crate::spec::{IoOp, Spec};
use disktime_config::quantity;
use disktime_core::{Duration, Instant};
use serde::Deserialize;
use std::fmt;

/// A part of a stream's life: from `start` up to but not including `stop`, which both count from the
/// stream's own start.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// When it starts; in files 0 if left out.
    #[serde(default, deserialize_with = "quantity::duration")]
    pub start: Duration,
    /// When it stops; never if left out.
    #[serde(default, deserialize_with = "quantity::some_duration")]
    pub stop: Option<Duration>,
    /// Which operations.
    pub spec: Spec,
    /// When each is issued.
    pub pace: Pace,
}

impl Phase {
    /// A stream that never changes.
    #[must_use]
    pub fn always(spec: Spec, pace: Pace) -> Self {
        Self { start: Duration::ZERO, stop: None, spec, pace }
    }
}

/// Why a list of phases makes no stream. Phases count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhaseError {
    /// There is none.
    NoPhases,
    /// A phase has no length.
    Backwards {
        /// Which.
        phase: usize,
        /// Its start.
        start: Duration,
        /// Its stop.
        stop: Duration,
    },
    /// A phase starts before the one listed before it stops.
    Overlap {
        /// Which.
        phase: usize,
        /// Its start.
        start: Duration,
        /// When the one before stops; `None` for never.
        stop: Option<Duration>,
    },
    /// A phase's spec makes no sense.
    Spec {
        /// Which.
        phase: usize,
        /// Why.
        error: SpecError,
    },
}

impl fmt::Display for PhaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoPhases => f.write_str("phases: none; at least one is needed"),
            Self::Backwards { phase, start, stop } => {
                write!(
                    f,
                    "phase {phase}: stop: {stop:?}; more than its start, {start:?}, is needed"
                )
            }
            Self::Overlap { phase, start, stop: Some(stop) } => write!(
                f,
                "phase {phase}: start: {start:?}; at least {stop:?}, when the phase before stops, \
                 is needed"
            ),
            Self::Overlap { phase, stop: None, .. } => {
                write!(f, "phase {phase}: the phase before it has no stop; only the last may")
            }
            Self::Spec { phase, error } => write!(f, "phase {phase}: {error}"),
        }
    }
}

impl std::error::Error for PhaseError {}

/// A [`Source`] that changes; it is used in the same way.
///
/// Operations outstanding when a phase stops stay so, and count against the outstanding ones of the
/// next. Where the next has the same [`Spec`], its sequence and its random numbers go on.
///
/// Polled late, it issues the overdue operations of an open loop from before its stop; a closed loop
/// and a player issue nothing after their stop.
#[derive(Clone, Debug)]
pub struct Phases {
    phases: Vec<Phase>,
    /// Index of the phase that runs or comes next.
    current: usize,
    running: bool,
    /// Start and stop of that phase.
    from: Instant,
    until: Instant,
    /// As made by the last phase that ran; before that by the first.
    source: Source,
    seed: u64,
    name: String,
    start: Instant,
}

impl Phases {
    /// A stream whose time starts at `start`; seed and name as for
    /// [`Generator::new`](crate::Generator::new).
    ///
    /// # Errors
    /// If the list or one of the phases makes no sense.
    pub fn new(
        phases: Vec<Phase>,
        seed: u64,
        name: &str,
        start: Instant,
    ) -> Result<Self, PhaseError> {
        check(&phases)?;
        let first = phases.first().ok_or(PhaseError::NoPhases)?;
        let source = Source::new(first.spec.clone(), first.pace, seed, name, start + first.start)
            .map_err(|error| PhaseError::Spec { phase: 1, error })?;
        let (from, until) = (start, start);
        let name = name.to_owned();
        let mut stream =
            Self { phases, current: 0, running: false, from, until, source, seed, name, start };
        stream.aim();
        Ok(stream)
    }

    /// As [`Source::poll`].
    pub fn poll(&mut self, now: Instant) -> Option<IoOp> {
        loop {
            if !self.running {
                if self.has_ended() || now < self.from {
                    return None;
                }
                self.begin();
            }
            let goes_on = now < self.until
                || self.source.is_open() && self.source.next_at().is_some_and(|at| at < self.until);
            if goes_on {
                // The source itself finds operations that are due later than `now` but before the
                // stop.
                return self.source.poll(now);
            }
            self.running = false;
            self.current += 1;
            self.aim();
        }
    }

    /// As [`Source::next_at`]; also when a phase starts or stops. `None` also when the last has
    /// ended.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        if self.has_ended() {
            return None;
        }
        if !self.running {
            return Some(self.from);
        }
        match self.source.next_at() {
            Some(at) => Some(at.min(self.until)),
            None => (self.until < Instant::MAX).then_some(self.until),
        }
    }

    /// As [`Source::completed`].
    ///
    /// # Panics
    /// If none is outstanding: a completion was counted twice.
    pub fn completed(&mut self, now: Instant, op: &IoOp) {
        self.source.completed(now, op);
    }

    /// The current or last phase's source, for what is counted there.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// As [`Source::missed`].
    pub fn missed(&mut self) -> Option<Miss> {
        self.source.missed()
    }

    /// Whether the last phase is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.current == self.phases.len()
    }

    /// Sets the times of the current phase.
    fn aim(&mut self) {
        if let Some(phase) = self.phases.get(self.current) {
            self.from = self.start + phase.start;
            self.until = phase.stop.map_or(Instant::MAX, |stop| self.start + stop);
        }
    }

    fn begin(&mut self) {
        self.running = true;
        if self.current > 0 {
            let Phase { spec, pace, .. } = &self.phases[self.current];
            let name = format!("{}#{}", self.name, self.current + 1);
            let changed = self.source.change(spec, *pace, self.seed, &name, self.from);
            changed.expect("every phase was checked when the stream was made");
        }
    }
}

fn check(phases: &[Phase]) -> Result<(), PhaseError> {
    let mut before = Some(Duration::ZERO);
    for (phase, Phase { start, stop, spec, pace }) in (1..).zip(phases) {
        let start = *start;
        if before.is_none_or(|before| start < before) {
            return Err(PhaseError::Overlap { phase, start, stop: before });
        }
        if let Some(stop) = stop.filter(|&stop| stop <= start) {
            return Err(PhaseError::Backwards { phase, start, stop });
        }
        let checked = spec.check().and_then(|()| pace.check_with(spec));
        checked.map_err(|error| PhaseError::Spec { phase, error })?;
        before = *stop;
    }
    Ok(())
}
