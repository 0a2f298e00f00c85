//! State of the engine as other threads ask for it: the device's time, and what each virtual disk waits
//! for at this moment.

use disktime_core::{Contract, Duration, Share};

use super::{Shard, VdiskId};

/// The virtual disks that are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// All.
    All,
    /// The virtual disks that have requests in the daemon at this moment.
    Busy,
}

/// A device's account of time since its start.
#[derive(Clone, PartialEq, Eq, Debug)]
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
}

/// A virtual disk at one moment.
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

impl Shard {
    /// The engine's state now.
    pub(super) fn watched(&self, watch: Watch) -> WatchedDevice {
        let time = self.engine.device_time();
        let mut reserved_ppm = 0;
        let of = |(id, stream)| {
            let view = self.engine.stream(stream)?;
            let spec = view.spec();
            // A child's reservation is a part of its parent's.
            let reserve = if spec.parent.is_none() { spec.contract.reserve } else { Share::ZERO };
            reserved_ppm += u64::from(reserve.ppm());
            let (waiting, in_flight) = (view.waiting(), view.in_flight());
            if watch == Watch::Busy && waiting == 0 && in_flight == 0 {
                return None;
            }
            let (contract, ready) = (spec.contract, view.ready());
            Some((id, WatchedVdisk { contract, waiting, in_flight, ready }))
        };
        let vdisks = self.vdisks.known().filter_map(of).collect();
        let guests = self.turns.guests.streams().filter_map(|stream| self.engine.stream(stream));
        reserved_ppm += guests.map(|it| u64::from(it.spec().contract.reserve.ppm())).sum::<u64>();
        WatchedDevice {
            busy: time.busy,
            spare: time.spare,
            held: time.held,
            depth: self.engine.depth(),
            in_flight: self.engine.in_flight(),
            reserved_ppm,
            vdisks,
        }
    }
}
