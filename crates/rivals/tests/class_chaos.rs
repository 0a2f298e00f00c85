//! Random classes, rates, bounds, profiles and requests with classes of their own, in any order:
//! everything that is taken ends once, all of it, and nothing waits while there is room.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

#[path = "../../core/tests/rig/mod.rs"]
mod rig;

use std::collections::BTreeMap;

use disktime_core::feedback::{FeedbackConfig, FeedbackEntry};
use disktime_core::policy::PolicyEntry;
use disktime_core::{
    Access, Admission, Cancel, Change, Class, Config, Contract, Dispatch, Duration, Engine, Kind,
    Limits, Outcome, Positioning, Profile, Rate, Request, RequestId, StreamId, StreamSpec,
    Transfer, Zone,
};
use proptest::prelude::*;
use rig::{MS, SECOND, at, contract};

const STREAMS: u32 = 5;
const DEPTH_MAX: u32 = 4;

#[derive(Clone, Debug)]
enum Step {
    Arrive { id: u32, stream: u32, class: Option<Class>, place: u64, bytes: u64 },
    Complete { which: usize, outcome: Outcome, after: u64 },
    Cancel(u32),
    Contract(u32, Contract),
    Remove(u32),
    Profile(u64),
    Depth(u32),
    Headroom(u32),
    Missed(u32),
    Wait(u64),
    Due,
}

fn classes() -> impl Strategy<Value = Class> {
    use Class::{Background, BestEffort, GuaranteedLatency, GuaranteedRate, SoftRealTime};
    let classes = [GuaranteedLatency, GuaranteedRate, SoftRealTime, BestEffort, Background];
    prop::sample::select(classes.to_vec())
}

fn contracts() -> impl Strategy<Value = Contract> {
    let reserve = prop::sample::select(vec![0_u32, 5, 20, 40]);
    let limit = prop::sample::select(vec![100_u32, 100, 100, 50]);
    let cycle = prop::sample::select(vec![None, Some(50), Some(73), Some(500), Some(1_000)]);
    let miss = rig::percent(1);
    let kinds = [Admission::Deterministic, Admission::Statistical { miss }, Admission::BestEffort];
    let kind = prop::sample::select(kinds.to_vec());
    let bytes = prop::sample::select(vec![1_u64, 100_000, 2_000_000, 20_000_000, u64::MAX]);
    let bound = 1_u64..400;
    (classes(), reserve, limit, cycle, kind, bytes, bound).prop_map(
        |(class, reserve, limit, cycle, admission, bytes_per_second, bound)| {
            let cycle = cycle.map(Duration::from_millis);
            let rate = Rate { bytes_per_second, cycle, admission, access: Access::Both };
            Contract {
                class,
                rate: (class == Class::GuaranteedRate).then_some(rate),
                latency: (class == Class::GuaranteedLatency).then(|| Duration::from_millis(bound)),
                ..contract(reserve, limit)
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let class = prop_oneof![3 => Just(None), 2 => classes().prop_map(Some)];
    let bytes = prop::sample::select(vec![4_096_u64, 131_072, 131_072, 1 << 20, 4 << 20]);
    let outcome = prop::sample::select(vec![
        Outcome::Done,
        Outcome::Done,
        Outcome::Done,
        Outcome::Failed,
        Outcome::Cancelled,
    ]);
    prop_oneof![
        40 => (0_u32..60, 0..STREAMS, class, 0_u64..1 << 20, bytes).prop_map(
            |(id, stream, class, place, bytes)| Step::Arrive { id, stream, class, place, bytes }
        ),
        40 => (any::<usize>(), outcome, 0..30 * MS)
            .prop_map(|(which, outcome, after)| Step::Complete { which, outcome, after }),
        5 => (0_u32..60).prop_map(Step::Cancel),
        6 => (0..STREAMS, contracts()).prop_map(|(id, contract)| Step::Contract(id, contract)),
        1 => (0..STREAMS).prop_map(Step::Remove),
        1 => (1_u64..100_000_000).prop_map(Step::Profile),
        2 => (0..DEPTH_MAX + 2).prop_map(Step::Depth),
        1 => (0_u32..60).prop_map(Step::Headroom),
        6 => (0..STREAMS).prop_map(Step::Missed),
        6 => (0..2 * SECOND).prop_map(Step::Wait),
        6 => Just(Step::Due),
    ]
}

fn profile(bytes_per_second: u64) -> Profile {
    let transfer = Transfer { per_request: Duration::from_micros(100), bytes_per_second };
    let zone = Zone { end: 1 << 40, read: transfer, write: transfer };
    let (mean, worst) = (Duration::from_millis(5), Duration::from_millis(20));
    let deviation = Duration::from_millis(3);
    Profile {
        zones: vec![zone],
        positioning: vec![Positioning { distance: 1, mean, deviation, worst }],
        destage: Duration::ZERO,
        prices: None,
    }
}

/// The rest of a request.
struct Known {
    stream: u32,
    next: u64,
    end: u64,
    out: u32,
    given_up: bool,
}

struct World {
    holds: bool,
    engine: Engine,
    now: u64,
    depth: u32,
    streams: BTreeMap<u32, Contract>,
    requests: BTreeMap<u32, Known>,
    at_device: Vec<Dispatch>,
}

impl World {
    fn new(policy: &'static PolicyEntry, controller: &'static FeedbackEntry) -> Self {
        let limits = Limits { depth: 1, depth_max: DEPTH_MAX, requests_max: 60, streams_max: 5 };
        let feedback = FeedbackConfig { controller, ..FeedbackConfig::default() };
        let config = Config { policy, limits, feedback, ..Config::default() };
        let mut engine = Engine::new(&config).unwrap();
        let profile = profile(20_000_000);
        engine.handle_change(at(0), Change::SetProfile(&profile)).unwrap();
        let (requests, at_device) = (BTreeMap::new(), Vec::new());
        Self {
            holds: policy.holds,
            engine,
            now: 0,
            depth: 1,
            streams: BTreeMap::new(),
            requests,
            at_device,
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Arrive { id, stream, class, place, bytes } => {
                self.arrive(*id, *stream, *class, *place, *bytes);
            }
            Step::Complete { which, outcome, after } => {
                self.now += after;
                self.complete(*which, *outcome);
            }
            Step::Cancel(id) => self.cancel(*id),
            Step::Contract(stream, contract) => self.set_contract(*stream, *contract),
            Step::Remove(stream) => {
                if self
                    .engine
                    .handle_change(at(self.now), Change::RemoveStream(StreamId(*stream)))
                    .is_ok()
                {
                    self.streams.remove(stream);
                }
            }
            Step::Profile(rate) => {
                let profile = profile(*rate);
                let _refused_or_not =
                    self.engine.handle_change(at(self.now), Change::SetProfile(&profile));
            }
            Step::Depth(depth) => {
                if self.engine.handle_change(at(self.now), Change::SetDepth(*depth)).is_ok() {
                    self.depth = *depth;
                }
            }
            Step::Headroom(percent) => {
                let change = Change::SetHeadroom(rig::percent(*percent));
                let _refused_or_not = self.engine.handle_change(at(self.now), change);
            }
            Step::Missed(stream) => {
                let missed = Change::MissedDeadline(StreamId(*stream));
                let known = self.engine.handle_change(at(self.now), missed).is_ok();
                assert_eq!(known, self.streams.contains_key(stream));
            }
            Step::Wait(time) => self.now += time,
            Step::Due => {
                if let Some(due) = self.engine.poll_timeout() {
                    self.now = self.now.max(due.as_nanos());
                }
            }
        }
        self.engine.handle_timeout(at(self.now));
        self.pump();
        self.engine.assert_conserved();
        while self.engine.poll_event().is_some() {}
    }

    fn arrive(&mut self, id: u32, stream: u32, class: Option<Class>, place: u64, bytes: u64) {
        let (offset, kind) = (place << 12, Kind::Read);
        let rest = rig::read(id, stream, bytes);
        let request = Request { kind, offset, class, ..rest };
        if self.engine.handle_arrival(at(self.now), request).is_ok() {
            let end = offset + bytes;
            let known = Known { stream, next: offset, end, out: 0, given_up: false };
            assert!(self.requests.insert(id, known).is_none(), "an id in use is refused");
        }
    }

    fn set_contract(&mut self, id: u32, contract: Contract) {
        let stream = StreamId(id);
        let known = self.streams.contains_key(&id);
        let spec = StreamSpec { contract, ..StreamSpec::default() };
        let changes = [(stream, contract)];
        let change =
            if known { Change::SetContracts(&changes) } else { Change::AddStream(stream, spec) };
        let before: Vec<_> = self.engine.streams().map(|it| (it.id(), it.contract())).collect();
        match self.engine.handle_change(at(self.now), change) {
            Ok(()) => drop(self.streams.insert(id, contract)),
            Err(_) => {
                let after: Vec<_> =
                    self.engine.streams().map(|it| (it.id(), it.contract())).collect();
                assert_eq!(before, after, "a refused change changes nothing");
            }
        }
        let total = self.engine.streams().map(|it| it.contract().reserve.ppm()).sum::<u32>();
        assert!(total <= 1_000_000, "{total} ppm are promised");
    }

    fn complete(&mut self, which: usize, outcome: Outcome) {
        if self.at_device.is_empty() {
            return;
        }
        let piece = self.at_device.swap_remove(which % self.at_device.len());
        let over = self.engine.handle_completion(at(self.now), piece.piece, outcome);
        let known = self.requests.get_mut(&piece.request.0).expect("pieces' requests live");
        known.out -= 1;
        known.given_up |= outcome != Outcome::Done;
        let ends = known.out == 0 && (known.given_up || known.next == known.end);
        assert_eq!(over.is_some(), ends, "a request ends with its last piece");
        if ends {
            self.requests.remove(&piece.request.0);
        }
    }

    fn cancel(&mut self, id: u32) {
        let cancel = self.engine.handle_cancel(at(self.now), RequestId(id));
        match self.requests.get_mut(&id) {
            None => assert_eq!(cancel, Cancel::Unknown),
            Some(known) if known.out > 0 => {
                assert_eq!(cancel, Cancel::InFlight);
                known.given_up = true;
            }
            Some(_) => {
                assert_eq!(cancel, Cancel::Gone);
                self.requests.remove(&id);
            }
        }
    }

    fn pump(&mut self) {
        while let Some(piece) = self.engine.poll_dispatch(at(self.now)) {
            assert!(self.at_device.len() < self.depth as usize, "the depth holds");
            let known = self.requests.get_mut(&piece.request.0).expect("what goes out lives");
            assert!(!known.given_up, "what was given up does not go out");
            assert_eq!(piece.offset, known.next, "pieces follow each other");
            known.next += piece.bytes;
            assert!(known.next <= known.end && piece.bytes > 0);
            known.out += 1;
            self.at_device.push(piece);
        }
        // A policy that leaves the device idle on purpose says until when.
        let until = self.engine.poll_timeout().filter(|_| self.holds);
        let effort = self.engine.best_effort();
        let shaped = effort.reads.is_some() || effort.writes.is_some();
        let held = until.is_some_and(|until| until > at(self.now));
        let until = self.engine.poll_timeout();
        let later = until.is_some_and(|until| until > at(self.now));
        let held = held || (shaped && later);
        if self.at_device.len() < self.depth as usize && !held {
            for known in self.requests.values().filter(|it| !it.given_up && it.next < it.end) {
                let Contract { limit, class, .. } = self.streams[&known.stream];
                let limited = limit < disktime_core::Share::FULL;
                // A stream that reported a need that it did not have pays that back, also when
                // no stream is shaped any more.
                let pays_back = class == Class::SoftRealTime && effort.reports > 0 && later;
                let why = limited || pays_back;
                assert!(why, "stream {} waits while there is room", known.stream);
            }
        }
    }

    fn drain(&mut self) {
        for _ in 0..20_000 {
            if self.requests.is_empty() {
                return;
            }
            if self.at_device.is_empty() {
                let due = self.engine.poll_timeout().expect("what waits says until when");
                assert!(due.as_nanos() > self.now, "a timeout in the past would spin");
                self.apply(&Step::Due);
            } else {
                self.apply(&Step::Complete { which: 0, outcome: Outcome::Done, after: MS });
            }
        }
        panic!(
            "{:?} never end: {:?} at {} out {:?}",
            self.requests
                .iter()
                .map(|(i, k)| (i, k.stream, k.next, k.end, k.out, k.given_up))
                .collect::<Vec<_>>(),
            self.streams,
            self.now,
            self.at_device
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn everything_taken_ends_once_whatever_the_classes(
        steps in prop::collection::vec(steps(), 1..200),
        skip in 0..disktime_rivals::controllers().count(),
    ) {
        let controllers = disktime_rivals::controllers();
        let policies = disktime_rivals::all().chain(&disktime_rivals::TIME_DIVISIONS[..1]);
        for (entry, controller) in policies.zip(controllers.cycle().skip(skip)) {
            let mut world = World::new(entry, controller);
            for step in &steps {
                world.apply(step);
            }
            world.drain();
        }
    }
}
