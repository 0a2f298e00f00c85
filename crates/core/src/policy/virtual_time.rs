//! Tags and the virtual time: who is behind and who is ahead.
//!
//! A stream's *tag* is the disk time that it has used, divided by its share φ. The *virtual time* V
//! is the mean of the tags of those who want to run, weighted by share, or the lowest tag of those who can if that is
//! higher, and never falls. φ·(V - tag) is the stream's lag.

use crate::types::contract::Contract;
use crate::types::ratio::quotient;
use crate::types::share::Share;

/// Shares are parts of this.
pub(crate) const PARTS: i64 = 1_000_000_000;
/// Tags are moved back before they come near the end of their range.
const FAR: i64 = i64::MAX / 4;

/// Fractions of a part, in which the free share for a weight of 1 is kept. A precision, on which no share depends
/// by more than one in so many: weights add up to 2^44 at most, and a share for a weight is a part at least.
const FINE: i64 = 1 << 20;

/// The claims of a stream to disk time: a share that it has reserved, and a weight by which it has its part
/// of what nobody has reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Claims {
    /// In parts of [`PARTS`].
    pub(crate) reserved: i64,
    pub(crate) weight: i64,
}

impl Claims {
    pub(crate) fn of(Contract { reserve, weight, .. }: Contract) -> Self {
        let part = PARTS / i64::from(Share::PARTS);
        Self { reserved: i64::from(reserve.ppm()) * part, weight: i64::from(weight) }
    }
}

/// Streams' claims of one kind.
#[derive(Default)]
struct Sum {
    claims: i64,
    /// Σ claim·(tag - V) of those who want to run.
    ahead: i128,
}

impl Sum {
    fn add(&mut self, claim: i64, lead: i128) {
        self.claims += claim;
        self.ahead += i128::from(claim) * lead;
    }
}

/// Contracts change in a constant time, however many streams there are: a stream's φ is its reserved share and
/// its weight times the free share for a weight of 1, and the sums of both are kept apart.
pub(crate) struct VirtualTime {
    now: i64,
    /// The claims of those who want to run.
    reserved: Sum,
    weights: Sum,
    /// The claims of all streams.
    all: Claims,
    /// The share that a weight of 1 has of what is not reserved, in parts of [`PARTS`] by [`FINE`].
    free: i64,
    /// Σφ of those who want to run.
    shares: i64,
}

impl Default for VirtualTime {
    fn default() -> Self {
        let (reserved, weights, all) = (Sum::default(), Sum::default(), Claims::default());
        Self { now: 0, reserved, weights, all, free: FINE, shares: 1 }
    }
}

impl VirtualTime {
    /// A stream that does not want to run has other claims than before; a stream without any is none.
    pub(crate) fn claim(&mut self, before: Claims, now: Claims) {
        self.all.reserved += now.reserved - before.reserved;
        self.all.weight += now.weight - before.weight;
        let free = (PARTS - self.all.reserved).max(0);
        // Where all is reserved, those who reserved nothing get what is not used, by weight.
        self.free = (free * FINE / self.all.weight.max(1)).max(FINE);
        self.count_shares();
    }

    /// φ.
    pub(crate) fn share(&self, claims: Claims) -> i64 {
        let part = quotient(claims.weight, self.free, FINE).unwrap_or(FAR);
        claims.reserved.saturating_add(part).max(1)
    }

    /// Σφ of those who want to run.
    pub(crate) fn shares(&self) -> i64 {
        self.shares
    }

    /// The claims of those who want to run are others, or their shares are.
    fn count_shares(&mut self) {
        let (reserved, weight) = (self.reserved.claims, self.weights.claims);
        self.shares = self.share(Claims { reserved, weight });
        self.follow();
    }

    /// V.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Whether a tag is not ahead of the mean of the tags, which may be behind V.
    pub(crate) fn is_paid(&self, tag: i64) -> bool {
        self.lead(tag) * i128::from(self.shares()) <= self.ahead()
    }

    /// A stream wants to run.
    pub(crate) fn enter(&mut self, claims: Claims, tag: i64) {
        let lead = self.lead(tag);
        self.reserved.add(claims.reserved, lead);
        self.weights.add(claims.weight, lead);
        self.count_shares();
    }

    /// It does no more.
    pub(crate) fn leave(&mut self, claims: Claims, tag: i64) {
        let lead = self.lead(tag);
        self.reserved.add(-claims.reserved, lead);
        self.weights.add(-claims.weight, lead);
        self.count_shares();
    }

    /// The tag of one who wants to run has moved.
    pub(crate) fn moved(&mut self, claims: Claims, step: i64) {
        let step = i128::from(step);
        self.reserved.ahead += i128::from(claims.reserved) * step;
        self.weights.ahead += i128::from(claims.weight) * step;
        self.follow();
    }

    /// None of the streams that could go has a lower tag: V is that at least, and the others are behind.
    pub(crate) fn reach(&mut self, tag: i64) {
        if tag > self.now {
            self.rise(self.lead(tag));
        }
    }

    /// By how much all tags are to be moved back, now and then: V has been.
    pub(crate) fn rebase(&mut self) -> Option<i64> {
        (self.now > FAR).then(|| core::mem::take(&mut self.now))
    }

    fn lead(&self, tag: i64) -> i128 {
        i128::from(tag) - i128::from(self.now)
    }

    /// Σφ·(tag - V) of those who want to run: above 0 only until V follows.
    fn ahead(&self) -> i128 {
        let (ahead, free) = (self.weights.ahead, i128::from(self.free));
        let narrow = i64::try_from(ahead).map(|ahead| i128::from(ahead) * free);
        self.reserved.ahead
            + narrow.unwrap_or_else(|_| ahead.saturating_mul(free)) / i128::from(FINE)
    }

    fn follow(&mut self) {
        let (ahead, shares) = (self.ahead(), self.shares());
        if ahead >= i128::from(shares) {
            // A division of wide numbers takes several times as long, and is seldom needed.
            let narrow = i64::try_from(ahead).map(|ahead| (ahead / shares).into());
            self.rise(narrow.unwrap_or_else(|_| ahead / i128::from(shares)));
        }
    }

    fn rise(&mut self, rise: i128) {
        for sum in [&mut self.reserved, &mut self.weights] {
            sum.ahead -= rise * i128::from(sum.claims);
        }
        self.now = self.now.saturating_add(i64::try_from(rise).unwrap_or(FAR));
    }
}

/// The step of a tag for that much disk time.
pub(crate) fn step(used: i64, share: i64) -> i64 {
    quotient(used, PARTS, share).unwrap_or(FAR * used.signum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with next to no share gets back as much as it was debited.
    #[test]
    fn a_step_that_does_not_fit_goes_the_way_of_the_time() {
        assert_eq!([20, -20].map(|s| step(s * PARTS, 1)), [FAR, -FAR]);
    }

    #[test]
    fn it_is_the_mean_of_tags_by_share_and_never_falls() {
        let mut time = VirtualTime::default();
        let [quarter, rest, all] = [PARTS / 4, PARTS / 4 * 3, PARTS].map(reserved);
        time.enter(quarter, 0);
        time.enter(rest, 0);
        time.moved(quarter, 400);
        assert_eq!(time.now(), 100, "a quarter of 400");
        // One who is behind comes: the mean falls, the time doesn't, and goes on from the mean.
        time.enter(all, -100);
        assert_eq!(time.now(), 100);
        time.moved(all, 200);
        assert_eq!(time.now(), 100);
        assert!(time.is_paid(100) && !time.is_paid(101), "the mean of 400, 0 and 100 is 100");
        time.leave(all, 100);
        assert_eq!(time.now(), 100);
        time.moved(rest, 400);
        assert_eq!(time.now(), 400);
    }

    /// Half of the device can't go: one with next to no share runs ahead of it, and the time with that one.
    #[test]
    fn it_is_no_less_than_the_lowest_tag_of_those_who_could_go() {
        let mut time = VirtualTime::default();
        let [half, little] = [PARTS / 2, 1].map(reserved);
        [half, little].into_iter().for_each(|claims| time.enter(claims, 0));
        time.moved(little, 1_000);
        assert_eq!(time.now(), 0, "the mean");
        let reached = [900, 1_000, 500].map(|tag| {
            time.reach(tag);
            time.now()
        });
        assert_eq!(reached, [900, 1_000, 1_000]);
        // It goes on from the mean, which is far behind.
        time.moved(half, 999);
        assert_eq!(time.now(), 1_000);
        time.moved(half, 2_001);
        assert_eq!(time.now(), 2_999);
    }

    #[test]
    fn weights_divide_what_is_not_reserved_and_where_nothing_is_left_the_unused() {
        let mut time = VirtualTime::default();
        let [one, three] = [1, 3].map(|weight| Claims { reserved: 0, weight });
        let claims = [reserved(PARTS / 5), one, three];
        claims.into_iter().for_each(|it| time.claim(Claims::default(), it));
        assert_eq!(claims.map(|it| time.share(it)), [PARTS / 5, PARTS / 5, PARTS / 5 * 3]);
        // Nothing is lost to rounding with many weights that are large.
        let large = Claims { reserved: 0, weight: 10_000 };
        (0..30_000).for_each(|_| time.claim(Claims::default(), large));
        let sum = 30_000 * time.share(large);
        assert!((PARTS / 5 * 4 - sum).abs() < PARTS / 1000, "{sum}");
        time.claim(claims[0], reserved(PARTS));
        assert_eq!([one, three].map(|it| time.share(it)), [1, 3]);
    }

    #[test]
    fn the_mean_follows_when_what_is_free_changes() {
        let mut time = VirtualTime::default();
        let [half, other] =
            [Claims { reserved: PARTS / 2, weight: 0 }, Claims { reserved: 0, weight: 7 }];
        for claims in [half, other] {
            time.claim(Claims::default(), claims);
            time.enter(claims, 0);
        }
        time.moved(other, 800);
        assert_eq!(time.now(), 400);
        time.moved(half, 400);
        assert_eq!(time.now(), 600);
        // A third claims half of the free half: the mean of (400, .5) and (800, .25).
        time.claim(Claims::default(), other);
        assert_eq!(time.now(), 600, "it never falls");
        assert!(time.is_paid(533) && !time.is_paid(534));
    }

    fn reserved(reserved: i64) -> Claims {
        Claims { reserved, weight: 0 }
    }

    #[test]
    fn tags_are_moved_back_before_they_overflow() {
        let mut time = VirtualTime::default();
        time.enter(reserved(1), 0);
        assert_eq!(time.rebase(), None);
        time.moved(reserved(1), step(i64::MAX, 1));
        time.moved(reserved(1), 1);
        let back = time.rebase().unwrap_or(0);
        assert!(back >= FAR - 1, "{back}");
        assert_eq!(time.now(), 0);
    }
}
