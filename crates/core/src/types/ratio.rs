//! Quotients of products that are wider than the numbers in them.

/// `value × by ÷ of`, rounded down, and at most `u64::MAX`; an `of` of 0 counts as 1.
pub(crate) fn scaled(value: u64, by: u64, of: u64) -> u64 {
    let of = of.max(1);
    if let Some(product) = value.checked_mul(by) {
        return product / of;
    }
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

/// `value × by ÷ of`, towards 0; `None` if that does not fit.
pub(crate) fn quotient(value: i64, by: i64, of: i64) -> Option<i64> {
    if let Some(product) = value.checked_mul(by) {
        return Some(product / of);
    }
    i64::try_from(i128::from(value) * i128::from(by) / i128::from(of)).ok()
}
