//! Shaping: best effort passes a filter whose rate a controller sets, for soft real time
//! (mdn, sections 3 to 5; `docs/soft-real-time.md`).
//!
//! Requests of best effort and background need tokens; those of soft real-time streams and within
//! guaranteed classes don't, nor does what a stream's reservation covers. Tokens are handed out in
//! bursts, to the streams that wait in turn, by weight; a stream with tokens left is ordered by the
//! policy like any other.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::event::Event;
use super::{Engine, instant};
use crate::account::posting::Debited;
use crate::classes::lane::{Gate, Head};
use crate::classes::stream::Stream;
use crate::shaping::claims::{Claim, Ignored};
use crate::shaping::feedback::{Controller, FeedbackConfig, Pipe, Standing, Token, TokenRate};
use crate::shaping::filter::{Filter, Observed};
use crate::types::by_stream::ByStream;
use crate::types::contract::{Class, Contract};
use crate::types::heap::IndexedHeap;
use crate::types::ids::StreamId;
use crate::types::rank::Rank;
use crate::types::ratio::scaled;
use crate::types::request::Direction;
use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

/// The limits of best effort for now, and the outcome of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BestEffort {
    /// R for what reads; `None` for no limit.
    pub reads: Option<TokenRate>,
    /// R for what writes; `None` for no limit.
    pub writes: Option<TokenRate>,
    /// Reports that counted.
    pub reports: u64,
    /// Reports that did not.
    pub ignored: u64,
}

/// The step of a stream's tag at a burst, times its weight: bursts are handed out in proportion to weights.
const TURN: i64 = Contract::WEIGHT_MAX as i64;
/// Tokens that a stream does not use for so long are lost, as they are in a bucket that is full.
const UNUSED_MAX: Duration = Duration::from_secs(1);

/// The tokens with which a stream may still send.
#[derive(Clone, Copy, Debug, Default)]
struct Allowance {
    /// Grains; below zero if its last piece took more than it had.
    left: i64,
    handed_at: Instant,
    /// Its place in the order of turns.
    tag: i64,
}

/// One direction of best effort.
struct Way {
    filter: Filter,
    observed: Observed,
    controller: Box<dyn Controller>,
    /// By stream.
    allowances: ByStream<Allowance>,
    /// Streams that it holds back, by their place in the order of turns.
    waiting: IndexedHeap,
    /// The place of who had the last turn.
    turn: i64,
    /// It has begun to hold back since lanes were last gated.
    regate: bool,
    /// For whom R was cut, by how much.
    parts: BTreeMap<StreamId, TokenRate>,
}

pub(super) struct Shaping {
    config: FeedbackConfig,
    ways: [Way; Direction::COUNT],
    /// Soft real-time streams.
    claims: BTreeMap<StreamId, Claim>,
    /// When controllers look next.
    look_at: Option<Instant>,
    /// Streams held back until their reservation lets them pass, or what they pay back, in ns.
    reserved: IndexedHeap,
    reports: u64,
    ignored: u64,
}

impl Shaping {
    /// None if nothing shapes.
    pub(super) fn new(config: &FeedbackConfig) -> Option<Box<Self>> {
        let build = config.controller.build?;
        let way = || {
            let mut filter = Filter::new(config);
            filter
                .set_rate(Instant::ZERO, config.bounded(TokenRate::per_second(config.rate_start)));
            Way {
                regate: filter.rate().is_some(),
                filter,
                observed: Observed::default(),
                controller: build(config),
                allowances: ByStream::default(),
                waiting: IndexedHeap::default(),
                turn: 0,
                parts: BTreeMap::new(),
            }
        };
        Some(Box::new(Self {
            config: *config,
            ways: [way(), way()],
            claims: BTreeMap::new(),
            look_at: None,
            reserved: IndexedHeap::default(),
            reports: 0,
            ignored: 0,
        }))
    }

    /// When it wants the engine to look.
    pub(super) fn next(&self) -> Option<Instant> {
        let waiting = self.ways.iter().filter(|way| !way.waiting.is_empty());
        let hands = waiting.map(|way| way.filter.hands_at()).min();
        let reserved = self.reserved.peek().map(|(at, _)| instant(at));
        [hands, reserved, self.look_at].into_iter().flatten().min()
    }

    /// The tokens that a piece takes, in grains; a flush has no bytes.
    pub(super) fn grains(&self, bytes: u64, first: bool, estimate: Duration) -> u64 {
        match self.config.token {
            Token::Request => u64::from(first),
            Token::Data => bytes,
            Token::Time => estimate.as_nanos(),
        }
    }

    /// Whether a lane's next piece has to wait for tokens.
    pub(super) fn holds(&mut self, now: Instant, stream: &mut Stream, rank: Rank) -> bool {
        if stream.spec.contract.class == Class::SoftRealTime {
            return self.pays_back(now, stream);
        }
        let head = stream.lanes[rank].head.as_ref();
        let Some(head) = head.filter(|head| is_shaped(stream, rank) && head.grains > 0) else {
            return false;
        };
        let way = &mut self.ways[Direction::of(head.shape.kind) as usize];
        if way.lets(now, stream.id) {
            return false;
        }
        let Err(until) = covered(now, stream) else { return false };
        if until < i64::MAX {
            self.reserved.set(stream.id.0, until);
        }
        way.wait(now, stream.id);
        true
    }

    /// Whether a soft real-time stream waits because its reports brought it what it did not need.
    fn pays_back(&mut self, now: Instant, stream: &mut Stream) -> bool {
        let claim = self.claims.get_mut(&stream.id);
        let until = claim.and_then(|claim| claim.waits_until(now, served(stream)));
        let Some((until, Err(covered))) = until.map(|until| (until, covered(now, stream))) else {
            return false;
        };
        self.reserved.set(stream.id.0, until.since(Instant::ZERO).as_tokens().min(covered));
        true
    }

    /// A piece goes out. Answers which way it paid, if it had to.
    pub(super) fn pay(
        &mut self,
        now: Instant,
        stream: &Stream,
        rank: Rank,
        head: &Head,
    ) -> Option<Direction> {
        let direction = Direction::of(head.shape.kind);
        let way = &mut self.ways[direction as usize];
        if !is_shaped(stream, rank) || !way.lets(now, stream.id) {
            return None;
        }
        way.take(now, stream.id, i64::try_from(head.grains).unwrap_or(i64::MAX));
        Some(direction)
    }

    /// Pieces for which tokens of time were taken turned out to take that long.
    pub(super) fn correct(&mut self, now: Instant, id: StreamId, pieces: &Debited, took: Duration) {
        if self.config.token != Token::Time {
            return;
        }
        for direction in Direction::ALL {
            let (modelled, estimates) = pieces.paid[direction as usize];
            if modelled > 0 {
                let charged = scaled(took.as_nanos(), modelled, pieces.modelled);
                let charged = Duration::from_nanos(charged).as_tokens();
                self.ways[direction as usize].take(now, id, charged - estimates);
            }
        }
    }

    /// The device was kept idle for a stream that is shaped.
    pub(super) fn held_idle(&mut self, now: Instant, stream: &Stream, held: Duration) {
        if self.config.token == Token::Time && is_shaped(stream, stream.home()) {
            self.ways[Direction::Reads as usize].take(now, stream.id, held.as_tokens());
        }
    }

    /// A soft real-time stream's first request has arrived, or its last one is over.
    pub(super) fn turned(&mut self, now: Instant, stream: &Stream) {
        let Some(claim) = self.claims.get_mut(&stream.id) else { return };
        // A controller that clears the way looks as soon as that has been enough.
        let clears = self.config.controller.lends;
        if claim.turned(now, stream.live == 0, served(stream)) && clears {
            self.look_at = self.look_at.map(|at| at.min(now));
        }
    }

    /// A stream has no client any more.
    pub(super) fn left(&mut self, now: Instant, id: StreamId) {
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.left();
        }
        self.ended(now, id);
    }

    /// A stream is soft real-time from now on, or not.
    pub(super) fn declared(&mut self, now: Instant, stream: &Stream) {
        let id = stream.id;
        if stream.spec.contract.class == Class::SoftRealTime {
            let claim = self.claims.entry(id).or_insert_with(|| Claim::new(now));
            claim.turned(now, stream.live == 0, served(stream));
        } else if self.claims.remove(&id).is_some() {
            self.ended(now, id);
        }
    }

    /// A stream is gone.
    pub(super) fn forget(&mut self, now: Instant, id: StreamId) {
        if self.claims.remove(&id).is_some() {
            self.ended(now, id);
        }
        self.reserved.remove(id.0);
        for way in &mut self.ways {
            way.waiting.remove(id.0);
            way.allowances.remove(id);
        }
    }

    /// The stream ended: the rate that was cut for it comes back.
    fn ended(&mut self, now: Instant, id: StreamId) {
        for index in 0..Direction::COUNT {
            let way = &mut self.ways[index];
            let Some(part) = way.parts.remove(&id) else { continue };
            let others = way.parts.values().fold(TokenRate::ZERO, |sum, part| sum.plus(*part));
            let pipe = way.pipe(now, self.config.token);
            let rate = way.controller.ended(now, pipe, part, others);
            self.set_rate(now, index, rate, None);
        }
    }

    /// A stream reports a missed deadline.
    fn missed(&mut self, now: Instant, id: StreamId, served: u64) -> Result<(), Ignored> {
        let claim = self.claims.get_mut(&id).ok_or(Ignored::OtherClass)?;
        let FeedbackConfig { report_interval, anti_cheat, controller, .. } = self.config;
        let lends = anti_cheat && controller.lends;
        claim.report(now, served, report_interval, (anti_cheat, lends))?;
        for index in 0..Direction::COUNT {
            let way = &mut self.ways[index];
            let pipe = way.pipe(now, self.config.token);
            if pipe.rate.is_none() && pipe.observed <= self.config.least() {
                continue;
            }
            let rate = way.controller.missed(now, pipe);
            self.set_rate(now, index, rate, Some(id));
        }
        Ok(())
    }

    /// Controllers look at what they have done; what a stream has been served so far is told.
    fn look(&mut self, now: Instant, served: impl Fn(StreamId) -> u64) {
        let (mut worst, mut done) = (None::<(StreamId, Standing)>, Vec::new());
        for (id, claim) in &mut self.claims {
            let standing = claim.look(now, served(*id));
            if claim.is_gone(now) || claim.overdue(now, served(*id)) {
                done.push(*id);
                continue;
            }
            let cut_for = self.ways.iter().any(|way| way.parts.contains_key(id));
            // An unknown lag is worse than any.
            let key = |it: Standing| (it.behind, it.lag.unwrap_or(Duration::MAX));
            if cut_for && worst.is_none_or(|(_, most)| key(standing) > key(most)) {
                worst = Some((*id, standing));
            }
        }
        done.into_iter().for_each(|id| self.ended(now, id));
        let standing = worst.map_or_else(Standing::default, |(_, standing)| standing);
        for index in 0..Direction::COUNT {
            let way = &mut self.ways[index];
            if way.filter.rate().is_none() {
                continue;
            }
            let pipe = way.pipe(now, self.config.token);
            let rate = way.controller.refilled(now, pipe, standing);
            self.set_rate(now, index, rate, worst.map(|(id, _)| id));
        }
    }

    /// A controller's answer holds; a cut is `cause`'s.
    fn set_rate(
        &mut self,
        now: Instant,
        index: usize,
        rate: Option<TokenRate>,
        cause: Option<StreamId>,
    ) {
        let rate = rate.and_then(|rate| self.config.bounded(rate));
        let way = &mut self.ways[index];
        let before = way.pipe(now, self.config.token);
        if rate != before.rate {
            way.attribute(before, rate, cause);
            way.filter.set_rate(now, rate);
            if before.rate.is_none() {
                // Nobody has tokens yet, nor a place in the order.
                way.allowances = ByStream::default();
                way.turn = 0;
                way.regate = true;
            }
        }
        let limited = self.ways.iter().any(|way| way.filter.rate().is_some());
        self.look_at = if limited { self.look_at.or(Some(now + self.config.refill)) } else { None };
    }
}

impl Way {
    fn pipe(&mut self, now: Instant, token: Token) -> Pipe {
        if !self.waiting.is_empty() {
            self.observed.held(now);
        }
        Pipe {
            rate: self.filter.rate(),
            observed: self.observed.rate(now, token.grains()),
            binding: self.observed.has_held(now),
        }
    }

    fn allowance(&mut self, id: StreamId) -> &mut Allowance {
        self.allowances.get_or_insert_with(id, Allowance::default)
    }

    /// Whether a stream may send another piece.
    fn lets(&mut self, now: Instant, id: StreamId) -> bool {
        if self.filter.rate().is_none() {
            return true;
        }
        let allowance = self.allowance(id);
        if now.since(allowance.handed_at) > UNUSED_MAX {
            allowance.left = allowance.left.min(0);
        }
        allowance.left > 0
    }

    /// A stream waits for its turn; one that has not waited for long has no claim to what it missed.
    fn wait(&mut self, now: Instant, id: StreamId) {
        self.observed.held(now);
        let turn = self.turn;
        let tag = &mut self.allowance(id).tag;
        *tag = turn.max(*tag);
        let tag = *tag;
        self.waiting.set(id.0, tag);
    }

    /// Something of a stream passes, or is corrected.
    fn take(&mut self, now: Instant, id: StreamId, grains: i64) {
        self.observed.note(now, grains);
        if self.filter.rate().is_some() {
            let left = &mut self.allowance(id).left;
            *left = left.saturating_sub(grains);
        }
    }

    /// The stream that goes on: any that waits if no rate is set, else the next one for a burst.
    fn next(&mut self, now: Instant) -> Option<(StreamId, Option<i64>)> {
        let (tag, id) = self.waiting.peek()?;
        let burst = self.filter.hand(now);
        if burst.is_none() && self.filter.rate().is_some() {
            return None;
        }
        self.waiting.remove(id);
        self.turn = tag;
        Some((StreamId(id), burst))
    }

    /// A stream has its turn.
    fn hand(&mut self, now: Instant, id: StreamId, burst: i64, weight: u32) {
        let allowance = self.allowance(id);
        allowance.left = allowance.left.saturating_add(burst);
        allowance.handed_at = now;
        allowance.tag = allowance.tag.saturating_add(TURN / i64::from(weight.max(1)));
    }

    /// Notes for whom R is cut; what it rises by is given back by all, in proportion.
    fn attribute(&mut self, before: Pipe, rate: Option<TokenRate>, cause: Option<StreamId>) {
        let Some(rate) = rate else { return self.parts.clear() };
        let cut = before.cut_from().minus(rate);
        if before.rate.is_none_or(|before| rate < before) {
            if let Some(id) = cause {
                let part = self.parts.entry(id).or_insert(TokenRate::ZERO);
                *part = part.plus(cut);
            }
            return;
        }
        let risen = before.rate.map_or(TokenRate::ZERO, |before| rate.minus(before));
        let total = self.parts.values().map(|part| part.as_milli()).sum::<u64>();
        for part in self.parts.values_mut() {
            let back = scaled(risen.as_milli(), part.as_milli(), total);
            *part = part.minus(TokenRate::from_milli(back));
        }
    }
}

/// Bytes that a stream has been served.
fn served(stream: &Stream) -> u64 {
    stream.counters.bytes_read + stream.counters.bytes_written
}

/// Whether a stream's reservation covers its next piece; if not, when it will, in ns.
fn covered(now: Instant, stream: &mut Stream) -> Result<(), i64> {
    let reserves = stream.spec.contract.reserve > Share::ZERO;
    if reserves { stream.has_reserved_time(now) } else { Err(i64::MAX) }
}

/// Whether what a stream sends in a class needs tokens.
fn is_shaped(stream: &Stream, rank: Rank) -> bool {
    let class = stream.spec.contract.class;
    matches!(rank, Rank::Best | Rank::Background) && class != Class::SoftRealTime
}

impl Engine {
    /// The limits of best effort for now; none if no controller is configured.
    #[must_use]
    pub fn best_effort(&self) -> BestEffort {
        self.shaping.as_ref().map_or_else(BestEffort::default, |shaping| {
            let [reads, writes] = &shaping.ways;
            let (reports, ignored) = (shaping.reports, shaping.ignored);
            let (reads, writes) = (reads.filter.rate(), writes.filter.rate());
            BestEffort { reads, writes, reports, ignored }
        })
    }

    /// A stream's client says that it missed a deadline.
    pub(super) fn report(&mut self, id: StreamId) {
        let Some(shaping) = &mut self.shaping else { return };
        let stream = self.streams.get(id);
        match shaping.missed(self.now, id, stream.map_or(0, served)) {
            Ok(()) => shaping.reports += 1,
            Err(why) => {
                shaping.ignored += 1;
                self.events.push(Event::ReportIgnored(id, why));
            }
        }
    }

    /// Time has passed: controllers look, filters open.
    pub(super) fn shape(&mut self) {
        let Some(shaping) = &mut self.shaping else { return };
        if shaping.look_at.is_some_and(|at| at <= self.now) {
            shaping.look_at = None;
            shaping.look(self.now, |id| self.streams.get(id).map_or(0, served));
        }
        while let Some(shaping) = &mut self.shaping {
            let due = shaping.reserved.peek().filter(|(at, _)| instant(*at) <= self.now);
            let Some((_, id)) = due else { break };
            shaping.reserved.remove(id);
            self.gate_again(StreamId(id));
        }
        self.hand_out();
    }

    /// Whether there are tokens for who waits: he began to wait since they were handed out.
    pub(super) fn has_tokens(&self) -> bool {
        let handed = |way: &Way| !way.waiting.is_empty() && way.filter.hands_at() <= self.now;
        self.shaping.as_ref().is_some_and(|shaping| shaping.ways.iter().any(handed))
    }

    /// Hands bursts to who waits, in turn; to everybody where there is no limit any more.
    fn hand_out(&mut self) {
        for index in 0..Direction::COUNT {
            while let Some(shaping) = &mut self.shaping {
                let way = &mut shaping.ways[index];
                let Some((id, burst)) = way.next(self.now) else { break };
                let Some(stream) = self.streams.get(id) else {
                    continue;
                };
                if let Some(burst) = burst {
                    way.hand(self.now, id, burst, stream.spec.contract.weight);
                }
                self.gate_again(id);
            }
        }
    }

    /// Holds back what is ready and may not pass since a controller has begun to shape, and hands
    /// out what there is to who waits. O(streams) when it begins, O(log streams) for a burst.
    pub(super) fn gate_best_effort(&mut self) {
        let Some(shaping) = &mut self.shaping else { return };
        let [reads, writes] = &mut shaping.ways;
        let begun = core::mem::take(&mut reads.regate) | core::mem::take(&mut writes.regate);
        for id in (0..if begun { self.streams.ids_end() } else { 0 }).map(StreamId) {
            let ready = |stream: &&Stream| {
                let ready = |rank| stream.lanes[rank].gate == Gate::Ready;
                ready(Rank::Best) || ready(Rank::Background)
            };
            if self.streams.get(id).filter(ready).is_some() {
                self.gate_again(id);
            }
        }
        self.hand_out();
    }

    pub(super) fn gate_again(&mut self, id: StreamId) {
        self.gates.mark(id);
        self.flush();
    }
}
