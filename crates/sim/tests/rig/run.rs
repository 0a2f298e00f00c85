//! One run of streams on a device, looked at second by second.

use disktime_config::Scheduling;
use disktime_core::Duration;
use disktime_core::cost::CostParameters;
use disktime_model::Device;
use disktime_sim::{Outcome, Plan, StreamPlan, simulate};

/// These streams on that device, with so many pieces there at once.
pub fn run(
    scheduling: Scheduling,
    device: Box<dyn Device>,
    depth: u32,
    streams: Vec<StreamPlan>,
    seconds: u64,
) -> Outcome {
    let plan = Plan {
        device,
        profile: None,
        scheduling,
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth,
        streams,
        changes: Vec::new(),
        duration: Duration::from_secs(seconds),
        window: Duration::from_secs(1),
        decisions: None,
    };
    simulate(plan).unwrap()
}
