//! From times of several sizes to a price.

use crate::places::whole;
use disktime_core::Duration;
use disktime_core::cost::Price;

/// The measured time of requests of a size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    /// The size.
    pub(crate) mib: f64,
    /// On the mean.
    pub(crate) ns: f64,
    /// How much it counts.
    pub(crate) weight: f64,
}

/// `each + bytes·per_mib` through times by size: least squares of relative errors, so that small
/// requests count as much as large ones. Neither part is below zero; of one size alone it is all
/// `each`.
pub(crate) fn price(points: &[Point]) -> Price {
    // Minimizes Σ w·(a·u + b·v - 1)² with u = 1/ns and v = mib/ns.
    let sum = |of: fn(f64, f64) -> f64| {
        let term =
            |Point { mib, ns, weight }: &Point| weight * of(1.0 / ns.max(1.0), mib / ns.max(1.0));
        points.iter().map(term).sum::<f64>()
    };
    let (uu, uv, vv) = (sum(|u, _| u * u), sum(|u, v| u * v), sum(|_, v| v * v));
    let (u, v) = (sum(|u, _| u), sum(|_, v| v));
    let determinant = uu * vv - uv * uv;
    let several = points.windows(2).any(|pair| (pair[0].mib - pair[1].mib).abs() > 0.0);
    let both = (several && determinant > 0.0)
        .then(|| ((u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant));
    let (each, per_mib) = match both {
        Some((each, per_mib)) if each >= 0.0 && per_mib >= 0.0 => (each, per_mib),
        Some((each, _)) if each < 0.0 => (0.0, v / vv),
        _ => (if uu > 0.0 { u / uu } else { 0.0 }, 0.0),
    };
    let nanos = |value: f64| Duration::from_nanos(whole(value));
    Price { each: nanos(each), per_mib: nanos(per_mib) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;
    const SIZES: [f64; 3] = [4096.0 / MIB, 65_536.0 / MIB, 1.0];

    fn priced(time: impl Fn(f64) -> f64) -> Price {
        price(&SIZES.map(|mib| Point { mib, ns: time(mib), weight: 1.0 }))
    }

    #[test]
    fn a_line_is_found_again() {
        let price = priced(|mib| 8_000_000.0 + 5_000_000.0 * mib);
        assert_eq!(price.each, Duration::from_nanos(8_000_000));
        assert_eq!(price.per_mib, Duration::from_nanos(5_000_000));
    }

    #[test]
    fn neither_part_is_below_zero() {
        let falling = priced(|mib| 1_000.0 - 900.0 * mib);
        assert_eq!(falling.per_mib, Duration::ZERO);
        assert!(falling.each > Duration::from_nanos(100), "{falling:?}");
        // Dearer by the byte the longer it is.
        let steep = priced(|mib| 1e6 * mib * mib);
        assert_eq!(steep.each, Duration::ZERO);
        assert!(steep.per_mib > Duration::ZERO);
    }

    #[test]
    fn a_speed_that_rests_on_few_requests_counts_little() {
        let point = |mib, weight| Point { mib, ns: 1e6, weight };
        let doubtful = Point { ns: 5e5, ..point(SIZES[1], 0.01) };
        let price = price(&[point(SIZES[0], 1.0), point(SIZES[2], 1.0), doubtful]);
        assert!(price.each > Duration::from_micros(950), "{price:?}");
    }

    #[test]
    fn one_size_is_a_price_each_and_none_is_nothing() {
        let one = |ns| [Point { mib: 0.5, ns, weight: 2.0 }];
        assert_eq!(price(&one(700.0)).each, Duration::from_nanos(700));
        assert_eq!(price(&[]), Price::default());
        assert_eq!(price(&one(0.0)).each, Duration::from_nanos(1));
    }
}
