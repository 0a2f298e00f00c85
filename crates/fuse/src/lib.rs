//! Files that own a share of a device's time: a directory shown through FUSE, whose open files are
//! streams of an engine.
//!
//! - [`Mounted`]: a mount, from [`Options`].
//! - [`abi`]: the ioctls by which programs ask for contracts; [`client`] calls them.
//!
//! Does not know: how time is shared (that is the core), the protocol's bytes (`fuser`, which one
//! module names), how long a device takes (`model`).
#![deny(unsafe_code)]

pub mod abi;
pub mod client;
mod contracts;
mod extents;
mod file_system;
mod files;
mod handles;
mod kernel;
mod mount_error;
mod mounted;
mod nodes;
mod open_files;
mod places;
mod rules;
mod scheduler;
mod source;
mod syncs;
mod transfer;
mod virtual_files;

pub use contracts::Askers;
pub use mount_error::MountError;
pub use mounted::{Engine, Mounted, Options};
pub use rules::Rule;
