//! A device that becomes slower or faster: everybody has its share again soon.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::faulty::{Faults, Faulty, Step};
use disktime_model::preset;
use disktime_sim::{Plan, StreamPlan, simulate};
use disktime_workload::{Extent, Pace, Pattern, Source, Spec};

/// The change of speed, and the seconds that count: from ten after it on.
const STEP: u64 = 20;
const FROM: u64 = STEP + 10;
const UNTIL: u64 = FROM + 30;

/// Three unlike streams with unequal shares.
const PERCENT: [u32; 3] = [20, 30, 50];

fn stream(at: usize) -> StreamPlan {
    let (pattern, kib, outstanding, reads_permille) = [
        (Pattern::Random, 4, 4, 1000),
        (Pattern::Sequential, 128, 8, 1000),
        (Pattern::Random, 64, 2, 700),
    ][at];
    let start = (at as u64) << 30;
    let spec = Spec::reads(pattern, Extent { start, end: start + (1 << 30) }, kib << 10);
    let pace = Pace::Closed { outstanding, think: Duration::ZERO };
    let name = format!("stream {at}");
    let spec = Spec { reads_permille, ..spec };
    let traffic = Source::new(spec, pace, 1, &name, Instant::ZERO).unwrap().into();
    let contract = Contract::reserving(Share::from_percent(PERCENT[at]).unwrap());
    StreamPlan { name, contract, base: 0, parent: None, extent: None, traffic }
}

/// The requests of each of these streams in the seconds that count.
fn done(
    name: &str,
    depth: u32,
    (after, speed_permille): (u64, u32),
    streams: &[usize],
) -> Vec<u64> {
    let device = (preset::find(name).unwrap().build)(1);
    let step = Step { after: Duration::from_secs(after), speed_permille };
    let faults = Faults { step: Some(step), ..Faults::default() };
    let plan = Plan {
        device: Box::new(Faulty::new(device, Instant::ZERO, faults)),
        profile: None,
        scheduling: Scheduling::new("disktime", "learned"),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth,
        streams: streams.iter().map(|at| stream(*at)).collect(),
        changes: Vec::new(),
        duration: Duration::from_secs(UNTIL),
        window: Duration::from_secs(1),
        decisions: None,
    };
    let outcome = simulate(plan).unwrap();
    assert_eq!(outcome.violations, []);
    let of = |stream: usize| {
        let rows = outcome.windows.iter().filter(|row| row.stream.0 as usize == stream);
        let counted = rows.filter(|row| (FROM..UNTIL).contains(&u64::from(row.index)));
        counted.map(|row| row.requests).sum()
    };
    (0..streams.len()).map(of).collect()
}

/// The part of its due, share x throughput alone at the same speed, that each stream has.
fn kept(name: &str, depth: u32, speed: (u64, u32)) -> [f64; 3] {
    let shared = done(name, depth, speed, &[0, 1, 2]);
    [0, 1, 2].map(|at| {
        let alone = done(name, depth, speed, &[at])[0];
        shared[at] as f64 * 100.0 / (f64::from(PERCENT[at]) * alone as f64)
    })
}

/// In the half minute that begins ten seconds after its speed has halved or doubled everybody has .95 of its due, or
/// of what it has where the speed was always so. A guest once had no slice after its first, in which the device was
/// slower: on the faster one it paid twice, and had .6 of its due for good.
#[test]
fn everybody_has_its_share_ten_seconds_after_a_change_of_speed() {
    for (name, depth) in [("deskstar-34gxp", 1), ("nearline-7200", 8), ("nvme-970pro", 64)] {
        for speed_permille in [500, 2000] {
            let always = kept(name, depth, (0, speed_permille));
            let since = kept(name, depth, (STEP, speed_permille));
            let mut pairs = always.iter().zip(since);
            let lost = pairs.any(|(always, since)| since < 0.95 * always.min(1.0));
            assert!(!lost, "{name} x {speed_permille}: {always:.3?}, then {since:.3?}");
        }
    }
}
