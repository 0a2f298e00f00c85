//! The share of a device that a recorded trace takes.

use std::collections::HashMap;

use disktime_core::{Access, Duration, Kind, Share};
use disktime_profiler::{Costs, Method};
use disktime_workload::IoOp;
use disktime_workload::trace::{Demand, PERIOD, TraceError, TraceReader};

use crate::broker::Broker;

/// Sizes of a trace's requests whose costs are remembered.
const SIZES_MAX: usize = 10_000;

/// The share that a trace takes by one method. Shares are in parts per million, rounded up; above
/// 1,000,000 the trace takes more than the device.
#[derive(Clone, Debug)]
pub struct TraceShares {
    /// How costs were found.
    pub method: Method,
    /// The trace's demand, second by second.
    pub demand: Demand,
    /// The share on the mean.
    pub mean_ppm: u64,
    /// The share at the percentile of all seconds.
    pub share_ppm: u64,
    /// The share in the worst second.
    pub worst_ppm: u64,
}

impl TraceShares {
    fn new(method: Method, demand: Demand, percentile: Share) -> Self {
        Self {
            method,
            mean_ppm: ppm(demand.mean()),
            share_ppm: ppm(demand.within(percentile.ppm())),
            worst_ppm: ppm(demand.within(Share::PARTS)),
            demand,
        }
    }
}

impl Broker<'_> {
    /// The share that a trace takes, or one stream of it, by each method that the profile allows,
    /// the surest first. A trace's seconds say how costs add up, so means are what is added:
    /// batches are no method here.
    ///
    /// # Errors
    /// Says what is wrong with the trace, and where; or that it asks for nothing.
    pub fn trace_shares(
        &self,
        open: impl Fn() -> Result<TraceReader, TraceError>,
        stream: Option<u64>,
        percentile: Share,
    ) -> Result<Vec<TraceShares>, TraceError> {
        let mut rows = Vec::new();
        for method in [Method::Prices, Method::Mechanics] {
            if self.profile.costs(method, (Access::Read, 4096), 1, self.confidence).is_none() {
                continue;
            }
            let mut costs: HashMap<(Kind, u64), Costs> = HashMap::new();
            let cost = |op: IoOp, sequential: bool| {
                // Traces have few sizes; one with many is not remembered.
                if costs.len() > SIZES_MAX {
                    costs.clear();
                }
                let of = costs.entry((op.kind, op.bytes)).or_insert_with(|| self.of(method, op));
                if sequential { of.next } else { of.first }
            };
            let demand = Demand::of(&mut open()?, stream, cost)?;
            rows.push(TraceShares::new(method, demand, percentile));
        }
        Ok(rows)
    }

    /// The cost of such requests; nothing where the profile doesn't say.
    fn of(&self, method: Method, op: IoOp) -> Costs {
        let access = if op.kind == Kind::Write { Access::Write } else { Access::Read };
        let costs = self.profile.costs(method, (access, op.bytes), self.depth, self.confidence);
        costs.unwrap_or(Costs { first: Duration::ZERO, next: Duration::ZERO })
    }
}

/// Parts per million of a period.
fn ppm(time: Duration) -> u64 {
    let ppm = u128::from(time.as_nanos()) * u128::from(Share::PARTS);
    u64::try_from(ppm.div_ceil(u128::from(PERIOD.as_nanos()))).unwrap_or(u64::MAX)
}
