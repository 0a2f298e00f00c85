//! A report cuts; R stays until a stream is done, which gives back what was cut for it.

use alloc::boxed::Box;

use disktime_core::feedback::{Controller, FeedbackEntry, Pipe, TokenRate};
use disktime_core::{Instant, Share};

pub(super) static ENTRY: FeedbackEntry = FeedbackEntry {
    name: "pessimistic",
    doc: "each report cuts by 24 %; a stream's part comes back when it ends",
    source: "mdn, section 5",
    lends: false,
    build: Some(|config| Box::new(Pessimistic { cut: config.cut })),
};

struct Pessimistic {
    /// β
    cut: Share,
}

impl Controller for Pessimistic {
    fn missed(&mut self, _now: Instant, pipe: Pipe) -> Option<TokenRate> {
        Some(pipe.cut_from().less(self.cut))
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
