//! What the back end itself wants done, as requests of a stream of its own: a request at a time, of a
//! class that goes when nobody else wants the device. What has waited for long goes on as best effort
//! of the least weight: a small part of what nobody has reserved, so that it ends some day.

use std::ops::Range;

use disktime_core::{
    Cancel, Class, Duration, Instant, Kind, Outcome, Request, RequestId, StreamId,
};
use disktime_nbd::{Checked, Command, Operation};
use slab::Slab;

use super::{Shard, Work, name};
use crate::clock;
use crate::frontend::nbd::Asked;
use crate::stats::add;

/// No client.
pub(super) const NOBODY: u32 = u32::MAX;

/// For so long an errand waits until nobody else wants the device.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where errands are charged, and their place among the operations, which stays taken.
pub(super) struct Mover {
    stream: StreamId,
    operation: u32,
    out: bool,
    /// What was not sent yet.
    left: Range<u64>,
    /// Nothing was since then.
    since: Instant,
    /// It goes on as best effort.
    hurries: bool,
}

impl Mover {
    pub(super) fn new(disks: usize, operations: &mut Slab<Work>) -> Self {
        let vdisk = name(disks);
        let operation = Operation::Cache;
        let checked = Checked { operation, cookie: 0, offset: 0, length: 0 };
        let asked = Asked { checked, command: Command::Cache };
        let (kind, client) = (Kind::Cache, NOBODY);
        let work = Work {
            client,
            vdisk,
            asked,
            offset: 0,
            bytes: 0,
            memory: 0,
            whole: None,
            kind,
            buffer: None,
            error: None,
            arrived: true,
        };
        let operation = name(operations.insert(work));
        let (left, since) = (0..0, Instant::ZERO);
        Self { stream: StreamId(vdisk), operation, out: false, left, since, hurries: false }
    }

    fn request(&self, class: Option<Class>) -> Request {
        Request {
            id: RequestId(self.operation),
            stream: self.stream,
            kind: Kind::Cache,
            offset: self.left.start,
            bytes: self.left.end - self.left.start,
            fua: false,
            class,
            deadline: None,
        }
    }

    /// One of its pieces goes out.
    pub(super) fn sent(&mut self, until: u64, now: Instant) {
        (self.left.start, self.since) = (until, now);
    }
}

impl Shard {
    /// Asks the engine for time for the back end's next errand; whether there is one.
    pub(super) fn run_errand(&mut self) -> bool {
        let draining = self.drain_until.is_some();
        let Some(mover) = self.mover.as_mut().filter(|mover| !mover.out && !draining) else {
            return false;
        };
        let Some(extent) = self.back_end.errand() else { return false };
        let work = &mut self.operations[mover.operation as usize];
        work.offset = extent.start;
        work.error = None;
        let now = clock::now();
        (mover.left, mover.since, mover.hurries) = (extent, now, false);
        let taken = self.engine.handle_arrival(now, mover.request(None));
        mover.out = taken.is_ok();
        if let Err(refusal) = taken {
            tracing::warn!(%refusal, "an errand of the back end was refused");
        }
        mover.out
    }

    /// When an errand will have waited for long.
    pub(super) fn errand_waits_until(&self) -> Option<Instant> {
        let mover = self.mover.as_ref().filter(|_| self.drain_until.is_none())?;
        let waits = mover.out && !mover.hurries && !mover.left.is_empty();
        let at_device = self.engine.stream(mover.stream).is_none_or(|view| view.in_flight() > 0);
        (waits && !at_device).then(|| mover.since + PATIENCE)
    }

    /// Has an errand that has waited for long go on as best effort.
    pub(super) fn hurry_errand(&mut self) {
        let now = clock::now();
        if self.errand_waits_until().is_none_or(|until| until > now) {
            return;
        }
        let Some(mover) = &mut self.mover else { return };
        mover.hurries = true;
        let request = mover.request(Some(Class::BestEffort));
        if self.engine.handle_cancel(now, request.id) == Cancel::Gone {
            mover.out = self.engine.handle_arrival(now, request).is_ok();
        }
    }

    /// Whether this was an errand, which is over now.
    pub(super) fn errand_done(&mut self, operation: u32, outcome: Outcome) -> bool {
        let mover = self.mover.as_mut().filter(|mover| mover.operation == operation);
        let Some(mover) = mover else { return false };
        mover.out = false;
        if outcome == Outcome::Done {
            add(&self.stats.moved, 1);
        } else {
            // Why is told as any failure is.
            tracing::debug!("an extent stays where it is");
        }
        true
    }
}
