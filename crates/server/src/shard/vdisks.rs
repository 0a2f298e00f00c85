//! The virtual disks of a shard's device, by identity and by stream.
//!
//! A [`VdiskId`] names a virtual disk to other threads for as long as the daemon runs. A stream
//! names it to the engine, the back end and the shard's own tables, which are indexed by it: the
//! smallest numbers that are free, given away again once nothing of the last holder is left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Sender;
use disktime_config::Named;
use disktime_core::{ChangeError, Class, Contract, Instant, StreamId, StreamSpec};
use slab::Slab;

use super::cause::Cause;
use super::name;
use crate::backend::{DeviceError, PoolFile};
use crate::bitmap::Bitmap;
use crate::quiet::Quiet;
use crate::record::Recorder;
use crate::stats::{VdiskStats, add};

/// A virtual disk's identity. No other virtual disk of the daemon has it, nor ever had it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VdiskId(pub u64);

/// A virtual disk on a shard's device.
pub struct Vdisk {
    pub(super) name: String,
    /// Its first byte on the device.
    pub(super) base: u64,
    /// Its live figures.
    pub(super) stats: Arc<VdiskStats>,
    /// The figures of its mount, if it is a stream of one: what counts in its own counts there, too.
    mount: Option<Arc<VdiskStats>>,
    /// The recorder of its requests.
    pub(super) recorder: Option<Recorder>,
    pub(super) quiet: Quiet<Cause>,
    /// Connections that are not over yet.
    pub(super) clients: u32,
    /// Its removal was asked for and is not over.
    pub(super) removal: Option<Removal>,
    /// Blocks that have changed.
    pub(super) bitmaps: Vec<Bitmap>,
    /// Its requests wait.
    pub(super) hold: Option<Hold>,
}

/// A removal that waits for the virtual disk's last client.
pub(super) struct Removal {
    pub(super) id: VdiskId,
    pub(super) answer: Answer,
}

/// A hold of a virtual disk.
pub(super) enum Hold {
    /// The device has requests of it yet: the answer is due when it has none.
    Ending(Answer),
    /// The device has none.
    Still,
}

/// Where the outcome of a change goes. The caller may have stopped waiting.
pub type Answer = Sender<Result<(), VdiskError>>;

/// A virtual disk that is to be served from now on.
pub struct NewVdisk {
    /// Its identity.
    pub id: VdiskId,
    /// Its name, place and figures.
    pub vdisk: Vdisk,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its own file, if it has one.
    pub file: Option<PoolFile>,
    /// Its parent.
    pub parent: Option<VdiskId>,
    /// Its contract and bounds.
    pub spec: StreamSpec,
    /// Where the outcome goes.
    pub answer: Answer,
}

/// Why a shard did not change its virtual disks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VdiskError {
    /// The identity is nobody's, or no longer.
    #[error("the device has no virtual disk of identity {}", .0.0)]
    Unknown(VdiskId),
    /// The identity of a new virtual disk is taken, perhaps by one whose removal is not over.
    #[error("identity {} is in use on the device: a new virtual disk needs one of its own", .0.0)]
    InUse(VdiskId),
    /// The engine does not admit it.
    #[error("not admitted: {0}")]
    Refused(ChangeError<Named>),
    /// The back end can't take it in.
    #[error("the back end can't take the virtual disk in while it runs: {0}")]
    BackEnd(DeviceError),
    /// Its requests wait already.
    #[error("a snapshot of it is being made: repeat this once it is there")]
    Held,
    /// Clients have it.
    #[error("{0} clients are connected: disconnect them, and repeat this")]
    Connected(u64),
    /// The daemon ends.
    #[error("the daemon ends")]
    Ends,
}

impl Vdisk {
    pub(crate) fn new(
        name: String,
        base: u64,
        stats: Arc<VdiskStats>,
        recorder: Option<Recorder>,
    ) -> Self {
        let (quiet, clients, removal, hold, mount) = (Quiet::default(), 0, None, None, None);
        let bitmaps = Vec::new();
        Self { name, base, stats, mount, recorder, quiet, clients, removal, bitmaps, hold }
    }

    /// The same as a stream of the mount that has these figures.
    pub(super) fn of_mount(self, mount: Arc<VdiskStats>) -> Self {
        Self { mount: Some(mount), ..self }
    }

    /// Whether it is a stream of a mount.
    pub(super) fn is_of_mount(&self) -> bool {
        self.mount.is_some()
    }

    /// Its figures, and those of its mount.
    pub(super) fn figures(&self) -> impl Iterator<Item = &VdiskStats> {
        std::iter::once(&*self.stats).chain(self.mount.as_deref())
    }

    /// Adds to a figure.
    pub(super) fn count(&self, figure: fn(&VdiskStats) -> &AtomicU64, more: u64) {
        self.figures().for_each(|stats| add(figure(stats), more));
    }

    /// Adds to a figure what it lacks to the engine's own count, which only rises.
    pub(super) fn count_up_to(&self, figure: fn(&VdiskStats) -> &AtomicU64, count: u64) {
        let counted = figure(&self.stats).load(Ordering::Relaxed);
        self.count(figure, count.saturating_sub(counted));
    }

    /// The same with bitmaps.
    pub(crate) fn with_bitmaps(self, bitmaps: Vec<Bitmap>) -> Self {
        Self { bitmaps, ..self }
    }

    /// The whole device, for the back end's migration.
    pub(crate) fn migration() -> Self {
        Self::new("(migration)".to_owned(), 0, Arc::default(), None)
    }
}

/// The table of a shard's virtual disks, and of what contracts say that concerns the shard.
#[derive(Default)]
pub(super) struct Vdisks {
    by_stream: Slab<Vdisk>,
    by_id: BTreeMap<VdiskId, StreamId>,
    /// Streams with a latency bound.
    bounded: BTreeSet<StreamId>,
    /// Streams with a guaranteed rate.
    rated: BTreeSet<StreamId>,
    /// Removals that are not over, and when their clients are let go whether they were answered or
    /// not; in the order of that time.
    pub(super) removing: VecDeque<(Instant, StreamId)>,
}

impl Vdisks {
    /// The stream that the next virtual disk will have.
    pub(super) fn next_stream(&self) -> StreamId {
        StreamId(name(self.by_stream.vacant_key()))
    }

    /// A virtual disk that other threads know, or none do; under [`next_stream`](Self::next_stream).
    pub(super) fn add(&mut self, id: Option<VdiskId>, vdisk: Vdisk) -> StreamId {
        let stream = StreamId(name(self.by_stream.insert(vdisk)));
        if let Some(id) = id {
            self.by_id.insert(id, stream);
        }
        stream
    }

    /// Nothing of a virtual disk is left: its stream may become another one's.
    pub(super) fn remove(&mut self, stream: StreamId) -> Option<Removal> {
        let removal = self.by_stream.remove(stream.0 as usize).removal;
        if let Some(removal) = &removal {
            self.by_id.remove(&removal.id);
        }
        self.bounded.remove(&stream);
        self.rated.remove(&stream);
        self.removing.retain(|(_, removing)| *removing != stream);
        removal
    }

    /// Why a change was refused, with virtual disks' names for their streams; `new` is the one that
    /// was to be added.
    pub(super) fn refused(&self, error: ChangeError, new: Option<&str>) -> VdiskError {
        let name = |StreamId(at): StreamId| {
            let known = self.by_stream.get(at as usize).map(|vdisk| vdisk.name.as_str());
            Named::new("vdisk", known.or(new).unwrap_or("(unknown)"))
        };
        VdiskError::Refused(error.renamed(name))
    }

    /// Whether the identity is taken, also by a virtual disk whose removal is not over.
    pub(super) fn knows(&self, id: VdiskId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// The virtual disk of an identity, unless its removal was asked for.
    pub(super) fn find(&self, id: VdiskId) -> Result<StreamId, VdiskError> {
        let found = self.by_id.get(&id).copied();
        let stays = |stream: &StreamId| self[stream.0 as usize].removal.is_none();
        found.filter(stays).ok_or(VdiskError::Unknown(id))
    }

    /// The virtual disks that other threads know, by identity.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.by_id.values().copied()
    }

    /// The same with their identities.
    pub(super) fn known(&self) -> impl Iterator<Item = (VdiskId, StreamId)> {
        self.by_id.iter().map(|(id, stream)| (*id, *stream))
    }

    /// The streams of virtual disks that have bitmaps.
    pub(super) fn with_bitmaps(&self) -> Vec<StreamId> {
        let has = |stream: &StreamId| !self[stream.0 as usize].bitmaps.is_empty();
        self.streams().filter(has).collect()
    }

    /// Streams whose cycles are counted.
    pub(super) fn rated(&self) -> Vec<StreamId> {
        self.rated.iter().copied().collect()
    }

    /// A stream has this contract from now on.
    pub(super) fn agree(&mut self, stream: StreamId, contract: &Contract) {
        set(&mut self.bounded, stream, contract.latency.is_some());
        set(&mut self.rated, stream, contract.class == Class::GuaranteedRate);
    }

    /// Whether a virtual disk has a latency bound.
    pub(super) fn has_bound(&self) -> bool {
        !self.bounded.is_empty()
    }
}

fn set(streams: &mut BTreeSet<StreamId>, stream: StreamId, belongs: bool) {
    if belongs {
        streams.insert(stream);
    } else {
        streams.remove(&stream);
    }
}

impl Index<usize> for Vdisks {
    type Output = Vdisk;

    fn index(&self, stream: usize) -> &Vdisk {
        &self.by_stream[stream]
    }
}

impl IndexMut<usize> for Vdisks {
    fn index_mut(&mut self, stream: usize) -> &mut Vdisk {
        &mut self.by_stream[stream]
    }
}
