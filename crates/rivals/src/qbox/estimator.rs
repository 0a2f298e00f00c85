//! Estimates of the cost of an average sequential and an average random request on a device of
//! unknown insides, from completions in short windows (QBox §3.1, §3.3).
//!
//! A window of length z in which α sequential and β random requests completed says α·x + β·y = z.
//! Two windows say both costs x and y, if the mix of one was another than that of the other. Each new
//! window is intersected with the ten before it; what is left of that once clearly wrong
//! answers are dropped is averaged, and the estimate moves towards the average by a small step. If
//! nothing is left, the last estimate is projected onto the window, its ratio kept.
//!
//! Lost in the paper, and chosen here: the bounds of y/x, the weight of a new answer, the estimate
//! to begin with.
//!
//! Biased by construction: windows are short and counts noisy, so many intersections are of nearly
//! parallel lines, and where the two costs balance is decided by the noise. The page of the paper's
//! figures (`disktime paper run`) has the size and sign of it.

use disktime_core::Duration;
use disktime_core::cost::Costs;

/// How many windows a new one is intersected with (§3.3).
pub(super) const WINDOWS: usize = 10;

/// The range of a random request's cost, in sequential ones: outside, a pair is clearly wrong. "Random
/// requests are orders-of-magnitude more expensive than sequential requests" (§3.1): one to three.
const RATIO: [i128; 2] = [10, 1000];

/// A new answer that agrees with the estimate has a tenth of the weight; one that is off by as much
/// as the estimate itself, in both costs together, has half of that.
const STEP_DIVISOR: i128 = 10;

/// Parts of a distance of 1.
const PARTS: i128 = 1_000_000;

/// The estimate before the first window: a sequential request costs a tenth of a random one.
pub(super) const INITIAL: Costs = Costs {
    sequential: Duration::from_millis(1),
    random: Duration::from_millis(10),
    observations: 0,
};

/// Requests that completed in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Window {
    pub(super) sequential: u32,
    pub(super) random: u32,
    pub(super) length: Duration,
}

/// A pair of costs in ns; both above zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pair {
    x: i128,
    y: i128,
}

/// The estimate, and the latest `KEPT` windows that a new one is intersected with.
pub(super) struct Estimator<const KEPT: usize = WINDOWS> {
    /// The latest windows, in a ring.
    windows: [Window; KEPT],
    /// Windows so far; the next goes to this place of the ring.
    seen: usize,
    estimate: Pair,
    /// Intersections that the last window gave.
    met: u32,
}

/// The intersections of a window that has ended with windows before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Met {
    /// Pairs of windows that were intersected.
    pub(super) tried: u32,
    /// Pairs that gave costs which can be: the estimate moved towards their mean, or to the projection
    /// if there are none.
    pub(super) valid: u32,
}

impl Window {
    fn line(self) -> (i128, i128, i128) {
        let length = i128::from(self.length.as_nanos());
        (i128::from(self.sequential), i128::from(self.random), length)
    }

    /// Where the lines of two windows meet: rounded towards zero, `None` if they are parallel or
    /// what they say can't be. Counts are below 2^32 and lengths below 2^64: no product overflows.
    fn meets(self, other: Self) -> Option<Pair> {
        let ((a, b, z), (c, d, w)) = (self.line(), other.line());
        let determinant = a * d - c * b;
        if determinant == 0 {
            return None;
        }
        let x = (z * d - w * b) / determinant;
        let y = (w * a - z * c) / determinant;
        let [least, most] = RATIO;
        (x > 0 && (x * least..=x * most).contains(&y)).then_some(Pair { x, y })
    }
}

impl<const KEPT: usize> Estimator<KEPT> {
    pub(super) fn new(initial: Costs) -> Self {
        let nanos = |cost: Duration| i128::from(cost.as_nanos().max(1));
        let estimate = Pair { x: nanos(initial.sequential), y: nanos(initial.random) };
        Self { windows: [Window::default(); KEPT], seen: 0, estimate, met: 0 }
    }

    pub(super) fn costs(&self) -> Costs {
        let time = |nanos: i128| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Costs {
            sequential: time(self.estimate.x),
            random: time(self.estimate.y),
            observations: self.met,
        }
    }

    /// A window has ended: it is intersected with those before it, and the estimate is moved.
    pub(super) fn close(&mut self, window: Window) -> Met {
        if window.sequential == 0 && window.random == 0 {
            return Met::default();
        }
        let (mut met, mut x, mut y) = (Met::default(), 0, 0);
        for earlier in &self.windows[..self.seen.min(KEPT)] {
            met.tried += 1;
            if let Some(pair) = window.meets(*earlier) {
                met.valid += 1;
                x += pair.x;
                y += pair.y;
            }
        }
        let answer = match i128::from(met.valid) {
            0 => self.projected(window),
            valid => Pair { x: x / valid, y: y / valid },
        };
        self.step(answer);
        self.windows[self.seen % KEPT] = window;
        self.seen += 1;
        self.met = met.valid;
        met
    }

    /// The point of the window's line that has the estimate's ratio (§3.1).
    fn projected(&self, window: Window) -> Pair {
        let ((a, b, z), Pair { x, y }) = (window.line(), self.estimate);
        let modelled = a * x + b * y;
        Pair { x: z * x / modelled, y: z * y / modelled }
    }

    /// Moves towards an answer, the less the farther it is.
    fn step(&mut self, answer: Pair) {
        let Pair { x, y } = self.estimate;
        let distance = (answer.x - x).abs() * PARTS / x + (answer.y - y).abs() * PARTS / y;
        let divisor = STEP_DIVISOR * (PARTS + distance);
        let moved = |from: i128, to: i128| (from + (to - from) * PARTS / divisor).max(1);
        self.estimate = Pair { x: moved(x, answer.x), y: moved(y, answer.y) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_millis(100);

    fn window(sequential: u32, random: u32) -> Window {
        Window { sequential, random, length: LENGTH }
    }

    fn pair(x_us: i128, y_us: i128) -> Pair {
        Pair { x: x_us * 1000, y: y_us * 1000 }
    }

    fn estimator(initial: Costs) -> Estimator {
        Estimator::new(initial)
    }

    fn costs(x_us: u64, y_us: u64) -> Costs {
        let (sequential, random) = (Duration::from_micros(x_us), Duration::from_micros(y_us));
        Costs { sequential, random, observations: 0 }
    }

    /// §3.1's system with x = 100 µs and y = 8 ms: 200·x + 10·y = 360·x + 8·y = 100 ms.
    #[test]
    fn two_windows_say_both_costs() {
        assert_eq!(window(200, 10).meets(window(360, 8)), Some(pair(100, 8000)));
        assert_eq!(window(360, 8).meets(window(200, 10)), Some(pair(100, 8000)));
        // A window without random requests says x alone.
        assert_eq!(window(1000, 0).meets(window(360, 8)), Some(pair(100, 8000)));
        // Lengths may differ.
        let longer = Window { length: Duration::from_millis(116), ..window(360, 10) };
        assert_eq!(longer.meets(window(360, 8)), Some(pair(100, 8000)));
    }

    /// If two windows have one length, both counts must not grow together (§3.1).
    #[test]
    fn what_cannot_be_is_dropped() {
        assert_eq!(window(200, 10).meets(window(200, 10)), None);
        assert_eq!(window(200, 10).meets(window(400, 20)), None);
        assert_eq!(window(200, 10).meets(window(210, 12)), None);
        assert_eq!(window(200, 10).meets(window(200, 12)), None);
        // Random requests cost nine times as much as sequential ones, or 1001 times.
        assert_eq!(window(109, 10).meets(window(100, 11)), None);
        assert!(window(110, 10).meets(window(100, 11)).is_some());
        assert_eq!(window(3000, 1).meets(window(1999, 2)), None);
        assert!(window(3000, 1).meets(window(2000, 2)).is_some());
    }

    #[test]
    fn noise_free_windows_lead_to_the_true_costs() {
        let mut estimator = estimator(INITIAL);
        for turn in 0..400 {
            let random = [8, 10, 9, 11][turn % 4];
            let met = estimator.close(window(1000 - 80 * random, random));
            assert!(met.valid > 0 || turn == 0);
        }
        let Costs { sequential, random, .. } = estimator.costs();
        let near = |cost: Duration, true_us: u64| {
            cost.as_nanos().abs_diff(true_us * 1000) <= true_us * 1000 / 1000
        };
        assert!(near(sequential, 100) && near(random, 8000), "{sequential:?}, {random:?}");
    }

    /// Figure `qbox-4.7` counted the valid intersections of at most ten, which can't be more than ten.
    /// Counted here is what is tried, for other numbers of windows as well.
    #[test]
    fn a_window_is_intersected_once_with_each_window_that_is_kept() {
        fn tried<const KEPT: usize>() -> [u32; 40] {
            let mut estimator = Estimator::<KEPT>::new(INITIAL);
            core::array::from_fn(|turn| {
                let random = [8, 10, 9, 11][turn % 4];
                estimator.close(window(1000 - 80 * random, random)).tried
            })
        }
        let before: [u32; 40] = core::array::from_fn(|turn| u32::try_from(turn).expect("below 40"));
        let expected = |kept: u32| before.map(|windows| kept.min(windows));
        assert_eq!(tried::<5>(), expected(5));
        assert_eq!(tried::<WINDOWS>(), expected(10));
        assert_eq!(tried::<20>(), expected(20));
        let mut estimator = estimator(INITIAL);
        // A window in which nothing completed costs nothing and is not kept.
        assert_eq!(estimator.close(window(0, 0)), Met::default());
        assert_eq!(estimator.close(window(200, 10)).tried, 0);
    }

    #[test]
    fn windows_of_one_mix_keep_the_ratio() {
        let mut estimator = estimator(costs(100, 8000));
        // Every cost has doubled.
        for _ in 0..200 {
            assert_eq!(estimator.close(window(100, 5)).valid, 0);
        }
        let Costs { sequential, random, .. } = estimator.costs();
        assert!(sequential.as_nanos().abs_diff(200_000) <= 200, "{sequential:?}");
        assert!((random.as_nanos() / sequential.as_nanos()).abs_diff(80) <= 1, "{random:?}");
    }

    #[test]
    fn a_far_answer_moves_the_estimate_less_than_in_proportion() {
        let moved = |answer| {
            let mut estimator = estimator(costs(100, 8000));
            estimator.step(answer);
            estimator.estimate
        };
        assert_eq!(moved(pair(100, 8000)), pair(100, 8000));
        // Twice as much, in one: a twentieth of the way.
        assert_eq!(moved(pair(200, 8000)), pair(105, 8000));
        // Ten times: 1/100 of the way.
        assert_eq!(moved(pair(1000, 8000)), pair(109, 8000));
    }

    #[test]
    fn nothing_but_extremes_leaves_costs_above_zero() {
        let mut estimator = estimator(INITIAL);
        let extreme = Window { sequential: u32::MAX, random: u32::MAX, length: Duration::ZERO };
        let long = Window { sequential: 1, random: 0, length: Duration::from_nanos(u64::MAX) };
        for _ in 0..2000 {
            estimator.close(extreme);
            estimator.close(Window::default());
            estimator.close(Window { random: 1, ..extreme });
        }
        assert!(estimator.costs().sequential > Duration::ZERO);
        assert!(estimator.costs().random > Duration::ZERO);
        estimator.close(long);
        assert!(estimator.costs().sequential > Duration::ZERO);
    }
}
