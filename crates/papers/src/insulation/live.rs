//! The bench on real servers: every stream over NBD, alone and then all together.
//!
//! Whoever asks brings the servers and the clock: a [`Contender`] starts a server and says where
//! each stream is reached, a [`World`] tells time and waits. Contenders take turns, round after
//! round, so that whatever else the machine does hits all of them.
//!
//! - [`Scene`]: a device, the streams on it and their shares.
//! - [`run`]: every scene with its contenders; a [`LiveRow`] for each stream under each.
//! - [`live_missed`] and [`distances`]: what the rows amount to.
//! - [`live_files`]: the rows as a page with a heat-map.
//!
//! Does not know: which server answers, how it is started, what a block device is.

mod measure;
mod report;
mod row;
mod scene;
mod simulated;
mod verdict;

pub use measure::{
    Alone, Contender, LiveError, NotStarted, Place, Served, Settings as LiveSettings, Step,
    Stopped, World, run,
};
pub use report::files as live_files;
pub use row::LiveRow;
pub use scene::{LiveDevice, LiveLoad, LiveTenant, Scene};
pub use verdict::{Distance, LiveMiss, distances, missed as live_missed};
