//! The streams of guests: the shard's own table of one guest, and what other threads see of them and of
//! their mounts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disktime_core::{Contract, StreamId};

use crate::stats::{VdiskStats, add};

/// The identity of a guest's stream. No other stream of the daemon has it, nor ever had it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GuestStreamId {
    /// The guest's number.
    pub guest: u64,
    /// How many streams its device's guests had before.
    pub nth: u64,
}

/// The identity of a mount: the number of its first guest. No other mount of the daemon has it, nor ever
/// had it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MountId(pub u64);

/// A mount, as other threads see it: all guests of one name on a device.
#[derive(Debug)]
pub struct MountView {
    /// Its identity.
    pub id: MountId,
    /// Its name for people: the directory that it is at.
    pub name: Arc<str>,
    /// The sums of its streams' figures, those of streams that have ended among them.
    pub stats: Arc<VdiskStats>,
    /// Contracts that it asked for and got.
    granted: AtomicU64,
    /// Contracts that it asked for and did not get.
    refused: AtomicU64,
}

impl MountView {
    /// A mount of which nothing has been counted yet.
    #[must_use]
    pub fn new(id: MountId, name: Arc<str>) -> Self {
        let (stats, granted, refused) = Default::default();
        Self { id, name, stats, granted, refused }
    }

    /// It has asked for a contract, and got it or not.
    pub(super) fn answered(&self, granted: bool) {
        add(if granted { &self.granted } else { &self.refused }, 1);
    }

    /// Contracts that it asked for and got, that of its files without one among them.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Contracts that it asked for and did not get.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A guest's stream, as other threads see it.
#[derive(Debug)]
pub struct GuestStreamView {
    /// Its identity.
    pub id: GuestStreamId,
    /// Its mount.
    pub mount: Arc<MountView>,
    /// The guest's number for it.
    pub stream: u32,
    /// Its name for people, as it was when the stream began: a file's path.
    pub name: String,
    /// Its live figures.
    pub stats: Arc<VdiskStats>,
}

/// A guest's stream, as the shard has it.
pub(super) struct GuestStream {
    pub(super) id: StreamId,
    /// The contract that it asked for and was granted.
    pub(super) contract: Contract,
    pub(super) view: Arc<GuestStreamView>,
}

/// The streams of one guest, by its own numbers.
pub(super) type GuestStreams = BTreeMap<u32, GuestStream>;
