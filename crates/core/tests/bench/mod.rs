//! A test bench: one engine, one single-server device with a queue, streams that come and go.
//!
//! The device serves pieces in the order of dispatch; the bench knows the true service time of
//! each and keeps every stream's service and backlog, so that promises can be checked against it.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part of the bench")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "small numbers and known streams that the tests choose"
)]

use std::collections::VecDeque;

use disktime_core::cost::CostParameters;
use disktime_core::policy::{Policy, PolicyEntry};
use disktime_core::promise::{self, Terms};
use disktime_core::{
    Change, Config, Contract, Dispatch, Duration, Engine, Instant, Kind, Limits, Outcome, PieceId,
    Request, RequestId, Share, StreamId, StreamSpec, cost,
};

/// A small generator with good enough bits: tests must not depend on the platform's.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

/// A stream of the bench.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub reserve_percent: u32,
    pub limit_percent: u32,
    pub sequential: bool,
    pub outstanding: u32,
    /// Wants service for this long, then pauses for that long; no pause if zero.
    pub on_ms: u64,
    pub off_ms: u64,
}

pub const SEQUENTIAL_NS: (u64, u64) = (100_000, 400_000);
pub const RANDOM_NS: (u64, u64) = (5_000_000, 25_000_000);
/// The dearest request of the bench.
pub const DEAREST: Duration = Duration::from_nanos(RANDOM_NS.1);

fn config(depth: u32) -> Config<'static> {
    let limits = Limits { depth, ..Limits::default() };
    Config { limits, piece_time_max: DEAREST, ..Config::default() }
}

struct Tenant {
    load: Load,
    random: Random,
    offset: u64,
    live: u32,
    /// f·t - service, in ns, at its lowest since the backlog began; `None` when not backlogged.
    lowest: Option<i64>,
    service: u64,
    worst_lag: i64,
}

pub struct Bench {
    pub engine: Engine,
    depth: u32,
    /// Service times are the model's estimates, so that windows divide by the truth.
    truthful: bool,
    now: u64,
    tenants: Vec<Tenant>,
    device: VecDeque<(Dispatch, StreamId, u64)>,
    /// When the piece at the device's head ends.
    ends: u64,
    owners: Vec<Option<StreamId>>,
    free: Vec<u32>,
    /// Every other stream writes.
    pub writes: bool,
    pub log: Vec<(u64, u32)>,
}

impl Bench {
    pub fn new(policy: &'static PolicyEntry, depth: u32, loads: &[Load], seed: u64) -> Self {
        let cost_model = cost::usual(policy.name);
        let config = Config { policy, cost_model, ..config(depth) };
        Self::of(Engine::new(&config).unwrap(), depth, loads, seed)
    }

    /// With a policy that is in no registry.
    pub fn under(policy: Box<dyn Policy>, depth: u32, loads: &[Load], seed: u64) -> Self {
        let cost = (cost::find("fixed").unwrap().build)(CostParameters::default());
        Self::of(Engine::with_policy(&config(depth), policy, cost), depth, loads, seed)
    }

    fn of(mut engine: Engine, depth: u32, loads: &[Load], seed: u64) -> Self {
        let mut tenants = Vec::new();
        for (index, load) in loads.iter().enumerate() {
            let share = |percent| Share::from_percent(percent).unwrap();
            let contract = Contract {
                limit: share(load.limit_percent),
                ..Contract::reserving(share(load.reserve_percent))
            };
            let spec = StreamSpec { contract, ..StreamSpec::default() };
            engine
                .handle_change(Instant::ZERO, Change::AddStream(StreamId(index as u32), spec))
                .unwrap();
            tenants.push(Tenant {
                load: *load,
                random: Random(seed ^ ((index as u64 + 1) * 0x9e37_79b9)),
                offset: index as u64 * 1_000_000_000,
                live: 0,
                lowest: None,
                service: 0,
                worst_lag: 0,
            });
        }
        Self {
            engine,
            depth,
            truthful: depth > 1,
            now: 0,
            tenants,
            device: VecDeque::new(),
            ends: u64::MAX,
            owners: vec![None; 4096],
            free: (0..4096).rev().collect(),
            writes: false,
            log: Vec::new(),
        }
    }

    pub fn change(&mut self, change: Change<'_>) {
        self.engine.handle_change(Instant::from_nanos(self.now), change).unwrap();
    }

    /// Runs up to `ms` milliseconds of virtual time.
    pub fn run_until_ms(&mut self, ms: u64) {
        let end = ms * 1_000_000;
        loop {
            self.offer();
            self.pump();
            self.note_backlogs();
            let next = self.ends.min(self.next_switch()).min(self.next_timeout());
            if next > end {
                break;
            }
            self.serve_to(next);
            self.engine.handle_timeout(Instant::from_nanos(self.now));
            self.engine.assert_conserved();
        }
        self.serve_to(end);
        self.engine.handle_timeout(Instant::from_nanos(end));
    }

    pub fn charged_ms(&self, stream: u32) -> f64 {
        self.engine.stream(StreamId(stream)).unwrap().counters().charged.as_secs_f64() * 1e3
    }

    /// True device time that the stream got, in ns.
    pub fn service_ns(&self, stream: u32) -> u64 {
        self.tenants[stream as usize].service
    }

    /// Over all windows in which the stream was backlogged throughout: the most that it got less
    /// than its reservation, in ns.
    pub fn worst_lag_ns(&self, stream: u32) -> i64 {
        self.tenants[stream as usize].worst_lag
    }

    /// The promise to a stream that was not kept, by its contract alone.
    pub fn broken(&self) -> Option<String> {
        let contract = |tenant: &Tenant| {
            let percent = tenant.load.reserve_percent;
            Contract::reserving(Share::from_percent(percent).unwrap())
        };
        let Config { piece_time_max, period, .. } = config(self.depth);
        let mut terms = Terms::new(self.depth, piece_time_max, promise::SLICE, period);
        self.tenants.iter().for_each(|tenant| terms.add(&contract(tenant), None));
        self.tenants.iter().enumerate().find_map(|(index, tenant)| {
            let bound = terms.bound(&contract(tenant))?;
            let allowed = bound.as_tokens() / 100 * i64::from(tenant.load.reserve_percent);
            let lag = tenant.worst_lag;
            let told = || format!("stream {index}: {:?} lags {lag} ns of {allowed}", tenant.load);
            (lag > allowed).then(told)
        })
    }

    fn wants(&self, index: usize) -> bool {
        let load = self.tenants[index].load;
        load.off_ms == 0 || self.now / 1_000_000 % (load.on_ms + load.off_ms) < load.on_ms
    }

    fn next_switch(&self) -> u64 {
        let switch = |load: &Load| {
            let (period, on) = ((load.on_ms + load.off_ms) * 1_000_000, load.on_ms * 1_000_000);
            let phase = self.now % period;
            self.now - phase + if phase < on { on } else { period }
        };
        let loads = self.tenants.iter().map(|tenant| tenant.load);
        loads.filter(|load| load.off_ms > 0).map(|load| switch(&load)).min().unwrap_or(u64::MAX)
    }

    fn next_timeout(&self) -> u64 {
        let at = self.engine.poll_timeout().map_or(u64::MAX, Instant::as_nanos);
        at.max(self.now + 1)
    }

    fn offer(&mut self) {
        for index in 0..self.tenants.len() {
            while self.wants(index)
                && self.tenants[index].live < self.tenants[index].load.outstanding
            {
                let tenant = &mut self.tenants[index];
                tenant.live += 1;
                if tenant.load.sequential {
                    tenant.offset += 4096;
                } else {
                    tenant.offset = tenant.random.below(1 << 30) * 512;
                }
                let (id, stream) = (self.free.pop().unwrap(), StreamId(index as u32));
                self.owners[id as usize] = Some(stream);
                let request = Request {
                    id: RequestId(id),
                    stream,
                    kind: if self.writes && index % 2 == 1 { Kind::Write } else { Kind::Read },
                    offset: tenant.offset,
                    bytes: 4096,
                    fua: false,
                    class: None,
                    deadline: None,
                };
                self.engine.handle_arrival(Instant::from_nanos(self.now), request).unwrap();
            }
        }
    }

    fn pump(&mut self) {
        while let Some(dispatch) = self.engine.poll_dispatch(Instant::from_nanos(self.now)) {
            let stream = self.owners[dispatch.request.0 as usize].unwrap();
            let tenant = &mut self.tenants[stream.0 as usize];
            let (low, high) = if tenant.load.sequential { SEQUENTIAL_NS } else { RANDOM_NS };
            let mut service = tenant.random.between(low, high);
            if self.truthful {
                service = if tenant.load.sequential { 300_000 } else { 20_000_000 };
            }
            if self.device.is_empty() {
                self.ends = self.now + service;
            }
            self.log.push((self.now, stream.0));
            self.device.push_back((dispatch, stream, service));
        }
        assert!(self.device.len() <= self.depth as usize, "the depth holds");
    }

    /// Moves time on, crediting service to its streams and completing pieces that end.
    fn serve_to(&mut self, to: u64) {
        if let Some((_, stream, _)) = self.device.front() {
            let tenant = &mut self.tenants[stream.0 as usize];
            tenant.service += to - self.now;
        }
        self.now = to;
        self.measure_lags();
        if self.ends > to {
            return;
        }
        let (dispatch, stream, _) = self.device.pop_front().unwrap();
        self.ends = self.device.front().map_or(u64::MAX, |(_, _, service)| to + service);
        self.complete(dispatch.piece, stream);
    }

    fn complete(&mut self, piece: PieceId, stream: StreamId) {
        let now = Instant::from_nanos(self.now);
        let over = self.engine.handle_completion(now, piece, Outcome::Done);
        let over = over.expect("one piece a request");
        self.tenants[stream.0 as usize].live -= 1;
        self.owners[over.request.0 as usize] = None;
        self.free.push(over.request.0);
    }

    fn surplus(&self, index: usize) -> i64 {
        let tenant = &self.tenants[index];
        let reserved = self.now * u64::from(tenant.load.reserve_percent) / 100;
        let stream = self.engine.stream(StreamId(index as u32)).unwrap();
        // The time for which the device idles for a stream is time that the stream has.
        reserved as i64 - tenant.service as i64 - stream.counters().held.as_tokens()
    }

    fn note_backlogs(&mut self) {
        for index in 0..self.tenants.len() {
            let queued = self.engine.stream(StreamId(index as u32)).unwrap().queued() > 0;
            let surplus = self.surplus(index);
            let lowest = &mut self.tenants[index].lowest;
            *lowest = if queued { Some(lowest.unwrap_or(surplus).min(surplus)) } else { None };
        }
    }

    fn measure_lags(&mut self) {
        for index in 0..self.tenants.len() {
            let surplus = self.surplus(index);
            let tenant = &mut self.tenants[index];
            if let Some(lowest) = &mut tenant.lowest {
                tenant.worst_lag = tenant.worst_lag.max(surplus - *lowest);
                *lowest = (*lowest).min(surplus);
            }
        }
    }
}
