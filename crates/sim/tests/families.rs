//! Families on devices: who has what a parent reserves, and that others keep theirs.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

#[path = "rig/run.rs"]
mod run;

use disktime_config::Scheduling;
use disktime_core::{Contract, Duration, Instant, Share, StreamId};
use disktime_model::preset;
use disktime_sim::StreamPlan;
use disktime_workload::{Extent, Pace, Pattern, Source, Spec};

fn percent(percent: u32) -> Share {
    Share::from_percent(percent).unwrap()
}

/// A random reader in its own part of the device; idle if nothing is outstanding.
fn reader(name: &str, parent: Option<u32>, contract: Contract, outstanding: u32) -> StreamPlan {
    let place = u64::from(name.bytes().next().unwrap() - b'a') << 30;
    let spec = Spec::reads(Pattern::Random, Extent { start: place, end: place + (1 << 30) }, 4096);
    let think = Duration::from_secs(if outstanding == 0 { 3_600 } else { 0 });
    let pace = Pace::Closed { outstanding: outstanding.max(1), think };
    let start = Instant::ZERO + think;
    let traffic = Source::new(spec, pace, 1, name, start).unwrap().into();
    let (name, parent) = (name.to_owned(), parent.map(StreamId));
    StreamPlan { name, contract, base: 0, parent, extent: None, traffic }
}

fn reserving(share: u32) -> Contract {
    Contract::reserving(percent(share))
}

/// The part of the time that each stream was charged, in per cent.
fn shares((policy, device, depth, seconds): Run, streams: Vec<StreamPlan>) -> Vec<f64> {
    let cost_model = if policy == "disktime" { "learned" } else { "fixed" };
    let on = (preset::find(device).unwrap().build)(1);
    let outcome = run::run(Scheduling::new(policy, cost_model), on, depth, streams, seconds);
    assert_eq!(outcome.violations, [], "{policy}, {device}");
    let used = |it: &disktime_sim::Summary| it.counters.charged.as_secs_f64();
    outcome.streams.iter().map(|it| used(it) / seconds as f64 * 100.0).collect()
}

/// A policy, a device, its depth and for how many seconds.
type Run = (&'static str, &'static str, u32, u64);

const RUNS: [Run; 3] = [
    ("disktime", "deskstar-34gxp", 1, 60),
    ("disktime", "flash-generic", 16, 2),
    ("zygaria", "deskstar-34gxp", 1, 60),
];

fn near(shares: &[f64], expected: &[f64], what: Run) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 3.0, "{what:?}: {shares:?}, not {expected}");
    }
}

/// The children of a virtual disk of 60 % have nothing to do: it is served by all of its reservation beside
/// another one of 40 %.
#[test]
fn a_parent_whose_children_are_idle_has_all_that_it_reserves() {
    for what in RUNS {
        let streams = vec![
            reader("a", None, reserving(60), 32),
            reader("b", Some(0), reserving(30), 0),
            reader("c", Some(0), reserving(20), 0),
            reader("d", None, reserving(40), 32),
        ];
        near(&shares(what, streams), &[60.0, 0.0, 0.0, 40.0], what);
    }
}

/// A busy child has the part of its idle siblings and of its parent, before another virtual disk has it.
#[test]
fn a_child_has_what_its_idle_family_reserves() {
    for what in RUNS {
        let streams = vec![
            reader("a", None, reserving(60), 0),
            reader("b", Some(0), reserving(10), 32),
            reader("c", Some(0), reserving(20), 0),
            reader("d", None, reserving(40), 32),
        ];
        near(&shares(what, streams), &[0.0, 60.0, 0.0, 40.0], what);
    }
}

/// Busy siblings have their own reservations and halves of the rest of their parent's; another virtual disk
/// keeps its own.
#[test]
fn busy_siblings_share_what_their_parent_reserves() {
    for what in RUNS {
        let streams = vec![
            reader("a", None, reserving(60), 0),
            reader("b", Some(0), reserving(30), 32),
            reader("c", Some(0), reserving(10), 32),
            reader("d", None, reserving(40), 32),
        ];
        near(&shares(what, streams), &[0.0, 40.0, 20.0, 40.0], what);
    }
}

/// Ten busy children weigh as much as their parent, not ten times as much.
#[test]
fn a_family_weighs_what_its_parent_does() {
    for what in RUNS {
        let names = ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let children = names.map(|name| reader(name, Some(0), reserving(0), 4));
        let parent = reader("a", None, reserving(0), 0);
        let other = reader("l", None, reserving(0), 32);
        let streams = [parent].into_iter().chain(children).chain([other]).collect();
        let shares = shares(what, streams);
        let other = shares[11];
        assert!((other - 50.0).abs() < 4.0, "{what:?}: {shares:?}");
    }
}

/// Children together use no more than their parent may, though the device has time.
#[test]
fn a_parents_limit_holds_its_children_together() {
    for what in RUNS {
        let limited = Contract { limit: percent(30), ..reserving(30) };
        let streams = vec![
            reader("a", None, limited, 0),
            reader("b", Some(0), reserving(20), 32),
            reader("c", Some(0), reserving(0), 32),
        ];
        let shares = shares(what, streams);
        let both = shares[1] + shares[2];
        assert!((27.0..32.0).contains(&both), "{what:?}: {shares:?}");
        assert!(shares[1] > 19.0, "{what:?}: {shares:?}, 20 % are reserved");
    }
}
