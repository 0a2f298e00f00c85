//! How many pieces of a stream the device should hold, by the latency that they meet there.
//!
//! A control law after PARDA (Gulati, Ahmad, Waldspurger: PARDA: Proportional Allocation of
//! Resources for Distributed Storage Access, FAST 2009). Every span of time
//!
//! ```text
//! w(t+1) = (1 - γ)·w(t) + γ·(L / Lavg(t) · w(t) + β)
//! ```
//!
//! L is the threshold, Lavg the mean response of the span, β the stream's part. While the device
//! answers sooner than L, w grows to its bound: nothing is held back. Where it is slower, w
//! settles at β / (1 - L/Lavg): windows of streams that meet one latency are as their β, and a
//! device that takes s for a piece answers after L + s·Σβ.
//!
//! The paper averages latencies exponentially over spans; here a span's mean stands for itself, as
//! γ averages already. A span without an answer changes nothing.
//!
//! Does not know: when a span is over, or how its result is applied
//! ([`Change::SetStreamDepth`](disktime_core::Change::SetStreamDepth)).

use disktime_core::{Duration, Share};

/// w in thousandths of a piece.
const PARTS: u128 = 1000;

/// The numbers of the law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DepthTerms {
    /// L: the response above which the stream is to hold back; above zero.
    pub threshold: Duration,
    /// γ: how much of the way w goes in a span; above zero.
    pub gamma: Share,
    /// β: what the stream's window is worth beside others', in thousandths of a piece; 1 to
    /// a million, and for every stream by its weight.
    pub part: u32,
    /// The most that w may be, in pieces; 1 to a million.
    pub depth_max: u32,
}

/// Numbers that make no law: what is wrong with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DepthError(&'static str);

impl core::fmt::Display for DepthError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for DepthError {}

/// One stream's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DepthLaw {
    terms: DepthTerms,
    /// In thousandths.
    window: u128,
    /// Sum of the latencies of the span.
    sum: u128,
    count: u128,
}

impl DepthLaw {
    /// A window as wide as it may be.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn new(terms: DepthTerms) -> Result<Self, DepthError> {
        const MILLION: u32 = 1_000_000;
        if terms.threshold == Duration::ZERO {
            return Err(DepthError("threshold: 0; above 0 is needed"));
        }
        if terms.gamma == Share::ZERO {
            return Err(DepthError("gamma: 0; above 0 is needed"));
        }
        if !(1..=MILLION).contains(&terms.part) {
            return Err(DepthError("part: 1 to 1000000 thousandths of a piece are possible"));
        }
        if !(1..=MILLION).contains(&terms.depth_max) {
            return Err(DepthError("depth_max: 1 to 1000000 pieces are possible"));
        }
        let window = u128::from(terms.depth_max) * PARTS;
        Ok(Self { terms, window, sum: 0, count: 0 })
    }

    /// The device has answered a piece after that long.
    pub fn answered(&mut self, response: Duration) {
        self.sum += u128::from(response.as_nanos());
        self.count += 1;
    }

    /// A span is over: how many pieces the device should hold in the next.
    pub fn span(&mut self) -> u32 {
        if let Some(mean) = self.sum.checked_div(self.count) {
            let (mean, DepthTerms { threshold, gamma, part, depth_max }) =
                (mean.max(1), self.terms);
            let most = u128::from(depth_max) * PARTS;
            // At most 2^64 ns times 10^9 thousandths: far below 2^127.
            let wanted = u128::from(threshold.as_nanos()) * self.window / mean + u128::from(part);
            let (gamma, parts) = (u128::from(gamma.ppm()), u128::from(Share::PARTS));
            let mixed = (parts - gamma) * self.window + gamma * wanted.min(most);
            self.window = (mixed / parts).clamp(PARTS, most);
            (self.sum, self.count) = (0, 0);
        }
        self.depth()
    }

    /// Pieces, rounded to the nearest.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let pieces = (self.window + PARTS / 2) / PARTS;
        u32::try_from(pieces).expect("at most a million")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn law(part: u32, depth_max: u32) -> DepthLaw {
        let gamma = Share::from_percent(80).unwrap();
        DepthLaw::new(DepthTerms { threshold: ms(30), gamma, part, depth_max }).unwrap()
    }

    /// A device that serves pieces one after the other: each waits for all that are there.
    fn settle(laws: &mut [DepthLaw], service: Duration, spans: u32) -> u128 {
        let mut response = 0;
        for _ in 0..spans {
            let queue: u128 = laws.iter().map(|law| law.window).sum();
            response = u128::from(service.as_nanos()) * queue / PARTS;
            for law in &mut *laws {
                law.answered(Duration::from_nanos(u64::try_from(response).unwrap()));
                law.span();
            }
        }
        response
    }

    #[test]
    fn windows_settle_by_their_parts_and_the_response_at_the_threshold() {
        for parts in [&[1000, 1000][..], &[500, 1000, 2000], &[250]] {
            let mut laws: Vec<_> = parts.iter().map(|part| law(*part, 64)).collect();
            let response = settle(&mut laws, ms(1), 200);
            // L + s·Σβ.
            let expected = 30_000_000 + u128::from(parts.iter().sum::<u32>()) * 1_000;
            assert!(response.abs_diff(expected) < 100_000, "{response} is not {expected} ns");
            for (law, part) in laws.iter().zip(parts) {
                let by_part = law.window * u128::from(parts[0]) / u128::from(*part);
                assert!(by_part.abs_diff(laws[0].window) < 20, "{laws:?}");
            }
        }
    }

    #[test]
    fn a_fast_device_holds_nobody_back_and_a_slow_one_leaves_a_piece() {
        let mut laws = [law(1000, 32)];
        settle(&mut laws, Duration::from_micros(200), 50);
        assert_eq!(laws[0].depth(), 32, "32 pieces take 6.4 ms");
        settle(&mut laws, ms(500), 50);
        assert_eq!(laws[0].depth(), 1);
        settle(&mut laws, Duration::from_micros(200), 50);
        assert_eq!(laws[0].depth(), 32, "and back");
    }

    #[test]
    fn a_span_without_answers_changes_nothing() {
        let mut law = law(1000, 32);
        law.answered(ms(60));
        let depth = law.span();
        assert_eq!(depth, 20, "a fifth of 32, and four fifths of 32 / 2 + 1");
        assert_eq!((law.span(), law.span()), (depth, depth));
    }

    #[test]
    fn extremes_stay_within_bounds() {
        let mut law = law(1_000_000, 1_000_000);
        for response in [0, 1, u64::MAX, u64::MAX, 0] {
            (0..3).for_each(|_| law.answered(Duration::from_nanos(response)));
            assert!((1..=1_000_000).contains(&law.span()));
        }
        let terms = law.terms;
        for wrong in [
            DepthTerms { threshold: Duration::ZERO, ..terms },
            DepthTerms { gamma: Share::ZERO, ..terms },
            DepthTerms { part: 0, ..terms },
            DepthTerms { part: 1_000_001, ..terms },
            DepthTerms { depth_max: 0, ..terms },
            DepthTerms { depth_max: 1_000_001, ..terms },
        ] {
            assert!(DepthLaw::new(wrong).is_err(), "{wrong:?}");
        }
    }

    /// A device that answers late leaves a stream one piece, and one that answers at once does not make up for
    /// that in one span.
    #[test]
    fn a_window_has_a_piece_at_least_and_grows_towards_its_most() {
        let (threshold, half) = (Duration::from_millis(1), Share::from_percent(50).unwrap());
        let terms = DepthTerms { threshold, gamma: half, part: 1, depth_max: 64 };
        let mut law = DepthLaw::new(terms).unwrap();
        let mut span = |response| {
            law.answered(response);
            law.span()
        };
        let least = (0..20).map(|_| span(Duration::from_secs(1_000))).min();
        assert_eq!(least, Some(1));
        assert_eq!(span(Duration::from_nanos(1)), 33, "half of the way to 64");
    }
}
