//! Quotients of products that are wider than the numbers in them.

/// `value × by ÷ of`, rounded down, and at most `u64::MAX`; an `of` of 0 counts as 1.
pub(crate) fn scaled(value: u64, by: u64, of: u64) -> u64 {
    let wide = u128::from(value) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}
