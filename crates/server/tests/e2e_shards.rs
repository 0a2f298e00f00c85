//! The end-to-end suites once more, with devices of three threads: clients' bytes are carried by two of them
//! (`shards/mod.rs`).
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(clippy::duplicate_mod, reason = "each suite has what it has as a crate of its own")]

#[path = "e2e.rs"]
mod clients;
#[path = "e2e_end.rs"]
mod end;
#[path = "e2e_flushes.rs"]
mod flushes;
#[path = "e2e_rates.rs"]
mod rates;
#[path = "e2e_reports.rs"]
mod reports;
#[path = "e2e_tiers.rs"]
mod tiers;
#[path = "e2e_tls.rs"]
mod tls;
