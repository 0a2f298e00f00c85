//! Contents in memory, in chunks that exist once written. A chunk that the system has no memory for
//! fails the write that needs it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use super::{Abilities, BackEnd, DeviceError, Io, Job, Step, Survey};
use crate::ring::Keep;
use disktime_core::Kind;

/// Bytes in a chunk: what trimming gives back.
const CHUNK: u64 = 64 << 10;
/// Chunks that are looked at for one description: some 50 us.
const CHUNKS_MAX: usize = 4096;

type Chunk = Box<[u8]>;

/// Virtual disks whose contents end with the process.
pub struct MemoryBackEnd {
    disks: Vec<Memory>,
}

/// One virtual disk.
#[derive(Default)]
struct Memory {
    bytes: u64,
    /// By their place: only those that were written are there, so that a thousand large disks with
    /// nothing in them take no memory.
    chunks: BTreeMap<u64, Chunk>,
}

impl MemoryBackEnd {
    /// Disks of these sizes, full of zeroes.
    #[must_use]
    pub fn new(sizes: &[u64]) -> Self {
        let disk = |&bytes: &u64| Memory { bytes, chunks: BTreeMap::new() };
        Self { disks: sizes.iter().map(disk).collect() }
    }

    /// Calls `each` with the place of every chunk of an extent, the range within it, and its place in
    /// the extent.
    fn walk(job: &Job, mut each: impl FnMut(u64, Range<usize>, usize)) {
        let (mut at, end) = (job.offset, job.offset + job.bytes);
        while at < end {
            let stop = ((at / CHUNK + 1) * CHUNK).min(end);
            let start = size(at % CHUNK);
            each(at / CHUNK, start..start + size(stop - at), size(at - job.offset));
            at = stop;
        }
    }

    fn run(&mut self, job: &mut Job) -> Result<(), DeviceError> {
        let chunks = &mut self.disks[job.disk as usize].chunks;
        let mut full = false;
        match job.kind {
            Kind::Read => {
                let (buffer, base) = (job.data(), job.at);
                Self::walk(job, |at, range, place| match chunks.get(&at) {
                    Some(chunk) => buffer.put(base + place, &chunk[range]),
                    None => buffer.clear(&(base + place..base + place + range.len())),
                });
            }
            Kind::Write => {
                let (buffer, base) = (job.data(), job.at);
                Self::walk(job, |at, range, place| {
                    let chunk = match chunks.entry(at) {
                        Entry::Occupied(chunk) => Some(chunk.into_mut()),
                        Entry::Vacant(room) => zeroes().map(|chunk| room.insert(chunk)),
                    };
                    full |= chunk.is_none();
                    if let Some(chunk) = chunk {
                        buffer.get(base + place, &mut chunk[range]);
                    }
                });
            }
            Kind::Trim | Kind::Zeroes => Self::walk(job, |at, range, _| {
                if range.len() == size(CHUNK) {
                    chunks.remove(&at);
                } else if let Some(chunk) = chunks.get_mut(&at) {
                    chunk[range].fill(0);
                }
            }),
            Kind::Cache => {
                if let Some(survey) = &mut job.survey {
                    describe(chunks, survey);
                }
            }
            Kind::Flush => {}
        }
        if full { Err(DeviceError(libc::ENOMEM)) } else { Ok(()) }
    }
}

/// Describes an extent: so many chunks of it at once.
fn describe(chunks: &BTreeMap<u64, Chunk>, survey: &mut Survey) {
    let (mut at, end) = (survey.extent.start, survey.extent.end);
    for (place, _) in chunks.range(at / CHUNK..end.div_ceil(CHUNK)).take(CHUNKS_MAX) {
        let (start, stop) = ((place * CHUNK).max(at), ((place + 1) * CHUNK).min(end));
        if !survey.push(start - at, true) || !survey.push(stop - start, false) {
            return;
        }
        at = stop;
    }
    // The rest is a hole, unless there are chunks that were not looked at.
    if chunks.range(at.div_ceil(CHUNK)..end.div_ceil(CHUNK)).next().is_none() {
        survey.push(end - at, true);
    }
}

/// A new chunk, if the system has memory.
fn zeroes() -> Option<Chunk> {
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(size(CHUNK)).ok()?;
    chunk.resize(size(CHUNK), 0);
    Some(chunk.into_boxed_slice())
}

impl BackEnd for MemoryBackEnd {
    fn start(&mut self, _id: u32, job: &mut Job, _io: &mut Io<'_>) -> Step {
        let len = self.disks[job.disk as usize].bytes;
        if job.offset.checked_add(job.bytes).is_none_or(|end| end > len) {
            return Step::Done(Err(DeviceError(libc::EINVAL)));
        }
        Step::Done(self.run(job))
    }

    fn finished(&mut self, _: u32, _: u32, _: &mut Job, _: (Keep, i32), _: &mut Io<'_>) -> Step {
        Step::Done(Err(DeviceError(libc::EIO)))
    }

    fn unblocked(&mut self) -> Option<u32> {
        None
    }

    fn resume(&mut self, _: u32, _: &mut Job, _: &mut Io<'_>) -> Step {
        Step::Done(Err(DeviceError(libc::EIO)))
    }

    fn add_disk(&mut self, disk: u32, extent: Range<u64>) -> Result<(), DeviceError> {
        let disk = disk as usize;
        self.disks.resize_with(self.disks.len().max(disk + 1), Memory::default);
        self.disks[disk].bytes = extent.end - extent.start;
        Ok(())
    }

    fn grow_disk(&mut self, disk: u32, bytes: u64) -> Result<(), DeviceError> {
        let disk = &mut self.disks[disk as usize];
        // A disk that becomes smaller and larger again has zeroes there.
        if bytes < disk.bytes {
            disk.chunks.split_off(&bytes.div_ceil(CHUNK));
            if let Some(chunk) = disk.chunks.get_mut(&(bytes / CHUNK)) {
                chunk[size(bytes % CHUNK)..].fill(0);
            }
        }
        disk.bytes = bytes;
        Ok(())
    }

    fn remove_disk(&mut self, disk: u32) {
        self.disks[disk as usize] = Memory::default();
    }

    fn abilities(&self) -> Abilities {
        Abilities::of_files(true)
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory is addressable")
}
