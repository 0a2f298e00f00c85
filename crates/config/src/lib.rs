#![forbid(unsafe_code)]
//! One dialect of settings: what the daemon's configuration and the simulator's scenarios both state.
//!
//! - [`quantity`]: sizes, times, rates and percentages as people write them.
//! - [`scheduling_table!`], [`SchedulingKeys`], [`Scheduling`]: the keys of a device that say how its
//!   time is shared, as they are written and as they are checked.
//! - [`contract_table!`], [`ContractKeys`]: the keys of a virtual disk or a scenario's stream that say
//!   what it owns.
//! - [`read_contract`], [`contract_text`]: contracts as a line of text.
//! - [`DepthLaw`]: how many pieces of a stream the device should hold; both apply it from outside of the engine.
//! - [`ValueError`], [`Named`]: which key of which table has which value, and what is allowed instead.
//! - [`SyntaxError`]: where a text is no TOML, or a value of another type.
//!
//! A key that both files have is stated here once: a table of either file gets it by the macro, and its
//! check is here. A key that one file alone has stays with that file's reader, since its value is of
//! the reader's own types, which lie above this crate: back ends, sockets, memory, places of virtual
//! disks and goals in `server`; devices, loads and seeds in `sim`.
//!
//! Does not know: files, back ends, loads, profiles of devices.

mod contract;
mod contract_text;
mod depth_law;
mod error;
pub mod quantity;
mod scheduling;
mod syntax;
mod table;

pub use contract::{
    AdmissionName, CLASSES, Keys as ContractKeys, LATENCY_MAX, NOT_PROMISED, RATE_MAX, access,
};
pub use contract_text::{contract_text, read_contract};
pub use depth_law::{DepthError, DepthLaw, DepthTerms};
pub use error::{Named, ValueError};
pub use scheduling::{DEPTH_MAX, DEPTH_SPAN, depth_law, horizon};
pub use scheduling::{
    DepthText, DeviceFacts, Keys as SchedulingKeys, QueueDepth, Scheduling, TOKENS,
};
pub use syntax::{SyntaxError, remedy};
