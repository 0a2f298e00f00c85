//! The longest time without a completion, window by window.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant};
use disktime_model::exponential::{Exponential, ExponentialSpec, Service};
use disktime_model::preset;
use disktime_sim::{Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

/// Asks in turns, from a start on until a stop.
fn stream(name: &str, start_ms: u64, stop_ms: u64) -> StreamPlan {
    let spec = Spec::reads(Pattern::Sequential, Extent { start: 0, end: 1 << 30 }, 4096);
    let pace = Pace::Closed { outstanding: 1, think: Duration::ZERO };
    let start = Duration::from_millis(start_ms);
    let phase = Phase { start, stop: Some(Duration::from_millis(stop_ms)), spec, pace };
    StreamPlan {
        name: name.to_owned(),
        contract: Contract::default(),
        base: 0,
        parent: None,
        extent: None,
        traffic: Phases::new(vec![phase], 1, name, Instant::ZERO).unwrap().into(),
    }
}

#[test]
fn gaps_reach_over_windows_and_last_until_the_end() {
    let mean = Duration::from_millis(10);
    let spec = ExponentialSpec { service: Service::Constant, ..preset::exponential(mean) };
    let plan = Plan {
        device: Box::new(Exponential::new(spec, 1)),
        profile: None,
        scheduling: Scheduling::new("fifo", "fixed"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams: vec![stream("all along", 0, 60_000), stream("for a while", 2_500, 4_000)],
        changes: Vec::new(),
        duration: Duration::from_secs(6),
        window: Duration::from_secs(1),
        decisions: None,
    };
    let outcome = simulate(plan).unwrap();
    let gaps_ms = |stream: usize| {
        let own = outcome.windows.iter().skip(stream).step_by(2);
        own.map(|window| window.gap_max.as_nanos() / 1_000_000).collect::<Vec<_>>()
    };
    // Alone each takes 10 ms; beside the other every second turn.
    assert_eq!(gaps_ms(0), [10, 10, 20, 20, 20, 10]);
    // Its first takes the turn after one of the other's that began at 2.5 s; its last ends at 4 s.
    assert_eq!(gaps_ms(1), [1000, 2000, 2520, 20, 1000, 2000]);
}
