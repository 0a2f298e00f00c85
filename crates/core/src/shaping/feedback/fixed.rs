//! R as it was configured, whatever is reported.

use alloc::boxed::Box;

use super::{Controller, FeedbackEntry, Pipe, TokenRate};
use crate::types::time::Instant;

pub(super) static ENTRY: FeedbackEntry = FeedbackEntry {
    name: "fixed",
    doc: "best effort is shaped to a stated rate, whatever is reported",
    source: "mdn, section 6, figure 2",
    lends: false,
    build: Some(|_| Box::new(Fixed)),
};

struct Fixed;

impl Controller for Fixed {
    fn missed(&mut self, _now: Instant, pipe: Pipe) -> Option<TokenRate> {
        pipe.rate
    }
}
