//! Numbers from a seed, the same on every machine.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): any state is a good one.
#[derive(Clone, Debug)]
pub(super) struct Numbers(u64);

impl Numbers {
    /// The numbers of one purpose; two purposes of one seed share none.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut mixed = Self(seed);
        let first = mixed.next();
        Self(first ^ purpose.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `from` to `to`, both included, all equally likely.
    pub(super) fn within(&mut self, from: u32, to: u32) -> u32 {
        let span = u64::from(to - from) + 1;
        from + u32::try_from(((self.next() >> 32) * span) >> 32).expect("below the span")
    }

    /// 0 up to but not including 1.
    pub(super) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `from` to `to`, every factor equally likely.
    pub(super) fn log(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.part())
    }

    /// Whether something happens that happens in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.within(1, 100) <= percent
    }

    /// One of them.
    pub(super) fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let last = u32::try_from(from.len() - 1).expect("lists are short");
        &from[self.within(0, last) as usize]
    }

    /// The place of one of the weights, each as likely as it says.
    pub(super) fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut drawn = self.within(1, weights.iter().sum());
        for (place, weight) in weights.iter().enumerate() {
            if drawn <= *weight {
                return place;
            }
            drawn -= weight;
        }
        unreachable!("the draw is at most the sum of the weights")
    }
}
