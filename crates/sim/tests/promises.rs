//! Promise bounds of streams with little reserved, whose slices take them far ahead.
#![allow(clippy::unwrap_used, reason = "tests")]

mod rig;

use disktime_config::Scheduling;
use disktime_core::Duration;
use disktime_model::preset;
use disktime_workload::Pattern;
use rig::run::run;
use rig::{busy, done};

/// Streams of 1 to 5 % beside large ones, also where slices are long: each is served within its bound. A slice of a
/// hundredth that was as long as any took it 31 s ahead, of 19.5 s promised.
#[test]
fn no_stream_of_a_hundredth_breaks_its_bound() {
    let devices = [("deskstar-34gxp", 1), ("nearline-7200", 16)];
    for (horizon, seconds) in [(None, 300), (Some(Duration::from_secs(2)), 600)] {
        for (device, depth) in devices {
            let shares = [1, 2, 1, 5, 1, 30, 25, 15, 10, 10];
            let streams = (0..).zip(shares).map(|(at, percent)| {
                let sequential = (Pattern::Sequential, 64, 1000, 8);
                let random = (Pattern::Random, 256, 1000, 4);
                busy(at, 1, percent, if at % 3 == 1 { sequential } else { random })
            });
            let scheduling = Scheduling { horizon, ..Scheduling::new("disktime", "learned") };
            let model = (preset::find(device).unwrap().build)(1);
            let outcome = run(scheduling, model, depth, streams.collect(), seconds);
            assert_eq!(outcome.violations, [], "{device}, {horizon:?}");
            assert!(done(&outcome, 0..300).iter().all(|requests| *requests > 0));
        }
    }
}
