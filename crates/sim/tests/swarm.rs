//! Random scenarios: whatever is thrown together, promises hold.
//!
//! One number makes a scenario. A failure names it: `SWARM=<number> cargo test -p disktime-sim
//! --test swarm` repeats it alone.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_sim::simulate;
use disktime_sim::swarm::plan;

/// Scenarios in one run of the suite.
const SCENARIOS: u64 = 60;

#[test]
fn promises_hold_in_random_scenarios() {
    let alone = std::env::var("SWARM").ok().map(|number| number.parse::<u64>().unwrap());
    let numbers = alone.map_or(0..SCENARIOS, |number| number..number + 1);
    for number in numbers {
        let plan = plan(number);
        let about = format!(
            "SWARM={number}: {} with {} streams",
            plan.scheduling.policy.name,
            plan.streams.len()
        );
        let outcome = simulate(plan).unwrap();
        assert!(outcome.violations.is_empty(), "{about}: {:?}", outcome.violations);
    }
}
