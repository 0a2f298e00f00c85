//! How often extents were asked for lately.
//!
//! A count for each extent, halved every so many accesses of the whole device: time is told by what
//! is done in it. Does not know: tiers, slots, clocks.

/// An extent's count, as it was when last touched.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Count {
    value: u32,
    epoch: u32,
}

/// All counts.
pub(super) struct Heat {
    counts: Vec<Count>,
    epoch: u32,
    /// Accesses until the next.
    left: u64,
    epoch_accesses: u64,
}

impl Heat {
    /// Nothing was asked for yet. Counts halve each time this many accesses were made.
    pub(super) fn new(extents: usize, epoch_accesses: u64) -> Self {
        let counts = vec![Count::default(); extents];
        Self { counts, epoch: 0, left: epoch_accesses, epoch_accesses }
    }

    /// Someone asks for it. Answers its count.
    pub(super) fn touch(&mut self, extent: u32) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            self.left = self.epoch_accesses;
            self.epoch = self.epoch.wrapping_add(1);
        }
        let value = self.of(extent).saturating_add(1);
        self.counts[extent as usize] = Count { value, epoch: self.epoch };
        value
    }

    /// An extent's count.
    pub(super) fn of(&self, extent: u32) -> u32 {
        let Count { value, epoch } = self.counts[extent as usize];
        value.checked_shr(self.epoch.wrapping_sub(epoch)).unwrap_or(0)
    }

    /// Has to become hot again.
    pub(super) fn cool(&mut self, extent: u32) {
        self.counts[extent as usize] = Count { value: 0, epoch: self.epoch };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_without_requests_cools() {
        let mut heat = Heat::new(3, 8);
        for _ in 0..7 {
            heat.touch(0);
        }
        assert_eq!((heat.of(0), heat.of(1)), (7, 0));
        assert_eq!(heat.touch(1), 1, "the eighth: a new epoch begins");
        assert_eq!((heat.of(0), heat.of(1)), (3, 1));
        for _ in 0..8 * 40 {
            heat.touch(2);
        }
        assert_eq!((heat.of(0), heat.of(1)), (0, 0));
        assert!((8..=16).contains(&heat.of(2)), "{}", heat.of(2));
        heat.cool(2);
        assert_eq!(heat.of(2), 0);
    }
}
