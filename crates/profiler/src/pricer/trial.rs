//! One trial: requests of one or two kinds, so many outstanding, for a while.
//!
//! The time of reads is counted from completion to completion, after as many have completed as were
//! outstanding at first, until no more are issued. Writes are counted from the first one, after a
//! flush, to the end of the flush behind the last one: so a cache that took them doesn't count.

use crate::places::{aligned, float};
use crate::speeds::{BATCH, Work};
use disktime_core::{Duration, Instant, Kind};
use disktime_workload::IoOp;
use rand::RngExt;
use rand_pcg::Pcg64;

/// Fewest requests that are counted while the time lasts.
const COUNTED_MIN: u64 = 8;
/// A trial with enough requests goes on for so long at least.
const TIME_MIN: Duration = Duration::from_millis(50);

/// The requests that a trial issues.
#[derive(Debug)]
pub(super) struct Trial {
    /// One, or two that take turns.
    pub(super) lanes: Vec<Lane>,
    pub(super) depth: u32,
    /// How long, unless too little was seen by then.
    pub(super) limit: Duration,
    /// Enough.
    pub(super) requests_max: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) work: Work,
    pub(super) bytes: u64,
    /// Requests in a row.
    pub(super) turn: u32,
    pub(super) places: Places,
}

/// Where requests go.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// Anywhere, on a multiple of their size.
    Random,
    /// One behind the other, from here on.
    From(u64),
    /// There, the next one last.
    At(Vec<u64>),
}

/// A trial under way.
#[derive(Debug)]
pub(super) struct Running {
    trial: Trial,
    phase: Phase,
    writes: bool,
    issued: u64,
    completed: u64,
    outstanding: u32,
    began: Option<Instant>,
    /// From when on completions count.
    since: Option<Instant>,
    last: Instant,
    counted: u64,
    batch_since: Instant,
    batches_ns: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// A flush before writes.
    Before,
    /// Requests.
    Go,
    /// No more requests; those outstanding complete.
    Drain,
    /// A flush behind writes.
    After,
    Over,
}

/// The result of a trial.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// Requests that count.
    pub(super) counted: u64,
    /// All of them together.
    pub(super) ns: f64,
    /// Batches of [`BATCH`] of them, from completion to completion, in order of time.
    pub(super) batches_ns: Vec<f64>,
    /// Where lanes in sequence have come to.
    pub(super) cursor: Option<u64>,
}

impl Running {
    pub(super) fn new(trial: Trial) -> Self {
        let writes = trial.lanes.iter().any(|lane| lane.work.kind() == Kind::Write);
        Self {
            trial,
            phase: if writes { Phase::Before } else { Phase::Go },
            writes,
            issued: 0,
            completed: 0,
            outstanding: 0,
            began: None,
            since: None,
            last: Instant::ZERO,
            counted: 0,
            batch_since: Instant::ZERO,
            batches_ns: Vec::new(),
        }
    }

    /// The next request to issue now; `None` if one must complete before, or it is over.
    pub(super) fn next(
        &mut self,
        now: Instant,
        size: u64,
        stop: bool,
        random: &mut Pcg64,
    ) -> Option<IoOp> {
        if self.phase == Phase::Go && (stop || self.is_enough(now)) {
            self.phase = Phase::Drain;
        }
        if self.phase == Phase::Drain && self.outstanding == 0 {
            self.phase = if self.writes { Phase::After } else { Phase::Over };
        }
        let op = match self.phase {
            Phase::Before | Phase::After if self.outstanding == 0 => {
                IoOp { kind: Kind::Flush, offset: 0, bytes: 0 }
            }
            Phase::Go if self.outstanding < self.trial.depth => {
                if self.began.is_none() {
                    (self.began, self.last) = (Some(now), now);
                    (self.since, self.batch_since) = (self.writes.then_some(now), now);
                }
                let Some(op) = self.trial.request(self.issued, size, random) else {
                    self.phase = Phase::Drain;
                    return self.next(now, size, stop, random);
                };
                self.issued += 1;
                op
            }
            _ => return None,
        };
        self.outstanding += 1;
        Some(op)
    }

    pub(super) fn completed(&mut self, now: Instant) {
        self.outstanding -= 1;
        match self.phase {
            Phase::Before => self.phase = Phase::Go,
            Phase::Go => self.count(now),
            Phase::Drain if self.writes => self.count(now),
            Phase::Drain | Phase::Over => {}
            Phase::After => (self.phase, self.last) = (Phase::Over, now),
        }
    }

    fn count(&mut self, now: Instant) {
        self.completed += 1;
        if self.since.is_some() {
            (self.counted, self.last) = (self.counted + 1, now);
            if self.counted.is_multiple_of(BATCH) {
                self.batches_ns.push(float(now.since(self.batch_since).as_nanos()));
                self.batch_since = now;
            }
        } else if self.completed >= u64::from(self.trial.depth) {
            (self.since, self.batch_since) = (Some(now), now);
        }
    }

    fn is_enough(&self, now: Instant) -> bool {
        let Some(began) = self.began else { return false };
        let took = now.since(began);
        let many = self.counted >= self.trial.requests_max && took >= TIME_MIN;
        // A device that chooses serves the near ones first: each has to have had its turn.
        let enough = self.counted >= COUNTED_MIN.max(self.trial.depth.into());
        many || (took >= self.trial.limit && enough)
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(super) fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Its result; `None` if nothing counts.
    pub(super) fn shown(self) -> Option<Shown> {
        let since = self.since.filter(|_| self.counted > 0)?;
        let cursor = self.trial.lanes.iter().find_map(|lane| match lane.places {
            Places::From(cursor) => Some(cursor),
            _ => None,
        });
        let ns = float(self.last.since(since).as_nanos()).max(1.0);
        Some(Shown { counted: self.counted, ns, batches_ns: self.batches_ns, cursor })
    }
}

impl Trial {
    /// The request of this number; `None` if there are no places left.
    fn request(&mut self, number: u64, size: u64, random: &mut Pcg64) -> Option<IoOp> {
        let turns: u64 = self.lanes.iter().map(|lane| u64::from(lane.turn)).sum();
        let mut at = number % turns;
        let lane = self.lanes.iter_mut().find(|lane| {
            let here = at < u64::from(lane.turn);
            at = at.saturating_sub(u64::from(lane.turn));
            here
        })?;
        let Lane { work, bytes, places, .. } = lane;
        let bytes = *bytes;
        let offset = match places {
            Places::Random => random.random_range(0..size / bytes) * bytes,
            Places::At(places) => places.pop()?,
            Places::From(cursor) => {
                let offset = if *cursor + bytes > size { 0 } else { aligned(*cursor) };
                *cursor = offset + bytes;
                offset
            }
        };
        Some(IoOp { kind: work.kind(), offset, bytes })
    }
}
