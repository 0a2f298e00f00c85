//! Contents in memory, in chunks that exist once written.

use super::{Abilities, BackEnd, DeviceError, Io, Job, Step};
use crate::ring::Keep;
use disktime_core::Kind;

/// Bytes in a chunk: what trimming gives back.
const CHUNK: u64 = 64 << 10;

type Chunk = Box<[u8]>;

/// Virtual disks whose contents end with the process.
pub struct MemoryBackEnd {
    disks: Vec<Memory>,
}

/// One virtual disk.
struct Memory {
    bytes: u64,
    chunks: Vec<Option<Chunk>>,
}

impl MemoryBackEnd {
    /// Disks of these sizes, full of zeroes.
    #[must_use]
    pub fn new(sizes: &[u64]) -> Self {
        let disk = |&bytes: &u64| Memory { bytes, chunks: vec![None; size(bytes.div_ceil(CHUNK))] };
        Self { disks: sizes.iter().map(disk).collect() }
    }

    /// Calls `each` with every chunk of an extent, the range within it, and its place in the
    /// extent.
    fn walk(
        &mut self,
        job: &Job,
        mut each: impl FnMut(&mut Option<Chunk>, std::ops::Range<usize>, usize),
    ) {
        let disk = &mut self.disks[job.disk as usize].chunks;
        let (mut at, end) = (job.offset, job.offset + job.bytes);
        while at < end {
            let stop = (at / CHUNK + 1) * CHUNK;
            let stop = stop.min(end);
            let start = size(at % CHUNK);
            let chunk = &mut disk[size(at / CHUNK)];
            each(chunk, start..start + size(stop - at), size(at - job.offset));
            at = stop;
        }
    }

    fn run(&mut self, job: &Job) {
        match job.kind {
            Kind::Read => {
                let (buffer, base) = (job.data(), job.at);
                self.walk(job, |chunk, range, place| match chunk {
                    Some(chunk) => buffer.put(base + place, &chunk[range]),
                    None => buffer.clear(&(base + place..base + place + range.len())),
                });
            }
            Kind::Write => {
                let (buffer, base) = (job.data(), job.at);
                self.walk(job, |chunk, range, place| {
                    let chunk = chunk.get_or_insert_with(|| vec![0; size(CHUNK)].into());
                    buffer.get(base + place, &mut chunk[range]);
                });
            }
            Kind::Trim | Kind::Zeroes => self.walk(job, |chunk, range, _| {
                if range.len() == size(CHUNK) {
                    *chunk = None;
                } else if let Some(chunk) = chunk {
                    chunk[range].fill(0);
                }
            }),
            Kind::Flush | Kind::Cache => {}
        }
    }
}

impl BackEnd for MemoryBackEnd {
    fn start(&mut self, _id: u32, job: &mut Job, _io: &mut Io<'_>) -> Step {
        let len = self.disks[job.disk as usize].bytes;
        if job.offset.checked_add(job.bytes).is_none_or(|end| end > len) {
            return Step::Done(Err(DeviceError(libc::EINVAL)));
        }
        self.run(job);
        Step::Done(Ok(()))
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

    fn abilities(&self) -> Abilities {
        Abilities::all(true)
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory is addressable")
}
