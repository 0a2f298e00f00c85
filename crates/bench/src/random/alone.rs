//! A load alone, on a fresh instance of its device.

use std::ops::Range;

use disktime_config::Scheduling;
use disktime_core::cost::{self, CostParameters};
use disktime_core::{Contract, Duration, Instant};
use disktime_sim::{Plan, StreamPlan, simulate_timed};

use super::cells::{Cell, Presence, Tenant};
use super::devices::Tempo;
use super::times::scale;

/// A load's figures alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Solo {
    pub(super) per_second: f64,
    pub(super) p99: Duration,
    /// Requests that were measured.
    pub(super) requests: u64,
}

/// Runs a stream without limits until the end of `measured`, which counts in times to warm up. The first
/// number says how many times as long these are, the second the times of the device.
fn run(cell: &Cell, stream: StreamPlan, [span, times]: [f64; 2], measured: Range<u64>) -> Solo {
    let warm = scale(cell.warm(), span);
    let after = |warms: u64| Duration::from_nanos(warm.as_nanos() * warms);
    let plan = Plan {
        device: cell.device.make(cell.id.seed, times),
        profile: None,
        scheduling: Scheduling::new("fifo", cost::usual("fifo")),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: cell.depth,
        streams: vec![StreamPlan { contract: Contract::default(), ..stream }],
        changes: Vec::new(),
        duration: after(measured.end),
        window: warm,
        decisions: None,
    };
    let [from, to] = [measured.start, measured.end].map(|warms| Instant::ZERO + after(warms));
    let outcome = simulate_timed(plan, vec![from..to]).expect("the drawn plans can be run");
    let first = usize::try_from(measured.start).expect("a few");
    let requests = outcome.windows.iter().skip(first).map(|window| window.requests).sum();
    Solo {
        per_second: requests as f64 / to.since(from).as_secs_f64(),
        p99: outcome.streams[0].response.quantile(0.99),
        requests,
    }
}

/// Enough requests to tell a throughput.
const ENOUGH: u64 = 4000;

/// A stream with so many requests at once all the time: for as long as it takes to see enough of
/// them, at most for as long as in its cell. Writes fill caches first, so they are watched for
/// longer.
pub(super) fn busy(cell: &Cell, tenant: &Tenant, outstanding: u32) -> Solo {
    let mut part: f64 = match (cell.device.tempo, tenant.load.reads_permille) {
        _ if tenant.load.hot => 1.0,
        (Tempo::Slow, 1000) => 0.025,
        (_, 1000) => 0.05,
        _ => 0.25,
    };
    part = part.max(cell.device.part_min());
    loop {
        let stream = tenant.busy(cell, outstanding);
        let solo = run(cell, stream, [part, 1.0], 1..Cell::WARMS);
        if solo.requests >= ENOUGH || part == 1.0 {
            return solo;
        }
        part = (part * 5.0).min(1.0);
    }
}

/// The stream with its own rhythm on the device as it is, there from the start.
pub(super) fn rhythmic(cell: &Cell, tenant: &Tenant) -> Solo {
    let part = cell.device.part_min().max(0.25);
    let tenant = Tenant { presence: Presence::Always, ..tenant.clone() };
    // Its own times and the device's are what they are; only the span is shorter.
    let stream = tenant.plan(cell, 1.0, 1.0);
    run(cell, stream, [part, 1.0], 1..Cell::WARMS)
}

/// The stream with its own rhythm on a disk of its own that is `share` times as fast: the device as
/// it is, with all times of the stream `share` times as long, is that disk in fast motion. Answers in
/// fast motion, too.
pub(super) fn own_disk(cell: &Cell, tenant: &Tenant, per_second: f64, share: f64) -> Solo {
    let stream = tenant.plan(cell, per_second, share);
    run(cell, stream, [share, share], tenant.presence.measured())
}
