//! "We send requests in a RAID 0 fashion rather than using a true RAID" (§4.1): whole requests are
//! dealt out over disks, so that the experimenter knows which disk has which, and with one command
//! at a disk at a time also how long each took: since the disk's completion before. Neither QBox nor
//! the engine is told.

use disktime_core::{Duration, Instant};
use disktime_model::{Completion, Device, Op};
use std::sync::{Arc, Mutex, PoisonError};

/// The part of the device that is dealt out at a time.
const CHUNK: u64 = 4096;
/// Streams lie this far apart in their chunks: the disks don't care, and what a disk did can be told
/// apart by stream.
pub(super) const STREAM_STEP: u64 = 512;

/// Disk time of one stream, of its sequential requests and of the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    pub(super) time: [Duration; 2],
    pub(super) requests: [u64; 2],
}

/// By span of time, then stream.
pub(super) type Ledger = Arc<Mutex<Vec<Vec<Took>>>>;

struct Disk {
    device: Box<dyn Device>,
    done: Vec<Completion>,
    /// When it completed something last.
    last: Instant,
}

/// An operation inside.
#[derive(Clone, Copy, Default)]
struct Inside {
    stream: usize,
    random: bool,
    at: Instant,
}

pub(super) struct Striped {
    disks: Vec<Disk>,
    span: Duration,
    ledger: Ledger,
    /// By tag.
    inside: Vec<Inside>,
    /// Where each stream's latest operations ended.
    ends: Vec<[u64; NEIGHBOURS]>,
    submitted: Vec<usize>,
    /// Kept to save the allocation.
    collected: Vec<(Completion, usize)>,
}

/// As many as QBox looks at: true costs are by its own notion of what is sequential.
const NEIGHBOURS: usize = 16;

impl Striped {
    pub(super) fn new(devices: Vec<Box<dyn Device>>, streams: usize, span: Duration) -> Self {
        let disk = |device| Disk { device, done: Vec::new(), last: Instant::ZERO };
        Self {
            disks: devices.into_iter().map(disk).collect(),
            span,
            ledger: Ledger::default(),
            inside: Vec::new(),
            ends: vec![[u64::MAX; NEIGHBOURS]; streams],
            submitted: vec![0; streams],
            collected: Vec::new(),
        }
    }

    pub(super) fn ledger(&self) -> Ledger {
        Arc::clone(&self.ledger)
    }

    fn enter(&mut self, now: Instant, tag: u64, op: Op) {
        let stream = usize::try_from(op.offset % CHUNK / STREAM_STEP).expect("below 8");
        let random = !self.ends[stream].contains(&op.offset);
        let turn = self.submitted[stream] % NEIGHBOURS;
        self.ends[stream][turn] = op.offset + op.bytes;
        self.submitted[stream] += 1;
        let slot = usize::try_from(tag).expect("tags are slots");
        if slot >= self.inside.len() {
            self.inside.resize(slot + 1, Inside::default());
        }
        self.inside[slot] = Inside { stream, random, at: now };
    }

    fn note(&mut self, disk: usize, completion: Completion) {
        let slot = usize::try_from(completion.tag).expect("tags are slots");
        let Inside { stream, random, at } = self.inside[slot];
        let began = self.disks[disk].last.max(at);
        self.disks[disk].last = completion.at;
        let span = completion.at.as_nanos() / self.span.as_nanos();
        let span = usize::try_from(span).expect("runs are short");
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if span >= ledger.len() {
            ledger.resize(span + 1, vec![Took::default(); self.ends.len()]);
        }
        let took = &mut ledger[span][stream];
        let sort = usize::from(random);
        took.time[sort] += completion.at.since(began);
        took.requests[sort] += 1;
    }
}

impl Device for Striped {
    fn capacity_bytes(&self) -> u64 {
        let smallest = self.disks.iter().map(|disk| disk.device.capacity_bytes()).min();
        // A chunk less: streams are shifted against it.
        (smallest.unwrap_or(0) / CHUNK - 1) * CHUNK * self.disks.len() as u64
    }

    fn queue_depth(&self) -> u32 {
        self.disks[0].device.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        self.enter(now, tag, op);
        let (chunk, disks) = (op.offset / CHUNK, self.disks.len() as u64);
        let offset = chunk / disks * CHUNK + op.offset % CHUNK;
        let disk = usize::try_from(chunk % disks).expect("there are few disks");
        self.disks[disk].device.submit(now, tag, Op { offset, ..op });
    }

    fn next_completion(&self) -> Option<Instant> {
        self.disks.iter().filter_map(|disk| disk.device.next_completion()).min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let mut collected = std::mem::take(&mut self.collected);
        for (index, disk) in self.disks.iter_mut().enumerate() {
            disk.device.advance(now, &mut disk.done);
            collected.extend(disk.done.drain(..).map(|completion| (completion, index)));
        }
        collected.sort_by_key(|(completion, index)| (completion.at, *index));
        for (completion, disk) in collected.drain(..) {
            self.note(disk, completion);
            done.push(completion);
        }
        self.collected = collected;
    }
}
