//! State of the engine as other threads ask for it: the device's time, and what each virtual disk waits
//! for at this moment.

use disktime_core::{Contract, Duration};

use super::{Shard, VdiskId};

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
    /// Its virtual disks, in the order of their identities.
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
    pub(super) fn watched(&self) -> WatchedDevice {
        let time = self.engine.device_time();
        let of = |(id, stream)| {
            let view = self.engine.stream(stream)?;
            let (contract, waiting) = (view.contract(), view.waiting());
            let (in_flight, ready) = (view.in_flight(), view.ready());
            Some((id, WatchedVdisk { contract, waiting, in_flight, ready }))
        };
        WatchedDevice {
            busy: time.busy,
            spare: time.spare,
            held: time.held,
            depth: self.engine.depth(),
            in_flight: self.engine.in_flight(),
            vdisks: self.vdisks.known().filter_map(of).collect(),
        }
    }
}
