//! A goal, a profile, a reservation, and the device: what was planned is what is got, beside a hog.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(clippy::print_stdout, reason = "how near it came is worth reading")]

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Access, Contract, Duration, Instant, Share};
use disktime_model::{Device, preset};
use disktime_plan::goal::{self, Demand, Goal, Ground};
use disktime_profiler::{Costs, Priced, PricerOptions};
use disktime_sim::{Plan, StreamPlan, measure, price, simulate};
use disktime_workload::{Extent, Pace, Pattern, Source, Spec};

const SECONDS: u64 = 120;

fn device(seed: u64) -> Box<dyn Device> {
    (preset::find("deskstar-34gxp").unwrap().build)(seed)
}

fn priced() -> Priced {
    let budget = Duration::from_secs(45);
    let options =
        PricerOptions { size: 0, writes: false, depth_max: 1, budget, thorough: false, seed: 1 };
    price(device(1), options).unwrap()
}

fn stream(name: &str, reserve: Share, pattern: Pattern, bytes: u64) -> StreamPlan {
    let spec = Spec::reads(pattern, Extent { start: 0, end: 19 << 30 }, bytes);
    let pace = Pace::Closed { outstanding: 8, think: Duration::ZERO };
    StreamPlan {
        name: name.to_owned(),
        contract: Contract::reserving(reserve),
        base: 0,
        parent: None,
        extent: None,
        traffic: Source::new(spec, pace, 1, name, Instant::ZERO).unwrap().into(),
    }
}

/// Requests per second that a stream gets that reserves what its goal takes, beside one that
/// reserves and asks for all the rest.
fn got(costs: Costs, rate: u64, run: u32, hog: Pattern) -> f64 {
    let wanted =
        Goal { demand: Some(Demand::Requests(rate)), bound: None, request: 4096, run: run.into() };
    let ground = Ground { costs, stay: goal::STAY, ahead: Duration::ZERO };
    let share = goal::needs(&wanted, &ground).unwrap().share().unwrap();
    let rest = Share::from_ppm(Share::PARTS - share.ppm()).unwrap();
    let pattern = match run {
        1 => Pattern::Random,
        length => Pattern::Runs { length },
    };
    let streams = vec![stream("goal", share, pattern, 4096), stream("hog", rest, hog, 1 << 20)];
    let plan = Plan {
        device: device(7),
        profile: None,
        scheduling: Scheduling::new("disktime", "fixed"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams,
        changes: Vec::new(),
        duration: Duration::from_secs(SECONDS),
        window: Duration::from_secs(1),
        decisions: None,
    };
    let outcome = simulate(plan).unwrap();
    let got = outcome.streams[0].counters.completed as f64 / SECONDS as f64;
    println!("{rate} requests/s in runs of {run}: {share}, {got:.1} requests/s");
    got
}

/// By QBox's batches at 95 %: no less than was asked for, and not much more.
#[test]
fn a_goal_by_batches_is_reached() {
    let Priced { prices, speeds, .. } = priced();
    let confidence = Share::from_percent(95);
    let costs = speeds.costs(&prices, Access::Read, 4096, 1, confidence);
    for (rate, run) in [(10, 1), (30, 1), (200, 64), (800, 64), (1_500, 1_024)] {
        for hog in [Pattern::Random, Pattern::Sequential] {
            let got = got(costs, rate, run, hog) / rate as f64;
            assert!((0.98..1.7).contains(&got), "{rate} in runs of {run}: {got}");
        }
    }
}

/// By zygaria's formula: half the longest seek is less than the mean one, since seeks grow with the
/// root of the distance at first. So random requests get about an eighth less than they were to.
#[test]
fn a_goal_by_mechanics_is_reached() {
    let found = measure(device(1), "deskstar-34gxp", 1).unwrap();
    let costs = found.mechanics(Access::Read, 4096).unwrap();
    println!("{costs:?}");
    for (rate, run) in [(10, 1), (30, 1), (800, 64)] {
        let got = got(costs, rate, run, Pattern::Random) / rate as f64;
        assert!((0.85..1.3).contains(&got), "{rate} in runs of {run}: {got}");
    }
}
