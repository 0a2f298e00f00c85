//! The path from a request's arrival to its completion takes no memory from the system.
#![allow(unsafe_code, reason = "an allocator that counts is one")]
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use disktime_core::{Config, Engine, Limits, Outcome, cost, policy};
use rig::{at, contract, read};

/// Counts the calling thread's allocations: other tests have threads of their own.
struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator; the count is a thread's own and takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const STREAMS: u32 = 10;
const BACKLOG: u32 = 40;
const DECISIONS: u64 = 20_000;

/// Allocations in so many decisions, after as many that let tables grow to their size.
fn taken(policy_name: &str, depth: u32) -> u64 {
    let limits = Limits {
        depth,
        requests_max: STREAMS * BACKLOG,
        streams_max: STREAMS,
        ..Limits::default()
    };
    let policy = policy::find(policy_name).unwrap();
    let cost_model = cost::usual(policy_name);
    let config = Config { policy, cost_model, limits, ..Config::default() };
    let mut rig = rig::Rig { engine: Engine::new(&config).unwrap() };
    (0..STREAMS).for_each(|stream| rig.add(stream, contract(9, 100)));
    for id in 0..STREAMS * BACKLOG {
        rig.request(0, read(id, id % STREAMS, 4096));
    }
    let mut pieces = std::collections::VecDeque::with_capacity(64);
    let mut decide = |from: u64| {
        for turn in from..from + DECISIONS {
            let now = at(turn * 20_000);
            while let Some(dispatch) = rig.engine.poll_dispatch(now) {
                pieces.push_back(dispatch.piece);
            }
            let piece = pieces.pop_front().expect("everyone has work");
            let done = rig.engine.handle_completion(now, piece, Outcome::Done).unwrap();
            let next = read(done.request.0, done.stream.0, 4096);
            rig.engine.handle_arrival(now, next).unwrap();
            while rig.engine.poll_event().is_some() {}
        }
    };
    decide(1);
    let before = TAKEN.with(Cell::get);
    assert!(before > 0, "tables are made of memory, which is counted");
    decide(1 + DECISIONS);
    TAKEN.with(Cell::get) - before
}

#[test]
fn a_decision_takes_no_memory() {
    for policy in ["disktime", "zygaria"] {
        for depth in [1, 32] {
            assert_eq!(taken(policy, depth), 0, "{policy} at depth {depth}");
        }
    }
}
