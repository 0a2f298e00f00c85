//! The disk time of a stream's pieces on each tier, on a device that tells which one served a piece.
//!
//! Two tiers side by side work at once, so a stream's pieces cost together what the busier of them
//! takes for them: max(h·fast, (1-h)·slow), learned. A tier's time for a piece is
//! that since its previous completion, which is the piece's own where the tier serves in order,
//! whoever has pieces beside it. So nobody needs the device to himself, while the other tier idles.
//!
//! A kind of pieces costs by the tier that it takes longer, all kinds scaled alike to the sum.
//! Single services vary a hundredfold, so these are means over a minute of a tier's time; a second
//! that is off them by half, or eight by a quarter, begin them anew.
//!
//! The time of pieces among others' is their time alone only where a tier serves in order without
//! seeks. So a stream has no price before it was alone. Where a tier serves several at once, each of a
//! few takes longer: then what they took alone counts, and how many there are is seen among others.
//!
//! Does not know: what would hit alone ([`super::reuse`] does).

use super::{KINDS, LONG, ONE};
use crate::cost::PieceKind;
use crate::types::tiers::Tier;

const READS: [usize; 2] = [PieceKind::SequentialRead as usize, PieceKind::RandomRead as usize];
/// A span is over after so much time of the tier that it took more of, with so many pieces there; or
/// after so many pieces.
const SPAN: i128 = 1_000_000_000;
const PIECES: u32 = 64;
const PIECES_MOST: u32 = 4096;
/// Half of the sums is forgotten when they cover so much time, or so many pieces.
const MEMORY: i128 = 64 * SPAN;
const MEMORY_PIECES: u32 = 64 * PIECES_MOST;
/// So many spans are one of a second kind, in which less shows.
const SPANS: u32 = 8;
/// A span that is off by so many 16ths begins the price anew, and such a one: chance hardly does that.
const CHANGES: [i128; 2] = [8, 4];
/// The same for time alone.
const MEMORY_ALONE: i128 = 2 * SPAN;
/// So many pieces alone are enough for a first price, or so much time.
const FIRST_PIECES: u32 = 16;
const FIRST: i128 = 100_000_000;
/// Chance may do so many 64ths, by the root of the pieces seen. One service is off its mean
/// by as much where services are exponential.
const CHANCE: u32 = 4 * 64;

/// The disk times of a stream's pieces.
#[derive(Clone, Default)]
pub(super) struct OnTiers {
    kept: Sums,
    /// The last second or so.
    open: Sums,
    /// The last few.
    recent: Sums,
    spans: u32,
    /// While it had the device to itself.
    alone: Sums,
    /// Among others, since that was judged.
    among: Sums,
    /// On this tier it has few pieces among others', and each takes longer than alone: what it takes
    /// alone counts.
    sparse: [bool; Tier::COUNT],
}

/// A piece that a tier served, in ns.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) tier: Tier,
    /// By the list.
    pub(super) listed: i128,
    /// The time that the tier took for it.
    pub(super) took: i128,
    /// From its release to its end.
    pub(super) response: i128,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    /// The disk time of its pieces of each kind by the list, in ns, by the tier that served them.
    listed: [[i128; KINDS]; Tier::COUNT],
    /// The time that the tier took for them.
    took: [[i128; KINDS]; Tier::COUNT],
    /// How many each tier served,
    pieces: [u32; Tier::COUNT],
    /// and how long they were at the device. By what the tier took that is how many were there.
    response: [i128; Tier::COUNT],
}

impl OnTiers {
    /// A tier served a piece of that kind, among others' pieces or (if that is known) alone, long
    /// enough or not to say what it takes then. Answers whether a span is over.
    pub(super) fn seen(&mut self, kind: usize, served: Served, alone: Option<bool>) -> bool {
        let tier = served.tier as usize;
        let mut piece = Sums::default();
        piece.listed[tier][kind] = served.listed.clamp(1, LONG.into());
        piece.took[tier][kind] = served.took.clamp(0, LONG.into());
        piece.pieces[tier] = 1;
        piece.response[tier] = served.response.clamp(0, LONG.into());
        match alone {
            None => self.among.add(&piece),
            Some(true) => self.alone.remember(&piece, MEMORY_ALONE),
            Some(false) => {}
        }
        self.open.add(&piece);
        if !self.open.is_span() {
            return false;
        }
        let span = core::mem::take(&mut self.open);
        self.recent.add(&span);
        self.spans += 1;
        if self.kept.differs(&span, CHANGES[0]) {
            (self.kept, self.recent, self.spans) = (Sums::default(), span, 1);
        }
        self.kept.remember(&span, MEMORY);
        if self.spans == SPANS {
            let recent = core::mem::take(&mut self.recent);
            self.spans = 0;
            if self.kept.differs(&recent, CHANGES[1]) {
                self.kept = recent;
            }
        }
        true
    }

    /// Finds out, after a span among others' pieces, whether each takes longer only for want of more: a tier that
    /// serves several at once takes longer for each of a few, which is no loss, and no price.
    pub(super) fn judge(&mut self) {
        if !self.among.is_span() {
            return;
        }
        let (among, alone) = (core::mem::take(&mut self.among), &self.alone);
        let tier = among.busier();
        let [took, usual] = [
            among.took_of(tier) * alone.reckoned_on(tier),
            alone.took_of(tier) * among.reckoned_on(tier),
        ];
        let pieces = [among.pieces[tier], alone.pieces[tier]];
        let chance: u32 = pieces.iter().map(|seen| CHANCE / seen.isqrt().max(1)).sum();
        let longer = pieces[1] >= PIECES && took * 64 > usual * (64 + i128::from(chance));
        let few = 2 * among.response[tier] * alone.took_of(tier)
            < alone.response[tier] * among.took_of(tier);
        self.sparse[tier] = few && longer;
    }

    /// The cost of a piece of that kind, if the stream was seen for long enough; `hits`, if given, is the
    /// part of its reads that hit.
    pub(super) fn cost(&self, kind: usize, listed: i128, hits: Option<i128>) -> Option<i128> {
        if self.kept.reckoned() == 0 {
            let tier = self.alone.busier();
            if self.alone.pieces[tier] < FIRST_PIECES && self.alone.took_of(tier) < FIRST {
                return None;
            }
        }
        let mut sums = self.kept;
        sums.add(&self.open);
        for tier in (0..Tier::COUNT).filter(|tier| self.sparse[*tier]) {
            sums.price_as(tier, &self.alone);
        }
        if let Some(hits) = hits {
            READS.into_iter().for_each(|kind| sums.hit(kind, hits));
        }
        let took = sums.took_of(sums.busier());
        let of_kind = sums.of_kind(kind);
        let (own, reckoned) = match of_kind {
            0 => (took, sums.reckoned()),
            reckoned => (sums.longer(kind), reckoned),
        };
        let all = (0..KINDS).map(|kind| sums.longer(kind)).sum::<i128>();
        let cost = scaled(listed, own, reckoned);
        Some(if of_kind > 0 { scaled(cost, took, all) } else { cost })
    }
}

impl Sums {
    /// The tier that took longer for all.
    fn busier(&self) -> usize {
        (0..Tier::COUNT).max_by_key(|tier| self.took_of(*tier)).unwrap_or(0)
    }

    /// The time that a tier took for them.
    fn took_of(&self, tier: usize) -> i128 {
        self.took[tier].iter().sum()
    }

    /// The time for the pieces of a kind on the tier that took longer for them.
    fn longer(&self, kind: usize) -> i128 {
        self.took.iter().map(|kinds| kinds[kind]).max().unwrap_or(0)
    }

    /// The disk time of its pieces by the list.
    fn reckoned(&self) -> i128 {
        (0..Tier::COUNT).map(|tier| self.reckoned_on(tier)).sum()
    }

    fn reckoned_on(&self, tier: usize) -> i128 {
        self.listed[tier].iter().sum()
    }

    fn of_kind(&self, kind: usize) -> i128 {
        self.listed.iter().map(|kinds| kinds[kind]).sum()
    }

    /// From now on a tier took for them what it took for those others.
    fn price_as(&mut self, tier: usize, others: &Self) {
        let (took, reckoned) = (others.took_of(tier), others.reckoned_on(tier).max(1));
        for kind in 0..KINDS {
            let (took, reckoned) = match others.listed[tier][kind] {
                0 => (took, reckoned),
                reckoned => (others.took[tier][kind], reckoned),
            };
            self.took[tier][kind] = scaled(self.listed[tier][kind], took, reckoned);
        }
    }

    /// Sets the part of a kind's pieces that the fast tier serves to `hits`, of [`ONE`], at the times seen
    /// there; nothing changes if none was seen on one of them.
    fn hit(&mut self, kind: usize, hits: i128) {
        let reckoned = self.of_kind(kind);
        if self.listed.iter().any(|kinds| kinds[kind] == 0) {
            return;
        }
        for (tier, part) in [(Tier::Fast, hits), (Tier::Slow, ONE - hits)] {
            let [listed, took] =
                [&mut self.listed, &mut self.took].map(|of| &mut of[tier as usize][kind]);
            let before = core::mem::replace(listed, reckoned * part / ONE);
            *took = scaled(*took, *listed, before);
        }
    }

    fn count(&self) -> u32 {
        self.pieces.iter().sum()
    }

    /// Whether they are enough to be compared.
    fn is_span(&self) -> bool {
        let tier = self.busier();
        (self.took_of(tier) >= SPAN && self.pieces[tier] >= PIECES) || self.count() >= PIECES_MOST
    }

    /// Whether pieces took longer or less by so many 16ths, as they were reckoned.
    fn differs(&self, other: &Self, parts: i128) -> bool {
        let tier = other.busier();
        let mine = self.took_of(self.busier()) * other.reckoned();
        let others = other.took_of(tier) * self.reckoned();
        let far = 16 * others > (16 + parts) * mine || (16 + parts) * others < 16 * mine;
        far && other.pieces[tier] >= PIECES
    }

    /// Adds more, and forgets half of what is too much.
    fn remember(&mut self, more: &Self, memory: i128) {
        self.add(more);
        if self.took_of(self.busier()) > memory || self.count() > MEMORY_PIECES {
            self.halve();
        }
    }

    fn add(&mut self, other: &Self) {
        let mut more = *other;
        for (sum, more) in self.sums().zip(more.sums()) {
            *sum += *more;
        }
        for (sum, more) in self.pieces.iter_mut().zip(other.pieces) {
            *sum += more;
        }
    }

    fn halve(&mut self) {
        self.sums().for_each(|sum| *sum /= 2);
        self.pieces.iter_mut().for_each(|sum| *sum /= 2);
    }

    fn sums(&mut self) -> impl Iterator<Item = &mut i128> {
        let of_kinds = self.listed.iter_mut().chain(&mut self.took).flatten();
        of_kinds.chain(&mut self.response)
    }
}

/// `value × by ÷ of` of times, at most 2^64 ns: further products of such times stay within 128 bits, or saturate.
fn scaled(value: i128, by: i128, of: i128) -> i128 {
    (value.saturating_mul(by) / of.max(1)).min(u64::MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i128 = 1_000_000;

    /// A thousand pieces, of which so many percent take 10 ms of the slow tier, the others a fifth of
    /// one of the fast.
    fn see(stream: &mut OnTiers, kind: usize, misses: u32) {
        for piece in 0..1000 {
            let (tier, took) =
                if piece % 100 < misses { (Tier::Slow, 10 * MS) } else { (Tier::Fast, MS / 5) };
            stream.seen(kind, served(tier, took), Some(true));
        }
    }

    fn served(tier: Tier, took: i128) -> Served {
        Served { tier, listed: MS, took, response: 10 * took }
    }

    fn cost(stream: &OnTiers, kind: usize) -> i128 {
        stream.cost(kind, MS, None).unwrap() / 1000
    }

    #[test]
    fn a_price_is_what_the_busier_tier_takes() {
        for (misses, micros) in [(0, 200), (1, 198), (10, 1000), (80, 8000)] {
            let mut stream = OnTiers::default();
            assert_eq!(stream.cost(1, MS, None), None, "nothing was seen");
            (0..20).for_each(|_| see(&mut stream, 1, misses));
            assert!((cost(&stream, 1) - micros).abs() <= 1 + micros / 20, "{misses} %");
            assert_eq!(cost(&stream, 1), cost(&stream, 3), "of a kind that was not seen");
        }
    }

    /// By the formula of the page on learned costs, as one fraction: few pieces, so that none is forgotten.
    #[test]
    fn costs_are_those_of_the_formula() {
        let mut random = 7_u64;
        let mut next = |bound: i128| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i128::from(random >> 33) % bound
        };
        for case in 0..2_000 {
            let mut stream = OnTiers::default();
            let kinds = usize::try_from(1 + next(KINDS as i128)).expect("few");
            let (mut took, mut listed) = ([[0; KINDS]; 2], [0; KINDS]);
            for _ in 0..200 {
                let kind = usize::try_from(next(kinds as i128)).expect("few");
                let tier = if next(3) == 0 { Tier::Slow } else { Tier::Fast };
                let piece = Served { listed: 1 + next(MS), ..served(tier, next(4 * MS)) };
                stream.seen(kind, piece, Some(true));
                took[tier as usize][kind] += piece.took;
                listed[kind] += piece.listed;
            }
            let longer = |kind: usize| took[0][kind].max(took[1][kind]);
            let busier = took.iter().map(|kinds| kinds.iter().sum::<i128>()).max().unwrap_or(0);
            let all = (0..KINDS).map(longer).sum::<i128>().max(1);
            for kind in (0..KINDS).filter(|kind| listed[*kind] > 0) {
                let truth = MS * longer(kind) * busier / (listed[kind] * all);
                let found = stream.cost(kind, MS, None).expect("it was seen");
                assert!(found.abs_diff(truth) <= 1, "case {case}, {kind}: {found} for {truth} ns");
            }
        }
    }

    #[test]
    fn kinds_on_different_tiers_cost_together_what_the_busier_takes() {
        let mut stream = OnTiers::default();
        // A second of the fast tier within ten of the slow one.
        for _ in 0..1000 {
            stream.seen(0, served(Tier::Fast, MS), Some(true));
            stream.seen(1, served(Tier::Slow, 10 * MS), Some(true));
        }
        let [fast, slow] = [0, 1].map(|kind| cost(&stream, kind));
        assert!((fast + slow - 10_000).abs() < 100, "{fast} and {slow}");
        assert!((slow / fast).abs_diff(10) <= 1, "{fast} and {slow}");
    }

    #[test]
    fn hits_that_fall_are_noticed_within_two_seconds_of_the_tier() {
        let mut stream = OnTiers::default();
        (0..100).for_each(|_| see(&mut stream, 1, 10));
        assert!((cost(&stream, 1) - 1000).abs() < 10, "{}", cost(&stream, 1));
        see(&mut stream, 1, 90);
        let fallen = cost(&stream, 1);
        assert!((8000..10_001).contains(&fallen), "{fallen}");
        (0..4).for_each(|_| see(&mut stream, 1, 0));
        (0..4).for_each(|_| see(&mut stream, 1, 0));
        assert!(cost(&stream, 1) < 250, "{}", cost(&stream, 1));
    }

    /// Flash that takes ten pieces at once: alone it is full, among others it has two.
    #[test]
    fn a_tier_with_few_pieces_costs_what_it_does_when_it_is_full() {
        let mut stream = OnTiers::default();
        for _ in 0..5000 {
            let alone = Served { response: 2 * MS, ..served(Tier::Fast, MS / 50) };
            stream.seen(1, alone, Some(true));
        }
        assert_eq!(cost(&stream, 1), 20);
        for _ in 0..20_000 {
            let few = Served { response: MS / 5, ..served(Tier::Fast, MS / 10) };
            stream.seen(1, few, None);
            stream.judge();
        }
        assert_eq!(cost(&stream, 1), 20);
        // One of five misses: what those take counts.
        for _ in 0..20_000 {
            let few = Served { response: MS / 5, ..served(Tier::Fast, MS / 10) };
            (0..4).for_each(|_| _ = stream.seen(1, few, None));
            stream.seen(1, served(Tier::Slow, 10 * MS), None);
            stream.judge();
        }
        assert!((cost(&stream, 1) - 2000).abs() < 100, "{}", cost(&stream, 1));
    }

    /// So many pieces of the slow tier, each so long, until a price is new.
    fn until_seen(took: i128) -> usize {
        let mut stream = OnTiers::default();
        let mut seen = || stream.seen(1, served(Tier::Slow, took), None);
        (1..100_000).find(|_| seen()).expect("a price is new at last")
    }

    /// A price is new each second of the busier tier, of a slow one after enough pieces to be a mean, and of a fast
    /// one before there are too many.
    #[test]
    fn a_price_is_new_each_second_or_after_enough_pieces() {
        assert!((900..=1_100).contains(&until_seen(MS)), "{} pieces of 1 ms", until_seen(MS));
        let (slow, fast) = (until_seen(100 * MS), until_seen(MS / 1_000));
        assert!((50..=90).contains(&slow), "{slow} pieces of 100 ms");
        assert!((3_000..=6_000).contains(&fast), "{fast} pieces of 1 us");
    }

    /// The cost in per cent of what it was, so many seconds of the tier after pieces take so much longer.
    fn follows(percent: i128, seconds: usize) -> i128 {
        let mut stream = OnTiers::default();
        (0..256_000).for_each(|_| _ = stream.seen(1, served(Tier::Slow, MS), None));
        let pieces = seconds * 100_000 / usize::try_from(percent).expect("a part");
        let longer = served(Tier::Slow, MS * percent / 100);
        (0..pieces).for_each(|_| _ = stream.seen(1, longer, None));
        cost(&stream, 1) / 10
    }

    /// Single services vary a hundredfold: a price is a mean over a minute, unless it is off by far, or for long.
    #[test]
    fn a_price_follows_small_changes_within_a_minute_and_large_ones_at_once() {
        let small = follows(120, 32);
        assert!((107..=111).contains(&small), "{small} % after 32 s");
        let (soon, later) = (follows(140, 5), follows(140, 10));
        assert!(soon < 115 && later >= 135, "{soon} % after 5 s, {later} % after 10 s");
        let (much, more) = (follows(140, 2), follows(160, 2));
        assert!(much < 120 && more >= 155, "{much} % and {more} % after 2 s");
    }

    /// A first price is of more than a few pieces alone, or of a tenth of a second of them.
    #[test]
    fn a_first_price_takes_a_dozen_fast_pieces_or_a_few_slow_ones() {
        let first = |took: i128| {
            let mut stream = OnTiers::default();
            let mut known = || {
                stream.seen(1, served(Tier::Slow, took), Some(true));
                stream.cost(1, MS, None).is_some()
            };
            (1..1_000).find(|_| known())
        };
        let [fast, slow] = [MS / 10, 20 * MS].map(first).map(|first| first.expect("it is known"));
        assert!((12..=24).contains(&fast), "{fast} of 0.1 ms");
        assert!((4..=7).contains(&slow), "{slow} of 20 ms");
    }

    #[test]
    fn extremes_stay_finite() {
        let mut stream = OnTiers::default();
        for took in [0, i128::from(u64::MAX), 0] {
            for _ in 0..10_000 {
                let slow = Served { listed: i128::from(u64::MAX), ..served(Tier::Slow, took) };
                stream.seen(3, slow, None);
                stream.seen(4, Served { listed: 0, ..served(Tier::Fast, took) }, Some(true));
                stream.judge();
            }
            for kind in 0..KINDS {
                let cost = stream.cost(kind, i128::from(u64::MAX), Some(ONE / 3)).unwrap();
                assert!((0..=i128::from(u64::MAX) * i128::from(LONG)).contains(&cost));
            }
        }
    }

    /// A price is half-way to that of pieces that take a fifth longer after 131,072 of them.
    #[test]
    fn a_price_of_fast_pieces_is_a_mean_over_a_quarter_of_a_million() {
        let mut stream = OnTiers::default();
        // 4,096 pieces, of which all but the last are seen at once.
        let mut see = |took: i128| {
            let mut most = Sums::default();
            let tier = Tier::Fast as usize;
            (most.listed[tier][1], most.took[tier][1]) = (4_095 * MS, 4_095 * took);
            (most.pieces[tier], most.response[tier]) = (4_095, 4_095 * 10 * took);
            stream.open.add(&most);
            stream.seen(1, served(Tier::Fast, took), None);
        };
        (0..69).for_each(|_| see(MS / 1_000));
        (0..32).for_each(|_| see(MS * 12 / 10_000));
        let cost = stream.cost(1, MS, None).expect("it is known");
        assert!((1_080..=1_120).contains(&cost), "{cost} ns");
    }

    /// A stream that had the device to itself for long enough, and then has few pieces among others.
    struct Few(OnTiers);

    impl Few {
        fn alone(&mut self, took: i128, count: u32) {
            (0..count).for_each(|_| _ = self.0.seen(1, served(Tier::Fast, took), Some(true)));
        }

        /// Answers the cost, in us, when a second of the tier has passed.
        fn among(&mut self, took: i128) -> i128 {
            let few = Served { response: took, ..served(Tier::Fast, took) };
            for _ in 0..=1_000 * MS / took {
                self.0.seen(1, few, None);
                self.0.judge();
            }
            cost(&self.0, 1)
        }
    }

    #[test]
    fn what_pieces_take_alone_is_a_mean_over_two_seconds() {
        let mut stream = Few(OnTiers::default());
        stream.alone(MS / 5, 50_000);
        // For a second.
        stream.alone(MS * 3 / 10, 3_333);
        // Half of the time remembered is of either.
        let cost = stream.among(MS);
        assert!((233..=250).contains(&cost), "{cost} us");
    }

    /// Where services are exponential, a mean of a thousand is off by 3 %: four of these deviations of either mean
    /// are chance.
    #[test]
    fn a_thousand_pieces_that_take_a_fifth_longer_are_chance_and_a_third_longer_are_not() {
        let among = |took| {
            let mut stream = Few(OnTiers::default());
            stream.alone(MS, 1_024);
            stream.among(took)
        };
        let (chance, few) = (among(MS * 12 / 10), among(MS * 4 / 3));
        assert!(chance > 1_050, "its pieces take what they take: {chance} us");
        assert!((990..=1_010).contains(&few), "it has few: {few} us");
    }

    /// A stream whose list says nearly nothing of pieces that take a thousand seconds, and the other way round: the
    /// products of such sums were beyond 128 bits, and the device's thread ended.
    #[test]
    fn no_sequence_of_extremes_overflows() {
        for case in 0..2_000_u64 {
            let mut random = case;
            let mut next = |bound: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % bound
            };
            let mut stream = OnTiers::default();
            for _ in 0..30 {
                let kind = usize::try_from(next(KINDS as u64)).expect("few");
                let tier = if next(2) == 0 { Tier::Fast } else { Tier::Slow };
                let [listed, took, response] = [0; 3].map(|_| (1_i128 << next(64)) - 1);
                let alone = [None, Some(true)][usize::try_from(next(2)).expect("few")];
                for _ in 0..1 << next(11) {
                    stream.seen(kind, Served { tier, listed, took, response }, alone);
                    stream.judge();
                }
                let hits = [None, Some(i128::from(next(1 << 16)))];
                for hits in hits {
                    if let Some(cost) = stream.cost(kind, (1 << next(64)) - 1, hits) {
                        assert!(cost >= 0, "case {case}: {cost}");
                    }
                }
            }
        }
    }
}
