#![forbid(unsafe_code)]
//! Measurements of the product beside its rivals.
//!
//! - [`insulation`]: how well each policy insulates streams from each other, in simulation.
//! - [`live`]: the same of real servers, ours and others.
//! - [`nbd`]: what a request costs the server, ours and others.
//! - [`same`]: fingerprints of scenarios, to tell whether the product still does what it did.
//! - [`random`]: the same in cells drawn from a seed, for which nobody tuned.
//! - [`sched`]: how fast the engine decides.
//! - [`shards`]: a device with more threads than one.
//! - [`server_process`]: servers' processes, and what the machine's CPU time goes to.
//!
//! Does not know: command lines, tables, signals. The caller tells time and waits
//! ([`live::World`]), and owns every directory.

pub mod insulation;
pub mod live;
pub mod nbd;
pub mod random;
pub mod same;
pub mod sched;
pub mod server_process;
pub mod shards;
