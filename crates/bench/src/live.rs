//! The bench on real servers: every stream over NBD, alone and then all together.
//!
//! The caller brings the servers and the clock: a [`Contender`] starts a server and says where each
//! stream is reached, a [`World`] tells time and waits. Contenders take turns, round after round,
//! so that whatever else the machine does hits all of them.
//!
//! - [`Scene`]: a device, the streams on it and their shares.
//! - [`run`]: every scene with its contenders; a [`LiveRow`] for each stream under each.
//! - [`live_missed`] and [`distances`]: what the rows amount to.
//! - [`live_files`]: the rows as a page with a heat-map.
//!
//! Does not know: which server answers, how it is started, what a block device is.

mod bfq;
mod daemon;
mod jobs;
mod live_page;
mod live_row;
mod measured;
mod programs;
mod rounds;
mod scene;
pub mod scratch_file;
mod servers;
mod simulated;
mod verdict;
mod world;

pub use daemon::Tuning;
pub use jobs::{Job, JobError};
pub use live_page::files as live_files;
pub use live_row::{Figures, LiveRow};
pub use programs::{BoxKind, Medium};
pub use rounds::{LiveError, Settings as LiveSettings, run};
pub use scene::{LiveDevice, LiveLoad, LiveTenant, Scene};
pub use servers::Way;
pub use verdict::{Distance, LiveMiss, distances, missed as live_missed};
pub use world::{Alone, Contender, NotStarted, Place, Served, Step, Stopped, World};
