//! Numbers that follow from a seed.

/// A number below 2^24 of a draw's own for each purpose below 256: a finalizer of SplitMix64.
pub(crate) fn number(draw: u64, purpose: u64) -> u64 {
    let mut drawn = (draw << 8 | purpose).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    drawn >> 40
}
