//! Suites of `e2e` once more, with devices of two threads: one carries the clients' bytes (`support.rs`).
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(dead_code, reason = "these suites use a part of what all have")]

#[path = "../e2e/bitmaps.rs"]
mod bitmaps;
#[path = "../e2e/crowds.rs"]
mod crowds;
#[path = "../e2e/durability.rs"]
mod durability;
#[path = "../e2e/holes.rs"]
mod holes;
#[path = "../e2e/live_changes.rs"]
mod live_changes;
#[path = "../e2e/recording.rs"]
mod recording;
#[path = "../e2e/restarts.rs"]
mod restarts;
#[path = "../e2e/support.rs"]
mod support;
#[path = "../e2e/take_over.rs"]
mod take_over;
#[path = "../e2e/tools.rs"]
mod tools;
