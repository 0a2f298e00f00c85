//! Migration: the back end's own work, as requests of a stream of its own.
//!
//! One request at a time goes out, of a class that gets the device while nobody else wants it. A
//! request that has waited for long goes on as best effort of the least weight: a small part of what
//! nobody has reserved, so that it ends some day. Does not know: what is moved, or where to.

use std::ops::Range;

use disktime_core::{
    Cancel, Class, Duration, Instant, Kind, Outcome, Request, RequestId, StreamId,
};
use slab::Slab;

use super::{Operation, Shard, name};
use crate::clock;
use crate::frontend::request::{Op, Origin, Work};
use crate::stats::add;

/// How long a request of a migration waits as background work before it goes on as best effort.
const BACKGROUND_MAX: Duration = Duration::from_secs(1);

/// The stream that migration is charged to, and its one request.
pub(super) struct Migration {
    stream: StreamId,
    /// The key among the operations, which stays taken.
    operation: u32,
    /// The engine has the request.
    out: bool,
    /// Bytes of the request that the device has not begun.
    left: Range<u64>,
    /// When a piece of the request last began, or the request arrived.
    since: Instant,
    /// The request goes on as best effort.
    hurries: bool,
}

impl Migration {
    /// No migration yet, charged to that stream.
    pub(super) fn new(stream: StreamId, operations: &mut Slab<Operation>) -> Self {
        let work = Work { origin: Origin::Internal, op: Op::Cache, range: 0..0, fua: false };
        let operation = name(operations.insert(Operation::new(work, stream.0)));
        let (left, since) = (0..0, Instant::ZERO);
        Self { stream, operation, out: false, left, since, hurries: false }
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

    /// The device begins a piece, which ends at that byte.
    pub(super) fn sent(&mut self, until: u64, now: Instant) {
        (self.left.start, self.since) = (until, now);
    }
}

impl Shard {
    /// Asks the engine for time for the back end's next migration; whether there is one.
    pub(super) fn migrate(&mut self) -> bool {
        let draining = self.turns.drain_until.is_some();
        let Some(migration) = self.migration.as_mut().filter(|it| !it.out && !draining) else {
            return false;
        };
        let Some(extent) = self.device.back_end.migration() else { return false };
        let operation = &mut self.operations[migration.operation as usize];
        operation.work.range = extent.clone();
        operation.error = None;
        let now = clock::now();
        (migration.left, migration.since, migration.hurries) = (extent, now, false);
        let taken = self.engine.handle_arrival(now, migration.request(None));
        migration.out = taken.is_ok();
        if let Err(refusal) = taken {
            tracing::warn!(%refusal, "a migration of the back end was refused");
        }
        migration.out
    }

    /// When a migration will have waited for long.
    pub(super) fn migration_waits_until(&self) -> Option<Instant> {
        let migration = self.migration.as_ref().filter(|_| self.turns.drain_until.is_none())?;
        let waits = migration.out && !migration.hurries && !migration.left.is_empty();
        let stream = self.engine.stream(migration.stream);
        let at_device = stream.is_none_or(|view| view.in_flight() > 0);
        (waits && !at_device).then(|| migration.since + BACKGROUND_MAX)
    }

    /// Has a migration that has waited for long go on as best effort.
    pub(super) fn hurry_migration(&mut self) {
        let now = self.turns.now;
        if self.migration_waits_until().is_none_or(|until| until > now) {
            return;
        }
        let Some(migration) = &mut self.migration else { return };
        migration.hurries = true;
        let request = migration.request(Some(Class::BestEffort));
        if self.engine.handle_cancel(now, request.id) == Cancel::Gone {
            migration.out = self.engine.handle_arrival(now, request).is_ok();
        }
    }

    /// The migration's request is over.
    pub(super) fn migrated(&mut self, outcome: Outcome) {
        let Some(migration) = &mut self.migration else { return };
        migration.out = false;
        if outcome == Outcome::Done {
            add(&self.stats.moved, 1);
        } else {
            // The failed piece was logged as any other is.
            tracing::debug!("an extent was not migrated and stays on its tier");
        }
    }
}
