//! Promise bounds: the longest time that a backlogged stream can be behind its reservation.
//!
//! A bound follows from contracts, the device's depth, the longest time that a piece is declared to
//! take and the slice length. Nothing that happens while the engine runs changes it.
//!
//! **The promise.** A stream with the reservation f and the bound Θ is served at least
//! `f·(W - Θ)` of disk time in any interval W in which it is backlogged throughout: it has a request
//! queued, and neither its limit nor its own in-flight limit keeps that back. Time in which the device
//! stalls is not in W. (The latency of a latency-rate server: Stiliadis and Varma, "Latency-rate
//! servers", 1998.)
//!
//! **Derivation.** Let p be the period, c the longest piece, D the in-flight limit, s the slice length,
//! R the longest round and n the number of streams that share best effort. A stream's own slice is at
//! most `min(s, f·R)`. The stream waits for its next service, one after the other, while
//!
//! 1. what it had beyond its reservation is made up for. It may be ahead by the slack of one period,
//!    f·p of wall time, by its own slice less what it is due meanwhile, and by the piece that ends the
//!    slice: `f·p + min(s, f·R)·(1-f)/f + c/f`;
//! 2. the others use the reservations that they saved up while idle, one period's each: `(1-f)·p`;
//! 3. each of the others has one slice, which ends with one piece. No other stream has two: after its
//!    slice it is ahead, and this stream is not. The slices of a round are together at most R:
//!    `min((n-1)·s, (1-f)·R) + (n-1)·c`;
//! 4. pieces that are at the device complete, which can't be called back: `D·c`;
//! 5. guaranteed classes go first. A guaranteed-latency stream of reservation g takes at once what it
//!    saved up and one piece, `g·p + c`. A deterministic rate of share g in cycles of T takes what two
//!    cycles grant, `2·g·T`, as W meets at most W/T + 2 of them.
//!
//! Θ is the sum:
//!
//! ```text
//! Θ = p + min(s, f·R)·(1-f)/f + c/f + min((n-1)·s, (1-f)·R) + (n-1)·c + D·c + Σ(g·p + c) + Σ2·g·T
//! ```
//!
//! Without slices (s = 0, n = 1) this is the guarantee of `zygaria`, u + c + f·D·c of disk time
//! (`docs/appendix/guarantee-zygaria.md`), divided by f. Beside a statistical or an unchecked rate
//! nothing bounds what goes first, so nothing is promised. A guaranteed-latency stream waits for no
//! slices, and has no bound beside rates, as it pays for their seeks back.
//!
//! **Example.** Two virtual disks with 50 % each on a disk, depth 1, no profile: c = 50 ms and
//! s = 350 ms, so Θ = 1 s + 350 ms + 100 ms + 350 ms + 50 ms + 50 ms = 1.9 s.
//!
//! Does not know: policies, streams' queues, what any piece took.

use core::ops::{Add, Sub};

use super::admission::{CYCLES, latency_bound};
use super::profile::Profile;
use crate::types::bucket::TokenBucket;
use crate::types::contract::{Admission, Class, Contract};
use crate::types::ratio::scaled;
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// The slice length of a device for which none is configured.
pub const SLICE: Duration = Duration::from_millis(350); // the lag then ranges over half a point in a minute
/// The longest round: what all slices take together.
pub const ROUND: Duration = Duration::from_secs(10); // 28 slices of 350 ms; a stream of 1 % has 100 ms
/// The longest time that a piece is declared to take at a device without a profile.
pub const PIECE_TIME: Duration = Duration::from_millis(50); // a disk's worst seek, a revolution, 1 MiB
/// The piece whose time a profile tells: the longest that the daemon sends.
pub const PIECE_BYTES: u64 = 1 << 20;

/// The longest time that a piece of so many bytes takes by a device's profile.
#[must_use]
pub fn piece_time(profile: &Profile, bytes: u64) -> Duration {
    latency_bound(profile, bytes, bytes, 0)
}

/// A stream whose pieces at the device decide is looked at again so soon.
const AGAIN: Duration = Duration::from_millis(100); // a window, at whose end charges are known

/// The terms that the bounds of one device's streams follow from, beside each stream's own contract.
///
/// Adding and removing a contract is O(1), and so is a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The device's in-flight limit in pieces.
    pub depth: u32,
    /// The longest time that a piece is declared to take.
    pub piece: Duration,
    /// The slice length.
    pub slice: Duration,
    /// The span whose reservation an idle stream keeps.
    pub period: Duration,
    /// Streams that share best effort, with a reservation or without.
    sharing: u64,
    /// Guaranteed-latency streams, and what they can have saved up, in ns.
    bounded: (u64, u64),
    /// Guaranteed-rate streams, and what the deterministic ones take at once, in ns.
    rates: (u64, u64),
    /// The number of rates that nothing bounds.
    unbounded: u64,
}

impl Terms {
    /// The terms of a device without streams.
    #[must_use]
    pub const fn new(depth: u32, piece: Duration, slice: Duration, period: Duration) -> Self {
        let (bounded, rates) = ((0, 0), (0, 0));
        Self { depth, piece, slice, period, sharing: 0, bounded, rates, unbounded: 0 }
    }

    /// Counts a contract as it was granted. `cycle` is that of a guaranteed rate; `None` stands for
    /// the one it states, else for the longest to choose from.
    pub fn add(&mut self, contract: &Contract, cycle: Option<Duration>) {
        self.count(contract, cycle, u64::add);
    }

    /// Counts a contract no more, which was added with the same cycle.
    pub fn remove(&mut self, contract: &Contract, cycle: Option<Duration>) {
        self.count(contract, cycle, u64::sub);
    }

    /// Whether best effort, and guaranteed latencies, have no bounds because of others' contracts.
    pub(crate) fn withholds(&self) -> [bool; 2] {
        [self.unbounded > 0, self.rates.0 > 0]
    }

    fn count(&mut self, of: &Contract, cycle: Option<Duration>, with: fn(u64, u64) -> u64) {
        let count = |sum: &mut u64, one: u64| *sum = with(*sum, one);
        match of.class {
            Class::BestEffort | Class::SoftRealTime => count(&mut self.sharing, 1),
            Class::Background => {}
            Class::GuaranteedLatency => {
                count(&mut self.bounded.0, 1);
                count(&mut self.bounded.1, part(self.period, of.reserve.ppm()));
            }
            Class::GuaranteedRate => {
                let at_once = at_once(of, cycle);
                count(&mut self.rates.0, 1);
                count(&mut self.rates.1, at_once.unwrap_or(0));
                count(&mut self.unbounded, u64::from(at_once.is_none()));
            }
        }
    }

    /// The longest time that a backlogged stream of this contract, which was added, can be behind its
    /// reservation; `None` if no time is promised to it. Rounded up.
    #[must_use]
    pub fn bound(&self, contract: &Contract) -> Option<Duration> {
        let [best_effort, latencies] = self.withholds();
        let (shares, promised) = match contract.class {
            Class::BestEffort | Class::SoftRealTime => (true, !best_effort),
            Class::GuaranteedLatency => (false, !latencies),
            Class::GuaranteedRate | Class::Background => (false, false),
        };
        if contract.reserve == Share::ZERO || !promised {
            return None;
        }
        let (parts, own) = (u128::from(Share::PARTS), contract.reserve.ppm());
        let (own_parts, rest) = (u128::from(own), Share::PARTS - own);
        let [period, piece, slice] =
            [self.period, self.piece, self.slice].map(|span| u128::from(span.as_nanos()));
        let round = |ppm: u32| u128::from(part(ROUND, ppm));
        let others = u128::from(if shares { self.sharing.saturating_sub(1) } else { 0 });
        let own_slice = if shares { slice.min(round(own)) } else { 0 };
        let made_up = (own_slice * u128::from(rest) + piece * parts).div_ceil(own_parts);
        let turns = (others * slice).min(round(rest)) + others * piece;
        let (bounded, saved) = self.bounded;
        let first = u128::from(saved) + u128::from(bounded) * piece + u128::from(self.rates.1);
        let bound = period + made_up + turns + u128::from(self.depth) * piece + first;
        Some(Duration::from_nanos(u64::try_from(bound).unwrap_or(u64::MAX)))
    }
}

/// The time that a guaranteed rate takes at once ahead of its share, in ns; `None` if nothing bounds it.
fn at_once(contract: &Contract, cycle: Option<Duration>) -> Option<u64> {
    let rate = contract.rate.filter(|rate| rate.admission == Admission::Deterministic)?;
    let longest = CYCLES[CYCLES.len() - 1];
    let cycle = cycle.or(rate.cycle).unwrap_or(longest);
    Some(2 * part(cycle, contract.reserve.ppm()))
}

/// A part of a span, in ns.
fn part(span: Duration, ppm: u32) -> u64 {
    scaled(span.as_nanos(), ppm.into(), Share::PARTS.into())
}

/// How far a stream is behind its reservation: the most, over all intervals that end now and in which
/// it was backlogged throughout, of what it reserves there less what it was charged.
pub(crate) struct Behind {
    /// The time by which the stream is behind, in ns of disk time: fills at the reservation, and is never
    /// below zero.
    level: TokenBucket,
    backlogged: bool,
    /// The contract and the cycle that the terms count.
    pub(crate) counted: Option<(Contract, Option<Duration>)>,
}

impl Behind {
    pub(crate) fn new(reserve: Share, now: Instant) -> Self {
        Self { level: TokenBucket::new(reserve, now), backlogged: false, counted: None }
    }

    pub(crate) fn set_reserve(&mut self, reserve: Share, now: Instant) {
        self.level.advance(now);
        self.level.set_rate(reserve);
    }

    /// The stream is backlogged from now on, or no more.
    pub(crate) fn turned(&mut self, backlogged: bool, now: Instant) {
        if backlogged && !self.backlogged {
            self.begin(now);
        }
        self.backlogged = backlogged;
    }

    /// No interval begins before now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.level.advance(now);
        self.level.cap(0);
    }

    /// The stream was charged, for time up to now.
    pub(crate) fn charged(&mut self, used: Duration, now: Instant) {
        if self.backlogged {
            self.level.advance(now);
            self.level.take(used.as_tokens());
            let level = self.level.level();
            self.level.take(level.min(0));
        }
    }

    /// A stall of the device has ended, which is in no interval.
    pub(crate) fn stalled(&mut self, reserve: Share, stall: Duration, now: Instant) {
        self.charged(Duration::from_nanos(part(stall, reserve.ppm())), now);
    }

    /// When a stream that is charged nothing more is behind by longer than `bound`, in ns; `None` if
    /// it is not backlogged.
    ///
    /// The debit of `pending` pieces that are not charged yet counts as served from the time on at which
    /// it decides, which is then asked for again before long.
    pub(crate) fn breaks_at(
        &self,
        reserve: Share,
        bound: Duration,
        pending: i64,
        now: Instant,
    ) -> Option<i64> {
        let tokens = Duration::from_nanos(part(bound, reserve.ppm())).as_tokens();
        let tokens = tokens.saturating_add(1);
        let (soon, again) = (now + AGAIN, |at: Instant| at.as_nanos().cast_signed());
        let settled = self.level.holds_at(tokens);
        let debited = self.level.holds_at(tokens.saturating_add(pending.max(0)));
        self.backlogged.then_some(settled.max(debited.min(again(soon))))
    }

    /// By how long it is behind now, in wall time.
    pub(crate) fn time(&mut self, reserve: Share, now: Instant) -> Duration {
        self.level.advance(now);
        let tokens = self.level.level().max(0).unsigned_abs();
        Duration::from_nanos(scaled(tokens, Share::PARTS.into(), reserve.ppm().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A debit may turn out to be far too high: the charge is known with the next window at the latest.
    #[test]
    fn a_stream_that_only_a_debit_keeps_from_its_bound_is_looked_at_again_after_a_window() {
        let (half, bound) = (Share::from_percent(50).expect("at most 100"), Duration::from_secs(1));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut behind = Behind::new(half, at(0));
        behind.turned(true, at(0));
        let breaks = |debited: Duration, now: u64| {
            let breaks = behind.breaks_at(half, bound, debited.as_tokens(), at(now));
            breaks.expect("it is backlogged") / 1_000_000
        };
        assert_eq!(breaks(Duration::ZERO, 500), 1_000, "by its bound");
        let again = breaks(Duration::from_secs(5), 2_000);
        assert!((2_060..=2_190).contains(&again), "{again} ms");
        assert_eq!(breaks(Duration::from_millis(520), 2_000), 2_040, "sooner if that is no doubt");
    }
}
