//! A back end that takes its time: every job waits before it begins.

use std::ops::Range;
use std::time::Duration;

use disktime_core::Tier;
use disktime_model::Op;

use super::{Abilities, BackEnd, DeviceError, Io, Job, PoolFile, Step};
use crate::buffers::Pool;
use crate::ring::{Keep, Token};

/// The step of a job that is its wait; no back end has so many.
const WAIT: u32 = u32::MAX;

/// Another back end, later.
pub struct Delayed {
    inner: Box<dyn BackEnd>,
    delay: Duration,
}

impl Delayed {
    /// Wraps a back end: jobs begin so long after they were asked for.
    #[must_use]
    pub fn new(inner: Box<dyn BackEnd>, delay: Duration) -> Self {
        Self { inner, delay }
    }
}

impl BackEnd for Delayed {
    fn begin(&mut self, io: &mut Io<'_>) {
        self.inner.begin(io);
    }

    fn start(&mut self, id: u32, _job: &mut Job, io: &mut Io<'_>) -> Step {
        io.ring.timer(Token::Job { job: id, step: WAIT }, self.delay);
        Step::Pending
    }

    fn finished(
        &mut self,
        id: u32,
        step: u32,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        if step == WAIT {
            return self.inner.start(id, job, io);
        }
        self.inner.finished(id, step, job, done, io)
    }

    fn heard(&mut self, what: u32, done: (Keep, i32), io: &mut Io<'_>) {
        self.inner.heard(what, done, io);
    }

    fn unblocked(&mut self) -> Option<u32> {
        self.inner.unblocked()
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        self.inner.resume(id, job, io)
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
