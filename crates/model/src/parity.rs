//! RAID 4 and 5: chunks dealt out over all members of a stripe but one, which has their parity.
//!
//! - Level 4 keeps the parity on the last member. Level 5 moves it by one member for each stripe, from
//!   the last down, and begins the stripe's data behind it: "left symmetric", the usual layout.
//! - Reads are those of RAID 0: the members that hold the data, in parts that go out together.
//! - A write of a whole stripe writes data and parity at once. For a part of one, the old data and
//!   the old parity under it are read first, and when all of these are there, data and parity are
//!   written (read-modify-write): four operations for a small write. A write over several stripes
//!   reads what it has to of all of them, then writes.
//! - A flush goes to every member; a trim to those with the data.
//!
//! Source: Patterson, Gibson & Katz, "A case for redundant arrays of inexpensive disks (RAID)",
//! SIGMOD 1988; Chen et al., "RAID: high-performance, reliable secondary storage", ACM Computing
//! Surveys 26(2), 1994.
//!
//! Does not know: failures, rebuilding, a controller's own time or cache, writes that wait for others to
//! the same stripe, or working out parity from the data that a write leaves alone.

use crate::device::{Completion, Device, Op};
use crate::members::Members;
use disktime_core::{Instant, Kind};

/// Where parity lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// On the last member.
    Four,
    /// On another member in each stripe.
    Five,
}

/// A stripe set with parity over devices of any kind.
pub struct Parity {
    members: Members,
    level: Level,
    chunk_bytes: u64,
    capacity_bytes: u64,
}

/// A request's operations at members.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    first: Vec<(usize, Op)>,
    /// When all of these are done.
    then: Vec<(usize, Op)>,
}

impl Parity {
    /// As many members as there have to be.
    pub const MEMBERS_MIN: usize = 3;

    /// Stripes `devices` in chunks of `chunk_bytes`; each contributes as many whole chunks as the
    /// smallest has, and one chunk of each stripe is parity.
    ///
    /// # Panics
    /// With fewer than [`Self::MEMBERS_MIN`] devices, or if the chunk isn't a positive multiple of 512
    /// that fits into each.
    #[must_use]
    pub fn new(level: Level, devices: Vec<Box<dyn Device>>, chunk_bytes: u64) -> Self {
        let whole = chunk_bytes > 0 && chunk_bytes.is_multiple_of(512);
        assert!(whole, "a chunk of {chunk_bytes} bytes");
        let members = Members::new(devices);
        assert!(members.count() >= Self::MEMBERS_MIN, "parity over {} members", members.count());
        let smallest = (0..members.count()).map(|index| members.capacity_bytes(index)).min();
        let chunks = smallest.unwrap_or(0) / chunk_bytes;
        assert!(chunks > 0, "no chunk of {chunk_bytes} bytes fits into {smallest:?} bytes");
        let capacity_bytes = chunks * chunk_bytes * (members.count() as u64 - 1);
        Self { members, level, chunk_bytes, capacity_bytes }
    }

    /// The member with a stripe's parity.
    fn parity_of(&self, stripe: u64) -> usize {
        let count = self.members.count() as u64;
        let back = match self.level {
            Level::Four => 0,
            Level::Five => stripe % count,
        };
        usize::try_from(count - 1 - back).expect("a member's place")
    }

    /// The member with the data chunk at that place in a stripe.
    fn data_of(&self, stripe: u64, place: u64) -> usize {
        let place = usize::try_from(place).expect("a member's place");
        match self.level {
            Level::Four => place,
            Level::Five => (self.parity_of(stripe) + 1 + place) % self.members.count(),
        }
    }

    fn stripe_bytes(&self) -> u64 {
        self.chunk_bytes * (self.members.count() as u64 - 1)
    }

    fn parts(&self, op: Op) -> Parts {
        let mut parts = Parts::default();
        if op.kind == Kind::Flush {
            parts.first = (0..self.members.count()).map(|member| (member, op)).collect();
            return parts;
        }
        let writes = matches!(op.kind, Kind::Write | Kind::Zeroes);
        let (end, stripe_bytes) = (op.offset + op.bytes, self.stripe_bytes());
        let mut from = op.offset;
        while from < end {
            let stripe = from / stripe_bytes;
            let until = end.min((stripe + 1) * stripe_bytes);
            let whole = until - from == stripe_bytes;
            let mut touched = (self.chunk_bytes, 0);
            while from < until {
                let (place, within) =
                    (from % stripe_bytes / self.chunk_bytes, from % self.chunk_bytes);
                let bytes = (self.chunk_bytes - within).min(until - from);
                touched = (touched.0.min(within), touched.1.max(within + bytes));
                let offset = stripe * self.chunk_bytes + within;
                let part = (self.data_of(stripe, place), Op { offset, bytes, ..op });
                parts.add(part, writes, whole);
                from += bytes;
            }
            if writes {
                let (first, end) = touched;
                let offset = stripe * self.chunk_bytes + first;
                let part = (self.parity_of(stripe), Op { offset, bytes: end - first, ..op });
                parts.add(part, writes, whole);
            }
        }
        if parts.first.is_empty() {
            core::mem::swap(&mut parts.first, &mut parts.then);
        }
        parts
    }
}

impl Parts {
    /// A chunk's part: read, or read (unless the whole stripe is new) and then written.
    fn add(&mut self, (member, op): (usize, Op), writes: bool, whole: bool) {
        if !writes {
            return join(&mut self.first, member, op);
        }
        if !whole {
            join(&mut self.first, member, Op { kind: Kind::Read, fua: false, ..op });
        }
        join(&mut self.then, member, op);
    }
}

/// Adds a part, joined with the last one of its member if it goes on there.
fn join(parts: &mut Vec<(usize, Op)>, member: usize, op: Op) {
    let last = parts.iter_mut().rev().find(|(of, _)| *of == member);
    match last {
        Some((_, last)) if last.offset + last.bytes == op.offset => last.bytes += op.bytes,
        _ => parts.push((member, op)),
    }
}

impl Device for Parity {
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
        let Parts { first, then } = self.parts(op);
        self.members.submit_in_turn(now, (tag, None), first.into_iter(), then);
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

    const CHUNK: u64 = 1024;

    /// Reads take 1 ms, writes 2.
    fn server() -> Box<dyn Device> {
        let spec = ExponentialSpec {
            capacity_bytes: 10_000,
            queue_depth: 4,
            read_mean: Duration::from_millis(1),
            write_mean: Duration::from_millis(2),
            service: Service::Constant,
        };
        Box::new(Exponential::new(spec, 1))
    }

    fn raid(level: Level, members: u32) -> Parity {
        Parity::new(level, (0..members).map(|_| server()).collect(), CHUNK)
    }

    fn op(kind: Kind, offset: u64, bytes: u64) -> Op {
        Op { kind, offset, bytes, fua: false }
    }

    /// When each of these is done, in ms, all submitted at once.
    fn times(raid: &mut Parity, ops: &[Op]) -> Vec<(u64, u64)> {
        (0..).zip(ops).for_each(|(tag, op)| raid.submit(Instant::ZERO, tag, *op));
        let mut done = Vec::new();
        raid.advance(Instant::from_nanos(1_000_000_000), &mut done);
        done.iter().map(|it| (it.tag, it.at.as_nanos() / 1_000_000)).collect()
    }

    #[test]
    fn a_chunk_of_each_stripe_is_parity() {
        for level in [Level::Four, Level::Five] {
            let raid = raid(level, 4);
            assert_eq!(raid.capacity_bytes(), 3 * 9 * CHUNK);
            assert_eq!(raid.queue_depth(), 16);
        }
    }

    #[test]
    fn parity_stays_on_level_4_and_goes_round_on_level_5() {
        let layout = |level| {
            let raid = raid(level, 4);
            let stripe =
                |stripe| (raid.parity_of(stripe), [0, 1, 2].map(|it| raid.data_of(stripe, it)));
            [0, 1, 2, 3, 4].map(stripe)
        };
        assert_eq!(layout(Level::Four), [(3, [0, 1, 2]); 5]);
        let rounds = [(3, [0, 1, 2]), (2, [3, 0, 1]), (1, [2, 3, 0]), (0, [1, 2, 3])];
        assert_eq!(layout(Level::Five)[..4], rounds);
        assert_eq!(layout(Level::Five)[4], rounds[0]);
    }

    /// Every byte once, each stripe's parity beside its data.
    #[test]
    fn data_and_parity_never_overlap() {
        for level in [Level::Four, Level::Five] {
            let raid = raid(level, 5);
            let mut seen = std::collections::BTreeSet::new();
            for chunk in 0..raid.capacity_bytes() / CHUNK {
                let parts = raid.parts(op(Kind::Read, chunk * CHUNK, CHUNK));
                let [(member, part)] = parts.first[..] else { panic!("{parts:?}") };
                assert_eq!((part.bytes, parts.then.len()), (CHUNK, 0));
                assert!(seen.insert((member, part.offset)), "{level:?} {chunk}");
                assert_ne!(member, raid.parity_of(chunk / 4), "{level:?} {chunk}");
            }
        }
    }

    #[test]
    fn a_small_write_reads_and_writes_data_and_parity() {
        let raid = raid(Level::Five, 4);
        let Parts { first, then } = raid.parts(op(Kind::Write, CHUNK + 512, 256));
        let at = |kind| [(1, op(kind, 512, 256)), (3, op(kind, 512, 256))];
        assert_eq!(first, at(Kind::Read));
        assert_eq!(then, at(Kind::Write));
    }

    #[test]
    fn a_whole_stripe_is_written_without_reading() {
        let raid = raid(Level::Four, 4);
        let Parts { first, then } = raid.parts(op(Kind::Write, 3 * CHUNK, 3 * CHUNK));
        assert_eq!(first, [0, 1, 2, 3].map(|member| (member, op(Kind::Write, CHUNK, CHUNK))));
        assert!(then.is_empty());
        // A stripe and a half: only what is under the half is read.
        let Parts { first, then } = raid.parts(op(Kind::Write, 0, 3 * CHUNK + 512));
        assert_eq!(first, [0, 3].map(|member| (member, op(Kind::Read, CHUNK, 512))));
        let long = |member| (member, op(Kind::Write, 0, CHUNK + 512));
        let short = |member| (member, op(Kind::Write, 0, CHUNK));
        assert_eq!(then, [long(0), short(1), short(2), long(3)]);
    }

    #[test]
    fn a_small_write_takes_a_read_and_then_a_write() {
        let small = op(Kind::Write, 0, 512);
        assert_eq!(times(&mut raid(Level::Five, 3), &[small]), [(0, 3)]);
        let whole = op(Kind::Write, 0, 2 * CHUNK);
        assert_eq!(times(&mut raid(Level::Five, 3), &[whole]), [(0, 2)]);
        let read = op(Kind::Read, 0, 512);
        assert_eq!(times(&mut raid(Level::Five, 3), &[read]), [(0, 1)]);
        assert_eq!(times(&mut raid(Level::Five, 3), &[op(Kind::Flush, 0, 0)]).len(), 1);
    }

    /// Small writes to three stripes: on level 4 all of them wait for the one parity disk.
    #[test]
    fn level_4_is_as_fast_as_its_parity_and_level_5_is_not_held_back() {
        let writes = [0, 4, 6].map(|chunk| op(Kind::Write, chunk * CHUNK, 512));
        let last = |level| times(&mut raid(level, 4), &writes).last().map(|(_, ms)| *ms);
        assert_eq!(last(Level::Four), Some(3 + 3 * 2), "three reads, then three writes");
        assert!(last(Level::Five) < last(Level::Four));
    }
}
