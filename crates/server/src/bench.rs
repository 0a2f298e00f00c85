//! How fast the engine decides, on the clock that shards use.

use disktime_core::{
    Change, Config, Contract, Engine, Instant, Kind, Limits, Outcome, PieceId, Request, RequestId,
    Share, StreamId, StreamSpec,
};

use crate::clock;

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
    for policy in disktime_core::policy::REGISTRY {
        for vdisks in vdisks {
            progress(policy.name, *vdisks);
            let mut load = Load::new(policy.name, *vdisks)?;
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

/// An engine whose virtual disks always have work.
struct Load {
    engine: Engine,
    /// The piece at the device.
    piece: PieceId,
    idle: StreamId,
    next_offset: u64,
}

impl Load {
    fn new(policy: &'static str, vdisks: u32) -> Result<Self, Box<dyn std::error::Error>> {
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
    fn every_policy_is_measured() {
        let figures = super::sched(&[3], 0.0, |_, _| {}).unwrap();
        assert_eq!(figures.len(), disktime_core::policy::REGISTRY.len());
        assert!(
            figures.iter().all(|figure| figure.ns_per_decision > 0.0 && figure.ns_per_wake > 0.0)
        );
    }
}
