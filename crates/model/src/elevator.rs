//! An operating system's part in front of a device: a queue of its own, and a deadline elevator
//! that gives the device as much as it takes.
//!
//! Linux's `deadline` scheduler. Operations go in batches of up to 16 of one direction, in ascending
//! order of offset. Reads go before writes until writes have stood back for two batches. The next
//! batch goes on where the last one ended; if nothing lies ahead, or if the oldest operation of the
//! direction has waited for longer than 500 ms (reads) or 5 s (writes), it starts at the oldest.
//!
//! Source: Linux, `block/mq-deadline.c` and its defaults.
//!
//! Does not know: merging. A device with a buffer that reads ahead serves what would have been merged
//! from there, at its overhead for each.

use crate::device::{Completion, Device, Op};
use disktime_core::{Duration, Instant, Kind};
use std::collections::BTreeMap;

/// How long an operation may wait before it starts a batch: reads, writes.
const EXPIRY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];
/// Operations of a batch.
const BATCH: u32 = 16;
/// Batches of reads that may go while writes wait.
const WRITES_STARVED: u32 = 2;

const READ: usize = 0;
const WRITE: usize = 1;

/// Offset, and order of arrival.
type Place = (u64, u64);

/// Requests that wait in one direction.
#[derive(Default)]
struct Direction {
    sorted: BTreeMap<Place, (u64, Op)>,
    /// By order of arrival: offset, and when it expires.
    fifo: BTreeMap<u64, (u64, Instant)>,
}

#[derive(Clone, Copy, Default)]
struct Batch {
    direction: usize,
    /// Its last operation; `None` before the first batch.
    at: Option<Place>,
    operations: u32,
    /// Batches of reads that have gone while writes waited.
    starved: u32,
}

/// A device behind a deadline elevator.
pub struct Elevator {
    device: Box<dyn Device>,
    queue_depth: u32,
    waiting: [Direction; 2],
    batch: Batch,
    arrivals: u64,
    queued: usize,
    at_device: u32,
    /// Done and not yet collected.
    done: Vec<Completion>,
}

impl Direction {
    fn ahead(&self, of: Option<Place>) -> Option<Place> {
        self.sorted.range(of?..).next().map(|(place, _)| *place)
    }

    fn oldest(&self) -> Option<(Place, Instant)> {
        self.fifo.first_key_value().map(|(order, (offset, expires))| ((*offset, *order), *expires))
    }
}

impl Elevator {
    /// Queues up to `queue_depth` operations in front of `device` and at it, together.
    ///
    /// # Panics
    /// If that is less than the device takes.
    #[must_use]
    pub fn new(device: Box<dyn Device>, queue_depth: u32) -> Self {
        let inner = device.queue_depth();
        assert!(
            queue_depth >= inner,
            "a queue of {queue_depth} before a device that takes {inner}"
        );
        Self {
            device,
            queue_depth,
            waiting: Default::default(),
            batch: Batch::default(),
            arrivals: 0,
            queued: 0,
            at_device: 0,
            done: Vec::new(),
        }
    }

    /// Collects what the device completes by `now`, and each time gives it the next at that time.
    fn run_until(&mut self, now: Instant) {
        while let Some(at) = self.device.next_completion().filter(|at| *at <= now) {
            let before = self.done.len();
            self.device.advance(at, &mut self.done);
            let over =
                u32::try_from(self.done.len() - before).expect("the device's depth bounds it");
            self.at_device -= over;
            self.feed(at);
        }
    }

    /// Gives the device what it takes.
    fn feed(&mut self, now: Instant) {
        while self.at_device < self.device.queue_depth() {
            let Some((place, batch)) = self.choose(now) else { return };
            self.batch = batch;
            let direction = &mut self.waiting[batch.direction];
            direction.fifo.remove(&place.1);
            let Some((tag, op)) = direction.sorted.remove(&place) else { return };
            self.queued -= 1;
            self.at_device += 1;
            self.device.submit(now, tag, op);
        }
    }

    fn choose(&self, now: Instant) -> Option<(Place, Batch)> {
        let Batch { direction, at, operations, starved } = self.batch;
        let ahead = self.waiting[direction].ahead(at);
        if let Some(place) = ahead.filter(|_| operations < BATCH) {
            return Some((
                place,
                Batch { at: Some(place), operations: operations + 1, ..self.batch },
            ));
        }
        let [reads, writes] = [READ, WRITE].map(|direction| self.waiting[direction].oldest());
        let (next, (oldest, expires), starved) = match (reads, writes) {
            (Some(_), Some(write)) if starved >= WRITES_STARVED => (WRITE, write, 0),
            (Some(read), Some(_)) => (READ, read, starved + 1),
            (Some(read), None) => (READ, read, starved),
            (None, Some(write)) => (WRITE, write, 0),
            (None, None) => return None,
        };
        let ahead = ahead.filter(|_| next == direction && expires > now);
        let place = ahead.unwrap_or(oldest);
        Some((place, Batch { direction: next, at: Some(place), operations: 1, starved }))
    }
}

impl Device for Elevator {
    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.run_until(now);
        let inside = self.queued + self.at_device as usize + self.done.len();
        assert!(inside < self.queue_depth as usize, "{op:?} above the queue depth");
        let end = op.offset.checked_add(op.bytes);
        let fits = end.is_some_and(|end| end <= self.capacity_bytes());
        assert!(
            op.kind == Kind::Flush || (fits && op.bytes > 0),
            "{op:?} is empty or past the end"
        );
        let direction = match op.kind {
            Kind::Read | Kind::Cache => READ,
            Kind::Write | Kind::Flush | Kind::Trim | Kind::Zeroes => WRITE,
        };
        let order = self.arrivals;
        self.arrivals += 1;
        self.queued += 1;
        let waiting = &mut self.waiting[direction];
        waiting.sorted.insert((op.offset, order), (tag, op));
        waiting.fifo.insert(order, (op.offset, now + EXPIRY[direction]));
        self.feed(now);
    }

    fn next_completion(&self) -> Option<Instant> {
        let done = self.done.first().map(|completion| completion.at);
        done.or_else(|| self.device.next_completion())
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exponential::{Exponential, ExponentialSpec, Service};

    /// Serves one at a time, in 10 ms.
    fn elevator(queue_depth: u32) -> Elevator {
        let mean = Duration::from_millis(10);
        let (read_mean, write_mean) = (mean, mean);
        let (capacity_bytes, service) = (1 << 30, Service::Constant);
        let spec =
            ExponentialSpec { capacity_bytes, queue_depth: 1, read_mean, write_mean, service };
        Elevator::new(Box::new(Exponential::new(spec, 1)), queue_depth)
    }

    fn served(ops: &[(Kind, u64)]) -> Vec<u64> {
        let mut elevator = elevator(200);
        for &(kind, block) in ops {
            let op = Op { kind, offset: block * 4096, bytes: 4096, fua: false };
            elevator.submit(Instant::ZERO, block, op);
        }
        let mut done = Vec::new();
        elevator.advance(Instant::from_nanos(100_000_000_000), &mut done);
        assert!(done.is_sorted_by_key(|completion| completion.at));
        assert_eq!(elevator.next_completion(), None);
        done.iter().map(|completion| completion.tag).collect()
    }

    #[test]
    fn ascending_from_the_first_and_then_from_the_oldest() {
        let reads = [50, 90, 10, 70, 30].map(|block| (Kind::Read, block));
        assert_eq!(served(&reads), [50, 70, 90, 10, 30]);
    }

    #[test]
    fn writes_go_after_two_batches_of_reads() {
        let mut ops: Vec<(Kind, u64)> = (0..60).map(|block| (Kind::Read, block)).collect();
        ops.push((Kind::Write, 99));
        let place = served(&ops).iter().position(|tag| *tag == 99);
        // The first batch began before there were writes.
        assert_eq!(place, Some(3 * 16));
    }

    #[test]
    fn a_request_that_waited_too_long_starts_a_batch() {
        // 64 batches' worth ahead of block 5, 10 ms each: it expires after 500 ms.
        let mut ops = vec![(Kind::Read, 10)];
        ops.push((Kind::Read, 5));
        ops.extend((11..200).map(|block| (Kind::Read, block)));
        let place = served(&ops).iter().position(|tag| *tag == 5);
        assert_eq!(place, Some(64), "the first end of a batch after 500 ms");
    }

    #[test]
    #[should_panic(expected = "above the queue depth")]
    fn it_holds_no_more_than_its_queue() {
        let mut elevator = elevator(2);
        let op = Op { kind: Kind::Read, offset: 0, bytes: 4096, fua: false };
        (0..3).for_each(|tag| elevator.submit(Instant::ZERO, tag, op));
    }
}
