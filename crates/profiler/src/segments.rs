//! Which neighbours are alike: a sequence cut where its level changes.

/// Cuts `values` into runs of one level: the ends of the runs, the last one being their number.
///
/// Least squares with a price for each run: `sum(((y - mean)/s)²) + 2.5·ln(n)` per run, the Bayesian
/// information criterion with the place of the cut as a parameter. The noise `s` is the median
/// difference of neighbours, most of which are of one level (a normal one's is `0.954·s`), and at
/// least `floor`. Source: Jackson et al., "An algorithm for optimal partitioning of data on an
/// interval", IEEE Signal Processing Letters 12(2), 2005.
pub(super) fn cut(values: &[f64], floor: f64) -> Vec<usize> {
    let count = values.len();
    let apart = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let noise = super::places::median(apart).unwrap_or(0.0) / 0.954;
    let weight = 1.0 / noise.max(floor).powi(2);
    let price = 2.5 * super::places::float(count as u64).max(2.0).ln();
    let mut sums = vec![(0.0, 0.0)];
    for value in values {
        let (sum, squares) = sums[sums.len() - 1];
        sums.push((sum + value, squares + value * value));
    }
    let spread = |from: usize, to: usize| {
        let sum = sums[to].0 - sums[from].0;
        let squares = sums[to].1 - sums[from].1;
        (squares - sum * sum / super::places::float((to - from) as u64)).max(0.0) * weight
    };
    // The cheapest way to cut all before `to`, and where its last run begins.
    let mut best = vec![(0.0, 0)];
    for to in 1..=count {
        let ways = (0..to).map(|from| (best[from].0 + spread(from, to) + price, from));
        best.push(ways.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0)));
    }
    let mut ends = Vec::new();
    let mut end = count;
    while end > 0 {
        ends.push(end);
        end = best[end].1;
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_from_noise() {
        let noise = |index: usize| (index * 7 % 5) as f64 * 0.002;
        let value = |index: usize| 10.0 - (index / 8) as f64 * 0.3 + noise(index);
        let values: Vec<f64> = (0..40).map(value).collect();
        assert_eq!(cut(&values, 0.001), [8, 16, 24, 32, 40]);
        assert_eq!(cut(&[1.0; 12], 0.001), [12]);
        assert_eq!(cut(&[3.0], 0.001), [1]);
        assert!(cut(&[], 0.001).is_empty());
    }
}
