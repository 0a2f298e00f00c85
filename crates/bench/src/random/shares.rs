//! Unequal shares: what each stream of a cell reserves, in per cent.

use super::numbers::Numbers;

/// The most that one stream reserves, in per cent.
pub(super) const SHARE_MAX: u32 = 60;

/// Reservations of 1 to 60 % of so many streams, together `total`, or what 60 % each come to.
pub(super) fn draw(count: usize, total: u32, numbers: &mut Numbers) -> Vec<u32> {
    // Exponentials of a wide uniform: a few large, many small.
    let parts: Vec<f64> = (0..count).map(|_| numbers.log(1.0, 12.0)).collect();
    let sum: f64 = parts.iter().sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 60")]
    let rounded = |part: &f64| {
        (part / sum * f64::from(total)).round().clamp(1.0, f64::from(SHARE_MAX)) as u32
    };
    let mut shares: Vec<u32> = parts.iter().map(rounded).collect();
    // The difference that rounding makes goes to or comes from the largest that can change.
    loop {
        let now: u32 = shares.iter().sum();
        let largest = if now > total {
            shares.iter_mut().filter(|share| **share > 1).max()
        } else {
            shares.iter_mut().filter(|share| **share < SHARE_MAX).max()
        };
        match largest {
            Some(share) if now > total => *share -= 1,
            Some(share) if now < total => *share += 1,
            _ => return shares,
        }
    }
}
