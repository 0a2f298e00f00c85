//! Statistics of samples.

/// The least value that a fraction of them does not exceed (nearest rank).
///
/// # Panics
/// Without values.
#[must_use]
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (1..=sorted.len()).find(|rank| *rank as f64 >= fraction * sorted.len() as f64);
    sorted[rank.expect("a fraction of at least one value") - 1]
}

/// Their mean.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.01), 1.0);
        assert_eq!(quantile(&values, 0.5), 50.0);
        assert_eq!(quantile(&values[..99], 0.01), 2.0, "the values from 2 to 100");
        assert_eq!(quantile(&[3.0], 0.01), 3.0);
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    }
}
