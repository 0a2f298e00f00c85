//! Whether a device turns, and how fast.
//!
//! Reads that step backwards by `s` bytes wait for nearly a revolution each: reading ahead goes the
//! other way. From completion to completion it takes `T - s·τ`, whatever the pause between them, with
//! `τ` the time of a byte under the head. Two steps give both: `T = 2·d(s) - d(2s)`. Crossing a track
//! adds a skew now and then, which a median doesn't see.
//!
//! Larger steps at both ends and in the middle then cross tracks and cylinders: each time the span is
//! shorter by a skew, or longer by a revolution less a skew.
//!
//! A device that doesn't rotate answers at once: there the pauses, drawn at random, show in the
//! spans.

use super::places::{aligned, float, median, whole};
use crate::asked::{BLOCK_BYTES, Done, Issue};
use disktime_core::{Duration, Instant, Kind};
use disktime_workload::IoOp;
use rand::RngExt;
use rand_pcg::Pcg64;

/// Reads with each step, and those that look for skews at each place.
const READS: usize = 40;
const SKEW_READS: usize = 110;
/// Blocks of a step.
const STEPS: [u64; 3] = [1, 2, 4];
/// Where to look for skews, in eighths of the device.
const SKEW_EIGHTHS: [u64; 3] = [8, 4, 1];
/// Spans that count as a skew, in parts of a revolution: less is noise, more a skew the other way.
pub(super) const SKEWS: std::ops::Range<f64> = 0.02..0.65;
/// Pauses are below this: short of any revolution, far above jitter.
const PAUSE_NS_MAX: u64 = 2_000_000;
/// Revolutions of disks: 40,000 to 1,800 per minute.
const PERIODS_NS: std::ops::Range<f64> = 1.5e6..33e6;
/// By how much of itself most spans may differ from their median: less than any skew.
const SPREAD_MAX: f64 = 0.015;

/// A turning device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Turn {
    /// A revolution.
    pub(super) period_ns: f64,
    /// Time under the head, at the place where it was found out.
    pub(super) ns_per_byte: f64,
    /// The longest wait from the end of a track to the beginning of the next.
    pub(super) skew_ns: f64,
}

#[derive(Debug)]
pub(super) struct Rotation {
    size: u64,
    offset: u64,
    /// Which span comes next: a step each, the last one a place each.
    run: usize,
    random: Pcg64,
    last: Option<Instant>,
    /// Completion to completion, stepping by one block, by two, and by four at each place.
    spans: [Vec<f64>; RUNS],
}

const RUNS: usize = 2 + SKEW_EIGHTHS.len();

impl Rotation {
    pub(super) fn new(size: u64, random: Pcg64) -> Self {
        let spans = std::array::from_fn(|_| Vec::new());
        Self { size, offset: aligned(size / 2), run: 0, random, last: None, spans }
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<Issue> {
        if self.run >= RUNS || (self.run == 2 && self.turn().is_none()) {
            return None;
        }
        let pause = match self.run {
            0 | 1 => Duration::from_nanos(self.random.random_range(0..PAUSE_NS_MAX)),
            _ => Duration::ZERO,
        };
        let op = IoOp { kind: Kind::Read, offset: self.offset, bytes: BLOCK_BYTES };
        Some(Issue { at: now + pause, op })
    }

    pub(super) fn completed(&mut self, done: Done) {
        if let Some(last) = self.last.replace(done.at) {
            self.spans[self.run].push(float(done.at.since(last).as_nanos()));
        }
        if self.spans[self.run].len() >= if self.run < 2 { READS } else { SKEW_READS } {
            self.run += 1;
            if let Some(eighths) = self.run.checked_sub(2).and_then(|at| SKEW_EIGHTHS.get(at)) {
                // The first read there comes from elsewhere.
                self.last = None;
                self.offset = aligned(self.size / 8 * eighths) - BLOCK_BYTES;
                return;
            }
        }
        self.offset = self.offset.saturating_sub(BLOCK_BYTES * STEPS[self.run.min(2)]);
    }

    pub(super) fn part(&self) -> f64 {
        float(self.run as u64) / float(RUNS as u64)
    }

    pub(super) fn finish(self) -> Option<Turn> {
        self.turn()
    }

    fn turn(&self) -> Option<Turn> {
        let [short, long, skewed @ ..] = &self.spans;
        let (one, two) = (steady(short)?, steady(long)?);
        let period_ns = 2.0 * one - two;
        let ns_per_byte = (one - two) / float(BLOCK_BYTES);
        let skews = skewed.iter().filter_map(|spans| skew(spans, period_ns));
        let turn = Turn { period_ns, ns_per_byte, skew_ns: skews.fold(0.0, f64::max) };
        (PERIODS_NS.contains(&period_ns) && ns_per_byte >= 0.0).then_some(turn)
    }
}

/// The longest skew among spans that mostly have none.
fn skew(spans: &[f64], period_ns: f64) -> Option<f64> {
    let middle = median(spans.to_vec())?;
    let skews = spans.iter().map(|span| (middle - span).rem_euclid(period_ns));
    let skews = skews.filter(|skew| SKEWS.contains(&(skew / period_ns)));
    skews.max_by(f64::total_cmp)
}

/// Their level, if most are there: the mean of those near the median. A delay of one completion
/// shortened the next span, so that a mean is more exact than the median.
fn steady(spans: &[f64]) -> Option<f64> {
    let middle = median(spans.to_vec()).filter(|_| spans.len() >= READS / 2)?;
    let near = spans.iter().filter(|span| (*span - middle).abs() <= SPREAD_MAX * middle);
    let (sum, count) = near.fold((0.0, 0), |(sum, count), span| (sum + span, count + 1));
    (count * 2 > spans.len()).then(|| sum / float(count as u64))
}

impl Turn {
    /// Nanoseconds below a revolution that `time` is past a common mark.
    pub(super) fn angle(&self, time: Instant) -> f64 {
        float(time.as_nanos()) % self.period_ns
    }

    /// The earliest time from `now` on at which the platter stands at `angle`.
    pub(super) fn at_angle(&self, now: Instant, angle: f64) -> Instant {
        let wait = (angle - self.angle(now)).rem_euclid(self.period_ns);
        now + Duration::from_nanos(whole(wait))
    }
}
