//! Charges the shard's own work: where the device is faster than the processor that serves it,
//! virtual disks share the processor.
//!
//! After turns the thread's processor time since the last comparison is compared with how long the
//! device was busy meanwhile. For the time beyond that, the device was idle because the shard was
//! at work with its clients' bytes. This time is divided among the virtual disks whose requests and
//! bytes came or went, in proportion to what these take, and charged to them as time for which the
//! device is held idle.

use std::sync::atomic::Ordering;

use disktime_core::{Duration, Instant, StreamId};

use super::Shard;
use crate::clock;

/// A request takes as much of the processor's time as so many bytes that are copied: some 2 us, at
/// some 4 GB/s.
const REQUEST_BYTES: u64 = 8 << 10;

/// Time between two comparisons, each of which takes a system call and a posting for each virtual disk: as
/// long as a full turn. The shortest slice is 5 ms, so that a charge is late by a fiftieth of it at most; at
/// ten times as much by a fifth.
const COMPARE: Duration = Duration::from_micros(100);

/// Requests and bytes that moved since time was divided last.
#[derive(Default)]
pub(super) struct OwnTime {
    /// By virtual disk, in bytes.
    moved: Vec<u64>,
    /// Virtual disks of which anything moved.
    movers: Vec<u32>,
    /// The thread's processor time, and the device's busy time, when they were compared last.
    cpu_ns: u64,
    busy: Duration,
    /// When they are compared again.
    next: Instant,
}

impl OwnTime {
    /// For so many virtual disks.
    pub(super) fn new(vdisks: usize) -> Self {
        let (movers, cpu_ns) = (Vec::new(), clock::thread_cpu_ns());
        Self { moved: vec![0; vdisks], movers, cpu_ns, busy: Duration::ZERO, next: Instant::ZERO }
    }

    /// A virtual disk has come.
    pub(super) fn add(&mut self, vdisk: u32) {
        let reach = vdisk as usize + 1;
        self.moved.resize(self.moved.len().max(reach), 0);
    }

    /// A request of a virtual disk, or so many bytes of its data, came or went.
    pub(super) fn moved(&mut self, vdisk: u32, bytes: usize) {
        let Some(moved) = self.moved.get_mut(vdisk as usize) else { return };
        if *moved == 0 {
            self.movers.push(vdisk);
        }
        *moved += REQUEST_BYTES + bytes as u64;
    }

    /// Divides what is the shard's own of the time that has passed, if anything moved: tells `each` its
    /// part, rounded down.
    fn divide(&mut self, cpu_ns: u64, busy: Duration, mut each: impl FnMut(u32, Duration)) {
        let worked = cpu_ns - std::mem::replace(&mut self.cpu_ns, cpu_ns);
        let busy_before = std::mem::replace(&mut self.busy, busy);
        let own = worked.saturating_sub(busy.as_nanos() - busy_before.as_nanos());
        let sum: u64 = self.movers.iter().map(|at| self.moved[*at as usize]).sum();
        for vdisk in self.movers.drain(..) {
            let moved = std::mem::take(&mut self.moved[vdisk as usize]);
            let part = u128::from(own) * u128::from(moved) / u128::from(sum.max(1));
            each(vdisk, Duration::from_nanos(u64::try_from(part).unwrap_or(own)));
        }
    }
}

impl Shard {
    /// Charges what the shard has worked for its clients while the device was idle, if that was not done
    /// a moment ago.
    pub(super) fn charge_own_time_in_time(&mut self) {
        if self.turns.own_time.next <= self.turns.now {
            self.charge_own_time();
        }
    }

    /// Charges what the shard has worked for its clients while the device was idle.
    pub(super) fn charge_own_time(&mut self) {
        if self.turns.own_time.movers.is_empty() {
            return;
        }
        let (cpu_ns, busy) = (clock::thread_cpu_ns(), self.engine.device_time().busy);
        let (now, engine) = (self.turns.now, &mut self.engine);
        self.turns.own_time.divide(cpu_ns, busy, |vdisk, time| {
            if time > Duration::ZERO {
                engine.handle_idled(now, StreamId(vdisk), time);
            }
        });
        self.turns.own_time.next = now + COMPARE;
        self.stats.cpu_ns.store(cpu_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn idle_time_for_own_work_is_divided_by_the_bytes_that_moved() {
        let mut own = OwnTime { moved: vec![0; 3], ..OwnTime::default() };
        let divide = |own: &mut OwnTime, cpu_ns, busy| {
            let mut parts = Vec::new();
            own.divide(cpu_ns, busy, |vdisk, time| parts.push((vdisk, time)));
            parts
        };
        own.moved(0, 0);
        own.moved(2, 24 << 10);
        assert_eq!(divide(&mut own, 100_000, us(50)), [(0, us(10)), (2, us(40))]);
        own.moved(1, 0);
        let parts = divide(&mut own, 130_000, us(90));
        assert_eq!(parts, [(1, us(0))], "the device was busy for longer");
        own.moved(1, 0);
        assert_eq!(divide(&mut own, 140_000, us(90)), [(1, us(10))]);
        own.moved(7, 0);
        let parts = divide(&mut own, 150_000, us(90));
        assert!(parts.is_empty(), "migrations move no client's bytes");
    }
}
