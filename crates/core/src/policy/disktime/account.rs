//! State of the policy for one stream: its share and tag, the cost of its returns, and the range of its
//! lag that suits it.

use super::party::Trial;
use super::returns::Returns;
use crate::cost::Trust;
use crate::policy::PieceDone;
use crate::policy::think::{Mean, Think};
use crate::policy::virtual_time::PARTS;
use crate::types::contract::Contract;
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// Insulation is made for windows of a minute, or of so many returns if that is shorter: who has fast
/// devices looks at seconds.
const WINDOW: i128 = 60_000_000_000;
const RETURNS: i128 = 5000;
/// One part in this may be lost to returns,
const LOSS: i128 = 100;
/// and a window may vary by one part in this.
const VARIATION: i128 = 16;

/// The range of the lag in shared mode, in pieces of the stream: two ahead of its due among equals.
const PIECES: i64 = 4;

/// A learned price is good for so long at first, and at most.
const TRUST: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];
/// A stream that is found to lose in shared mode has turns for so long at first, and at most.
const DOUBTS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(960)];

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
    /// It waits and is ahead beyond its horizon, until V is that.
    pub(super) beyond: Option<i64>,
    pub(super) ready: bool,
    pub(super) idle_since: Instant,
    pub(super) think: Think,
    pub(super) returns: Returns,
    /// The range of its lag, in ns.
    pub(super) swing: i64,
    /// Others' pieces may be at the device with its own.
    pub(super) mixes: bool,
    /// The time of its pieces among others'.
    mixed: Mean<32>,
    /// How it did among others, by its learned price.
    trial: Trial,
    /// It has turns of its own until then,
    apart_until: Instant,
    /// and for so long next time.
    doubt: Duration,
    /// It has mixed for long, at no loss.
    pub(super) belongs: bool,
    /// When its price was seen last.
    pub(super) priced_at: Option<Instant>,
    /// And is seen with every piece.
    pub(super) priced_by_tier: bool,
    /// This stay is for seeing its price, until then at most.
    looks_until: Instant,
    /// Not to be learned from before then.
    pub(super) trusted_until: Instant,
    /// How long its price is good for.
    trust: Duration,
    /// Most of its pieces at the device in this stay.
    pub(super) peak: u32,
    /// Others' pieces beside its own are no gain: it keeps the device full alone or, one piece at a
    /// time, goes on where it was.
    fills: bool,
    /// Where its last piece ended, and whether that one began where the one before did.
    pub(super) end: u64,
    pub(super) goes_on: bool,
    /// In this stay it has the device for itself.
    pub(super) watched: bool,
    pub(super) costs: Trust,
}

impl Account {
    /// How long the device stays with a stream to see its price, at most.
    pub(super) const LOOK: Duration = Duration::from_millis(400);

    pub(super) fn new(used: i64, costs: Trust) -> Self {
        Self {
            reserve: Share::ZERO,
            weight: 0,
            share: 1,
            tag: i64::MIN / 2,
            used,
            member: false,
            beyond: None,
            ready: false,
            idle_since: Instant::ZERO,
            think: Think::default(),
            returns: Returns::default(),
            swing: 0,
            mixes: costs == Trust::Stated,
            mixed: Mean::default(),
            trial: Trial::default(),
            apart_until: Instant::ZERO,
            doubt: DOUBTS[0],
            belongs: false,
            priced_at: None,
            priced_by_tier: false,
            looks_until: Instant::ZERO,
            trusted_until: Instant::ZERO,
            trust: TRUST[0],
            peak: 0,
            fills: false,
            end: 0,
            goes_on: false,
            watched: false,
            costs,
        }
    }

    /// Answers whether that is a change to shares.
    pub(super) fn follow(&mut self, contract: Contract) -> bool {
        let before = (self.reserve, self.weight);
        (self.reserve, self.weight) = (contract.reserve, contract.weight);
        before != (self.reserve, self.weight)
    }

    /// Its reservation, in parts of [`PARTS`].
    pub(super) fn reserved(&self) -> i64 {
        i64::from(self.reserve.ppm()) * (PARTS / i64::from(Share::PARTS))
    }

    pub(super) fn begin_stay(&mut self, now: Instant) {
        self.returns.begin(now);
        self.peak = 0;
        if self.costs == Trust::Learned && self.wants_look(now) {
            self.looks_until = now + Self::LOOK;
            self.trusted_until = now + self.trust;
            self.trust = (self.trust + self.trust).min(TRUST[1]);
        }
        self.watched = self.costs != Trust::Stated && (!self.mixes || self.is_curious(now));
    }

    /// Whether its price was not seen for long.
    pub(super) fn wants_look(&self, now: Instant) -> bool {
        now >= self.trusted_until && !self.priced_by_tier
    }

    /// Whether this stay is to go on for the sake of learning.
    pub(super) fn is_curious(&self, now: Instant) -> bool {
        match self.costs {
            Trust::Stated => false,
            Trust::Learned => now < self.looks_until && !self.has_looked(),
            Trust::None => self.returns.is_curious(now),
        }
    }

    /// Whether its price was seen since this look began.
    fn has_looked(&self) -> bool {
        self.priced_at.is_some_and(|at| at + Self::LOOK > self.looks_until)
    }

    /// Its price may have changed.
    pub(super) fn doubt_price(&mut self, now: Instant) {
        self.trust = TRUST[0];
        self.trusted_until = self.trusted_until.min(now + self.trust);
    }

    /// It did well among others, and does no more.
    pub(super) fn surprises(&mut self, now: Instant) {
        self.belongs = false;
        self.doubt_price(now);
    }

    /// It loses among others: it has turns of its own for a while.
    pub(super) fn part(&mut self, now: Instant) {
        self.belongs = false;
        self.apart_until = now + self.doubt;
        self.doubt = (self.doubt + self.doubt).min(DOUBTS[1]);
    }

    /// It does not lose.
    pub(super) fn fits(&mut self) {
        self.belongs = true;
        self.doubt = DOUBTS[0];
    }

    /// Whether it did anything in that trial.
    pub(super) fn took_part(&self, epoch: u32) -> bool {
        self.mixes && self.trial.epoch == epoch && self.trial.reckoned > 0
    }

    /// Its record in a trial, and for how long it was idle.
    pub(super) fn trial(&mut self, epoch: u32) -> &mut Trial {
        if self.trial.epoch != epoch {
            self.trial = Trial { epoch, ..Trial::default() };
        }
        &mut self.trial
    }

    /// Answers whether anything was learned.
    pub(super) fn end_stay(&mut self, depth: u32) -> bool {
        if !self.returns.end() {
            return false;
        }
        self.fills = match depth {
            1 => self.goes_on,
            depth => self.peak.saturating_mul(4) >= depth.saturating_mul(3),
        };
        if self.returns.explores() {
            self.mixed = Mean::default();
        }
        true
    }

    pub(super) fn piece_done(&mut self, now: Instant, piece: &PieceDone, current: bool) {
        self.idle_since = now;
        if current && self.watched {
            self.returns.piece(now, piece.charge.as_tokens(), piece.settling);
        } else if self.mixes {
            self.mixed.add(piece.charge.as_tokens());
        }
    }

    /// Whether it loses nothing if others' pieces are at the device with its own, or between them.
    /// A stream that fills the device has nothing to gain, if only completions tell the cost of pieces.
    pub(super) fn gains_from_mixing(&self, now: Instant) -> bool {
        match self.costs {
            Trust::Stated => return true,
            Trust::Learned => return self.priced_at.is_some() && now >= self.apart_until,
            Trust::None => {}
        }
        let Some(usual) = self.returns.usual().filter(|_| !self.fills) else { return false };
        let seen = self.mixed.count > 8;
        self.returns.cost() <= usual && !(seen && self.mixed.value > usual / 8 * 9)
    }

    /// The range of the lag that suits it: [`LOSS`] goes to returns if a window then varies by no more than
    /// [`VARIATION`]; at least the range at which both are alike; at most the horizon. A stream in shared
    /// mode loses nothing to returns: its range lets the nearest request go first.
    pub(super) fn fit_swing(&mut self, horizon: Duration) {
        if self.costs == Trust::Stated {
            return;
        }
        if self.mixes && self.priced_by_tier {
            // Others go beside it: it has no returns.
            self.swing = 0;
            return;
        }
        let cost = i128::from(self.returns.cost());
        let (share, parts) = (i128::from(self.share.min(PARTS)), i128::from(PARTS));
        let rest = parts - share;
        let window = WINDOW.min(cost * RETURNS);
        let both = share * rest / parts * window / parts;
        let loses_little = cost * rest / parts * LOSS;
        let swing = loses_little.min(both / VARIATION).max((cost * both).isqrt());
        let swing = i64::try_from(swing).unwrap_or(i64::MAX).min(horizon.as_tokens());
        let pieces = self.returns.usual().filter(|_| self.mixes && self.costs == Trust::None);
        self.swing = swing.min(pieces.map_or(i64::MAX, |usual| usual.saturating_mul(PIECES)));
    }
}

/// The lag ranges of the streams that want to run, and the part of each that is ahead of its due.
#[derive(Default)]
pub(super) struct Swings {
    sum: i64,
    squares: i128,
}

impl Swings {
    pub(super) fn swap(&mut self, old: i64, new: i64) {
        self.sum += new - old;
        self.squares += i128::from(new).pow(2) - i128::from(old).pow(2);
    }

    pub(super) fn forget(&mut self) {
        (self.sum, self.squares) = (0, 0);
    }

    /// The part of its lag's range that a stream may be ahead of its due. Among equals half, as it falls
    /// behind by the other half while they have the device; beside streams that need less, the part that
    /// they leave of it. The others count by their mean, each as much as its range.
    pub(super) fn horizon(&self, swing: i64) -> i64 {
        let rest = i128::from((self.sum - swing).max(1));
        let swing = i128::from(swing);
        let squares = self.squares - swing.pow(2);
        let both = swing + squares / rest;
        let horizon = swing.pow(2).max(swing * both - squares) / both.max(1);
        i64::try_from(horizon).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn horizon(own: i64, others: &[i64]) -> i64 {
        let mut swings = Swings::default();
        swings.swap(0, own);
        others.iter().for_each(|other| swings.swap(0, *other));
        swings.horizon(own)
    }

    /// With 301 for the first, swings of 350 were used up to 301 only: returns cost a sixth more.
    #[test]
    fn two_streams_horizons_together_are_the_larger_swing() {
        assert_eq!((horizon(350, &[]), horizon(350, &[0])), (350, 350));
        assert_eq!((horizon(350, &[350]), horizon(350, &[350; 9])), (175, 175));
        let (large, small) = (horizon(350, &[75]), horizon(75, &[350]));
        assert_eq!((large, small), (336, 13), "and a rounding");
        // Many that need little are ahead together: what they leave is less, at least a part.
        assert_eq!(horizon(350, &[45; 10]), 310);
        assert_eq!(horizon(45, &[350, 45, 45, 45, 45, 45, 45, 45, 45, 45]), 8);
    }
}
