//! Charges the threads' own work: where the device is faster than the processors that serve it, virtual
//! disks share these.
//!
//! After turns the processor time of the thread that worked most since the last comparison, the shard's or a
//! carrier's, is compared with how long the device was busy meanwhile. For the time beyond that, the device
//! was idle because that thread was at work with its clients' bytes. This time is divided among the virtual
//! disks whose requests and bytes came or went there, in proportion to what these take, and charged to them
//! as time for which the device is held idle.

use std::sync::atomic::Ordering;

use disktime_core::{Duration, Instant, StreamId};

use super::Shard;
use crate::clock;

/// A request takes as much of the processor's time as so many bytes that are copied: some 2 us, at
/// some 4 GB/s.
const REQUEST_BYTES: u64 = 8 << 10;

/// Time between two comparisons, each of which takes a system call and a posting for each virtual disk: as
/// long as a full turn. The shortest slice is 5 ms, so that a charge is late by a fiftieth of it at most; at
/// ten times as much by a fifth. Carriers tell of their work as often.
const COMPARE: Duration = Duration::from_micros(100);

/// A thread's work for its clients in some time.
#[derive(Default)]
pub(super) struct Worked {
    cpu_ns: u64,
    /// By virtual disk, in bytes.
    moved: Vec<(u32, u64)>,
}

impl Worked {
    fn bytes(&self) -> u64 {
        self.moved.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// A thread's count of all that it has moved for its clients since it told of it last.
pub(super) struct Tally {
    /// The virtual disks of which something moved, and how much, in bytes.
    moved: Vec<(u32, u64)>,
    /// By virtual disk, its place above from 1; 0 if nothing moved.
    places: Vec<u32>,
    /// The thread's processor time when it was told last.
    cpu_ns: u64,
    /// When it is told again.
    next: Instant,
}

impl Tally {
    /// A count of the calling thread.
    pub(super) fn new() -> Self {
        let (moved, places) = (Vec::new(), Vec::new());
        Self { moved, places, cpu_ns: clock::thread_cpu_ns(), next: Instant::ZERO }
    }

    /// A request of a virtual disk, or so many bytes of its data, came or went.
    pub(super) fn moved(&mut self, vdisk: u32, bytes: usize) {
        let at = vdisk as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, 0);
        }
        if self.places[at] == 0 {
            self.moved.push((vdisk, 0));
            self.places[at] = super::name(self.moved.len());
        }
        self.moved[self.places[at] as usize - 1].1 += REQUEST_BYTES + bytes as u64;
    }

    /// Whether there is something to tell, and a moment has passed since it was told last.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next <= now && !self.moved.is_empty()
    }

    /// Adds what the calling thread has done since this was called last to its other `work`.
    pub(super) fn tell(&mut self, now: Instant, work: &mut Worked) {
        self.tell_at(clock::thread_cpu_ns(), work);
        self.next = now + COMPARE;
    }

    fn tell_at(&mut self, cpu_ns: u64, work: &mut Worked) {
        work.cpu_ns += cpu_ns - std::mem::replace(&mut self.cpu_ns, cpu_ns);
        for (vdisk, bytes) in self.moved.drain(..) {
            self.places[vdisk as usize] = 0;
            work.moved.push((vdisk, bytes));
        }
    }
}

/// The threads' work since time was divided last.
pub(super) struct OwnTime {
    /// The shard's own.
    tally: Tally,
    /// By thread: the shard's, then its carriers'.
    threads: Vec<Worked>,
    /// When time was divided last, and the device's busy time then.
    since: Instant,
    busy: Duration,
}

impl OwnTime {
    /// A division of the time of the calling thread and so many carriers.
    pub(super) fn new(carriers: u32) -> Self {
        let threads = (0..=carriers).map(|_| Worked::default()).collect();
        Self { tally: Tally::new(), threads, since: Instant::ZERO, busy: Duration::ZERO }
    }

    /// A request of a virtual disk, or so many bytes of its data, came or went here.
    pub(super) fn moved(&mut self, vdisk: u32, bytes: usize) {
        self.tally.moved(vdisk, bytes);
    }

    /// A carrier has worked.
    pub(super) fn carried(&mut self, carrier: u32, work: Worked) {
        let of_it = &mut self.threads[carrier as usize + 1];
        of_it.cpu_ns += work.cpu_ns;
        of_it.moved.extend(work.moved);
    }

    /// Bytes by virtual disk that have moved here since the shard told of its own work.
    #[cfg(test)]
    pub(super) fn moved_here(&self) -> &[(u32, u64)] {
        &self.tally.moved
    }

    /// Bytes by virtual disk that a carrier has told of since time was divided last.
    #[cfg(test)]
    pub(super) fn worked(&self, carrier: u32) -> Vec<(u32, u64)> {
        self.threads[carrier as usize + 1].moved.clone()
    }

    fn has_moved(&self) -> bool {
        !self.tally.moved.is_empty() || self.threads.iter().any(|work| !work.moved.is_empty())
    }

    /// Divides the time until now for which the busiest thread was at work and the device was not: tells
    /// `each` virtual disk its part, rounded down. Carriers tell of their work late, so that it may have
    /// taken longer than that.
    fn divide(&mut self, now: Instant, busy: Duration, mut each: impl FnMut(u32, Duration)) {
        let passed = now.since(std::mem::replace(&mut self.since, now));
        let busy_before = std::mem::replace(&mut self.busy, busy);
        let busy = busy.as_nanos() - busy_before.as_nanos();
        let Some(most) = self.threads.iter().max_by_key(|work| work.cpu_ns) else { return };
        let own = most.cpu_ns.min(passed.as_nanos()).saturating_sub(busy);
        let sum = most.bytes().max(1);
        for (vdisk, moved) in &most.moved {
            let part = u128::from(own) * u128::from(*moved) / u128::from(sum);
            each(*vdisk, Duration::from_nanos(u64::try_from(part).unwrap_or(own)));
        }
        for work in &mut self.threads {
            work.cpu_ns = 0;
            work.moved.clear();
        }
    }
}

impl Shard {
    /// Charges what the threads have worked for clients while the device was idle, if that was not done
    /// a moment ago.
    pub(super) fn charge_own_time_in_time(&mut self) {
        if self.turns.own_time.tally.next <= self.turns.now {
            self.charge_own_time();
        }
    }

    /// Charges what the threads have worked for clients while the device was idle.
    pub(super) fn charge_own_time(&mut self) {
        let own_time = &mut self.turns.own_time;
        if !own_time.has_moved() {
            return;
        }
        let (now, busy) = (self.turns.now, self.engine.device_time().busy);
        let OwnTime { tally, threads, .. } = own_time;
        tally.tell(now, &mut threads[0]);
        self.stats.cpu_ns.store(own_time.tally.cpu_ns, Ordering::Relaxed);
        let engine = &mut self.engine;
        own_time.divide(now, busy, |vdisk, time| {
            if time > Duration::ZERO {
                engine.handle_idled(now, StreamId(vdisk), time);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// An own time that begins now, whose thread has taken no processor time yet.
    fn own_time(carriers: u32) -> OwnTime {
        let mut own = OwnTime::new(carriers);
        own.tally.cpu_ns = 0;
        own
    }

    fn divide(
        own: &mut OwnTime,
        at: Duration,
        cpu_ns: u64,
        busy: Duration,
    ) -> Vec<(u32, Duration)> {
        let mut parts = Vec::new();
        own.tally.tell_at(cpu_ns, &mut own.threads[0]);
        own.divide(Instant::ZERO + at, busy, |vdisk, time| parts.push((vdisk, time)));
        parts
    }

    #[test]
    fn idle_time_for_own_work_is_divided_by_the_bytes_that_moved() {
        let mut own = own_time(0);
        own.moved(0, 0);
        own.moved(2, 8 << 10);
        own.moved(2, 8 << 10);
        assert_eq!(divide(&mut own, us(100), 100_000, us(50)), [(0, us(10)), (2, us(40))]);
        own.moved(1, 0);
        let parts = divide(&mut own, us(140), 130_000, us(90));
        assert_eq!(parts, [(1, us(0))], "the device was busy for longer");
        own.moved(1, 0);
        assert_eq!(divide(&mut own, us(150), 140_000, us(90)), [(1, us(10))]);
        assert!(divide(&mut own, us(160), 150_000, us(90)).is_empty(), "nothing moved");
    }

    fn work(cpu_us: u64, vdisk: u32) -> Worked {
        Worked { cpu_ns: cpu_us * 1_000, moved: vec![(vdisk, 4 << 10)] }
    }

    /// Long reads of one client took a carrier's time, and nobody was charged for it.
    #[test]
    fn the_busiest_threads_time_is_charged_to_those_whom_it_worked_for() {
        let mut own = own_time(2);
        own.moved(0, 0);
        own.carried(0, work(30, 1));
        own.carried(1, work(40, 2));
        own.carried(1, work(40, 3));
        assert_eq!(divide(&mut own, us(100), 50_000, us(20)), [(2, us(30)), (3, us(30))]);
        own.moved(0, 0);
        own.carried(0, work(30, 1));
        let parts = divide(&mut own, us(200), 100_000, us(30));
        assert_eq!(parts, [(0, us(40))], "what other threads did before is over");
    }

    #[test]
    fn no_more_time_is_charged_than_has_passed() {
        let mut own = own_time(1);
        own.carried(0, work(90, 1));
        own.carried(0, work(90, 1));
        let parts = divide(&mut own, us(100), 0, us(20));
        assert_eq!(parts, [(1, us(40)), (1, us(40))], "it told of its work late");
    }
}
