//! Shaping for soft real time under policies that name requests: `elevator` orders them across streams.
#![allow(clippy::unwrap_used, reason = "the tests choose policies that exist")]

#[path = "../../core/tests/rig/mod.rs"]
mod rig;
mod shaped;

use disktime_core::Contract;
use disktime_core::feedback::FeedbackConfig;
use disktime_rivals::find;
use rig::{SECOND, contract};
use shaped::{World, shaped, soft};

#[test]
fn best_effort_keeps_its_least_exactly_whatever_a_token_is() {
    for name in ["fifo", "elevator"] {
        shaped::keeps_the_least(find(name).unwrap());
    }
}

#[test]
fn weights_divide_what_best_effort_has() {
    let heavy = Contract { weight: 300, ..contract(0, 100) };
    let config = FeedbackConfig { rate_start: 40, ..shaped("fixed") };
    let mut world =
        World::new(config, find("elevator").unwrap(), &[soft(), heavy, contract(0, 100)]);
    world.run(100 * SECOND);
    assert!((2_950..3_050).contains(&world.done[1]), "{:?}", world.done);
    assert!((960..1_040).contains(&world.done[2]), "{:?}", world.done);
}

#[test]
fn reads_and_writes_pass_apart() {
    let contracts = [soft(), contract(0, 100), contract(0, 100)];
    let config = FeedbackConfig { rate_start: 20, ..shaped("fixed") };
    let mut world = World::new(config, find("elevator").unwrap(), &contracts);
    world.loads[2].1 = true;
    world.run(100 * SECOND);
    for stream in [1, 2] {
        assert!((1_980..=2_020).contains(&world.done[stream]), "{:?}", world.done);
    }
}
