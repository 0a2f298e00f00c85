//! A back end that tells what reached the device: each job's begin and end, in their order.

use crossbeam_channel::{Sender, TrySendError};
use std::ops::Range;

use disktime_core::{Kind, Tier};
use disktime_model::Op;

use super::{Abilities, BackEnd, DeviceError, Io, Job, PoolFile, Step};
use crate::buffers::Pool;
use crate::ring::Keep;

/// A job's begin or end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The job's name; used again once it is over.
    pub id: u32,
    /// Which virtual disk, by its place on the device.
    pub disk: u32,
    /// The operation.
    pub kind: Kind,
    /// First byte in the virtual disk.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Durable before it ends.
    pub fua: bool,
    /// How it ended; `None` is its begin.
    pub end: Option<Result<(), DeviceError>>,
}

/// Another back end, watched.
pub struct Traced {
    inner: Box<dyn BackEnd>,
    seen: Sender<Seen>,
}

impl Traced {
    /// Wraps a back end. An operation for which the channel has no room is logged and lost.
    #[must_use]
    pub fn new(inner: Box<dyn BackEnd>, seen: Sender<Seen>) -> Self {
        Self { inner, seen }
    }

    fn tell(&self, id: u32, job: &Job, end: Option<Result<(), DeviceError>>) {
        let Job { disk, kind, offset, bytes, fua, .. } = *job;
        let seen = Seen { id, disk, kind, offset, bytes, fua, end };
        if let Err(TrySendError::Full(seen)) = self.seen.try_send(seen) {
            tracing::warn!(?seen, "no room in the trace");
        }
    }

    fn ended(&self, id: u32, job: &Job, step: Step) -> Step {
        if let Step::Done(result) = step {
            self.tell(id, job, Some(result));
        }
        step
    }
}

impl BackEnd for Traced {
    fn begin(&mut self, io: &mut Io<'_>) {
        self.inner.begin(io);
    }

    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        self.tell(id, job, None);
        let step = self.inner.start(id, job, io);
        self.ended(id, job, step)
    }

    fn finished(
        &mut self,
        id: u32,
        step: u32,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        let step = self.inner.finished(id, step, job, done, io);
        self.ended(id, job, step)
    }

    fn heard(&mut self, what: u32, done: (Keep, i32), io: &mut Io<'_>) {
        self.inner.heard(what, done, io);
    }

    fn unblocked(&mut self) -> Option<u32> {
        self.inner.unblocked()
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let step = self.inner.resume(id, job, io);
        self.ended(id, job, step)
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn add_disk(&mut self, disk: u32, extent: Range<u64>) -> Result<(), DeviceError> {
        self.inner.add_disk(disk, extent)
    }

    fn add_file(&mut self, disk: u32, bytes: u64, file: PoolFile) -> Result<(), DeviceError> {
        self.inner.add_file(disk, bytes, file)
    }

    fn grow_disk(&mut self, disk: u32, bytes: u64) -> Result<(), DeviceError> {
        self.inner.grow_disk(disk, bytes)
    }

    fn remove_disk(&mut self, disk: u32) {
        self.inner.remove_disk(disk);
    }

    fn migration(&mut self) -> Option<Range<u64>> {
        self.inner.migration()
    }

    fn medium(&self, disk: u32) -> u32 {
        self.inner.medium(disk)
    }

    fn pool(&self) -> Pool {
        self.inner.pool()
    }

    fn lost(&mut self) -> Option<u32> {
        self.inner.lost()
    }

    fn begins_anew(&self, job: &Job) -> bool {
        self.inner.begins_anew(job)
    }

    fn parts(&self, op: Op, parts: &mut Vec<(Tier, Op)>) {
        self.inner.parts(op, parts);
    }
}
