//! Reward scheduling for tiers, as published (algorithm 1): a stream that is answered sooner is served
//! more.
//!
//! Each stream has one tag. The ready stream with the smallest goes, and its tag stays. When a piece
//! of it completes, the tag grows by the mean response of the stream's last N = 100 pieces over its
//! weight; then the tags of all *active* streams (with work queued or at the device) are shifted so
//! that the smallest is now. A stream that becomes active gets now, if its tag is earlier.
//!
//! Guarantees: of streams that stay active, rate × mean response goes by weight. By Little's law
//! that product is what a stream has at the device: *reward scheduling divides the device's slots*,
//! and with them its time as far as a slot's time is the stream's own. At depth 1 it is: time by
//! weight. Deeper, a response is mostly the wait behind others, and a stream with fast pieces in one
//! queue with slow ones gains little (paper, figure 3b).
//!
//! `reward-service` is the same with our estimate of a piece's service in place of its response
//! (`served.rs`), and so is about time by weight at any depth.
//!
//! Unlike the paper's, a tag is its stream's, not also its request's; a request in several pieces
//! counts as several. A weight of 100 is the paper's 1. A pick is O(log n), a completion under
//! `reward-service` O(depth).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::served::AtDevice;
use disktime_core::policy::{Currency, Pick, PieceDone, Policy, PolicyEntry};
use disktime_core::{Duration, Instant, StreamId, StreamOrder, StreamView, Streams};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "reward",
    doc: "who is answered sooner is served more: mean response by weight",
    source: "reward scheduling for tiers, algorithm 1",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Reward::new(None)),
};

pub(super) const SERVICE_ENTRY: PolicyEntry = PolicyEntry {
    name: "reward-service",
    doc: "reward by mean service, without the wait at the device",
    source: "disktime's own: reward scheduling with an estimator that its section 5 asks for",
    build: || Box::new(Reward::by_service()),
    ..ENTRY
};

/// N of the paper.
const RESPONSES: usize = 100;
/// The weight of a stream that states none.
const USUAL_WEIGHT: Tag = 100;

/// ns of response at the usual weight. Shifts keep tags about now, and 127 bits hold more than any
/// number of responses adds.
type Tag = i128;

/// The last responses of a stream.
#[derive(Default)]
struct Responses {
    last: VecDeque<Duration>,
    sum: u128,
}

impl Responses {
    /// Answers the mean with this one in ns, rounded down.
    fn add(&mut self, response: Duration) -> Tag {
        if self.last.len() == RESPONSES {
            let oldest = self.last.pop_front().unwrap_or_default();
            self.sum -= u128::from(oldest.as_nanos());
        }
        self.last.push_back(response);
        self.sum += u128::from(response.as_nanos());
        (self.sum / self.last.len() as u128).cast_signed()
    }
}

#[derive(Default)]
struct Account {
    /// Without the shift while the stream is active.
    tag: Tag,
    responses: Responses,
    /// Its pieces at the device.
    out: u32,
}

pub(super) struct Reward {
    /// Active streams by tag, without the shift.
    active: StreamOrder<Tag>,
    /// The ready streams among them.
    ready: StreamOrder<Tag>,
    accounts: Vec<Account>,
    /// The shift that is added to every active stream's tag.
    shift: Tag,
    /// Knows services from responses, if services count.
    served: Option<AtDevice>,
}

impl Reward {
    fn new(served: Option<AtDevice>) -> Self {
        Self {
            active: StreamOrder::default(),
            ready: StreamOrder::default(),
            accounts: Vec::new(),
            shift: 0,
            served,
        }
    }

    /// As `reward-service`.
    pub(super) fn by_service() -> Self {
        Self::new(Some(AtDevice::default()))
    }

    fn account(&mut self, id: StreamId) -> &mut Account {
        let slot = id.0 as usize;
        if slot >= self.accounts.len() {
            self.accounts.resize_with(slot + 1, Account::default);
        }
        &mut self.accounts[slot]
    }

    fn place(&mut self, now: Instant, stream: StreamView<'_>) {
        let (id, shift) = (stream.id(), self.shift);
        let was_active = self.active.contains(id);
        let account = self.account(id);
        let active = stream.queued() > 0 || account.out > 0;
        if active && !was_active {
            account.tag = account.tag.max(now.as_nanos().into()) - shift;
        } else if was_active && !active {
            account.tag += shift;
        }
        let tag = account.tag;
        self.active.set(id, active.then_some(tag));
        self.ready.set(id, stream.ready().then_some(tag));
    }
}

impl Policy for Reward {
    fn pick(&mut self, _now: Instant, _streams: Streams<'_>) -> Pick {
        self.ready.first().map_or(Pick::Nothing, |(_, id)| Pick::Stream(id))
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        if let Some(served) = &mut self.served {
            served.sent(now, stream.id());
        }
        self.account(stream.id()).out += 1;
        self.place(now, stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        let id = stream.id();
        let took = match &mut self.served {
            Some(served) => served.back(now, id, piece.response),
            None => piece.response,
        };
        let account = self.account(id);
        let mean = account.responses.add(took);
        account.out = account.out.saturating_sub(1);
        account.tag += mean * USUAL_WEIGHT / Tag::from(stream.contract().weight);
        let tag = account.tag;
        self.active.set(id, Some(tag));
        if let Some((least, _)) = self.active.first() {
            self.shift = Tag::from(now.as_nanos()) - least;
        }
        self.place(now, stream);
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.place(now, stream);
    }

    fn removed(&mut self, _now: Instant, stream: StreamId) {
        self.active.set(stream, None);
        self.ready.set(stream, None);
        *self.account(stream) = Account::default();
        if let Some(served) = &mut self.served {
            served.forget(stream);
        }
    }
}
