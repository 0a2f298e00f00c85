//! Finds the smallest cut that stops the misses.

use alloc::boxed::Box;

use super::{Controller, FeedbackEntry, Pipe, Standing, TokenRate};
use crate::share::Share;
use crate::time::Instant;

pub(super) const ENTRY: FeedbackEntry = FeedbackEntry {
    name: "adaptive",
    doc: "finds the smallest cut that stops the misses, and gives back what is not needed",
    source: "docs/soft-real-time.md",
    build: Some(|config| Box::new(Adaptive { cut: config.cut })),
};

struct Adaptive {
    /// β
    cut: Share,
}

impl Controller for Adaptive {
    fn missed(&mut self, _now: Instant, pipe: Pipe) -> Option<TokenRate> {
        Some(pipe.cut_from().less(self.cut))
    }

    fn refilled(&mut self, _now: Instant, pipe: Pipe, _standing: Standing) -> Option<TokenRate> {
        pipe.rate
    }

    fn ended(
        &mut self,
        _now: Instant,
        pipe: Pipe,
        part: TokenRate,
        others: TokenRate,
    ) -> Option<TokenRate> {
        pipe.rate.filter(|_| others > TokenRate::ZERO).map(|rate| rate.plus(part))
    }
}
