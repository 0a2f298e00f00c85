//! The hit rate that a stream would have with a cache to itself that keeps the blocks used last.
//!
//! A share is worth what its owner would do alone in that part of the time, with the whole cache
//! then. Among others it has a part of the cache, which grows with what it does there: a price by the
//! hits of today is one that service has changed, and who is cold stays so.
//!
//! Che's approximation, learned: of a cache of so many blocks that drops what was used longest ago a
//! block goes when it was not used for a span that is the same for all, counted in pieces. If one
//! span divides hits from misses, the fast tier is such a cache, and has as many blocks as are asked
//! for in that span: the integral of the part of intervals that are longer (Hu et al., USENIX ATC
//! 2016). The same of a stream's own intervals alone says for how many of its pieces it would keep a
//! block, and so which part would hit.
//!
//! Blocks are a sample by their hash, fewer where there are many (Waldspurger et al., FAST 2015).
//!
//! Does not know: how long blocks of a cache are, or a cache that keeps by another rule. Where no
//! span divides hits from misses it says nothing.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::ONE;
use crate::cost::{SeenOnTier, Used};
use crate::types::by_stream::ByStream;
use crate::types::ids::StreamId;
use crate::types::tiers::Tier;

/// Bytes of a block: a piece counts by the one that it begins in.
const BLOCK: u64 = 4096;
/// So many blocks are a sample.
const BLOCKS: usize = 4096;
/// A block that was not used for so many pieces goes.
const FAR: u64 = 1 << 22;
/// Intervals by quarters of a doubling, up to 2^32 pieces.
const BUCKETS: usize = 128;
/// The most intervals that are kept of a stream, and of all: half are forgotten when there are more.
const OWN: u32 = 2048;
const ALL: u32 = 8192;
/// So many hits and misses, or of a stream, say something.
const ENOUGH: u32 = 64;
/// The hit rate alone is worked out anew after so many.
const AGAIN: u32 = 64;
/// So often it stands while no span divides hits from misses: the span has moved, perhaps.
const STANDS: u32 = 32;
/// A span divides hits from misses if it is wrong in one of so many of either.
const WRONG: u32 = 4;

#[derive(Default)]
pub(super) struct Reuse {
    /// When each block was used last: in pieces of all, and of its stream.
    last: BTreeMap<(StreamId, u64), [u64; 2]>,
    /// The sample has one block in 2^this.
    rarely: u32,
    /// Pieces so far.
    at: u64,
    hits: Intervals,
    misses: Intervals,
    streams: ByStream<Own>,
}

#[derive(Clone)]
struct Own {
    at: u64,
    intervals: Intervals,
    /// The part that would hit alone, of [`ONE`], and how many are to be seen until that is worked
    /// out anew.
    hits: Option<i128>,
    until: u32,
    /// How often that could not be done since.
    stands: u32,
}

impl Reuse {
    /// A stream's piece goes out that begins there. Answers when its block was used before, if that
    /// is in the sample.
    pub(super) fn sent(&mut self, stream: StreamId, offset: u64) -> Option<Used> {
        let own = self.streams.get_or_insert_with(stream, Own::new);
        (self.at, own.at) = (self.at + 1, own.at + 1);
        let (now, block) = ([self.at, own.at], offset / BLOCK);
        let used = is_sampled(block, self.rarely).then(|| {
            let before = self.last.insert((stream, block), now);
            let since = |of: usize| before.map(|before| now[of] - before[of]);
            Used { of_all: since(0), own: since(1) }
        });
        self.bound();
        used
    }

    /// A tier served a piece.
    pub(super) fn seen(&mut self, seen: &SeenOnTier) {
        let stream = seen.piece.stream;
        let (Some(used), Some(own)) = (seen.used, self.streams.get_mut(stream)) else { return };
        own.intervals.add(used.own);
        if own.intervals.sum > OWN {
            own.intervals.halve();
        }
        let fast = seen.tier == Tier::Fast;
        let all = if fast { &mut self.hits } else { &mut self.misses };
        all.add(used.of_all);
        if self.hits.sum + self.misses.sum > ALL {
            self.hits.halve();
            self.misses.halve();
        }
        if let Some(until) = own.until.checked_sub(1) {
            own.until = until;
            return;
        }
        own.until = AGAIN;
        let hits = self.work_out(stream);
        if let Some(own) = self.streams.get_mut(stream) {
            own.stands = if hits.is_some() { 0 } else { own.stands.saturating_add(1) };
            if own.stands == 0 || own.stands > STANDS {
                own.hits = hits;
            }
        }
    }

    /// The part of a stream's pieces that would hit if it were alone, of [`ONE`].
    pub(super) fn hits_alone(&self, stream: StreamId) -> Option<i128> {
        self.streams.get(stream)?.hits
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.streams.remove(stream);
        self.last.retain(|(of, _), _| *of != stream);
    }

    fn work_out(&self, stream: StreamId) -> Option<i128> {
        let own = self.streams.get(stream).filter(|own| own.intervals.sum >= ENOUGH)?;
        let span = self.span()?;
        let all = self.hits.plus(&self.misses);
        let blocks = all.blocks(span);
        Some(own.intervals.within(blocks))
    }

    /// The bucket from which on what was used so long ago is gone.
    fn span(&self) -> Option<usize> {
        let least = self.hits.sum.min(self.misses.sum);
        let (mut wrong, mut best) = (self.hits.sum, (self.hits.sum, 0));
        for bucket in 0..BUCKETS {
            wrong = wrong + self.misses.counts[bucket] - self.hits.counts[bucket];
            best = best.min((wrong, bucket + 1));
        }
        (least >= ENOUGH && best.0 <= least / WRONG).then_some(best.1)
    }

    /// Keeps the sample small, and lets those go that were not used for long.
    fn bound(&mut self) {
        if self.last.len() > BLOCKS {
            self.rarely += 1;
            let rarely = self.rarely;
            self.last.retain(|(_, block), _| is_sampled(*block, rarely));
        } else if self.at.is_multiple_of(FAR) {
            let (now, far) = (self.at, FAR << self.rarely.min(16));
            self.last.retain(|_, [of_all, _]| now - *of_all < far);
            if self.last.len() < BLOCKS / 4 {
                self.rarely = self.rarely.saturating_sub(1);
            }
        }
    }
}

impl Own {
    fn new() -> Self {
        Self { at: 0, intervals: Intervals::default(), hits: None, until: AGAIN, stands: 0 }
    }
}

/// How many pieces passed until a block was used again.
#[derive(Clone)]
struct Intervals {
    counts: Vec<u32>,
    /// The number of blocks that were not used before.
    first: u32,
    sum: u32,
}

impl Default for Intervals {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], first: 0, sum: 0 }
    }
}

impl Intervals {
    fn add(&mut self, interval: Option<u64>) {
        match interval {
            Some(interval) => self.counts[bucket(interval)] += 1,
            None => self.first += 1,
        }
        self.sum += 1;
    }

    fn halve(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.first /= 2;
        self.sum = self.first + self.counts.iter().sum::<u32>();
    }

    fn plus(&self, other: &Self) -> Self {
        let counts = self.counts.iter().zip(&other.counts).map(|(one, more)| one + more);
        let (first, sum) = (self.first + other.first, self.sum + other.sum);
        Self { counts: counts.collect(), first, sum }
    }

    /// How many blocks are asked for in a span that ends where a bucket begins, in parts of [`ONE`]
    /// of a block.
    fn blocks(&self, end: usize) -> i128 {
        let mut longer = i128::from(self.sum);
        let mut area = 2 * longer;
        for bucket in 0..end {
            let rest = longer - i128::from(self.counts[bucket]);
            area += (longer + rest) * width(bucket);
            longer = rest;
        }
        area * ONE / (2 * i128::from(self.sum)).max(1)
    }

    /// The part of intervals in which fewer blocks are asked for, of [`ONE`].
    fn within(&self, blocks: i128) -> i128 {
        let all = i128::from(self.sum).max(1);
        let (most, mut longer) = (blocks * 2 * all / ONE, all);
        let mut area = 2 * longer;
        for bucket in 0..BUCKETS {
            let count = i128::from(self.counts[bucket]);
            let step = (2 * longer - count) * width(bucket);
            if area + step > most {
                let part = (most - area).max(0) * ONE / step.max(1);
                return (all - longer) * ONE / all + count * part / all;
            }
            (area, longer) = (area + step, longer - count);
        }
        (all - longer) * ONE / all
    }
}

fn is_sampled(block: u64, rarely: u32) -> bool {
    // Fibonacci hashing: the high bits are mixed.
    let hash = block.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    hash.wrapping_mul(0x9E37_79B9_7F4A_7C15).leading_zeros() >= rarely
}

fn bucket(interval: u64) -> usize {
    let interval = interval.clamp(1, u64::from(u32::MAX));
    let bits = interval.ilog2();
    let quarter = ((interval << 2) >> bits) & 3;
    4 * bits as usize + usize::try_from(quarter).unwrap_or(0)
}

/// The first interval of a bucket.
fn start(bucket: usize) -> i128 {
    let quarter = i128::try_from(bucket & 3).unwrap_or(0);
    ((4 + quarter) << (bucket >> 2)) >> 2
}

fn width(bucket: usize) -> i128 {
    start(bucket + 1) - start(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::PieceShape;
    use crate::types::request::Kind;
    use crate::types::time::Duration;

    /// A stream's piece is served at once.
    fn see(reuse: &mut Reuse, stream: u32, block: u64, tier: Tier) {
        let (stream, kind) = (StreamId(stream), Kind::Read);
        let piece = PieceShape { stream, kind, bytes: BLOCK, distance_sectors: None };
        let [took, response] = [Duration::from_millis(1); 2];
        let used = reuse.sent(stream, block * BLOCK);
        reuse.seen(&SeenOnTier { piece, used, tier, took, response, alone: None });
    }

    /// Pieces of two streams, uniform over so many blocks each, on a cache that drops what was used
    /// longest ago: what each would hit alone, and hit.
    fn hits(cache: usize, blocks: [u64; 2], rates: [u64; 2]) -> [(Option<i128>, u64); 2] {
        let (mut reuse, mut random) = (Reuse::default(), 7_u64);
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        let (mut used, mut by_use) = (BTreeMap::new(), BTreeMap::new());
        let mut hit = [[0_u64; 2]; 2];
        for at in 0..400_000_u64 {
            let stream = usize::from(next(rates[0] + rates[1]) >= rates[0]);
            let block = next(blocks[stream]) + ((stream as u64) << 20);
            let before: Option<u64> = used.insert(block, at);
            before.map(|before| by_use.remove(&before));
            by_use.insert(at, block);
            if used.len() > cache {
                let (_, oldest) = by_use.pop_first().unwrap();
                used.remove(&oldest);
            }
            let tier = if before.is_some() { Tier::Fast } else { Tier::Slow };
            see(&mut reuse, u32::try_from(stream).unwrap(), block, tier);
            hit[stream][usize::from(before.is_some())] += 1;
        }
        [0, 1].map(|stream: u32| {
            let alone = reuse.hits_alone(StreamId(stream)).map(|hits| hits * 100 / ONE);
            let [misses, hits] = hit[stream as usize];
            (alone, hits * 100 / (hits + misses))
        })
    }

    #[test]
    fn who_is_cold_beside_a_warm_one_would_hit_alone() {
        let [warm, cold] = hits(600, [500, 500], [40, 1]);
        assert!(warm.1 > 97 && cold.1 < 40, "{warm:?} {cold:?}");
        assert!(warm.0.unwrap() >= 98 && cold.0.unwrap() >= 95, "{warm:?} {cold:?}");
    }

    #[test]
    fn who_is_too_large_for_the_cache_would_hit_with_its_part_of_it() {
        let [large, small] = hits(600, [1200, 300], [1, 1]);
        assert!((45..56).contains(&large.0.unwrap()), "{large:?}");
        assert!(small.0.unwrap() >= 98 && small.1 < 98, "{small:?}");
    }

    /// More blocks than a sample has.
    #[test]
    fn a_part_of_the_blocks_is_enough() {
        let [one, other] = hits(20_000, [30_000, 30_000], [1, 1]);
        for (alone, among) in [one, other] {
            assert!((60..74).contains(&alone.unwrap()) && among < 40, "{alone:?} {among}");
        }
    }

    /// A cache that drops what was used longest ago, as it is.
    #[derive(Default)]
    struct Cache {
        blocks: usize,
        uses: u64,
        used: BTreeMap<u64, u64>,
    }

    impl Cache {
        fn hits(&mut self, block: u64) -> bool {
            self.uses += 1;
            let before = self.used.insert(block, self.uses);
            if self.used.len() > self.blocks {
                let (oldest, _) = self.used.iter().min_by_key(|(_, at)| **at).expect("blocks");
                let oldest = *oldest;
                self.used.remove(&oldest);
            }
            before.is_some()
        }
    }

    /// Against a cache of the same size in which the stream is alone, for streams of every size and rate:
    /// uniform, skewed, and with a third of blocks that never come again.
    #[test]
    fn what_would_hit_alone_is_what_a_simulated_cache_shows() {
        let mut random = 42_u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        let mut known = 0;
        for case in 0..60 {
            let blocks = usize::try_from(10 + next(100)).expect("few");
            let cache = || Cache { blocks, ..Cache::default() };
            let (mut together, mut alone) = (cache(), [cache(), cache()]);
            let shapes = [0; 2].map(|_| [next(3), 1 + next(200), 1 + next(5)]);
            let (mut reuse, mut seen) = (Reuse::default(), [[0_u32; 2]; 2]);
            for at in 0..12_000 {
                let stream = usize::from(next(shapes[0][2] + shapes[1][2]) >= shapes[0][2]);
                let [kind, size, _] = shapes[stream];
                let block = match kind {
                    0 => next(size),
                    1 => next(size).min(next(size)),
                    _ if next(3) == 0 => 10_000 + at,
                    _ => next(size),
                };
                let hit = together.hits(block + ((stream as u64) << 32));
                let tier = if hit { Tier::Fast } else { Tier::Slow };
                see(&mut reuse, u32::try_from(stream).expect("two"), block, tier);
                let hit = alone[stream].hits(block);
                if at >= 4_000 {
                    seen[stream][usize::from(hit)] += 1;
                }
            }
            for (stream, [misses, hits]) in (0..).zip(seen) {
                let Some(found) = reuse.hits_alone(StreamId(stream)) else { continue };
                let (found, truth) = (found * 100 / ONE, hits * 100 / (hits + misses).max(1));
                let off = found.abs_diff(truth.into());
                assert!(
                    off <= 12,
                    "case {case}, {blocks} blocks, {shapes:?}: {found} for {truth} %"
                );
                known += 1;
            }
        }
        assert!(known > 60, "{known} of 120 streams");
    }

    /// A block that is used again at once needs a cache of one block. The first buckets have no width, and a
    /// cache that ended at one of them was taken for one without the uses in it: for 0 %.
    #[test]
    fn blocks_that_come_again_at_once_hit_in_the_smallest_cache() {
        for size in [1_u64, 2, 3] {
            let mut reuse = Reuse::default();
            let mut cache =
                Cache { blocks: usize::try_from(size).expect("few"), ..Cache::default() };
            for at in 0..8_000 {
                let (stream, block) =
                    if at % (4 * size + 1) == 0 { (1, 10_000 + at) } else { (0, at % size) };
                let tier = if cache.hits(block) { Tier::Fast } else { Tier::Slow };
                see(&mut reuse, stream, block, tier);
            }
            let found = reuse.hits_alone(StreamId(0)).map(|hits| hits * 100 / ONE);
            assert!(found >= Some(90), "{found:?} % in {size} blocks");
        }
    }

    #[test]
    fn hits_that_no_span_explains_say_nothing() {
        let mut reuse = Reuse::default();
        for at in 0..200_000_u64 {
            let tier = if at % 3 == 0 { Tier::Slow } else { Tier::Fast };
            see(&mut reuse, 0, at * at % 1009, tier);
            see(&mut reuse, 1, at, tier);
        }
        assert_eq!([0, 1].map(|stream| reuse.hits_alone(StreamId(stream))), [None, None]);
        assert!(reuse.last.len() <= BLOCKS);
        reuse.forget(StreamId(1));
        assert!(reuse.last.keys().all(|(stream, _)| *stream == StreamId(0)));
    }

    #[test]
    fn buckets_are_quarters_of_doublings() {
        for interval in [1, 2, 3, 4, 5, 7, 8, 100, 1000, 12_345, u64::from(u32::MAX), u64::MAX] {
            let found = bucket(interval);
            let clamped = i128::from(interval.min(u64::from(u32::MAX)));
            assert!(found < BUCKETS, "{interval}");
            let next = (found..).map(start).find(|next| *next > start(found)).unwrap();
            assert!((start(found)..next).contains(&clamped), "{interval} in {found}");
        }
    }

    /// Caches keep pages of 4 KiB.
    #[test]
    fn pieces_that_begin_in_the_same_4_kib_use_the_same_block() {
        let mut reuse = Reuse::default();
        let mut used = |offset| reuse.sent(StreamId(0), offset).expect("it is in the sample").own;
        assert_eq!([used(0), used(4095), used(4096)], [None, Some(1), None]);
    }

    /// Blocks of so many that are in the sample after each was used once.
    fn sampled(blocks: u64) -> usize {
        let mut reuse = Reuse::default();
        (0..blocks).for_each(|block| _ = reuse.sent(StreamId(0), block * BLOCK));
        let known = |block: &u64| reuse.last.contains_key(&(StreamId(0), *block));
        (0..blocks).filter(known).count()
    }

    /// At some 100 bytes each, the sample takes less than half a megabyte.
    #[test]
    fn a_sample_has_all_of_four_thousand_blocks_and_half_of_six_thousand() {
        assert_eq!(sampled(4_000), 4_000);
        let half = sampled(6_000);
        assert!((2_700..=3_300).contains(&half), "{half} of 6000");
    }

    /// Whether the block that was used first is still known when so many million pieces went out.
    fn known_after(reuse: &mut Reuse, million: u64) -> bool {
        // The pieces between change nothing.
        reuse.at = (million << 20) - 1;
        reuse.sent(StreamId(1), BLOCK);
        reuse.last.contains_key(&(StreamId(0), 0))
    }

    #[test]
    fn a_block_that_was_not_used_for_four_to_eight_million_pieces_is_forgotten() {
        let mut reuse = Reuse::default();
        assert!(!known_after(&mut reuse, 1));
        reuse.sent(StreamId(0), 0);
        let known: Vec<_> = (2..=9).filter(|million| known_after(&mut reuse, *million)).collect();
        assert_eq!(known, [2, 3, 4, 5, 6, 7]);
    }

    /// Old uses fade, so that what a stream would hit follows what it does.
    #[test]
    fn half_of_what_is_remembered_is_of_a_streams_last_thousand_and_of_all_four_thousand() {
        let mut reuse = Reuse::default();
        (0..20_000).for_each(|_| see(&mut reuse, 0, 0, Tier::Fast));
        let new = |intervals: &Intervals| 100 * intervals.counts[bucket(2)] / intervals.sum;
        let mut at = 0;
        let mut seen = |reuse: &mut Reuse, count: u64| {
            (at..at + count).for_each(|block| see(reuse, 0, block % 2, Tier::Fast));
            at += count;
        };
        seen(&mut reuse, 1_024);
        let own = new(&reuse.streams.get(StreamId(0)).expect("it was seen").intervals);
        seen(&mut reuse, 3_072);
        let all = new(&reuse.hits);
        assert!((40..=60).contains(&own) && (40..=60).contains(&all), "{own} % and {all} %");
    }

    /// A stream's pieces of a block that it used before, and of new ones.
    #[derive(Default)]
    struct Uses {
        reuse: Reuse,
        blocks: u64,
    }

    impl Uses {
        fn again(&mut self, tier: Tier) {
            see(&mut self.reuse, 0, 0, tier);
        }

        fn anew(&mut self, tier: Tier) {
            self.blocks += 1;
            see(&mut self.reuse, 0, self.blocks, tier);
        }

        fn hits(&self) -> Option<i128> {
            self.reuse.hits_alone(StreamId(0))
        }
    }

    /// With fewer misses, chance is more than an eighth of them.
    #[test]
    fn what_would_hit_is_known_from_sixty_misses_on() {
        let mut uses = Uses::default();
        let misses = (1..200).find(|_| {
            uses.anew(Tier::Slow);
            (0..66).for_each(|_| uses.again(Tier::Fast));
            uses.hits().is_some()
        });
        let misses = misses.expect("it is known");
        assert!((60..=66).contains(&misses), "{misses} misses");
    }

    /// A span that a fifth of the hits contradicts is chance in a cache that does not keep to the rule quite.
    #[test]
    fn a_span_may_be_wrong_of_a_fifth_of_the_hits_and_not_of_three_tenths() {
        let known = |wrong: u32| {
            let mut uses = Uses::default();
            for piece in 0..4_000 {
                uses.anew(Tier::Slow);
                if piece % 10 < wrong { uses.anew(Tier::Fast) } else { uses.again(Tier::Fast) }
            }
            uses.hits().is_some()
        };
        assert!(known(2) && !known(3));
    }

    /// The work for it is done once for dozens of pieces, and while no span divides hits from misses what was
    /// found stands for two thousand.
    #[test]
    fn what_would_hit_is_new_after_64_pieces_and_stands_for_two_thousand() {
        let mut uses = Uses::default();
        (0..500).for_each(|_| {
            uses.again(Tier::Fast);
            uses.anew(Tier::Slow);
        });
        let found = |uses: &mut Uses, least: usize| {
            let before = uses.hits();
            let mut changes = || {
                uses.again(Tier::Fast);
                uses.hits() != before
            };
            (least..10_000).find(|_| changes()).expect("it changes")
        };
        found(&mut uses, 1);
        let again = found(&mut uses, 1);
        assert!((60..=68).contains(&again), "after {again} pieces");
        // Nothing misses any more.
        uses.reuse.misses = Intervals::default();
        let stood = found(&mut uses, 1);
        assert!(uses.hits().is_none() && (1_900..=2_300).contains(&stood), "{stood} pieces");
    }
}
