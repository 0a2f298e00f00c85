//! A disk in memory with a write cache that forgets: what a power loss leaves is tested below
//! daemons with it.
//!
//! Writes are acknowledged from the cache. A flush makes all of it stable, a write with FUA its own
//! blocks. When the power is cut each block of 4 KiB that is still in the cache is lost with
//! probability one half, by a seed and its place alone, and the disk refuses everything until it is
//! powered on again with what has survived. [`Volatile`] is the hand on the plug, on any thread;
//! [`VolatileBackEnd`] is the disk on its shard. The lock between them is held for no wait.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disktime_core::Kind;

use super::{Abilities, BackEnd, DeviceError, Io, Job, Step};
use crate::buffers::ALIGN;
use crate::ring::Keep;

const EIO: DeviceError = DeviceError(libc::EIO);

/// Counts of operations that have reached the disk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Writes, zeroes and trims.
    pub writes: u64,
    /// Writes with FUA; `writes` includes them.
    pub fua: u64,
    /// Flushes, also those that failed on purpose.
    pub flushes: u64,
}

/// The disks of a device, from outside.
#[derive(Clone)]
pub struct Volatile(Arc<Mutex<Disks>>);

struct Disks {
    disks: Vec<Disk>,
    /// Counts power losses: a back end of an earlier life is refused.
    life: u64,
    seen: Seen,
    failing: u32,
}

struct Disk {
    stable: Vec<u8>,
    /// By block: what is not stable yet.
    cache: BTreeMap<usize, [u8; ALIGN]>,
}

impl Volatile {
    /// Disks of these sizes in bytes, full of zeroes.
    #[must_use]
    pub fn new(sizes: &[u64]) -> Self {
        let disk = |bytes: &u64| Disk {
            stable: vec![0; size(bytes.next_multiple_of(ALIGN as u64))],
            cache: BTreeMap::new(),
        };
        let disks = sizes.iter().map(disk).collect();
        Self(Arc::new(Mutex::new(Disks { disks, life: 0, seen: Seen::default(), failing: 0 })))
    }

    /// The disks, powered on, for a shard.
    #[must_use]
    pub fn back_end(&self) -> VolatileBackEnd {
        VolatileBackEnd { life: self.lock().life, disks: self.clone() }
    }

    /// Cuts the power. Answers how many blocks were lost, of how many that were in the cache.
    pub fn cut(&self, seed: u64) -> (usize, usize) {
        let mut disks = self.lock();
        disks.life += 1;
        let (mut lost, mut cached) = (0, 0);
        for (at, disk) in (0..).zip(&mut disks.disks) {
            for (block, data) in std::mem::take(&mut disk.cache) {
                cached += 1;
                if forgets(seed, at, block) {
                    lost += 1;
                } else {
                    disk.stable[block * ALIGN..(block + 1) * ALIGN].copy_from_slice(&data);
                }
            }
        }
        (lost, cached)
    }

    /// The next so many flushes fail, and so do writes with FUA: what they were to make stable
    /// stays in the cache.
    pub fn fail_flushes(&self, count: u32) {
        self.lock().failing = count;
    }

    /// The operations that have reached the disks so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.lock().seen
    }

    /// Bytes that a power loss would put in doubt now.
    #[must_use]
    pub fn unflushed(&self) -> u64 {
        let blocks: usize = self.lock().disks.iter().map(|disk| disk.cache.len()).sum();
        (blocks * ALIGN) as u64
    }

    fn lock(&self) -> MutexGuard<'_, Disks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The disks, on their shard.
pub struct VolatileBackEnd {
    disks: Volatile,
    life: u64,
}

impl Disks {
    fn run(&mut self, job: &Job) -> Result<(), DeviceError> {
        let changes = matches!(job.kind, Kind::Write | Kind::Zeroes | Kind::Trim);
        self.seen.writes += u64::from(changes);
        self.seen.fua += u64::from(changes && job.fua);
        self.seen.flushes += u64::from(job.kind == Kind::Flush);
        let disk = &mut self.disks[job.disk as usize];
        if job.offset.checked_add(job.bytes).is_none_or(|end| end > disk.stable.len() as u64) {
            return Err(DeviceError(libc::EINVAL));
        }
        for (block, within, place) in blocks(job) {
            match job.kind {
                Kind::Read => {
                    let to = job.at + place;
                    match disk.cache.get(&block) {
                        Some(data) => job.data().put(to, &data[within]),
                        None => {
                            let start = block * ALIGN;
                            let data = &disk.stable[start + within.start..start + within.end];
                            job.data().put(to, data);
                        }
                    }
                }
                Kind::Write => job.data().get(job.at + place, &mut disk.cached(block)[within]),
                Kind::Zeroes | Kind::Trim => disk.cached(block)[within].fill(0),
                Kind::Flush | Kind::Cache => {}
            }
        }
        let syncs = job.kind == Kind::Flush || (changes && job.fua);
        if syncs && self.failing > 0 {
            self.failing -= 1;
            return Err(EIO);
        }
        // The cache is the device's: a flush is of all its disks.
        if job.kind == Kind::Flush {
            self.disks.iter_mut().for_each(|disk| disk.settle(0..usize::MAX));
        } else if changes && job.fua {
            let last = size(job.offset + job.bytes).div_ceil(ALIGN);
            self.disks[job.disk as usize].settle(size(job.offset) / ALIGN..last);
        }
        Ok(())
    }
}

impl Disk {
    /// A block in the cache, with what it has now.
    fn cached(&mut self, block: usize) -> &mut [u8; ALIGN] {
        let stable = &self.stable[block * ALIGN..];
        self.cache
            .entry(block)
            .or_insert_with(|| *stable.first_chunk().expect("disks are of whole blocks"))
    }

    /// These blocks are stable from now on.
    fn settle(&mut self, blocks: Range<usize>) {
        let inside: Vec<usize> = self.cache.range(blocks).map(|(block, _)| *block).collect();
        for block in inside {
            if let Some(data) = self.cache.remove(&block) {
                self.stable[block * ALIGN..(block + 1) * ALIGN].copy_from_slice(&data);
            }
        }
    }
}

/// The blocks that a job touches: which, which of its bytes, and where in the job's data those are.
fn blocks(job: &Job) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    let (start, end) = (size(job.offset), size(job.offset + job.bytes));
    (start / ALIGN..end.div_ceil(ALIGN)).map(move |block| {
        let (from, to) = (start.max(block * ALIGN), end.min((block + 1) * ALIGN));
        (block, from - block * ALIGN..to - block * ALIGN, from - start)
    })
}

/// Whether a block is lost: by a mix of the seed and its place (the finalizer of splitmix64).
fn forgets(seed: u64, disk: u64, block: usize) -> bool {
    let mut mixed = seed ^ (disk << 48) ^ (block as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) & 1 == 1
}

impl BackEnd for VolatileBackEnd {
    fn start(&mut self, _id: u32, job: &mut Job, _io: &mut Io<'_>) -> Step {
        let mut disks = self.disks.lock();
        Step::Done(if disks.life == self.life { disks.run(job) } else { Err(EIO) })
    }

    fn finished(&mut self, _: u32, _: u32, _: &mut Job, _: (Keep, i32), _: &mut Io<'_>) -> Step {
        Step::Done(Err(EIO))
    }

    fn unblocked(&mut self) -> Option<u32> {
        None
    }

    fn resume(&mut self, _: u32, _: &mut Job, _: &mut Io<'_>) -> Step {
        Step::Done(Err(EIO))
    }

    fn abilities(&self) -> Abilities {
        Abilities::all(true)
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory is addressable")
}
