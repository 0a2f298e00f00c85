//! Paper qbox, §4.7: the end of a window takes less than 10 µs. Figure `qbox-4.7` counts the work; this
//! case takes the time.

use std::time::Duration;

use anyhow::Context;
use disktime_core::{
    Change, Config, Contract, Engine, Instant, Kind, Limits, Outcome, Request, RequestId, Share,
    StreamId, StreamSpec,
};

use crate::Found;
use crate::machine;

/// The paper's bound.
const MEDIAN_MAX: Duration = Duration::from_micros(10);
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
pub(crate) fn run() -> anyhow::Result<Found> {
    let limits = Limits { depth: DEPTH, depth_max: DEPTH, ..Limits::default() };
    let config = Config { policy: disktime_rivals::find("qbox")?, limits, ..Config::default() };
    let mut engine = Engine::new(&config)?;
    for stream in (0..STREAMS).map(StreamId) {
        let contract =
            Contract::reserving(Share::from_percent(25).context("a quarter is a share")?);
        let spec = StreamSpec { contract, ..StreamSpec::default() };
        engine.handle_change(Instant::ZERO, Change::AddStream(stream, spec))?;
    }
    let mut at_device = std::collections::VecDeque::new();
    let mut took = Vec::new();
    for id in 0..DEPTH * 2 {
        engine.handle_arrival(Instant::ZERO, request(id, u64::from(id)))?;
    }
    for turn in 1..200_000_u64 {
        let now = Instant::from_nanos(turn * STEP_NS);
        engine.handle_timeout(now);
        while let Some(dispatch) = engine.poll_dispatch(now) {
            at_device.push_back(dispatch);
        }
        let over = at_device.pop_front().context("the device is busy")?;
        let next = Instant::from_nanos((turn + 1) * STEP_NS);
        let before = machine::now();
        engine.handle_completion(next, over.piece, Outcome::Done);
        let time = machine::now() - before;
        if engine.costs().is_some() && turn % 1000 == 0 {
            took.push(time);
        }
        engine.handle_arrival(next, request(over.request.0, u64::from(DEPTH) * 2 + turn))?;
    }
    took.sort();
    let median = took[took.len() / 2];
    let figure = format!("{median:?} in the median of {}, at most {MEDIAN_MAX:?}", took.len());
    let missed = if median < MEDIAN_MAX { Vec::new() } else { vec![figure.clone()] };
    Ok(Found::of(&[figure], &missed))
}
