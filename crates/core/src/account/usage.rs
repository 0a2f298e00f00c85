//! Recent usage: an exponentially weighted sum of charges, kept so that it orders streams cheaply.
//!
//! Zygaria gives slack to the stream with the lowest usage in "a weighted moving average of the
//! last few seconds" (zygaria §3). Decaying every stream at every tick would cost O(n); instead a
//! charge made later weighs more. The weight doubles every 2^31 ns (2.15 s, linear in between), an
//! average with a time constant of 3.1 s, and sums stay comparable between charges. Every
//! [`DOUBLINGS_MAX`] doublings all sums are scaled down once.

use crate::types::time::Instant;

const DOUBLING_SHIFT: u32 = 31;
/// Steps between two doublings, as a power of two.
const STEP_BITS: u32 = 10;
/// Doublings between rescalings: a charge of 8 s (2^33) · 2^(1+10+16) stays below 2^61.
const DOUBLINGS_MAX: u64 = 16;

/// The weight of a charge made now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UsageClock {
    /// Doublings that have been scaled out of all sums.
    base: u64,
}

impl UsageClock {
    /// By how many bits all sums must be shifted down before charges are made at `now`.
    pub(crate) fn rescale(&mut self, now: Instant) -> Option<u32> {
        let doublings = (now.as_nanos() >> DOUBLING_SHIFT) - self.base;
        if doublings <= DOUBLINGS_MAX {
            return None;
        }
        self.base += doublings;
        Some(u32::try_from(doublings).unwrap_or(u32::MAX).min(63))
    }

    /// The weight of a charge at `now`, after [`rescale`](Self::rescale).
    pub(crate) fn weight(self, now: Instant) -> i64 {
        let nanos = now.as_nanos();
        let step = (nanos >> (DOUBLING_SHIFT - STEP_BITS)) & ((1 << STEP_BITS) - 1);
        let doublings = (nanos >> DOUBLING_SHIFT) - self.base;
        (((1 << STEP_BITS) + step) << doublings).cast_signed()
    }
}

/// One stream's recent usage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage(i64);

impl Usage {
    /// Adds `tokens` of disk time; a correction may be negative, the sum never is.
    pub(crate) fn add(&mut self, tokens: i64, weight: i64) {
        self.0 = self.0.saturating_add(tokens.saturating_mul(weight)).max(0);
    }

    /// Forgets the doublings that the clock scaled out.
    pub(crate) fn shift(&mut self, bits: u32) {
        self.0 >>= bits;
    }

    /// A number that orders streams by recent usage.
    pub(crate) fn key(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_charges_fade_by_half_every_doubling_and_across_rescaling() {
        let mut clock = UsageClock::default();
        let (mut old, mut new) = (Usage::default(), Usage::default());
        old.add(4_000_000, clock.weight(Instant::ZERO));
        let later = Instant::from_nanos(DOUBLINGS_MAX.next_power_of_two() << DOUBLING_SHIFT);
        new.add(4_000_000 >> 16, clock.weight(later));
        assert!(old.key() - new.key() < 1 << 30, "{old:?} {new:?}");
        let past = Instant::from_nanos((DOUBLINGS_MAX + 1) << DOUBLING_SHIFT);
        let bits = clock.rescale(past).expect("one doubling too many");
        new.shift(bits);
        let fresh = clock.weight(past);
        assert_eq!(fresh, 1 << STEP_BITS);
        assert!(new.key() < 61 * fresh);
        assert_eq!(clock.rescale(past), None);
    }

    #[test]
    fn weights_never_fall_between_rescalings() {
        let clock = UsageClock::default();
        let weights = (0..2_000u64).map(|i| clock.weight(Instant::from_nanos(i * 17_000_000)));
        assert!(weights.collect::<alloc::vec::Vec<_>>().is_sorted());
    }

    /// Zygaria's "last few seconds": the time constant is that of a weight which doubles in 2.15 s.
    #[test]
    fn weights_double_every_two_seconds() {
        let clock = UsageClock::default();
        let weight = |nanos| clock.weight(Instant::from_nanos(nanos));
        assert_eq!([weight(1 << 31), weight(1 << 33)], [2 * weight(0), 16 * weight(0)]);
    }

    #[test]
    fn a_charge_of_eight_seconds_never_overflows_and_no_usage_is_negative() {
        let mut clock = UsageClock::default();
        for doublings in 0..100 {
            let now = Instant::from_nanos((doublings << 31) + (1 << 31) - 1);
            let _bits = clock.rescale(now);
            let mut usage = Usage::default();
            usage.add(1 << 33, clock.weight(now));
            assert!(usage.key() < 1 << 61, "{doublings}");
            usage.add(i64::MIN, clock.weight(now));
            assert_eq!(usage.key(), 0);
        }
    }
}
