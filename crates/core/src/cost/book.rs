//! The price book: what is known of each stream's costs, and what a completion adds to that.
//!
//! It asks the cost model what a piece will take, and tells a model that learns what pieces took where that
//! is seen: while one stream has the device to itself, and always on a device that tells which of its tiers
//! served a piece. Until a price was seen, a piece under a policy that gives turns is priced by what the
//! stream's turns were charged.
//!
//! Does not know: contracts, queues, or how time is charged.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{
    COST_MAX, CostModel, Costs, Estimate, Moved, PieceKind, PieceShape, PriceList, Seen, SeenAlone,
    SeenOnTier, Trust, Used,
};
use crate::types::by_stream::ByStream;
use crate::types::ids::StreamId;
use crate::types::tiers::Tier;
use crate::types::time::{Duration, Instant};

/// A change of a stream's cost is told at most this often.
const QUIET: Duration = Duration::from_secs(10);

/// The state of a stream's costs beside the cost model.
#[derive(Clone, Copy, Default)]
struct OfStream {
    /// The average of the latest charges of its pieces: trims, zeroes and all others.
    usual: [Option<Duration>; 3],
    /// When it was told last that the price has moved.
    told_at: Option<Instant>,
    /// Lengths of the last pieces of each kind that went out.
    lengths: [Option<u64>; PieceKind::ALL.len()],
    /// When the model learned last from a piece of each kind.
    seen_at: [Option<Instant>; PieceKind::ALL.len()],
}

/// The stream that sent the last piece, and since when only its pieces are at the device.
#[derive(Clone, Copy, Debug, Default)]
struct Exclusive {
    stream: Option<StreamId>,
    since: Option<Instant>,
    /// Its pieces that came back since then.
    pieces: u32,
    /// When the device was idle last: another stream may have gone before, and a pause is not its time.
    released: Instant,
}

/// The estimated cost of a piece.
#[derive(Clone, Copy)]
pub(crate) struct Quote {
    /// Its modelled cost: its weight when a window is divided.
    pub(crate) modelled: Duration,
    /// Its charge, where that is known beforehand; else windows charge `modelled` at their rate.
    pub(crate) charge: Option<Duration>,
}

/// A piece that came back.
pub(crate) struct Back {
    pub(crate) shape: PieceShape,
    /// The answer of [`PriceBook::sent`].
    pub(crate) used: Option<Used>,
    /// The tier that served it, if the device tells.
    pub(crate) tier: Option<Tier>,
    pub(crate) dispatched_at: Instant,
    /// When a piece came back last before it.
    pub(crate) before: Instant,
    /// How long the device may be busy with what it had before.
    pub(crate) settling: Duration,
    /// Pieces at the device, without it; and those of the stream that sent the last piece.
    pub(crate) in_flight: u32,
    pub(crate) of_last: u32,
    /// Whether it took what it takes alone, if the policy tells.
    pub(crate) steady: Option<bool>,
}

/// See the module.
pub(crate) struct PriceBook {
    model: Box<dyn CostModel>,
    /// The model learns.
    pub(crate) learns: bool,
    /// How far its costs are to be relied on.
    pub(crate) trust: Trust,
    /// The policy gives slices: windows are divided by the list's prices, not by those learned, and it corrects
    /// them by stream.
    slices: bool,
    streams: ByStream<OfStream>,
    exclusive: Exclusive,
    /// When each tier finished a piece last.
    tiers: [Instant; Tier::COUNT],
}

impl PriceBook {
    pub(crate) fn new(mut model: Box<dyn CostModel>, slices: bool) -> Self {
        let (streams, tiers) = (ByStream::default(), [Instant::ZERO; Tier::COUNT]);
        let (learns, trust) = (model.learner().is_some(), model.trust());
        let exclusive = Exclusive::default();
        Self { model, learns, trust, slices, streams, exclusive, tiers }
    }

    /// Whether the device tells which tier serves a piece.
    pub(crate) fn tiers_are_told(&self) -> bool {
        self.tiers.iter().any(|end| *end > Instant::ZERO)
    }

    /// The estimated cost of a piece if it goes out next; `alone`, it is charged the time that it takes.
    #[inline(always)]
    pub(crate) fn quote(&mut self, shape: &PieceShape, alone: bool) -> Quote {
        // Charges are means of unlike pieces where tiers are told.
        let by_list = self.slices && !self.tiers_are_told();
        // Paces are measured by the list: it does not move while the model learns.
        let learner = if by_list && self.learns { self.model.learner() } else { None };
        let prices = learner.map(|it| it.estimate_and_list(shape));
        // Time is divided in proportion to it: never zero.
        let [price, modelled] = prices
            .unwrap_or_else(|| [self.model.estimate(shape); 2])
            .map(|cost| cost.clamp(Duration::from_nanos(1), COST_MAX));
        let usual = self.of(shape.stream).usual[PieceKind::of(shape).usual()].filter(|_| by_list);
        let charge = (alone && by_list == self.slices).then(|| usual.unwrap_or(price));
        Quote { modelled, charge }
    }

    /// A piece goes out that begins at that byte of the device. Answers what [`Back`] is to say of it.
    pub(crate) fn sent(
        &mut self,
        now: Instant,
        shape: &PieceShape,
        offset: u64,
        idle: bool,
    ) -> Option<Used> {
        self.of(shape.stream).lengths[PieceKind::of(shape) as usize] = Some(shape.bytes);
        let same = self.exclusive.stream.replace(shape.stream) == Some(shape.stream);
        if idle {
            self.exclusive.released = now;
            if !same || self.exclusive.since.is_none() {
                (self.exclusive.since, self.exclusive.pieces) = (Some(now), 0);
            }
        } else if !same {
            self.exclusive.since = None;
        }
        if self.tiers_are_told() { self.model.learner()?.sent(shape, offset) } else { None }
    }

    /// The device did nothing for so long.
    pub(crate) fn skip(&mut self, stall: Duration) {
        self.exclusive.since = self.exclusive.since.map(|since| since + stall);
    }

    /// The stream that sent the last piece.
    pub(crate) fn last(&self) -> Option<StreamId> {
        self.exclusive.stream
    }

    /// A piece came back: a model that learns is told what it took. Answers what that tells of the stream's
    /// price, if it does.
    pub(crate) fn completed(&mut self, now: Instant, back: &Back) -> Option<Seen> {
        let alone = self.seen_alone(now, back);
        let (piece, used) = (back.shape, back.used);
        let seen = if let Some(tier) = back.tier {
            let ended = core::mem::replace(&mut self.tiers[tier as usize], now);
            let took = now.since(ended.max(back.dispatched_at));
            let response = now.since(back.dispatched_at);
            let seen = SeenOnTier { piece, used, tier, took, response, alone };
            self.model.learner()?.seen_on_tier(&seen)
        } else {
            let learner = self.model.learner()?;
            alone.filter(|seen| learner.seen_alone(seen)).map(|_| Seen::Alone)
        };
        if seen.is_some() {
            self.of(piece.stream).seen_at[PieceKind::of(&piece) as usize] = Some(now);
        }
        seen
    }

    /// The time that a piece took, if its stream has had the device to itself.
    fn seen_alone(&mut self, now: Instant, back: &Back) -> Option<SeenAlone> {
        let Exclusive { stream: last, since, released, pieces } = self.exclusive;
        let piece = back.shape;
        let Some(since) = since.filter(|_| last == Some(piece.stream)) else {
            if last.is_some() && back.in_flight > 0 && back.of_last == back.in_flight {
                (self.exclusive.since, self.exclusive.pieces) = (Some(now), 0);
            }
            return None;
        };
        self.exclusive.pieces = pieces.saturating_add(1);
        let took = now.since(back.before.max(released).max(since));
        let (since, in_flight) = (now.since(since), back.in_flight + 1);
        let Back { settling, steady, .. } = *back;
        Some(SeenAlone { piece, took, since, pieces, in_flight, settling, steady })
    }

    /// Whether the price of such a piece has moved beyond chance since that was told last: told of each
    /// stream now and then.
    pub(crate) fn moved(&mut self, now: Instant, shape: &PieceShape) -> Option<Moved> {
        if self.of(shape.stream).told_at.is_some_and(|at| now.since(at) < QUIET) {
            return None;
        }
        let moved = self.model.learner()?.moved(shape)?;
        self.of(shape.stream).told_at = Some(now);
        Some(moved)
    }

    /// A piece was charged by itself.
    pub(crate) fn charged(&mut self, shape: &PieceShape, charge: Duration) {
        let mean = &mut self.of(shape.stream).usual[PieceKind::of(shape).usual()];
        let (usual, charge) = (mean.unwrap_or(charge).as_nanos(), charge.as_nanos());
        *mean = Some(Duration::from_nanos(usual - usual / 8 + charge / 8));
    }

    /// The estimated costs of requests, of the streams seen, if the model learns them.
    pub(crate) fn costs(&mut self) -> Option<Costs> {
        Some(self.model.learner()?.costs())
    }

    /// The estimated cost of each kind of a stream's pieces, of those that it has sent; nothing of a model
    /// that knows no costs.
    pub(crate) fn estimates(&mut self, stream: StreamId) -> Vec<Estimate> {
        let OfStream { lengths, seen_at, .. } = *self.of(stream);
        let estimate = |kind: PieceKind| {
            let shape = kind.shape(stream, lengths[kind as usize]?);
            let certainty = self.model.certainty(&shape)?;
            let (bytes, cost) = (shape.bytes, self.model.estimate(&shape));
            let (seen_at, guest_permille) = (seen_at[kind as usize], None);
            Some(Estimate { kind, bytes, cost, certainty, seen_at, guest_permille })
        };
        PieceKind::ALL.into_iter().filter_map(estimate).collect()
    }

    /// The device's price list has been measured, or measured again.
    pub(crate) fn anchor(&mut self, prices: &PriceList) {
        self.model.learner().into_iter().for_each(|learner| learner.anchor(prices));
    }

    /// A stream goes.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        self.streams.remove(stream);
        if self.exclusive.stream == Some(stream) {
            self.exclusive = Exclusive::default();
        }
        self.model.learner().into_iter().for_each(|learner| learner.forget(stream));
    }

    fn of(&mut self, stream: StreamId) -> &mut OfStream {
        self.streams.get_or_insert_with(stream, OfStream::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Learner;
    use crate::types::request::Kind;

    /// Every piece costs 1 ms, is seen, and has moved.
    struct Flat;

    impl CostModel for Flat {
        fn estimate(&mut self, _piece: &PieceShape) -> Duration {
            Duration::from_millis(1)
        }

        fn learner(&mut self) -> Option<&mut dyn Learner> {
            Some(self)
        }
    }

    impl Learner for Flat {
        fn seen_alone(&mut self, _seen: &SeenAlone) -> bool {
            true
        }

        fn seen_on_tier(&mut self, _seen: &SeenOnTier) -> Option<Seen> {
            None
        }

        fn sent(&mut self, _piece: &PieceShape, _offset: u64) -> Option<Used> {
            None
        }

        fn costs(&self) -> Costs {
            Costs { sequential: Duration::ZERO, random: Duration::ZERO, observations: 0 }
        }

        fn estimate_and_list(&mut self, _piece: &PieceShape) -> [Duration; 2] {
            [Duration::from_millis(1); 2]
        }

        fn moved(&mut self, _piece: &PieceShape) -> Option<Moved> {
            let before = Duration::from_millis(1);
            Some(Moved { before, now: before, listed: None })
        }

        fn forget(&mut self, _stream: StreamId) {}

        fn anchor(&mut self, _prices: &PriceList) {}
    }

    fn book() -> PriceBook {
        PriceBook::new(Box::new(Flat), false)
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    fn shape(stream: u32) -> PieceShape {
        let (stream, kind) = (StreamId(stream), Kind::Read);
        PieceShape { stream, kind, bytes: 4096, distance_sectors: None }
    }

    /// A piece of that stream comes back from a device that had it alone.
    fn back(stream: u32, sent: Instant, before: Instant) -> Back {
        Back {
            shape: shape(stream),
            used: None,
            tier: None,
            dispatched_at: sent,
            before,
            settling: Duration::ZERO,
            in_flight: 0,
            of_last: 0,
            steady: None,
        }
    }

    #[test]
    fn a_piece_is_seen_alone_without_idleness_and_stalls() {
        let mut book = book();
        book.sent(at(10), &shape(0), 0, true);
        let seen = book.seen_alone(at(14), &back(0, at(10), at(1))).expect("it was alone");
        assert_eq!((seen.took, seen.since, seen.pieces), (ms(4), ms(4), 0));
        book.sent(at(14), &shape(0), 0, false);
        let seen = book.seen_alone(at(19), &back(0, at(14), at(14))).expect("it is alone");
        assert_eq!((seen.took, seen.since, seen.pieces), (ms(5), ms(9), 1));
        book.skip(ms(50));
        let seen = book.seen_alone(at(70), &back(0, at(19), at(69))).expect("it is alone");
        assert_eq!((seen.took, seen.since), (ms(1), ms(10)), "the device did nothing for 50 ms");
    }

    #[test]
    fn nothing_is_seen_alone_while_another_streams_piece_is_there() {
        let mut book = book();
        book.sent(at(0), &shape(0), 0, true);
        book.sent(at(1), &shape(1), 0, false);
        let first = Back { in_flight: 1, of_last: 1, ..back(0, at(0), at(0)) };
        assert_eq!(book.seen_alone(at(5), &first), None);
        let seen = book.seen_alone(at(8), &back(1, at(1), at(5))).expect("now it is alone");
        assert_eq!((seen.took, seen.since), (ms(3), ms(3)));
    }

    #[test]
    fn a_piece_in_a_slice_is_charged_as_others_were_lately_and_modelled_by_the_list() {
        let mut book = PriceBook::new(Box::new(Flat), true);
        (0..40).for_each(|_| book.charged(&shape(0), ms(1)));
        (0..8).for_each(|_| book.charged(&shape(0), ms(9)));
        let quote = book.quote(&shape(0), true);
        let charge = quote.charge.expect("it is charged by itself");
        assert!((ms(5)..ms(8)).contains(&charge), "lately: {charge:?}");
        assert_eq!(quote.modelled, ms(1));
        assert_eq!(book.quote(&shape(0), false).charge, None, "windows charge it");
        assert_eq!(book.quote(&shape(1), true).charge, Some(ms(1)), "nothing of it was charged");
    }

    #[test]
    fn without_slices_a_piece_is_charged_as_the_model_says() {
        let mut book = book();
        book.charged(&shape(0), ms(9));
        assert_eq!(book.quote(&shape(0), true).charge, Some(ms(1)));
        assert_eq!(book.quote(&shape(0), false).charge, None);
    }

    /// A device with two tiers: recent charges are of both, and say nothing of the one that serves next.
    #[test]
    fn where_tiers_are_told_the_model_says_what_a_piece_costs() {
        let mut book = PriceBook::new(Box::new(Flat), true);
        book.charged(&shape(0), ms(9));
        let told = Back { tier: Some(Tier::Slow), ..back(1, at(0), at(0)) };
        assert_eq!(book.completed(at(1), &told), None);
        let quote = book.quote(&shape(0), true);
        assert_eq!((quote.modelled, quote.charge), (ms(1), None));
    }

    /// Pieces charged nothing would have no part of a window, and a window of such pieces no parts.
    #[test]
    fn no_piece_is_quoted_nothing() {
        let mut book = book();
        book.charged(&shape(0), Duration::ZERO);
        assert!(book.quote(&shape(0), true).modelled > Duration::ZERO);
    }

    /// A device whose costs change all the time would fill the log with it.
    #[test]
    fn a_moved_price_is_told_of_each_stream_now_and_then() {
        let mut book = book();
        let mut told = |millis, stream| book.moved(at(millis), &shape(stream)).is_some();
        assert!(told(0, 0) && told(1, 1), "of each stream");
        assert!(!told(6_000, 0), "not again within seconds");
        assert!(told(15_000, 0));
    }

    /// The time of a piece beside another stream's is no price.
    #[test]
    fn a_piece_that_joins_another_streams_is_not_alone() {
        let mut book = book();
        book.sent(at(0), &shape(0), 0, true);
        book.sent(at(0), &shape(1), 0, false);
        let beside = Back { in_flight: 1, ..back(1, at(0), at(0)) };
        assert_eq!(book.completed(at(1), &beside), None);
    }
}
