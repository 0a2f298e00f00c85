#![forbid(unsafe_code)]
//! From what an application wants of a device to a share of its time, and what would fit.
//!
//! - [`goal`]: what share a rate, a bandwidth or a bound on responses takes.
//! - [`broker`]: the same for a device with a profile, by each method that the profile allows.
//! - [`TraceShares`]: what share a recorded trace takes.
//!
//! Does not know: configurations, what is admitted already.

pub mod broker;
pub mod goal;
mod trace_shares;

pub use trace_shares::TraceShares;
