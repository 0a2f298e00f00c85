//! A stream: its contract, its accounts, its queue, and what of it a policy may see.

use alloc::boxed::Box;

use crate::bucket::TokenBucket;
use crate::contract::{Class, Contract, StreamSpec};
use crate::cost::{PieceKind, PieceShape};
use crate::cycle::Cycle;
use crate::engine::{Direction, Wrote};
use crate::rank::{Gate, Lane, Lanes, Rank, Ranks};
use crate::request::{RequestId, StreamId};
use crate::share::Share;
use crate::time::{Duration, Instant};
use crate::usage::Usage;

/// The next piece of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Of which request.
    pub request: RequestId,
    /// The request's place in the order of arrival over all streams.
    pub sequence: u64,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// When its client, its cycle or its class wants it done, if any does.
    pub deadline: Option<Instant>,
    /// The disk time it is expected to be charged: what is debited at dispatch.
    pub estimate: Duration,
    /// Its modelled cost: its weight when a window is divided.
    pub(crate) modelled: Duration,
    /// What the cost model saw of it.
    pub(crate) shape: PieceShape,
    /// What it takes of best effort's tokens; 0 where nothing shapes.
    pub(crate) grains: u64,
}

/// What happened to a stream's requests, and the disk time it was charged, since it was added.
///
/// `arrived = refused + queued + in_flight + completed + cancelled`, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamCounters {
    /// Requests offered.
    pub arrived: u64,
    /// Of these, not taken.
    pub refused: u64,
    /// Done or failed.
    pub completed: u64,
    /// Of the completed, failed.
    pub failed: u64,
    /// Given up before completion.
    pub cancelled: u64,
    /// Bytes of completed reads.
    pub bytes_read: u64,
    /// Bytes of completed writes.
    pub bytes_written: u64,
    /// Disk time charged, holding included.
    pub charged: Duration,
    /// Of the charged, time that the device was held idle for it.
    pub held: Duration,
    /// Of the charged, time of others' pieces that went into its writes.
    pub afterwards: Duration,
    /// Time of its own pieces that went into others' writes: they were charged for it.
    pub relieved: Duration,
    /// Cycles of a guaranteed rate that began with work waiting and are over.
    pub cycles: u64,
    /// Of these, not kept: less was done than waited, up to what was granted.
    pub cycles_missed: u64,
}

/// What the current window has of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InWindow {
    pub(crate) pieces: u32,
    pub(crate) modelled: u64,
    /// Of the modelled, that of each class.
    pub(crate) by_rank: [u64; Rank::COUNT],
    /// Estimates debited at dispatch, to be corrected.
    pub(crate) estimates: i64,
    /// Of the modelled and the estimates, those for which tokens were taken, by direction.
    pub(crate) paid: [(u64, i64); Direction::COUNT],
}

pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) spec: StreamSpec,
    /// What waits, by class.
    pub(crate) lanes: Lanes,
    /// Its own class's lane, and those in which something waits or did when their policies were last
    /// told: the others are not touched.
    pub(crate) active: Ranks,
    /// Requests waiting in all lanes.
    pub(crate) queued: u32,
    /// Of a guaranteed rate.
    pub(crate) cycle: Option<Box<Cycle>>,
    /// End of the piece that went out last, in bytes on the device.
    pub(crate) last_end: Option<u64>,
    /// Start of it.
    pub(crate) last_start: u64,
    /// Pieces at the device.
    pub(crate) pieces: u32,
    /// Requests that arrived and have not completed.
    pub(crate) live: u32,
    pub(crate) in_window: InWindow,
    pub(crate) counters: StreamCounters,
    pub(crate) broken_at: Option<Instant>,
    /// Cycles missed in a row.
    pub(crate) misses: u32,
    /// What its pieces were charged lately, on average: trims, zeroes and all others.
    pub(crate) usual: [Option<Duration>; 3],
    /// When a cost model that learns found out its price last.
    pub(crate) priced_at: Option<Instant>,
    /// When it was told last that the price has moved.
    pub(crate) moved_at: Option<Instant>,
    /// Lengths of the last pieces of each kind that went out.
    pub(crate) lengths: [Option<u64>; PieceKind::ALL.len()],
    /// What it has written that may not be on the medium.
    pub(crate) wrote: Wrote,
    /// That is by what its pieces take of the device's tiers, beside others' too.
    pub(crate) priced_by_tier: bool,
    /// How often its pieces were found to take longer among others' than alone.
    pub(crate) crowded: u32,
    accounts: Accounts,
}

/// Token buckets and recent usage (zygaria §2.1 and §3).
///
/// The reserve bucket's level stays in 0 ± u, u = reservation × period: an idle stream keeps at
/// most u, and a debt from slack is forgiven below -f·u (f the reservation), but for the request
/// that led there. With a plain floor of -u the guarantee would not hold: a stream that starts a
/// window at the floor gets nothing while its debt fills up and others use the slack, and then
/// waits f·(1-f)·p for streams that return with their u. -f·u keeps the sum at u
/// (`docs/scheduling.md`).
struct Accounts {
    reserve: TokenBucket,
    /// Not kept while the limit is the whole device.
    limit: TokenBucket,
    usage: Usage,
    /// Estimates debited and not yet corrected.
    pending: i64,
    /// Most credit kept while idle: u.
    credit_max: i64,
    /// Most debt kept from slack.
    debt_max: i64,
    /// Most credit the limit bucket keeps.
    burst_max: i64,
}

impl Accounts {
    fn new(contract: Contract, period: Duration, now: Instant) -> Self {
        let mut accounts = Self {
            reserve: TokenBucket::new(contract.reserve, now),
            limit: TokenBucket::new(contract.limit, now),
            usage: Usage::default(),
            pending: 0,
            credit_max: 0,
            debt_max: 0,
            burst_max: 0,
        };
        accounts.set_bounds(contract, period);
        accounts
    }

    fn set_bounds(&mut self, contract: Contract, period: Duration) {
        let of_tokens = |tokens: i64, share: Share| {
            let parts = i128::from(tokens) * i128::from(share.ppm());
            i64::try_from(parts / i128::from(Share::PARTS)).unwrap_or(i64::MAX)
        };
        self.credit_max = of_tokens(period.as_tokens(), contract.reserve);
        // At least the one token that lets a piece go.
        self.burst_max = of_tokens(period.as_tokens(), contract.limit).max(1);
        self.debt_max = of_tokens(self.credit_max, contract.reserve);
    }

    fn cap_credit(&mut self) {
        self.reserve.cap(self.credit_max.saturating_sub(self.pending));
    }

    /// Forgives what the debt exceeds its most by, but for the `last` request that led there.
    fn forgive_debt(&mut self, last: i64) {
        let settled = self.reserve.level().saturating_add(self.pending);
        let floor = self.debt_max.saturating_add(last).saturating_neg();
        if settled < floor {
            self.reserve.take(settled - floor);
        }
    }
}

impl Stream {
    pub(crate) fn new(id: StreamId, spec: StreamSpec, period: Duration, now: Instant) -> Self {
        Self {
            id,
            spec,
            lanes: Lanes::new(spec.contract.class.into()),
            active: Ranks::of(spec.contract.class.into()),
            queued: 0,
            cycle: None,
            last_end: None,
            last_start: 0,
            pieces: 0,
            live: 0,
            in_window: InWindow::default(),
            counters: StreamCounters::default(),
            broken_at: None,
            misses: 0,
            usual: [None; 3],
            priced_at: None,
            moved_at: None,
            lengths: [None; PieceKind::ALL.len()],
            wrote: Wrote::default(),
            priced_by_tier: false,
            crowded: 0,
            accounts: Accounts::new(spec.contract, period, now),
        }
    }

    /// As the policy of that class sees it.
    pub(crate) fn view(&self, rank: Rank) -> StreamView<'_> {
        StreamView { stream: self, rank }
    }

    /// Where its own requests wait, if they state no class.
    pub(crate) fn home(&self) -> Rank {
        self.spec.contract.class.into()
    }

    /// Where a request waits that states this class. A higher one than the stream's own needs what
    /// that class is paid with: reserved time, or a rate.
    pub(crate) fn lane_of(&self, class: Option<Class>) -> Rank {
        let (home, contract) = (self.home(), self.spec.contract);
        let Some(asked) = class.map(Rank::from) else { return home };
        let paid = match asked {
            Rank::Latency => contract.reserve > Share::ZERO,
            Rank::Rate => contract.rate.is_some(),
            Rank::Best | Rank::Background => true,
        };
        if asked >= home || paid { asked } else { home }
    }

    /// Whether its requests of guaranteed latency still have reserved time, or when again, in ns.
    pub(crate) fn has_reserved_time(&mut self, now: Instant) -> Result<(), i64> {
        let reserve = &mut self.accounts.reserve;
        reserve.advance(now);
        if reserve.level() > 0 { Ok(()) } else { Err(reserve.holds_at(1)) }
    }

    pub(crate) fn set_contract(&mut self, contract: Contract, period: Duration, now: Instant) {
        let accounts = &mut self.accounts;
        accounts.reserve.advance(now);
        accounts.reserve.set_rate(contract.reserve);
        if self.spec.contract.limit == Share::FULL {
            accounts.limit = TokenBucket::new(contract.limit, now);
            // What is at the device will be corrected from its estimate.
            accounts.limit.take(accounts.pending);
        }
        accounts.limit.advance(now);
        accounts.limit.set_rate(contract.limit);
        accounts.set_bounds(contract, period);
        accounts.cap_credit();
        accounts.forgive_debt(0);
        self.spec.contract = contract;
        self.active.insert(contract.class.into());
    }

    /// The reservation that follows from its rate.
    pub(crate) fn grant_share(&mut self, share: Share, period: Duration, now: Instant) {
        if self.spec.contract.reserve != share {
            let contract = Contract { reserve: share, ..self.spec.contract };
            self.set_contract(contract, period, now);
        }
    }

    /// Its own depth, not the device's, keeps its next piece back: that is idleness by choice,
    /// and must not pile up credit.
    pub(crate) fn held_by_own_depth(&self, device_depth: u32) -> bool {
        self.pieces >= self.spec.depth_max && self.spec.depth_max < device_depth
    }

    /// The stream may run again after its queue was empty or its own depth full: it keeps at
    /// most u.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.accounts.reserve.advance(now);
        self.accounts.cap_credit();
    }

    /// Debits an estimate at dispatch.
    pub(crate) fn debit(&mut self, estimate: Duration, weight: i64, now: Instant) {
        let tokens = estimate.as_tokens();
        self.accounts.reserve.advance(now);
        self.accounts.reserve.take(tokens);
        self.accounts.limit.take(tokens);
        self.accounts.pending += tokens;
        self.accounts.usage.add(tokens, weight);
        if let Some(cycle) = &mut self.cycle {
            cycle.used(tokens);
        }
    }

    /// Pays from its reservation for what it costs another stream: the device's time is charged to
    /// that one, but what goes ahead of others is bounded by this.
    pub(crate) fn pay(&mut self, tokens: i64) {
        self.accounts.reserve.take(tokens);
    }

    /// Corrects the debited estimates of pieces to what was really used, in what the accounts count.
    /// Debt is forgiven but for `kept`: a piece, and a turn of the policy's.
    pub(crate) fn charge(
        &mut self,
        kept: Duration,
        estimates: i64,
        used: Duration,
        weight: i64,
        now: Instant,
    ) {
        let accounts = &mut self.accounts;
        let correction = used.as_tokens() - estimates;
        accounts.reserve.advance(now);
        accounts.pending -= estimates;
        accounts.reserve.take(correction);
        accounts.forgive_debt(kept.as_tokens());
        accounts.limit.take(correction);
        accounts.usage.add(correction, weight);
        if let Some(cycle) = &mut self.cycle {
            cycle.used(correction);
        }
    }

    /// A piece was charged by itself.
    pub(crate) fn learn_usual(&mut self, kind: PieceKind, charge: Duration) {
        let mean = &mut self.usual[kind.usual()];
        let (usual, charge) = (mean.unwrap_or(charge).as_nanos(), charge.as_nanos());
        *mean = Some(Duration::from_nanos(usual - usual / 8 + charge / 8));
    }

    pub(crate) fn fade(&mut self, bits: u32) {
        self.accounts.usage.shift(bits);
    }

    /// Whether it may run under its limit; if not, when it may again, in ns.
    pub(crate) fn below_limit(&mut self, now: Instant) -> Result<(), i64> {
        if self.spec.contract.limit == Share::FULL {
            return Ok(());
        }
        let limit = &mut self.accounts.limit;
        limit.advance(now);
        limit.cap(self.accounts.burst_max);
        if limit.level() > 0 { Ok(()) } else { Err(limit.holds_at(1)) }
    }

    /// By how much the reserve bucket is above what the promise allows a backlogged stream.
    pub(crate) fn behind(&self, blocking: Duration) -> Option<Duration> {
        let settled = self.accounts.reserve.level().saturating_add(self.accounts.pending);
        let allowed = self.accounts.credit_max.saturating_add(blocking.as_tokens());
        u64::try_from(settled.saturating_sub(allowed))
            .ok()
            .filter(|behind| *behind > 0)
            .map(Duration::from_nanos)
    }

    pub(crate) fn waiting_room(&self) -> bool {
        self.queued < self.spec.queue_max
    }
}

/// All streams, as the policy of a class may see them.
#[derive(Clone, Copy)]
pub struct Streams<'a> {
    pub(crate) streams: &'a [Option<Stream>],
    pub(crate) rank: Rank,
    pub(crate) depth: u32,
    pub(crate) in_flight: u32,
}

impl<'a> Streams<'a> {
    /// Pieces at the device, of any class.
    #[must_use]
    pub fn in_flight(self) -> u32 {
        self.in_flight
    }

    /// How many pieces the device may hold.
    #[must_use]
    pub fn depth(self) -> u32 {
        self.depth
    }

    /// A stream, if it exists.
    #[must_use]
    pub fn get(self, id: StreamId) -> Option<StreamView<'a>> {
        self.streams.get(id.0 as usize)?.as_ref().map(|stream| stream.view(self.rank))
    }
}

/// What a policy may see of a stream: its accounts, and what waits in the policy's class.
#[derive(Clone, Copy)]
pub struct StreamView<'a> {
    stream: &'a Stream,
    rank: Rank,
}

impl<'a> StreamView<'a> {
    fn lane(self) -> &'a Lane {
        &self.stream.lanes[self.rank]
    }

    /// Its name.
    #[must_use]
    pub fn id(self) -> StreamId {
        self.stream.id
    }

    /// What it owns.
    #[must_use]
    pub fn contract(self) -> Contract {
        self.stream.spec.contract
    }

    /// Work is queued, and neither its limit nor its depth forbids that it goes out.
    #[must_use]
    pub fn ready(self) -> bool {
        self.lane().gate == Gate::Ready
    }

    /// Requests waiting in all classes.
    #[must_use]
    pub fn waiting(self) -> u32 {
        self.stream.queued
    }

    /// Its next piece.
    #[must_use]
    pub fn head(self) -> Option<Head> {
        self.lane().head
    }

    /// Start and end on the device of the piece that went out last, flushes aside.
    #[must_use]
    pub fn last_piece(self) -> Option<(u64, u64)> {
        self.stream.last_end.map(|end| (self.stream.last_start, end))
    }

    /// Requests waiting in this class.
    #[must_use]
    pub fn queued(self) -> u32 {
        self.lane().queue.len()
    }

    /// Pieces at the device.
    #[must_use]
    pub fn in_flight(self) -> u32 {
        self.stream.pieces
    }

    /// The disk time that it was charged, and what it is debited for pieces that are not settled
    /// yet, in ns.
    #[must_use]
    pub fn used(self) -> i64 {
        self.stream.counters.charged.as_tokens().saturating_add(self.stream.accounts.pending)
    }

    /// When its price was found out last, if it was: by a cost model that learns.
    #[must_use]
    pub fn priced_at(self) -> Option<Instant> {
        self.stream.priced_at
    }

    /// Whether its price is what its pieces take of the device's tiers: then it is seen among
    /// others' pieces as well as alone.
    #[must_use]
    pub fn priced_by_tier(self) -> bool {
        self.stream.priced_by_tier
    }

    /// How often its pieces were found to take longer among others' than alone, by tier.
    #[must_use]
    pub fn crowded(self) -> u32 {
        self.stream.crowded
    }

    /// The level of its reserve bucket in ns of disk time, as of the last change.
    #[must_use]
    pub fn reserve_level(self) -> i64 {
        self.stream.accounts.reserve.level()
    }

    /// When its reserve bucket will hold (or came to hold) its next piece's estimate, in ns;
    /// `i64::MAX` for never.
    #[must_use]
    pub fn deadline_ns(self) -> i64 {
        let estimate = self.lane().head.map_or(Duration::ZERO, |head| head.estimate);
        self.stream.accounts.reserve.holds_at(estimate.as_tokens())
    }

    /// A number that orders streams by recent disk time per weight.
    #[must_use]
    pub fn usage_per_weight(self) -> i64 {
        self.stream.accounts.usage.key() / i64::from(self.stream.spec.contract.weight)
    }

    /// What happened to its requests.
    #[must_use]
    pub fn counters(self) -> StreamCounters {
        self.stream.counters
    }

    /// How it was added, with the contract of today.
    #[must_use]
    pub fn spec(self) -> StreamSpec {
        self.stream.spec
    }
}
