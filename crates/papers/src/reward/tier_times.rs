//! Admission on two tiers: what a goal takes of the device's time, by the hit ratio that was measured.
//!
//! A request costs what the device takes for it when its kind runs alone at the device's best depth.
//! Two tiers side by side work at once, so that is what the busier of them takes: a part h of the
//! requests keeps the fast tier, 1 - h the slow one.
//!
//! Does not know: how a hit ratio was measured, or for how long it will hold.

use disktime_core::{Duration, Share};

/// The average time that both tiers take for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TierTimes {
    /// A hit.
    pub(super) fast: Duration,
    /// A miss.
    pub(super) slow: Duration,
}

impl TierTimes {
    /// The cost of a request if this part of them hits: max(h·fast, (1-h)·slow), rounded up.
    pub(super) fn cost(self, hits: Share) -> Duration {
        let parts = u128::from(Share::PARTS);
        let hit = u128::from(hits.ppm());
        let [fast, slow] = [self.fast, self.slow].map(|time| u128::from(time.as_nanos()));
        let nanos = (hit * fast).max((parts - hit) * slow).div_ceil(parts);
        Duration::from_nanos(u64::try_from(nanos).expect("no more than the slower tier takes"))
    }

    /// The share that this many requests per second take, rounded up; `None` if it is more than all
    /// of the device.
    pub(super) fn share(self, per_second: u32, hits: Share) -> Option<Share> {
        // ns in a second are a thousand times the parts of the whole.
        let nanos = u128::from(per_second) * u128::from(self.cost(hits).as_nanos());
        Share::from_ppm(u32::try_from(nanos.div_ceil(1000)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: TierTimes =
        TierTimes { fast: Duration::from_micros(200), slow: Duration::from_millis(10) };

    fn hits(percent: u32) -> Share {
        Share::from_percent(percent).unwrap()
    }

    #[test]
    fn the_busier_tier_says_what_a_request_costs() {
        for (percent, micros) in
            [(0, 10_000), (50, 5_000), (90, 1_000), (98, 200), (99, 198), (100, 200)]
        {
            assert_eq!(TIMES.cost(hits(percent)), Duration::from_micros(micros), "{percent} %");
        }
        let odd = Share::from_ppm(999_999).unwrap();
        let slow = TierTimes { fast: Duration::ZERO, slow: Duration::from_nanos(1) };
        assert_eq!(slow.cost(odd), Duration::from_nanos(1), "rounded up");
        let longest = TierTimes { fast: Duration::from_nanos(u64::MAX), ..slow };
        assert_eq!(longest.cost(Share::FULL), longest.fast);
    }

    #[test]
    fn a_goal_takes_a_share_or_more_than_there_is() {
        let ppm = |per_second, percent| TIMES.share(per_second, hits(percent)).map(Share::ppm);
        assert_eq!(ppm(100, 90), Some(100_000));
        assert_eq!(ppm(1000, 90), Some(1_000_000));
        assert_eq!(ppm(1001, 90), None);
        assert_eq!(ppm(100, 10), Some(900_000), "the same goal, hitting less");
        assert_eq!(ppm(5000, 100), Some(1_000_000));
        assert_eq!(ppm(0, 0), Some(0));
        assert_eq!(ppm(u32::MAX, 0), None);
    }
}
