//! Promise bounds of streams with little reserved, whose slices take them far ahead.
#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use disktime_model::preset;
use disktime_workload::Pattern;
use rig::{busy, run};

/// Streams of 1 to 5 % beside large ones on a disk with a queue: each is served within its bound.
#[test]
fn no_stream_of_a_hundredth_breaks_its_bound() {
    for (device, depth) in [("nearline-7200", 16), ("deskstar-34gxp", 1)] {
        let shares = [1, 2, 1, 5, 1, 30, 25, 15, 10, 10];
        let streams = (0..).zip(shares).map(|(at, percent)| {
            let sequential = (Pattern::Sequential, 64, 1000, 8);
            let random = (Pattern::Random, 256, 1000, 4);
            busy(at, 1, percent, if at % 3 == 1 { sequential } else { random })
        });
        let outcome = run((preset::find(device).unwrap().build)(1), depth, streams.collect(), 300);
        assert_eq!(outcome.violations, [], "{device}");
    }
}
