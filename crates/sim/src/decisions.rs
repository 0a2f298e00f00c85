//! The log of decisions: the stream that went, the streams that could have gone, and why.

use disktime_core::{Engine, Instant, StreamId};

/// A stream that could have been served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Which.
    pub stream: StreamId,
    /// The level of its reserve bucket, in ns of disk time.
    pub level_ns: i64,
    /// When that will hold its next request's estimate, in ns of virtual time; `i64::MAX` never.
    pub deadline_ns: i64,
    /// Orders streams by recent disk time per weight.
    pub usage_per_weight: i64,
    /// Its requests waiting.
    pub queued: u32,
}

/// A dispatch, and what it was chosen from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// The stream that was served.
    pub stream: StreamId,
    /// First byte on the device.
    pub offset: u64,
    /// Whether its deadline was due; else it got slack.
    pub due: bool,
    /// Every stream that was ready, in order of stream.
    pub candidates: Vec<Candidate>,
}

/// The streams that are ready now.
pub(crate) fn candidates(engine: &Engine) -> Vec<Candidate> {
    let ready = engine.streams().filter(|stream| stream.ready());
    ready
        .map(|stream| Candidate {
            stream: stream.id(),
            level_ns: stream.reserve_level(),
            deadline_ns: stream.deadline_ns(),
            usage_per_weight: stream.usage_per_weight(),
            queued: stream.queued(),
        })
        .collect()
}

impl Decision {
    pub(crate) fn new(
        at: Instant,
        stream: StreamId,
        offset: u64,
        candidates: Vec<Candidate>,
    ) -> Self {
        let chosen = candidates.iter().find(|candidate| candidate.stream == stream);
        let is_due = |at_ns: i64| u64::try_from(at_ns).map_or(true, |ns| ns <= at.as_nanos());
        let due = chosen.is_some_and(|chosen| is_due(chosen.deadline_ns));
        Self { at, stream, offset, due, candidates }
    }
}
