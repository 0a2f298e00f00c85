//! State of the engine as other threads ask for it: the device's time, and what each virtual disk waits
//! for at this moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use disktime_core::{Class, Contract, Duration, Share, StreamId};

use super::{GuestStreamId, GuestStreamView, MountId, MountView, Shard, VdiskId};

/// The virtual disks that are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// All.
    All,
    /// The virtual disks that have requests in the daemon at this moment.
    Busy,
}

/// A device's account of time since its start.
#[derive(Clone, Debug)]
pub struct WatchedDevice {
    /// Time with at least one piece at the device.
    pub busy: Duration,
    /// Busy time that no virtual disk is charged for.
    pub spare: Duration,
    /// Time held idle for a virtual disk.
    pub held: Duration,
    /// How many pieces the device may hold.
    pub depth: u32,
    /// Pieces at the device now.
    pub in_flight: u32,
    /// The sum of all reservations in parts per million.
    pub reserved_ppm: u64,
    /// Its virtual disks that were asked for, in the order of their identities.
    pub vdisks: Vec<(VdiskId, WatchedVdisk)>,
    /// How many guests it has.
    pub guests: usize,
    /// All mounts.
    pub mounts: Vec<WatchedMount>,
    /// All streams of guests.
    pub guest_streams: Arc<[Arc<GuestStreamView>]>,
    /// The streams of guests that were asked for, as they are now.
    pub guests_now: Vec<(GuestStreamId, WatchedVdisk)>,
    /// The contracts that guests' streams asked for and were granted.
    pub granted: Vec<Contract>,
}

/// A virtual disk, or a guest's stream, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedVdisk {
    /// The contract that the engine keeps, goals made reservations.
    pub contract: Contract,
    /// Requests that wait in the engine.
    pub waiting: u32,
    /// Pieces at the device.
    pub in_flight: u32,
    /// Whether a request waits, and neither limit nor depth forbids that it goes out.
    pub ready: bool,
}

/// A mount at one moment.
#[derive(Clone, Debug)]
pub struct WatchedMount {
    /// Its name and figures.
    pub view: Arc<MountView>,
    /// How many streams of each class it has.
    pub streams: BTreeMap<Class, usize>,
    /// All its streams as one: the sum of their reservations, requests and pieces.
    pub now: WatchedVdisk,
}

impl Shard {
    /// The engine's state now.
    pub(super) fn watched(&mut self, watch: Watch) -> WatchedDevice {
        let time = self.engine.device_time();
        let of = |stream| self.watched_stream(stream, watch);
        let vdisks = self.vdisks.known().filter_map(|(id, stream)| Some((id, of(stream)?)));
        let vdisks = vdisks.collect();
        let guests = self.turns.guests.streams();
        let guests_now = guests.filter_map(|it| Some((it.view.id, of(it.id)?))).collect();
        let granted = match watch {
            Watch::All => self.turns.guests.streams().map(|it| it.contract).collect(),
            Watch::Busy => Vec::new(),
        };
        WatchedDevice {
            busy: time.busy,
            spare: time.spare,
            held: time.held,
            depth: self.engine.depth(),
            in_flight: self.engine.in_flight(),
            reserved_ppm: self.reserved_ppm(),
            vdisks,
            guests: self.turns.guests.count(),
            mounts: self.watched_mounts(),
            guest_streams: self.turns.guests.views(),
            guests_now,
            granted,
        }
    }

    /// The sum of all reservations, those of guests among them, in parts per million.
    pub(super) fn reserved_ppm(&self) -> u64 {
        let vdisks = self.vdisks.known().map(|(_, stream)| stream);
        let guests = self.turns.guests.streams().map(|it| it.id);
        let reserve = |stream| {
            let spec = self.engine.stream(stream)?.spec();
            // A child's reservation is a part of its parent's.
            Some(if spec.parent.is_none() { spec.contract.reserve } else { Share::ZERO })
        };
        vdisks.chain(guests).filter_map(reserve).map(|it| u64::from(it.ppm())).sum()
    }

    fn watched_mounts(&self) -> Vec<WatchedMount> {
        let contract = Contract { reserve: Share::ZERO, ..Contract::default() };
        let none = WatchedVdisk { contract, waiting: 0, in_flight: 0, ready: false };
        let mount = |view: &Arc<MountView>| {
            let (view, streams) = (Arc::clone(view), BTreeMap::new());
            (view.id, WatchedMount { view, streams, now: none })
        };
        let mut mounts: BTreeMap<MountId, WatchedMount> =
            self.turns.guests.mounts().into_iter().map(mount).collect();
        for stream in self.turns.guests.streams() {
            let mount = mounts.get_mut(&stream.view.mount.id);
            let Some((mount, one)) = mount.zip(self.watched_stream(stream.id, Watch::All)) else {
                continue;
            };
            *mount.streams.entry(one.contract.class).or_default() += 1;
            let WatchedVdisk { contract, waiting, in_flight, ready } = &mut mount.now;
            let reserved = contract.reserve.ppm() + one.contract.reserve.ppm();
            contract.reserve = Share::from_ppm(reserved).unwrap_or(Share::FULL);
            *waiting += one.waiting;
            *in_flight += one.in_flight;
            *ready |= one.ready;
        }
        mounts.into_values().collect()
    }

    fn watched_stream(&self, stream: StreamId, watch: Watch) -> Option<WatchedVdisk> {
        let view = self.engine.stream(stream)?;
        let (waiting, in_flight) = (view.waiting(), view.in_flight());
        if watch == Watch::Busy && waiting == 0 && in_flight == 0 {
            return None;
        }
        Some(WatchedVdisk {
            contract: view.spec().contract,
            waiting,
            in_flight,
            ready: view.ready(),
        })
    }
}
