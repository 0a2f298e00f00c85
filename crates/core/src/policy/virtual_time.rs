//! Tags and the virtual time: who is behind and who is ahead.
//!
//! A stream's *tag* is the disk time that it has used, divided by its share φ. The *virtual time* V
//! is the mean of the tags of those who want to run, weighted by share, and never falls. φ·(V - tag)
//! is the stream's lag.

/// Shares are parts of this.
pub(crate) const PARTS: i64 = 1_000_000_000;
/// Tags are moved back before they come near the end of their range.
const FAR: i64 = i64::MAX / 4;

#[derive(Default)]
pub(crate) struct VirtualTime {
    now: i64,
    /// Σφ of those who want to run.
    shares: i64,
    /// Their Σφ·(tag - V): above 0 only until V follows.
    ahead: i128,
}

impl VirtualTime {
    /// Σφ of those who want to run.
    pub(crate) fn shares(&self) -> i64 {
        self.shares
    }

    /// V.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Whether a tag is not ahead of the mean of the tags, which may be behind V.
    pub(crate) fn is_paid(&self, tag: i64) -> bool {
        (i128::from(tag) - i128::from(self.now)) * i128::from(self.shares) <= self.ahead
    }

    /// A stream wants to run.
    pub(crate) fn enter(&mut self, share: i64, tag: i64) {
        self.shares += share;
        self.ahead += self.lead_of(share, tag);
        self.follow();
    }

    /// It does no more.
    pub(crate) fn leave(&mut self, share: i64, tag: i64) {
        self.shares -= share;
        self.ahead -= self.lead_of(share, tag);
        self.follow();
    }

    /// The tag of one who wants to run has moved.
    pub(crate) fn moved(&mut self, share: i64, step: i64) {
        self.ahead += i128::from(share) * i128::from(step);
        self.follow();
    }

    /// All shares are new: those who want to run enter again.
    pub(crate) fn forget_shares(&mut self) {
        (self.shares, self.ahead) = (0, 0);
    }

    /// By how much all tags are to be moved back, now and then: V has been.
    pub(crate) fn rebase(&mut self) -> Option<i64> {
        (self.now > FAR).then(|| core::mem::take(&mut self.now))
    }

    fn lead_of(&self, share: i64, tag: i64) -> i128 {
        i128::from(share) * (i128::from(tag) - i128::from(self.now))
    }

    fn follow(&mut self) {
        if self.ahead > 0 && self.shares > 0 {
            let shares = i128::from(self.shares);
            let rise = self.ahead / shares;
            self.ahead -= rise * shares;
            self.now = self.now.saturating_add(i64::try_from(rise).unwrap_or(FAR));
        }
    }
}

/// The step of a tag for that much disk time.
pub(crate) fn step(used: i64, share: i64) -> i64 {
    let step = i128::from(used) * i128::from(PARTS) / i128::from(share);
    i64::try_from(step).unwrap_or(FAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_mean_of_tags_by_share_and_never_falls() {
        let mut time = VirtualTime::default();
        time.enter(PARTS / 4, 0);
        time.enter(PARTS / 4 * 3, 0);
        time.moved(PARTS / 4, 400);
        assert_eq!(time.now(), 100, "a quarter of 400");
        // One who is behind comes: the mean falls, the time doesn't, and goes on from the mean.
        time.enter(PARTS, -100);
        assert_eq!(time.now(), 100);
        time.moved(PARTS, 200);
        assert_eq!(time.now(), 100);
        assert!(time.is_paid(100) && !time.is_paid(101), "the mean of 400, 0 and 100 is 100");
        time.leave(PARTS, 100);
        assert_eq!(time.now(), 100);
        time.moved(PARTS / 4 * 3, 400);
        assert_eq!(time.now(), 400);
    }

    #[test]
    fn tags_are_moved_back_before_they_overflow() {
        let mut time = VirtualTime::default();
        time.enter(1, 0);
        assert_eq!(time.rebase(), None);
        time.moved(1, step(i64::MAX, 1));
        time.moved(1, 1);
        let back = time.rebase().unwrap_or(0);
        assert!(back >= FAR - 1, "{back}");
        assert_eq!(time.now(), 0);
    }
}
