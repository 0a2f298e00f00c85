//! How fast the engine decides, on the clock that shards use.

use std::collections::VecDeque;

use disktime_core::policy::PolicyEntry;
use disktime_core::{
    Change, Config, Contract, Duration, Engine, Instant, Kind, Limits, Outcome, PieceId, Request,
    RequestId, Share, StreamId, StreamSpec,
};

use disktime_server::clock;

/// Requests that each virtual disk keeps alive: the one at the device or next to go, and a queue.
const BACKLOG: u32 = 4;
/// Decisions between two looks at the CPU's clock.
const BATCH: u32 = 10_000;

/// How fast one policy decides among so many virtual disks.
#[derive(Clone, Debug)]
pub struct SchedFigure {
    /// The policy's name.
    pub policy: &'static str,
    /// Virtual disks, each with a reservation, a weight and a backlog.
    pub vdisks: u32,
    /// CPU time in ns of an arrival, a dispatch and a completion, with a look at the clock.
    pub ns_per_decision: f64,
    /// CPU time in ns of a request's arrival at one idle virtual disk among the backlogged ones,
    /// and of its cancellation.
    pub ns_per_wake: f64,
}

/// Measures every policy with each number of virtual disks, for at least `seconds` of CPU time
/// each; `progress` is told before each.
///
/// # Errors
/// If the engine can't be made with so many virtual disks.
pub fn sched(
    vdisks: &[u32],
    seconds: f64,
    mut progress: impl FnMut(&str, u32),
) -> Result<Vec<SchedFigure>, Box<dyn std::error::Error>> {
    let mut figures = Vec::new();
    for policy in disktime_rivals::all() {
        for vdisks in vdisks {
            progress(policy.name, *vdisks);
            let mut load = Load::new(policy, *vdisks)?;
            let ns_per_decision = measure(seconds, || load.decide());
            let ns_per_wake = measure(seconds / 4.0, || load.wake_and_cancel());
            figures.push(SchedFigure {
                policy: policy.name,
                vdisks: *vdisks,
                ns_per_decision,
                ns_per_wake,
            });
        }
    }
    Ok(figures)
}

/// CPU time of one call in ns.
fn measure(seconds: f64, mut call: impl FnMut()) -> f64 {
    (0..BATCH).for_each(|_| call());
    let start = clock::thread_cpu_ns();
    let mut calls = 0u32;
    loop {
        (0..BATCH).for_each(|_| call());
        calls = calls.saturating_add(BATCH);
        #[expect(clippy::cast_precision_loss, reason = "a few seconds in ns")]
        let spent = (clock::thread_cpu_ns() - start) as f64;
        if spent >= seconds * 1e9 {
            return spent / f64::from(calls);
        }
    }
}

/// Pieces at the device where costs are learned.
const DEEP: u32 = 32;
/// Pieces of a window of 100 ms when windows are measured.
const WINDOW_PIECES: u32 = 32;

/// The time that a cost model takes within policy `disktime`, with 32 pieces at the device.
#[derive(Clone, Debug)]
pub struct CostFigure {
    /// The cost model's name.
    pub cost_model: &'static str,
    /// Virtual disks, each with a reservation, a weight and a backlog.
    pub vdisks: u32,
    /// CPU time in ns of an arrival, a dispatch and a completion.
    pub ns_per_decision: f64,
    /// CPU time in ns by which 32 decisions with a window's end among them are dearer than 32 without
    /// one.
    pub ns_per_window: f64,
}

/// Measures cost models `fixed` and `learned` with each number of virtual disks, for at least
/// `seconds` of CPU time each, in virtual time: a decision takes a microsecond of it, or so much that
/// a window ends after 32 of them. `progress` is told before each.
///
/// # Errors
/// If the engine can't be made with so many virtual disks.
pub fn costs(
    vdisks: &[u32],
    seconds: f64,
    mut progress: impl FnMut(&str, u32),
) -> Result<Vec<CostFigure>, Box<dyn std::error::Error>> {
    let mut figures = Vec::new();
    for vdisks in vdisks {
        for cost_model in ["fixed", "learned"] {
            progress(cost_model, *vdisks);
            let each = |step| -> Result<f64, Box<dyn std::error::Error>> {
                let mut load = DeepLoad::new(cost_model, *vdisks, step)?;
                Ok(measure(seconds / 2.0, || load.decide()))
            };
            let ns_per_decision = each(Duration::from_micros(1))?;
            let windows = each(Duration::from_nanos(100_000_000 / u64::from(WINDOW_PIECES)))?;
            let ns_per_window = (windows - ns_per_decision) * f64::from(WINDOW_PIECES);
            figures.push(CostFigure {
                cost_model,
                vdisks: *vdisks,
                ns_per_decision,
                ns_per_window,
            });
        }
    }
    Ok(figures)
}

/// A device that holds many pieces, in virtual time.
struct DeepLoad {
    engine: Engine,
    now: Instant,
    /// The time of a piece.
    step: Duration,
    /// At the device, the oldest first.
    pieces: VecDeque<PieceId>,
    next_offset: u64,
}

impl DeepLoad {
    fn new(
        cost_model: &'static str,
        vdisks: u32,
        step: Duration,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let limits = Limits {
            depth: DEEP,
            requests_max: vdisks * DEEP,
            streams_max: vdisks,
            ..Limits::default()
        };
        let mut engine = Engine::new(&Config { cost_model, limits, ..Config::default() })?;
        let reserve = Share::from_ppm(Share::PARTS / vdisks).ok_or("a part of the whole")?;
        for stream in 0..vdisks {
            let contract = Contract { weight: 1 + stream % 100, ..Contract::reserving(reserve) };
            let spec = StreamSpec { contract, ..StreamSpec::default() };
            engine.handle_change(Instant::ZERO, Change::AddStream(StreamId(stream), spec))?;
        }
        for id in 0..vdisks * DEEP {
            engine.handle_arrival(Instant::ZERO, request(id, id % vdisks, u64::from(id) << 20))?;
        }
        let pieces = VecDeque::new();
        let mut load = Self { engine, now: Instant::ZERO, step, pieces, next_offset: 0 };
        load.fill();
        Ok(load)
    }

    /// The oldest piece comes back, its request is asked anew, and all goes out that may.
    fn decide(&mut self) {
        self.now = self.now + self.step;
        let oldest = self.pieces.pop_front().expect("there always is one, by `fill`");
        let done = self.engine.handle_completion(self.now, oldest, Outcome::Done);
        let done = done.expect("requests go out whole");
        self.next_offset += 1 << 20;
        let next = request(done.request.0, done.stream.0, self.next_offset);
        self.engine.handle_arrival(self.now, next).expect("its place has just become free");
        self.fill();
    }

    fn fill(&mut self) {
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.pieces.push_back(dispatch.piece);
        }
        assert!(!self.pieces.is_empty(), "everyone has work, and nothing is at the device");
    }
}

/// An engine whose virtual disks always have work.
struct Load {
    engine: Engine,
    /// The piece at the device.
    piece: PieceId,
    idle: StreamId,
    next_offset: u64,
}

impl Load {
    fn new(policy: &'static PolicyEntry, vdisks: u32) -> Result<Self, Box<dyn std::error::Error>> {
        let requests_max = vdisks * BACKLOG + 1;
        let limits = Limits { requests_max, streams_max: vdisks + 1, ..Limits::default() };
        let mut engine = Engine::new(&Config { policy, limits, ..Config::default() })?;
        let now = clock::now();
        let reserve = Share::from_ppm(Share::PARTS / (vdisks + 1)).ok_or("a part of the whole")?;
        let idle = StreamId(vdisks);
        for stream in 0..=vdisks {
            let contract = Contract { weight: 1 + stream % 100, ..Contract::reserving(reserve) };
            let spec = StreamSpec { contract, ..StreamSpec::default() };
            engine.handle_change(now, Change::AddStream(StreamId(stream), spec))?;
        }
        for id in 0..vdisks * BACKLOG {
            engine.handle_arrival(now, request(id, id % vdisks, u64::from(id) << 20))?;
        }
        let piece =
            engine.poll_dispatch(clock::now()).ok_or("work waits and the device is free")?.piece;
        Ok(Self { engine, piece, idle, next_offset: 0 })
    }

    /// One completion, the arrival that follows it, and the dispatch of the next piece.
    fn decide(&mut self) {
        let now = clock::now();
        let done = self.engine.handle_completion(now, self.piece, Outcome::Done);
        let done = done.expect("requests go out whole");
        self.next_offset += 1 << 20;
        let next = request(done.request.0, done.stream.0, self.next_offset);
        self.engine.handle_arrival(now, next).expect("its place has just become free");
        self.piece = self.engine.poll_dispatch(now).expect("everyone has work").piece;
    }

    /// An idle virtual disk gets work, and gives it up.
    fn wake_and_cancel(&mut self) {
        let now: Instant = clock::now();
        let id = (self.idle.0) * BACKLOG;
        self.engine
            .handle_arrival(now, request(id, self.idle.0, 0))
            .expect("the last place is free");
        let _gone = self.engine.handle_cancel(now, RequestId(id));
    }
}

fn request(id: u32, stream: u32, offset: u64) -> Request {
    Request {
        id: RequestId(id),
        stream: StreamId(stream),
        kind: Kind::Read,
        offset,
        bytes: 4096,
        fua: false,
        class: None,
        deadline: None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_cost_models_are_measured_in_one_run() {
        let figures = super::costs(&[1, 3], 0.0, |_, _| {}).unwrap();
        let names: Vec<_> = figures.iter().map(|figure| figure.cost_model).collect();
        assert_eq!(names, ["fixed", "learned", "fixed", "learned"]);
        assert!(figures.iter().all(|figure| figure.ns_per_decision > 0.0));
    }

    #[test]
    fn every_policy_is_measured() {
        let figures = super::sched(&[3], 0.0, |_, _| {}).unwrap();
        assert_eq!(figures.len(), disktime_rivals::all().count());
        assert!(
            figures.iter().all(|figure| figure.ns_per_decision > 0.0 && figure.ns_per_wake > 0.0)
        );
    }
}
