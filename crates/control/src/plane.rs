//! Reads and changes of the server on behalf of the API, and of what is kept of them. Runs on the
//! thread that has the server; blocks at files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use disktime_api::{
    Contract, Device, DeviceSpec, Mount, MountStream, Plan, Promises, Server as About, Vdisk,
    VdiskChange, VdiskSpec,
};
use disktime_config::CLASSES;
use disktime_core::Class;
use disktime_server::config::{DeviceConfig, VdiskConfig};
use disktime_server::{
    AlterError, DeviceJob, GuestStreamView, OpenedDevice, Removal, Server, SnapshotJob, VdiskId,
    VdiskStats, VdiskView, Watch, WatchedDevice, WatchedMount, WatchedVdisk,
};

use crate::events::Events;
use crate::gate::Caller;
use crate::problem::Refusal;
use crate::sampler::{Sampler, Seen, fraction};
use crate::state::{Phase, StateError, Store};
use crate::tokens::Role;

/// Snapshots that are made at once, each on a thread of its own.
const SNAPSHOTS_MAX: usize = 4;

/// The place where devices, virtual disks and contracts are kept.
pub enum Truth {
    /// A configuration file, which nobody but its owner changes.
    File(PathBuf),
    /// A state directory.
    State(Store),
}

/// The control plane's part beside the server.
pub struct Plane {
    truth: Truth,
    events: Arc<Events>,
    /// Snapshots that are being made, by name.
    snapshots: BTreeMap<String, Snapshot>,
}

/// A snapshot that is being made.
struct Snapshot {
    of: VdiskSpec,
    spec: VdiskSpec,
    device: String,
    vdisk: VdiskConfig,
    by: Caller,
}

/// The first part of a snapshot.
pub enum Begun {
    /// The snapshot is there.
    Already(Box<VdiskSpec>),
    /// The snapshot's name, and the work of another thread before the last part.
    Job(String, Box<SnapshotJob>),
}

/// Whether something was made, or was there already as it was wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// It was made.
    New,
    /// It was there.
    Already,
}

impl Plane {
    /// The plane of a server that was started from this.
    pub fn new(truth: Truth, events: Arc<Events>) -> Self {
        Self { truth, events, snapshots: BTreeMap::new() }
    }

    /// Finishes what a crash has left half-way: data of virtual disks that nobody was told of, or that
    /// were to go, are given up.
    ///
    /// # Errors
    /// If the state can't be read or written.
    pub fn recover(&mut self, server: &mut Server) -> Result<(), Refusal> {
        let Truth::State(store) = &self.truth else { return Ok(()) };
        for spec in store.load()?.unfinished {
            if let Err(error) = server.discard(&spec.device, &spec.name) {
                tracing::warn!(vdisk = spec.name, %error, "what a crash has left of it stays");
                continue;
            }
            store.remove_vdisk(&spec.name)?;
            tracing::warn!(vdisk = spec.name, "what a crash has left of it is gone");
        }
        Ok(())
    }

    /// The daemon, as a caller of this role has it.
    pub fn about(&self, role: Role) -> About {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let reason = match (&self.truth, role) {
            (Truth::File(path), _) => Some(file_is_truth(path)),
            (Truth::State(_), Role::View) => {
                Some("you may look: your token is of role `view`".to_owned())
            }
            (Truth::State(_), Role::Operate) => None,
        };
        About { version, writable: reason.is_none(), reason, role: role.name().to_owned() }
    }

    fn store(&self) -> Result<&Store, Refusal> {
        match &self.truth {
            Truth::State(store) => Ok(store),
            Truth::File(path) => Err(Refusal::read_only(file_is_truth(path))),
        }
    }

    /// All devices.
    pub fn devices(&self, server: &Server) -> Vec<Device> {
        let specs = match &self.truth {
            Truth::State(store) => as_far_as_kept(store.devices()),
            Truth::File(_) => Vec::new(),
        };
        let watched = server.watch(Watch::Busy);
        let devices = server.config().devices.iter().zip(&watched).zip(server.devices());
        let device = |((device, watched), stats): (
            (&DeviceConfig, &Option<WatchedDevice>),
            &Arc<disktime_server::DeviceStats>,
        )| {
            let reserved = watched.as_ref().map_or(0.0, reserved);
            let headroom = fraction(device.scheduling.headroom);
            let time = |of: fn(&WatchedDevice) -> disktime_core::Duration| {
                watched.as_ref().map_or(0, |it| of(it).as_nanos())
            };
            Device {
                name: device.name.clone(),
                back_end: device.back_end.identity().display().to_string(),
                emulate: device.emulate.map(disktime_server::emulate::Emulate::name),
                vdisks: device.vdisks.len(),
                mounts: watched.as_ref().map_or(0, |it| it.guests),
                reserved,
                available: (1.0 - headroom - reserved).max(0.0),
                busy_ns: time(|it| it.busy),
                spare_ns: time(|it| it.spare),
                held_ns: time(|it| it.held),
                queue_depth: watched.as_ref().map_or(0, |it| it.depth),
                in_flight: watched.as_ref().map_or(0, |it| it.in_flight),
                cpu_ns: u64::try_from(stats.cpu().as_nanos()).unwrap_or(u64::MAX),
                spec: specs.iter().find(|spec| spec.name == device.name).cloned(),
            }
        };
        devices.map(device).collect()
    }

    /// A virtual disk as it was asked for, where that is kept.
    ///
    /// # Errors
    /// If the state can't be read.
    pub fn spec(&self, name: &str) -> Result<Option<VdiskSpec>, Refusal> {
        match &self.truth {
            Truth::State(store) => Ok(store.vdisk(name)?),
            Truth::File(_) => Ok(None),
        }
    }

    /// All virtual disks.
    pub fn vdisks(&self, server: &Server, sampler: &Sampler) -> Vec<Vdisk> {
        let watched = watched(server);
        let all = server.vdisks().iter().zip(server.config().vdisks());
        all.map(|(view, (_, config))| {
            shown(view, watched.get(&view.id()), &config.contract, sampler)
        })
        .collect()
    }

    /// The streams of all mounts that are guests of devices.
    pub fn mounts(&self, server: &Server, sampler: &Sampler) -> Vec<MountStream> {
        let devices = server.config().devices.iter().zip(server.watch(Watch::All));
        let of_device = |(device, watched): (&DeviceConfig, Option<WatchedDevice>)| {
            let watched = watched.map(|it| (it.guest_streams, it.guests_now));
            let (streams, now) = watched.unwrap_or_default();
            let now: BTreeMap<_, _> = now.into_iter().collect();
            let shown = |it: &Arc<GuestStreamView>| MountStream {
                name: it.name.clone(),
                kind: "mount".to_owned(),
                device: device.name.clone(),
                mount: it.mount.name.to_string(),
                stream: it.stream,
                contract: now.get(&it.id).map(|now| terms(&now.contract)).unwrap_or_default(),
                figures: disktime_api::Figures {
                    connections: 1,
                    ..figures((&it.stats, now.get(&it.id)), it.id, sampler)
                },
            };
            streams.iter().map(shown).collect::<Vec<_>>()
        };
        devices.flat_map(of_device).collect()
    }

    /// All mounts that are guests of devices, each with the sums of its streams.
    pub fn mount_sums(&self, server: &Server, sampler: &Sampler) -> Vec<Mount> {
        let devices = server.config().devices.iter().zip(server.watch(Watch::Busy));
        let of_device = |(device, watched): (&DeviceConfig, Option<WatchedDevice>)| {
            let mounts = watched.map_or_else(Vec::new, |it| it.mounts);
            let shown = |it: WatchedMount| Mount {
                name: it.view.name.to_string(),
                device: device.name.clone(),
                streams: it.streams.iter().map(|(it, count)| (class_name(*it), *count)).collect(),
                reserve: fraction(it.now.contract.reserve),
                granted: it.view.granted(),
                refused: it.view.refused(),
                figures: disktime_api::Figures {
                    connections: 1,
                    ..figures((&it.view.stats, Some(&it.now)), it.view.id, sampler)
                },
            };
            mounts.into_iter().map(shown).collect::<Vec<_>>()
        };
        devices.flat_map(of_device).collect()
    }

    /// A virtual disk, as it was asked for as well where that is kept.
    ///
    /// # Errors
    /// If it is not there.
    pub fn vdisk(&self, server: &Server, sampler: &Sampler, name: &str) -> Result<Vdisk, Refusal> {
        let at = server.vdisks().iter().position(|it| it.name == name);
        let (view, config) = at
            .and_then(|at| server.vdisks().get(at).zip(server.config().vdisks().nth(at)))
            .ok_or_else(|| Refusal::no_vdisk(name))?;
        let watched = watched(server);
        let vdisk = shown(view, watched.get(&view.id()), &config.1.contract, sampler);
        let spec = match &self.truth {
            Truth::State(store) => as_far_as_kept(store.vdisk(name)),
            Truth::File(_) => None,
        };
        Ok(Vdisk { spec, ..vdisk })
    }

    /// Begins to serve a device that was asked for: the work of another thread before the last part.
    /// Nothing if it is there as it is asked for.
    ///
    /// # Errors
    /// If it can't be used, or another one has its name.
    pub fn begin_device(
        &mut self,
        server: &mut Server,
        spec: &DeviceSpec,
    ) -> Result<Option<DeviceJob>, Refusal> {
        let store = self.store()?;
        let kept = store.devices()?.into_iter().find(|kept| kept.name == spec.name);
        if let Some(kept) = kept {
            return already(&kept, spec, "device", &spec.name).map(|_| None);
        }
        let config = server.config().check_device(&table(spec)?)?;
        Ok(Some(server.begin_device(config)?))
    }

    /// Serves a device that was opened.
    ///
    /// # Errors
    /// If it was not opened, or can't be served.
    pub fn end_device(
        &mut self,
        server: &mut Server,
        spec: &DeviceSpec,
        opened: Result<OpenedDevice, AlterError>,
        by: &Caller,
    ) -> Result<(), Refusal> {
        // A device that is opened and not kept is only forgotten by a crash: it has no virtual disk.
        server.end_device(&spec.name, opened)?;
        let store = self.store()?;
        if let Err(error) = store.put_device(spec) {
            server.remove_device(&spec.name)?;
            return Err(error.into());
        }
        self.tell(by, "created", ("device", &spec.name), (None, Some(said(spec))));
        Ok(())
    }

    /// Serves a device no longer.
    ///
    /// # Errors
    /// If it is not there, or has virtual disks.
    pub fn remove_device(
        &mut self,
        server: &mut Server,
        name: &str,
        by: &Caller,
    ) -> Result<(), Refusal> {
        let store = self.store()?;
        let kept = store.devices()?.into_iter().find(|kept| kept.name == name);
        if self.snapshots.values().any(|it| it.device == name) {
            let why =
                format!("device {name}: a snapshot is being made there: repeat this in a moment");
            return Err(Refusal::conflict(why));
        }
        let devices = &server.config().devices;
        let is_empty = devices.iter().any(|it| it.name == name && it.vdisks.is_empty());
        // The record first: a device that is served and not kept is only forgotten by a crash.
        let kept = kept.filter(|_| is_empty);
        if kept.is_some() {
            store.remove_device(name)?;
        }
        if let Err(error) = server.remove_device(name) {
            kept.iter().try_for_each(|kept| store.put_device(kept))?;
            return Err(error.into());
        }
        self.tell(by, "deleted", ("device", name), (kept.as_ref().map(said), None));
        Ok(())
    }

    /// Makes virtual disks that were asked for, each for itself; does nothing about those that are there
    /// as they are asked for. All are recorded by one transaction before, and by one after.
    ///
    /// # Errors
    /// If one can't be made, or another one has its name. A refusal of a contract says what would fit.
    pub fn put_vdisks(
        &mut self,
        server: &mut Server,
        wanted: &[(VdiskSpec, Caller)],
    ) -> Vec<Result<Made, Refusal>> {
        let mut names = BTreeSet::new();
        let mut outcomes: Vec<Option<Result<Made, Refusal>>> = Vec::with_capacity(wanted.len());
        let mut new = Vec::new();
        for (at, (spec, _)) in wanted.iter().enumerate() {
            if !names.insert(&*spec.name) {
                outcomes.push(None);
                continue;
            }
            outcomes.push(match self.checked(server, spec) {
                Ok(Some(checked)) => {
                    new.push((at, checked));
                    None
                }
                Ok(None) => Some(Ok(Made::Already)),
                Err(refusal) => Some(Err(refusal)),
            });
        }
        for (at, outcome) in self.make(server, wanted, new) {
            outcomes[at] = Some(outcome);
        }
        // A name that was asked for twice: what the first one of it has left.
        let again = |(at, outcome): (usize, Option<_>)| {
            outcome.unwrap_or_else(|| {
                let one = std::slice::from_ref(&wanted[at]);
                self.put_vdisks(server, one).pop().expect("one outcome of one")
            })
        };
        outcomes.into_iter().enumerate().map(again).collect()
    }

    /// A virtual disk that is to be made, checked; nothing if it is there.
    fn checked(
        &self,
        server: &Server,
        spec: &VdiskSpec,
    ) -> Result<Option<(String, VdiskConfig)>, Refusal> {
        self.store()?;
        server.is_not_leaving(&spec.name)?;
        if let Some(kept) = self.spec(&spec.name)? {
            return already(&kept, spec, "vdisk", &spec.name).map(|_| None);
        }
        if self.snapshots.contains_key(&spec.name) {
            let why = "a snapshot of that name is being made: repeat this once it is there";
            return Err(Refusal::conflict(format!("vdisk {}: {why}", spec.name)));
        }
        let (device, vdisk) = server.config().check_vdisk(&table(spec)?, None)?;
        if !server.is_vacant(&device, &spec.name)? {
            return Err(Refusal::conflict(format!(
                "vdisk {}: device {device} has data of that name which are of no virtual disk: choose \
                 another name, or move them away",
                spec.name
            )));
        }
        Ok(Some((device, vdisk)))
    }

    /// Makes those virtual disks of the ones that were asked for, by their places among these.
    fn make(
        &mut self,
        server: &mut Server,
        wanted: &[(VdiskSpec, Caller)],
        new: Vec<(usize, (String, VdiskConfig))>,
    ) -> Vec<(usize, Result<Made, Refusal>)> {
        if new.is_empty() {
            return Vec::new();
        }
        let specs = |places: &mut dyn Iterator<Item = usize>| {
            places.map(|at| &wanted[at].0).collect::<Vec<_>>()
        };
        let store = match self.store() {
            Ok(store) => store,
            Err(error) => return new.into_iter().map(|(at, _)| (at, Err(error.clone()))).collect(),
        };
        let creating = specs(&mut new.iter().map(|(at, _)| *at));
        if let Err(error) = store.settle(Phase::Creating, &creating, &[]) {
            let refusal = Refusal::from(error);
            return new.into_iter().map(|(at, _)| (at, Err(refusal.clone()))).collect();
        }
        // Nobody waits twice for a device that does not answer.
        let mut silent = BTreeSet::new();
        let add = |(at, (device, vdisk)): (usize, (String, VdiskConfig))| {
            let parent = vdisk.parent.clone();
            let added = if silent.contains(&device) {
                Err(AlterError::Silent(device.clone()))
            } else {
                server.add_vdisk(&device, vdisk).map(drop)
            };
            if let Err(AlterError::Silent(device)) = &added {
                silent.insert(device.clone());
            }
            let room = || room(server, &device, (parent.as_deref(), ""));
            let refused = |error| Refusal::with_room(error, room);
            (at, added.map(|()| Made::New).map_err(refused))
        };
        let mut made: Vec<_> = new.into_iter().map(add).collect();
        let of = |ok: bool| made.iter().filter(move |(_, it)| it.is_ok() == ok).map(|(at, _)| *at);
        let (ready, gone) = (specs(&mut of(true)), specs(&mut of(false)));
        if let Err(error) = store.settle(Phase::Ready, &ready, &gone) {
            // The callers are told that there are none. A start would give them up as well.
            let refusal = Refusal::from(error);
            for (at, outcome) in made.iter_mut().filter(|(_, outcome)| outcome.is_ok()) {
                let name = &wanted[*at].0.name;
                let undone = server.remove_vdisk(name).map_err(Refusal::from);
                *outcome = undone.and(Err(refusal.clone()));
                let _left_for_the_next_start = store.remove_vdisk(name);
            }
        }
        for (at, _) in made.iter().filter(|(_, outcome)| outcome.is_ok()) {
            let (spec, by) = &wanted[*at];
            self.tell(by, "created", ("vdisk", &spec.name), (None, Some(said(spec))));
        }
        made
    }

    /// Begins a snapshot of a virtual disk: another one with its data, of its size, best effort but for
    /// what is asked for.
    ///
    /// # Errors
    /// If there is no such virtual disk, the device can't make snapshots or can't keep the contract, or
    /// another virtual disk has the name.
    pub fn begin_snapshot(
        &mut self,
        server: &mut Server,
        of: &str,
        wish: VdiskChange,
        by: Caller,
    ) -> Result<Begun, Refusal> {
        let source = self.spec(of)?.ok_or_else(|| Refusal::no_vdisk(of))?;
        let spec = snapshot_spec(&source, wish)?;
        let store = self.store()?;
        if store.snapshot_of(&spec.name)?.as_deref() == Some(of)
            && let Some(kept) = store.vdisk(&spec.name)?
            // The first one may have another size by now.
            && kept == (VdiskSpec { size: kept.size.clone(), ..spec.clone() })
        {
            return Ok(Begun::Already(Box::new(kept)));
        }
        let Some((device, vdisk)) = self.checked(server, &spec)? else {
            let why = format!("vdisk {} is there already, and is no snapshot of {of}", spec.name);
            return Err(Refusal::conflict(format!("{why}: choose another name")));
        };
        if self.snapshots.len() >= SNAPSHOTS_MAX {
            return Err(Refusal::busy());
        }
        store.put_snapshot(&spec, Phase::Creating, of)?;
        let job = match server.begin_snapshot(of, &device, &vdisk) {
            Ok(job) => Box::new(job),
            Err(error) => {
                store.remove_vdisk(&spec.name)?;
                return Err(Refusal::with_room(error, || room(server, &device, (None, ""))));
            }
        };
        let name = spec.name.clone();
        let snapshot = Snapshot { of: source, spec, device, vdisk, by };
        self.snapshots.insert(name.clone(), snapshot);
        Ok(Begun::Job(name, job))
    }

    /// Serves a snapshot of that name that is made, or gives up one that could not be made.
    ///
    /// # Errors
    /// If it could not be made, or its device can't keep the contract any more.
    pub fn end_snapshot(
        &mut self,
        server: &mut Server,
        name: &str,
        made: Result<(), AlterError>,
    ) -> Result<VdiskSpec, Refusal> {
        let Some(it) = self.snapshots.remove(name) else { return Err(Refusal::busy()) };
        let Snapshot { of, spec, device, vdisk, by } = it;
        let store = self.store()?;
        let served = made.and_then(|()| server.add_vdisk(&device, vdisk).map(drop));
        let served = served
            .map_err(|error| Refusal::with_room(error, || room(server, &device, (None, ""))))
            .and_then(|()| Ok(store.put_snapshot(&spec, Phase::Ready, &of.name)?));
        if let Err(refusal) = served {
            // The caller is told that there is none. A start would give it up as well.
            let is_served = server.vdisks().iter().any(|it| it.name == name);
            let given_up =
                if is_served { server.remove_vdisk(name) } else { server.discard(&device, name) };
            match given_up {
                Ok(()) => store.remove_vdisk(name)?,
                Err(error) => {
                    tracing::warn!(vdisk = name, %error, "what there is of a snapshot stays until the next start");
                }
            }
            return Err(refusal);
        }
        self.tell(&by, "snapshot", ("vdisk", name), (Some(said(&of)), Some(said(&spec))));
        Ok(spec)
    }

    /// Changes a virtual disk, if it is still the one that the caller has seen; answers it as it is
    /// now.
    ///
    /// # Errors
    /// If it is not there, has changed meanwhile, or its device can't keep the contract: then the
    /// refusal says what would fit.
    pub fn change_vdisk(
        &mut self,
        server: &mut Server,
        name: &str,
        (change, seen): (VdiskChange, Option<&str>),
        by: &Caller,
    ) -> Result<VdiskSpec, Refusal> {
        let store = self.store()?;
        let before = self.spec(name)?.ok_or_else(|| Refusal::no_vdisk(name))?;
        server.is_not_leaving(name)?;
        // A change that can't be is refused as such, whatever the caller has seen.
        let moves = change.name.is_some() || change.shrink.is_some();
        let after = if moves { moved(&before, &change)? } else { change.of(&before) };
        let (device, vdisk) = server.config().check_vdisk(&table(&after)?, Some(name))?;
        let tag = tag(&before);
        if seen.is_some_and(|seen| seen != "*" && seen != tag) {
            return Err(Refusal::stale(name, &tag));
        }
        if moves {
            return self.move_vdisk(server, (&before, after), (&device, vdisk.size), by);
        }
        let size = size_of(server, name);
        if vdisk.size < size {
            return Err(Refusal::smaller(name, &after.size, size));
        }
        let refused = |server: &Server, error| {
            let parent = after.parent.as_deref();
            Refusal::with_room(error, || room(server, &device, (parent, name)))
        };
        let grows = vdisk.size > size;
        let larger = VdiskSpec { size: after.size.clone(), ..before.clone() };
        if grows {
            // A file or extent that is larger than this record says keeps a daemon from its start: after a crash
            // the next one goes on with the change, which must be one that can be.
            server.would_have(&device, &vdisk).map_err(|error| refused(server, error))?;
            store.begin_move(&before, &after)?;
        }
        if let Err(error) = server.alter_vdisk(&device, vdisk) {
            if grows {
                let is_larger = server.recorded_size(name).is_some_and(|bytes| bytes > size);
                store.leave(name, if is_larger { &larger } else { &before });
            }
            return Err(refused(server, error));
        }
        let kept = match grows {
            true => store.end_move(name, &after),
            false => store.put_vdisk(&after, Phase::Ready),
        };
        if let Err(error) = kept {
            // The caller is told that nothing has changed. A size stays: it is larger, and harms nobody.
            if grows {
                store.leave(name, &larger);
            }
            let (_, old) = server.config().check_vdisk(&table(&larger)?, Some(name))?;
            server.alter_vdisk(&device, old)?;
            return Err(error.into());
        }
        self.tell(by, "changed", ("vdisk", name), (Some(said(&before)), Some(said(&after))));
        Ok(after)
    }

    /// Gives a virtual disk another name, or makes it smaller.
    fn move_vdisk(
        &self,
        server: &mut Server,
        (before, after): (&VdiskSpec, VdiskSpec),
        (device, bytes): (&str, u64),
        by: &Caller,
    ) -> Result<VdiskSpec, Refusal> {
        let store = self.store()?;
        let renames = after.name != before.name;
        if renames && !server.is_vacant(device, &after.name)? {
            return Err(Refusal::conflict(format!(
                "name = \"{}\": device {device} has a virtual disk or data of that name: choose another",
                after.name
            )));
        }
        // A start after a crash makes what is recorded: a change that is refused must not be.
        if renames {
            server.may_rename(&before.name, &after.name)?;
        } else {
            server.may_shrink(&before.name, bytes)?;
        }
        store.begin_move(before, &after)?;
        let done = if renames {
            server.rename_vdisk(&before.name, &after.name)
        } else {
            server.shrink_vdisk(&before.name, bytes)
        };
        if let Err(error) = done {
            store.leave(&before.name, before);
            return Err(error.into());
        }
        if let Err(error) = store.end_move(&before.name, &after) {
            // The next start goes on with what is recorded; a name can be taken back now.
            if renames && store.put_vdisk(before, Phase::Ready).is_ok() {
                server.rename_vdisk(&after.name, &before.name)?;
            } else {
                store.leave(&before.name, &after);
            }
            return Err(error.into());
        }
        let (kind, of) = (if renames { "renamed" } else { "changed" }, ("vdisk", &*after.name));
        self.tell(by, kind, of, (Some(said(before)), Some(said(&after))));
        Ok(after)
    }

    /// Begins to serve a virtual disk no longer: its clients are let go. Answers it as it was asked for.
    ///
    /// # Errors
    /// If it is not there, has changed since the caller saw it, or has children.
    pub fn begin_removal(
        &mut self,
        server: &mut Server,
        (name, seen): (&str, Option<&str>),
    ) -> Result<(VdiskSpec, Removal), Refusal> {
        let store = self.store()?;
        let spec = self.spec(name)?.ok_or_else(|| Refusal::no_vdisk(name))?;
        let tag = tag(&spec);
        if seen.is_some_and(|seen| seen != "*" && seen != tag) {
            return Err(Refusal::stale(name, &tag));
        }
        store.put_vdisk(&spec, Phase::Deleting)?;
        match server.begin_removal(name) {
            Ok(removal) => Ok((spec, removal)),
            Err(error) => {
                store.leave(name, &spec);
                Err(error.into())
            }
        }
    }

    /// Gives up the data of a virtual disk whose clients were let go.
    ///
    /// # Errors
    /// If they are still there, or the system refuses.
    pub fn end_removal(
        &mut self,
        server: &mut Server,
        spec: &VdiskSpec,
        by: &Caller,
    ) -> Result<(), Refusal> {
        let (store, name) = (self.store()?, &*spec.name);
        if let Err(error) = server.end_removal(name) {
            // One that is served on must be there after the next start, too.
            if server.vdisks().iter().any(|it| it.name == name) {
                store.leave(name, spec);
            }
            return Err(error.into());
        }
        store.remove_vdisk(name)?;
        self.tell(by, "deleted", ("vdisk", name), (Some(said(spec)), None));
        Ok(())
    }

    /// Whether a virtual disk would fit, in place of the one of its name if there is one.
    ///
    /// # Errors
    /// If what is asked for can't be at all.
    pub fn plan(&self, server: &Server, spec: &VdiskSpec) -> Result<Plan, Refusal> {
        let (device, vdisk) = server.config().check_vdisk(&table(spec)?, Some(&spec.name))?;
        let would_fit = room(server, &device, (spec.parent.as_deref(), &spec.name));
        let reserve = fraction(vdisk.contract.reserve);
        Ok(match server.would_have(&device, &vdisk) {
            Ok(contract) => {
                let reserve = fraction(contract.reserve);
                Plan { fits: true, reason: None, reserve, would_fit }
            }
            Err(error) => Plan { fits: false, reason: Some(error.to_string()), reserve, would_fit },
        })
    }

    /// Says what was changed and by whom: in the log, and to those that wait for events.
    fn tell(
        &self,
        by: &Caller,
        kind: &str,
        of: (&str, &str),
        (before, after): (Option<String>, Option<String>),
    ) {
        let (who, what, name) = (&*by.who, of.0, of.1);
        tracing::info!(target: "disktime::audit", kind, what, name, who, before, after, "change");
        let text = [before, after].into_iter().flatten().collect::<Vec<_>>().join(" -> ");
        self.events.add(kind, of, (text, who));
    }
}

/// A virtual disk with another name or a smaller size, and nothing else.
fn moved(before: &VdiskSpec, change: &VdiskChange) -> Result<VdiskSpec, Refusal> {
    let alone = |kept: VdiskChange| {
        let detail = "`name` changes alone, and `shrink` is true and goes with `size` alone: ask for one \
                      change after the other";
        if *change == kept { Ok(()) } else { Err(Refusal::bad_request(detail.to_owned())) }
    };
    let (name, size) = (change.name.clone(), change.size.clone());
    if let Some(name) = name {
        alone(VdiskChange { name: Some(name.clone()), ..VdiskChange::default() })?;
        if name == before.name {
            return Err(Refusal::conflict(format!("name = \"{name}\": it has that name")));
        }
        return Ok(VdiskSpec { name, ..before.clone() });
    }
    let size = size.unwrap_or_default();
    let shrink = Some(true);
    alone(VdiskChange { size: Some(size.clone()), shrink, ..VdiskChange::default() })?;
    Ok(VdiskSpec { size, ..before.clone() })
}

/// A snapshot of a virtual disk, as it is wished.
fn snapshot_spec(of: &VdiskSpec, wish: VdiskChange) -> Result<VdiskSpec, Refusal> {
    let Some(name) = wish.name.clone() else {
        let why = "name: a snapshot is a virtual disk with a name of its own: give it one";
        return Err(Refusal::bad_request(why.to_owned()));
    };
    if wish.size.is_some() || wish.shrink.is_some() {
        let why = "size, shrink: a snapshot has the size of the virtual disk that it is of: leave them \
                   out, and change its size afterwards";
        return Err(Refusal::bad_request(why.to_owned()));
    }
    let (device, size) = (of.device.clone(), of.size.clone());
    Ok(wish.of(&VdiskSpec { name, device, size, ..VdiskSpec::default() }))
}

/// The size of a virtual disk as it is served.
fn size_of(server: &Server, name: &str) -> u64 {
    let vdisk = server.vdisks().iter().find(|it| it.name == name);
    vdisk.map_or(0, |it| it.stats.size())
}

fn file_is_truth(path: &std::path::Path) -> String {
    format!(
        "{} says what there is: edit that file, and send SIGHUP for contracts and larger sizes or start the \
         daemon anew for all else; or serve with --state and without --config",
        path.display()
    )
}

/// The records that are kept; none while the state can't be read: figures and contracts are shown
/// without them.
fn as_far_as_kept<T: Default>(kept: Result<T, StateError>) -> T {
    kept.unwrap_or_else(|error| {
        tracing::warn!(%error, "the state can't be read: what was asked for is left out");
        T::default()
    })
}

/// It is there: as it is asked for, or not.
fn already<T: PartialEq>(kept: &T, wanted: &T, what: &str, name: &str) -> Result<Made, Refusal> {
    if kept == wanted {
        return Ok(Made::Already);
    }
    Err(Refusal::conflict(format!(
        "{what} {name} is there already and was asked for in other words: change it, or choose another \
         name"
    )))
}

/// A wish as the configuration file would have it.
fn table<T: serde::Serialize>(spec: &T) -> Result<String, Refusal> {
    toml::to_string(spec).map_err(|error| Refusal::bad_request(error.to_string()))
}

/// The largest reservation on a device, or of a parent's there, beside all virtual disks but the one of
/// this name.
fn room(server: &Server, device: &str, (parent, but): (Option<&str>, &str)) -> f64 {
    let config = server.config();
    let Some(at) = config.devices.iter().position(|it| it.name == device) else { return 0.0 };
    if let Some(parent) = parent {
        let reserves = watched(server);
        let reserve = |name: &str| {
            let id = server.vdisks().iter().find(|it| it.name == name).map(VdiskView::id);
            id.and_then(|id| reserves.get(&id)).map_or(0.0, |it| fraction(it.contract.reserve))
        };
        let family = config.devices[at].vdisks.iter();
        let others = family.filter(|it| it.parent.as_deref() == Some(parent) && it.name != but);
        return (reserve(parent) - others.map(|it| reserve(&it.name)).sum::<f64>()).max(0.0);
    }
    let headroom = fraction(config.devices[at].scheduling.headroom);
    let other = server.vdisks().iter().find(|it| it.name == but).map(VdiskView::id);
    // Only what one of them has takes a look at all.
    let watch = if other.is_some() { Watch::All } else { Watch::Busy };
    let Some(watched) = server.watch(watch).into_iter().nth(at).flatten() else { return 0.0 };
    let own = watched.vdisks.iter().find(|(id, _)| Some(*id) == other);
    let own = own.map_or(0.0, |(_, it)| fraction(it.contract.reserve));
    (1.0 - headroom - (reserved(&watched) - own)).max(0.0)
}

fn reserved(device: &WatchedDevice) -> f64 {
    device.reserved_ppm as f64 / 1e6
}

/// The state of each virtual disk in the engines.
fn watched(server: &Server) -> BTreeMap<VdiskId, WatchedVdisk> {
    server.watch(Watch::All).into_iter().flatten().flat_map(|device| device.vdisks).collect()
}

fn shown(
    view: &VdiskView,
    now: Option<&WatchedVdisk>,
    configured: &disktime_core::Contract,
    sampler: &Sampler,
) -> Vdisk {
    let stats = &view.stats;
    let figures = figures((stats, now), view.id(), sampler);
    Vdisk {
        name: view.name.clone(),
        device: view.device.to_string(),
        size_bytes: stats.size(),
        contract: terms(now.map_or(configured, |now| &now.contract)),
        figures,
        uris: view.uris(),
        spec: None,
    }
}

/// The figures of a virtual disk, a mount, or a mount's stream.
fn figures(
    (stats, now): (&VdiskStats, Option<&WatchedVdisk>),
    id: impl Into<Seen>,
    sampler: &Sampler,
) -> disktime_api::Figures {
    let id = id.into();
    let mut figures = disktime_api::Figures {
        waiting: now.map_or(0, |now| now.waiting),
        in_flight: now.map_or(0, |now| now.in_flight),
        connections: stats.connections(),
        requests: stats.requests(),
        failed: stats.failed(),
        bytes: stats.bytes(),
        charged_ns: u64::try_from(stats.charged().as_nanos()).unwrap_or(u64::MAX),
        promises: Promises {
            promises_broken: stats.promises_broken(),
            cycles: stats.cycles(),
            cycles_missed: stats.cycles_missed(),
            deadlines_missed: stats.misses(),
        },
        ..disktime_api::Figures::default()
    };
    sampler.rates(id, &mut figures);
    figures.waited = sampler.waited(id).unwrap_or_default();
    figures
}

fn terms(contract: &disktime_core::Contract) -> Contract {
    Contract {
        reserve: fraction(contract.reserve),
        limit: fraction(contract.limit),
        weight: contract.weight,
        class: class_name(contract.class),
    }
}

fn class_name(class: Class) -> String {
    let known = CLASSES.into_iter().find(|(_, it)| *it == class);
    known.map_or_else(String::new, |(name, _)| name.to_owned())
}

/// A change's text for people and for the audit.
fn said<T: serde::Serialize>(spec: &T) -> String {
    serde_json::to_string(spec).unwrap_or_default()
}

/// The tag of a virtual disk as it was asked for: another one with each change. 64 bits by FNV-1a, which
/// need not withstand anybody.
pub fn tag(spec: &VdiskSpec) -> String {
    let hash = said(spec).bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests;
