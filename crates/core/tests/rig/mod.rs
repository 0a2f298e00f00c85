//! An engine worked by hand: each step says when it happens, and every sum is checked after it.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part of the rig")]
#![allow(clippy::unwrap_used, reason = "the tests choose ids, streams and numbers that exist")]

use disktime_core::cost::{CostModel, PieceShape};
use disktime_core::policy::{self, Policy};
use disktime_core::{
    Change, Completion, Config, Contract, DeviceTime, Dispatch, Duration, Engine, Event, Instant,
    Kind, Limits, Outcome, PieceId, Request, RequestId, Share, StreamId, StreamSpec, StreamView,
};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

pub fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

pub fn percent(percent: u32) -> Share {
    Share::from_percent(percent).unwrap()
}

/// A contract by its reservation and limit.
pub fn contract(reserve: u32, limit: u32) -> Contract {
    Contract { limit: percent(limit), ..Contract::reserving(percent(reserve)) }
}

/// A read of `bytes` somewhere of its own.
pub fn read(id: u32, stream: u32, bytes: u64) -> Request {
    Request {
        id: RequestId(id),
        stream: StreamId(stream),
        kind: Kind::Read,
        offset: u64::from(id) << 30,
        bytes,
        fua: false,
        class: None,
        deadline: None,
    }
}

/// A piece costs 1 µs a byte: tests name costs by lengths.
pub struct PerByte;

impl CostModel for PerByte {
    fn estimate(&mut self, piece: &PieceShape) -> Duration {
        Duration::from_micros(piece.bytes)
    }
}

pub struct Rig {
    pub engine: Engine,
}

impl Rig {
    /// Zygaria over [`PerByte`].
    pub fn new(depth: u32) -> Self {
        Self::under(depth, (policy::find("zygaria").unwrap().build)())
    }

    pub fn under(depth: u32, policy: Box<dyn Policy>) -> Self {
        let limits = Limits { depth, ..Limits::default() };
        let config = Config { limits, ..Config::default() };
        Self { engine: Engine::with_policy(&config, policy, Box::new(PerByte)) }
    }

    pub fn add(&mut self, stream: u32, contract: Contract) {
        let spec = StreamSpec { contract, ..StreamSpec::default() };
        self.change(0, Change::AddStream(StreamId(stream), spec));
    }

    pub fn change(&mut self, now: u64, change: Change<'_>) {
        self.engine.handle_change(at(now), change).unwrap();
        self.check();
    }

    pub fn request(&mut self, now: u64, request: Request) {
        self.engine.handle_arrival(at(now), request).unwrap();
        self.check();
    }

    /// A read of that length, which is its cost in µs, arrives.
    pub fn ask(&mut self, now: u64, id: u32, stream: u32, bytes: u64) {
        self.request(now, read(id, stream, bytes));
    }

    /// All that may go out now.
    pub fn go(&mut self, now: u64) -> Vec<Dispatch> {
        let all = core::iter::from_fn(|| self.engine.poll_dispatch(at(now))).collect();
        self.check();
        all
    }

    /// The one piece that may go out now.
    pub fn go_one(&mut self, now: u64) -> Dispatch {
        let all = self.go(now);
        assert_eq!(all.len(), 1, "one piece goes out: {all:?}");
        all[0]
    }

    pub fn done(&mut self, now: u64, piece: PieceId) -> Option<Completion> {
        let over = self.engine.handle_completion(at(now), piece, Outcome::Done);
        self.check();
        over
    }

    pub fn timeout(&mut self, now: u64) {
        self.engine.handle_timeout(at(now));
        self.check();
    }

    pub fn view(&self, stream: u32) -> StreamView<'_> {
        self.engine.stream(StreamId(stream)).unwrap()
    }

    pub fn charged(&self, stream: u32) -> u64 {
        self.view(stream).counters().charged.as_nanos()
    }

    pub fn time(&self) -> DeviceTime {
        self.engine.device_time()
    }

    pub fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.engine.poll_event()).collect()
    }

    fn check(&self) {
        self.engine.assert_conserved();
        let DeviceTime { busy, spare, open, held, charged } = self.time();
        let [busy, spare, open, held] = [busy, spare, open, held].map(Duration::as_nanos);
        assert_eq!(charged.as_nanos(), busy - spare - open + held);
    }
}
