//! Policies: who is served next. One short file each, behind one small trait.
//!
//! The engine owns queues, classes, limits, accounts and pieces, and calls the policy on its own
//! thread. A policy orders the streams that are *ready* (work queued, below their limit and
//! depth); it may keep whatever index it needs, keyed by stream. No policy knows
//! how requests are kept, how charges are made, or other classes.

use alloc::boxed::Box;

use crate::cost::{Costs, Seen, Trust};
use crate::types::ids::{RequestId, StreamId};
use crate::types::request::{Kind, Request};
use crate::types::time::{Duration, Instant};
use view::{StreamView, Streams};

mod disktime;
mod edf;
mod scan_edf;
mod think;
pub(crate) mod view;
mod virtual_time;
mod zygaria;

pub use edf::Ranked;
pub use zygaria::Zygaria;

/// An action that a policy wants done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// The next piece of this stream goes out. The stream must be ready.
    Stream(StreamId),
    /// The next piece of this queued request goes out, before older ones of its stream, which
    /// must be ready.
    Request(RequestId),
    /// The device shall stay idle for this stream until then, at its charge, unless something
    /// arrives that changes the choice.
    Hold {
        /// For whom.
        stream: StreamId,
        /// Until when.
        until: Instant,
    },
    /// The device's write cache is flushed, at the charge of that stream, which may have nothing queued. Only if
    /// [`crate::Config::flushes`].
    Flush(StreamId),
    /// Nobody is ready.
    Nothing,
}

/// A piece that the device has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceDone {
    /// The request that it belonged to; that request may be over by now.
    pub request: RequestId,
    /// The operation.
    pub kind: Kind,
    /// The debit at dispatch.
    pub estimate: Duration,
    /// Its charge: exact at depth 1, and in slices of a stream that has the device to itself;
    /// else its estimate, corrected when the window closes (a call of [`Policy::changed`]).
    pub charge: Duration,
    /// The time that it took, if that is seen; else as `charge`.
    pub took: Duration,
    /// Its disk time by the cost model.
    pub modelled: Duration,
    /// From dispatch to completion.
    pub response: Duration,
}

/// Some busy time of the device, and what streams did in it.
pub struct Window<'a> {
    /// How long it was.
    pub busy: Duration,
    /// The stream that owned the device.
    pub owner: Option<StreamId>,
    /// The streams whose pieces completed.
    pub streams: &'a [StreamId],
    /// The disk time that a stream's pieces in it take by the cost model.
    pub modelled: &'a dyn Fn(StreamId) -> Duration,
    /// The time that they took, where one piece at a time is at the device: from the completions before.
    pub took: &'a dyn Fn(StreamId) -> Duration,
}

/// Orders ready streams.
///
/// Called by the engine alone, after it has updated the stream that the view shows; a call is
/// made for every change of what a view answers, so indexes keyed on views stay true. No call may
/// block. Cancelled requests show up as `changed`.
pub trait Policy: Send {
    /// A request joined the stream's queue; its place is `stream.queued()`, from 1.
    /// Only the first request of a queue changes what else a view answers.
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, _request: &Request) {
        if stream.queued() == 1 {
            self.changed(now, stream);
        }
    }
    /// A request left the stream's queue: all of it went out, or it was cancelled. Another call
    /// with the view follows, which is all that most policies need.
    fn left(&mut self, _now: Instant, _stream: StreamId, _request: RequestId) {}
    /// There is room at the device: who goes? Must name a ready stream if there is one, or hold.
    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick;
    /// A piece went out; the view shows what is next.
    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.changed(now, stream);
    }
    /// A piece was finished and charged.
    fn completed(&mut self, now: Instant, stream: StreamView<'_>, _piece: &PieceDone) {
        self.changed(now, stream);
    }
    /// Readiness, contract, accounts or head changed in another way; also once for a new stream.
    fn changed(&mut self, now: Instant, stream: StreamView<'_>);
    /// The stream is gone; its id may come back for another.
    fn removed(&mut self, now: Instant, stream: StreamId);
    /// The costs of requests, if the policy works them out itself.
    fn costs(&self) -> Option<Costs> {
        None
    }
    /// The same policy, if it gives the device to one stream at a time where that is worth it.
    fn slices(&mut self) -> Option<&mut dyn Slices> {
        None
    }
}

/// The stream that owns the device, in its slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Which one.
    pub stream: StreamId,
    /// It has the device to itself: each piece is charged the time since the previous completion. Else windows
    /// are divided by [`Slices::cost`].
    pub alone: bool,
}

/// A policy that gives slices, into which others' pieces may come, too.
pub trait Slices: Policy {
    /// How far costs can be trusted, and whether the device may be flushed. Told once.
    fn begins(&mut self, trust: Trust, flushes: bool);
    /// The device tells which of its tiers serves a piece: costs are learned among other streams' pieces, and
    /// streams on different tiers take nothing from each other.
    fn has_tiers(&mut self);
    /// Whether the pieces of a stream that has the device to itself now take what they take alone: they do when
    /// the beginning of its slice is over, and do not when that ends. `None` if that is not known.
    fn is_steady(&self, stream: StreamId) -> Option<bool>;
    /// A piece of that stream, which has the device to itself, took so long. Answers the part of that which another
    /// stream pays: a cache took what that one wrote in its slice, and the device brings it to the medium now.
    fn debt(&mut self, stream: StreamId, took: Duration) -> Option<(StreamId, Duration)>;
    /// The stream that owns the device: the same until [`pick`](Policy::pick), or until it is removed.
    fn owner(&self) -> Option<Owner>;
    /// The weight of a stream's pieces when that window is divided.
    fn cost(&self, window: &Window<'_>, stream: StreamId) -> Duration;
    /// How much disk time, beyond what its pieces were debited, a stream can pay for pieces that took far longer than
    /// was likely. The rest of that time is nobody's.
    fn room(&self, stream: StreamId) -> Duration;
    /// The time that pieces of a stream of that modelled cost take alone, if slices have shown it.
    fn pace(&self, stream: StreamId, modelled: Duration) -> Option<Duration>;
    /// The charge for guests' pieces in that stream's slices, by the time that they take alone, in permille.
    fn guest_price(&self, stream: StreamId) -> Option<u32>;
    /// A window is over in which no stream had the device to itself.
    fn window(&mut self, now: Instant, window: &Window<'_>);
    /// A stream's price was seen, or seen anew.
    fn priced(&mut self, now: Instant, stream: StreamId, seen: Seen);
    /// The longest slice.
    fn set_horizon(&mut self, horizon: Duration);
}

/// The quantity that accounts (reserve, limit, usage) count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Currency {
    /// Disk time.
    Time,
    /// Requests: each counts as if the device did [`crate::Config::nominal_iops`] of them.
    Requests,
}

/// A policy with its name, and what is known of it before it is made.
#[derive(Debug)]
pub struct PolicyEntry {
    /// Its name in configurations.
    pub name: &'static str,
    /// A description of one line.
    pub doc: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The currency of the accounts that it orders by.
    pub currency: Currency,
    /// Whether it promises each stream its reserved share of disk time, within the bounds of
    /// `docs/promises.md`: the conformance suite then holds it to that.
    pub keeps_reservations: bool,
    /// Whether it may serve a stream's requests in another order than they came.
    pub reorders: bool,
    /// Whether it may leave the device idle while work waits, in the hope of more from a stream.
    pub holds: bool,
    /// Makes one.
    pub build: fn() -> Box<dyn Policy>,
}

/// A policy is known by its name.
impl PartialEq for PolicyEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyEntry {}

/// The product's policies. Others implement [`Policy`] elsewhere and have entries of their own.
pub static REGISTRY: &[PolicyEntry] =
    &[disktime::ENTRY, zygaria::ENTRY, edf::ENTRY, scan_edf::ENTRY];

/// The policy if none is named: `disktime`.
pub static DEFAULT: &PolicyEntry = &disktime::ENTRY;

/// The product's policy of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static PolicyEntry> {
    REGISTRY.iter().find(|entry| entry.name == name)
}
