//! Two tiers: a fast device and a slow one, side by side.
//!
//! A [`Placement`] says which tier serves a request. [`HitRatio`] draws it with a given probability,
//! by region of the device (a virtual disk is a region), [`Cached`] remembers what was accessed; a
//! closure may decide by request and time.
//!
//! Does not know: the time of promoting, demoting or destaging data. Offsets beyond the fast
//! device's capacity wrap round on it.

use crate::device::{Completion, Device, Op};
use crate::members::Members;
use disktime_core::{Instant, Kind, Tier};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;

/// Decides which tier serves a request; called once each, in order of submission.
pub trait Placement: Send {
    /// The tier of a request that arrives at `now`. Not called for flushes: both tiers get them.
    fn tier(&mut self, now: Instant, op: Op) -> Tier;
}

impl<F: FnMut(Instant, Op) -> Tier + Send> Placement for F {
    fn tier(&mut self, now: Instant, op: Op) -> Tier {
        self(now, op)
    }
}

/// Draws hits with a given probability for each region of the device.
#[derive(Debug)]
pub struct HitRatio {
    /// End in bytes (rising) and hits per million.
    regions: Vec<(u64, u32)>,
    random: Pcg64,
}

impl HitRatio {
    /// One ratio for the whole device, in hits per million.
    #[must_use]
    pub fn everywhere(hits_ppm: u32, seed: u64) -> Self {
        Self::by_region(vec![(u64::MAX, hits_ppm)], seed)
    }

    /// Hits per million of each region, given by its end in bytes; beyond the last nothing hits.
    ///
    /// # Panics
    /// If ends don't rise or a ratio is above a million.
    #[must_use]
    pub fn by_region(regions: Vec<(u64, u32)>, seed: u64) -> Self {
        assert!(regions.is_sorted_by(|a, b| a.0 < b.0), "ends must rise: {regions:?}");
        assert!(regions.iter().all(|region| region.1 <= 1_000_000), "ratios: {regions:?}");
        Self { regions, random: Pcg64::seed_from_u64(seed) }
    }
}

impl Placement for HitRatio {
    fn tier(&mut self, _now: Instant, op: Op) -> Tier {
        let region = self.regions.partition_point(|region| region.0 <= op.offset);
        let ppm = self.regions.get(region).map_or(0, |region| region.1);
        if self.random.random_range(0..1_000_000) < ppm { Tier::Fast } else { Tier::Slow }
    }
}

/// A read cache on the fast tier, in lines, least recently used out first. A read hits if all of
/// its lines are there; a miss brings them in; writes go through to the slow tier and leave in the
/// cache what is there.
#[derive(Debug)]
pub struct Cached {
    line_bytes: u64,
    lines: usize,
    /// When each line was last used, by line; and the reverse.
    used: BTreeMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl Cached {
    /// A cache of so many lines.
    ///
    /// # Panics
    /// If either is zero.
    #[must_use]
    pub fn new(lines: usize, line_bytes: u64) -> Self {
        assert!(lines > 0 && line_bytes > 0, "a cache of {lines} lines of {line_bytes} bytes");
        let (used, by_use) = (BTreeMap::new(), BTreeMap::new());
        Self { line_bytes, lines, used, by_use, uses: 0 }
    }

    /// Marks a line as used: whether it was there.
    fn touch(&mut self, line: u64) -> bool {
        self.uses += 1;
        let before = self.used.insert(line, self.uses);
        self.by_use.insert(self.uses, line);
        match before {
            Some(before) => {
                self.by_use.remove(&before);
            }
            None if self.used.len() > self.lines => {
                if let Some((_, oldest)) = self.by_use.pop_first() {
                    self.used.remove(&oldest);
                }
            }
            None => {}
        }
        before.is_some()
    }
}

impl Placement for Cached {
    fn tier(&mut self, _now: Instant, op: Op) -> Tier {
        if !matches!(op.kind, Kind::Read | Kind::Cache) {
            return Tier::Slow;
        }
        let lines = op.offset / self.line_bytes..(op.offset + op.bytes).div_ceil(self.line_bytes);
        // All are touched, whether or not the first was there.
        let hits = lines.clone().filter(|&line| self.touch(line)).count();
        if hits as u64 == lines.end - lines.start { Tier::Fast } else { Tier::Slow }
    }
}

/// A fast and a slow device behind one face, as large as the slow one.
pub struct Tiered {
    members: Members,
    placement: Box<dyn Placement>,
    tells: bool,
}

const FAST: usize = 0;
const SLOW: usize = 1;

impl Tiered {
    /// Two tiers; they hold together as many requests as each alone.
    #[must_use]
    pub fn new(
        fast: Box<dyn Device>,
        slow: Box<dyn Device>,
        placement: Box<dyn Placement>,
    ) -> Self {
        Self { members: Members::new(vec![fast, slow]), placement, tells: true }
    }

    /// The same as a black box: it does not tell which tier served a request.
    #[must_use]
    pub fn untold(self) -> Self {
        Self { tells: false, ..self }
    }

    /// The same as [`Device::submit`], with the tier given by the caller, which may know the
    /// stream.
    ///
    /// # Panics
    /// As [`Device::submit`].
    pub fn submit_to(&mut self, now: Instant, tag: u64, op: Op, tier: Tier) {
        assert!(op.bytes > 0 || op.kind == Kind::Flush, "{op:?} is empty");
        let end = op.offset.checked_add(op.bytes);
        let inside = end.is_some_and(|end| end <= self.capacity_bytes());
        assert!(inside || op.kind == Kind::Flush, "{op:?} is past the end");
        let parts = match (op.kind, tier) {
            (Kind::Flush, _) => [Some((FAST, op)), Some((SLOW, op))],
            (_, Tier::Fast) => [Some((FAST, self.on_fast(op))), None],
            (_, Tier::Slow) => [Some((SLOW, op)), None],
        };
        let tier = (op.kind != Kind::Flush && self.tells).then_some(tier);
        self.members.submit(now, tag, tier, parts.into_iter().flatten());
    }

    /// As [`Device::submit`], in parts that the caller has placed, each at its place on its tier;
    /// it is done when all are. Parts on one tier are submitted in their order.
    ///
    /// # Panics
    /// As [`Device::submit`], and without a part.
    pub fn submit_parts(
        &mut self,
        now: Instant,
        tag: u64,
        parts: impl IntoIterator<Item = (Tier, Op), IntoIter: Clone>,
    ) {
        let parts = parts.into_iter();
        let tier = Tier::of_all(parts.clone().map(|(tier, _)| tier)).filter(|_| self.tells);
        let parts = parts.map(|(tier, op)| {
            let member = if tier == Tier::Fast { FAST } else { SLOW };
            assert!(op.bytes > 0 || op.kind == Kind::Flush, "{op:?} is empty");
            (member, op)
        });
        let capacities = [FAST, SLOW].map(|member| self.members.capacity_bytes(member));
        let parts = parts.inspect(|&(member, op)| {
            let end = op.offset.checked_add(op.bytes);
            let inside = end.is_some_and(|end| end <= capacities[member]);
            assert!(inside || op.kind == Kind::Flush, "{op:?} is past the end of its tier");
        });
        self.members.submit(now, tag, tier, parts);
    }

    /// The fast tier's size in bytes.
    #[must_use]
    pub fn fast_bytes(&self) -> u64 {
        self.members.capacity_bytes(FAST)
    }

    /// Where the fast device has it: at its own offset, modulo what there is room for.
    fn on_fast(&self, op: Op) -> Op {
        let capacity = self.members.capacity_bytes(FAST);
        let bytes = op.bytes.min(capacity);
        if op.offset + bytes <= capacity {
            return Op { bytes, ..op };
        }
        Op { offset: op.offset % (capacity - bytes + 1) / 512 * 512, bytes, ..op }
    }
}

impl Device for Tiered {
    fn capacity_bytes(&self) -> u64 {
        self.members.capacity_bytes(SLOW)
    }

    fn queue_depth(&self) -> u32 {
        self.members.queue_depth()
    }

    fn submit(&mut self, now: Instant, tag: u64, op: Op) {
        let tier = match op.kind {
            Kind::Flush => Tier::Slow,
            _ => self.placement.tier(now, op),
        };
        self.submit_to(now, tag, op, tier);
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

    fn read(offset: u64, bytes: u64) -> Op {
        Op { kind: Kind::Read, offset, bytes, fua: false }
    }

    fn hits(placement: &mut dyn Placement, ops: impl Iterator<Item = Op>) -> usize {
        ops.filter(|&op| placement.tier(Instant::ZERO, op) == Tier::Fast).count()
    }

    #[test]
    fn hits_are_drawn_by_region() {
        let mut ratio = HitRatio::by_region(vec![(1000, 1_000_000), (2000, 250_000)], 1);
        assert_eq!(hits(&mut ratio, (0..100).map(|_| read(999, 1))), 100);
        let drawn = hits(&mut ratio, (0..10_000).map(|_| read(1000, 1)));
        assert!((2_300..2_700).contains(&drawn), "{drawn}");
        assert_eq!(hits(&mut ratio, (0..100).map(|_| read(2000, 1))), 0);
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut cache = Cached::new(2, 100);
        let mut hit = |offset| cache.tier(Instant::ZERO, read(offset, 50)) == Tier::Fast;
        assert!(!hit(0) && !hit(100) && hit(0) && !hit(200));
        // Line 1 has gone, line 0 has stayed.
        assert!(hit(0) && !hit(100));
        assert_eq!(cache.used.len(), 2);
        assert_eq!(cache.by_use.len(), 2);
        // Lines 0 and 1 are there, 2 is not.
        assert_eq!(hits(&mut cache, [read(0, 101), read(199, 2)].into_iter()), 1);
    }

    #[test]
    fn the_hit_ratio_follows_from_the_accesses() {
        // Uniform over twice as many lines as there are: half of them hit.
        let mut cache = Cached::new(500, 4096);
        let mut random = Pcg64::seed_from_u64(1);
        let mut next = || read(random.random_range(0..1000_u64) * 4096, 4096);
        hits(&mut cache, std::iter::repeat_with(&mut next).take(5_000));
        let counted = hits(&mut cache, std::iter::repeat_with(&mut next).take(10_000));
        assert!((4_700..5_300).contains(&counted), "{counted}");
    }

    #[test]
    fn parts_that_the_caller_placed_are_done_when_the_last_is() {
        let server = |ms| {
            let mean = disktime_core::Duration::from_millis(ms);
            let spec =
                ExponentialSpec { service: Service::Constant, ..crate::preset::exponential(mean) };
            Box::new(Exponential::new(spec, 1))
        };
        let nowhere = Box::new(HitRatio::everywhere(0, 1));
        let mut tiered = Tiered::new(server(1), server(10), nowhere);
        let parts = [(Tier::Fast, read(0, 512)), (Tier::Slow, read(512, 512))];
        tiered.submit_parts(Instant::ZERO, 1, [parts[0], parts[1], parts[0]]);
        tiered.submit_parts(Instant::ZERO, 2, [parts[0]]);
        let mut done = Vec::new();
        tiered.advance(Instant::from_nanos(100_000_000), &mut done);
        let done: Vec<_> = done.iter().map(|it| (it.tag, it.at.as_nanos() / 1_000_000)).collect();
        assert_eq!(done, [(2, 3), (1, 10)]);
    }

    #[test]
    fn bytes_beyond_the_fast_device_wrap_round() {
        let small = crate::preset::find("exp").expect("a preset");
        let slow = (small.build)(1);
        let tiered = Tiered::new((small.build)(1), slow, Box::new(HitRatio::everywhere(0, 1)));
        let last = read(tiered.capacity_bytes() - 512, 512);
        assert_eq!(tiered.on_fast(last), last);
    }
}
