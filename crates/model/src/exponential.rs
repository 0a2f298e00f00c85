//! A FIFO server without insides: service times drawn from a distribution, or constant.
//!
//! The device of queueing theory, and of paper `reward`.
//!
//! Does not know: where a request is or how large.

use crate::device::{Completion, Device, Op};
use crate::drawn;
use crate::pending::Pending;
use disktime_core::{Duration, Instant, Kind};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// How service times are distributed about their mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Exponentially, drawn from the seed.
    Exponential,
    /// Not at all.
    Constant,
}

/// Properties in which one server differs from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExponentialSpec {
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// How many operations it holds.
    pub queue_depth: u32,
    /// Mean service of a read, and of all that isn't a write.
    pub read_mean: Duration,
    /// Mean service of a write.
    pub write_mean: Duration,
    /// How service times are distributed.
    pub service: Service,
}

/// A server with one queue, first come, first served.
#[derive(Debug)]
pub struct Exponential {
    spec: ExponentialSpec,
    random: Pcg64,
    free_at: Instant,
    pending: Pending,
}

impl Exponential {
    /// An idle server; `seed` decides its service times.
    ///
    /// # Panics
    /// If the spec has no queue or no capacity.
    #[must_use]
    pub fn new(spec: ExponentialSpec, seed: u64) -> Self {
        Self {
            spec,
            random: Pcg64::seed_from_u64(seed),
            free_at: Instant::ZERO,
            pending: Pending::new(spec.capacity_bytes, spec.queue_depth),
        }
    }

    fn service(&mut self, kind: Kind) -> Duration {
        let mean = match kind {
            Kind::Write | Kind::Zeroes => self.spec.write_mean,
            Kind::Read | Kind::Cache | Kind::Flush | Kind::Trim => self.spec.read_mean,
        };
        let factor = match self.spec.service {
            Service::Constant => 1.0,
            Service::Exponential => drawn::exponential(&mut self.random),
        };
        drawn::times(mean, factor)
    }
}

impl Device for Exponential {
    fn capacity_bytes(&self) -> u64 {
        self.pending.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.pending.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.pending.enter(now, &op);
        self.free_at = self.free_at.max(now) + self.service(op.kind);
        self.pending.push(self.free_at, tag);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.pending.next()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.pending.advance(now, done);
    }
}
