#![forbid(unsafe_code)]
//! The outside of an NBD server: a client on a real clock, and a driver that puts load on it.
//!
//! - [`Uri`] and [`Address`]: where an export is.
//! - [`Connection`] and [`list`]: one call at a time, or several requests outstanding.
//! - [`ProfileTarget`]: a device or an export, to be profiled.
//! - [`Load`]: what [`disktime_workload`] generates, sent from a thread of its own and measured.
//! - [`MissReports`]: missed deadlines, told to the daemon.
//!
//! Does not know: which server answers, contracts, devices, disk time. Any wrong or missing answer
//! of a server ends in an error with a type; every wait but a running load's has a deadline.

mod aligned;
mod clock;
mod connection;
pub mod control;
mod error;
mod handshake;
mod inflight;
mod load;
mod misses;
mod profile_target;
mod socket;
mod uri;

pub use connection::{Connection, Reply, Request};
pub use error::{ConnectError, ConnectionError, RequestError};
pub use handshake::{Options, Transmission, list, list_with};
pub use load::{Counters, Latency, Load, LoadError, LoadReport, LoadSpec};
pub use misses::{MissError, MissReports};
pub use profile_target::{ProfileError, ProfileTarget};
pub use rustix::io::Errno;
pub use uri::{Address, PORT_DEFAULT, Uri, UriError};

/// Most requests that wait for their replies on one connection. As many replies as the protocol's
/// parser follows at one time, so a server that interleaves all of them is understood.
pub const OUTSTANDING_MAX: usize = disktime_nbd::limits::OPEN_REPLIES_MAX;
