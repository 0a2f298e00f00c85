//! Contents in memory, in regions that exist once something in them was written. A region that the
//! system has no memory for fails the write that needs it. Reads are answered from here, without a
//! copy: see [`BackEnd::lend`].

use std::ops::Range;

use super::{Abilities, BackEnd, DeviceError, Io, Job, Step, Survey};
use crate::buffers::Buffer;
use crate::ring::{Keep, Payload};
use disktime_core::Kind;

/// Bytes in a chunk: what trimming gives back, and what a description tells apart.
const CHUNK: u64 = 64 << 10;
/// Chunks in a region.
const CHUNKS: u64 = 32;
/// Bytes in a region, which are in one piece. Pages of it exist once they were written.
const REGION: u64 = CHUNK * CHUNKS;
/// Chunks that are looked at for one description: some 50 us.
const CHUNKS_MAX: u64 = 4096;

/// Virtual disks whose contents end with the process.
pub struct MemoryBackEnd {
    disks: Vec<Memory>,
}

/// One virtual disk.
#[derive(Default)]
struct Memory {
    bytes: u64,
    /// By their place, up to the last one that was written: a thousand large disks with nothing in
    /// them take no memory.
    regions: Vec<Option<Region>>,
}

struct Region {
    buffer: Buffer,
    /// A bit for each chunk that was written.
    written: u32,
}

impl MemoryBackEnd {
    pub(crate) const ABILITIES: Abilities = Abilities::of_files(true);

    /// Disks of these sizes, full of zeroes.
    #[must_use]
    pub fn new(sizes: &[u64]) -> Self {
        let disk = |&bytes: &u64| Memory { bytes, regions: Vec::new() };
        Self { disks: sizes.iter().map(disk).collect() }
    }

    fn run(&mut self, job: &mut Job) -> Result<(), DeviceError> {
        let memory = &mut self.disks[job.disk as usize];
        match job.kind {
            Kind::Read => memory.read(job),
            Kind::Write => return memory.write(job),
            Kind::Trim | Kind::Zeroes => memory.free(&job.extent()),
            Kind::Cache => {
                if let Some(survey) = &mut job.survey {
                    memory.describe(survey);
                }
            }
            Kind::Flush => {}
        }
        Ok(())
    }
}

/// Calls `each` with the place of every region of an extent, the range within it, and its place in the
/// extent.
fn walk(extent: &Range<u64>, mut each: impl FnMut(usize, Range<usize>, usize)) {
    let mut at = extent.start;
    while at < extent.end {
        let stop = ((at / REGION + 1) * REGION).min(extent.end);
        let start = size(at % REGION);
        each(size(at / REGION), start..start + size(stop - at), size(at - extent.start));
        at = stop;
    }
}

/// The bits of the chunks that a range of a region touches.
fn chunks_of(range: &Range<usize>) -> u32 {
    let (first, end) = (range.start as u64 / CHUNK, (range.end as u64).div_ceil(CHUNK));
    let below =
        |chunk: u64| u32::try_from((1_u64 << chunk) - 1).expect("a region has 32 chunks at most");
    below(end) & !below(first)
}

impl Memory {
    fn region(&self, place: usize) -> Option<&Region> {
        self.regions.get(place)?.as_ref()
    }

    fn read(&self, job: &Job) {
        let (to, base) = (job.data(), job.at);
        walk(&job.extent(), |place, range, within| {
            let at = base + within;
            match self.region(place) {
                // A read that is answered from here.
                Some(region) if region.buffer.is_same(to) => {}
                Some(region) => to.put_from(at, &region.buffer, &range),
                None => to.clear(&(at..at + range.len())),
            }
        });
    }

    fn write(&mut self, job: &Job) -> Result<(), DeviceError> {
        let (from, base) = (job.data(), job.at);
        let mut full = false;
        walk(&job.extent(), |place, range, within| {
            let Some(region) = self.make_region(place) else {
                full = true;
                return;
            };
            region.written |= chunks_of(&range);
            let at = base + within;
            region.buffer.put_from(range.start, from, &(at..at + range.len()));
        });
        if full { Err(DeviceError(libc::ENOMEM)) } else { Ok(()) }
    }

    /// The region there, which exists afterwards unless the system has no memory.
    fn make_region(&mut self, place: usize) -> Option<&mut Region> {
        if place >= self.regions.len() {
            self.regions.try_reserve(place + 1 - self.regions.len()).ok()?;
            self.regions.resize_with(place + 1, || None);
        }
        let slot = &mut self.regions[place];
        if slot.is_none() {
            *slot = Some(Region { buffer: Buffer::mapped(size(REGION))?, written: 0 });
        }
        slot.as_mut()
    }

    /// Makes an extent zeroes; chunks that lie in it as a whole go back to the system.
    fn free(&mut self, extent: &Range<u64>) {
        walk(extent, |place, range, _| {
            let Some(slot) = self.regions.get_mut(place) else { return };
            let Some(region) = slot else { return };
            let chunk = size(CHUNK);
            let whole = range.start.next_multiple_of(chunk)..range.end / chunk * chunk;
            if whole.is_empty() {
                return region.clear(&range);
            }
            region.clear(&(range.start..whole.start));
            region.clear(&(whole.end..range.end));
            region.written &= !chunks_of(&whole);
            // A reply that is not sent yet may have the region: it keeps no pages of it, and has zeroes.
            region.buffer.release(&whole);
            if region.written == 0 {
                *slot = None;
            }
        });
    }

    /// Describes an extent: so many chunks of it at once.
    fn describe(&self, survey: &mut Survey) {
        let (start, end) = (survey.extent.start, survey.extent.end);
        let mut at = start;
        for _ in 0..CHUNKS_MAX {
            if at >= end {
                return;
            }
            let place = size(at / REGION);
            let region = self.region(place);
            let mut stop = match region {
                Some(_) => (at / CHUNK + 1) * CHUNK,
                // Up to the next region that is there, if any.
                None => {
                    let rest = self.regions.get(place..).unwrap_or_default();
                    let next = rest.iter().take(size(CHUNKS_MAX)).position(Option::is_some);
                    let looked = rest.len().min(size(CHUNKS_MAX));
                    match next {
                        Some(gap) => (place + gap) as u64 * REGION,
                        None if looked == rest.len() => end,
                        None => (place + looked) as u64 * REGION,
                    }
                }
            };
            stop = stop.min(end);
            let bit = at % REGION / CHUNK;
            let hole = region.is_none_or(|region| region.written >> bit & 1 == 0);
            if !survey.push(stop - at, hole) {
                return;
            }
            at = stop;
        }
    }
}

impl Region {
    /// Writes zeroes over a range, where anything was written.
    fn clear(&self, range: &Range<usize>) {
        if self.written & chunks_of(range) != 0 && !range.is_empty() {
            self.buffer.clear(range);
        }
    }
}

impl BackEnd for MemoryBackEnd {
    fn start(&mut self, _id: u32, job: &mut Job, _io: &mut Io<'_>) -> Step {
        let len = self.disks[job.disk as usize].bytes;
        if job.offset.checked_add(job.bytes).is_none_or(|end| end > len) {
            return Step::Done(Err(DeviceError(libc::EINVAL)));
        }
        Step::Done(self.run(job))
    }

    fn lend(&self, disk: u32, extent: &Range<u64>) -> Option<Payload> {
        let memory = self.disks.get(disk as usize).filter(|memory| extent.end <= memory.bytes)?;
        let (place, start) = (size(extent.start / REGION), size(extent.start % REGION));
        let end = start + size(extent.end - extent.start);
        let region = memory.region(place).filter(|_| end <= size(REGION))?;
        Some((region.buffer.clone(), start..end))
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
            disk.free(&(bytes..disk.regions.len() as u64 * REGION));
            disk.regions.truncate(size(bytes.div_ceil(REGION)));
        }
        disk.bytes = bytes;
        Ok(())
    }

    fn remove_disk(&mut self, disk: u32) {
        self.disks[disk as usize] = Memory::default();
    }

    fn abilities(&self) -> Abilities {
        Self::ABILITIES
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory is addressable")
}
