//! RAID 0: chunks dealt out over members in turn.
//!
//! A request becomes at most one part a member, since what a request touches on one member is
//! contiguous there; it is done when all parts are. A flush goes to every member.
//!
//! Does not know: failures, parity, a controller's own time or cache.

use crate::device::{Completion, Device, Op};
use crate::members::Members;
use disktime_core::{Instant, Kind};

/// A stripe set over devices of any kind.
pub struct Raid0 {
    members: Members,
    chunk_bytes: u64,
    capacity_bytes: u64,
}

impl Raid0 {
    /// Stripes `devices` in chunks of `chunk_bytes`; each contributes as many whole chunks as the
    /// smallest has.
    ///
    /// # Panics
    /// Without devices, or if the chunk isn't a positive multiple of 512 that fits into each.
    #[must_use]
    pub fn new(devices: Vec<Box<dyn Device>>, chunk_bytes: u64) -> Self {
        let whole = chunk_bytes > 0 && chunk_bytes.is_multiple_of(512);
        assert!(whole, "a chunk of {chunk_bytes} bytes");
        let members = Members::new(devices);
        let smallest = (0..members.count()).map(|index| members.capacity_bytes(index)).min();
        let chunks = smallest.unwrap_or(0) / chunk_bytes;
        assert!(chunks > 0, "no chunk of {chunk_bytes} bytes fits into {smallest:?} bytes");
        let capacity_bytes = chunks * chunk_bytes * members.count() as u64;
        Self { members, chunk_bytes, capacity_bytes }
    }

    /// The part of `op` on member `index`, if it has one.
    fn part(&self, op: Op, index: usize) -> Option<Op> {
        if op.kind == Kind::Flush {
            return Some(op);
        }
        let end = op.offset + op.bytes;
        let first = self.before(op.offset, index);
        let bytes = self.before(end, index) - first;
        (bytes > 0).then_some(Op { offset: first, bytes, ..op })
    }

    /// How many of the first `offset` bytes lie on member `index`.
    fn before(&self, offset: u64, index: usize) -> u64 {
        let (stripe, within) = self.split(offset);
        let skipped = index as u64 * self.chunk_bytes;
        stripe * self.chunk_bytes + within.saturating_sub(skipped).min(self.chunk_bytes)
    }

    /// The stripe that an offset is in, and where in it.
    fn split(&self, offset: u64) -> (u64, u64) {
        let stripe_bytes = self.chunk_bytes * self.members.count() as u64;
        (offset / stripe_bytes, offset % stripe_bytes)
    }
}

impl Device for Raid0 {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn queue_depth(&self) -> u32 {
        self.members.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        if op.kind != Kind::Flush {
            assert!(op.bytes > 0, "{op:?} is empty");
            let end = op.offset.checked_add(op.bytes);
            assert!(end.is_some_and(|end| end <= self.capacity_bytes), "{op:?} is past the end");
        }
        let mut parts: Vec<(usize, Op)> = Vec::with_capacity(self.members.count());
        parts.extend((0..self.members.count()).filter_map(|i| Some((i, self.part(op, i)?))));
        self.members.submit(now, tag, None, parts.into_iter());
    }

    fn next_completion(&self) -> Option<Instant> {
        self.members.next_completion()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.members.advance(now, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exponential::{Exponential, ExponentialSpec, Service};
    use disktime_core::Duration;

    fn server(ms: u64) -> Box<dyn Device> {
        let mean = Duration::from_millis(ms);
        let spec = ExponentialSpec {
            capacity_bytes: 10_000,
            queue_depth: 2,
            read_mean: mean,
            write_mean: mean,
            service: Service::Constant,
        };
        Box::new(Exponential::new(spec, 1))
    }

    fn read(offset: u64, bytes: u64) -> Op {
        Op { kind: Kind::Read, offset, bytes, fua: false }
    }

    #[test]
    fn whole_chunks_of_the_smallest_count() {
        let raid = Raid0::new(vec![server(1), server(1), server(1)], 1024);
        assert_eq!(raid.capacity_bytes(), 3 * 9 * 1024);
        assert_eq!(raid.queue_depth(), 6);
    }

    #[test]
    fn a_request_is_contiguous_on_each_member() {
        let raid = Raid0::new(vec![server(1), server(1)], 1024);
        let parts = |offset, bytes| [0, 1].map(|index| raid.part(read(offset, bytes), index));
        assert_eq!(parts(0, 1024), [Some(read(0, 1024)), None]);
        assert_eq!(parts(1024, 512), [None, Some(read(0, 512))]);
        assert_eq!(parts(512, 4096), [Some(read(512, 2048 - 512 + 512)), Some(read(0, 2048))]);
    }

    #[test]
    fn it_is_done_when_all_parts_are() {
        let mut raid = Raid0::new(vec![server(1), server(3)], 1024);
        raid.submit(Instant::ZERO, 1, read(0, 2048));
        raid.submit(Instant::ZERO, 2, read(0, 1024));
        let mut done = Vec::new();
        raid.advance(Instant::from_nanos(10_000_000), &mut done);
        let times: Vec<(u64, u64)> =
            done.iter().map(|it| (it.tag, it.at.as_nanos() / 1_000_000)).collect();
        assert_eq!(times, [(2, 2), (1, 3)]);
    }

    #[test]
    fn a_part_that_finds_a_member_full_goes_in_when_it_has_room() {
        let mut raid = Raid0::new(vec![server(1), server(1)], 1024);
        for tag in 0..4 {
            raid.submit(Instant::ZERO, tag, read(0, 512));
        }
        let mut done = Vec::new();
        raid.advance(Instant::from_nanos(10_000_000), &mut done);
        assert_eq!(done.last().map(|it| it.at.as_nanos()), Some(4_000_000));
    }
}
