//! In which order to look at places, so that what was seen is spread evenly whenever time is over.

use crate::asked::BLOCK_BYTES;

/// All of `0..count` once, jumping by about a golden section, beginning with `first`.
pub(super) fn spread(count: usize, first: usize) -> impl Iterator<Item = usize> {
    let golden = (count * 618).div_ceil(1000);
    let stride = (golden..).find(|stride| coprime(*stride, count)).unwrap_or(1);
    (0..count).map(move |index| (first + index * stride) % count)
}

fn coprime(a: usize, b: usize) -> bool {
    let (mut a, mut b) = (a.max(1), b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// Rounded down to a block.
pub(super) fn aligned(offset: u64) -> u64 {
    offset - offset % BLOCK_BYTES
}

/// Median of some numbers; `None` of none.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Nanoseconds as a float: exact below 104 days.
#[expect(clippy::cast_precision_loss, reason = "spans of a profile are below 2^53 ns")]
pub(super) fn float(nanos: u64) -> f64 {
    nanos as f64
}

/// Rounded to a whole number; nothing below zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_comes_once() {
        for count in 1..100 {
            let mut all: Vec<_> = spread(count, count - 1).collect();
            assert_eq!(all[0], count - 1);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }
}
