//! Random inputs in any order, against an oracle that knows only the contract: what is refused and
//! why, that a request's pieces tile its extent once and in order, that it ends exactly once and
//! how, that streams are first in first out, and that no depth is exceeded.

#[path = "../../core/tests/rig/mod.rs"]
mod rig;

use std::collections::{BTreeMap, VecDeque};

use disktime_core::policy::PolicyEntry;
use disktime_core::{
    Cancel, Change, ChangeError, Completion, Config, Contract, Dispatch, Duration, Engine, Instant,
    Kind, Limits, Outcome, Refusal, Request, RequestId, Share, StreamError, StreamId, StreamSpec,
};
use proptest::prelude::*;
use rig::{MS, at, contract};

const LIMITS: Limits = Limits { depth: 4, depth_max: 16, requests_max: 40, streams_max: 6 };

#[derive(Clone, Debug)]
enum Step {
    Arrive { id: u32, stream: u32, kind: Kind, offset: u64, bytes: u64 },
    Complete { which: usize, outcome: Outcome },
    Cancel(u32),
    Add { stream: u32, spec: StreamSpec },
    Remove(u32),
    Contracts(Vec<(u32, Contract)>),
    Depth(u32),
    StreamDepth(u32, u32),
    Headroom(u32),
    Missed(u32),
    Timeout,
}

/// When a step happens, seen from the one before.
#[derive(Clone, Copy, Debug)]
enum When {
    Still,
    Back(u64),
    Later(u64),
    /// At the time of `poll_timeout`, or this much before or after it.
    Due(i64),
}

fn contracts() -> impl Strategy<Value = Contract> {
    let reserve = prop::sample::select(vec![0u32, 0, 5, 20, 40, 70]);
    let limit = prop::sample::select(vec![100u32, 100, 100, 60, 10, 0]);
    let weight = prop::sample::select(vec![100u32, 1, 300, 10_000, 10_000, 0]);
    (reserve, limit, weight)
        .prop_map(|(reserve, limit, weight)| Contract { weight, ..contract(reserve, limit) })
}

fn specs() -> impl Strategy<Value = StreamSpec> {
    let queue_max = prop::sample::select(vec![0u32, 1, 3, 16]);
    let depth_max = prop::sample::select(vec![u32::MAX, u32::MAX, 3, 1, 0]);
    let piece_bytes_max = prop::sample::select(vec![u64::MAX, 65_536, 4_096, 1_000, 0]);
    let parent = prop::sample::select(vec![None, None, None, None, None, Some(StreamId(0))]);
    (contracts(), queue_max, depth_max, piece_bytes_max, parent).prop_map(
        |(contract, queue_max, depth_max, piece_bytes_max, parent)| StreamSpec {
            contract,
            parent,
            queue_max,
            depth_max,
            piece_bytes_max,
            extent: None,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    use Kind::{Cache, Flush, Read, Trim, Write, Zeroes};
    let stream = || 0u32..7;
    let kind = prop::sample::select(vec![Read, Read, Write, Write, Flush, Trim, Zeroes, Cache]);
    let bytes = prop::sample::select(vec![512u64, 4_096, 4_096, 10_000, 131_072, 1, 0]);
    let offset = prop_oneof![0u64..1 << 34, (0u64..64).prop_map(|n| n * 4_096), Just(u64::MAX - 5)];
    let outcome = prop::sample::select(vec![
        Outcome::Done,
        Outcome::Done,
        Outcome::Done,
        Outcome::Failed,
        Outcome::Cancelled,
    ]);
    let arrive =
        (0u32..42, stream(), kind, offset, bytes).prop_map(|(id, stream, kind, offset, bytes)| {
            // Most flushes are well formed.
            let bytes = if kind == Flush && bytes != 512 { 0 } else { bytes };
            Step::Arrive { id, stream, kind, offset, bytes }
        });
    prop_oneof![
        40 => arrive,
        30 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Step::Complete { which, outcome }),
        6 => (0u32..42).prop_map(Step::Cancel),
        4 => (stream(), specs()).prop_map(|(stream, spec)| Step::Add { stream, spec }),
        2 => stream().prop_map(Step::Remove),
        3 => prop::collection::vec((stream(), contracts()), 0..4).prop_map(Step::Contracts),
        3 => (0u32..18).prop_map(Step::Depth),
        3 => (stream(), 0u32..5).prop_map(|(stream, depth)| Step::StreamDepth(stream, depth)),
        1 => (0u32..101).prop_map(Step::Headroom),
        1 => stream().prop_map(Step::Missed),
        8 => Just(Step::Timeout),
    ]
}

fn whens() -> impl Strategy<Value = When> {
    prop_oneof![
        3 => Just(When::Still),
        1 => (0..50 * MS).prop_map(When::Back),
        4 => (0..3 * MS).prop_map(When::Later),
        3 => (0..300 * MS).prop_map(When::Later),
        1 => (0..60_000 * MS).prop_map(When::Later),
        3 => (-2_000_000i64..2_000_000).prop_map(When::Due),
        2 => Just(When::Due(0)),
    ]
}

/// The oracle's record of a request.
struct Known {
    request: Request,
    sent: u64,
    out: u32,
    queued: bool,
    outcome: Outcome,
    arrived_at: u64,
    first_sent_at: Option<u64>,
}

/// The oracle's record of a stream.
struct Tenant {
    spec: StreamSpec,
    queue: VecDeque<u32>,
    out: u32,
    /// Something that it wrote came back since its last flush.
    wrote: bool,
    /// Arrived, refused, completed, failed, cancelled.
    counts: [u64; 5],
}

struct World {
    reorders: bool,
    holds: bool,
    engine: Engine,
    now: u64,
    depth: u32,
    headroom: u32,
    tenants: BTreeMap<u32, Tenant>,
    requests: BTreeMap<u32, Known>,
    at_device: Vec<Dispatch>,
}

impl World {
    fn new(entry: &'static PolicyEntry) -> Self {
        let config = Config { policy: entry, limits: LIMITS, flushes: true, ..Config::default() };
        let mut world = Self {
            reorders: entry.reorders,
            holds: entry.holds,
            engine: Engine::new(&config).expect("it is registered"),
            now: 0,
            depth: LIMITS.depth,
            headroom: 0,
            tenants: BTreeMap::new(),
            requests: BTreeMap::new(),
            at_device: Vec::new(),
        };
        // Something to start from: most steps need a stream.
        for (stream, reserve, limit, depth_max, piece_bytes_max) in
            [(0, 30, 100, u32::MAX, u64::MAX), (1, 0, 50, 2, 4_096), (2, 0, 100, 8, 65_536)]
        {
            let contract = contract(reserve, limit);
            let spec = StreamSpec {
                contract,
                queue_max: 8,
                depth_max,
                piece_bytes_max,
                ..StreamSpec::default()
            };
            world.apply(&Step::Add { stream, spec }, 0);
        }
        world
    }

    /// The time that is passed in, and the time that then counts.
    fn pass(&mut self, when: When) -> u64 {
        let told = match when {
            When::Still => self.now,
            When::Back(by) => self.now.saturating_sub(by),
            When::Later(by) => self.now + by,
            When::Due(by) => {
                let due = self.engine.poll_timeout().map_or(self.now, Instant::as_nanos);
                due.saturating_add_signed(by)
            }
        };
        self.now = self.now.max(told);
        told
    }

    fn apply(&mut self, step: &Step, told: u64) {
        match step {
            Step::Arrive { id, stream, kind, offset, bytes } => {
                let (id, stream) = (RequestId(*id), StreamId(*stream));
                let (kind, offset, bytes) = (*kind, *offset, *bytes);
                let rest = rig::read(0, 0, 0);
                self.arrive(told, Request { id, stream, kind, offset, bytes, ..rest });
            }
            Step::Complete { which, outcome } => self.complete(told, *which, *outcome),
            Step::Cancel(id) => self.cancel(told, *id),
            Step::Timeout => self.engine.handle_timeout(at(told)),
            change => self.change(told, change),
        }
        self.pump(told);
        self.check();
        while self.engine.poll_event().is_some() {}
    }

    fn arrive(&mut self, told: u64, request: Request) {
        let Request { id, stream, kind, offset, bytes, .. } = request;
        let requests_max = LIMITS.requests_max;
        let expected = match self.tenants.get(&stream.0) {
            None => Err(Refusal::UnknownStream(stream)),
            _ if id.0 >= requests_max => Err(Refusal::IdOutOfRange { request: id, requests_max }),
            _ if self.requests.contains_key(&id.0) => Err(Refusal::IdInUse(id)),
            _ if (kind == Kind::Flush) != (bytes == 0) => {
                Err(Refusal::BadLength { request: id, bytes })
            }
            _ if offset.checked_add(bytes).is_none() => Err(Refusal::BadExtent(id)),
            Some(Tenant { spec, queue, .. }) if queue.len() >= spec.queue_max as usize => {
                Err(Refusal::QueueFull { stream, queue_max: spec.queue_max })
            }
            Some(_) => Ok(()),
        };
        assert_eq!(self.engine.handle_arrival(at(told), request), expected);
        let Some(tenant) = self.tenants.get_mut(&stream.0) else { return };
        tenant.counts[0] += 1;
        if expected.is_err() {
            tenant.counts[1] += 1;
            return;
        }
        tenant.queue.push_back(id.0);
        let known = Known {
            request,
            sent: 0,
            out: 0,
            queued: true,
            outcome: Outcome::Done,
            arrived_at: self.now,
            first_sent_at: None,
        };
        self.requests.insert(id.0, known);
    }

    fn leave_queue(&mut self, id: u32) {
        let known = self.requests.get_mut(&id).expect("it lives");
        known.queued = false;
        let tenant = self.tenants.get_mut(&known.request.stream.0).expect("it has a stream");
        tenant.queue.retain(|queued| *queued != id);
    }

    fn complete(&mut self, told: u64, which: usize, outcome: Outcome) {
        if self.at_device.is_empty() {
            return;
        }
        let piece = self.at_device.swap_remove(which % self.at_device.len());
        let over = self.engine.handle_completion(at(told), piece.piece, outcome);
        let tenant = self.tenants.get_mut(&piece.stream.0).expect("streams outlive pieces");
        if piece.request == RequestId::FLUSH {
            tenant.out -= 1;
            assert_eq!(over, None, "nobody waits for it");
            return;
        }
        let id = piece.request.0;
        let known = self.requests.get_mut(&id).expect("a piece's request lives");
        tenant.wrote |= matches!(known.request.kind, Kind::Write | Kind::Zeroes);
        known.out -= 1;
        known.outcome = known.outcome.max(outcome);
        let stream = known.request.stream;
        if known.queued && known.outcome != Outcome::Done {
            self.leave_queue(id);
        }
        let tenant = self.tenants.get_mut(&stream.0).expect("streams outlive pieces");
        tenant.out -= 1;
        let known = &self.requests[&id];
        if known.queued || known.out > 0 {
            assert_eq!(over, None, "there is more of it");
            return;
        }
        if known.outcome == Outcome::Done {
            assert_eq!(known.sent, known.request.bytes, "all of it was done");
        }
        let first = known.first_sent_at.expect("a piece of it went out");
        let expected = Completion {
            request: RequestId(id),
            stream,
            outcome: known.outcome,
            queue_time: Duration::from_nanos(first - known.arrived_at),
            service_time: Duration::from_nanos(self.now - first),
        };
        assert_eq!(over, Some(expected));
        match known.outcome {
            Outcome::Cancelled => tenant.counts[4] += 1,
            Outcome::Failed => {
                tenant.counts[2] += 1;
                tenant.counts[3] += 1;
            }
            Outcome::Done => tenant.counts[2] += 1,
        }
        self.requests.remove(&id);
    }

    fn cancel(&mut self, told: u64, id: u32) {
        let cancel = self.engine.handle_cancel(at(told), RequestId(id));
        let Some(known) = self.requests.get_mut(&id) else {
            assert_eq!(cancel, Cancel::Unknown);
            return;
        };
        known.outcome = Outcome::Cancelled;
        let (stream, out) = (known.request.stream.0, known.out);
        self.leave_queue(id);
        if out > 0 {
            assert_eq!(cancel, Cancel::InFlight);
            return;
        }
        assert_eq!(cancel, Cancel::Gone);
        self.requests.remove(&id);
        self.tenants.get_mut(&stream).expect("it has a stream").counts[4] += 1;
    }

    fn change(&mut self, told: u64, step: &Step) {
        let expected = self.admits(step);
        let renamed: Vec<_>;
        let change = match step {
            Step::Add { stream, spec } => Change::AddStream(StreamId(*stream), *spec),
            Step::Remove(stream) => Change::RemoveStream(StreamId(*stream)),
            Step::Contracts(contracts) => {
                renamed =
                    contracts.iter().map(|(id, contract)| (StreamId(*id), *contract)).collect();
                Change::SetContracts(&renamed)
            }
            Step::Depth(depth) => Change::SetDepth(*depth),
            Step::StreamDepth(stream, depth) => Change::SetStreamDepth(StreamId(*stream), *depth),
            Step::Headroom(percent) => Change::SetHeadroom(rig::percent(*percent)),
            Step::Missed(stream) => Change::MissedDeadline(StreamId(*stream)),
            _ => unreachable!("not a change"),
        };
        assert_eq!(self.engine.handle_change(at(told), change), expected, "{change:?}");
        if expected.is_ok() {
            self.make(step);
        }
    }

    /// The engine's right answer to a change.
    fn admits(&self, step: &Step) -> Result<(), ChangeError> {
        let known = |id: u32| match self.tenants.get(&id) {
            Some(tenant) => Ok(tenant),
            None => Err(StreamError::Unknown.of(StreamId(id))),
        };
        let depth = |depth, depth_max| match depth {
            0 => Err(ChangeError::Depth { depth, depth_max }),
            _ if depth > depth_max => Err(ChangeError::Depth { depth, depth_max }),
            _ => Ok(()),
        };
        match step {
            Step::Add { stream, spec } => {
                let (stream, streams_max) = (StreamId(*stream), LIMITS.streams_max);
                if stream.0 >= streams_max {
                    return Err(StreamError::OutOfRange { streams_max }.of(stream));
                }
                if self.tenants.contains_key(&stream.0) {
                    return Err(StreamError::InUse.of(stream));
                }
                if spec.piece_bytes_max == 0 {
                    return Err(StreamError::PieceBytes.of(stream));
                }
                depth(spec.depth_max, u32::MAX)?;
                sound(stream, spec.contract)?;
                if let Some(parent) = spec.parent {
                    let tenant = self.tenants.get(&parent.0);
                    if tenant.is_none_or(|tenant| tenant.spec.parent.is_some()) {
                        return Err(ChangeError::Parent { stream, parent });
                    }
                }
                self.fits(&[(stream.0, spec.contract)], spec.parent, self.headroom)
            }
            Step::Remove(id) => {
                let flushes = known(*id)?.out > 0;
                let of = |known: &&Known| known.request.stream.0 == *id;
                let live = u32::try_from(self.requests.values().filter(of).count());
                let (stream, live) = (StreamId(*id), live.expect("at most 40"));
                let is_parent = self.tenants.values().any(|it| it.spec.parent == Some(stream));
                match live {
                    0 if flushes => Err(StreamError::Busy { live: 1 }.of(stream)),
                    0 if is_parent => Err(StreamError::HasChildren.of(stream)),
                    0 => Ok(()),
                    _ => Err(StreamError::Busy { live }.of(stream)),
                }
            }
            Step::Contracts(contracts) => {
                for (index, (id, contract)) in contracts.iter().enumerate() {
                    known(*id)?;
                    sound(StreamId(*id), *contract)?;
                    if contracts[..index].iter().any(|(other, _)| other == id) {
                        return Err(StreamError::NamedTwice.of(StreamId(*id)));
                    }
                }
                self.fits(contracts, None, self.headroom)
            }
            Step::Depth(to) => depth(*to, LIMITS.depth_max),
            Step::StreamDepth(stream, to) => {
                depth(*to, u32::MAX)?;
                known(*stream).map(|_| ())
            }
            Step::Headroom(percent) => self.fits(&[], None, *percent),
            Step::Missed(stream) => known(*stream).map(|_| ()),
            _ => unreachable!("not a change"),
        }
    }

    /// Whether all fit with these contracts; the parent is that of a new stream.
    fn fits(
        &self,
        new: &[(u32, Contract)],
        parent: Option<StreamId>,
        headroom: u32,
    ) -> Result<(), ChangeError> {
        let of = |tenant: &Tenant| (tenant.spec.contract.reserve, tenant.spec.parent);
        let mut reserves: BTreeMap<_, _> =
            self.tenants.iter().map(|(id, tenant)| (*id, of(tenant))).collect();
        for (id, contract) in new {
            let parent = self.tenants.get(id).map_or(parent, |tenant| tenant.spec.parent);
            reserves.insert(*id, (contract.reserve, parent));
        }
        for (id, (reserve, _)) in &reserves {
            let head = StreamId(*id);
            let children = reserves.values().filter(|(_, parent)| *parent == Some(head));
            let asked_ppm = children.map(|(reserve, _)| reserve.ppm()).sum::<u32>();
            if asked_ppm > reserve.ppm() {
                return Err(StreamError::Children { asked_ppm, reserve: *reserve }.of(head));
            }
        }
        let own = reserves.values().filter(|(_, parent)| parent.is_none());
        let asked_ppm = own.map(|(reserve, _)| u64::from(reserve.ppm())).sum();
        let available = rig::percent(100 - headroom);
        if asked_ppm <= u64::from(available.ppm()) {
            return Ok(());
        }
        Err(ChangeError::Overbooked { asked_ppm, available })
    }

    fn make(&mut self, step: &Step) {
        match step {
            Step::Add { stream, spec } => {
                let (queue, out, wrote, counts) = (VecDeque::new(), 0, false, [0; 5]);
                let tenant = Tenant { spec: *spec, queue, out, wrote, counts };
                self.tenants.insert(*stream, tenant);
            }
            Step::Remove(stream) => drop(self.tenants.remove(stream)),
            Step::Contracts(contracts) => {
                for (id, contract) in contracts {
                    self.tenants.get_mut(id).expect("admitted").spec.contract = *contract;
                }
            }
            Step::Depth(depth) => self.depth = *depth,
            Step::StreamDepth(stream, depth) => {
                self.tenants.get_mut(stream).expect("admitted").spec.depth_max = *depth;
            }
            Step::Headroom(percent) => self.headroom = *percent,
            _ => {}
        }
    }

    /// Takes all that may go out; each must be the next piece of its stream's oldest request, unless
    /// the policy reorders.
    fn pump(&mut self, told: u64) {
        while let Some(dispatch) = self.engine.poll_dispatch(at(told)) {
            let Dispatch { stream, request, offset, bytes, .. } = dispatch;
            assert!(self.at_device.len() < self.depth as usize, "the depth holds");
            if request == RequestId::FLUSH {
                let tenant = self.tenants.get_mut(&stream.0).expect("a stream");
                assert!(std::mem::take(&mut tenant.wrote), "it has something to flush");
                assert_eq!((self.depth, offset, bytes), (1, 0, 0), "one at a time");
                tenant.out += 1;
                self.at_device.push(dispatch);
                continue;
            }
            let known = self.requests.get_mut(&request.0).expect("a dispatched request lives");
            assert_eq!(known.request.stream, stream);
            let tenant = self.tenants.get_mut(&stream.0).expect("a stream");
            if self.reorders {
                assert!(tenant.queue.contains(&request.0), "only what waits goes out");
            } else {
                assert_eq!(tenant.queue.front(), Some(&request.0), "first in, first out");
            }
            assert!(tenant.out < tenant.spec.depth_max, "the stream's depth holds");
            assert_eq!(offset, known.request.offset + known.sent, "pieces follow each other");
            let left = known.request.bytes - known.sent;
            assert_eq!(bytes, left.min(tenant.spec.piece_bytes_max), "as long as it may be");
            known.sent += bytes;
            known.out += 1;
            known.first_sent_at.get_or_insert(self.now);
            tenant.out += 1;
            if known.sent == known.request.bytes {
                known.queued = false;
                tenant.queue.retain(|queued| *queued != request.0);
            }
            self.at_device.push(dispatch);
        }
        if self.at_device.len() >= self.depth as usize {
            return;
        }
        // A policy that leaves the device idle on purpose says until when.
        let until = self.engine.poll_timeout().filter(|_| self.holds);
        if until.is_some_and(|until| until.as_nanos() > self.now) {
            return;
        }
        for (id, Tenant { spec, queue, out, .. }) in &self.tenants {
            // A parent's limit holds for its children, too.
            let parent = spec.parent.and_then(|parent| self.tenants.get(&parent.0));
            let limits = [Some(spec), parent.map(|parent| &parent.spec)].into_iter().flatten();
            let limited = limits.map(|spec| spec.contract.limit).any(|limit| limit < Share::FULL);
            let may = !queue.is_empty() && *out < spec.depth_max && !limited;
            assert!(!may, "stream {id} waits while there is room");
        }
    }

    fn check(&self) {
        self.engine.assert_conserved();
        assert_eq!(self.engine.in_flight() as usize, self.at_device.len());
        assert_eq!(self.engine.streams().count(), self.tenants.len());
        for (id, tenant) in &self.tenants {
            let view = self.engine.stream(StreamId(*id)).expect("it was added");
            let c = view.counters();
            let counts = [c.arrived, c.refused, c.completed, c.failed, c.cancelled];
            assert_eq!(counts, tenant.counts, "counters of stream {id}");
            assert_eq!(view.queued() as usize, tenant.queue.len());
            assert_eq!(view.in_flight(), tenant.out);
            assert_eq!(view.spec(), tenant.spec);
        }
    }

    /// After the faults a healthy phase: everything that was taken ends, and nothing is left over.
    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.requests.is_empty() && self.at_device.is_empty() {
                break;
            }
            if self.at_device.is_empty() {
                let due = self.engine.poll_timeout().expect("what waits for time says until when");
                assert!(due.as_nanos() > self.now, "a timeout in the past would spin");
                self.now = due.as_nanos();
                self.apply(&Step::Timeout, self.now);
            } else {
                self.now += MS / 8;
                self.apply(&Step::Complete { which: 0, outcome: Outcome::Done }, self.now);
            }
        }
        assert!(self.requests.is_empty(), "{} requests never end", self.requests.len());
        let time = self.engine.device_time();
        assert_eq!(time.open, Duration::ZERO, "all busy time is divided");
        let used = time.charged.as_nanos() + time.spare.as_nanos();
        assert_eq!(used, time.busy.as_nanos() + time.held.as_nanos());
    }
}

fn sound(stream: StreamId, contract: Contract) -> Result<(), ChangeError> {
    let Contract { reserve, limit, weight, .. } = contract;
    if limit == Share::ZERO {
        Err(StreamError::ZeroLimit.of(stream))
    } else if reserve > limit {
        Err(StreamError::ReserveAboveLimit { reserve, limit }.of(stream))
    } else if weight == 0 || weight > Contract::WEIGHT_MAX {
        Err(StreamError::Weight { weight }.of(stream))
    } else {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_policy_keeps_the_contract_of_the_engine(steps in prop::collection::vec((whens(), steps()), 1..150)) {
        for entry in disktime_rivals::all().chain(&disktime_rivals::TIME_DIVISIONS[..1]) {
            let mut world = World::new(entry);
            for (when, step) in &steps {
                let told = world.pass(*when);
                world.apply(step, told);
            }
            world.drain();
        }
    }
}

/// The piece's id is a token: used once, it is spent.
#[test]
#[should_panic(expected = "a piece completes once")]
fn completing_a_piece_twice_is_caught() {
    let mut rig = rig::Rig::new(2);
    rig.add(0, contract(0, 100));
    rig.ask(0, 1, 0, 1);
    let piece = rig.go_one(0).piece;
    rig.done(1, piece);
    rig.ask(1, 1, 0, 1);
    rig.go_one(1);
    rig.done(2, piece);
}
