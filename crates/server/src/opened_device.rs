//! A device before its shard runs: opened, its virtual disks in their places, its profile read,
//! its contracts admitted. All that blocks happens here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use disktime_config::{Named, ValueError};
use disktime_core::cost::{CostParameters, PriceList};
use disktime_core::{
    Change, ChangeError, Class, Contract, Duration, Engine, Event, Limits, StreamId, StreamSpec,
};
use disktime_profiler::{Priced, QUICK_BUDGET};

use crate::backend::{
    Abilities, BackEnd, BackEndKind, Export, FileBackEnd, MemoryBackEnd, OneFile, PoolDirectory,
    PoolError, TwoTiers, at,
};
use crate::broker;
use crate::config::{DeviceConfig, VdiskConfig};
use crate::emulate::Emulate;
use crate::frontend::nbd::REQUESTS_MAX;
use crate::layout::{Extent, Record, RecordError, Recorded};
use crate::place::{self, Before, Place, PlaceError};
use crate::probe::{self, ProbeError, ProbeOptions, Space};
use crate::room::{self, Room, misplaced, recorded_wrong, room};
use crate::seats::CLIENTS_MAX;
use crate::start_error::{StartError, Unfit};
use disktime_profiler::DeviceProfile;

/// How long a device may be silent when it is looked at before it serves.
const QUICK_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests alive at once: far more than the daemon's memory has room for, so that this is the bound
/// that nobody meets.
const REQUESTS_ALIVE: u32 = 1 << 24;

/// Where a device's layout is recorded, or its pool's identity; nothing of one in memory.
pub(crate) fn record_of(device: &DeviceConfig, state: Option<&Path>) -> Option<Record> {
    let of = |path: &Path| Record::of(path, &device.name, state);
    let identity = || device.back_end.identity();
    Some(match &device.back_end {
        BackEndKind::Memory => return None,
        BackEndKind::File(path) => of(path),
        BackEndKind::Raid0 { members, .. } => of(&members[0]).naming(identity()),
        BackEndKind::Tiered { slow, .. } => of(slow).naming(identity()),
        BackEndKind::Nbd { .. } => of(Path::new("")).naming(identity()),
    })
}

/// A device's back end, opened, and where its virtual disks lie.
pub(crate) struct Opened {
    pub(crate) storage: Storage,
    pub(crate) ground: Ground,
    pub(crate) room: Room,
    /// The record that is to be written.
    new: Option<(Record, Recorded)>,
    /// Sizes in bytes of the virtual disks that were there before, by name, where their data last.
    pub(crate) found: Option<BTreeMap<String, u64>>,
}

/// Facts that admission knows of a device's virtual disks beside their contracts.
#[derive(Clone)]
pub(crate) struct Ground {
    /// First bytes of the virtual disks on the device, in the configuration's order.
    pub(crate) bases: Vec<u64>,
    /// The device's size in bytes, if its offsets are places.
    size: Option<u64>,
    profile: Option<DeviceProfile>,
    /// The cost table of the quick probe, where the device has no profile.
    anchor: Option<PriceList>,
    /// Pieces at the device at once.
    depth: u32,
    /// Abilities of the back end, which virtual disks that come later have as well.
    pub(crate) abilities: Abilities,
}

/// A back end between its opening and its shard's thread, which it stays on.
pub(crate) enum Storage {
    /// With the virtual disks' sizes in bytes.
    Memory(Vec<u64>),
    File(FileBackEnd),
    /// With the virtual disks' extents of it.
    Nbd(Box<Export>, Vec<(u64, u64)>),
    /// As well, and whether extents are moved.
    Tiered(Box<TwoTiers>, Vec<(u64, u64)>, bool),
}

impl Opened {
    pub(crate) fn new(device: &DeviceConfig, state: Option<&Path>) -> Result<Self, StartError> {
        let named = |error| StartError::BackEnd { device: device.name.clone(), error };
        let mut opened = match &device.back_end {
            BackEndKind::Memory => {
                let sizes: Vec<u64> = device.vdisks.iter().map(|vdisk| vdisk.size).collect();
                let memory = Storage::Memory(sizes);
                Self::laid_out(device, memory, room::Ground::Memory)
            }
            BackEndKind::File(path) => Self::at_path(device, path, state),
            BackEndKind::Raid0 { members, chunk } => {
                Self::all_there(device, members, &members[0], state)?;
                let file = OneFile::striped(members, *chunk).map_err(named)?;
                Self::in_one_file(device, file, &members[0], state)
            }
            BackEndKind::Tiered { fast, slow } => {
                Self::all_there(device, &[fast.clone(), slow.clone()], slow, state)?;
                let emulated = device.emulate.and_then(Emulate::fast_bytes);
                let tiers = TwoTiers::open(fast, slow, emulated).map_err(named)?;
                if tiers.block_device && state.is_none() {
                    let error = RecordError::NoState(slow.clone());
                    return Err(StartError::Record { device: device.name.clone(), error });
                }
                tiers.hold(&device.vdisk_names());
                // An empty one that stays so can be taken away.
                let leaves = device.empties_fast && tiers.promoted() == 0;
                let tiers = if device.empties_fast { tiers.emptying() } else { tiers };
                let record = Record::of(slow, &device.name, state);
                let record = record.naming(device.back_end.identity());
                let record = if leaves { record } else { record.mapped() };
                Self::placed(device, tiers.size(), record, |extents| {
                    Storage::Tiered(Box::new(tiers), extents.to_vec(), device.promotes())
                })
            }
            BackEndKind::Nbd { uri, connections, hold } => {
                let hold = hold.map(|hold| std::time::Duration::from_nanos(hold.as_nanos()));
                let export = Export::open(uri, *connections).map_err(named)?.with_hold(hold);
                if !export.can_flush() {
                    tracing::warn!(
                        device = device.name,
                        server = %uri,
                        "this server has no FLUSH: disktime can't promise that anything survives \
                         the server's end, whatever clients flush"
                    );
                }
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
        opened.ground.read_profile(device)?;
        Ok(opened)
    }

    /// A directory of raw files, a file or a block device; or an error that says what was expected.
    fn at_path(
        device: &DeviceConfig,
        path: &Path,
        state: Option<&Path>,
    ) -> Result<Self, StartError> {
        let named = |error| StartError::BackEnd { device: device.name.clone(), error };
        let failed = |error| misplaced(device, error);
        let record = Record::of(path, &device.name, state);
        let recorded = record.load().map_err(recorded_wrong(device))?;
        let before = Before { record: record.path(), recorded: &recorded };
        let found = place::find(path, device.create, &before, PoolDirectory::open);
        let pool = match found.map_err(failed)? {
            Place::Pool(pool) => pool,
            Place::New => place::make(path).map_err(failed)?,
            Place::OneFile => {
                let file = OneFile::open(path).map_err(|error| named(at(path, &error)))?;
                let file = file.ok_or_else(|| failed(PlaceError::Strange { path: path.into() }))?;
                return Self::in_one_file(device, file, path, state);
            }
        };
        let now = Recorded { pool: Some(pool.id().to_owned()), ..recorded.clone() };
        let new = (now != recorded).then_some((record, now));
        Self::in_pool(device, pool, new)
    }

    /// Each virtual disk has a file of its own.
    fn in_pool(
        device: &DeviceConfig,
        pool: PoolDirectory,
        new: Option<(Record, Recorded)>,
    ) -> Result<Self, StartError> {
        let of = |error: PoolError| misplaced(device, error.into());
        let disks: Vec<_> = device.vdisks.iter().map(|vdisk| (&*vdisk.name, vdisk.size)).collect();
        let found = pool.disks().map(|disk| (disk.name, disk.size)).collect();
        let (back_end, growing) = pool.serve(&disks).map_err(of)?;
        let ground = room::Ground::Pool(growing);
        let opened = Self::laid_out(device, Storage::File(back_end), ground)?;
        Ok(Self { new, found: Some(found), ..opened })
    }

    /// Sees that all members or tiers are there, before any is opened.
    fn all_there(
        device: &DeviceConfig,
        paths: &[PathBuf],
        at: &Path,
        state: Option<&Path>,
    ) -> Result<(), StartError> {
        let record = Record::of(at, &device.name, state).naming(device.back_end.identity());
        let recorded = record.load().map_err(recorded_wrong(device))?;
        let before = Before { record: record.path(), recorded: &recorded };
        let there = paths.iter().try_for_each(|path| place::must_be_there(path, &before));
        let there = there.and_then(|()| match &device.back_end {
            BackEndKind::Tiered { fast, .. } => place::must_have_map(fast, &before),
            _ => Ok(()),
        });
        there.map_err(|error| misplaced(device, error))
    }

    /// Nothing of the back end says where a virtual disk is: it is where the emulated device, if
    /// there is one, has it.
    fn laid_out(
        device: &DeviceConfig,
        storage: Storage,
        on: room::Ground,
    ) -> Result<Self, StartError> {
        let layout = device.lay_out(device.room(), &[]);
        let layout =
            layout.map_err(|error| StartError::Layout { device: device.name.clone(), error })?;
        let ground = Ground::new(device, &layout, device.capacity());
        // Without places on a device nobody asks where an extent lies.
        let layout = if device.capacity().is_some() { layout } else { Vec::new() };
        Ok(Self { storage, ground, room: Room { layout, ground: on }, new: None, found: None })
    }

    fn in_one_file(
        device: &DeviceConfig,
        file: OneFile,
        path: &Path,
        state: Option<&Path>,
    ) -> Result<Self, StartError> {
        if file.block_device && state.is_none() {
            let error = RecordError::NoState(path.to_owned());
            return Err(StartError::Record { device: device.name.clone(), error });
        }
        file.hold(&device.vdisk_names());
        let mut record = Record::of(path, &device.name, state);
        if matches!(device.back_end, BackEndKind::Raid0 { .. }) {
            record = record.naming(device.back_end.identity());
        }
        let size = file.size;
        let mut opened = Self::placed(device, size, record, |extents| {
            Storage::File(FileBackEnd::extents(&file, extents))
        })?;
        if let room::Ground::Extents(_, size) = &mut opened.room.ground {
            *size = room::Size::Of(file);
        }
        Ok(opened)
    }

    /// The virtual disks are extents of a device of so many bytes, and stay where they are.
    fn placed(
        device: &DeviceConfig,
        size: u64,
        record: Record,
        storage: impl FnOnce(&[(u64, u64)]) -> Storage,
    ) -> Result<Self, StartError> {
        let recorded = record.load().map_err(recorded_wrong(device))?.extents;
        let layout = device.lay_out(room(device, size), &recorded);
        let layout =
            layout.map_err(|error| StartError::Layout { device: device.name.clone(), error })?;
        let ground = Ground::new(device, &layout, Some(device.capacity().unwrap_or(size)));
        let sizes = device.vdisks.iter().map(|vdisk| vdisk.size);
        let extents: Vec<_> = ground.bases.iter().copied().zip(sizes).collect();
        // A file that becomes a tier is recorded as one: without the other it has old data.
        let tier = matches!(device.back_end, BackEndKind::Tiered { .. });
        let new = (tier || layout != recorded)
            .then(|| (record.clone(), Recorded { extents: layout.clone(), ..Recorded::default() }));
        let on = room::Ground::Extents(record, room::Size::Is(size));
        let room = Room { layout, ground: on };
        // One that is placed anew has bytes of others, whatever was known of one of its name.
        let found = recorded.into_iter().map(|extent| (extent.name, extent.size)).collect();
        Ok(Self { storage: storage(&extents), ground, room, new, found: Some(found) })
    }

    /// Records where new virtual disks lie, before any byte is written to them.
    pub(crate) fn record(&mut self, device: &DeviceConfig) -> Result<(), StartError> {
        let Some((record, recorded)) = self.new.take() else { return Ok(()) };
        record.save(&recorded).map_err(recorded_wrong(device))
    }

    /// Looks at the device for a moment, on a thread of its own and without a write, if that is
    /// configured: what requests cost is where the cost model starts. If it can't be found out, the
    /// model starts from nothing.
    pub(crate) fn look(&mut self, device: &DeviceConfig) {
        // A device without virtual disks has no bytes to be read.
        if !device.scheduling.quick_profile || device.vdisks.is_empty() {
            return;
        }
        let name = &device.name;
        match self.price(device) {
            Ok(Some(Priced { prices, speeds, .. })) => {
                let depth = device.scheduling.queue_depth.on(Some(speeds.fast_from()));
                tracing::info!(device = name, depth, ?prices, "quick profile");
                (self.ground.anchor, self.ground.depth) = (Some(prices), depth);
            }
            Ok(None) => {
                tracing::info!(
                    device = name,
                    "no quick profile: its files hold next to nothing yet"
                );
            }
            Err(error) => {
                tracing::warn!(device = name, %error, "no quick profile: costs start from nothing");
            }
        }
    }

    /// `None` if there is nothing to look at.
    fn price(&mut self, device: &DeviceConfig) -> Result<Option<Priced>, ProbeError> {
        let hollow = matches!(&self.storage, Storage::File(back_end) if back_end.is_hollow());
        // The cost of a request on tiers depends on which tier has its data.
        if (hollow && device.emulate.is_none()) || matches!(&self.storage, Storage::Tiered(..)) {
            return Ok(None);
        }
        let extents: Vec<(u64, u64)> = self.extents(device).collect();
        let spaces = (0..).zip(&extents);
        let spaces = spaces.map(|(disk, (base, bytes))| Space { disk, base: *base, bytes: *bytes });
        let spaces: Vec<Space> = spaces.collect();
        let options = ProbeOptions {
            writes: false,
            depth_max: device.scheduling.queue_depth.most(),
            budget: QUICK_BUDGET,
            thorough: false,
            timeout: QUICK_TIMEOUT,
        };
        let emulate = device.emulate;
        let storage = &mut self.storage;
        let run = || match storage {
            Storage::Memory(sizes) => {
                let mut back_end = MemoryBackEnd::new(sizes);
                probe::price(&mut back_end, emulate, &spaces, &options, |_| {})
            }
            Storage::File(back_end) => probe::price(back_end, emulate, &spaces, &options, |_| {}),
            Storage::Tiered(..) => unreachable!("tiers are not looked at"),
            // Its connections belong to the shard's ring.
            Storage::Nbd(export, _) => {
                let back_end = export.again(QUICK_TIMEOUT).map_err(ProbeError::Open)?;
                let mut back_end = back_end.on_shard(&extents);
                probe::price(&mut back_end, emulate, &spaces, &options, |_| {})
            }
        };
        let priced = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("probe".to_owned());
            let thread = thread.spawn_scoped(scope, run).map_err(ProbeError::System)?;
            let panicked = |_| ProbeError::System(std::io::Error::other("the probe panicked"));
            thread.join().map_err(panicked)?
        })?;
        Ok(Some(priced))
    }

    /// First byte and size of each virtual disk.
    fn extents(&self, device: &DeviceConfig) -> impl Iterator<Item = (u64, u64)> {
        let sizes = device.vdisks.iter().map(|vdisk| vdisk.size);
        self.ground.bases.iter().copied().zip(sizes)
    }

    pub(crate) fn abilities(&self) -> Abilities {
        match &self.storage {
            Storage::Memory(_) => MemoryBackEnd::ABILITIES,
            Storage::File(back_end) => back_end.abilities(),
            Storage::Nbd(export, _) => export.abilities(),
            Storage::Tiered(tiers, ..) => tiers.abilities(),
        }
    }
}

impl Storage {
    /// The back end, on its shard's thread.
    pub(crate) fn on_shard(self) -> Box<dyn BackEnd> {
        match self {
            Self::Memory(sizes) => Box::new(MemoryBackEnd::new(&sizes)),
            Self::File(back_end) => Box::new(back_end),
            Self::Nbd(export, extents) => Box::new(export.on_shard(&extents)),
            Self::Tiered(tiers, extents, promotes) => Box::new(tiers.on_shard(&extents, promotes)),
        }
    }
}

impl Ground {
    fn new(device: &DeviceConfig, layout: &[Extent], size: Option<u64>) -> Self {
        let starts = layout.iter().map(|extent| (&*extent.name, extent.start));
        let starts: BTreeMap<&str, u64> = starts.collect();
        let base =
            |it: &VdiskConfig| *starts.get(&*it.name).expect("every virtual disk was placed");
        let bases = device.vdisks.iter().map(base).collect();
        let depth = device.scheduling.queue_depth.on(None);
        let abilities = Abilities::PLAIN;
        Self { bases, size, profile: None, anchor: None, depth, abilities }
    }

    /// The ground of a back end that is not opened, from its size (if virtual disks have places on it)
    /// and its recorded extents.
    pub(crate) fn examined(
        device: &DeviceConfig,
        size: Option<u64>,
        recorded: &[Extent],
    ) -> Result<Self, StartError> {
        let room = size.map_or_else(|| device.room(), |size| room(device, size));
        let layout = device.lay_out(room, recorded);
        let layout =
            layout.map_err(|error| StartError::Layout { device: device.name.clone(), error })?;
        let mut ground = Self::new(device, &layout, device.capacity().or(size));
        device.check_zones(ground.size)?;
        ground.read_profile(device)?;
        Ok(ground)
    }

    /// Reads what the device does, if a file says so.
    fn read_profile(&mut self, device: &DeviceConfig) -> Result<(), StartError> {
        let Some(path) = &device.scheduling.profile else { return Ok(()) };
        let found = DeviceProfile::load(path, self.size);
        let found =
            found.map_err(|error| StartError::Profile { device: device.name.clone(), error })?;
        self.know(device, found);
        Ok(())
    }

    /// Goes by a profile of the device from now on.
    fn know(&mut self, device: &DeviceConfig, profile: DeviceProfile) {
        self.depth = device.scheduling.queue_depth.on(Some(profile.fast_from()));
        self.profile = Some(profile);
    }

    /// Where a virtual disk of so many bytes lies, if its device's offsets are places.
    pub(crate) fn extent(&self, base: u64, bytes: u64) -> Option<(u64, u64)> {
        self.size.map(|_| (base, base + bytes))
    }

    /// Goes by what a quick probe has found before.
    pub(crate) fn look_like(&mut self, prices: PriceList, depth: u32) {
        tracing::info!(depth, ?prices, "quick profile of the predecessor");
        (self.anchor, self.depth) = (Some(prices), depth);
    }

    /// The device's size in bytes, if its offsets are places.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Pieces at the device at once.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The cost table of the quick probe.
    pub(crate) fn anchor(&self) -> Option<&PriceList> {
        self.anchor.as_ref()
    }

    /// The contracts, with reservations for those that have a goal; or why one has none.
    pub(crate) fn contracts(&self, device: &DeviceConfig) -> Result<Vec<Contract>, ValueError> {
        broker::contracts(device, self.profile.as_ref())
    }

    /// The stream of a virtual disk that begins at a place and has so many bytes.
    pub(crate) fn spec(
        &self,
        contract: Contract,
        (base, bytes): (u64, u64),
        piece_bytes_max: u64,
    ) -> StreamSpec {
        let clients = u32::try_from(CLIENTS_MAX).expect("a small constant");
        let (queue_max, extent) = (REQUESTS_MAX * clients, self.extent(base, bytes));
        StreamSpec { contract, queue_max, extent, piece_bytes_max, ..StreamSpec::default() }
    }

    /// An engine that has admitted these contracts; or why it does not, with virtual disks' names.
    pub(crate) fn engine(&self, device: &DeviceConfig) -> Result<Engine, Unfit> {
        let limits = Limits {
            depth: self.depth,
            depth_max: self.depth.max(Limits::default().depth_max),
            requests_max: REQUESTS_ALIVE,
            ..Limits::default()
        };
        let cost = CostParameters { anchor: self.anchor, ..CostParameters::default() };
        let mut engine = Engine::new(&device.scheduling.engine(limits, cost))?;
        let now = crate::clock::now();
        let mut change = |change: Change<'_>| {
            let named = |error: ChangeError| error.renamed(|stream| stream_name(device, stream));
            engine.handle_change(now, change).map_err(named)
        };
        device.scheduling.changes().try_for_each(&mut change)?;
        if let Some(known) = &self.profile {
            change(Change::SetProfile(&known.profile))?;
        }
        let contracts = self.contracts(device)?;
        let bounded = contracts.iter().any(|contract| contract.latency.is_some());
        let piece_max = device.piece_max().beside(bounded).into();
        let vdisks = device.vdisks.iter().zip(contracts).zip(&self.bases);
        for (id, ((vdisk, contract), base)) in (0..).map(StreamId).zip(vdisks) {
            let place = device.parent_of(vdisk).and_then(|place| u32::try_from(place).ok());
            let spec = self.spec(contract, (*base, vdisk.size), piece_max);
            let spec = StreamSpec { parent: place.map(StreamId), ..spec };
            change(Change::AddStream(id, spec))?;
        }
        if device.promotes() {
            let migration =
                StreamId(u32::try_from(device.vdisks.len()).expect("streams are bounded"));
            let contract = Contract {
                limit: device.promotion,
                class: Class::Background,
                // A migration that has waited for long is best effort: see `shard/migration.rs`.
                weight: 1,
                ..Contract::default()
            };
            // A piece at a time: each copies what the one before has left.
            let spec = StreamSpec { contract, depth_max: 1, ..StreamSpec::default() };
            change(Change::AddStream(migration, spec))?;
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

/// An engine that has admitted a device's contracts by its profile, wherever its virtual disks lie.
pub(crate) fn admitted(device: &DeviceConfig, profile: &DeviceProfile) -> Result<Engine, Unfit> {
    let bases = vec![0; device.vdisks.len()];
    let depth = device.scheduling.queue_depth.on(Some(profile.fast_from()));
    let profile = Some(profile.clone());
    let abilities = Abilities::PLAIN;
    Ground { bases, size: None, profile, anchor: None, depth, abilities }.engine(device)
}

/// A stream by the name of its virtual disk; the one behind them is the device's own, for migration.
fn stream_name(device: &DeviceConfig, StreamId(at): StreamId) -> Named {
    match device.vdisks.get(at as usize) {
        Some(vdisk) => Named::new("vdisk", &vdisk.name),
        None => Named::new("the migration of device", &device.name),
    }
}

#[cfg(test)]
mod tests {
    use disktime_core::{Kind, Request, RequestId};

    use super::*;
    use crate::Config;

    #[test]
    fn a_virtual_disk_with_a_parent_is_its_child_in_the_engine() {
        let text = "[server]\nnbd = [\"unix:/nowhere\"]\n[[device]]\nname = \"d\"\n\
                    back_end = \"memory\"\n[[vdisk]]\nname = \"v\"\ndevice = \"d\"\n\
                    size = \"8MiB\"\nreserve = \"60%\"\n[[vdisk]]\nname = \"w\"\n\
                    device = \"d\"\nsize = \"8MiB\"\nreserve = \"50%\"\nparent = \"v\"\n";
        let engine = |text: &str| {
            let config = Config::parse(text).unwrap();
            let (bases, abilities) = (vec![0, 8 << 20], Abilities::PLAIN);
            let ground =
                Ground { bases, size: None, profile: None, anchor: None, depth: 1, abilities };
            ground.engine(&config.devices[0])
        };
        let child = engine(text).unwrap().stream(StreamId(1)).unwrap().spec();
        assert_eq!(child.parent, Some(StreamId(0)));
        let refused = engine(&text.replace("50%", "70%")).err().unwrap().to_string();
        let says = "the children of vdisk v would reserve 70.0000% of the device, 60% fit";
        assert!(refused.starts_with(says), "{refused}");
    }

    /// Pieces of 1 MiB on `memory` kept everybody else waiting for a copy of 300 us; no test noticed
    /// that they are shorter where the shard copies itself, and only there.
    #[test]
    fn pieces_are_short_where_the_shard_does_the_work() {
        for (device, expected) in [
            ("back_end = \"memory\"", 128 << 10),
            ("back_end = \"memory\"\nemulate = \"deskstar-34gxp\"", 1 << 20),
            ("back_end = \"file:/nowhere\"", 1 << 20),
        ] {
            let text = format!(
                "[server]\nnbd = [\"unix:/nowhere\"]\n[[device]]\nname = \"d\"\n{device}\n\
                 [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"8MiB\"\n"
            );
            let config = Config::parse(&text).unwrap();
            let (id, bytes, now) = (RequestId(1), 4 << 20, crate::clock::now());
            let ground = Ground {
                bases: vec![0],
                size: None,
                profile: None,
                anchor: None,
                depth: 1,
                abilities: Abilities::PLAIN,
            };
            let mut engine = ground.engine(&config.devices[0]).unwrap();
            let (stream, kind) = (StreamId(0), Kind::Read);
            let request = Request {
                id,
                stream,
                kind,
                offset: 0,
                bytes,
                fua: false,
                class: None,
                deadline: None,
            };
            engine.handle_arrival(now, request).unwrap();
            let piece = engine.poll_dispatch(now).unwrap();
            assert_eq!(piece.bytes, expected, "{device}");
        }
    }

    /// Bitmaps of a virtual disk whose bytes were given up were taken for those of one of its name that was placed
    /// later: an incremental backup left all of it out.
    #[test]
    fn a_virtual_disk_that_is_placed_anew_had_no_bytes_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
        let text = format!(
            "[server]\nnbd = [\"unix:/nowhere\"]\n[[device]]\nname = \"d\"\n\
             back_end = \"file:{}\"\n[[vdisk]]\nname = \"v\"\ndevice = \"d\"\n\
             size = \"8MiB\"\n",
            path.display()
        );
        let config = Config::parse(&text).unwrap();
        let start = || {
            let mut opened = Opened::new(&config.devices[0], Some(directory.path())).unwrap();
            opened.record(&config.devices[0]).unwrap();
            opened.found.unwrap().remove("v")
        };
        assert_eq!([start(), start()], [None, Some(8 << 20)]);
        std::fs::remove_file(directory.path().join("d.layout.toml")).unwrap();
        assert_eq!(start(), None);
    }
}
