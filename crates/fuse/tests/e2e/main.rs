//! Directories that are really mounted: calls through a mount answer as on its source, and open files
//! with contracts get what they are promised.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(clippy::disallowed_methods, reason = "mounts and their clients run in real time")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "data and figures of tests are small"
)]

mod bad_source;
mod beside;
mod conformance;
mod contracts;
mod daemon;
mod header;
mod hostile;
mod pass_through;
mod shares;
mod slow_source;
mod support;
