//! The insulation bench: does a stream on a share get what that share would give it, alone?
//!
//! *Insulation* of a victim is its throughput by (its share × its throughput alone). A [`Cell`] is a
//! device, a victim, an antagonist and a share; each is simulated under each policy, and a [`Row`]
//! says what came of it.
//!
//! - [`cover`]: the matrix, in which every pair of values of any two of these occurs.
//! - [`run`]: runs cells under policies; every load is first measured alone on its device.
//! - [`Summary`] and [`missed`]: what the rows amount to, and where policy `disktime` misses its bars.
//! - [`files`]: the rows as one page with a heat-map.
//!
//! [`live`](crate::live) puts the same question to real servers.
//!
//! Does not know: clocks, files, terminals, how a policy works.

mod bars;
pub(crate) mod cells;
mod cover;
mod grid;
mod insulation_page;
mod insulation_row;
pub(crate) mod loads;
mod runs;
pub(crate) mod windows;

pub use bars::{Miss, OWN, Summary, missed, summaries};
pub use cells::{Antagonist, Cell, Device, SHARES, Selection, SelectionError, Victim};
pub use cover::{CELLS_MAX, cover, quick};
pub use insulation_page::{Origin, files};
pub use insulation_row::Row;
pub(crate) use runs::run_alone;
pub use runs::{Progress, Settings, run};

/// The registered policies that are meant for sharing a device, in the order of reports: the
/// product's own, the papers', then rivals.
pub const SHARING: [&str; 10] = [
    "disktime",
    "zygaria",
    "fifo",
    "deadline",
    "round-robin",
    "drr",
    "sfq",
    "mclock",
    "argon",
    "bfq",
];

/// The policies of a quick look.
pub const QUICK: [&str; 4] = ["disktime", "zygaria", "mclock", "bfq"];
