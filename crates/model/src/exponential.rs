//! A FIFO server without insides: service times drawn from a distribution, or constant.
//!
//! The device of queueing theory, and of paper `reward`.
//!
//! Does not know: where a request is or how large.

use crate::device::{Completion, Device, Op};
use crate::pending::Pending;
use disktime_core::{Duration, Instant, Kind};
use rand::{RngExt, SeedableRng};
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
    now: Instant,
}

impl Exponential {
    /// An idle server; `seed` decides its service times.
    ///
    /// # Panics
    /// If the spec has no queue or no capacity.
    #[must_use]
    pub fn new(spec: ExponentialSpec, seed: u64) -> Self {
        assert!(spec.queue_depth > 0 && spec.capacity_bytes > 0, "{spec:?}");
        Self {
            spec,
            random: Pcg64::seed_from_u64(seed),
            free_at: Instant::ZERO,
            pending: Pending::default(),
            now: Instant::ZERO,
        }
    }

    /// At least a nanosecond: nothing completes when it is submitted.
    fn service(&mut self, kind: Kind) -> Duration {
        let mean = match kind {
            Kind::Write | Kind::Zeroes => self.spec.write_mean,
            Kind::Read | Kind::Cache | Kind::Flush | Kind::Trim => self.spec.read_mean,
        };
        let factor = match self.spec.service {
            Service::Constant => 1.0,
            // 1 - u is above zero, so its logarithm is finite.
            Service::Exponential => -(1.0 - self.random.random::<f64>()).ln(),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a service time is positive and far below 2^53 ns; `as` saturates otherwise"
        )]
        let nanos = (mean.as_nanos() as f64 * factor).round() as u64;
        Duration::from_nanos(nanos.max(1))
    }
}

impl Device for Exponential {
    fn capacity_bytes(&self) -> u64 {
        self.spec.capacity_bytes / 512 * 512
    }

    fn queue_depth(&self) -> u32 {
        self.spec.queue_depth
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
        assert!(
            self.pending.len() < self.spec.queue_depth as usize,
            "{op:?} above the queue depth"
        );
        assert!(op.bytes > 0 || op.kind == Kind::Flush, "{op:?} is empty");
        let end = op.offset.checked_add(op.bytes);
        let inside = end.is_some_and(|end| end <= self.spec.capacity_bytes);
        assert!(inside || op.kind == Kind::Flush, "{op:?} is past the end");
        self.free_at = self.free_at.max(now) + self.service(op.kind);
        self.pending.push(self.free_at, tag);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.pending.next()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
        self.pending.drain(now, done);
    }
}
