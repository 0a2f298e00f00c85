//! Whether a virtual disk would fit: an engine of the device as it is admits it, beside all virtual disks
//! and the streams of guests, by the changes that the device's own engine would be asked for.

use disktime_config::Named;
use disktime_core::{Change, ChangeError, Contract, Engine, StreamId, StreamSpec};

use super::Server;
use super::live::{AlterError, is_alterable};
use crate::clock;
use crate::config::{ConfigError, DeviceConfig, VdiskConfig};
use crate::opened_device::Ground;
use crate::shard::{VdiskError, guest_spec};
use crate::start_error::StartError;

impl Server {
    /// The contract that a virtual disk would have on its device, beside all others there and the files of
    /// mounts; one of its name is replaced. Changes nothing.
    ///
    /// # Errors
    /// If there is no such device, or it has no room or can't keep the contract.
    pub fn would_have(&self, device: &str, vdisk: &VdiskConfig) -> Result<Contract, AlterError> {
        let at = self.device_at(device)?;
        let (now, ground) = (&self.config.devices[at], &self.grounds[at]);
        let place = now.vdisks.iter().position(|known| known.name == vdisk.name);
        let mut grown = now.clone();
        match place {
            Some(place) => {
                is_alterable(device, &now.vdisks[place], vdisk)?;
                grown.vdisks[place] = vdisk.clone();
            }
            None => grown.vdisks.push(vdisk.clone()),
        }
        grown.check_zones(ground.size())?;
        let layout = self.rooms[at].plan(&grown)?;
        let contracts = ground.contracts(&grown).map_err(ConfigError::from)?;
        let contract = contracts[place.unwrap_or(now.vdisks.len())];
        let refused = |error| StartError::Engine { device: device.to_owned(), error };
        let engine = ground.engine(now).map_err(|error| refused(Box::new(error)))?;
        let granted = self.watch_one(at)?.granted;
        let mut as_it_is = AsItIs { engine, ground, device: now, next: 0 };
        as_it_is.admit_guests(&granted);
        let admitted = match place {
            Some(place) => as_it_is.alter(place, contract, vdisk.size),
            None => {
                let base = layout.iter().find(|it| it.name == vdisk.name).map_or(0, |it| it.start);
                as_it_is.add(contract, (base, vdisk.size), vdisk)
            }
        };
        let named = |stream: StreamId| match now.vdisks.get(stream.0 as usize) {
            Some(known) => Named::new("vdisk", &known.name),
            None if stream.0 == as_it_is.next => Named::new("vdisk", &vdisk.name),
            None => Named::only("a file of a mount"),
        };
        let error = |error: ChangeError| VdiskError::Refused(error.renamed(named));
        let refused = |error| AlterError::Refused { device: device.to_owned(), error };
        admitted.map_err(error).map_err(refused)?;
        Ok(contract)
    }
}

/// An engine that has admitted what a device has.
struct AsItIs<'a> {
    engine: Engine,
    ground: &'a Ground,
    device: &'a DeviceConfig,
    /// The name of a stream that is not there: those below are virtual disks, the migration, guests' streams.
    next: u32,
}

impl AsItIs<'_> {
    fn change(&mut self, change: Change<'_>) -> Result<(), ChangeError> {
        self.engine.handle_change(clock::now(), change)
    }

    /// Admits the contracts of guests' streams, which the device has admitted.
    fn admit_guests(&mut self, granted: &[Contract]) {
        let known = self.device.vdisks.len() + usize::from(self.device.promotes());
        self.next = u32::try_from(known).expect("streams are bounded");
        for contract in granted {
            let spec = guest_spec(*contract, self.device.piece_max());
            let added = self.change(Change::AddStream(StreamId(self.next), spec));
            if let Err(error) = added {
                // One whose virtual disks have come or changed in the same moment.
                tracing::debug!(?contract, %error, "a granted contract is not granted again");
                continue;
            }
            self.next += 1;
        }
    }

    fn has_bound(&self) -> bool {
        let mut streams = (0..self.next).filter_map(|at| self.engine.stream(StreamId(at)));
        streams.any(|it| it.spec().contract.latency.is_some())
    }

    fn add(
        &mut self,
        contract: Contract,
        extent: (u64, u64),
        vdisk: &VdiskConfig,
    ) -> Result<(), ChangeError> {
        let bounded = contract.latency.is_some() || self.has_bound();
        let piece_max = self.device.piece_max().beside(bounded).into();
        let parent = self.device.parent_of(vdisk).and_then(|place| u32::try_from(place).ok());
        let spec = self.ground.spec(contract, extent, piece_max);
        let spec = StreamSpec { parent: parent.map(StreamId), ..spec };
        self.change(Change::AddStream(StreamId(self.next), spec))
    }

    fn alter(&mut self, place: usize, contract: Contract, bytes: u64) -> Result<(), ChangeError> {
        let stream = StreamId(u32::try_from(place).expect("streams are bounded"));
        self.change(Change::SetContracts(&[(stream, contract)]))?;
        if bytes > self.device.vdisks[place].size {
            let extent = self.ground.extent(self.ground.bases[place], bytes);
            self.change(Change::SetExtent(stream, extent))?;
        }
        Ok(())
    }
}
