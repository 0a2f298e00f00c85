//! Random scenarios: whatever is thrown together, promises hold.
//!
//! One number makes a scenario. A failure names it: `SWARM=<number> cargo test -p disktime-sim
//! --test swarm` repeats it alone.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_sim::core::cost::{self, CostParameters};
use disktime_sim::core::feedback::{self, FeedbackConfig};
use disktime_sim::core::{Class, Contract, Duration, Instant, Share, StreamId, policy};
use disktime_sim::model::preset;
use disktime_sim::workload::{Arrivals, Extent, Pace, Pattern, Source, Spec};
use disktime_sim::{Plan, StreamPlan, simulate};

/// Scenarios in one run of the suite.
const SCENARIOS: u64 = 60;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn below_32(&mut self, bound: u64) -> u32 {
        u32::try_from(self.below(bound)).unwrap()
    }
}

fn stream(random: &mut Random, index: usize, reserve_max: u32, capacity: u64) -> StreamPlan {
    let pattern = match random.below(4) {
        0 => Pattern::Sequential,
        1 => Pattern::Runs { length: 1 + random.below_32(500) },
        2 => Pattern::SemiSequential {
            random: 1 + random.below_32(9),
            sequential: 1 + random.below_32(90),
        },
        _ => Pattern::Random,
    };
    let bytes = 4096 << random.below(5);
    let start = random.below(capacity / 2) / bytes * bytes;
    let extent = Extent { start, end: start + (capacity / 4) / bytes * bytes };
    let spec =
        Spec { reads_permille: [1000, 700, 0][index % 3], ..Spec::reads(pattern, extent, bytes) };
    let pace = match random.below(3) {
        0 => Pace::Open(Arrivals::Poisson { mean: Duration::from_millis(5 + random.below(100)) }),
        _ => Pace::Closed {
            outstanding: 1 + random.below_32(16),
            think: Duration::from_millis(random.below(3) * 7),
        },
    };
    let reserve = Share::from_percent(random.below_32(u64::from(reserve_max) + 1)).unwrap();
    let limit = if random.below(4) == 0 {
        Share::from_percent(reserve_max.max(20))
    } else {
        Some(Share::FULL)
    };
    let name = format!("stream-{index}");
    StreamPlan {
        contract: Contract {
            class: if index == 1 { Class::SoftRealTime } else { Class::BestEffort },
            limit: limit.unwrap(),
            weight: 1 + random.below_32(1000),
            ..Contract::reserving(reserve)
        },
        base: 0,
        extent: None,
        traffic: Source::new(spec, pace, random.0, &name, Instant::ZERO).unwrap().into(),
        name,
    }
}

fn plan(number: u64) -> Plan {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.below(2);
    let presets = ["deskstar-34gxp", "nearline-7200", "st318437lw"];
    let device =
        (preset::find(presets[usize::try_from(random.below(3)).unwrap()]).unwrap().build)(number);
    let streams = 1 + usize::try_from(random.below(6)).unwrap();
    let reserve_max = 100 / u32::try_from(streams).unwrap();
    let capacity = device.capacity_bytes();
    let policies = policy::REGISTRY;
    let policy = policies[usize::try_from(random.below(policies.len() as u64)).unwrap()].name;
    let depth = if device.queue_depth() > 1 { 1 << random.below(6) } else { 1 };
    let controllers = feedback::REGISTRY;
    let controller = &controllers[usize::try_from(random.below(controllers.len() as u64)).unwrap()];
    let streams: Vec<_> =
        (0..streams).map(|index| stream(&mut random, index, reserve_max, capacity)).collect();
    // Reports at any time, true or not.
    let mut at = 0;
    let reports = std::iter::from_fn(|| {
        at += random.below(3_000);
        let id = random.below_32(streams.len() as u64);
        (at < 15_000).then_some((Instant::ZERO + Duration::from_millis(at), StreamId(id)))
    });
    let reports = reports.collect();
    Plan {
        policy: policy.to_owned(),
        cost_model: cost::usual(policy, depth).to_owned(),
        cost: CostParameters::default(),
        nominal_iops: 60,
        feedback: FeedbackConfig { controller: controller.name, ..FeedbackConfig::default() },
        reports,
        depth,
        streams,
        device,
        profile: None,
        changes: Vec::new(),
        duration: Duration::from_secs(15),
        window: Duration::from_secs(1),
        decisions: None,
    }
}

#[test]
fn promises_hold_in_random_scenarios() {
    let alone = std::env::var("SWARM").ok().map(|number| number.parse::<u64>().unwrap());
    let numbers = alone.map_or(0..SCENARIOS, |number| number..number + 1);
    for number in numbers {
        let plan = plan(number);
        let about = format!("SWARM={number}: {} with {} streams", plan.policy, plan.streams.len());
        let outcome = simulate(plan).unwrap();
        assert!(outcome.violations.is_empty(), "{about}: {:?}", outcome.violations);
    }
}
