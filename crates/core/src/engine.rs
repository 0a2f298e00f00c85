//! The engine: queues, limits, accounts and pieces, once; the policy only orders.
//!
//! The engine does not know which stream of a class should go next, or what a piece will take.

use alloc::boxed::Box;
use alloc::string::ToString;

use crate::account::ledger::DeviceTime;
use crate::classes::lane::{Gate, Head};
use crate::classes::promise::{SLICE, Terms};
use crate::classes::requests::{RequestTable, State};
use crate::classes::stream::{Stream, StreamTable};
use crate::cost::book::{PriceBook, Quote};
use crate::cost::{self, COST_MAX, CostModel, PieceShape};
use crate::policy::view::StreamView;
use crate::policy::{Currency, Pick, PieceDone, Policy, Slices};
use crate::types::contract::Class;
use crate::types::ids::{PieceId, RequestId, StreamId};
use crate::types::rank::Rank;
use crate::types::request::{Dispatch, Kind, Outcome, Request};
use crate::types::tiers::Tier;
use crate::types::time::{Duration, Instant};

mod admit;
mod books;
mod changes;
mod charging;
mod classes;
mod config;
mod device;
pub(crate) mod error;
pub(crate) mod event;
mod families;
mod flush;
mod gates;
mod guarantees;
mod learning;
mod pieces;
mod posting;
mod promises;
mod shaping;

use admit::{Booked, Contracts};
use books::Books;
pub use changes::Change;
use classes::Chosen;
pub use config::{Config, Limits};
use device::AtDevice;
use error::{ConfigError, Refusal};
use event::{Event, Events};
use families::Families;
use flush::News;
use gates::Gates;
use guarantees::Guarantees;
use pieces::Piece;
use promises::Promises;
pub use shaping::BestEffort;
use shaping::Shaping;

/// Bytes in a sector, the unit of distance between pieces.
const SECTOR: u64 = 512;

/// A request that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a request completes exactly once, and its client waits for it"]
pub struct Completion {
    /// Which one.
    pub request: RequestId,
    /// The stream that sent it.
    pub stream: StreamId,
    /// How it ended.
    pub outcome: Outcome,
    /// From arrival to the dispatch of its first piece.
    pub queue_time: Duration,
    /// From there to the completion of its last.
    pub service_time: Duration,
}

/// The result of a cancel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancel {
    /// It was queued and is gone: no completion follows.
    Gone,
    /// It is at the device: what was not sent is dropped, and its completion follows.
    InFlight,
    /// No such request lives.
    Unknown,
}

/// Schedules one device's time.
///
/// Inputs are `handle_*`, outputs are `poll_*`. After every input call
/// [`poll_dispatch`](Self::poll_dispatch) until it answers `None` and start what it returns;
/// call [`handle_timeout`](Self::handle_timeout) when the time of
/// [`poll_timeout`](Self::poll_timeout) has come (early is harmless, late costs accuracy only).
/// Time is passed in and never goes back: an earlier `now` counts as the latest one seen.
///
/// Nothing here reads a clock, logs, or blocks; two engines fed alike answer alike.
pub struct Engine {
    /// One for each class: the configured one orders best effort.
    policies: [Box<dyn Policy>; Rank::COUNT],
    prices: PriceBook,
    limits: Limits,
    contracts: Contracts,
    families: Families,
    now: Instant,
    streams: StreamTable,
    requests: RequestTable,
    device: AtDevice,
    books: Books,
    gates: Gates,
    guarantees: Guarantees,
    /// The limits of best effort, if a controller is configured.
    shaping: Option<Box<Shaping>>,
    promises: Promises,
    events: Events,
}

impl Engine {
    /// An engine for an idle device with no streams.
    ///
    /// # Errors
    /// If a name is in no registry or a bound is zero.
    pub fn new(config: &Config<'_>) -> Result<Self, ConfigError> {
        let policy = config.policy;
        let cost = cost::find(config.cost_model)
            .ok_or_else(|| ConfigError::UnknownCostModel(config.cost_model.to_string()))?;
        config.check()?;
        let mut engine = Self::with_policy(config, (policy.build)(), (cost.build)(config.cost));
        if policy.currency == Currency::Requests {
            let unit = 1_000_000_000 / u64::from(config.nominal_iops);
            engine.books.unit = Some(Duration::from_nanos(unit));
        }
        Ok(engine)
    }

    /// As [`new`](Self::new), with a policy and a cost model that are in no registry; accounts count
    /// disk time.
    ///
    /// # Panics
    /// If a bound is one that [`new`](Self::new) refuses.
    #[must_use]
    pub fn with_policy(
        config: &Config<'_>,
        mut policy: Box<dyn Policy>,
        cost: Box<dyn CostModel>,
    ) -> Self {
        config.check().expect("the caller's bounds are in range");
        let trust = cost.trust();
        let begins = |slices: &mut dyn Slices| slices.begins(trust, config.flushes);
        let slices = policy.slices().map(begins).is_some();
        let (booked, headroom, period) = (Booked::default(), config.headroom, config.period);
        let terms = Terms::new(config.limits.depth, config.piece_time_max, SLICE, period);
        Self {
            policies: classes::policies(policy),
            prices: PriceBook::new(cost, slices),
            limits: config.limits,
            contracts: Contracts { booked, headroom, period },
            families: Families::default(),
            now: Instant::ZERO,
            streams: StreamTable::default(),
            requests: RequestTable::default(),
            device: AtDevice::default(),
            books: Books::new(config.window, trust, slices),
            gates: Gates::default(),
            guarantees: Guarantees::new(),
            shaping: Shaping::new(&config.feedback),
            promises: Promises::new(terms),
            events: Events::default(),
        }
    }

    /// A request arrives.
    ///
    /// # Errors
    /// If it is not taken: nothing is kept of it and no completion follows.
    pub fn handle_arrival(&mut self, now: Instant, request: Request) -> Result<(), Refusal> {
        self.observe(now);
        let unknown = Refusal::UnknownStream(request.stream);
        let stream = self.streams.get_mut(request.stream).ok_or(unknown)?;
        stream.counters.arrived += 1;
        if let Err(refusal) = check(&request, stream, &self.requests, self.limits.requests_max) {
            stream.counters.refused += 1;
            return Err(refusal);
        }
        let rank = stream.lane_of(request.class);
        let idle = stream.queued == 0;
        if stream.live == 0 {
            stream.accounts.limit.resume(self.now);
        }
        stream.live += 1;
        stream.queued += 1;
        let turns = self.shaping.as_mut().filter(|_| stream.live == 1);
        turns.into_iter().for_each(|shaping| shaping.turned(self.now, stream));
        let lane = &mut stream.lanes[rank];
        let first = lane.queue.len() == 0;
        lane.bytes += request.bytes;
        if let Some(cycle) = stream.cycle.as_mut().filter(|_| rank == Rank::Rate) {
            cycle.arrived(request.bytes, self.now);
        }
        self.requests.push(&mut lane.queue, request, rank, self.now);
        if idle {
            stream.wake(self.now);
            self.take_part(request.stream);
        }
        if first {
            self.set_oldest_head(request.stream, rank);
            self.gates.mark(request.stream);
        }
        self.flush_with(request.stream, rank, News::Arrived(&request));
        Ok(())
    }

    /// The device has finished a piece, or given it up. Answers the request's completion if that
    /// was its last piece.
    ///
    /// # Panics
    /// If the piece is not at the device: it was never dispatched, or has completed.
    pub fn handle_completion(
        &mut self,
        now: Instant,
        piece: PieceId,
        outcome: Outcome,
    ) -> Option<Completion> {
        self.handle_completion_on(now, piece, outcome, None)
    }

    /// As [`handle_completion`](Self::handle_completion), of a piece that one tier of the device has
    /// served. The costs of pieces are then learned by tier, whichever other streams have pieces there.
    ///
    /// # Panics
    /// As [`handle_completion`](Self::handle_completion).
    pub fn handle_completion_on(
        &mut self,
        now: Instant,
        piece: PieceId,
        outcome: Outcome,
        tier: Option<Tier>,
    ) -> Option<Completion> {
        self.observe(now);
        let piece = self.device.take(self.now, piece);
        let most = self.skip_stall(&piece);
        self.learn(&piece, tier);
        let [charge, took] = self.settle(&piece, most);
        let completion = self.finish(&piece, outcome);
        self.look_at_family(piece.stream);
        self.gates.mark(piece.stream);
        let done = PieceDone {
            request: piece.request,
            kind: piece.shape.kind,
            estimate: piece.estimate,
            charge,
            took,
            modelled: piece.modelled,
            response: self.now.since(piece.dispatched_at),
        };
        self.flush_with(piece.stream, piece.rank, News::Completed(&done));
        completion
    }

    /// A client gives a request up.
    pub fn handle_cancel(&mut self, now: Instant, request: RequestId) -> Cancel {
        self.observe(now);
        let Some(live) = self.requests.get(request) else { return Cancel::Unknown };
        let (state, pieces, id) = (live.state, live.pieces, live.request.stream);
        self.requests.live(request).outcome = Outcome::Cancelled;
        if state == State::Queued {
            self.leave_queue(request, id);
            self.flush();
        }
        if pieces > 0 {
            return Cancel::InFlight;
        }
        self.end(request);
        Cancel::Gone
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come, or not yet.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.observe(now);
        // Also what has become due at this very time: a look that a completion has called for.
        self.shape();
    }

    /// The device's next action; `None` when it has enough, no stream is eligible, or it is held.
    pub fn poll_dispatch(&mut self, now: Instant) -> Option<Dispatch> {
        self.observe(now);
        self.gate_best_effort();
        if self.device.is_full(self.now, self.limits.depth, &self.prices) {
            // Nothing is held back while there is enough.
            self.device.hold = self.device.hold.filter(|hold| hold.until > self.now);
            if !self.work_waits() {
                self.books.ledger.unsaturated();
            }
            return None;
        }
        let mut chosen = self.choose();
        if self.change_owner() {
            // Charges of the window before may have opened or shut gates.
            self.flush();
            chosen = self.choose();
            self.change_owner();
        }
        if matches!(chosen.pick, Pick::Flush(_)) {
            self.release_hold();
            self.flush();
        }
        if let (Some(id), Some(_)) = (self.picked(chosen.pick), self.device.hold) {
            self.release_hold();
            self.flush();
            // The charge for the idling may have taken the stream that was chosen to its limit.
            if self.streams[id].lanes[chosen.rank].gate == Gate::Shut {
                chosen = self.choose();
            }
        }
        match chosen.pick {
            Pick::Stream(id) | Pick::Flush(id) => return Some(self.dispatch(id, chosen)),
            Pick::Request(request) => {
                let id = self.picked(chosen.pick).expect("policies name requests that are queued");
                self.set_head(id, chosen.rank, Some(request));
                if self.shaping.is_some() && !self.passes(id, chosen.rank) {
                    return self.poll_dispatch(now);
                }
                return Some(self.dispatch(id, chosen));
            }
            Pick::Hold { stream, until } => {
                self.hold_for(stream, until);
                self.flush();
                if self.in_flight() > 0 {
                    // The room that it leaves is its own choice: others would have taken it.
                    return None;
                }
            }
            Pick::Nothing => {
                assert!(!self.work_waits(), "a policy names a ready stream if there is one");
                self.release_hold();
                self.flush();
            }
        }
        if self.has_tokens() {
            return self.poll_dispatch(now);
        }
        self.books.ledger.unsaturated();
        // The charges of a window that ends here may let a stream go that its limit held back, or
        // have it wait for tokens instead.
        if self.in_flight() == 0 && self.close_idle() && (self.work_waits() || self.has_tokens()) {
            return self.poll_dispatch(now);
        }
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if at all.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let cut = self.books.ledger.cut_at().filter(|_| !self.is_shallow());
        let hold = self.device.hold.map(|hold| hold.until);
        let shaped = self.shaping.as_ref().and_then(|shaping| shaping.next());
        let promise = self.promises.next().filter(|_| self.gates.any_ready());
        let cycle = self.guarantees.next();
        let has_room = (1..self.limits.depth).contains(&self.in_flight());
        let late = Some(self.device.late.at()).filter(|at| has_room && *at > self.now);
        [self.gates.next(), cut, hold, cycle, shaped, promise, late].into_iter().flatten().min()
    }

    /// The next thing to tell. Events not fetched are bounded; the oldest are dropped.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// A stream's state, if it exists; what waits in its own class.
    #[must_use]
    pub fn stream(&self, id: StreamId) -> Option<StreamView<'_>> {
        self.streams.get(id).map(|stream| stream.view(stream.home()))
    }

    /// All streams, by id.
    pub fn streams(&self) -> impl Iterator<Item = StreamView<'_>> {
        self.streams.iter().map(|stream| stream.view(stream.home()))
    }

    /// Pieces at the device.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.device.in_flight()
    }

    /// How many pieces the device may hold.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.limits.depth
    }

    /// The device's account of time up to the last call.
    #[must_use]
    pub fn device_time(&self) -> DeviceTime {
        self.books.ledger.device_time(self.now, self.in_flight() > 0)
    }

    /// The disk time charged to a class; soft real-time's is best effort's.
    #[must_use]
    pub fn charged_to(&self, class: Class) -> Duration {
        self.books.by_class[Rank::from(class).at()]
    }

    /// Notes the time: wakes what its limit held back and closes a window that is over.
    #[inline]
    fn observe(&mut self, now: Instant) {
        if now > self.now {
            self.pass_time(now);
        } else if self.books.ledger.cut_at().is_some_and(|at| at <= self.now) {
            self.cut_window();
        }
    }

    #[inline(never)]
    fn pass_time(&mut self, now: Instant) {
        self.now = now;
        let bits = self.books.usage_clock.rescale(self.now).into_iter();
        bits.for_each(|bits| self.fade(bits));
        self.gates.unpark(self.now);
        self.flush();
        self.open_gates();
        self.flush();
        self.shape();
        self.cut_window();
        self.watch_promises();
    }

    /// Closes a window that is over.
    fn cut_window(&mut self) {
        let over = self.books.ledger.cut_at().is_some_and(|at| at <= self.now);
        if over && !self.is_shallow() && self.in_flight() > 0 {
            // Where slices are measured, the time since the last completion is of pieces that are not back.
            let last = self.books.ledger.last_completion();
            self.close_window(if self.books.slices { last } else { self.now });
            self.flush();
        }
    }

    /// The device may have another owner now: the window of the one before is closed. Answers whether one was.
    fn change_owner(&mut self) -> bool {
        let owner = self.books.slice.map(|slice| slice.stream);
        let changed = owner != self.books.owner && self.books.ledger.pieces() > 0;
        if changed {
            self.close_window(self.books.ledger.last_completion());
        }
        self.books.owner = owner;
        changed
    }

    /// Sends the next piece of a ready stream, or flushes the device for it.
    fn dispatch(&mut self, id: StreamId, Chosen { pick, rank, on_slack }: Chosen) -> Dispatch {
        let own = pick == Pick::Flush(id);
        let head = if own { self.head_of_flush(id) } else { self.streams[id].lanes[rank].head };
        let head = head.expect("a ready stream has a head");
        let stream = &mut self.streams[id];
        let lane = &mut stream.lanes[rank];
        assert!(own || lane.gate != Gate::Shut, "policies name streams that are ready");
        lane.bytes -= head.bytes;
        stream.pieces += 1;
        stream.debit(head.estimate, self.books.usage_clock.weight(self.now), self.now);
        if head.bytes > 0 {
            stream.last_end = Some(head.offset + head.bytes);
            stream.last_start = head.offset;
        }
        self.books.ledger.dispatched(self.now);
        let idle = self.device.in_flight() == 0;
        let used = self.prices.sent(self.now, &head.shape, head.offset, idle);
        let shaping = self.shaping.as_mut().filter(|_| !own);
        let paid = shaping.and_then(|shaping| shaping.pay(self.now, stream, rank, &head));
        let piece = self.device.send(Piece {
            request: head.request,
            stream: id,
            rank,
            bytes: head.bytes,
            on_slack,
            estimate: head.estimate,
            modelled: head.modelled,
            shape: head.shape,
            used,
            paid,
            dispatched_at: self.now,
        });
        let flush = !own && self.sent(id, rank, on_slack, &head);
        self.gates.mark(id);
        self.flush_with(id, rank, News::Dispatched);
        let Head { request, offset, bytes, estimate, .. } = head;
        Dispatch { piece, stream: id, request, offset, bytes, flush, estimate }
    }

    /// A piece of a request went out. Answers whether it must end with a flush.
    #[inline]
    fn sent(&mut self, id: StreamId, rank: Rank, on_slack: bool, head: &Head) -> bool {
        let stream = &mut self.streams[id];
        let live = self.requests.live(head.request);
        let writes = live.request.kind.writes();
        if live.bytes_sent == 0 {
            live.dispatched_at = self.now;
        }
        live.pieces += 1;
        live.bytes_sent += head.bytes;
        if live.bytes_sent == live.request.bytes {
            self.requests.unlink(&mut stream.lanes[rank].queue, head.request);
            stream.queued -= 1;
            self.policies[rank.at()].left(self.now, id, head.request);
        }
        self.spend(id, rank, on_slack, head);
        if !self.families.is_empty() {
            self.used_in_family(id, head.estimate.as_tokens());
        }
        self.set_oldest_head(id, rank);
        self.ends_dirty(id, rank, writes)
    }

    /// A flush of the device's write cache, at the charge of a stream with or without requests.
    #[cold]
    #[inline(never)]
    fn head_of_flush(&mut self, stream: StreamId) -> Option<Head> {
        let (request, bytes) = (RequestId::FLUSH, 0);
        let shape = PieceShape { stream, kind: Kind::Flush, bytes, distance_sectors: None };
        let Quote { modelled, charge } = self.prices.quote(&shape, true);
        let estimate = self.books.unit.or(charge).unwrap_or(modelled).min(COST_MAX);
        let (sequence, offset, deadline, grains) = (0, 0, None, 0);
        Some(Head { request, sequence, offset, bytes, deadline, estimate, modelled, shape, grains })
    }

    /// Notes a piece's end in its request; answers the completion if the request is over.
    fn finish(&mut self, piece: &Piece, outcome: Outcome) -> Option<Completion> {
        if piece.request == RequestId::FLUSH {
            self.streams[piece.stream].landed(self.now, self.limits.depth);
            return None;
        }
        let live = self.requests.live(piece.request);
        live.pieces -= 1;
        live.outcome = live.outcome.max(outcome);
        let (state, failed) = (live.state, live.outcome != Outcome::Done);
        let over = live.pieces == 0 && (state == State::Sent || failed);
        if failed && state == State::Queued {
            self.leave_queue(piece.request, piece.stream);
        }
        let stream = &mut self.streams[piece.stream];
        stream.landed(self.now, self.limits.depth);
        if let Some(cycle) = stream.cycle.as_mut().filter(|_| piece.rank == Rank::Rate) {
            cycle.completed(piece.bytes, piece.dispatched_at);
        }
        if !over {
            return None;
        }
        let live = self.requests.live(piece.request);
        let completion = Completion {
            request: piece.request,
            stream: piece.stream,
            outcome: live.outcome,
            queue_time: live.dispatched_at.since(live.arrived_at),
            service_time: self.now.since(live.dispatched_at),
        };
        let wanted = live.outcome != Outcome::Cancelled;
        if let Some(deadline) = live.request.deadline.filter(|at| wanted && *at < self.now) {
            let late = self.now.since(deadline);
            self.events.push(Event::Late { stream: piece.stream, request: piece.request, late });
        }
        self.end(piece.request);
        Some(completion)
    }

    /// A request is over: nothing of it is queued or at the device.
    fn end(&mut self, request: RequestId) {
        let live = self.requests.live(request);
        let stream = &mut self.streams[live.request.stream];
        // The time until now is no pause.
        let _has_time = stream.accounts.limit.has_time(self.now);
        stream.live -= 1;
        stream.count(&live.request, live.outcome);
        let turns = self.shaping.as_mut().filter(|_| stream.live == 0);
        turns.into_iter().for_each(|shaping| shaping.turned(self.now, stream));
        self.requests.remove(request);
    }

    /// Takes a queued request out of its stream's queue.
    fn leave_queue(&mut self, request: RequestId, id: StreamId) {
        let stream = &mut self.streams[id];
        let live = self.requests.live(request);
        let (rank, unsent) = (live.rank, live.request.bytes - live.bytes_sent);
        let lane = &mut stream.lanes[rank];
        lane.bytes -= unsent;
        self.requests.unlink(&mut lane.queue, request);
        stream.queued -= 1;
        let was_head = lane.head.is_some_and(|head| head.request == request);
        self.policies[rank.at()].left(self.now, id, request);
        if was_head {
            self.set_oldest_head(id, rank);
        }
        self.gates.mark(id);
    }

    /// Makes the oldest request of a lane its next to go.
    fn set_oldest_head(&mut self, id: StreamId, rank: Rank) {
        self.set_head(id, rank, self.streams[id].lanes[rank].queue.head());
    }

    /// Works out a lane's next piece: the next of that request.
    fn set_head(&mut self, id: StreamId, rank: Rank, request: Option<RequestId>) {
        let piece_max = self.guarantees.piece_max(rank);
        let (one, best) = (self.limits.depth == 1, rank == Rank::Best);
        // Where the policy gives slices, guaranteed pieces are quoted as in them.
        let in_slice = !best || self.books.slice.is_some_and(|owner| owner.alone);
        let alone = if self.books.slices { in_slice } else { one };
        let policy = (best && self.books.slices).then(|| &mut self.policies[Rank::Best.at()]);
        let slices = policy.and_then(|policy| policy.slices());
        let stream = &mut self.streams[id];
        let head = request.map(|request| {
            let live = self.requests.live(request);
            let Request { kind, offset, bytes, .. } = live.request;
            let (offset, left) = (offset + live.bytes_sent, bytes - live.bytes_sent);
            let bytes = left.min(stream.spec.piece_bytes_max).min(piece_max);
            let near = stream.last_end.filter(|_| kind != Kind::Flush);
            let distance_sectors = near.map(|end| end.abs_diff(offset) / SECTOR);
            let shape = PieceShape { stream: id, kind, bytes, distance_sectors };
            let Quote { modelled, charge } = self.prices.quote(&shape, alone);
            let pace = slices.as_ref().and_then(|slices| slices.pace(id, modelled));
            let likely = || self.books.ledger.rate.of(modelled);
            let timed = pace.or(charge).unwrap_or_else(likely);
            let estimate = self.books.unit.unwrap_or(timed).min(COST_MAX);
            let (sequence, deadline) = (live.sequence, stream.deadline_of(rank, live));
            let first = live.bytes_sent == 0;
            let grains = self.shaping.as_ref();
            let grains = grains.map_or(0, |shaping| shaping.grains(bytes, first, estimate));
            Head { request, sequence, offset, bytes, deadline, estimate, modelled, shape, grains }
        });
        stream.lanes[rank].head = head;
        if head.is_some() {
            stream.active.insert(rank);
        }
    }
}

impl Stream {
    fn count(&mut self, request: &Request, outcome: Outcome) {
        let counters = &mut self.counters;
        match outcome {
            Outcome::Cancelled => counters.cancelled += 1,
            Outcome::Failed => {
                counters.completed += 1;
                counters.failed += 1;
            }
            Outcome::Done => {
                counters.completed += 1;
                match request.kind {
                    Kind::Read => counters.bytes_read += request.bytes,
                    Kind::Write => counters.bytes_written += request.bytes,
                    _ => {}
                }
            }
        }
    }
}

fn check(
    request: &Request,
    stream: &Stream,
    requests: &RequestTable,
    requests_max: u32,
) -> Result<(), Refusal> {
    let Request { id, kind, offset, bytes, .. } = *request;
    if id.0 >= requests_max {
        return Err(Refusal::IdOutOfRange { request: id, requests_max });
    }
    if requests.get(id).is_some() {
        return Err(Refusal::IdInUse(id));
    }
    if (bytes == 0) != (kind == Kind::Flush) {
        return Err(Refusal::BadLength { request: id, bytes });
    }
    if bytes > Request::BYTES_MAX {
        let bytes_max = Request::BYTES_MAX;
        return Err(Refusal::TooLong { request: id, bytes, bytes_max });
    }
    if offset.checked_add(bytes).is_none() {
        return Err(Refusal::BadExtent(id));
    }
    if stream.queued >= stream.spec.queue_max {
        return Err(Refusal::QueueFull { stream: stream.id, queue_max: stream.spec.queue_max });
    }
    Ok(())
}

fn instant(nanos: i64) -> Instant {
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
