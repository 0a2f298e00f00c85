//! The work of a window's end (§4.7), counted. `cargo xtask bench live --only window` times it.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use disktime_core::cost::{CostModel, PieceShape};
use disktime_core::{Change, Config, Contract, Engine, Kind, Limits, Outcome, StreamSpec};

use super::*;

/// Pieces at the device at once, and requests of each stream.
const DEPTH: u32 = 64;
const WINDOWS: u64 = 30;
/// A piece completes each 500 µs: 200 in a window.
const STEP_NS: u64 = 500_000;
const STEPS: u64 = WINDOW.as_nanos() / STEP_NS;

/// The ends of windows: how many, and the most work of one of the latter half of them.
#[derive(Default)]
struct Ends {
    windows: AtomicUsize,
    tried: AtomicUsize,
    deadlines: AtomicUsize,
}

/// The policy, which closes its windows here first.
struct Counted {
    qbox: QBox,
    ends: Arc<Ends>,
}

impl Counted {
    fn roll(&mut self, now: Instant) {
        let Some(Work { met, deadlines }) = self.qbox.roll(now) else { return };
        let before = self.ends.windows.fetch_add(1, Ordering::Relaxed);
        if before as u64 >= WINDOWS / 2 {
            self.ends.tried.fetch_max(met.tried as usize, Ordering::Relaxed);
            self.ends.deadlines.fetch_max(deadlines, Ordering::Relaxed);
        }
    }
}

impl Policy for Counted {
    fn arrived(&mut self, now: Instant, stream: StreamView<'_>, request: &Request) {
        self.qbox.arrived(now, stream, request);
    }

    fn pick(&mut self, now: Instant, streams: Streams<'_>) -> Pick {
        self.qbox.pick(now, streams)
    }

    fn dispatched(&mut self, now: Instant, stream: StreamView<'_>) {
        self.roll(now);
        self.qbox.dispatched(now, stream);
    }

    fn completed(&mut self, now: Instant, stream: StreamView<'_>, piece: &PieceDone) {
        self.roll(now);
        self.qbox.completed(now, stream, piece);
    }

    fn changed(&mut self, now: Instant, stream: StreamView<'_>) {
        self.qbox.changed(now, stream);
    }

    fn removed(&mut self, now: Instant, stream: StreamId) {
        self.qbox.removed(now, stream);
    }
}

struct Flat;

impl CostModel for Flat {
    fn estimate(&mut self, _piece: &PieceShape) -> Duration {
        Duration::from_millis(1)
    }
}

/// Three of four streams go on, one jumps.
fn request(id: u32, streams: u32, turn: u64) -> Request {
    let stream = id % streams;
    let block = if stream.is_multiple_of(4) { turn * 7_919 % 1_000_003 } else { turn };
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

/// So many streams, always backlogged: the most pairs of windows and deadlines of one window's end.
fn work(streams: u32) -> (usize, usize) {
    let ends = Arc::new(Ends::default());
    let policy = Counted { qbox: QBox::new(), ends: Arc::clone(&ends) };
    let limits = Limits { depth: DEPTH, depth_max: DEPTH, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let mut engine = Engine::with_policy(&config, Box::new(policy), Box::new(Flat));
    for stream in (0..streams).map(StreamId) {
        let share = Share::from_ppm(Share::PARTS / streams).expect("a part is a share");
        let spec = StreamSpec { contract: Contract::reserving(share), ..StreamSpec::default() };
        engine.handle_change(Instant::ZERO, Change::AddStream(stream, spec)).expect("it fits");
    }
    let requests = DEPTH + 2 * streams.max(DEPTH);
    for id in 0..requests {
        let request = request(id, streams, u64::from(id));
        engine.handle_arrival(Instant::ZERO, request).expect("there is room");
    }
    let mut at_device = VecDeque::new();
    for turn in 1..=WINDOWS * STEPS {
        let now = Instant::from_nanos(turn * STEP_NS);
        engine.handle_timeout(now);
        at_device.extend(core::iter::from_fn(|| engine.poll_dispatch(now)));
        let over = at_device.pop_front().expect("the device is busy");
        let next = now + Duration::from_nanos(STEP_NS);
        engine.handle_completion(next, over.piece, Outcome::Done);
        let again = request(over.request.0, streams, u64::from(requests) + turn);
        engine.handle_arrival(next, again).expect("one is done");
    }
    assert!(ends.windows.load(Ordering::Relaxed) as u64 >= WINDOWS - 1);
    let most = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    (most(&ends.tried), most(&ends.deadlines))
}

/// "At the end of each window we compute a fixed, small number of intersections" (§4.7): ten, whatever the
/// number of streams. Ours works each stream's deadline out again as well, once.
#[test]
fn a_windows_end_takes_ten_intersections_and_a_deadline_for_each_stream() {
    for streams in [1, 4, 16, 64, 256] {
        assert_eq!(work(streams), (10, streams as usize), "{streams} streams");
    }
}
