//! A device that becomes slower or faster: everybody has its share again soon.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use disktime_core::{Duration, Instant};
use disktime_model::faulty::{Faults, Faulty, Step};
use disktime_model::preset;
use disktime_workload::Pattern;

mod rig;

/// The change of speed, and the seconds that count: from ten after it on.
const STEP: u64 = 20;
const FROM: u64 = STEP + 10;
const UNTIL: u64 = FROM + 30;

/// Three unlike streams with unequal shares.
const PERCENT: [u32; 3] = [20, 30, 50];

const REQUESTS: [rig::Requests; 3] = [
    (Pattern::Random, 4, 1000, 4),
    (Pattern::Sequential, 128, 1000, 8),
    (Pattern::Random, 64, 700, 2),
];

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
    let device = Box::new(Faulty::new(device, Instant::ZERO, faults));
    let stream = |at: &usize| rig::busy(*at as u64, 1, PERCENT[*at], REQUESTS[*at]);
    let outcome = rig::run(device, depth, streams.iter().map(stream).collect(), UNTIL);
    assert_eq!(outcome.violations, []);
    rig::done(&outcome, FROM..UNTIL)
}

/// The part of its due, share x throughput alone at the same speed, that each stream has.
fn kept(name: &str, depth: u32, speed: (u64, u32)) -> [f64; 3] {
    let shared = done(name, depth, speed, &[0, 1, 2]);
    [0, 1, 2].map(|at| {
        let alone = done(name, depth, speed, &[at])[0];
        shared[at] as f64 * 100.0 / (f64::from(PERCENT[at]) * alone as f64)
    })
}

/// In the half minute that begins ten seconds after its speed has changed everybody has .95 of its due, or of what it
/// has where the speed was always so. A guest once had no slice after its first, in which the device was slower: on the
/// faster one it paid twice, and had .6 of its due for good. Small changes are left out where a simulation is long.
#[test]
fn everybody_has_its_share_ten_seconds_after_a_change_of_speed() {
    let (all, large) = ([500, 700, 1400, 2000], [500, 2000]);
    for (name, depth, speeds) in
        [("deskstar-34gxp", 1, &all[..]), ("nearline-7200", 8, &all), ("nvme-970pro", 64, &large)]
    {
        for &speed_permille in speeds {
            let always = kept(name, depth, (0, speed_permille));
            let since = kept(name, depth, (STEP, speed_permille));
            let mut pairs = always.iter().zip(since);
            let lost = pairs.any(|(always, since)| since < 0.95 * always.min(1.0));
            assert!(!lost, "{name} x {speed_permille}: {always:.3?}, then {since:.3?}");
        }
    }
}
