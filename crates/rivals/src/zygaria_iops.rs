//! Zygaria as it was first: the same, with requests in place of disk time.
//!
//! Reservations are shares of a nominal rate (60 requests/s by default), each request counts one.
//! The foil of "virtual disks by utilization": both streams get at least what they reserved, which
//! is little, and the rest goes as slack has it (zygaria §3 and §4.2).

use alloc::boxed::Box;

use disktime_core::policy::{Currency, PolicyEntry, Zygaria};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "zygaria-iops",
    doc: "zygaria counting requests of a nominal rate instead of disk time",
    source: "virtual disks by utilization, section 3 (the original driver)",
    currency: Currency::Requests,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Zygaria::default()),
};
