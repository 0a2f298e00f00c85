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

use super::{
    Basis, Certainty, CostEntry, CostModel, CostParameters, Costs, Learner, Moved, PieceKind,
    PieceShape, Price, PriceList, Seen, SeenAlone, SeenOnTier, Trust, Used,
};
use crate::types::by_stream::ByStream;
use crate::types::ids::StreamId;
use crate::types::ratio::scaled;
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
/// if it has at least this many pieces; and this many are enough, however soon they are over: by chance their mean is
/// an eighth of a piece's spread off (docs/appendix/tried-looks.md).
const PIECES: [u32; 2] = [4, 64];
/// Factors are means over as much time alone.
const MEMORY: i128 = 8_000_000_000;
/// Spreads are means over half as much again.
const SPREAD: i128 = 250_000_000;
/// The cost of a kind is told as a moving average over so many pieces.
const MEAN: u64 = 256;
/// A kind's factor counts as learned once that many spans had such pieces. From then on it is told of if it has moved
/// by a quarter and by twice the usual spread.
const TOLD: u32 = 8;
const TOLD_BY: i128 = ONE / 4;
/// A piece counts for no longer than this, in ns, and than eight such pieces,
const STALL: u64 = 100_000_000;
/// nor than this, in ns.
const LONG: u64 = 1_000_000_000_000;
const MIB: u64 = 1 << 20;

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

#[derive(Default)]
struct Learned {
    list: [Price; KINDS],
    /// Kinds that the list has measured, not guessed.
    anchored: [bool; KINDS],
    streams: ByStream<Known>,
    /// The disk times of streams' pieces on each tier, on a device that tells.
    on_tiers: ByStream<OnTiers>,
    /// The hit rates that streams would have if each were alone.
    reuse: Reuse,
    /// Factors of streams that were not seen yet.
    usual: [i128; KINDS],
    /// The mean cost of a piece of each kind over the last ones of all streams, in parts of a [`MEAN`]th
    /// of a ns: a step of the mean is smaller than a ns.
    mean: [u64; KINDS],
    /// Spans so far.
    spans: u32,
}

/// The learned costs of a stream.
#[derive(Clone, Copy, Default)]
struct Known {
    fit: Fit,
    /// The open span: what it took, and what its pieces of each kind, and all, were reckoned to take, in ns.
    took: u64,
    reckoned: [i128; KINDS],
    sum: u64,
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
        Self { list, anchored, usual: [ONE; KINDS], ..Self::default() }
    }

    /// By the list, in ns; rounded down.
    fn by_list(&self, shape: &PieceShape, kind: usize) -> u64 {
        let Price { each, per_mib } = self.list[kind];
        let by_length = scaled(shape.bytes, per_mib.as_nanos(), MIB);
        by_length.saturating_add(each.as_nanos()).max(1)
    }
}

impl CostModel for Learned {
    fn estimate(&mut self, piece: &PieceShape) -> Duration {
        self.estimate_and_list(piece)[0]
    }

    fn trust(&self) -> Trust {
        Trust::Learned
    }

    fn certainty(&self, piece: &PieceShape) -> Option<Certainty> {
        let kind = kind(piece);
        let known = self.streams.get(piece.stream);
        let factor = known.map_or(&self.usual, |known| &known.fit.factors)[kind];
        let seen = known.filter(|known| known.spans[kind] >= TOLD);
        let basis = match (seen, self.anchored[kind]) {
            (Some(_), _) => Basis::Learned,
            (None, true) => Basis::Anchored,
            (None, false) => Basis::Guessed,
        };
        // Rounded up: no cost is known to less than a thousandth.
        let permille = |spread: i128| u32::try_from(spread * 1000 / ONE + 1).unwrap_or(u32::MAX);
        let spread = seen.map(|known| permille(known.spread));
        let drift = i64::try_from((factor - ONE) * 1000 / ONE).unwrap_or(i64::MAX);
        let drift_permille = self.anchored[kind].then_some(drift);
        Some(Certainty { basis, spread_permille: spread, drift_permille })
    }

    fn learner(&mut self) -> Option<&mut dyn Learner> {
        Some(self)
    }
}

impl Learner for Learned {
    fn estimate_and_list(&mut self, piece: &PieceShape) -> [Duration; 2] {
        let kind = kind(piece);
        let listed = self.by_list(piece, kind);
        let hits = || self.reuse.hits_alone(piece.stream);
        let tiers = self.on_tiers.get(piece.stream);
        let by_tier = tiers.and_then(|tiers| tiers.cost(kind, listed.into(), hits()));
        let known = self.streams.get(piece.stream);
        let factor = known.map_or(&self.usual, |known| &known.fit.factors)[kind];
        let by_tier = by_tier.map(|cost| u64::try_from(cost).unwrap_or(u64::MAX));
        let cost = by_tier.unwrap_or_else(|| by_factor(listed, factor));
        let mean = &mut self.mean[kind];
        let last = cost.min(u64::MAX / MEAN);
        *mean = match *mean {
            0 => last * MEAN,
            before => before - before / MEAN + last,
        };
        [cost.max(1), listed].map(Duration::from_nanos)
    }

    fn seen_alone(&mut self, seen: &SeenAlone) -> bool {
        if !seen.has_settled() {
            return false;
        }
        let (stream, kind) = (seen.piece.stream, kind(&seen.piece));
        let listed = self.by_list(&seen.piece, kind);
        let known = self.streams.get_or_insert_with(stream, || {
            let told = self.anchored.map(|anchored| if anchored { ONE } else { 0 });
            Known { fit: Fit::new(self.usual), told, ..Known::default() }
        });
        let reckoned = by_factor(listed, known.fit.factors[kind]).clamp(1, LONG);
        // A device that stalls, or a clock that jumps, says nothing of costs.
        known.took += seen.took.as_nanos().min(STALL.max(8 * reckoned)).min(LONG);
        known.reckoned[kind] += i128::from(reckoned);
        known.sum += reckoned;
        known.pieces += 1;
        // It ends with a number of pieces, not when one took long: that would choose what is seen. A
        // queue that picks what is near leaves the rest for later: it must have turned over.
        let [least, most] = SPANS.map(Duration::as_nanos);
        let long = known.sum >= least || known.pieces >= PIECES[1];
        let enough = long && known.pieces >= PIECES[0].max(2 * seen.in_flight);
        if !enough && (known.took < most || known.pieces < PIECES[0]) {
            return false;
        }
        let part = known.sum.min(least);
        known.close();
        let main = (0..KINDS).max_by_key(|kind| known.reckoned[*kind]).unwrap_or(0);
        // A short span says less of streams that were not seen.
        let off = (known.fit.factors[main] - self.usual[main]) / 4;
        self.usual[main] += off * i128::from(part) / i128::from(least);
        known.reckoned = [0; KINDS];
        self.spans = self.spans.saturating_add(1);
        true
    }

    fn moved(&mut self, piece: &PieceShape) -> Option<Moved> {
        let kind = kind(piece);
        let listed = self.by_list(piece, kind);
        let known = self.streams.get_mut(piece.stream)?;
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
        let cost = |factor| Duration::from_nanos(by_factor(listed, factor).max(1));
        let listed = self.anchored[kind].then(|| cost(ONE));
        Some(Moved { before: cost(before), now: cost(now), listed })
    }

    fn seen_on_tier(&mut self, seen: &SeenOnTier) -> Option<Seen> {
        let (stream, kind) = (seen.piece.stream, kind(&seen.piece));
        let listed = i128::from(self.by_list(&seen.piece, kind));
        let on_tiers = self.on_tiers.get_or_insert_with(stream, OnTiers::default);
        let alone = seen.alone.map(|alone| alone.has_settled());
        let [took, response] = [seen.took, seen.response].map(|time| i128::from(time.as_nanos()));
        let served = Served { tier: seen.tier, listed, took, response };
        let over = on_tiers.seen(kind, served, alone);
        on_tiers.judge();
        self.reuse.seen(seen);
        let hits = self.reuse.hits_alone(stream);
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
        let reads = piece.kind == Kind::Read && self.on_tiers.ids_end() > 0;
        reads.then(|| self.reuse.sent(piece.stream, offset)).flatten()
    }

    fn forget(&mut self, stream: StreamId) {
        self.streams.remove(stream);
        self.on_tiers.remove(stream);
        self.reuse.forget(stream);
    }

    fn costs(&self) -> Costs {
        let mean = |kind: usize| Duration::from_nanos((self.mean[kind] / MEAN).max(1));
        let [sequential, random] = [0, 1].map(mean);
        Costs { sequential, random, observations: self.spans }
    }

    /// The factors learned by the old list are forgotten.
    fn anchor(&mut self, list: &PriceList) {
        self.list = prices(list);
        self.anchored = measured(list);
        (self.streams, self.on_tiers) = (ByStream::default(), ByStream::default());
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
    /// A span is over.
    fn close(&mut self) {
        let [sum, took] = [self.sum, self.took].map(i128::from);
        let error = ((took - sum) * ONE / sum.max(1)).min(FACTORS[1]);
        self.drift += (error.clamp(-ONE, ONE) - self.drift) / 4;
        if self.drift.abs() > self.spread * 3 / 2 + ONE / 32 {
            // Chance alone does that once in a thousand spans.
            self.fit.forget(if self.drift.abs() > ONE / 4 { 0 } else { 3 * sum });
            self.drift = 0;
        }
        self.fit.forget((MEMORY - sum).max(0));
        self.fit.add(&self.reckoned, sum.max(1), error);
        let error = error.abs().min(ONE);
        // The first ones count alike, but for the very first, which the second replaces: it says by how much the
        // guess was off.
        let before = self.spans.into_iter().max().map_or(0, i128::from);
        let part = (took.min(SPREAD) * ONE / (2 * SPREAD)).max(ONE / before.max(1));
        self.spread += (error - self.spread) * part / ONE;
        let spans = self.spans.iter_mut().zip(self.reckoned).filter(|(_, part)| *part > 0);
        spans.for_each(|(spans, part)| *spans = spans.saturating_add((part * 8 >= sum).into()));
        (self.took, self.sum, self.pieces) = (0, 0, 0);
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

/// A cost by the list, in ns, by a factor in parts of [`ONE`]; rounded down.
fn by_factor(listed: u64, factor: i128) -> u64 {
    let factor = u64::try_from(factor).unwrap_or(u64::MAX);
    u64::try_from((u128::from(listed) * u128::from(factor)) >> ONE.ilog2()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
