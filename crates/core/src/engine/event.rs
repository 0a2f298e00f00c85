//! Events of the engine: promises given, refused, missed and broken.

use alloc::collections::VecDeque;

use super::error::ChangeError;
use crate::cost::PieceKind;
use crate::shaping::claims::Ignored;
use crate::types::contract::Contract;
use crate::types::ids::{RequestId, StreamId};
use crate::types::time::Duration;

/// Something that an operator or a client may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A stream's contract holds from now on.
    Admitted(StreamId, Contract),
    /// A change was refused.
    Refused(ChangeError),
    /// A request completed after the deadline that it stated.
    Late {
        /// The stream that sent the request.
        stream: StreamId,
        /// Which.
        request: RequestId,
        /// By how much.
        late: Duration,
    },
    /// A client reported a missed deadline.
    MissedDeadline(StreamId),
    /// The report moves nothing, where a feedback controller is configured.
    ReportIgnored(StreamId, Ignored),
    /// A backlogged stream is behind its reservation by longer than its bound. It is told again when it is
    /// behind by as long once more.
    PromiseBroken {
        /// The stream that was promised the time.
        stream: StreamId,
        /// By how long it is behind.
        behind: Duration,
        /// The longest that [`Engine::promise`](crate::Engine::promise) allows.
        bound: Duration,
        /// The cause that had the time.
        by: BrokenBy,
    },
    /// A guaranteed rate was not kept in a cycle.
    CycleMissed {
        /// The stream whose rate it is.
        stream: StreamId,
        /// Bytes that waited when it began, up to what is granted.
        waited: u64,
        /// Bytes done in it.
        done: u64,
    },
    /// The device can't keep all guaranteed rates: this stream has no rank for now.
    Cut(StreamId),
    /// A stream that was cut has its rank again.
    Restored(StreamId),
    /// The learned cost of a stream's pieces of a kind has moved beyond chance; told of each stream
    /// every 10 s at most.
    CostMoved {
        /// The stream that sends the pieces.
        stream: StreamId,
        /// Their kind,
        kind: PieceKind,
        /// and length.
        bytes: u64,
        /// When that was told last; at first by the device's price list.
        before: Duration,
        /// Now.
        now: Duration,
        /// By the device's price list, if there is one.
        listed: Option<Duration>,
    },
}

/// The cause that had the time that a stream was promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokenBy {
    /// The device: it has answered nothing for at least half of the time that the stream is behind.
    Device,
    /// Other streams were served, or the device was left idle for one.
    Others,
}

/// Events not fetched yet; the oldest are dropped.
const EVENTS_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Events(VecDeque<Event>);

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.0.len() == EVENTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}
