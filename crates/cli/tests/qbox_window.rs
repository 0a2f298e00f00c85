//! Paper qbox, §4.7: the end of a window takes less than 10 µs. Figure `qbox-4.7` counts the work; this
//! test takes the time, so it is here, where there is a clock.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_papers::sim::core::{
    Change, Config, Contract, Engine, Instant, Kind, Limits, Outcome, Request, RequestId, Share,
    StreamId, StreamSpec,
};

const STREAMS: u32 = 4;
const DEPTH: u32 = 200;
/// Between completions; a window of 100 ms has 1000.
const STEP_NS: u64 = 100_000;

fn request(id: u32, turn: u64) -> Request {
    let stream = id % STREAMS;
    // Three streams go on, one jumps.
    let block = if stream == 0 { turn * 7_919 % 1_000_000_007 } else { turn };
    Request {
        id: RequestId(id),
        stream: StreamId(stream),
        kind: Kind::Read,
        offset: (u64::from(stream) << 42) + block * 4096,
        bytes: 4096,
        fua: false,
        class: None,
        deadline: None,
    }
}

/// The completion that ends a window does the window's work on top of its own: the median of many,
/// since anything may come between two looks at a clock.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that the work takes is what is tested")]
fn the_end_of_a_window_takes_less_than_ten_microseconds() {
    let limits = Limits { depth: DEPTH, depth_max: DEPTH, ..Limits::default() };
    let config = Config { policy: "qbox", limits, ..Config::default() };
    let mut engine = Engine::new(&config).unwrap();
    for stream in (0..STREAMS).map(StreamId) {
        let contract = Contract::reserving(Share::from_percent(25).unwrap());
        let spec = StreamSpec { contract, ..StreamSpec::default() };
        engine.handle_change(Instant::ZERO, Change::AddStream(stream, spec)).unwrap();
    }
    let mut at_device = std::collections::VecDeque::new();
    let mut took = Vec::new();
    for id in 0..DEPTH * 2 {
        engine.handle_arrival(Instant::ZERO, request(id, u64::from(id))).unwrap();
    }
    for turn in 1..200_000_u64 {
        let now = Instant::from_nanos(turn * STEP_NS);
        engine.handle_timeout(now);
        while let Some(dispatch) = engine.poll_dispatch(now) {
            at_device.push_back(dispatch);
        }
        let over = at_device.pop_front().unwrap();
        let next = Instant::from_nanos((turn + 1) * STEP_NS);
        let before = std::time::Instant::now();
        engine.handle_completion(next, over.piece, Outcome::Done);
        let time = before.elapsed();
        if engine.costs().is_some() && turn % 1000 == 0 {
            took.push(time);
        }
        engine.handle_arrival(next, request(over.request.0, u64::from(DEPTH) * 2 + turn)).unwrap();
    }
    took.sort();
    let median = took[took.len() / 2];
    assert!(median < std::time::Duration::from_micros(10), "{median:?}");
}
