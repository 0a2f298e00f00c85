//! A limit beside others: it holds over any second, and costs nobody its reservation.

#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use disktime_core::{Duration, Instant, Share};
use disktime_model::preset;
use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};
use rig::{Requests, busy, done, run};

const RANDOM: Requests = (Pattern::Random, 4, 1000, 16);
const SEQUENTIAL: Requests = (Pattern::Sequential, 64, 1000, 16);

/// A stream of a tenth with a limit of 12 %, beside so many others for two minutes: the most that it used in a second,
/// in permille, and in the mean. The first half minute is left out.
fn used(device: &str, depth: u32, requests: Requests, others: u64) -> (u64, u64) {
    let mut limited = busy(0, 1, 10, requests);
    limited.contract.limit = Share::from_percent(12).unwrap();
    let percent = u32::try_from(88 / others).unwrap();
    let other = |at| {
        let (random, runs) = ((Pattern::Random, 4, 1000, 8), (Pattern::Sequential, 128, 1000, 8));
        busy(at, 1, percent, if at % 2 == 0 { random } else { runs })
    };
    let streams = [limited].into_iter().chain((1..=others).map(other)).collect();
    let outcome = run((preset::find(device).unwrap().build)(1), depth, streams, 120);
    assert_eq!(outcome.violations, []);
    assert!(done(&outcome, 30..120).iter().all(|requests| *requests > 0), "all are served");
    let of = outcome.windows.iter().filter(|row| row.stream.0 == 0 && row.index >= 30);
    let used: Vec<u64> = of.map(|row| row.charged.as_nanos() / 1_000_000).collect();
    (*used.iter().max().unwrap(), used.iter().sum::<u64>() / used.len() as u64)
}

/// A stream that had waited for its slice for seconds used twice its limit in the next one.
#[test]
fn a_limit_holds_over_a_second_on_a_disk() {
    for (requests, others) in [(RANDOM, 2), (SEQUENTIAL, 2), (RANDOM, 6)] {
        let (most, mean) = used("deskstar-34gxp", 1, requests, others);
        assert!((100..=138).contains(&most) && mean <= 121, "{most} and {mean} beside {others}");
    }
    // The pieces that drain the disk's queue take longer than those before.
    for (requests, others) in [(RANDOM, 2), (SEQUENTIAL, 2), (RANDOM, 28), (SEQUENTIAL, 28)] {
        let (most, mean) = used("nearline-7200", 16, requests, others);
        assert!((100..=172).contains(&most) && mean <= 121, "{most} and {mean} beside {others}");
    }
}

/// While its limit holds a stream back it is not gone: beside 28 others it came back in the middle of them, and had
/// four tenths of its reservation.
#[test]
fn a_limited_stream_has_its_reservation_beside_many() {
    for (device, depth, requests, others) in [
        ("deskstar-34gxp", 1, RANDOM, 6),
        ("nearline-7200", 16, RANDOM, 28),
        ("nearline-7200", 16, SEQUENTIAL, 28),
    ] {
        let (_, mean) = used(device, depth, requests, others);
        assert!(mean >= 95, "{mean} beside {others} on {device}");
    }
}

/// All of the device is reserved: a half is idle, and a stream with the other half waits for its limit again and again.
/// One without a reservation runs ahead of it meanwhile, and does not wait as long for another one that comes after 20 s.
#[test]
fn a_stream_that_ran_beside_a_limit_waits_seconds_for_one_that_comes_later() {
    for (device, depth) in [("deskstar-34gxp", 1), ("nearline-7200", 8), ("nvme-970pro", 32)] {
        let requests = (Pattern::Random, 4, 1000, 8);
        let [mut limited, mut idle] = [0, 1].map(|at| busy(at, 1, 50, requests));
        limited.contract.limit = Share::from_percent(50).unwrap();
        let [first, mut second] = [2, 3].map(|at| busy(at, 1, 0, requests));
        for (late, seconds) in [(&mut idle, 1_000), (&mut second, 20)] {
            let spec = Spec::reads(Pattern::Random, Extent { start: 0, end: 1 << 30 }, 4096);
            let pace = Pace::Closed { outstanding: 8, think: Duration::ZERO };
            let start = Duration::from_secs(seconds);
            let phases = vec![Phase { start, stop: None, spec, pace }];
            late.traffic = Phases::new(phases, 1, &late.name, Instant::ZERO).unwrap().into();
        }
        let streams = vec![limited, idle, first, second];
        let outcome = run((preset::find(device).unwrap().build)(1), depth, streams, 30);
        let done = done(&outcome, 25..30);
        assert_eq!(done[1], 0, "it is idle on {device}");
        assert!(done[2] * 4 > done[3] * 3 && done[3] * 4 > done[2] * 3, "{done:?} on {device}");
    }
}
