//! Positioning times, by distance, without the rotational wait.
//!
//! A request that goes out at `u` and completes at `c` took `r = c - u = m + w`: `m` is what we look
//! for, seek and overheads, and the wait `w` is at least 0 and below a revolution `T`. So each one says
//! `r - T < m <= r`. Going to and fro between two places, each time a block further back, the angle of
//! the next block is known from the visit before. Issued so that it completes just then if `m` is at
//! most `q`, a request bisects: it takes `q`, or `q + T`.
//!
//! When `m` is known well enough, two questions below it must be answered with `q + T`: else one of the
//! long ones had crossed from track to track, and is dropped.
//!
//! Blocks further back are in no buffer, and an error in a predicted angle only makes a bad question:
//! what a request says holds at any angle. Short distances are steps backwards, since a place further
//! on may have been read ahead; there the angle is a guess.

use super::places::{aligned, float, spread, whole};
use super::rotation::Turn;
use crate::asked::{BLOCK_BYTES, Done, Issue};
use disktime_core::{Duration, Instant, Kind};
use disktime_workload::IoOp;
use rand::RngExt;
use rand_pcg::Pcg64;

/// Up to here distances are steps backwards; beyond it reads go to and fro. Segments of disks'
/// buffers are smaller.
pub(super) const SHORT_BYTES_MAX: u64 = 8 << 20;
const SHORT: [u64; 5] = [BLOCK_BYTES, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Places for each distance, the innermost and the outermost first.
const PLACES: u32 = 6;
/// Requests at a place: it takes about eleven to know enough.
const VISITS_MAX: u32 = 24;
/// Known well enough: to this part of a revolution.
const ENOUGH: f64 = 1.0 / 250.0;
/// How far below all that is known the last question goes, in revolutions.
const DOUBT: f64 = 0.02;
/// How many such questions: one for each side.
const CONFIRMATIONS: u32 = 2;
/// Distances of writes are one in so many.
const WRITE_EVERY: usize = 4;

/// Where and what to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Job {
    kind: Kind,
    distance: u64,
    /// The lower place, where its first visit goes.
    start: u64,
}

/// The measurements at one place over one distance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    pub(super) kind: Kind,
    pub(super) distance: u64,
    pub(super) from: u64,
    /// Seek and overheads: what a request takes without rotational wait. Without rotation: the mean.
    pub(super) least_ns: f64,
    /// The standard deviation of the times without rotation.
    pub(super) deviation_ns: f64,
    pub(super) longest_ns: f64,
    pub(super) samples: u32,
    /// Whether the last question was answered as it should be.
    pub(super) confirmed: bool,
}

#[derive(Debug)]
pub(super) struct Seeks {
    turn: Option<Turn>,
    random: Pcg64,
    /// The next one last.
    left: Vec<Job>,
    count: usize,
    probe: Option<Probe>,
    found: Vec<Measured>,
}

#[derive(Debug)]
struct Probe {
    job: Job,
    visits: u32,
    /// When each place was visited last.
    seen: [Option<Instant>; 2],
    low_ns: f64,
    high_ns: f64,
    /// How many questions below `low_ns` were answered as they should be.
    confirmed: u32,
    /// The time of each request.
    took_ns: Vec<f64>,
}

impl Seeks {
    pub(super) fn new(size: u64, writes: bool, turn: Option<Turn>, mut random: Pcg64) -> Self {
        let distances = distances(size);
        let mut left = Vec::new();
        for round in 0..PLACES {
            for index in spread(distances.len(), distances.len() - 1) {
                let distance = distances[index];
                let start = place(size, distance, round, &mut random);
                let job = Job { kind: Kind::Read, distance, start };
                left.push(job);
                if writes && (distances.len() - 1 - index).is_multiple_of(WRITE_EVERY) {
                    left.push(Job { kind: Kind::Write, ..job });
                }
            }
        }
        left.reverse();
        Self { turn, random, count: left.len(), left, probe: None, found: Vec::new() }
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<Issue> {
        if self.probe.as_ref().is_some_and(Probe::is_over) {
            let found = self.probe.take().and_then(|probe| probe.measured(self.turn));
            self.found.extend(found);
        }
        if self.probe.is_none() {
            self.probe = Some(Probe::new(self.left.pop()?));
        }
        let probe = self.probe.as_ref()?;
        Some(probe.next(now, self.turn, &mut self.random))
    }

    pub(super) fn completed(&mut self, done: Done) {
        if let Some(probe) = &mut self.probe {
            probe.completed(done, self.turn);
        }
    }

    pub(super) fn part(&self) -> f64 {
        1.0 - float(self.left.len() as u64) / float(self.count.max(1) as u64)
    }

    pub(super) fn finish(mut self) -> Vec<Measured> {
        self.found.extend(self.probe.take().and_then(|probe| probe.measured(self.turn)));
        self.found
    }
}

/// Short ones, then two to an octave, up to the whole device.
fn distances(size: u64) -> Vec<u64> {
    let longest = aligned(size - edge(size));
    let short =
        SHORT.into_iter().filter(|distance| *distance == BLOCK_BYTES || distance * 64 <= size);
    let octaves = std::iter::successors(Some(SHORT_BYTES_MAX), |distance| Some(distance * 2));
    let long =
        octaves.flat_map(|octave| [octave, octave / BLOCK_BYTES * 1414 / 1000 * BLOCK_BYTES]);
    short.chain(long.take_while(|distance| *distance < longest / 8 * 7)).chain([longest]).collect()
}

/// The length of a device's beginning or end: wide enough that no two visits there find each other
/// in a buffer.
fn edge(size: u64) -> u64 {
    (size / 256).max(BLOCK_BYTES * u64::from(2 * VISITS_MAX))
}

/// Where a distance's lower place is in this round.
fn place(size: u64, distance: u64, round: u32, random: &mut Pcg64) -> u64 {
    // A visit goes a step further back than the one before.
    let (below, above) = match distance {
        ..SHORT_BYTES_MAX => (distance * u64::from(VISITS_MAX), BLOCK_BYTES),
        _ => (BLOCK_BYTES * u64::from(VISITS_MAX), distance + BLOCK_BYTES),
    };
    let last = size.saturating_sub(above);
    let first = below.min(last);
    let range = match round {
        0 => last.saturating_sub(edge(size)).max(first)..=last,
        1 => first..=(first + edge(size)).min(last),
        _ => first..=last,
    };
    // Rounding down must not leave less room than the visits take.
    aligned(random.random_range(range)).max(first.next_multiple_of(BLOCK_BYTES).min(aligned(last)))
}

impl Probe {
    fn new(job: Job) -> Self {
        Self {
            job,
            visits: 0,
            seen: [None; 2],
            low_ns: 0.0,
            high_ns: f64::INFINITY,
            confirmed: 0,
            took_ns: Vec::new(),
        }
    }

    fn is_short(&self) -> bool {
        self.job.distance < SHORT_BYTES_MAX
    }

    /// Which of the two places is next, and how much further back each visit goes.
    fn side(&self) -> usize {
        if self.is_short() { 0 } else { (self.visits % 2) as usize }
    }

    fn step(&self) -> u64 {
        if self.is_short() { self.job.distance } else { BLOCK_BYTES }
    }

    fn next(&self, now: Instant, turn: Option<Turn>, random: &mut Pcg64) -> Issue {
        let Job { kind, distance, start } = self.job;
        let rounds = if self.is_short() { self.visits } else { self.visits / 2 };
        let further = if self.side() == 1 { distance } else { 0 };
        let back = self.step() * u64::from(rounds);
        let offset = (start + further).saturating_sub(back);
        let at = match (turn, self.seen[self.side()]) {
            (Some(turn), Some(last)) if self.high_ns.is_finite() => {
                let question = match self.is_narrow(turn) {
                    true => self.low_ns - turn.period_ns * DOUBT,
                    false => f64::midpoint(self.low_ns, self.high_ns),
                };
                let angle = turn.angle(last) - float(self.step()) * turn.ns_per_byte;
                turn.at_angle(now, angle - question)
            }
            // Any angle: it is not known yet.
            (Some(turn), _) => {
                now + Duration::from_nanos(random.random_range(0..whole(turn.period_ns)))
            }
            (None, _) => now,
        };
        Issue { at, op: IoOp { kind, offset, bytes: BLOCK_BYTES } }
    }

    fn completed(&mut self, done: Done, turn: Option<Turn>) {
        let side = self.side();
        self.visits += 1;
        self.seen[side] = Some(done.at);
        if self.visits == 1 {
            // It came from somewhere else.
            return;
        }
        let narrow = turn.is_some_and(|turn| self.is_narrow(turn));
        let took = float(done.took.as_nanos());
        self.took_ns.push(took);
        let Some(turn) = turn else { return };
        self.high_ns = self.high_ns.min(took);
        self.low_ns = self.low_ns.max(took - turn.period_ns);
        // Neither late nor asked at a wrong angle.
        let expected = self.low_ns + turn.period_ns * (1.0 - 2.0 * DOUBT);
        self.confirmed += u32::from(narrow && took > expected);
        // A request that crosses from track to track takes a skew longer, and says too much.
        while self.high_ns < self.low_ns - turn.period_ns * DOUBT / 2.0 {
            self.confirmed = 0;
            self.took_ns.sort_by(f64::total_cmp);
            self.took_ns.pop();
            let longest = self.took_ns.last().copied().unwrap_or(0.0);
            self.low_ns = (longest - turn.period_ns).max(0.0);
        }
    }

    fn is_narrow(&self, turn: Turn) -> bool {
        self.high_ns - self.low_ns < turn.period_ns * ENOUGH
    }

    fn is_confirmed(&self) -> bool {
        self.confirmed >= CONFIRMATIONS
    }

    fn is_over(&self) -> bool {
        self.is_confirmed() || self.visits >= VISITS_MAX
    }

    /// `None` if nothing is known.
    fn measured(&self, turn: Option<Turn>) -> Option<Measured> {
        let samples = u32::try_from(self.took_ns.len()).ok().filter(|samples| *samples > 0)?;
        let mean = self.took_ns.iter().sum::<f64>() / f64::from(samples);
        let squares = self.took_ns.iter().map(|took| (took - mean).powi(2)).sum::<f64>();
        let Job { kind, distance, start } = self.job;
        let (least_ns, deviation_ns) = match turn {
            Some(_) if self.high_ns.is_infinite() => return None,
            Some(_) => (f64::midpoint(self.low_ns, self.high_ns), 0.0),
            None => (mean, (squares / f64::from(samples)).sqrt()),
        };
        let longest_ns = self.took_ns.iter().copied().fold(0.0, f64::max);
        let confirmed = turn.is_none() || self.is_confirmed();
        Some(Measured {
            kind,
            distance,
            from: start,
            least_ns,
            deviation_ns,
            longest_ns,
            samples,
            confirmed,
        })
    }
}
