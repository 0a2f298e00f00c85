//! The binary against strangers' tools: libnbd's, QEMU's and fio.
//!
//! A test whose tool is missing says so (see CONTRIBUTING.md) and returns.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod bitmaps;
mod black_box;
mod control;
mod costs;
mod crowds;
mod device_profile;
mod diagnosis;
mod documents;
mod durability;
mod files;
mod holes;
mod insulation;
mod live_changes;
mod misses;
mod operators;
mod pipes;
mod placement;
mod plan;
mod qemu_backup;
mod recording;
mod replay;
mod restarts;
mod said;
mod service;
mod snapshots;
mod support;
mod take_over;
mod terminal;
mod tools;
mod web;
