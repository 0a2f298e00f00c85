//! Views of the streams for a policy: of all streams, and of one.

use crate::account::stream_accounts::StreamCounters;
use crate::classes::lane::{Gate, Head, Lane};
use crate::classes::stream::{Stream, StreamTable};
use crate::types::contract::{Contract, StreamSpec};
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::time::Duration;

impl Stream {
    /// As the policy of that class sees it.
    pub(crate) fn view(&self, rank: Rank) -> StreamView<'_> {
        StreamView { stream: self, rank }
    }
}

/// All streams, as the policy of a class may see them.
#[derive(Clone, Copy)]
pub struct Streams<'a> {
    pub(crate) streams: &'a StreamTable,
    pub(crate) rank: Rank,
    pub(crate) depth: u32,
    pub(crate) at_work: u32,
    /// The stream that would break its promise bound first, if that was near when time passed last: within a second or
    /// two slices.
    pub(crate) pressing: Option<StreamId>,
}

impl<'a> Streams<'a> {
    /// Pieces at the device, of any class, but for those that are late.
    #[must_use]
    pub fn at_work(self) -> u32 {
        self.at_work
    }

    /// How many pieces the device may hold.
    #[must_use]
    pub fn depth(self) -> u32 {
        self.depth
    }

    /// A stream, if it exists.
    #[must_use]
    pub fn get(self, id: StreamId) -> Option<StreamView<'a>> {
        self.streams.get(id).map(|stream| stream.view(self.rank))
    }
}

/// The view of a stream for a policy: its accounts, and the requests that wait in the policy's class.
#[derive(Clone, Copy)]
pub struct StreamView<'a> {
    stream: &'a Stream,
    rank: Rank,
}

impl<'a> StreamView<'a> {
    fn lane(self) -> &'a Lane {
        &self.stream.lanes[self.rank]
    }

    /// Its name.
    #[must_use]
    pub fn id(self) -> StreamId {
        self.stream.id
    }

    /// The contract by which it is served now: reservation and weight of a stream with a parent or children are
    /// its part of what its family has, and none while it lends that.
    #[must_use]
    pub fn contract(self) -> Contract {
        let accounts = &self.stream.accounts;
        let (reserve, weight) = (accounts.reserve.rate(), accounts.weight);
        Contract { reserve, weight, ..self.stream.spec.contract }
    }

    /// Whether the policy's class is its own, or one of its requests waits there.
    #[must_use]
    pub fn asks(self) -> bool {
        self.rank == self.stream.home() || self.lane().head.is_some()
    }

    /// The contract of its own requests: a parent's children have parts of its reservation.
    #[must_use]
    pub fn promised(self) -> Contract {
        self.stream.promised()
    }

    /// Work is queued, and neither its limit nor its depth forbids that it goes out.
    #[must_use]
    pub fn ready(self) -> bool {
        self.lane().gate == Gate::Ready
    }

    /// Requests waiting in all classes.
    #[must_use]
    pub fn waiting(self) -> u32 {
        self.stream.queued
    }

    /// Its next piece.
    #[must_use]
    pub fn head(self) -> Option<Head> {
        self.lane().head
    }

    /// Start and end on the device of the piece that went out last, flushes aside.
    #[must_use]
    pub fn last_piece(self) -> Option<(u64, u64)> {
        self.stream.last_end.map(|end| (self.stream.last_start, end))
    }

    /// Requests waiting in this class.
    #[must_use]
    pub fn queued(self) -> u32 {
        self.lane().queue.len()
    }

    /// Pieces at the device.
    #[must_use]
    pub fn in_flight(self) -> u32 {
        self.stream.pieces
    }

    /// The disk time that it was charged, and what it is debited for pieces that are not settled
    /// yet, in ns.
    #[must_use]
    pub fn used(self) -> i64 {
        self.stream.counters.charged.as_tokens().saturating_add(self.stream.accounts.pending)
    }

    /// The level of its reserve bucket in ns of disk time, as of the last change.
    #[must_use]
    pub fn reserve_level(self) -> i64 {
        self.stream.accounts.reserve.level()
    }

    /// When its reserve bucket will hold (or came to hold) its next piece's estimate, in ns;
    /// `i64::MAX` for never.
    #[must_use]
    pub fn deadline_ns(self) -> i64 {
        let estimate = self.lane().head.map_or(Duration::ZERO, |head| head.estimate);
        self.stream.accounts.reserve.holds_at(estimate.as_tokens())
    }

    /// A number that orders streams by recent disk time per weight.
    #[must_use]
    pub fn usage_per_weight(self) -> i64 {
        self.stream.accounts.usage.key() / i64::from(self.stream.accounts.weight.max(1))
    }

    /// Counts of its requests by their fate.
    #[must_use]
    pub fn counters(self) -> StreamCounters {
        self.stream.counters
    }

    /// How it was added, with the contract of today.
    #[must_use]
    pub fn spec(self) -> StreamSpec {
        self.stream.spec
    }
}
