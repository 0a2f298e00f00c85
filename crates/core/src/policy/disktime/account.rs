//! What the policy knows of a stream: its share and tag, what its returns cost, and the swing that
//! suits it.

use super::returns::Returns;
use super::virtual_time::PARTS;
use crate::contract::Contract;
use crate::share::Share;
use crate::time::{Duration, Instant};

/// Insulation is made for windows of a minute.
const WINDOW: i64 = 60_000_000_000;
/// One part in this may be lost to returns,
const LOSS: i128 = 100;
/// and a window may vary by one part in this.
const VARIATION: i128 = 16;

#[derive(Clone, Copy)]
pub(super) struct Account {
    reserve: Share,
    pub(super) weight: u32,
    /// φ in parts of [`PARTS`].
    pub(super) share: i64,
    pub(super) tag: i64,
    /// Disk time that it was debited, as seen last.
    pub(super) used: i64,
    /// Its tag counts in the virtual time.
    pub(super) member: bool,
    pub(super) ready: bool,
    pub(super) idle_since: Instant,
    pub(super) think: Think,
    pub(super) returns: Returns,
    /// By how much its service may swing about its due.
    pub(super) swing: i64,
    /// Others' pieces may be at the device with its own.
    pub(super) mixes: bool,
    /// What its pieces took among others'.
    mixed: Mean,
    /// Most of its pieces at the device in this stay.
    pub(super) peak: u32,
    /// It keeps the device full alone.
    fills: bool,
    /// In this stay it has the device for itself.
    watched: bool,
    priced: bool,
}

impl Account {
    pub(super) fn new(used: i64, priced: bool) -> Self {
        Self {
            reserve: Share::ZERO,
            weight: 0,
            share: 1,
            tag: i64::MIN / 2,
            used,
            member: false,
            ready: false,
            idle_since: Instant::ZERO,
            think: Think::default(),
            returns: Returns::default(),
            swing: 0,
            mixes: priced,
            mixed: Mean::default(),
            peak: 0,
            fills: false,
            watched: false,
            priced,
        }
    }

    /// Answers whether that is a change to shares.
    pub(super) fn follow(&mut self, contract: Contract) -> bool {
        let before = (self.reserve, self.weight);
        (self.reserve, self.weight) = (contract.reserve, contract.weight);
        before != (self.reserve, self.weight)
    }

    /// What it reserves, in parts of [`PARTS`].
    pub(super) fn reserved(&self) -> i64 {
        i64::from(self.reserve.ppm()) * (PARTS / i64::from(Share::PARTS))
    }

    pub(super) fn begin_stay(&mut self, now: Instant) {
        self.returns.begin(now);
        self.peak = 0;
        self.watched = !self.priced && (!self.mixes || self.returns.is_curious(now));
    }

    /// Answers whether anything was learned.
    pub(super) fn end_stay(&mut self, horizon: Duration, depth: u32) -> bool {
        if !self.returns.end() {
            return false;
        }
        self.fills = self.peak.saturating_mul(4) >= depth.saturating_mul(3);
        if self.returns.explores() {
            self.mixed = Mean::default();
        }
        self.fit_swing(horizon);
        true
    }

    pub(super) fn piece_done(&mut self, now: Instant, took: i64, current: bool) {
        self.idle_since = now;
        if current && self.watched {
            self.returns.piece(now, took);
        } else if self.mixes {
            self.mixed.add(took);
        }
    }

    /// Whether it loses nothing if others' pieces are at the device with its own. Who keeps the
    /// device full alone has nothing to gain.
    pub(super) fn gains_from_mixing(&self) -> bool {
        let Some(usual) = self.returns.usual().filter(|_| !self.fills) else { return false };
        let seen = self.mixed.count > 8;
        self.returns.cost() <= usual && !(seen && self.mixed.value > usual / 8 * 9)
    }

    /// The swing that suits it: [`LOSS`] goes to returns if a window then varies by no more than
    /// [`VARIATION`]; at least the swing at which both are alike; at most the horizon.
    pub(super) fn fit_swing(&mut self, horizon: Duration) {
        if self.priced {
            return;
        }
        let cost = i128::from(self.returns.cost());
        let (share, parts) = (i128::from(self.share.min(PARTS)), i128::from(PARTS));
        let rest = parts - share;
        let both = share * rest / parts * i128::from(WINDOW) / parts;
        let loses_little = cost * rest / parts * LOSS;
        let swing = loses_little.min(both / VARIATION).max((cost * both).isqrt());
        self.swing = i64::try_from(swing).unwrap_or(i64::MAX).min(horizon.as_tokens());
    }
}

/// A mean in which older values fade.
#[derive(Clone, Copy, Default)]
struct Mean {
    value: i64,
    count: i64,
}

impl Mean {
    fn add(&mut self, value: i64) {
        self.count = (self.count + 1).min(32);
        self.value += (value - self.value) / self.count;
    }
}

/// From a completion that leaves a stream without work to its next request.
#[derive(Clone, Copy, Default)]
pub(super) struct Think(Mean);

impl Think {
    /// Until it was seen.
    const UNSEEN: i64 = 1_000_000;

    /// A long absence says no more than that.
    const LONG: Duration = Duration::from_millis(100);

    pub(super) fn add(&mut self, think: Duration) {
        self.0.add(think.min(Self::LONG).as_tokens());
    }

    pub(super) fn is_longer_than(self, rest: Duration) -> bool {
        self.0.value > rest.as_tokens()
    }

    /// How long the device may wait for the next request, if that is worth it: most come within
    /// four times their mean (all but e^-4 where they come at random).
    pub(super) fn patience(self, cost: i64) -> Option<i64> {
        let think = if self.0.count == 0 { Self::UNSEEN } else { self.0.value };
        (think < cost).then(|| (4 * think + Self::UNSEEN / 10).min(cost))
    }
}

/// The swings of those who want to run, and their part of them ahead of their due.
#[derive(Default)]
pub(super) struct Swings {
    sum: i64,
    squares: i128,
    most: i64,
}

impl Swings {
    pub(super) fn swap(&mut self, old: i64, new: i64) {
        self.sum += new - old;
        self.squares += i128::from(new).pow(2) - i128::from(old).pow(2);
        self.most = self.most.max(self.sum);
    }

    pub(super) fn forget(&mut self) {
        (self.sum, self.squares) = (0, 0);
    }

    /// The largest sum so far.
    pub(super) fn most(&self) -> i64 {
        self.most
    }

    /// How much of its swing a stream may have ahead of its due. Among equals half, as it falls
    /// behind by the other half while they have the device; beside streams that need none all of
    /// it. The others count by their mean, each as much as its swing.
    pub(super) fn horizon(&self, swing: i64) -> i64 {
        let square = i128::from(swing).pow(2);
        let others = (self.squares - square) / i128::from((self.sum - swing).max(1));
        let horizon = square / (i128::from(swing) + others).max(1);
        i64::try_from(horizon).unwrap_or(i64::MAX)
    }
}
