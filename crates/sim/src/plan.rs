//! The plan of a simulation, in the types of the parts that it is made of.

use disktime_config::{Named, Scheduling};
use disktime_core::cost::CostParameters;
use disktime_core::{
    ChangeError, ConfigError, Contract, Duration, Instant, Profile, ProfileError, StreamId,
};
use disktime_model::Device;
use disktime_workload::{SpecError, Stream};

/// A simulation about to run.
pub struct Plan {
    /// The device.
    pub device: Box<dyn Device>,
    /// The device's profile, for admission; without one only shares of time can be promised.
    pub profile: Option<Profile>,
    /// How its time is shared. If `feedback` shapes best effort, players' misses are reported to it,
    /// and a load that ends is soft real-time no longer. The findings of `profile` and `quick_profile`
    /// are stated in `profile` above and in `cost`.
    pub scheduling: Scheduling,
    /// Numbers for the cost model.
    pub cost: CostParameters,
    /// Pieces at the device at once: what the scheduling's `queue_depth` comes to.
    pub depth: u32,
    /// The streams; a stream's name in the engine is its place here.
    pub streams: Vec<StreamPlan>,
    /// Contracts that change while it runs, in order of time.
    pub changes: Vec<(Instant, StreamId, Contract)>,
    /// Missed deadlines that streams report whether or not they have missed any, in order of time.
    pub reports: Vec<(Instant, StreamId)>,
    /// How long.
    pub duration: Duration,
    /// How long a window of the metrics is.
    pub window: Duration,
    /// Between these times every decision is recorded, with its reasons.
    pub decisions: Option<(Instant, Instant)>,
}

/// A stream of a simulation.
pub struct StreamPlan {
    /// Its name for people.
    pub name: String,
    /// Its contract from the start.
    pub contract: Contract,
    /// First byte on the device of what its load calls byte 0.
    pub base: u64,
    /// Where on the device its requests lie, first byte and end, for admission; `None` for
    /// anywhere.
    pub extent: Option<(u64, u64)>,
    /// The stream of the plan of whose contract its own is a part.
    pub parent: Option<StreamId>,
    /// Its requests, and when they come.
    pub traffic: Stream,
}

/// Why a plan can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// No streams: nothing would happen.
    #[error("streams: none; at least 1 is needed")]
    NoStreams,
    /// No time: nothing would happen.
    #[error("{field}: 0; above 0 is needed")]
    ZeroTime {
        /// Which time.
        field: &'static str,
    },
    /// More pieces than the device can hold.
    #[error("depth: {depth}; this device takes 1 to {depth_max}")]
    Depth {
        /// As asked.
        depth: u32,
        /// As the device says.
        depth_max: u32,
    },
    /// A name or bound that the engine refuses.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A profile with which admission can't reckon.
    #[error("the device's profile: {0}")]
    Profile(ProfileError),
    /// A contract that the engine refuses.
    #[error("{}{error}", .added.as_ref().map(|added| format!("{added}: ")).unwrap_or_default())]
    Contract {
        /// The stream that was added, if the reason names none.
        added: Option<Named>,
        /// Why.
        error: ChangeError<Named>,
    },
    /// A load that makes no sense.
    #[error(transparent)]
    Load(#[from] SpecError),
}
