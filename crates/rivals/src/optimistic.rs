//! A report cuts; R creeps back at every refill, until the next one.

use alloc::boxed::Box;

use disktime_core::feedback::{Controller, FeedbackEntry, Pipe, Standing, TokenRate};
use disktime_core::{Instant, Share};

pub(super) static ENTRY: FeedbackEntry = FeedbackEntry {
    name: "optimistic",
    doc: "each report cuts by 24 %; 1 token/s comes back every half second",
    source: "mdn, section 5",
    lends: false,
    build: Some(|config| {
        let creep = TokenRate::from_milli(u64::from(config.creep_milli));
        Box::new(Optimistic { cut: config.cut, creep })
    }),
};

struct Optimistic {
    /// β
    cut: Share,
    /// δ
    creep: TokenRate,
}

impl Controller for Optimistic {
    fn missed(&mut self, _now: Instant, pipe: Pipe) -> Option<TokenRate> {
        Some(pipe.cut_from().less(self.cut))
    }

    fn refilled(&mut self, _now: Instant, pipe: Pipe, _standing: Standing) -> Option<TokenRate> {
        pipe.rate.map(|rate| rate.plus(self.creep))
    }
}
