//! A back end that fails on purpose: to see that an error reaches the client that caused it, and
//! nobody else.

use std::ops::Range;

use disktime_core::{Kind, Tier};
use disktime_model::Op;

use super::{Abilities, BackEnd, DeviceError, Io, Job, PoolFile, Step};
use crate::buffers::Pool;
use crate::ring::Keep;

/// Jobs that fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// On which virtual disk, by its place on the device.
    pub disk: u32,
    /// Jobs of this kind,
    pub kind: Kind,
    /// that touch these bytes (a flush touches all),
    pub extent: Range<u64>,
    /// each so many-th of them (1: all; 0: none),
    pub every: u32,
    /// fail with this error.
    pub error: DeviceError,
}

impl Fault {
    /// In place of an error: the shard's thread panics.
    pub const PANIC: DeviceError = DeviceError(0);

    fn hits(&self, job: &Job) -> bool {
        let end = job.offset.saturating_add(job.bytes);
        let touches = self.extent.start < end && job.offset < self.extent.end;
        self.disk == job.disk && self.kind == job.kind && (touches || job.kind == Kind::Flush)
    }
}

/// Operations that the back end [hears](BackEnd::heard) of and that are said to have failed: they were
/// carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnFault {
    /// Only jobs that moved so many bytes,
    pub bytes: i32,
    /// the first so many of them,
    pub times: u32,
    /// fail with this error.
    pub error: DeviceError,
}

/// Another back end, with faults.
pub struct Faulty {
    inner: Box<dyn BackEnd>,
    /// With the jobs of each so far.
    faults: Vec<(Fault, u32)>,
    own: Option<OwnFault>,
}

impl Faulty {
    /// Wraps a back end.
    #[must_use]
    pub fn new(inner: Box<dyn BackEnd>, faults: Vec<Fault>) -> Self {
        let faults = faults.into_iter().map(|fault| (fault, 0)).collect();
        Self { inner, faults, own: None }
    }

    /// And with a fault of its own operations.
    #[must_use]
    pub fn with_own(self, fault: OwnFault) -> Self {
        Self { own: Some(fault), ..self }
    }
}

impl BackEnd for Faulty {
    fn begin(&mut self, io: &mut Io<'_>) {
        self.inner.begin(io);
    }

    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let mut error = None;
        for (fault, seen) in self.faults.iter_mut().filter(|(fault, _)| fault.hits(job)) {
            *seen += 1;
            if *seen == fault.every {
                *seen = 0;
                error = error.or(Some(fault.error));
            }
        }
        match error {
            Some(Fault::PANIC) => panic!("a fault of a test"),
            Some(error) => Step::Done(Err(error)),
            None => self.inner.start(id, job, io),
        }
    }

    fn finished(
        &mut self,
        id: u32,
        step: u32,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        self.inner.finished(id, step, job, done, io)
    }

    fn heard(&mut self, what: u32, (keep, mut result): (Keep, i32), io: &mut Io<'_>) {
        let hit = |fault: &&mut OwnFault| fault.times > 0 && fault.bytes == result;
        if let Some(fault) = self.own.as_mut().filter(hit) {
            fault.times -= 1;
            result = -fault.error.0;
        }
        self.inner.heard(what, (keep, result), io);
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
