//! Finds the smallest cut that stops the misses, and gives back what is not needed.
//!
//! It keeps the highest rate that was seen to be good and the lowest that was seen to be bad, and
//! halves what lies between. A rate is good if every soft real-time stream for which R was cut has
//! paused since the last look: it had all that it asked for. It is bad if one has not. So a stream
//! that falls behind is noticed before its buffer is empty: after a first report the search needs no
//! more misses. `docs/soft-real-time.md` argues why it settles.
//!
//! Does not know: streams, what a token is.

use alloc::boxed::Box;

use super::{Controller, FeedbackEntry, Pipe, Standing, TokenRate};
use crate::time::{Duration, Instant};

pub(super) const ENTRY: FeedbackEntry = FeedbackEntry {
    name: "adaptive",
    doc: "finds the smallest cut that stops the misses, and gives back what is not needed",
    source: "docs/soft-real-time.md",
    lends: true,
    build: Some(|_| Box::new(Adaptive::default())),
};

/// Looks that a report may clear the way for.
const RESCUE_LOOKS: u32 = 5;
/// Looks in which a stream must have caught up after a rescue or a test, or R is cut again.
const RECOVERY_LOOKS: u32 = 8;
/// Looks that make a rate a good one: if a stream pauses in each, or else falls no further behind.
const TEST_LOOKS: [u32; 2] = [2, 6];
/// Further behind than at a test's start by this: the rate is bad. A turn of an elevator is about as
/// long.
const LAG_TESTED: Duration = Duration::from_millis(150);
/// Who is not further behind than this has caught up.
const LAG_SMALL: Duration = Duration::from_millis(60);
/// Who is further behind than this needs less of R at once.
const LAG_LARGE: Duration = Duration::from_millis(400);
/// While R is kept where it was found, streams catch up to within the first and fall behind by the
/// second: a disk is busy while they are behind.
const LAG_KEPT: [Duration; 2] = [Duration::from_millis(120), Duration::from_millis(350)];
/// R is found when good and bad are this part of R apart. It is kept within this part of it.
const PRECISION: u64 = 32;
/// The largest step into the unknown, as a part of R.
const STEP_MAX: u64 = 4;
/// Looks in which what is kept must have turned, or it is moved.
const KEEP_LOOKS: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Best effort has its least for a moment, so that who has missed can fill its buffer; then R
    /// is to be this.
    Rescue { looks: u32, then: TokenRate },
    /// Until everybody has caught up.
    Recover { looks: u32 },
    /// Whether this rate is good.
    Test { looks: u32, lag: Duration },
    /// It was found: a little more, until streams are a little behind; a little less, until they have
    /// caught up.
    Keep { level: TokenRate, more: bool, looks: u32 },
}

struct Adaptive {
    /// The highest rate seen to be good.
    good: Option<TokenRate>,
    /// The lowest seen to be bad.
    bad: Option<TokenRate>,
    phase: Phase,
    /// The next step into the unknown, in parts of R.
    step: u64,
    /// The way was cleared, and nobody has caught up since: that is done once.
    rescued: bool,
}

impl Default for Adaptive {
    fn default() -> Self {
        let phase = Phase::Recover { looks: 0 };
        Self { good: None, bad: None, phase, step: PRECISION, rescued: false }
    }
}

impl Adaptive {
    /// R is good: the next to try is half-way to the lowest bad one, or a step further that doubles.
    fn ascend(&mut self, rate: TokenRate, lag: Duration) -> TokenRate {
        let milli = rate.as_milli();
        self.good = Some(rate);
        let step = match self.bad {
            Some(bad) => bad.minus(rate).as_milli() / 2,
            None => milli / self.step,
        };
        if self.bad.is_some() && step <= milli / PRECISION / 2 {
            return self.keep(rate, true);
        }
        if self.bad.is_none() {
            self.step = (self.step / 2).max(STEP_MAX);
        }
        self.phase = Phase::Test { looks: 0, lag };
        rate.plus(TokenRate::from_milli(step.max(1)))
    }

    /// R is bad: back to the highest good one, or less by a part where none is known.
    fn descend(&mut self, rate: TokenRate, part: u64) -> TokenRate {
        self.bad = Some(rate);
        self.good = self.good.filter(|good| *good < rate);
        self.phase = Phase::Recover { looks: 0 };
        let less = rate.minus(TokenRate::from_milli(rate.as_milli() / part));
        self.good.unwrap_or(less)
    }

    /// R is a little above or below a level.
    fn keep(&mut self, level: TokenRate, more: bool) -> TokenRate {
        self.phase = Phase::Keep { level, more, looks: 0 };
        let little = TokenRate::from_milli(level.as_milli() / PRECISION);
        if more { level.plus(little) } else { level.minus(little) }
    }

    /// What is known holds no longer.
    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Controller for Adaptive {
    fn missed(&mut self, _now: Instant, pipe: Pipe) -> Option<TokenRate> {
        if let (Phase::Rescue { .. }, Some(_)) = (self.phase, pipe.rate) {
            return pipe.rate;
        }
        let then = self.descend(pipe.cut_from(), 4);
        self.step = PRECISION;
        if core::mem::replace(&mut self.rescued, true) {
            return Some(then);
        }
        self.phase = Phase::Rescue { looks: 0, then };
        Some(TokenRate::ZERO)
    }

    fn refilled(&mut self, _now: Instant, pipe: Pipe, standing: Standing) -> Option<TokenRate> {
        let rate = pipe.rate?;
        let Standing { behind, lag } = standing;
        let known = lag.is_some();
        let lag = lag.unwrap_or(Duration::MAX);
        self.rescued &= behind;
        Some(match self.phase {
            Phase::Rescue { looks, then } if behind && looks + 1 < RESCUE_LOOKS => {
                self.phase = Phase::Rescue { looks: looks + 1, then };
                rate
            }
            Phase::Rescue { then, .. } => {
                self.phase = Phase::Recover { looks: 0 };
                then
            }
            Phase::Recover { .. } if !behind || lag <= LAG_SMALL => self.ascend(rate, lag),
            Phase::Recover { looks } if looks > 0 && known && lag >= LAG_LARGE && pipe.binding => {
                self.descend(rate, 4)
            }
            Phase::Recover { looks } if looks < RECOVERY_LOOKS || !pipe.binding => {
                self.phase = Phase::Recover { looks: looks.saturating_add(1) };
                rate
            }
            Phase::Recover { .. } => self.descend(rate, PRECISION / 2),
            Phase::Test { lag: before, .. }
                if behind && lag.saturating_sub(before) >= LAG_TESTED =>
            {
                self.descend(rate, 4)
            }
            // A rate that holds nobody back is not tested by that.
            Phase::Test { .. } | Phase::Keep { .. } if !pipe.binding => rate,
            Phase::Test { looks, lag: before } => {
                let looks = looks + 1;
                if looks < TEST_LOOKS[usize::from(behind)] {
                    self.phase = Phase::Test { looks, lag: before };
                    return Some(rate);
                }
                self.ascend(rate, lag)
            }
            Phase::Keep { level, more: true, .. } if behind && lag >= LAG_KEPT[1] => {
                self.keep(level, false)
            }
            Phase::Keep { level, more: false, .. } if !behind || lag <= LAG_KEPT[0] => {
                self.keep(level, true)
            }
            Phase::Keep { level, more, looks } if looks >= KEEP_LOOKS => {
                let little = TokenRate::from_milli(level.as_milli() / PRECISION);
                self.keep(if more { level.plus(little) } else { level.minus(little) }, more)
            }
            Phase::Keep { level, more, looks } => {
                self.phase = Phase::Keep { level, more, looks: looks + 1 };
                rate
            }
        })
    }

    fn ended(
        &mut self,
        _now: Instant,
        pipe: Pipe,
        part: TokenRate,
        others: TokenRate,
    ) -> Option<TokenRate> {
        self.forget();
        pipe.rate.filter(|_| others > TokenRate::ZERO).map(|rate| rate.plus(part))
    }
}
