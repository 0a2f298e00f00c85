//! A device before its shard runs: opened, its virtual disks in their places, its profile read,
//! its contracts admitted. All that blocks happens here.

use std::path::Path;

use disktime_core::{Change, ChangeError, Engine, Event, Limits, Profile, StreamId, StreamSpec};

use crate::backend::faulty::{Fault, Faulty};
use crate::backend::{
    Abilities, BackEnd, BackEndKind, Export, FileBackEnd, MemoryBackEnd, OneFile,
};
use crate::buffers::ALIGN;
use crate::config::{DeviceConfig, VdiskConfig};
use crate::frontend::nbd::REQUESTS_MAX;
use crate::layout::{Extent, Record, RecordError};
use crate::profile;
use crate::server::StartError;
use crate::shard::{CONNECTIONS_MAX, CONNECTIONS_PER_VDISK_MAX};

/// A device's back end, opened, and where its virtual disks lie.
pub(crate) struct Opened {
    storage: Storage,
    pub(crate) ground: Ground,
    /// A layout that is to be recorded.
    new: Option<(Record, Vec<Extent>)>,
}

/// What admission knows of a device's virtual disks beside their contracts.
#[derive(Clone)]
pub(crate) struct Ground {
    /// First bytes of the virtual disks on the device, in the configuration's order.
    pub(crate) bases: Vec<u64>,
    /// The device's size in bytes, if its offsets are places.
    size: Option<u64>,
    profile: Option<Profile>,
}

/// A back end between its opening and its shard's thread, which it stays on.
enum Storage {
    Memory(MemoryBackEnd),
    File(FileBackEnd),
    /// With the virtual disks' extents of it.
    Nbd(Box<Export>, Vec<(u64, u64)>),
}

impl Opened {
    pub(crate) fn new(device: &DeviceConfig, state: Option<&Path>) -> Result<Self, StartError> {
        let named = |source| StartError::BackEnd { device: device.name.clone(), source };
        let mut opened = match &device.back_end {
            BackEndKind::Memory => {
                let sizes: Vec<u64> = device.vdisks.iter().map(|vdisk| vdisk.size).collect();
                Self::laid_out(device, Storage::Memory(MemoryBackEnd::new(&sizes)))
            }
            BackEndKind::File(path) => match OneFile::open(path).map_err(named)? {
                Some(file) => Self::in_one_file(device, &file, path, state),
                None => {
                    let disk = |vdisk: &'_ VdiskConfig| (vdisk.name.clone(), vdisk.size);
                    let disks: Vec<_> = device.vdisks.iter().map(disk).collect();
                    let disks: Vec<_> = disks.iter().map(|(name, size)| (&**name, *size)).collect();
                    let storage = FileBackEnd::open(path, &disks).map_err(named)?;
                    Self::laid_out(device, Storage::File(storage))
                }
            },
            BackEndKind::Raid0 { members, chunk } => {
                let file = OneFile::striped(members, *chunk).map_err(named)?;
                Self::in_one_file(device, &file, &members[0], state)
            }
            BackEndKind::Nbd { uri, connections } => {
                let export = Export::open(uri, *connections).map_err(named)?;
                let record = Record::of(Path::new(""), &device.name, state);
                let record = record.naming(device.back_end.identity());
                if state.is_none() {
                    let error = RecordError::Remote(uri.to_string());
                    return Err(StartError::Record { device: device.name.clone(), error });
                }
                Self::placed(device, export.size(), record, |extents| {
                    Storage::Nbd(Box::new(export), extents.to_vec())
                })
            }
        }?;
        device.check_zones(opened.ground.size)?;
        if let Some(path) = &device.profile {
            let found = profile::load(path, opened.ground.size);
            let found = found
                .map_err(|error| StartError::Profile { device: device.name.clone(), error })?;
            opened.ground.profile = Some(found);
        }
        Ok(opened)
    }

    /// Nothing of the back end says where a virtual disk is: it is where the emulated device, if
    /// there is one, has it.
    fn laid_out(device: &DeviceConfig, storage: Storage) -> Result<Self, StartError> {
        let layout = device.lay_out(device.room(), &[]);
        let layout =
            layout.map_err(|error| StartError::Layout { device: device.name.clone(), error })?;
        let ground = Ground::new(device, &layout, device.capacity());
        Ok(Self { storage, ground, new: None })
    }

    fn in_one_file(
        device: &DeviceConfig,
        file: &OneFile,
        path: &Path,
        state: Option<&Path>,
    ) -> Result<Self, StartError> {
        if file.block_device && state.is_none() {
            let error = RecordError::NoState(path.to_owned());
            return Err(StartError::Record { device: device.name.clone(), error });
        }
        let mut record = Record::of(path, &device.name, state);
        if matches!(device.back_end, BackEndKind::Raid0 { .. }) {
            record = record.naming(device.back_end.identity());
        }
        Self::placed(device, file.size, record, |extents| {
            Storage::File(FileBackEnd::extents(file, extents))
        })
    }

    /// The virtual disks are extents of a device of so many bytes, and stay where they are.
    fn placed(
        device: &DeviceConfig,
        size: u64,
        record: Record,
        storage: impl FnOnce(&[(u64, u64)]) -> Storage,
    ) -> Result<Self, StartError> {
        let of = |error| StartError::Record { device: device.name.clone(), error };
        let recorded = record.load().map_err(of)?;
        let blocks = size / ALIGN as u64 * ALIGN as u64;
        let room = device.capacity().unwrap_or(u64::MAX).min(blocks);
        let layout = device.lay_out(room, &recorded);
        let layout =
            layout.map_err(|error| StartError::Layout { device: device.name.clone(), error })?;
        let ground = Ground::new(device, &layout, Some(device.capacity().unwrap_or(size)));
        let sizes = device.vdisks.iter().map(|vdisk| vdisk.size);
        let extents: Vec<_> = ground.bases.iter().copied().zip(sizes).collect();
        let new = (layout != recorded).then_some((record, layout));
        Ok(Self { storage: storage(&extents), ground, new })
    }

    /// Records where new virtual disks lie, before any byte is written to them.
    pub(crate) fn record(&mut self, device: &str) -> Result<(), StartError> {
        let Some((record, layout)) = self.new.take() else { return Ok(()) };
        let of = |error| StartError::Record { device: device.to_owned(), error };
        record.save(&layout).map_err(of)
    }

    pub(crate) fn abilities(&self) -> Abilities {
        match &self.storage {
            Storage::Memory(back_end) => back_end.abilities(),
            Storage::File(back_end) => back_end.abilities(),
            Storage::Nbd(export, _) => export.abilities(),
        }
    }

    pub(crate) fn on_shard(self, faults: Vec<Fault>) -> Box<dyn BackEnd> {
        let back_end: Box<dyn BackEnd> = match self.storage {
            Storage::Memory(back_end) => Box::new(back_end),
            Storage::File(back_end) => Box::new(back_end),
            Storage::Nbd(export, extents) => Box::new(export.on_shard(&extents)),
        };
        if faults.is_empty() { back_end } else { Box::new(Faulty::new(back_end, faults)) }
    }
}

impl Ground {
    fn new(device: &DeviceConfig, layout: &[Extent], size: Option<u64>) -> Self {
        let base = |vdisk: &VdiskConfig| {
            let extent = layout.iter().find(|extent| extent.name == vdisk.name);
            extent.expect("every virtual disk was placed").start
        };
        Self { bases: device.vdisks.iter().map(base).collect(), size, profile: None }
    }

    /// An engine that has admitted these contracts; or why it does not, with virtual disks' names.
    pub(crate) fn engine(&self, device: &DeviceConfig) -> Result<Engine, String> {
        let connections = u32::try_from(CONNECTIONS_PER_VDISK_MAX).expect("a small constant");
        let shard = u32::try_from(CONNECTIONS_MAX).expect("a small constant");
        let queue_max = REQUESTS_MAX * connections;
        let limits = Limits {
            depth: device.queue_depth,
            depth_max: device.queue_depth.max(Limits::default().depth_max),
            requests_max: REQUESTS_MAX * shard,
            ..Limits::default()
        };
        let config = disktime_core::Config {
            policy: &device.policy,
            cost_model: &device.cost_model,
            limits,
            headroom: device.headroom,
            feedback: device.feedback,
            ..disktime_core::Config::default()
        };
        let mut engine = Engine::new(&config).map_err(|error| error.to_string())?;
        let now = crate::clock::now();
        let mut change = |change: Change<'_>| {
            engine.handle_change(now, change).map_err(|error| explain(&error, &device.vdisks))
        };
        if let Some(horizon) = device.horizon {
            change(Change::SetHorizon(horizon))?;
        }
        if let Some(profile) = &self.profile {
            change(Change::SetProfile(profile))?;
        }
        for ((id, vdisk), base) in (0..).map(StreamId).zip(&device.vdisks).zip(&self.bases) {
            let extent = self.size.map(|_| (*base, base + vdisk.size));
            let contract = vdisk.contract;
            let spec = StreamSpec { contract, queue_max, extent, ..StreamSpec::default() };
            change(Change::AddStream(id, spec))?;
        }
        while let Some(event) = engine.poll_event() {
            if let Event::Admitted(StreamId(at), contract) = event {
                let name = device.vdisks.get(at as usize).map(|vdisk| &vdisk.name);
                tracing::debug!(?name, ?contract, "admitted");
            }
        }
        Ok(engine)
    }
}

/// What the engine says, with virtual disks' names for its streams' numbers.
pub(crate) fn explain(error: &ChangeError, vdisks: &[VdiskConfig]) -> String {
    let text = error.to_string();
    let mut parts = text.split("stream ");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let vdisk = part[..digits].parse().ok().and_then(|at: usize| vdisks.get(at));
        match vdisk {
            Some(vdisk) => said.push_str(&format!("vdisk {}{}", vdisk.name, &part[digits..])),
            None => said.push_str(&format!("stream {part}")),
        }
    }
    said
}
