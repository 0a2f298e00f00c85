//! Crashes: the daemon is killed, or the disk below it loses power, under load from several
//! connections. All flushed data are there afterwards, on every back end and over every kind of
//! storage that may lie below it.
//!
//! `cargo xtask bench crash` runs these rounds by the hundred. `DISKTIME_CRASH_ROUNDS` and
//! `DISKTIME_CRASH_SEED` set how many and from which seed on, `DISKTIME_CRASH_ONLY` names one row
//! (`kill:tiered:fuse`), `DISKTIME_CRASH_ROWS` a file for the rows as lines of JSON.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]

mod flushes;
mod load;
mod lower;
mod rounds;
mod stack;
