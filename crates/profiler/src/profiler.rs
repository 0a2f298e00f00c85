//! The profiler of a device that turns: what admission needs to know, found out from outside.
//!
//! After paper ucsb, section III-C ("Disk Profiler"), whose scheduler rests on the disk model that
//! one makes. Requests go out one at a time, and only their times are looked at:
//!
//! 1. **Rotation** (`rotation`): small reads that step backwards, so that no reading ahead serves
//!    them, complete at fixed angles whatever the pauses between.
//! 2. **Rates** (`streams`): sequential streams at up to 96 places; a segmentation makes zones.
//! 3. **Seeks** (`seeks`): pairs of places at many distances. Each request is issued so that it
//!    bisects what the time without rotational wait can still be.
//!
//! Another one, the [`Pricer`](crate::Pricer), measures the cost of each kind of requests on any
//! device, deep queues included.
//!
//! Does not know: clocks, sockets, files, device models, and what a device has inside. Sans-IO: ask
//! [`Profiler::next`], carry it out, say so to [`Profiler::completed`], until there is no next.

use crate::asked::{
    BUDGET_MAX, BUDGET_MIN, Done, Issue, ProfilerError, ProfilerOptions, Progress, SIZE_MIN,
};
use crate::assemble;
use crate::found::Found;
use crate::rotation::{self, Rotation};
use crate::seeks::{self, Seeks};
use crate::streams::{self, Streams};
use disktime_core::{Duration, Instant};
use disktime_workload::{IoOp, random};

/// Finds out a device's [`Found`].
#[derive(Debug)]
pub struct Profiler {
    options: ProfilerOptions,
    stage: Stage,
    rotation: Option<rotation::Turn>,
    streams: Vec<streams::Place>,
    seeks: Vec<seeks::Measured>,
    outstanding: Option<IoOp>,
    begun: Option<Instant>,
    now: Instant,
    requests: u64,
}

#[derive(Debug)]
enum Stage {
    Rotation(Rotation),
    Streams(Streams),
    Seeks(Seeks),
    Over,
}

/// The part of the time for rates on a device that doesn't rotate, in per cent.
const STILL_PERCENT: u64 = 20;

/// Parts of the budget by the end of which a stage must be over: rotation, rates, seeks.
const SHARES_PERCENT: [u64; 3] = [8, 55, 98];

impl Profiler {
    /// A profiler that has done nothing yet.
    ///
    /// # Errors
    /// [`ProfilerError::Size`] or [`ProfilerError::Budget`].
    pub fn new(options: ProfilerOptions) -> Result<Self, ProfilerError> {
        let ProfilerOptions { size, budget, seed, .. } = options;
        if size < SIZE_MIN {
            return Err(ProfilerError::Size { size });
        }
        if !(BUDGET_MIN..=BUDGET_MAX).contains(&budget) {
            return Err(ProfilerError::Budget { budget });
        }
        let random = random::stream(seed, "profiler", "rotation");
        Ok(Self {
            stage: Stage::Rotation(Rotation::new(size, random)),
            options,
            rotation: None,
            streams: Vec::new(),
            seeks: Vec::new(),
            outstanding: None,
            begun: None,
            now: Instant::ZERO,
            requests: 0,
        })
    }

    /// The next request, or `None` when all is done; the same one until it is
    /// [`completed`](Self::completed) only if `now` is.
    ///
    /// # Panics
    /// If a request is outstanding.
    pub fn next(&mut self, now: Instant) -> Option<Issue> {
        assert!(self.outstanding.is_none(), "one request at a time");
        let begun = *self.begun.get_or_insert(now);
        self.now = now;
        loop {
            let next = match &mut self.stage {
                Stage::Rotation(stage) => stage.next(now),
                Stage::Streams(stage) => stage.next(now),
                Stage::Seeks(stage) => stage.next(now),
                Stage::Over => return None,
            };
            if let Some(issue) = next.filter(|issue| issue.at < self.deadline(begun)) {
                self.outstanding = Some(issue.op);
                return Some(issue);
            }
            self.go_on(begun);
        }
    }

    /// The request has completed at `now`, so long after it was issued.
    ///
    /// # Panics
    /// If none is outstanding.
    pub fn completed(&mut self, now: Instant, took: Duration) {
        let op = self.outstanding.take().expect("what completes was issued");
        self.now = now;
        self.requests += 1;
        let done = Done { op, at: now, took };
        match &mut self.stage {
            Stage::Rotation(stage) => stage.completed(done),
            Stage::Streams(stage) => stage.completed(done),
            Stage::Seeks(stage) => stage.completed(done),
            Stage::Over => {}
        }
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let [first, second, third] = SHARES_PERCENT.map(|percent| percent as f64 / 100.0);
        let (phase, part) = match &self.stage {
            Stage::Rotation(stage) => ("rotation", first * stage.part()),
            Stage::Streams(stage) => ("rates", first + (second - first) * stage.part()),
            Stage::Seeks(stage) => ("seeks", second + (third - second) * stage.part()),
            Stage::Over => ("done", 1.0),
        };
        Progress { phase, part, requests: self.requests }
    }

    /// The result, after [`next`](Self::next) has answered `None`; before, the result so far.
    ///
    /// # Errors
    /// [`ProfilerError::Nothing`] if the budget was too short.
    pub fn finish(self) -> Result<Found, ProfilerError> {
        assemble::found(&assemble::Raw {
            name: &self.options.name,
            size: self.options.size,
            writes: self.options.writes,
            turn: self.rotation,
            places: &self.streams,
            seeks: &self.seeks,
            requests: self.requests,
            took: self.now.since(self.begun.unwrap_or(self.now)),
        })
    }

    fn deadline(&self, begun: Instant) -> Instant {
        let percent = match self.stage {
            Stage::Rotation(_) => SHARES_PERCENT[0],
            Stage::Streams(_) => SHARES_PERCENT[1],
            Stage::Seeks(_) | Stage::Over => SHARES_PERCENT[2],
        };
        begun + Duration::from_nanos(self.options.budget.as_nanos() / 100 * percent)
    }

    /// Keeps what a stage has found, and begins the next.
    fn go_on(&mut self, begun: Instant) {
        let ProfilerOptions { size, writes, seed, .. } = self.options;
        let random = random::stream(seed, "profiler", "seeks");
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Rotation(stage) => {
                self.rotation = stage.finish();
                self.stage = Stage::Streams(Streams::new(size, writes, Duration::ZERO));
                let left = self.deadline(begun).since(self.now);
                // A device that doesn't rotate has no zones to tell apart, or few.
                let percent = if self.rotation.is_none() { STILL_PERCENT } else { 100 };
                let left = Duration::from_nanos(left.as_nanos() / 100 * percent);
                Stage::Streams(Streams::new(size, writes, left))
            }
            Stage::Streams(stage) => {
                self.streams = stage.finish();
                Stage::Seeks(Seeks::new(size, writes, self.rotation, random))
            }
            Stage::Seeks(stage) => {
                self.seeks = stage.finish();
                Stage::Over
            }
            Stage::Over => Stage::Over,
        };
    }
}
