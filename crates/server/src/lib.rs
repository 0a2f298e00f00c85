//! The daemon: virtual disks over NBD, each with its share of a device's time.
//!
//! One *shard* per device (one thread, one io_uring for its sockets and its disk, one engine), a
//! *front desk* thread that accepts and negotiates, and the thread that holds the [`Server`]. Does
//! not know how time is shared (that is the core), the protocol's bytes (the `nbd` crate), or how
//! long a disk takes (`model`).
#![deny(unsafe_code)]

pub mod backend;
mod broker;
pub mod buffers;
mod check;
mod claims;
pub mod clock;
pub mod config;
mod desk;
mod durable;
pub mod emulate;
mod frontend;
mod handover;
pub mod layout;
mod listener;
pub mod memory;
mod opened_device;
mod place;
pub mod probe;
mod quiet;
mod record;
mod reports;
pub mod ring;
mod seats;
mod served_file;
mod server;
mod shard;
pub mod standing;
mod start_error;
mod stats;
mod threads;
mod tls;
mod vdisk_name;
mod wakeup;

pub use check::check;
pub use config::{Change, Config, ConfigError};
pub use listener::{BindError, Inherited};
pub use place::PlaceError;
pub use reports::ReportStats;
pub use server::{ReloadError, Server, VdiskView, Wrap};
pub use start_error::{StartError, Unfit};
pub use stats::{Counts, DeviceStats, Histogram, VdiskStats};
pub use threads::ThreadFailure;
