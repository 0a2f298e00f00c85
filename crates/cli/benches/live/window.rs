//! Paper qbox, §4.7: in total the end of a window takes less than 10 µs. Figure `qbox-4.7` has no
//! clock and shows intersections; this case takes the time of a thread's processor.
//!
//! The paper's work is a fixed number of intersections, for a number of streams that "is expected to be
//! low"; its figures have up to four. Policy `qbox` also works every deadline out again when its estimates
//! have moved, so that its time grows with the streams: the bound is checked with four, and the
//! others tell where it ends.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use disktime_core::{
    Change, Config, Contract, Engine, Instant, Kind, Limits, Outcome, Request, RequestId, Share,
    StreamId, StreamSpec,
};
use disktime_server::clock::thread_cpu_ns;

use crate::Found;

/// The paper's bound.
const MEDIAN_MAX: Duration = Duration::from_micros(10);
/// As many as the paper's figures have at most: the case that is checked.
const STREAMS: u32 = 4;
/// How the time grows.
const MORE_STREAMS: [u32; 4] = [16, 64, 256, 1024];
const DEPTH: u32 = 200;
/// Between completions; a window of 100 ms has 1000.
const STEP_NS: u64 = 100_000;
const STEPS: u64 = 1000;
const WINDOWS: u64 = 100;

fn request(id: u32, streams: u32, turn: u64) -> Request {
    let stream = id % streams;
    // Three of four streams go on, one jumps.
    let block = if stream.is_multiple_of(4) { turn * 7_919 % 1_000_000_007 } else { turn };
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

pub(crate) fn run() -> anyhow::Result<Found> {
    let paper = median(STREAMS)?;
    let mut figure = format!(
        "{paper:?} in the median of {WINDOWS} windows with {STREAMS} streams, at most {MEDIAN_MAX:?}"
    );
    for streams in MORE_STREAMS {
        figure += &format!("; {:?} with {streams}", median(streams)?);
    }
    let missed = if paper < MEDIAN_MAX { Vec::new() } else { vec![figure.clone()] };
    Ok(Found::of(&[figure], &missed))
}

/// The completion that ends a window does the window's work on top of its own: the median of many,
/// since anything may come between two looks at a clock.
fn median(streams: u32) -> anyhow::Result<Duration> {
    let limits = Limits { depth: DEPTH, depth_max: DEPTH, ..Limits::default() };
    let config = Config { policy: disktime_rivals::find("qbox")?, limits, ..Config::default() };
    let mut engine = Engine::new(&config)?;
    for stream in (0..streams).map(StreamId) {
        let share = Share::from_ppm(Share::PARTS / streams).context("a part is a share")?;
        let spec = StreamSpec { contract: Contract::reserving(share), ..StreamSpec::default() };
        engine.handle_change(Instant::ZERO, Change::AddStream(stream, spec))?;
    }
    let requests = DEPTH + 2 * streams.max(DEPTH);
    for id in 0..requests {
        engine.handle_arrival(Instant::ZERO, request(id, streams, u64::from(id)))?;
    }
    let (mut at_device, mut took) = (VecDeque::new(), Vec::new());
    for turn in 1..=WINDOWS * STEPS {
        let now = Instant::from_nanos(turn * STEP_NS);
        engine.handle_timeout(now);
        while let Some(dispatch) = engine.poll_dispatch(now) {
            at_device.push_back(dispatch);
        }
        let over = at_device.pop_front().context("the device is busy")?;
        let next = Instant::from_nanos((turn + 1) * STEP_NS);
        let before = thread_cpu_ns();
        engine.handle_completion(next, over.piece, Outcome::Done);
        let time = Duration::from_nanos(thread_cpu_ns() - before);
        if turn % STEPS == 0 {
            took.push(time);
        }
        let again = request(over.request.0, streams, u64::from(requests) + turn);
        engine.handle_arrival(next, again)?;
    }
    took.sort();
    Ok(took[took.len() / 2])
}
