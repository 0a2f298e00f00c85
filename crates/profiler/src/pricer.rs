//! Costs of requests of each kind on any device: the cost table, and the measurements that it rests
//! on.
//!
//! Kinds are measured one after the other, alone: random and sequential reads, and writes if they
//! are allowed. First the depth is doubled while there is time for it, however little that brings (a
//! busy machine may hold one up); then requests of three sizes run at the best depth, and a price is
//! fitted through what they take from one completion to the next. At last, if there is time for it,
//! kinds and streams take turns (what that takes beyond their prices is switching), and some places
//! are read twice (what that saves is a cache's).
//!
//! Errors at the edges: a device that holds nothing yet answers faster than one that does; a write
//! cache that is larger than all that is written, and is not emptied by a flush, is taken for the
//! medium; and a sequential cost is that of the device's middle.
//!
//! Does not know: clocks, sockets, files, device models. Sans-IO: ask [`Pricer::next`] until it says
//! to wait, carry out what it says, tell [`Pricer::completed`] of each, until it is done.

mod trial;

use super::places::{aligned, float, whole};
use super::speeds::{
    BATCH, CONFIDENCES, Caches, Cell, Priced, Speeds, Switching, Work, WorkSpeed, fit,
};
use crate::asked::{BLOCK_BYTES, BUDGET_MAX, ProfilerError, Progress, REQUEST_BYTES_MAX, SIZE_MIN};
use disktime_core::cost::{Price, PriceList};
use disktime_core::{Duration, Instant, Kind};
use disktime_workload::IoOp;
use disktime_workload::random;
use rand::RngExt;
use rand_pcg::Pcg64;
use trial::{Lane, Places, Running, Shown, Trial};

/// Shortest time in which something can be found out.
pub const PRICER_BUDGET_MIN: Duration = Duration::from_millis(200);
/// The longest time of a quick probe: reads, at a daemon's start.
pub const QUICK_BUDGET: Duration = Duration::from_millis(1_800);
/// Most requests outstanding.
pub const DEPTH_MAX: u32 = 256;
/// Most bytes outstanding.
const OUTSTANDING_BYTES_MAX: u64 = 32 << 20;

/// Sizes that a price is fitted through, in the order in which they are worth most.
const SIZES: [u64; 3] = [BLOCK_BYTES, REQUEST_BYTES_MAX, 64 << 10];
/// The sizes with which depths are compared.
const RANDOM_BYTES: u64 = BLOCK_BYTES;
const SEQUENTIAL_BYTES: u64 = 64 << 10;
/// Depths that the time for them is laid out for.
const DEPTHS: u64 = 9;
/// Sizes with one outstanding have one part of so many of the size's time.
const SHALLOW: u64 = 4;
/// Part of a kind's time that goes to depths, in per cent.
const DEPTHS_PERCENT: u64 = 40;
/// Part of the whole that goes to kinds, if there is more to find out.
const KINDS_PERCENT: u64 = 85;
/// As fast as the fastest.
const AS_FAST: f64 = 0.97;
/// Enough requests for a figure.
const REQUESTS_MAX: u64 = 4_000;
/// From so many on a figure is as sure as any.
const REQUESTS_SURE: u64 = 100;
/// Requests of a stream between two switches.
const TURN: u32 = 8;
/// Places that are read twice.
const AGAIN: usize = 64;
/// A run that takes less than this part of the long run was taken by a cache.
const CACHED: f64 = 0.5;

/// The device and the effort of measuring costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PricerOptions {
    /// The device's size in bytes, at least [`SIZE_MIN`].
    pub size: u64,
    /// Whether its contents may be destroyed: only then writes are measured.
    pub writes: bool,
    /// Most requests that it may be given at once: 1 to [`DEPTH_MAX`].
    pub depth_max: u32,
    /// When to stop: nothing is issued after it is over.
    pub budget: Duration,
    /// Whether switching and caches are looked at as well.
    pub thorough: bool,
    /// Where to look is drawn from it.
    pub seed: u64,
}

/// The profiler's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Issue this under this name, and ask again. A flush has no bytes.
    Issue(u32, IoOp),
    /// Nothing until a request completes.
    Wait,
    /// All is done.
    Done,
}

/// Finds out a device's [`Priced`].
#[derive(Debug)]
pub struct Pricer {
    options: PricerOptions,
    random: Pcg64,
    stage: Stage,
    running: Option<Running>,
    /// Names in use.
    names: Vec<bool>,
    begun: Option<Instant>,
    now: Instant,
    requests: u64,
    found: Found,
    /// Where reads in sequence go on.
    cursor: u64,
    again: Vec<u64>,
}

#[derive(Debug, Default)]
struct Found {
    works: Vec<WorkSpeed>,
    prices: Vec<(Work, Price)>,
    switching: [Option<Duration>; 3],
    first: Option<Duration>,
    second: Option<Duration>,
    burst: Option<(Duration, u64)>,
}

/// The kind of trial that is under way.
#[derive(Clone, PartialEq, Debug)]
enum Stage {
    /// A kind at growing depths, with what each took.
    Depths {
        work: usize,
        cells: Vec<Cell>,
    },
    /// A kind in several sizes: one outstanding, unless that is known, then so many that `best` of the
    /// size of depths are.
    Sizes {
        work: usize,
        size: usize,
        shallow: bool,
        best: u32,
        cells: Vec<Cell>,
    },
    /// Two kinds that take turns.
    Switching(usize),
    /// Places that are read again; the first time or the second.
    Again(usize),
    Over,
}

impl Pricer {
    /// A pricer that has done nothing yet.
    ///
    /// # Errors
    /// [`ProfilerError::Size`] or [`ProfilerError::Budget`].
    pub fn new(options: PricerOptions) -> Result<Self, ProfilerError> {
        let PricerOptions { size, budget, seed, .. } = options;
        if size < SIZE_MIN {
            return Err(ProfilerError::Size { size });
        }
        if !(PRICER_BUDGET_MIN..=BUDGET_MAX).contains(&budget) {
            return Err(ProfilerError::Budget { budget });
        }
        let depth_max = options.depth_max.clamp(1, DEPTH_MAX);
        Ok(Self {
            random: random::stream(seed, "pricer", "places"),
            stage: Stage::Depths { work: 0, cells: Vec::new() },
            running: None,
            names: Vec::new(),
            begun: None,
            now: Instant::ZERO,
            requests: 0,
            found: Found::default(),
            cursor: aligned(size / 2),
            again: Vec::new(),
            options: PricerOptions { depth_max, ..options },
        })
    }

    /// The next step at `now`.
    pub fn next(&mut self, now: Instant) -> Ask {
        let begun = *self.begun.get_or_insert(now);
        self.now = now;
        let stop = now.since(begun) >= self.options.budget;
        loop {
            if self.running.as_ref().is_some_and(Running::is_over) {
                let running = self.running.take();
                self.take(running);
            }
            if self.running.is_none() {
                if stop {
                    self.stage = Stage::Over;
                }
                let Some(trial) = self.trial(begun) else { return Ask::Done };
                self.running = Some(Running::new(trial));
            }
            let (size, stop) = (self.options.size, stop || self.is_late(begun));
            let Some(running) = &mut self.running else { return Ask::Done };
            if let Some(op) = running.next(now, size, stop, &mut self.random) {
                return Ask::Issue(self.name(), op);
            }
            if !running.is_over() {
                return Ask::Wait;
            }
        }
    }

    /// The request of that name has completed.
    ///
    /// # Panics
    /// If none is outstanding under it.
    pub fn completed(&mut self, now: Instant, name: u32) {
        let used = self.names.get_mut(name as usize).filter(|used| **used);
        *used.expect("what completes was issued") = false;
        self.now = now;
        self.requests += 1;
        if let Some(running) = &mut self.running {
            running.completed(now);
        }
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let works = float(self.works().len() as u64);
        let kinds = if self.options.thorough { KINDS_PERCENT as f64 / 100.0 } else { 1.0 };
        let depths = DEPTHS_PERCENT as f64 / 100.0;
        let (phase, part) = match &self.stage {
            Stage::Depths { work, cells } => {
                let part = depths * (float(cells.len() as u64) / float(DEPTHS)).min(1.0);
                (self.works()[*work].name(), kinds * (float(*work as u64) + part) / works)
            }
            Stage::Sizes { work, size, .. } => {
                let part = (1.0 - depths) * float(*size as u64) / SIZES.len() as f64;
                (self.works()[*work].name(), kinds * (float(*work as u64) + depths + part) / works)
            }
            Stage::Switching(at) => ("switching", kinds + 0.1 * float(*at as u64) / 3.0),
            Stage::Again(at) => ("caches", kinds + 0.1 + 0.02 * float(*at as u64)),
            Stage::Over => ("done", 1.0),
        };
        Progress { phase, part, requests: self.requests }
    }

    /// The result, after [`next`](Self::next) has said that it is done; before, the result so far.
    ///
    /// # Errors
    /// [`ProfilerError::Nothing`] if the budget was too short for reads.
    pub fn finish(self) -> Result<Priced, ProfilerError> {
        let missing = ProfilerError::Nothing { missing: "prices of reads" };
        let price = |work: Work| {
            self.found.prices.iter().find(|(of, _)| *of == work).map(|(_, price)| *price)
        };
        let (Some(random_read), Some(sequential_read)) =
            (price(Work::RandomRead), price(Work::SequentialRead))
        else {
            return Err(missing);
        };
        let prices = PriceList {
            sequential_read,
            random_read,
            sequential_write: price(Work::SequentialWrite).unwrap_or(sequential_read),
            random_write: price(Work::RandomWrite).unwrap_or(random_read),
        };
        let [streams, kinds, read_write] = self.found.switching;
        let switching = streams.zip(kinds);
        let switching = switching.map(|(streams, kinds)| Switching { streams, kinds, read_write });
        let cache = self.found.first.zip(self.found.second);
        let cache = cache.map(|(read_first, read_again)| Caches {
            read_first,
            read_again,
            write_burst: self.found.burst.map(|burst| burst.0),
            write_burst_bytes: self.found.burst.map(|burst| burst.1),
        });
        Ok(Priced {
            prices,
            speeds: Speeds { works: self.found.works, switching, cache },
            requests: self.requests,
            took: self.now.since(self.begun.unwrap_or(self.now)),
        })
    }

    fn works(&self) -> &'static [Work] {
        if self.options.writes { &Work::ALL } else { &Work::ALL[..2] }
    }

    /// A name that is not in use, from now on.
    fn name(&mut self) -> u32 {
        let free = self.names.iter().position(|used| !used);
        let at = free.unwrap_or_else(|| {
            self.names.push(false);
            self.names.len() - 1
        });
        self.names[at] = true;
        u32::try_from(at).expect("at most so many are outstanding")
    }

    /// The next trial; `None` if all is done.
    fn trial(&mut self, begun: Instant) -> Option<Trial> {
        let left = self.left(begun);
        match &self.stage {
            Stage::Depths { work, cells } => {
                let (work, depth) = (self.works()[*work], 1 << cells.len());
                let bytes = base(work);
                let lane = self.lane(work, bytes, 1);
                let slice = self.slice().as_nanos() / 100 * DEPTHS_PERCENT / DEPTHS;
                let limit = Duration::from_nanos(slice.min(left.as_nanos()));
                Some(Trial { lanes: vec![lane], depth, limit, requests_max: REQUESTS_MAX })
            }
            Stage::Sizes { work, size, shallow, best, cells } => {
                let (work, bytes) = (self.works()[*work], SIZES[*size]);
                let lane = self.lane(work, bytes, 1);
                let rest = (SIZES.len() - size) as u64 * if *shallow { SHALLOW } else { 1 };
                let limit = Duration::from_nanos(left.as_nanos() / rest);
                let deep = deep(work, *best, bytes).min(self.options.depth_max);
                let depth = if *shallow { 1 } else { deep.min(in_time(cells, limit)) };
                // Writes show what they cost when a cache is full.
                let long = !shallow && work.kind() == Kind::Write;
                let requests_max = if long { u64::MAX } else { REQUESTS_MAX };
                Some(Trial { lanes: vec![lane], depth, limit, requests_max })
            }
            Stage::Switching(pair) => {
                let limit = Duration::from_nanos(self.options.budget.as_nanos() / 30);
                let lanes = self.pair(*pair);
                let depths = lanes.iter().map(|lane| within(self.depth(lane.work), lane.bytes));
                let depth = depths.max().unwrap_or(1);
                Some(Trial { lanes, depth, limit, requests_max: REQUESTS_MAX })
            }
            Stage::Again(_) => {
                let limit = Duration::from_nanos(self.options.budget.as_nanos() / 50);
                if self.again.is_empty() {
                    let blocks = self.options.size / BLOCK_BYTES;
                    let random = &mut self.random;
                    self.again =
                        (0..AGAIN).map(|_| random.random_range(0..blocks) * BLOCK_BYTES).collect();
                }
                let places = Places::At(self.again.clone());
                let lane = Lane { work: Work::RandomRead, bytes: BLOCK_BYTES, turn: 1, places };
                Some(Trial { lanes: vec![lane], depth: 1, limit, requests_max: u64::MAX })
            }
            Stage::Over => None,
        }
    }

    /// A kind's part of the time.
    fn slice(&self) -> Duration {
        let percent = if self.options.thorough { KINDS_PERCENT } else { 100 };
        let works = self.works().len() as u64;
        Duration::from_nanos(self.options.budget.as_nanos() / 100 * percent / works)
    }

    /// The rest of the time of the kind that is measured.
    fn left(&self, begun: Instant) -> Duration {
        let (Stage::Depths { work, .. } | Stage::Sizes { work, .. }) = &self.stage else {
            return Duration::ZERO;
        };
        let end = self.slice().as_nanos() * (*work as u64 + 1);
        Duration::from_nanos(end).saturating_sub(self.now.since(begun))
    }

    fn lane(&self, work: Work, bytes: u64, turn: u32) -> Lane {
        let places = if work.is_random() { Places::Random } else { Places::From(self.cursor) };
        Lane { work, bytes, turn, places }
    }

    /// Two that take turns: streams apart, kinds, reads and writes.
    fn pair(&self, pair: usize) -> Vec<Lane> {
        let eighth = aligned(self.options.size / 8);
        let stream = |eighths: u64| Lane {
            places: Places::From(eighth * eighths),
            ..self.lane(Work::SequentialRead, SEQUENTIAL_BYTES, TURN)
        };
        match pair {
            0 => vec![stream(1), stream(5)],
            1 => vec![stream(3), self.lane(Work::RandomRead, RANDOM_BYTES, TURN)],
            _ => [Work::RandomRead, Work::RandomWrite]
                .map(|work| self.lane(work, RANDOM_BYTES, 1))
                .into(),
        }
    }

    fn depth(&self, work: Work) -> u32 {
        self.found.works.iter().find(|of| of.work == work).map_or(1, |of| of.best_depth)
    }

    /// Keeps what a trial has shown, and goes on to the next stage.
    fn take(&mut self, running: Option<Running>) {
        let Some(running) = running else { return };
        let (depth, lanes) = (running.trial().depth, running.trial().lanes.clone());
        let bytes = lanes.first().map_or(0, |lane| lane.bytes);
        let shown = running.shown();
        if let Some(cursor) = shown.as_ref().and_then(|shown| shown.cursor) {
            self.cursor = cursor;
        }
        let begun = self.begun.unwrap_or(self.now);
        let left = self.left(begun);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Depths { work, mut cells } => {
                cells.extend(shown.map(|shown| cell(bytes, depth, &shown, None)));
                let deeper =
                    2 * depth <= self.options.depth_max && within(2 * depth, bytes) > depth;
                // A share of the time is the sizes': they make the price.
                let percent = self.slice().as_nanos() / 100 * (100 - DEPTHS_PERCENT);
                // As many as are outstanding complete before any counts.
                let warm_up = fastest(&cells).saturating_mul(2 * u64::from(depth));
                if deeper && left.as_nanos() > percent.saturating_add(warm_up) {
                    Stage::Depths { work, cells }
                } else {
                    let best = best(&cells);
                    let shallow = self.is_shallow(work, 0);
                    Stage::Sizes { work, size: 0, shallow, best, cells }
                }
            }
            Stage::Sizes { work, size, shallow: true, best, mut cells } => {
                cells.extend(shown.map(|shown| cell(bytes, depth, &shown, None)));
                Stage::Sizes { work, size, shallow: false, best, cells }
            }
            Stage::Sizes { work, size, best, mut cells, .. } => {
                let of = self.works()[work];
                if let Some(shown) = &shown {
                    let kept = quantiles(of, shown);
                    cells.push(cell(bytes, depth, shown, kept));
                    if of == Work::RandomWrite && size == 0 {
                        self.found.burst = burst(shown, bytes);
                    }
                }
                let size = size + 1;
                if size < SIZES.len() && left > Duration::ZERO {
                    let shallow = self.is_shallow(work, size);
                    Stage::Sizes { work, size, shallow, best, cells }
                } else {
                    self.keep(of, best, cells);
                    self.after(work)
                }
            }
            Stage::Switching(pair) => {
                self.found.switching[pair] = shown.map(|shown| self.extra(&lanes, &shown));
                match pair {
                    0 => Stage::Switching(1),
                    1 if self.options.writes => Stage::Switching(2),
                    _ => Stage::Again(0),
                }
            }
            Stage::Again(round) => {
                let each = shown.map(|shown| each(&shown));
                if round == 0 {
                    self.found.first = each;
                    Stage::Again(1)
                } else {
                    self.found.second = each;
                    Stage::Over
                }
            }
            Stage::Over => Stage::Over,
        };
    }

    /// Whether others would get no time if what is measured went on. The first figure of each kind is
    /// worth waiting for.
    fn is_late(&self, begun: Instant) -> bool {
        let left = || self.left(begun).as_nanos();
        match &self.stage {
            Stage::Depths { cells, .. } => {
                !cells.is_empty() && left() < self.slice().as_nanos() / 2
            }
            Stage::Sizes { size, .. } => *size > 0 && left() == 0,
            Stage::Switching(_) | Stage::Again(_) | Stage::Over => false,
        }
    }

    /// Whether it is still open what requests of that size take with one outstanding.
    fn is_shallow(&self, work: usize, size: usize) -> bool {
        self.options.thorough
            && self.options.depth_max > 1
            && SIZES[size] != base(self.works()[work])
    }

    fn after(&self, work: usize) -> Stage {
        match (work + 1 < self.works().len(), self.options.thorough) {
            (true, _) => Stage::Depths { work: work + 1, cells: Vec::new() },
            (false, true) => Stage::Switching(0),
            (false, false) => Stage::Over,
        }
    }

    fn keep(&mut self, work: Work, best_depth: u32, cells: Vec<Cell>) {
        // Several connections lose a sequence's order: some devices are faster with one outstanding.
        // A size for which there was no time at the best depth counts as it was seen.
        let points = SIZES.iter().filter_map(|bytes| {
            let of_size = || cells.iter().filter(|cell| cell.bytes == *bytes);
            let deep = of_size().find(|cell| cell.batches.is_some());
            let others = of_size().filter(|_| deep.is_none() || *bytes != base(work));
            deep.into_iter().chain(others).min_by_key(|cell| cell.each)
        });
        let points = points.map(|cell| fit::Point {
            mib: mib(cell.bytes),
            ns: float(cell.each.as_nanos()),
            weight: float(cell.requests.min(REQUESTS_SURE)),
        });
        let points: Vec<_> = points.collect();
        let shallow = cells.iter().find(|cell| cell.depth == 1).map(|cell| cell.each.as_nanos());
        let deep = cells.iter().find(|cell| cell.depth == best_depth && cell.bytes == base(work));
        let (Some(shallow), Some(deep), false) = (shallow, deep, points.is_empty()) else { return };
        let parallelism_permille = shallow.saturating_mul(1_000) / deep.each.as_nanos().max(1);
        self.found.prices.push((work, fit::price(&points)));
        self.found.works.push(WorkSpeed { work, best_depth, parallelism_permille, cells });
    }

    /// The time of each switch beyond the requests' costs.
    fn extra(&self, lanes: &[Lane], shown: &Shown) -> Duration {
        let turns: f64 = lanes.iter().map(|lane| f64::from(lane.turn)).sum();
        let each = |lane: &Lane| {
            let prices = self.found.prices.iter().find(|(work, _)| *work == lane.work);
            let price = prices.map_or(Duration::ZERO, |(_, price)| price.of(lane.bytes));
            float(price.as_nanos()) * f64::from(lane.turn) / turns
        };
        let expected = lanes.iter().map(each).sum::<f64>() * float(shown.counted);
        let switches = float(shown.counted) * float(lanes.len() as u64) / turns;
        Duration::from_nanos(whole((shown.ns - expected).max(0.0) / switches.max(1.0)))
    }
}

/// The size with which depths of a kind are compared.
fn base(work: Work) -> u64 {
    if work.is_random() { RANDOM_BYTES } else { SEQUENTIAL_BYTES }
}

/// How many requests of a size are as many as `best` of the size with which depths are compared:
/// those in sequence by their bytes, as what lies side by side makes a device parallel.
fn deep(work: Work, best: u32, bytes: u64) -> u32 {
    let more = if work.is_random() { 1 } else { (base(work) / bytes).max(1) };
    let requests = u64::from(best) * more;
    within(u32::try_from(requests).unwrap_or(u32::MAX), bytes)
}

/// As deep as so long requests may be.
fn within(depth: u32, bytes: u64) -> u32 {
    let most = (OUTSTANDING_BYTES_MAX / bytes).max(1);
    depth.min(u32::try_from(most).unwrap_or(u32::MAX))
}

fn fastest(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.each.as_nanos()).min().unwrap_or(0)
}

/// So many that half of the time is left when all of the first ones have completed.
fn in_time(cells: &[Cell], limit: Duration) -> u32 {
    let requests = limit.as_nanos() / 2 / fastest(cells).max(1);
    u32::try_from(requests.max(1)).unwrap_or(u32::MAX)
}

/// The fewest outstanding with which it is about as fast as with any.
fn best(cells: &[Cell]) -> u32 {
    let fastest = fastest(cells);
    let fast = |cell: &&Cell| float(cell.each.as_nanos()) * AS_FAST <= float(fastest);
    cells.iter().find(fast).map_or(1, |cell| cell.depth)
}

fn cell(
    bytes: u64,
    depth: u32,
    shown: &Shown,
    batches: Option<[Duration; CONFIDENCES.len()]>,
) -> Cell {
    Cell { bytes, depth, requests: shown.counted, each: each(shown), batches }
}

fn each(shown: &Shown) -> Duration {
    Duration::from_nanos(whole(shown.ns / float(shown.counted.max(1))).max(1))
}

/// Quantiles of batches' times, by request. Time that a cache takes off writes is not taken off
/// here: at least the mean.
fn quantiles(work: Work, shown: &Shown) -> Option<[Duration; CONFIDENCES.len()]> {
    let mean = shown.ns / float(shown.counted.max(1));
    let mut batches: Vec<f64> = shown.batches_ns.iter().map(|batch| batch / float(BATCH)).collect();
    if work.kind() == Kind::Write {
        batches.iter_mut().for_each(|batch| *batch = batch.max(mean));
    }
    batches.sort_by(f64::total_cmp);
    Some(CONFIDENCES.map(|percent| {
        let at = (batches.len() * percent as usize).div_ceil(100).saturating_sub(1);
        let nanos = batches.get(at).copied().unwrap_or(mean);
        Duration::from_nanos(whole(nanos).max(1))
    }))
}

/// How writes are acknowledged while a cache has room, and how many bytes that lasts.
fn burst(shown: &Shown, bytes: u64) -> Option<(Duration, u64)> {
    let mean = shown.ns / float(shown.counted.max(1));
    let of_batch = |batch: &f64| batch / float(BATCH);
    let first = of_batch(shown.batches_ns.first()?);
    let fast = shown.batches_ns.iter().take_while(|batch| of_batch(batch) < CACHED * mean).count();
    Some((Duration::from_nanos(whole(first).max(1)), fast as u64 * BATCH * bytes))
}

#[expect(clippy::cast_precision_loss, reason = "requests are below 2^53 bytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests;
