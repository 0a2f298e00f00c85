//! The streams of guests: the shard's own table of one guest, and what other threads see of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use disktime_core::{Contract, StreamId};

use crate::stats::VdiskStats;

/// The identity of a guest's stream. No other stream of the daemon has it, nor ever had it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GuestStreamId {
    /// The guest's number.
    pub guest: u64,
    /// How many streams its device's guests had before.
    pub nth: u64,
}

/// A guest's stream, as other threads see it.
#[derive(Debug)]
pub struct GuestStreamView {
    /// Its identity.
    pub id: GuestStreamId,
    /// The guest's name for people: the directory that a mount is at.
    pub guest: Arc<str>,
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
