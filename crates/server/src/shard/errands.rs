//! What the back end itself wants done, as requests of a stream of its own: a request at a time, of a
//! class that goes when nobody else wants the device.

use disktime_core::{Kind, Outcome, Request, RequestId, StreamId};
use disktime_nbd::{Checked, Command, Operation};
use slab::Slab;

use super::{Shard, Work, name};
use crate::clock;
use crate::frontend::nbd::Asked;
use crate::stats::add;

/// No client.
pub(super) const NOBODY: u32 = u32::MAX;

/// Where errands are charged, and their place among the operations, which stays taken.
pub(super) struct Mover {
    stream: StreamId,
    operation: u32,
    out: bool,
}

impl Mover {
    pub(super) fn new(disks: usize, operations: &mut Slab<Work>) -> Self {
        let vdisk = name(disks);
        let operation = Operation::Cache;
        let checked = Checked { operation, cookie: 0, offset: 0, length: 0 };
        let asked = Asked { checked, command: Command::Cache };
        let (kind, client) = (Kind::Cache, NOBODY);
        let work = Work { client, vdisk, asked, kind, buffer: None, error: None, arrived: true };
        Self { stream: StreamId(vdisk), operation: name(operations.insert(work)), out: false }
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
        work.asked.checked.offset = extent.start;
        work.error = None;
        let request = Request {
            id: RequestId(mover.operation),
            stream: mover.stream,
            kind: work.kind,
            offset: extent.start,
            bytes: extent.end - extent.start,
            fua: false,
            class: None,
            deadline: None,
        };
        let taken = self.engine.handle_arrival(clock::now(), request);
        mover.out = taken.is_ok();
        if let Err(refusal) = taken {
            tracing::warn!(%refusal, "an errand of the back end was refused");
        }
        mover.out
    }

    /// Whether this was an errand, which is over now.
    pub(super) fn errand_done(&mut self, operation: u32, outcome: Outcome) -> bool {
        let mover = self.mover.as_mut().filter(|mover| mover.operation == operation);
        let Some(mover) = mover else { return false };
        mover.out = false;
        if outcome == Outcome::Done {
            add(&self.stats.moved, 1);
        } else {
            tracing::warn!(error = ?self.operations[operation as usize].error, "an extent stays where it is");
        }
        true
    }
}
