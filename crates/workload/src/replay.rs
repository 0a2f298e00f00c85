//! A trace as a source of operations.

use crate::error::SpecError;
use crate::spec::{Extent, IoOp};
use crate::trace::{
    Disorder, OnProgress, Progress, TraceError, TraceFault, TraceFormat, TraceReader, TraceRecord,
};
use disktime_config::quantity;
use disktime_core::{Duration, Instant, Kind, Request};
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;

/// How to replay a trace.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    /// The file, compressed with gzip or not.
    pub path: PathBuf,
    /// Its format; if left out, its first line says.
    #[serde(default)]
    pub format: Option<TraceFormat>,
    /// Where byte 0 of the trace goes, and where its operations have to end.
    pub extent: Extent,
    /// The treatment of operations past the extent's end; in files they are refused if this is left
    /// out.
    #[serde(default)]
    pub past_end: PastEnd,
    /// When operations are issued; in files by their own times if this is left out.
    #[serde(default)]
    pub pace: ReplayPace,
    /// The factor on the trace's times, in parts per million; in files `time_scale = "50%"`, which
    /// is twice as fast, and 100% if left out.
    #[serde(default = "unscaled", deserialize_with = "quantity::scale", rename = "time_scale")]
    pub time_scale_ppm: u64,
    /// How often; in files once if left out.
    #[serde(default)]
    pub repeat: Repeat,
    /// Only this stream of the trace; all if left out.
    #[serde(default)]
    pub stream: Option<u64>,
    /// Whether everything but reads is left out.
    #[serde(default)]
    pub reads_only: bool,
    /// The treatment of times that go back; in files they are refused if this is left out.
    #[serde(default)]
    pub disorder: Disorder,
}

const fn unscaled() -> u64 {
    1_000_000
}

/// The treatment of operations past the extent's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PastEnd {
    /// The replay stops with an error.
    #[default]
    Refuse,
    /// They start over from the extent's start as often as it takes; where one would reach over the
    /// end, it goes to the start. One that is longer than the extent is refused all the same.
    Wrap,
}

/// When a replay issues operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReplayPace {
    /// At their times, counted from the first, however many are outstanding.
    #[default]
    Timed,
    /// As fast as completions make room; their times don't matter.
    Closed {
        /// How many may be outstanding, at least one.
        outstanding: u32,
    },
}

/// How often a trace is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// So often; 0 is 1. The next pass begins one mean distance between operations after the last
    /// operation of the one before.
    Times(u32),
    /// Without end.
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl ReplaySpec {
    /// Once, all of it, at its own times, refusing what doesn't fit.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, extent: Extent) -> Self {
        Self {
            path: path.into(),
            format: None,
            extent,
            past_end: PastEnd::Refuse,
            pace: ReplayPace::Timed,
            time_scale_ppm: unscaled(),
            repeat: Repeat::default(),
            stream: None,
            reads_only: false,
            disorder: Disorder::Refuse,
        }
    }
}

impl ReplaySpec {
    /// Says what is wrong, if anything, apart from the trace.
    ///
    /// # Errors
    /// A closed replay with nothing outstanding, a time scale of 0.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.pace == (ReplayPace::Closed { outstanding: 0 }) {
            return Err(SpecError::NothingOutstanding);
        }
        if self.time_scale_ppm == 0 { Err(SpecError::ScaleZero) } else { Ok(()) }
    }
}

/// Opens the trace, for each pass anew.
pub type OpenTrace = Box<dyn FnMut() -> Result<TraceReader, TraceError> + Send>;

/// Issues the operations of a trace; it is used like a [`Source`](crate::Source).
///
/// It reads as it goes, one operation ahead, so polling may wait for the file. When something is
/// wrong with the trace, it ends, and [`failure`](Self::failure) says what.
pub struct Replay {
    spec: ReplaySpec,
    open: OpenTrace,
    reader: TraceReader,
    /// When the next operation is due, in a timed replay, and what it is.
    next: Option<(Instant, IoOp)>,
    pass: Pass,
    outstanding: u32,
    /// In a closed replay: since when there is room.
    room_since: Instant,
    failure: Option<TraceError>,
}

/// One time through the trace.
#[derive(Clone, Copy, Debug)]
struct Pass {
    number: u32,
    start: Instant,
    /// The trace's times of its first and its latest operation.
    first: Option<Instant>,
    last: Instant,
    operations: u64,
}

impl Pass {
    fn new(number: u32, start: Instant) -> Self {
        Self { number, start, first: None, last: Instant::ZERO, operations: 0 }
    }
}

impl Replay {
    /// A replay of the file that the spec names; its first operation is due at `start`.
    ///
    /// # Errors
    /// The file can't be opened, or not even its first operation makes sense.
    pub fn open(spec: &ReplaySpec, start: Instant) -> Result<Self, TraceError> {
        let (path, format) = (spec.path.clone(), spec.format);
        Self::new(spec, Box::new(move || TraceReader::open(&path, format)), start)
    }

    /// A replay of what `open` opens, which may be no file; the spec's path and format don't matter.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(spec: &ReplaySpec, mut open: OpenTrace, start: Instant) -> Result<Self, TraceError> {
        let reader = open()?.with_disorder(spec.disorder);
        spec.check().map_err(|error| reader.error_of_file(TraceFault::Spec(error)))?;
        let mut replay = Self {
            spec: spec.clone(),
            open,
            reader,
            next: None,
            pass: Pass::new(1, start),
            outstanding: 0,
            room_since: start,
            failure: None,
        };
        replay.next = replay.read()?;
        Ok(replay)
    }

    /// Calls `report` after about each MiB of the file, and at its end.
    pub fn on_progress(&mut self, report: OnProgress) {
        self.reader.on_progress(report);
    }

    /// How much of the file has been read in this pass.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.reader.progress()
    }

    /// The next operation to issue now, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<IoOp> {
        self.next_at().filter(|&at| at <= now)?;
        let (_, op) = self.next.take()?;
        self.outstanding += 1;
        match self.read() {
            Ok(next) => self.next = next,
            Err(error) => self.failure = Some(error),
        }
        Some(op)
    }

    /// When the next operation is due, maybe in the past; `None` while it waits for a completion, and
    /// at its end.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        let (due, _) = self.next?;
        match self.spec.pace {
            ReplayPace::Timed => Some(due),
            ReplayPace::Closed { outstanding } => {
                (self.outstanding < outstanding).then_some(self.room_since)
            }
        }
    }

    /// One of the operations has completed, failed or been refused.
    ///
    /// # Panics
    /// If none is outstanding: a completion was counted twice.
    pub fn completed(&mut self, now: Instant) {
        assert!(self.outstanding > 0, "a completion at {now:?} with nothing outstanding");
        self.outstanding -= 1;
        self.room_since = now;
    }

    /// Operations issued and not completed.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether it will never issue another operation.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.next.is_none()
    }

    /// The error that ended it before its time.
    #[must_use]
    pub fn failure(&self) -> Option<&TraceError> {
        self.failure.as_ref()
    }

    /// The next operation, and when it is due.
    fn read(&mut self) -> Result<Option<(Instant, IoOp)>, TraceError> {
        loop {
            let Some(record) = self.reader.read()? else {
                if !self.start_over()? {
                    return Ok(None);
                }
                continue;
            };
            let other = self.spec.stream.is_some_and(|stream| stream != record.stream);
            if other || self.spec.reads_only && record.op.kind != Kind::Read {
                continue;
            }
            let op = self.place(record.op)?;
            return Ok(Some((self.due(&record), op)));
        }
    }

    fn due(&mut self, record: &TraceRecord) -> Instant {
        let pass = &mut self.pass;
        let first = *pass.first.get_or_insert(record.at);
        pass.last = record.at;
        pass.operations += 1;
        pass.start + scale(record.at.since(first), self.spec.time_scale_ppm)
    }

    /// Begins the next pass, if there is one.
    fn start_over(&mut self) -> Result<bool, TraceError> {
        let Pass { number, start, first, last, operations } = self.pass;
        let Some(first) = first else {
            return Err(self.reader.error_of_file(TraceFault::Empty));
        };
        let more = match self.spec.repeat {
            Repeat::Times(times) => number < times,
            Repeat::Forever => true,
        };
        if !more {
            return Ok(false);
        }
        let span = last.since(first);
        let scaled = scale(span, self.spec.time_scale_ppm);
        if scaled == Duration::ZERO && self.spec.pace == ReplayPace::Timed {
            return Err(self.reader.error_of_file(TraceFault::NoSpan));
        }
        let gap = Duration::from_nanos(span.as_nanos() / (operations - 1).max(1));
        let next = start + scale(span + gap, self.spec.time_scale_ppm);
        let report = self.reader.take_on_progress();
        self.reader = (self.open)()?.with_disorder(self.spec.disorder);
        if let Some(report) = report {
            self.reader.on_progress(report);
        }
        self.pass = Pass::new(number.saturating_add(1), next);
        Ok(true)
    }

    /// Where in the extent an operation goes.
    fn place(&self, op: IoOp) -> Result<IoOp, TraceError> {
        let Extent { start, end } = self.spec.extent;
        let length = end.saturating_sub(start);
        let IoOp { kind, offset, bytes } = op;
        let fits = |offset: u64| offset <= length && bytes <= length - offset;
        if kind == Kind::Flush {
            // A flush has no extent, whatever the trace says.
            let offset = if fits(offset) { start + offset } else { start };
            return Ok(IoOp { kind, offset, bytes: 0 });
        }
        if bytes > Request::BYTES_MAX {
            let field = self.reader.length_field();
            return Err(self.reader.error(TraceFault::Long { field, bytes }));
        }
        if fits(offset) {
            return Ok(IoOp { offset: start + offset, ..op });
        }
        if self.spec.past_end == PastEnd::Refuse || bytes > length {
            let field = self.reader.place_field();
            return Err(self.reader.error(TraceFault::PastEnd {
                field,
                offset,
                bytes,
                end: length,
            }));
        }
        let around = offset % length;
        Ok(IoOp { offset: start + if fits(around) { around } else { 0 }, ..op })
    }
}

fn scale(span: Duration, ppm: u64) -> Duration {
    let nanos = u128::from(span.as_nanos()) * u128::from(ppm) / 1_000_000;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("spec", &self.spec)
            .field("next", &self.next)
            .field("pass", &self.pass)
            .field("outstanding", &self.outstanding)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}
