//! Streams that are always busy, each in a region of its own, under the default policy with learned costs.
#![allow(dead_code, reason = "each test crate uses its part of the rig")]
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use core::ops::Range;

use disktime_config::Scheduling;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::Device;
use disktime_sim::{Outcome, StreamPlan};
use disktime_workload::{Extent, Pace, Pattern, Source, Spec};

pub mod run;

/// Requests of one kind: pattern, KiB, reads in permille, and how many are at once.
pub type Requests = (Pattern, u64, u16, u32);

/// A stream that reserves so much, in the region of that number; regions have so many GiB.
pub fn busy(at: u64, gib: u64, percent: u32, requests: Requests) -> StreamPlan {
    let (pattern, kib, reads_permille, outstanding) = requests;
    let extent = Extent { start: (at * gib) << 30, end: ((at + 1) * gib) << 30 };
    let spec = Spec { reads_permille, ..Spec::reads(pattern, extent, kib << 10) };
    let pace = Pace::Closed { outstanding, think: Duration::ZERO };
    let name = format!("stream {at}");
    let traffic = Source::new(spec, pace, 1, &name, Instant::ZERO).unwrap().into();
    let contract = Contract::reserving(Share::from_percent(percent).unwrap());
    StreamPlan { name, contract, base: 0, parent: None, extent: None, traffic }
}

/// These streams on that device, with so many pieces there at once.
pub fn run(device: Box<dyn Device>, depth: u32, streams: Vec<StreamPlan>, seconds: u64) -> Outcome {
    run::run(Scheduling::new("disktime", "learned"), device, depth, streams, seconds)
}

/// The requests of each stream in these seconds.
pub fn done(outcome: &Outcome, seconds: Range<u64>) -> Vec<u64> {
    let of = |stream: usize| {
        let rows = outcome.windows.iter().filter(|row| row.stream.0 as usize == stream);
        let counted = rows.filter(|row| seconds.contains(&u64::from(row.index)));
        counted.map(|row| row.requests).sum()
    };
    (0..outcome.streams.len()).map(of).collect()
}
