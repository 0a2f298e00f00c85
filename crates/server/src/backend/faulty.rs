//! A back end that fails on purpose: to see that an error reaches the client that caused it, and
//! nobody else.

use std::ops::Range;

use disktime_core::Kind;

use super::{BackEnd, DeviceError, Io, Job, Step};
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
    /// fail with this error.
    pub error: DeviceError,
}

/// Another back end, with faults.
pub struct Faulty {
    inner: Box<dyn BackEnd>,
    faults: Vec<Fault>,
}

impl Faulty {
    /// Wraps a back end.
    #[must_use]
    pub fn new(inner: Box<dyn BackEnd>, faults: Vec<Fault>) -> Self {
        Self { inner, faults }
    }
}

impl BackEnd for Faulty {
    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        let extent = job.extent();
        let hit = |fault: &&Fault| {
            let touches = fault.extent.start < extent.end && extent.start < fault.extent.end;
            fault.disk == job.disk && fault.kind == job.kind && (touches || job.kind == Kind::Flush)
        };
        match self.faults.iter().find(hit) {
            Some(fault) => Step::Done(Err(fault.error)),
            None => self.inner.start(id, job, io),
        }
    }

    fn finished(
        &mut self,
        id: u32,
        step: u8,
        job: &mut Job,
        done: (Keep, i32),
        io: &mut Io<'_>,
    ) -> Step {
        self.inner.finished(id, step, job, done, io)
    }

    fn unblocked(&mut self) -> Option<u32> {
        self.inner.unblocked()
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        self.inner.resume(id, job, io)
    }

    fn frees(&self) -> bool {
        self.inner.frees()
    }
}
