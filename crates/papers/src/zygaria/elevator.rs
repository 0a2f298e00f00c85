//! The operating system's part below the driver: it holds several requests and gives the disk,
//! which takes one command at a time, the request that continues the last; else the oldest one.
//!
//! The paper's throughput version keeps up to 20 requests at the "low-level driver", which may
//! reorder them (§3). The joining of sequential requests is what makes the version usable at all:
//! with one sequential request between any two random ones both streams would halve. The reordering
//! shortens no seeks, as follows from §4.1 and §4.3: with 20 outstanding the disk did 68 random
//! reads per second, as many as a disk of that make does one by one (9 ms of seek, half a turn);
//! swept in order of place, 20 would give it more than 100. Linux's request layer does just this
//! with any scheduler: it merges what is adjacent and leaves the rest in order. [`Order::Sweep`] is
//! there to show the difference.

use disktime_core::Instant;
use disktime_model::{Completion, Device, Op};

/// The order of requests where none continues the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The oldest request first.
    Arrival,
    /// C-SCAN: the next place, from the last back to the first.
    Sweep,
}

pub(super) struct Elevator {
    disk: Box<dyn Device>,
    depth: u32,
    order: Order,
    /// In order of arrival.
    queue: Vec<(u64, Op)>,
    /// Where the last request given to the disk ends.
    position: u64,
    at_disk: bool,
    /// Done and not yet collected.
    done: Vec<Completion>,
}

impl Elevator {
    pub(super) fn new(disk: Box<dyn Device>, depth: u32, order: Order) -> Self {
        let (queue, done) = (Vec::with_capacity(depth as usize), Vec::new());
        Self { disk, depth, order, queue, position: 0, at_disk: false, done }
    }

    /// Collects what the disk completes by `now`, each time choosing the next at that time.
    fn run_until(&mut self, now: Instant) {
        while let Some(at) = self.disk.next_completion().filter(|&at| at <= now) {
            self.disk.advance(at, &mut self.done);
            self.at_disk = false;
            if let Some(index) = self.pick() {
                let (tag, op) = self.queue.remove(index);
                self.start(at, tag, op);
            }
        }
    }

    fn pick(&self) -> Option<usize> {
        let mut queued = self.queue.iter();
        queued.position(|(_, op)| op.offset == self.position).or_else(|| match self.order {
            Order::Arrival => (!self.queue.is_empty()).then_some(0),
            Order::Sweep => {
                let key = |&index: &usize| {
                    let offset = self.queue[index].1.offset;
                    (offset < self.position, offset)
                };
                (0..self.queue.len()).min_by_key(key)
            }
        })
    }

    fn start(&mut self, at: Instant, tag: u64, op: Op) {
        self.disk.submit(at, tag, op);
        self.position = op.offset + op.bytes;
        self.at_disk = true;
    }
}

impl Device for Elevator {
    fn capacity_bytes(&self) -> u64 {
        self.disk.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.depth
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.run_until(now);
        let inside = self.queue.len() + usize::from(self.at_disk) + self.done.len();
        assert!(inside < self.depth as usize, "{op:?} above the queue depth");
        if self.at_disk {
            self.queue.push((tag, op));
        } else {
            self.start(now, tag, op);
        }
    }

    fn next_completion(&self) -> Option<Instant> {
        let done = self.done.first().map(|completion| completion.at);
        done.or_else(|| self.disk.next_completion())
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_core::Kind;
    use disktime_model::preset;

    fn served(order: Order, blocks: &[u64]) -> Vec<u64> {
        let disk = (preset::find("deskstar-34gxp").unwrap().build)(1);
        let mut elevator = Elevator::new(disk, 20, order);
        for &block in blocks {
            let op = Op { kind: Kind::Read, offset: block * 4096, bytes: 4096, fua: false };
            elevator.submit(Instant::ZERO, block, op);
        }
        let mut done = Vec::new();
        elevator.advance(Instant::from_nanos(10_000_000_000), &mut done);
        assert!(done.is_sorted_by_key(|completion| completion.at));
        assert_eq!(elevator.next_completion(), None);
        done.iter().map(|completion| completion.tag).collect()
    }

    #[test]
    fn a_continuing_request_goes_first_and_the_rest_in_order() {
        let blocks = [500, 90, 501, 700, 502, 91];
        assert_eq!(served(Order::Arrival, &blocks), [500, 501, 502, 90, 91, 700]);
        assert_eq!(served(Order::Sweep, &blocks), [500, 501, 502, 700, 90, 91]);
    }
}
