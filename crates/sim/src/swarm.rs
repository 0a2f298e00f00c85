//! Random plans: devices, policies, depths, contracts and loads thrown together. One number makes a
//! plan.

use disktime_config::Scheduling;
use disktime_core::cost::{self, CostParameters};
use disktime_core::feedback::FeedbackConfig;
use disktime_core::policy;
use disktime_core::{Class, Contract, Duration, Instant, Share, StreamId};
use disktime_model::preset;
use disktime_workload::{Arrivals, Extent, Pace, Pattern, Source, Spec};

use crate::plan::{Plan, StreamPlan};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn below_32(&mut self, bound: u64) -> u32 {
        u32::try_from(self.below(bound)).expect("bounds are small")
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("a list's length fits")
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
    let reserve = Share::from_percent(random.below_32(u64::from(reserve_max) + 1));
    let limit = if random.below(4) == 0 {
        Share::from_percent(reserve_max.max(20))
    } else {
        Some(Share::FULL)
    };
    let name = format!("stream-{index}");
    StreamPlan {
        contract: Contract {
            class: if index == 1 { Class::SoftRealTime } else { Class::BestEffort },
            limit: limit.expect("at most 100 %"),
            weight: 1 + random.below_32(1000),
            ..Contract::reserving(reserve.expect("at most 100 %"))
        },
        base: 0,
        parent: None,
        extent: None,
        traffic: Source::new(spec, pace, random.0, &name, Instant::ZERO)
            .expect("the draws are in range")
            .into(),
        name,
    }
}

/// The plan of that number: 15 s of up to six streams.
///
/// # Panics
/// Never: every number makes a plan.
#[must_use]
pub fn plan(number: u64) -> Plan {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.below(2);
    let presets = ["deskstar-34gxp", "nearline-7200", "st318437lw"];
    let preset = preset::find(presets[random.index(presets.len())]).expect("a preset's name");
    let device = (preset.build)(number);
    let streams = 1 + random.index(6);
    let reserve_max = 100 / u32::try_from(streams).expect("six at most");
    let capacity = device.capacity_bytes();
    let rivals = disktime_rivals::REGISTRY;
    let policies: Vec<_> = policy::REGISTRY.iter().chain(rivals).collect();
    let policy = policies[random.index(policies.len())].name;
    let depth = if device.queue_depth() > 1 { 1 << random.below(6) } else { 1 };
    let mut controllers: Vec<_> = disktime_rivals::controllers().collect();
    // Seeds of blessed scenarios drew `fixed` as the last one.
    controllers.sort_by_key(|entry| entry.name == "fixed");
    let controller = controllers[random.index(controllers.len())];
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
        scheduling: Scheduling {
            feedback: FeedbackConfig { controller, ..FeedbackConfig::default() },
            ..Scheduling::new(policy, cost::usual(policy))
        },
        cost: CostParameters::default(),
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
