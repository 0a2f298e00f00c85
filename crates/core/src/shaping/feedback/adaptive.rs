//! Finds the smallest cut that stops the misses, and gives back what is not needed.
//!
//! It keeps the highest rate that was seen to be good and the lowest that was seen to be bad, and
//! halves what lies between. A rate is good if the soft real-time stream that does worst pauses, or
//! falls no further behind, and bad if it does. So a stream that falls behind is noticed before its
//! buffer is empty: after a first report the search needs no more misses. The rate that was found
//! is then kept on average: a little more, until the stream is a little behind, and a little less,
//! until it has caught up. `docs/soft-real-time.md` argues why it settles.
//!
//! Does not know: streams, what a token is.

use alloc::boxed::Box;

use super::{Controller, FeedbackEntry, Pipe, Standing, TokenRate};
use crate::types::time::{Duration, Instant};

pub(super) static ENTRY: FeedbackEntry = FeedbackEntry {
    name: "adaptive",
    doc: "finds the smallest cut that stops the misses, and gives back what is not needed",
    source: "docs/soft-real-time.md",
    lends: true,
    build: Some(|_| Box::new(Adaptive::default())),
};

/// Looks that a report may clear the way for.
const RESCUE_LOOKS: u32 = 5;
/// Looks in which a stream must have caught up after a bad rate, or R is cut again.
const RECOVERY_LOOKS: u32 = 8;
/// Looks that make a rate a good one: if a stream pauses in each, or else falls no further behind.
const TEST_LOOKS: [u32; 2] = [2, 6];
/// Further behind than at a test's start by this: the rate is bad. A turn of an elevator is about as
/// long.
const LAG_TESTED: Duration = Duration::from_millis(150);
/// A stream that is at most this far behind has caught up.
const LAG_SMALL: Duration = Duration::from_millis(60);
/// A stream that is further behind than this makes R fall at once.
const LAG_LARGE: Duration = Duration::from_millis(400);
/// While R is kept where it was found, streams catch up to within the first and fall behind by the
/// second: a disk is busy while they are behind.
const LAG_KEPT: [Duration; 2] = [Duration::from_millis(120), Duration::from_millis(350)];
/// The first step into the unknown, and how what is kept is moved, as a part of R.
const STEP_MIN: u64 = 32;
/// The largest step into the unknown, as a part of R.
const STEP_MAX: u64 = 4;
/// R is found when good and bad are this part of R apart.
const PRECISION: u64 = 16;
/// R is kept within this part of what was found, and goes that far below to catch up.
const KEPT_WITHIN: u64 = 4;
/// Looks in which what is kept must have turned, or it is moved.
const KEEP_LOOKS: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Best effort has its least for a moment, so that the stream that missed can fill its buffer;
    /// then R is to be this.
    Rescue { looks: u32, next: TokenRate },
    /// Until everybody has caught up, less than what is tried next.
    Recover { looks: u32, next: TokenRate },
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
        let phase = Phase::Test { looks: 0, lag: Duration::ZERO };
        Self { good: None, bad: None, phase, step: STEP_MIN, rescued: false }
    }
}

/// Less by a part of it.
fn less(rate: TokenRate, part: u64) -> TokenRate {
    rate.minus(TokenRate::from_milli(rate.as_milli() / part))
}

impl Adaptive {
    /// The rate to try next: half-way from the highest good rate to the lowest bad one, a step
    /// further that doubles where none is bad, a step down where none is good. `None` if it is
    /// found.
    fn next(&mut self) -> Option<TokenRate> {
        let Some(good) = self.good else {
            return self.bad.map(|bad| less(bad, STEP_MAX));
        };
        let milli = good.as_milli();
        let step = match self.bad {
            Some(bad) => bad.minus(good).as_milli() / 2,
            None => milli / self.step,
        };
        if self.bad.is_some() && step <= milli / PRECISION / 2 {
            return None;
        }
        if self.bad.is_none() {
            self.step = (self.step / 2).max(STEP_MAX);
        }
        Some(good.plus(TokenRate::from_milli(step.max(1))))
    }

    /// R is good, and the stream that is worst off is so far behind.
    fn ascend(&mut self, rate: TokenRate, lag: Duration) -> TokenRate {
        self.good = Some(rate);
        let Some(next) = self.next() else { return self.keep(rate, true) };
        self.phase = Phase::Test { looks: 0, lag };
        next
    }

    /// R is bad.
    fn descend(&mut self, rate: TokenRate) -> TokenRate {
        self.bad = Some(rate);
        self.good = self.good.filter(|good| *good < rate);
        match (self.next(), self.good) {
            (None, Some(good)) => self.keep(good, false),
            (next, _) => self.recover(next.unwrap_or(rate)),
        }
    }

    /// Less than what is tried next, until everybody has caught up.
    fn recover(&mut self, next: TokenRate) -> TokenRate {
        self.phase = Phase::Recover { looks: 0, next };
        less(next, KEPT_WITHIN)
    }

    /// R is a little above or below a level.
    fn keep(&mut self, level: TokenRate, more: bool) -> TokenRate {
        self.phase = Phase::Keep { level, more, looks: 0 };
        let little = TokenRate::from_milli(level.as_milli() / KEPT_WITHIN);
        if more { level.plus(little) } else { level.minus(little) }
    }
}

impl Controller for Adaptive {
    fn missed(&mut self, _now: Instant, pipe: Pipe) -> Option<TokenRate> {
        if let (Phase::Rescue { .. }, Some(_)) = (self.phase, pipe.rate) {
            return pipe.rate;
        }
        (self.good, self.step) = (None, STEP_MIN);
        let bad = pipe.cut_from();
        let next = less(bad, STEP_MAX);
        (self.bad, self.phase) = (Some(bad), Phase::Recover { looks: 0, next });
        if core::mem::replace(&mut self.rescued, true) {
            return Some(next);
        }
        self.phase = Phase::Rescue { looks: 0, next };
        Some(TokenRate::ZERO)
    }

    fn refilled(&mut self, _now: Instant, pipe: Pipe, standing: Standing) -> Option<TokenRate> {
        let rate = pipe.rate?;
        let Standing { behind, lag } = standing;
        let known = lag.is_some();
        let lag = lag.unwrap_or(Duration::MAX);
        self.rescued &= behind;
        Some(match self.phase {
            Phase::Rescue { looks, next } if behind && looks + 1 < RESCUE_LOOKS => {
                self.phase = Phase::Rescue { looks: looks + 1, next };
                rate
            }
            Phase::Rescue { next, .. } if behind && known => self.recover(next),
            // A stream that has not paused with the way cleared may never pause: it gets no more
            // than a report asks for.
            Phase::Rescue { next, .. } if behind => {
                self.phase = Phase::Recover { looks: 0, next };
                next
            }
            Phase::Recover { next, .. } | Phase::Rescue { next, .. }
                if !behind || lag <= LAG_SMALL =>
            {
                self.phase = Phase::Test { looks: 0, lag };
                next
            }
            Phase::Recover { looks, .. }
                if looks > 0 && known && lag >= LAG_LARGE && pipe.binding =>
            {
                self.descend(rate)
            }
            Phase::Recover { looks, next } if looks < RECOVERY_LOOKS || !pipe.binding => {
                self.phase = Phase::Recover { looks: looks.saturating_add(1), next };
                rate
            }
            Phase::Recover { .. } | Phase::Rescue { .. } if known => self.descend(rate),
            Phase::Recover { .. } | Phase::Rescue { .. } => {
                let next = less(rate, STEP_MIN / 2);
                self.phase = Phase::Recover { looks: 0, next };
                next
            }
            Phase::Test { lag: before, .. }
                if behind && lag.saturating_sub(before) >= LAG_TESTED =>
            {
                self.descend(rate)
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
                let little = TokenRate::from_milli(level.as_milli() / STEP_MIN);
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
        *self = Self::default();
        let rate = pipe.rate.filter(|_| others > TokenRate::ZERO).map(|rate| rate.plus(part));
        if let Some(next) = rate {
            self.phase = Phase::Recover { looks: 0, next };
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream beside best effort that takes all it is given: at `enough` tokens a second it has just
    /// what it uses, with more it falls behind by so many ms a second and token, a second each second
    /// at most, with less it catches up, and it is never ahead.
    struct Plant {
        controller: Adaptive,
        rate: Option<TokenRate>,
        enough: f64,
        slope: f64,
        lag: f64,
        now: Instant,
    }

    impl Plant {
        fn new(enough: f64, slope: f64) -> Self {
            let now = Instant::ZERO;
            Self { controller: Adaptive::default(), rate: None, enough, slope, lag: 1000.0, now }
        }

        fn pipe(&self) -> Pipe {
            Pipe { rate: self.rate, observed: TokenRate::per_second(100), binding: true }
        }

        /// R as it holds.
        fn tokens(&self) -> f64 {
            self.rate.map_or(100.0, |rate| (rate.as_milli() as f64 / 1e3).max(10.0))
        }

        fn report(&mut self) {
            self.rate = self.controller.missed(self.now, self.pipe());
        }

        /// Half a second; a stream that catches up within it pauses.
        fn look(&mut self) {
            let falls = ((self.tokens() - self.enough) * self.slope).min(1000.0);
            self.lag = (self.lag + falls / 2.0).max(0.0);
            self.now = self.now + Duration::from_millis(500);
            let behind = self.lag > 0.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ms")]
            let lag = Some(Duration::from_millis(self.lag as u64));
            self.rate = self.controller.refilled(self.now, self.pipe(), Standing { behind, lag });
        }
    }

    /// Streams of all kinds beside a disk of 100 tokens a second: one report, no further miss, and
    /// what best effort has is what is left for it.
    #[test]
    fn one_report_is_enough_and_what_is_left_is_found() {
        for enough in [46.0, 64.0, 78.0, 90.0] {
            for slope in [8.0, 16.0, 40.0, 100.0] {
                let mut plant = Plant::new(enough, slope);
                plant.report();
                (0..5).for_each(|_| plant.look());
                for look in 5..60 {
                    plant.look();
                    assert!(plant.lag < 850.0, "{enough} {slope}: {} at {look}", plant.lag);
                }
                let mut had = 0.0;
                for look in 60..240 {
                    had += plant.tokens();
                    plant.look();
                    assert!(plant.lag < 850.0, "{enough} {slope}: {} at {look}", plant.lag);
                }
                let mean = had / 180.0;
                assert!((mean / enough - 1.0).abs() < 0.04, "{enough} {slope}: {mean}");
            }
        }
    }

    /// The rate that the stream leaves to others changes by a part in 32 each 4 s: the kept rate
    /// follows, without a report.
    #[test]
    fn the_kept_rate_follows_a_slow_change() {
        let mut plant = Plant::new(60.0, 8.0);
        plant.report();
        (0..80).for_each(|_| plant.look());
        for factor in [31.0 / 32.0, 33.0 / 32.0] {
            for _ in 0..12 {
                plant.enough *= factor;
                for _ in 0..8 {
                    plant.look();
                    assert!(plant.lag < 950.0, "{} at {}", plant.lag, plant.enough);
                }
            }
        }
    }

    #[test]
    fn a_report_clears_the_way_once_until_the_stream_pauses() {
        let mut plant = Plant::new(50.0, 8.0);
        plant.report();
        assert_eq!(plant.rate, Some(TokenRate::ZERO));
        plant.report();
        assert_eq!(plant.rate, Some(TokenRate::ZERO), "it is cleared");
        // It never has enough.
        plant.slope = 0.0;
        (0..5).for_each(|_| plant.look());
        assert!(plant.tokens() > 50.0, "for 2.5 s at most");
        plant.report();
        assert!(plant.tokens() > 30.0, "not again");
        plant.lag = 0.0;
        plant.look();
        plant.report();
        assert_eq!(plant.rate, Some(TokenRate::ZERO), "it had caught up");
    }

    #[test]
    fn a_stream_that_ends_is_forgotten() {
        let mut plant = Plant::new(50.0, 8.0);
        plant.report();
        (0..20).for_each(|_| plant.look());
        let (pipe, part) = (plant.pipe(), TokenRate::per_second(30));
        assert_eq!(plant.controller.ended(plant.now, pipe, part, TokenRate::ZERO), None);
        assert_eq!((plant.controller.good, plant.controller.bad), (None, None));
        let left = plant.controller.ended(plant.now, pipe, part, TokenRate::per_second(1));
        assert_eq!(left, pipe.rate.map(|rate| rate.plus(part)));
        plant.rate = left;
        plant.look();
        assert_eq!(plant.rate, left, "it is tested once the others have caught up");
    }

    /// A controller in a phase, which holds best effort to 40 tokens a second.
    struct Held(Adaptive);

    const HELD: TokenRate = TokenRate::per_second(40);

    impl Held {
        fn to(phase: Phase) -> Self {
            Self(Adaptive { phase, ..Adaptive::default() })
        }

        /// The rate after a look at a stream that is so many ms behind.
        fn look(&mut self, lag: u64) -> TokenRate {
            let pipe = Pipe { rate: Some(HELD), observed: HELD, binding: true };
            let standing = Standing { behind: lag > 0, lag: Some(Duration::from_millis(lag)) };
            self.0.refilled(Instant::ZERO, pipe, standing).expect("it is held")
        }
    }

    #[test]
    fn a_stream_has_eight_looks_to_catch_up_to_60_ms() {
        let next = TokenRate::per_second(50);
        let recovers = || Held::to(Phase::Recover { looks: 0, next });
        let mut held = recovers();
        (0..8).for_each(|look| assert_eq!(held.look(200), HELD, "{look}"));
        assert!(held.look(200) < HELD, "it has not");
        assert_eq!([60, 61].map(|lag| recovers().look(lag)), [next, HELD]);
    }

    #[test]
    fn a_rate_is_good_after_two_looks_with_pauses_or_six_without_and_bad_150_ms_later() {
        let tests = || Held::to(Phase::Test { looks: 0, lag: Duration::from_millis(100) });
        for (lag, looks) in [(0, 2), (100, 6)] {
            let mut held = tests();
            (1..looks).for_each(|look| assert_eq!(held.look(lag), HELD, "{look}"));
            assert!(held.look(lag) > HELD, "{looks} looks");
        }
        assert_eq!(tests().look(249), HELD);
        assert!(tests().look(250) < HELD);
    }

    /// A stream with a buffer of a second has half of it left then.
    #[test]
    fn a_stream_that_is_400_ms_behind_makes_the_rate_fall_at_once() {
        let recovers = || Held::to(Phase::Recover { looks: 1, next: TokenRate::per_second(50) });
        assert_eq!(recovers().look(399), HELD);
        assert!(recovers().look(400) < HELD);
    }

    /// A controller that has found that rate, and lets best effort have a little more or less.
    fn kept(more: bool) -> Held {
        Held::to(Phase::Keep { level: HELD, more, looks: 0 })
    }

    #[test]
    fn a_kept_rate_turns_when_streams_are_350_ms_behind_and_when_they_are_within_120() {
        let [more, less] = [50, 30].map(TokenRate::per_second);
        assert_eq!([349, 350].map(|lag| kept(true).look(lag)), [HELD, less]);
        assert_eq!([121, 120].map(|lag| kept(false).look(lag)), [HELD, more]);
    }

    /// Four seconds in which streams neither fall behind nor catch up show that the level is off.
    #[test]
    fn a_kept_rate_that_has_not_turned_for_eight_looks_is_moved() {
        for more in [true, false] {
            let mut held = kept(more);
            let looks = (1..100).find(|_| held.look(200) != HELD);
            assert_eq!(looks, Some(9));
        }
    }

    #[test]
    fn steps_into_the_unknown_double_from_a_32nd_to_a_quarter() {
        let mut held = Held::to(Phase::Test { looks: 0, lag: Duration::ZERO });
        let steps: [u64; 5] = core::array::from_fn(|_| {
            held.look(0);
            held.look(0).minus(HELD).as_milli()
        });
        assert_eq!(steps, [1_250, 2_500, 5_000, 10_000, 10_000]);
    }

    #[test]
    fn a_rate_is_found_within_a_sixteenth_and_kept_within_a_quarter() {
        // Two pauses show that 40 tokens are good where that many were bad.
        let next = |bad| {
            let mut held = Held::to(Phase::Test { looks: 1, lag: Duration::ZERO });
            held.0.bad = Some(TokenRate::from_milli(bad));
            held.look(0).as_milli()
        };
        assert_eq!(next(42_600), 41_300, "half-way");
        assert_eq!(next(42_500), 50_000, "it is found");
    }
}
