//! The share of a device that a goal takes: a rate of requests, a bandwidth, a bound on responses.
//!
//! **A run** of n requests in sequence takes `t = first + (n-1)·next`. With zygaria's mechanics
//! ([`Costs::mechanical`]) that is its `t = ½s + ½p + n·x` (§2.4: s the longest seek, p a
//! revolution, x the transfer of one block); with prices that were measured ([`Costs::priced`]) it
//! is QBox's `α·x + β·y` for one request at random and those that follow it. The application makes
//! b_a requests in sequence; the scheduler lets at most b_s of them go together, as many as fit
//! into one slice: `n = min(b_a, b_s)`.
//!
//! **A rate** r takes the share `u = r·t/n` (zygaria's text has `u = r/(…)`, a slip).
//!
//! **A bound** on responses at a percentile q takes the smallest share s with
//! `wait + c/s + ahead ≤ bound`: c is what a request takes on the mean, so that c/s is when its turn
//! has come at the share s; `ahead` is what others have at the device by then. The wait behind the
//! stream's own requests, which come at random at the rate r with `ρ = r·c/s`, is
//! `ln(1/(1-q))·(c/s)·ρ/(2·(1-ρ))`: the mean of a queue with constant service times, and the
//! exponential distribution that waits have where they matter (Kingman, "The single server queue
//! in heavy traffic", 1961). Without a rate there is no such wait. With a bound n is 1: requests that
//! go as they come are no run, since others' go in between.
//!
//! Does not know: where costs come from, what else is admitted, and how requests arrive.

use std::fmt;

use disktime_core::{Duration, Share};
use disktime_profiler::Costs;

/// How long policy `disktime` stays with one stream while others wait, unless a device says so.
pub const STAY: Duration = Duration::from_millis(350);
/// The longest request that can be asked for, in bytes.
pub const REQUEST_MAX: u64 = 1 << 30;
/// The highest rate, in requests or bytes per second.
pub const RATE_MAX: u64 = 1_000_000_000_000;
/// The longest run, in requests.
pub const RUN_MAX: u64 = 1 << 32;

const PARTS: u128 = Share::PARTS as u128;
/// `ln(1/(1-q))` in thousandths, rounded up, for q in parts per million: of a q between two the
/// larger holds.
const LOGARITHMS: [(u32, u128); 9] = [
    (500_000, 694),
    (750_000, 1_387),
    (900_000, 2_303),
    (950_000, 2_996),
    (980_000, 3_913),
    (990_000, 4_606),
    (999_000, 6_908),
    (999_900, 9_211),
    (999_990, 11_513),
];

/// An application's demand; at least one of a rate and a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goal {
    /// How much each second.
    pub demand: Option<Demand>,
    /// How soon.
    pub bound: Option<Bound>,
    /// Bytes of a request: 1 to [`REQUEST_MAX`].
    pub request: u64,
    /// b_a: requests that follow one another in sequence before the next one is elsewhere; 1 if
    /// each is. At most [`RUN_MAX`].
    pub run: u64,
}

/// How much each second: 1 to [`RATE_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Requests per second.
    Requests(u64),
    /// Bytes per second.
    Bytes(u64),
}

/// A bound on response times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The longest.
    pub latency: Duration,
    /// For which part of the requests: below all.
    pub percentile: Share,
}

/// The costs that a goal is calculated from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ground {
    /// The costs of requests of the goal's size.
    pub costs: Costs,
    /// How long the scheduler stays with one stream at most while others wait: it decides b_s.
    pub stay: Duration,
    /// The time of others' requests at the device when the goal's request goes out.
    pub ahead: Duration,
}

/// The shares that a goal takes. Shares are in parts per million, rounded up; above 1,000,000 it
/// takes more than the device, and at `u64::MAX` no number of such devices does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// n: requests that are served in sequence.
    pub run: u64,
    /// t: what they take.
    pub run_time: Duration,
    /// The share that the rate takes; 0 without one.
    pub rate_ppm: u64,
    /// The share that the bound takes; 0 without one.
    pub bound_ppm: u64,
}

/// The part of a goal that could be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fitting {
    /// The largest demand, the bound unchanged; of 0 if none.
    pub demand: Option<Demand>,
    /// The smallest bound, the demand unchanged, rounded up to a microsecond; `None` without a
    /// bound, or if none can be kept.
    pub latency: Option<Duration>,
}

/// Why a goal is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoalError {
    /// Neither a rate nor a bound.
    Nothing,
    /// A request of no bytes, or too many.
    Request(u64),
    /// A run of no requests, or too many.
    Run(u64),
    /// A rate of nothing, or too much.
    Rate(u64),
    /// A bound of no time.
    Bound,
    /// A percentile that is 0, or beyond the last one that there is a figure for.
    Percentile(Share),
}

/// The share that a goal takes of a device.
///
/// # Errors
/// If a number is out of range. A goal that does not fit is no error, but a share above the whole.
pub fn needs(goal: &Goal, ground: &Ground) -> Result<Needs, GoalError> {
    goal.check()?;
    // A request with a bound does not wait for the rest of its run: others go in between.
    let run = match goal.bound {
        Some(_) => 1,
        None => goal.run.min(ground.costs.run_within(ground.stay)),
    };
    let run_nanos = ground.costs.run_nanos(run);
    let rate_ppm = goal.demand.map_or(0, |demand| rate_ppm(demand, goal.request, run, run_nanos));
    let service = run_nanos.div_ceil(u128::from(run));
    let bound_ppm = goal.bound.map_or(0, |bound| bound_ppm(bound, rate_ppm, service, ground.ahead));
    Ok(Needs { run, run_time: nanos(run_nanos), rate_ppm, bound_ppm })
}

/// The largest part of a goal within a share, when all of it can't be had.
///
/// # Errors
/// As [`needs`].
pub fn fitting(goal: &Goal, ground: &Ground, available: Share) -> Result<Fitting, GoalError> {
    let within = |goal: &Goal| {
        needs(goal, ground).is_ok_and(|needs| needs.ppm() <= u64::from(available.ppm()))
    };
    let needs = needs(goal, ground)?;
    let demand = goal.demand.map(|demand| {
        let lower = |amount: u64| Goal { demand: Some(demand.with(amount)), ..*goal };
        demand.with(largest(demand.amount(), |amount| within(&lower(amount))))
    });
    let service = needs.run_time.as_nanos().div_ceil(needs.run).max(1);
    let latency = goal.bound.and_then(|bound| {
        let percentile = bound.percentile;
        let ppm = u128::from(available.ppm());
        let whole = response(ppm, percentile, needs.rate_ppm, service.into(), ground.ahead)?;
        Some(nanos(whole.div_ceil(1_000).saturating_mul(1_000)))
    });
    Ok(Fitting { demand, latency })
}

impl Goal {
    /// Whether every number is within its range.
    ///
    /// # Errors
    /// Which one is not.
    pub fn check(&self) -> Result<(), GoalError> {
        if self.demand.is_none() && self.bound.is_none() {
            return Err(GoalError::Nothing);
        }
        if !(1..=REQUEST_MAX).contains(&self.request) {
            return Err(GoalError::Request(self.request));
        }
        if !(1..=RUN_MAX).contains(&self.run) {
            return Err(GoalError::Run(self.run));
        }
        let amount = self.demand.map(Demand::amount);
        if let Some(amount) = amount.filter(|amount| !(1..=RATE_MAX).contains(amount)) {
            return Err(GoalError::Rate(amount));
        }
        let Some(Bound { latency, percentile }) = self.bound else { return Ok(()) };
        if latency == Duration::ZERO {
            return Err(GoalError::Bound);
        }
        let last = LOGARITHMS.last().map_or(0, |row| row.0);
        if percentile == Share::ZERO || percentile.ppm() > last {
            return Err(GoalError::Percentile(percentile));
        }
        Ok(())
    }
}

impl Needs {
    /// Parts per million of the device.
    #[must_use]
    pub fn ppm(&self) -> u64 {
        self.rate_ppm.max(self.bound_ppm)
    }

    /// As a share; `None` above the whole.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        u32::try_from(self.ppm()).ok().and_then(Share::from_ppm)
    }
}

impl Demand {
    /// The number, whatever it counts.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Requests(amount) | Self::Bytes(amount) => amount,
        }
    }

    /// Another number of the same.
    #[must_use]
    pub const fn with(self, amount: u64) -> Self {
        match self {
            Self::Requests(_) => Self::Requests(amount),
            Self::Bytes(_) => Self::Bytes(amount),
        }
    }
}

/// `u = r·t/n`, rounded up; of absurdly long runs the product saturates.
fn rate_ppm(demand: Demand, request: u64, run: u64, run_nanos: u128) -> u64 {
    let each = match demand {
        Demand::Requests(_) => 1,
        Demand::Bytes(_) => u128::from(request),
    };
    // Nanoseconds by seconds to parts per million: by 1000.
    let whole = u128::from(demand.amount()).saturating_mul(run_nanos);
    let ppm = whole.div_ceil(u128::from(run) * each * 1_000);
    u64::try_from(ppm).unwrap_or(u64::MAX)
}

/// The smallest share that keeps the bound, by halving: responses fall as the share rises.
fn bound_ppm(bound: Bound, rate_ppm: u64, service: u128, ahead: Duration) -> u64 {
    let Bound { latency, percentile } = bound;
    let keeps = |ppm: u64| {
        let response = response(ppm.into(), percentile, rate_ppm, service, ahead);
        response.is_some_and(|response| response <= u128::from(latency.as_nanos()))
    };
    // A device may be asked for more than it has: the answer then tells how much more.
    let most = u64::from(Share::PARTS) << 20;
    if !keeps(most) {
        return u64::MAX;
    }
    largest(most, |ppm| !keeps(ppm)) + 1
}

/// The time that responses are below at the percentile; `None` if the share is less than the rate
/// takes.
fn response(
    ppm: u128,
    percentile: Share,
    rate_ppm: u64,
    service: u128,
    ahead: Duration,
) -> Option<u128> {
    let left = ppm.checked_sub(rate_ppm.into()).filter(|left| *left > 0)?;
    let turn = (service * PARTS).div_ceil(ppm);
    let row = LOGARITHMS.iter().find(|row| row.0 >= percentile.ppm());
    let logarithm = row.map_or(u128::MAX >> 64, |row| row.1);
    let wait = turn.saturating_mul(rate_ppm.into()).saturating_mul(logarithm);
    let wait = wait.div_ceil(2 * left * 1_000);
    Some(wait.saturating_add(turn).saturating_add(ahead.as_nanos().into()))
}

/// The last number up to `most` that holds, where those below one that holds do; 0 if none does.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("a goal is a rate, a bandwidth or a latency: state one"),
            Self::Request(bytes) => {
                write!(f, "request: {bytes} bytes; 1 to {REQUEST_MAX} are possible")
            }
            Self::Run(requests) => {
                write!(
                    f,
                    "run: {requests} requests; 1 to {RUN_MAX} are possible, 1 for random ones"
                )
            }
            Self::Rate(rate) => write!(f, "rate: {rate} each second; 1 to {RATE_MAX} are possible"),
            Self::Bound => f.write_str("latency: 0; above 0 is possible"),
            Self::Percentile(share) => {
                write!(f, "percentile: {share}; above 0% and at most 99.999% are possible")
            }
        }
    }
}

impl std::error::Error for GoalError {}

#[cfg(test)]
mod tests;
