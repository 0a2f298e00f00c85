//! "Every 5000 requests (on average) dispatched to the storage device we delay dispatching the next
//! request(s) for a (uniformly at) random amount of time between 0.5 to 1 second" (§4.2).

use disktime_core::{Duration, Instant};
use disktime_model::{Completion, Device, Op};

/// How often.
const REQUESTS: u32 = 5000;
/// How long, in ms, and by how much at most longer.
const PAUSE_MS: (u64, u64) = (500, 500);

/// A device that is reached through a gate, which now and then is shut.
pub(super) struct Pauses {
    device: Box<dyn Device>,
    random: u64,
    /// Requests until the gate shuts.
    left: u32,
    /// When it shut last.
    shut: Option<Instant>,
    opens: Instant,
    held: Vec<(u64, Op)>,
}

impl Pauses {
    pub(super) fn new(device: Box<dyn Device>, seed: u64) -> Self {
        // Its own stream of the seed; any odd number will do.
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { device, random, left: REQUESTS, shut: None, opens: Instant::ZERO, held: Vec::new() }
    }

    /// Uniform over the pauses' lengths, to the ms.
    fn length(&mut self) -> Duration {
        // xorshift64 (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (least, spread) = PAUSE_MS;
        Duration::from_millis(least + self.random % (spread + 1))
    }

    fn let_through(&mut self, now: Instant) {
        if self.opens <= now {
            for (tag, op) in std::mem::take(&mut self.held) {
                self.device.submit(now, tag, op);
            }
        }
    }
}

impl Device for Pauses {
    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    fn queue_depth(&self) -> u32 {
        self.device.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.let_through(now);
        self.left -= 1;
        if self.left == 0 {
            self.left = REQUESTS;
            self.shut = Some(now);
            self.opens = now + self.length();
        }
        if self.opens > now {
            self.held.push((tag, op));
        } else {
            self.device.submit(now, tag, op);
        }
    }

    /// The gate's opening counts as one: the caller looks again then.
    fn next_completion(&self) -> Option<Instant> {
        let opens = (!self.held.is_empty()).then_some(self.opens);
        [opens, self.device.next_completion()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.device.advance(now, done);
        self.let_through(now);
    }

    fn pause(&self) -> Option<(Instant, Instant)> {
        self.shut.map(|shut| (shut, self.opens))
    }
}
