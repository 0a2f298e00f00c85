//! Writes, writes with FUA and flushes of several connections, and what they entitle to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use disktime_client::Connection;

use crate::lower::now;
use crate::stack::BYTES;

pub const BLOCK: usize = 4096;
const BLOCKS: usize = BYTES as usize / BLOCK;
const EXTENT: usize = (1 << 20) / BLOCK;
/// Blocks of the longest write.
const RUN_MAX: usize = 8;

/// A block's values, oldest first: what it had, then each that was sent. One write of it is under
/// way at a time.
#[derive(Clone, Default)]
struct Block {
    sent: Vec<u64>,
    /// The last one acknowledged, and the last one that is to be durable, by place.
    acknowledged: usize,
    durable: usize,
    busy: bool,
}

/// The contents that the virtual disk may have.
pub struct Model(Mutex<State>);

struct State {
    blocks: Vec<Block>,
    next: u64,
}

/// The result of a round, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    pub flushed: u64,
    pub lost: u64,
    /// The longest time that a request took, if that is asked for.
    pub pause: Duration,
}

impl Model {
    /// A disk full of zeroes.
    pub fn new() -> Self {
        let block = Block { sent: vec![0], ..Block::default() };
        Self(Mutex::new(State { blocks: vec![block; BLOCKS], next: 1 }))
    }

    /// A write of some blocks begins: none of them is being written. Answers the first value.
    fn begin(&self, first: usize, count: usize) -> Option<u64> {
        let mut state = self.0.lock().unwrap();
        let value = state.next;
        let blocks = &mut state.blocks[first..first + count];
        if blocks.iter().any(|block| block.busy) {
            return None;
        }
        for (value, block) in (value..).zip(blocks) {
            block.busy = true;
            block.sent.push(value);
        }
        state.next += count as u64;
        Some(value)
    }

    fn acknowledged(&self, first: usize, count: usize, durable: bool) {
        for block in &mut self.0.lock().unwrap().blocks[first..first + count] {
            block.busy = false;
            block.acknowledged = block.sent.len() - 1;
            if durable {
                block.durable = block.acknowledged;
            }
        }
    }

    /// The writes that a flush that begins now makes durable.
    fn mark(&self) -> Vec<usize> {
        self.0.lock().unwrap().blocks.iter().map(|block| block.acknowledged).collect()
    }

    fn flushed(&self, mark: &[usize]) {
        for (block, mark) in self.0.lock().unwrap().blocks.iter_mut().zip(mark) {
            block.durable = block.durable.max(*mark);
        }
    }

    /// Compares with what is there, after a crash that spares at least what was flushed, or what
    /// was acknowledged. The contents found are made durable, and are where the next round begins.
    pub fn verify(&self, client: &mut Connection, spares_acknowledged: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut state = self.0.lock().unwrap();
        let mut data = vec![0; 64 * BLOCK];
        for first in (0..BLOCKS).step_by(64) {
            client.read((first * BLOCK) as u64, &mut data).unwrap();
            for (at, data) in (first..).zip(data.chunks(BLOCK)) {
                let block = &mut state.blocks[at];
                let found = u64::from_le_bytes(data[..8].try_into().unwrap());
                let least = if spares_acknowledged { block.acknowledged } else { block.durable };
                let whole = data.chunks(8).all(|word| word == &data[..8]);
                if least > 0 {
                    outcome.flushed += BLOCK as u64;
                }
                if !whole || !block.sent[least..].contains(&found) {
                    if outcome.lost == 0 {
                        let Block { sent, acknowledged, durable, .. } = &block;
                        eprintln!(
                            "block {at} has {found} (whole: {whole}) of {sent:?}; acknowledged: \
                             {acknowledged}, flushed: {durable}"
                        );
                    }
                    outcome.lost += BLOCK as u64;
                }
                *block = Block { sent: vec![found], ..Block::default() };
            }
        }
        client.flush().unwrap();
        outcome
    }

    /// One connection's load until it is told to stop or is refused something; answers the longest time
    /// that a request took, unless it was refused something.
    pub fn load(&self, client: &mut Connection, seed: u64, stop: &AtomicBool) -> Option<Duration> {
        let (mut random, mut longest) = (Random(seed), Duration::ZERO);
        let mut data = vec![0; RUN_MAX * BLOCK];
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let begun = now();
            // Two extents that change from time to time, for tiers to move, and now and then any.
            let hot = (seed as usize % 7 + number / 40 * 3) % 11 * EXTENT;
            let any = random.below(BLOCKS);
            let first = if number % 9 == 0 { any } else { hot + random.below(2 * EXTENT) };
            let count = (1 + random.below(RUN_MAX)).min(BLOCKS - first);
            let ended = match random.below(20) {
                0..3 => {
                    let mark = self.mark();
                    client.flush().map(|()| self.flushed(&mark))
                }
                3..6 => client.read((first * BLOCK) as u64, &mut data[..BLOCK]),
                choice => {
                    let Some(value) = self.begin(first, count) else { continue };
                    for (value, block) in (value..).zip(data.chunks_mut(BLOCK).take(count)) {
                        block.copy_from_slice(&value.to_le_bytes().repeat(BLOCK / 8));
                    }
                    let fua = choice >= 15;
                    let data = &data[..count * BLOCK];
                    let done = client.write((first * BLOCK) as u64, data, fua);
                    done.map(|()| self.acknowledged(first, count, fua))
                }
            };
            longest = longest.max(begun.elapsed());
            if ended.is_err() {
                return None;
            }
        }
        Some(longest)
    }
}

/// Knuth's 64-bit generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
