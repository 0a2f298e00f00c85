//! The engine's paths, to be counted: `paths PATH TIMES` takes a path so often and prints nothing.
//! `cargo xtask bench instructions` runs it under valgrind and compares the instructions of one time with
//! `xtask/instructions.txt`. Without words it prints the names of paths.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that has no input but its own"
)]

use std::collections::VecDeque;

use disktime_core::{
    Cancel, Change, Config, Contract, Duration, Engine, Instant, Kind, Limits, Outcome, PieceId,
    Request, RequestId, Share, StreamId, StreamSpec, policy,
};

/// Requests alive of each stream.
const BACKLOG: u32 = 40;

/// A path: the policy, the number of streams, and how many pieces the device holds.
struct Path {
    name: &'static str,
    policy: &'static str,
    streams: u32,
    depth: u32,
    /// Idle streams beside them.
    idle: u32,
    step: Step,
}

/// A path does this once.
#[derive(Clone, Copy)]
enum Step {
    /// A piece completes, the next request arrives, and a piece is dispatched.
    Decide,
    /// An idle stream's request arrives and is cancelled.
    Wake,
    /// An idle stream goes, and another comes.
    Replace,
}

const PATHS: [Path; 8] = [
    Path {
        name: "one/disktime",
        policy: "disktime",
        streams: 10,
        depth: 1,
        idle: 1,
        step: Step::Decide,
    },
    Path {
        name: "one/zygaria",
        policy: "zygaria",
        streams: 10,
        depth: 1,
        idle: 1,
        step: Step::Decide,
    },
    Path {
        name: "alone/disktime",
        policy: "disktime",
        streams: 1,
        depth: 32,
        idle: 1,
        step: Step::Decide,
    },
    Path {
        name: "deep/disktime",
        policy: "disktime",
        streams: 10,
        depth: 32,
        idle: 1,
        step: Step::Decide,
    },
    Path {
        name: "deep/zygaria",
        policy: "zygaria",
        streams: 10,
        depth: 32,
        idle: 1,
        step: Step::Decide,
    },
    Path {
        name: "many/zygaria",
        policy: "zygaria",
        streams: 500,
        depth: 32,
        idle: 1,
        step: Step::Decide,
    },
    Path {
        name: "wake/disktime",
        policy: "disktime",
        streams: 10,
        depth: 32,
        idle: 1,
        step: Step::Wake,
    },
    Path {
        name: "replace/disktime",
        policy: "disktime",
        streams: 1,
        depth: 32,
        idle: 10_000,
        step: Step::Replace,
    },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [name, times] = &words[..] else {
        PATHS.iter().for_each(|path| println!("{}", path.name));
        return;
    };
    let path = PATHS.iter().find(|path| path.name == name).expect("a path's name");
    let mut load = Load::new(path);
    for _ in 0..times.parse::<u32>().expect("a number of times") {
        match path.step {
            Step::Decide => load.decide(),
            Step::Wake => load.wake_and_cancel(),
            Step::Replace => load.replace_idle(),
        }
    }
}

struct Load {
    engine: Engine,
    now: Instant,
    /// At the device, the oldest first.
    pieces: VecDeque<PieceId>,
    next_offset: u64,
    idle: StreamId,
    reserve: Share,
}

impl Load {
    fn new(path: &Path) -> Self {
        let limits = Limits {
            depth: path.depth,
            requests_max: (path.streams + 1) * BACKLOG,
            streams_max: path.streams + path.idle,
            ..Limits::default()
        };
        let policy = policy::find(path.policy).unwrap();
        let cost_model = disktime_core::cost::usual(path.policy);
        let config = Config { policy, cost_model, limits, ..Config::default() };
        let mut engine = Engine::new(&config).unwrap();
        let reserve = Share::from_ppm(Share::PARTS / (path.streams + path.idle)).unwrap();
        for stream in 0..path.streams + path.idle {
            let spec = spec(stream, reserve);
            engine.handle_change(Instant::ZERO, Change::AddStream(StreamId(stream), spec)).unwrap();
        }
        for id in 0..path.streams * BACKLOG {
            let request = request(id, id % path.streams, u64::from(id) << 20);
            engine.handle_arrival(Instant::ZERO, request).unwrap();
        }
        let idle = StreamId(path.streams);
        let (now, pieces) = (Instant::ZERO, VecDeque::new());
        let mut load = Self { engine, now, pieces, next_offset: 0, idle, reserve };
        load.fill();
        load
    }

    fn decide(&mut self) {
        self.now = self.now + Duration::from_micros(20);
        let oldest = self.pieces.pop_front().expect("there always is one, by `fill`");
        let done = self.engine.handle_completion(self.now, oldest, Outcome::Done).unwrap();
        self.next_offset += 1 << 20;
        let next = request(done.request.0, done.stream.0, self.next_offset);
        self.engine.handle_arrival(self.now, next).unwrap();
        self.fill();
    }

    fn wake_and_cancel(&mut self) {
        self.now = self.now + Duration::from_micros(20);
        let id = self.idle.0 * BACKLOG;
        self.engine.handle_arrival(self.now, request(id, self.idle.0, 0)).unwrap();
        assert_eq!(self.engine.handle_cancel(self.now, RequestId(id)), Cancel::Gone);
    }

    fn replace_idle(&mut self) {
        self.now = self.now + Duration::from_micros(20);
        self.engine.handle_change(self.now, Change::RemoveStream(self.idle)).unwrap();
        let spec = spec(self.idle.0, self.reserve);
        self.engine.handle_change(self.now, Change::AddStream(self.idle, spec)).unwrap();
    }

    fn fill(&mut self) {
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            self.pieces.push_back(dispatch.piece);
        }
        assert!(!self.pieces.is_empty(), "everyone has work, and nothing is at the device");
    }
}

fn spec(stream: u32, reserve: Share) -> StreamSpec {
    let contract = Contract { weight: 1 + stream % 100, ..Contract::reserving(reserve) };
    StreamSpec { contract, ..StreamSpec::default() }
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
