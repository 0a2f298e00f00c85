//! Random numbers: named streams of one seed, and exponential intervals in integers.
//!
//! Each use has a stream of its own (`<name>/position`, `<name>/kind`, …), so that one load doesn't
//! change another's numbers, nor a new mix of kinds the positions.

use disktime_core::Duration;
use rand::RngExt;
use rand_pcg::Pcg64;

/// The stream of that name and purpose under a seed.
///
/// State and stream are 128-bit FNV-1a hashes of the seed and the name, which are stable: they are
/// part of what makes a run repeatable and must not change.
#[must_use]
pub fn stream(seed: u64, name: &str, purpose: &str) -> Pcg64 {
    let named = [name.as_bytes(), b"/", purpose.as_bytes()].concat();
    let state = fnv1a(fnv1a(FNV_OFFSET, &seed.to_le_bytes()), &named);
    Pcg64::new(state, fnv1a(FNV_OFFSET, &named))
}

/// Source: Fowler, Noll & Vo, the 128-bit parameters of <http://www.isthe.com/chongo/tech/comp/fnv>.
const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;

fn fnv1a(hash: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME))
}

/// An exponentially distributed span, rounded down to nanoseconds.
///
/// Source: von Neumann, "Various techniques used in connection with random digits", 1951. It only
/// compares uniform numbers, so it is exact on every machine, which a logarithm is not.
pub fn exponential(mean: Duration, random: &mut Pcg64) -> Duration {
    let mut whole: u128 = 0;
    loop {
        let first: u64 = random.random();
        if falling_run(first, random) % 2 == 1 {
            // (whole + first/2^64) means; no overflow: whole stays small, far below 2^64.
            let mean = u128::from(mean.as_nanos());
            let nanos = whole * mean + ((u128::from(first) * mean) >> 64);
            return Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        whole += 1;
    }
}

/// How many uniform numbers, `first` included, come before one that is not below its predecessor.
fn falling_run(first: u64, random: &mut Pcg64) -> u32 {
    let (mut last, mut length) = (first, 1);
    loop {
        let next: u64 = random.random();
        if next >= last {
            return length;
        }
        (last, length) = (next, length + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_is_the_published_one() {
        // The published test value of the 128-bit FNV-1a of "foobar".
        assert_eq!(fnv1a(FNV_OFFSET, b""), FNV_OFFSET);
        assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn streams_are_their_own_and_stay_what_they_are() {
        let first = |seed, name, purpose| stream(seed, name, purpose).random::<u64>();
        let mut all = vec![
            first(0, "a", "kind"),
            first(1, "a", "kind"),
            first(0, "b", "kind"),
            first(0, "a", "size"),
        ];
        assert_eq!(
            all[0], 10_669_858_355_400_182_160,
            "the numbers of a recorded run have changed"
        );
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn exponential_spans_have_the_mean_the_variance_and_the_tail() {
        let mut random = stream(1, "test", "exponential");
        let mean = Duration::from_millis(1);
        let count = 200_000;
        let spans: Vec<f64> =
            (0..count).map(|_| exponential(mean, &mut random).as_secs_f64() * 1e3).collect();
        let average = spans.iter().sum::<f64>() / f64::from(count);
        let square = spans.iter().map(|span| span * span).sum::<f64>() / f64::from(count);
        let above_two = spans.iter().filter(|&&span| span > 2.0).count() as f64 / f64::from(count);
        assert!((average - 1.0).abs() < 0.01, "mean {average}");
        assert!((square - 2.0).abs() < 0.05, "mean square {square}");
        assert!((above_two - 0.1353).abs() < 0.003, "above two means {above_two}");
    }
}
