//! The costs of each stream's pieces at this device, learned while it runs.
//!
//! A share of the device's time is worth what the stream would do alone in that part of it, so a
//! piece costs the time from one completion to the next while its stream has the device to itself.
//! This is seen whenever no other stream has pieces there: for want of others, in turns, and in probes
//! that the policy makes for this purpose. From mixed traffic it can't be told apart: the scheduler
//! itself keeps the mix constant.
//!
//! Prices start from the device's list (four kinds, each with a part by length), or from a guess.
//! Each stream has a factor for every kind: those that explain best what the spans of the last seconds
//! took (`fit`), and of fewer if the last few spans differ from what was reckoned by more than chance
//! lets them. A stream that was not seen yet has the factors of those that were.
//!
//! Does not know: when streams are alone, or what to do about prices that are not known.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{
    Basis, Certainty, CostEntry, CostModel, CostParameters, Costs, Learner, Moved, PieceKind,
    PieceShape, Price, PriceList, Seen, SeenAlone, SeenOnTier, Trust, Used,
};
use crate::types::ids::StreamId;
use crate::types::request::Kind;
use crate::types::time::Duration;

mod fit;
mod reuse;
mod tiers;

use fit::Fit;
use reuse::Reuse;
use tiers::{OnTiers, Served};

pub(super) const ENTRY: CostEntry = CostEntry {
    name: "learned",
    doc: "what a stream's pieces take while it has the device to itself, seen as it runs",
    source: "this project: docs/black-box.md",
    build: |parameters| Box::new(Learned::new(&parameters)),
};

/// Reads and writes, sequential and random; flushes; trims; zeroes.
const KINDS: usize = PieceKind::ALL.len();
/// A factor of 1.
const ONE: i128 = 1 << 16;
/// A factor is at least 2^-10 and at most 2^24.
const FACTORS: [i128; 2] = [1 << 6, 1 << 40];
/// In the beginning of a stretch alone the device still works for those before, or seeks back, or
/// answers from its caches. This beginning is over when the device has settled at the earliest, and after
/// this time in any case.
const SETTLED: Duration = Duration::from_millis(250);
/// One observation spans at least and at most so much time of settled stretches,
const SPANS: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(250)];
/// if it has at least this many pieces.
const PIECES: u32 = 4;
/// Factors are means over as much time alone.
const MEMORY: i128 = 8_000_000_000;
/// Spreads are means over half as much again.
const SPREAD: i128 = 250_000_000;
/// The cost of a kind is told as a moving average over so many pieces.
const MEAN: i128 = 256;
/// A kind's factor is told of once that many spans had such pieces, if it has moved by a quarter and by
/// twice the usual spread.
const TOLD: u32 = 8;
const TOLD_BY: i128 = ONE / 4;
/// A piece counts for no longer than this and than eight such pieces,
const STALL: i128 = 100_000_000;
/// nor than this.
const LONG: i128 = 1_000_000_000_000;
const MIB: i128 = 1 << 20;

/// A command that moves no data takes this long at least before it was seen: a factor of 2^24 then
/// reaches 17 s.
const COMMAND: Duration = Duration::from_micros(1);

/// Without a list: 250 MB/s, and a ten-thousandth of a second for what continues nothing.
const GUESS: PriceList = {
    let per_mib = Duration::from_millis(4);
    let sequential = Price { each: Duration::from_micros(20), per_mib };
    let random = Price { each: Duration::from_micros(100), per_mib };
    PriceList {
        sequential_read: sequential,
        random_read: random,
        sequential_write: sequential,
        random_write: random,
    }
};

struct Learned {
    list: [Price; KINDS],
    /// Kinds that the list has measured, not guessed.
    anchored: [bool; KINDS],
    streams: Vec<Option<Known>>,
    /// The disk times of streams' pieces on each tier, on a device that tells.
    on_tiers: Vec<Option<OnTiers>>,
    /// The hit rates that streams would have if each were alone.
    reuse: Reuse,
    /// Factors of streams that were not seen yet.
    usual: [i128; KINDS],
    /// The mean cost of a piece of each kind over the last ones of all streams.
    mean: [i128; KINDS],
    /// Spans so far.
    spans: u32,
}

/// The learned costs of a stream.
#[derive(Clone, Copy)]
struct Known {
    fit: Fit,
    /// The open span: what it took, and what its pieces of each kind were reckoned to take.
    took: i128,
    reckoned: [i128; KINDS],
    pieces: u32,
    /// By how much spans differ from what was reckoned, in parts of [`ONE`].
    spread: i128,
    /// The mean error of the last few spans.
    drift: i128,
    /// Spans of which each kind was an eighth or more.
    spans: [u32; KINDS],
    /// Factors as they were told last; 0 for those that nobody was told.
    told: [i128; KINDS],
}

impl Learned {
    fn new(parameters: &CostParameters) -> Self {
        let list = prices(&parameters.anchor.unwrap_or(GUESS));
        let anchored = parameters.anchor.as_ref().map_or([false; KINDS], measured);
        let (streams, on_tiers) = (Vec::new(), Vec::new());
        let (usual, mean) = ([ONE; KINDS], [0; KINDS]);
        let reuse = Reuse::default();
        Self { list, anchored, streams, on_tiers, reuse, usual, mean, spans: 0 }
    }

    /// By the list, in ns; rounded down.
    fn by_list(&self, shape: &PieceShape, kind: usize) -> i128 {
        let Price { each, per_mib } = self.list[kind];
        let by_length = i128::from(shape.bytes) * i128::from(per_mib.as_nanos()) / MIB;
        (by_length + i128::from(each.as_nanos())).max(1)
    }

    fn on_tiers(&self, stream: StreamId) -> Option<&OnTiers> {
        self.on_tiers.get(stream.0 as usize)?.as_ref()
    }

    fn known(&self, stream: StreamId) -> Option<&Known> {
        self.streams.get(stream.0 as usize)?.as_ref()
    }
}

impl CostModel for Learned {
    fn estimate(&mut self, piece: &PieceShape) -> Duration {
        let kind = kind(piece);
        let listed = self.by_list(piece, kind);
        let hits = self.reuse.hits_alone(piece.stream);
        let tiers = self.on_tiers(piece.stream);
        let by_tier = tiers.and_then(|tiers| tiers.cost(kind, listed, hits));
        let factors = self.known(piece.stream).map_or(&self.usual, |known| &known.fit.factors);
        let cost = by_tier.unwrap_or(listed * factors[kind] / ONE);
        let mean = &mut self.mean[kind];
        *mean = if *mean == 0 { cost } else { *mean + (cost - *mean) / MEAN };
        nanos(cost)
    }

    fn trust(&self) -> Trust {
        Trust::Learned
    }

    fn certainty(&self, piece: &PieceShape) -> Option<Certainty> {
        let kind = kind(piece);
        let known = self.known(piece.stream);
        let factor = known.map_or(&self.usual, |known| &known.fit.factors)[kind];
        let seen = known.filter(|known| known.spans[kind] > 0);
        let basis = match (seen, self.anchored[kind]) {
            (Some(_), _) => Basis::Learned,
            (None, true) => Basis::Anchored,
            (None, false) => Basis::Guessed,
        };
        let spread = seen.map(|known| u32::try_from(known.spread * 1000 / ONE).unwrap_or(u32::MAX));
        let drift = i64::try_from((factor - ONE) * 1000 / ONE).unwrap_or(i64::MAX);
        let drift_permille = self.anchored[kind].then_some(drift);
        Some(Certainty { basis, spread_permille: spread, drift_permille })
    }

    fn learner(&mut self) -> Option<&mut dyn Learner> {
        Some(self)
    }
}

impl Learner for Learned {
    fn seen_alone(&mut self, seen: &SeenAlone) -> bool {
        if !seen.has_settled() {
            return false;
        }
        let (slot, kind) = (seen.piece.stream.0 as usize, kind(&seen.piece));
        let listed = self.by_list(&seen.piece, kind);
        if slot >= self.streams.len() {
            self.streams.resize(slot + 1, None);
        }
        let told = self.anchored.map(|anchored| if anchored { ONE } else { 0 });
        let new = || Known { told, ..Known::new(self.usual) };
        let known = self.streams[slot].get_or_insert_with(new);
        let reckoned = (listed * known.fit.factors[kind] / ONE).clamp(1, LONG);
        // A device that stalls, or a clock that jumps, says nothing of costs.
        known.took += i128::from(seen.took.as_nanos()).min(STALL.max(8 * reckoned)).min(LONG);
        known.reckoned[kind] += reckoned;
        known.pieces += 1;
        // It ends with a number of pieces, not when one took long: that would choose what is seen. A
        // queue that picks what is near leaves the rest for later: it must have turned over.
        let [least, most] = SPANS.map(|span| i128::from(span.as_nanos()));
        let enough = known.reckoned.iter().sum::<i128>() >= least
            && known.pieces >= PIECES.max(2 * seen.in_flight);
        if !enough && (known.took < most || known.pieces < PIECES) {
            return false;
        }
        known.close();
        let main = (0..KINDS).max_by_key(|kind| known.reckoned[*kind]).unwrap_or(0);
        self.usual[main] += (known.fit.factors[main] - self.usual[main]) / 4;
        known.reckoned = [0; KINDS];
        self.spans = self.spans.saturating_add(1);
        true
    }

    fn moved(&mut self, piece: &PieceShape) -> Option<Moved> {
        let kind = kind(piece);
        let listed = self.by_list(piece, kind);
        let known = self.streams.get_mut(piece.stream.0 as usize)?.as_mut()?;
        if known.spans[kind] < TOLD {
            return None;
        }
        let now = known.fit.factors[kind];
        let before = core::mem::replace(&mut known.told[kind], now);
        let least = before.min(now);
        if before == 0 || (now - before).abs() <= least * TOLD_BY.max(2 * known.spread) / ONE {
            // Small steps add up.
            known.told[kind] = if before == 0 { now } else { before };
            return None;
        }
        let cost = |factor: i128| nanos(listed * factor / ONE);
        let listed = self.anchored[kind].then(|| cost(ONE));
        Some(Moved { before: cost(before), now: cost(now), listed })
    }

    fn listed(&self, piece: &PieceShape) -> Duration {
        nanos(self.by_list(piece, kind(piece)))
    }

    fn seen_on_tier(&mut self, seen: &SeenOnTier) -> Option<Seen> {
        let (slot, kind) = (seen.piece.stream.0 as usize, kind(&seen.piece));
        let listed = self.by_list(&seen.piece, kind);
        if slot >= self.on_tiers.len() {
            self.on_tiers.resize(slot + 1, None);
        }
        let on_tiers = self.on_tiers[slot].get_or_insert_default();
        let alone = seen.alone.map(|alone| alone.has_settled());
        let [took, response] = [seen.took, seen.response].map(|time| i128::from(time.as_nanos()));
        let served = Served { tier: seen.tier, listed, took, response };
        let over = on_tiers.seen(kind, served, alone);
        on_tiers.judge();
        self.reuse.seen(seen);
        let hits = self.reuse.hits_alone(seen.piece.stream);
        let cost = on_tiers.cost(kind, listed, hits)?;
        if over {
            self.usual[kind] += (cost * ONE / listed - self.usual[kind]) / 4;
            self.usual[kind] = self.usual[kind].clamp(FACTORS[0], FACTORS[1]);
            self.spans = self.spans.saturating_add(1);
        }
        Some(Seen::OnTier)
    }

    /// Where tiers are told, reads.
    fn sent(&mut self, piece: &PieceShape, offset: u64) -> Option<Used> {
        let reads = piece.kind == Kind::Read && !self.on_tiers.is_empty();
        reads.then(|| self.reuse.sent(piece.stream, offset)).flatten()
    }

    fn forget(&mut self, stream: StreamId) {
        if let Some(known) = self.streams.get_mut(stream.0 as usize) {
            *known = None;
        }
        if let Some(on_tiers) = self.on_tiers.get_mut(stream.0 as usize) {
            *on_tiers = None;
        }
        self.reuse.forget(stream);
    }

    fn costs(&self) -> Costs {
        let [sequential, random] = [0, 1].map(|kind| nanos(self.mean[kind]));
        Costs { sequential, random, observations: self.spans }
    }

    /// The factors learned by the old list are forgotten.
    fn anchor(&mut self, list: &PriceList) {
        self.list = prices(list);
        self.anchored = measured(list);
        self.streams.clear();
        self.on_tiers.clear();
        self.reuse = Reuse::default();
        self.usual = [ONE; KINDS];
    }
}

impl SeenAlone {
    /// Whether the device no longer works for those before.
    fn has_settled(&self) -> bool {
        self.steady.unwrap_or_else(|| {
            let [early, settled] = [self.settling, SETTLED].map(|after| self.since >= after);
            early && (self.pieces >= self.in_flight || settled)
        })
    }
}

impl Known {
    fn new(factors: [i128; KINDS]) -> Self {
        let (reckoned, pieces) = ([0; KINDS], 0);
        let (spans, told) = ([0; KINDS], [0; KINDS]);
        let fit = Fit::new(factors);
        Self { fit, took: 0, reckoned, pieces, spread: 0, drift: 0, spans, told }
    }

    /// A span is over.
    fn close(&mut self) {
        let sum = self.reckoned.iter().sum::<i128>();
        let error = ((self.took - sum) * ONE / sum.max(1)).min(FACTORS[1]);
        self.drift += (error.clamp(-ONE, ONE) - self.drift) / 4;
        if self.drift.abs() > self.spread * 3 / 2 + ONE / 32 {
            // Chance alone does that once in a thousand spans.
            let far = self.drift.abs() > ONE / 4;
            self.fit.forget(if far { 0 } else { 3 * sum });
            self.drift = 0;
        }
        self.fit.forget((MEMORY - sum).max(0));
        self.fit.add(&self.reckoned, sum.max(1), error);
        let error = error.abs().min(ONE);
        self.spread += (error - self.spread) * self.took.min(SPREAD) / (2 * SPREAD);
        for (spans, part) in self.spans.iter_mut().zip(self.reckoned) {
            *spans = spans.saturating_add(u32::from(part * 8 >= sum && part > 0));
        }
        (self.took, self.pieces) = (0, 0);
    }
}

fn prices(list: &PriceList) -> [Price; KINDS] {
    let PriceList { sequential_read, random_read, sequential_write, random_write } = *list;
    let command = Price { each: sequential_read.each.max(COMMAND), per_mib: Duration::ZERO };
    let flush = random_write;
    [sequential_read, random_read, sequential_write, random_write, flush, command, command]
}

/// Reads are; writes that were not are priced as reads. No list has trims or zeroes: before they are
/// seen they cost a command that moves no data.
fn measured(list: &PriceList) -> [bool; KINDS] {
    let writes = list.writes_measured();
    [true, true, writes, writes, writes, false, false]
}

fn kind(piece: &PieceShape) -> usize {
    PieceKind::of(piece) as usize
}

fn nanos(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn piece(stream: u32, kind: Kind, distance_sectors: Option<u64>) -> PieceShape {
        PieceShape { stream: StreamId(stream), kind, bytes: 4096, distance_sectors }
    }

    fn read(stream: u32) -> PieceShape {
        piece(stream, Kind::Read, None)
    }

    /// A piece that came back when the device had settled.
    fn alone(piece: PieceShape, took: Duration) -> SeenAlone {
        SeenAlone {
            piece,
            took,
            since: SETTLED,
            pieces: 0,
            in_flight: 1,
            settling: ms(50),
            steady: None,
        }
    }

    /// So many pieces, each alone for that long. Answers how often a price was found.
    fn see(model: &mut Learned, piece: PieceShape, took: Duration, count: u32) -> usize {
        let seen = |pieces| SeenAlone { pieces, ..alone(piece, took) };
        (0..count).filter(|at| model.seen_alone(&seen(*at + 1))).count()
    }

    fn near(model: &mut Learned, piece: PieceShape, truth: Duration, parts: u64) {
        let estimate = model.estimate(&piece).as_nanos();
        let off = estimate.abs_diff(truth.as_nanos());
        assert!(off <= truth.as_nanos() / parts, "{estimate} ns for {truth:?}");
    }

    fn model() -> Learned {
        Learned::new(&CostParameters::default())
    }

    #[test]
    fn a_price_is_what_a_piece_takes_alone_whatever_it_was_guessed_to_take() {
        for truth in [Duration::from_micros(2), Duration::from_micros(90), ms(12)] {
            let mut model = model();
            assert!(see(&mut model, read(0), truth, 200_000) > 1);
            near(&mut model, read(0), truth, 50);
        }
    }

    #[test]
    fn who_was_not_seen_costs_what_the_others_cost() {
        let mut model = model();
        see(&mut model, read(0), ms(8), 1000);
        near(&mut model, read(7), ms(8), 10);
        model.forget(StreamId(0));
        near(&mut model, read(0), ms(8), 10);
    }

    #[test]
    fn the_beginning_of_a_stretch_says_nothing() {
        let mut model = model();
        let before = model.estimate(&read(0));
        let settled = alone(read(0), MS);
        let early = Duration::from_nanos(settled.settling.as_nanos() - 1);
        for pieces in 0..1000 {
            assert!(!model.seen_alone(&SeenAlone { since: early, pieces, ..settled }));
            // A queue of 32 that has not turned over.
            let (since, pieces) = (settled.settling, pieces % 32);
            let seen = SeenAlone { since, pieces, in_flight: 32, ..settled };
            assert!(!model.seen_alone(&seen));
        }
        assert_eq!(model.estimate(&read(0)), before);
    }

    /// A list of a quick look, which writes nothing, has the prices of reads for writes.
    #[test]
    fn a_list_says_nothing_of_writes_that_it_has_not_measured() {
        let mut model = model();
        let unmeasured = PriceList { random_write: flat(100).random_read, ..flat(100) };
        model.anchor(&unmeasured);
        let basis = |piece| model.certainty(&piece).map(|of| of.basis);
        assert_eq!(basis(piece(0, Kind::Write, None)), Some(Basis::Guessed));
        assert_eq!(basis(read(0)), Some(Basis::Anchored));
    }

    #[test]
    fn spans_of_unlike_mixes_tell_kinds_apart() {
        let mut model = model();
        let write = piece(0, Kind::Write, None);
        let (short, long) = (Duration::from_micros(50), Duration::from_micros(400));
        for turn in 0..2000_u32 {
            let reads = 100 + turn * 7 % 900;
            see(&mut model, read(0), short, reads);
            see(&mut model, write, long, 300 - reads / 4);
        }
        near(&mut model, read(0), short, 10);
        near(&mut model, write, long, 10);
    }

    /// Twice the price: after a second of time alone it is learned, though a minute had confirmed
    /// the old one.
    #[test]
    fn a_price_that_has_changed_is_learned_anew() {
        let mut model = model();
        see(&mut model, read(0), MS, 60_000);
        near(&mut model, read(0), MS, 100);
        see(&mut model, read(0), ms(2), 500);
        near(&mut model, read(0), ms(2), 10);
        see(&mut model, read(0), MS, 1000);
        near(&mut model, read(0), MS, 10);
    }

    #[test]
    fn a_price_list_is_where_estimates_start() {
        let price = |us| Price { each: Duration::from_micros(us), per_mib: Duration::ZERO };
        let list = PriceList {
            sequential_read: price(1),
            random_read: price(2),
            sequential_write: price(3),
            random_write: price(4),
        };
        let anchor = Some(list);
        let mut model = Learned::new(&CostParameters { anchor, ..CostParameters::default() });
        for (kind, distance, us) in [
            (Kind::Read, Some(99), 1),
            (Kind::Trim, None, 1),
            (Kind::Read, Some(100), 2),
            (Kind::Read, None, 2),
            (Kind::Write, Some(0), 3),
            (Kind::Zeroes, None, 1),
            (Kind::Flush, None, 4),
        ] {
            assert_eq!(model.estimate(&piece(0, kind, distance)), Duration::from_micros(us));
        }
        see(&mut model, read(0), ms(12), 1000);
        near(&mut model, read(0), ms(12), 50);
        model.anchor(&list);
        assert_eq!(model.estimate(&read(0)), Duration::from_micros(2), "what was measured counts");
    }

    fn flat(us: u64) -> PriceList {
        let each = Price { each: Duration::from_micros(us), per_mib: Duration::ZERO };
        let [sequential_read, random_read, sequential_write] = [each; 3];
        // A list that has measured writes.
        let random_write = Price { per_mib: Duration::from_nanos(1), ..each };
        PriceList { sequential_read, random_read, sequential_write, random_write }
    }

    #[test]
    fn an_estimate_says_where_it_comes_from_and_how_sure_it_is() {
        let mut model = model();
        let none = |basis| Certainty { basis, spread_permille: None, drift_permille: None };
        assert_eq!(model.certainty(&read(0)), Some(none(Basis::Guessed)));
        model.anchor(&flat(1000));
        let listed = Certainty { drift_permille: Some(0), ..none(Basis::Anchored) };
        assert_eq!(model.certainty(&read(0)), Some(listed));
        // Costs are twice as high as listed, give or take a half, in spells of spans.
        for turn in 0..4000 {
            see(&mut model, read(0), if turn % 2 == 0 { ms(1) } else { ms(3) }, 60);
        }
        let certainty = model.certainty(&read(0)).unwrap();
        assert_eq!(certainty.basis, Basis::Learned);
        let spread = certainty.spread_permille.unwrap();
        assert!((300..=600).contains(&spread), "{spread}");
        let drift = certainty.drift_permille.unwrap();
        assert!((800..=1200).contains(&drift), "{drift}");
        let write = model.certainty(&piece(0, Kind::Write, None)).unwrap();
        assert_eq!((write.basis, write.spread_permille), (Basis::Anchored, None));
    }

    #[test]
    fn a_cost_that_moves_beyond_chance_is_told_once_with_both_figures() {
        let mut model = model();
        // The first learned cost is not told as a move: the guess before it was told to nobody.
        see(&mut model, read(0), ms(5), 1000);
        assert_eq!(model.moved(&read(0)), None);
        see(&mut model, read(0), ms(10), 1000);
        let Moved { before, now, listed } = model.moved(&read(0)).unwrap();
        assert!(before.as_nanos().abs_diff(5_000_000) < 500_000, "{before:?}");
        assert!(now.as_nanos().abs_diff(10_000_000) < 1_000_000, "{now:?}");
        assert_eq!((listed, model.moved(&read(0))), (None, None));
        // By a tenth: nothing.
        see(&mut model, read(0), ms(11), 5000);
        assert_eq!(model.moved(&read(0)), None);
    }

    /// A device ten times slower, or faster, than its price list.
    #[test]
    fn a_price_list_that_is_wrong_by_ten_is_told_and_corrected() {
        for truth in [Duration::from_micros(100), ms(10)] {
            let mut model = model();
            model.anchor(&flat(1000));
            let mut told = None;
            for _ in 0..100_000 {
                if see(&mut model, read(0), truth, 1) > 0 {
                    told = told.or(model.moved(&read(0)));
                }
            }
            let Moved { before, now, listed } = told.unwrap();
            assert_eq!((before, listed), (MS, Some(MS)));
            assert!(now.as_nanos().abs_diff(truth.as_nanos()) < truth.as_nanos() / 5, "{now:?}");
            near(&mut model, read(0), truth, 50);
        }
    }

    /// It was 5 h: the price of each piece for minutes after.
    #[test]
    fn a_clock_that_jumps_is_no_price() {
        let mut model = model();
        see(&mut model, read(0), MS, 5000);
        see(&mut model, read(0), Duration::from_secs(5 * 3600), 1);
        see(&mut model, read(0), MS, 1000);
        near(&mut model, read(0), MS, 10);
    }

    #[test]
    fn extremes_leave_estimates_above_zero_and_finite() {
        let far = Duration::from_nanos(u64::MAX);
        let mut model = model();
        for took in [Duration::ZERO, far, Duration::ZERO, MS, far, far, Duration::ZERO] {
            for kind in [Kind::Read, Kind::Write, Kind::Flush] {
                let huge = PieceShape { bytes: u64::MAX, ..piece(3, kind, Some(u64::MAX)) };
                see(&mut model, huge, took, 50);
                see(&mut model, PieceShape { bytes: 0, ..huge }, took, 50);
                assert!(model.estimate(&huge) > Duration::ZERO);
            }
        }
    }
}
