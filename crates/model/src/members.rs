//! Devices behind one device: requests go to some of them in parts and are done when all parts are.
//!
//! A part that finds its member full waits in front of it, first come, first served, and goes in
//! when the member has completed something, at that very time. A request may have more parts that
//! begin when its first ones are done.
//!
//! Does not know: which part goes where.

use crate::device::{Completion, Device, Op};
use disktime_core::{Instant, Tier};
use std::collections::VecDeque;

/// A request that is split, by its slot.
#[derive(Debug)]
struct Whole {
    tag: u64,
    parts_left: u32,
    /// Operations that begin when these are done, each with its member.
    then: Vec<(usize, Op)>,
    tier: Option<Tier>,
}

struct Member {
    device: Box<dyn Device>,
    inside: u32,
    /// Slot and part, waiting for room.
    waiting: VecDeque<(u64, Op)>,
}

pub(crate) struct Members {
    members: Vec<Member>,
    wholes: Vec<Whole>,
    free_slots: Vec<usize>,
    /// Complete and not yet collected.
    done: Vec<Completion>,
    /// Kept to save the allocation.
    collected: Vec<Completion>,
    /// Slots whose next parts begin: empty but within a step.
    continuing: Vec<usize>,
    inside: usize,
    queue_depth: u32,
    now: Instant,
}

impl Members {
    /// The whole holds as many requests as its members do together.
    pub(crate) fn new(devices: Vec<Box<dyn Device>>) -> Self {
        assert!(!devices.is_empty(), "a device of no members");
        let depths = devices.iter().map(|device| device.queue_depth());
        let queue_depth = depths.fold(0_u32, u32::saturating_add);
        let member = |device| Member { device, inside: 0, waiting: VecDeque::new() };
        Self {
            members: devices.into_iter().map(member).collect(),
            wholes: Vec::new(),
            free_slots: Vec::new(),
            done: Vec::new(),
            collected: Vec::new(),
            continuing: Vec::new(),
            inside: 0,
            queue_depth,
            now: Instant::ZERO,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    pub(crate) fn capacity_bytes(&self, index: usize) -> u64 {
        self.members[index].device.capacity_bytes()
    }

    /// Begins a request at `now`: its parts, each with its member, and the tier that they are all
    /// on.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        tag: u64,
        tier: Option<Tier>,
        parts: impl Iterator<Item = (usize, Op)>,
    ) {
        self.submit_in_turn(now, (tag, tier), parts, Vec::new());
    }

    /// The same, and when all these parts are done, at that very time, `then` begins.
    pub(crate) fn submit_in_turn(
        &mut self,
        now: Instant,
        (tag, tier): (u64, Option<Tier>),
        parts: impl Iterator<Item = (usize, Op)>,
        then: Vec<(usize, Op)>,
    ) {
        self.run_until(now);
        assert!(self.inside < self.queue_depth as usize, "above the queue depth");
        self.inside += 1;
        let whole = Whole { tag, parts_left: 0, then, tier };
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.wholes[slot] = whole;
                slot
            }
            None => {
                self.wholes.push(whole);
                self.wholes.len() - 1
            }
        };
        self.begin(now, slot, parts);
    }

    /// These parts of a request go to their members.
    fn begin(&mut self, now: Instant, slot: usize, parts: impl Iterator<Item = (usize, Op)>) {
        let name = u64::try_from(slot).expect("slots are below the queue depth");
        for (index, part) in parts {
            self.wholes[slot].parts_left += 1;
            let member = &mut self.members[index];
            member.waiting.push_back((name, part));
            member.feed(now);
        }
        assert!(self.wholes[slot].parts_left > 0, "a request of no parts");
    }

    pub(crate) fn next_completion(&self) -> Option<Instant> {
        // A member's next completion may complete only a part. A whole's completion isn't known
        // without running ahead, which the contract allows to be announced early but not late; so
        // this says when to look next.
        let done = self.done.first().map(|completion| completion.at);
        done.or_else(|| self.next_event())
    }

    fn next_event(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.device.next_completion()).min()
    }

    pub(crate) fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.run_until(now);
        self.inside -= self.done.len();
        done.append(&mut self.done);
    }

    /// Runs the members to `now`, completion by completion, in order of time.
    fn run_until(&mut self, now: Instant) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            for member in &mut self.members {
                if member.device.next_completion() != Some(at) {
                    continue;
                }
                member.device.advance(at, &mut self.collected);
                for Completion { tag: name, .. } in self.collected.drain(..) {
                    member.inside -= 1;
                    let slot = usize::try_from(name).expect("a slot that submit gave");
                    let whole = &mut self.wholes[slot];
                    whole.parts_left -= 1;
                    if whole.parts_left > 0 {
                        continue;
                    }
                    if whole.then.is_empty() {
                        self.done.push(Completion { tag: whole.tag, at, tier: whole.tier });
                        self.free_slots.push(slot);
                    } else {
                        self.continuing.push(slot);
                    }
                }
                member.feed(at);
            }
            while let Some(slot) = self.continuing.pop() {
                let then = std::mem::take(&mut self.wholes[slot].then);
                self.begin(at, slot, then.into_iter());
            }
        }
    }
}

impl Member {
    /// Gives the device what waits, as far as it has room.
    fn feed(&mut self, now: Instant) {
        while self.inside < self.device.queue_depth() {
            let Some((name, part)) = self.waiting.pop_front() else { return };
            self.inside += 1;
            self.device.submit(now, name, part);
        }
    }
}
