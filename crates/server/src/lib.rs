//! The daemon: virtual disks over NBD, each with its share of a device's time.
//!
//! One *shard* per device (one thread, one io_uring for its sockets and its disk, one engine), a
//! *front desk* thread that accepts and negotiates, and the thread that holds the [`Server`]. Does
//! not know how time is shared (that is the core), the protocol's bytes (the `nbd` crate), or how
//! long a disk takes (`model`).
#![deny(unsafe_code)]

pub mod backend;
pub mod bitmap;
mod broker;
pub mod buffers;
mod check;
mod checksum;
mod claims;
pub mod clock;
mod commands;
pub mod config;
mod daemon_socket;
mod desk;
mod durable;
pub mod emulate;
mod frontend;
pub mod guest_messages;
pub mod guests;
mod handover;
mod kept_bitmaps;
pub mod layout;
mod listener;
#[cfg(test)]
mod logged;
pub mod memory;
mod opened_device;
mod place;
pub mod probe;
mod questions;
mod quiet;
mod record;
mod reports;
pub mod ring;
mod room;
mod seats;
mod served_file;
mod server;
mod shard;
pub mod standing;
mod start_error;
mod stats;
mod take_over;
mod threads;
mod tls;
mod vdisk_name;
mod wakeup;

pub use check::check;
pub use commands::ask_bitmaps;
pub use config::{Change, Config, ConfigError};
pub use daemon_socket::AskError;
pub use durable::{read_small, replace};
pub use listener::{BindError, Inherited, bind_control, bind_web};
pub use place::PlaceError;
pub use quiet::Quiet;
pub use reports::ReportStats;
pub use server::{
    AlterError, DeviceJob, OpenedDevice, ReloadError, Removal, Server, SnapshotJob, VdiskView,
    Wrap, finish_move,
};
pub use shard::{
    GuestStreamId, GuestStreamView, MountId, MountView, VdiskError, VdiskId, Watch, WatchedDevice,
    WatchedMount, WatchedVdisk,
};
pub use start_error::{StartError, Unfit};
pub use stats::{Counts, DeviceStats, Histogram, Snapshot, VdiskStats};
pub use take_over::{Predecessor, Successor};
pub use threads::ThreadFailure;
pub use tls::{Tls, TlsError, TlsFiles};
