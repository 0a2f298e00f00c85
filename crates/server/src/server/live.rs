//! Virtual disks that come and go while the daemon runs. Blocks, at files: shards go on meanwhile.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Select};

use super::{ReloadError, Server, TIMEOUT, VdiskView};
use crate::config::{Change, Config, ConfigError, VdiskConfig, vdisk_changes};
use crate::desk::Entry;
use crate::shard::{
    DRAIN, Message, NewVdisk, ShardHandle, VdiskError, VdiskId, Watch, WatchedDevice,
};
use crate::start_error::StartError;

/// Why a device or virtual disk did not come, change or go. Nothing has changed, unless an error says
/// so.
#[derive(Debug, thiserror::Error)]
pub enum AlterError {
    /// No device has this name.
    #[error("no device {name}; there are: {}", known.join(", "))]
    NoDevice {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// No virtual disk has this name.
    #[error("no virtual disk {0}: `disktime vdisk list` shows those that there are")]
    NoVdisk(String),
    /// A device or virtual disk has this name.
    #[error("{what} {name} is there already: choose another name")]
    Taken {
        /// `device` or `vdisk`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A device of this name, or too many others, are being opened.
    #[error(
        "device {0}: it is being opened, or {most} others are: repeat this in a moment",
        most = super::devices::COMING_MAX
    )]
    Coming(String),
    /// A device that has virtual disks does not go.
    #[error("device {name} has {vdisks} virtual disks: delete them first")]
    NotEmpty {
        /// Which.
        name: String,
        /// How many.
        vdisks: usize,
    },
    /// The configuration of a virtual disk or device can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file can't be made, opened or removed, or there is no room.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The contracts of the device can't all be kept.
    #[error("device {device}: {error}")]
    Refused {
        /// Which.
        device: String,
        /// Why.
        error: VdiskError,
    },
    /// A difference can't be changed while the daemon runs, or is refused.
    #[error(transparent)]
    Change(#[from] ReloadError),
    /// A virtual disk can't be changed so.
    #[error("vdisk {name}: {reason}")]
    Fixed {
        /// Which.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Its clients would have to wait too long.
    #[error(
        "vdisk {name}: its requests wait at most {seconds} s for a snapshot, and it would take longer: \
         repeat this while it is less busy, or copy it with its clients disconnected"
    )]
    Slow {
        /// Which.
        name: String,
        /// The most that they wait.
        seconds: u64,
    },
    /// Its clients stand in the way.
    #[error("vdisk {name}: {clients} clients are connected: disconnect them, and repeat this")]
    Connected {
        /// Which.
        name: String,
        /// How many.
        clients: u64,
    },
    /// The device's thread stands still, and too many messages wait for it: nothing has changed.
    #[error(
        "device {0}: its thread stands still, and too many messages wait for it: nothing has changed; repeat \
         this once the device answers again, and see `disktime device list` and the log"
    )]
    Deaf(String),
    /// The device's thread did not answer in time: whether it changes later is unknown.
    #[error("device {0} does not answer: look again whether it has changed")]
    Silent(String),
}

impl Server {
    /// The configuration that is served.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The state of each device now, in the order of the configuration; nothing of one that does not
    /// answer within a second.
    #[must_use]
    pub fn watch(&self, watch: Watch) -> Vec<Option<WatchedDevice>> {
        // All are asked before the first one is waited for.
        let answers: Vec<_> = self.shards.iter().map(|shard| look(shard, watch)).collect();
        answers.into_iter().map(|answer| answer.recv_timeout(TIMEOUT).ok()).collect()
    }

    /// The state of one device now.
    pub(super) fn watch_one(&self, at: usize) -> Result<WatchedDevice, AlterError> {
        let answer = look(&self.shards[at], Watch::All).recv_timeout(TIMEOUT);
        answer.map_err(|_| AlterError::Silent(self.config.devices[at].name.clone()))
    }

    /// Makes a virtual disk and serves it from now on. Clients of others notice nothing.
    ///
    /// # Errors
    /// If its name is taken, its device is not there, has no room or can't keep its contract.
    pub fn add_vdisk(
        &mut self,
        device: &str,
        vdisk: VdiskConfig,
    ) -> Result<&VdiskView, AlterError> {
        let at = self.device_at(device)?;
        if self.roll.catalog.entry(&vdisk.name).is_some() {
            return Err(AlterError::Taken { what: "vdisk", name: vdisk.name });
        }
        self.is_not_leaving(&vdisk.name)?;
        // Nothing here looks at all virtual disks of the device: they may be a hundred thousand.
        let alone = self.config.devices[at].with_only(vdisk.clone());
        alone.check_zones(self.grounds[at].size())?;
        let contract = self.contract_of_new(at, &vdisk)?;
        let parent = vdisk.parent.as_deref().map(|parent| self.id_of(parent)).transpose()?;
        let (base, layout) = self.rooms[at].plan_one(&self.config.devices[at], &vdisk)?;
        let file = self.rooms[at].add(&alone, &vdisk, layout);
        let count = self.config.vdisks().count() + 1;
        let file = file.map_err(|error| error.with_descriptors(device, count))?;
        let bytes = vdisk.size;
        let piece_max = alone.piece_max().beside(false).into();
        let spec = self.grounds[at].spec(contract, (base, bytes), piece_max);
        let (shard, abilities) = (self.shards[at].clone(), self.grounds[at].abilities);
        let (view, disk) = match self.enter(&alone, &vdisk, (&shard, base, abilities), None) {
            Ok(entered) => entered,
            Err(error) => {
                self.give_up_room(at, &vdisk.name);
                return Err(error.into());
            }
        };
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let new = NewVdisk { id: view.id, vdisk: disk, bytes, file, parent, spec, answer };
        let told = changed(&shard, Message::AddVdisk(Box::new(new)), &alone.name);
        if let Err(error) = told.and_then(|()| answered(&outcome, &alone.name)) {
            // A device that hears of it later hears of its removal after it.
            if matches!(error, AlterError::Silent(_)) {
                let (answer, _) = crossbeam_channel::bounded(1);
                shard.tell_surely(Message::RemoveVdisk(view.id, answer));
            }
            self.roll.catalog.remove(&vdisk.name);
            self.give_up_room(at, &vdisk.name);
            return Err(error);
        }
        self.grounds[at].bases.push(base);
        self.config.devices[at].vdisks.push(vdisk);
        let before = self.config.devices[..=at].iter().map(|it| it.vdisks.len()).sum::<usize>() - 1;
        self.vdisks.insert(before, view);
        Ok(&self.vdisks[before])
    }

    /// The contract of a virtual disk that is not there yet, beside those that are.
    fn contract_of_new(
        &self,
        at: usize,
        vdisk: &VdiskConfig,
    ) -> Result<disktime_core::Contract, ConfigError> {
        // Only what a goal needs depends on what is left.
        if vdisk.goal.is_none() {
            return Ok(vdisk.contract);
        }
        let mut grown = self.config.devices[at].clone();
        grown.vdisks.push(vdisk.clone());
        let contracts = self.grounds[at].contracts(&grown)?;
        Ok(*contracts.last().expect("the device has the virtual disk"))
    }

    /// Serves a virtual disk no longer and gives up its data. Its clients are let go.
    ///
    /// # Errors
    /// If there is no such virtual disk, or the system refuses; an error of the latter kind says that
    /// it is served no longer and its data are still there.
    pub fn remove_vdisk(&mut self, name: &str) -> Result<(), AlterError> {
        self.begin_removal(name)?.wait();
        self.end_removal(name)
    }

    /// Has a virtual disk's clients let go by its shard, which [`end_removal`](Self::end_removal) ends.
    /// Until then it can only be removed.
    ///
    /// # Errors
    /// If there is no such virtual disk, or it has children.
    pub fn begin_removal(&mut self, name: &str) -> Result<Removal, AlterError> {
        let (at, _) = self.vdisk_at(name)?;
        self.has_no_children(at, name)?;
        if let Some(outcome) = self.roll.leaving.get(name) {
            return Ok(Removal(outcome.clone()));
        }
        let Entry { shard, vdisk, .. } =
            &*self.roll.catalog.entry(name).ok_or_else(|| AlterError::NoVdisk(name.to_owned()))?;
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let device = &self.config.devices[at].name;
        changed(shard, Message::RemoveVdisk(*vdisk, answer), device)?;
        // A client that comes in between is told that it is gone.
        self.roll.catalog.remove(name);
        self.roll.leaving.insert(name.to_owned(), outcome.clone());
        Ok(Removal(outcome))
    }

    /// Gives up the data of a virtual disk whose clients were let go.
    ///
    /// # Errors
    /// If its shard has not answered yet, or as [`remove_vdisk`](Self::remove_vdisk).
    pub fn end_removal(&mut self, name: &str) -> Result<(), AlterError> {
        let (at, place) = self.vdisk_at(name)?;
        let device = self.config.devices[at].name.clone();
        let outcome = self.roll.leaving.get(name).map(Receiver::try_recv);
        let Some(Ok(removed)) = outcome else { return Err(AlterError::Silent(device)) };
        self.roll.leaving.remove(name);
        removed.map_err(|error| AlterError::Refused { device, error })?;
        self.vdisks.retain(|view| view.name != name);
        self.config.devices[at].vdisks.remove(place);
        self.grounds[at].bases.remove(place);
        self.rooms[at].remove(&self.config.devices[at], name)?;
        Ok(())
    }

    /// A virtual disk whose removal was begun can only be removed.
    ///
    /// # Errors
    /// If that is so.
    pub fn is_not_leaving(&self, name: &str) -> Result<(), AlterError> {
        if !self.roll.leaving.contains_key(name) {
            return Ok(());
        }
        let reason = "its removal was begun, and its clients or requests are not gone yet: repeat this \
                      in a moment, or delete it again";
        Err(AlterError::Fixed { name: name.to_owned(), reason: reason.to_owned() })
    }

    /// A virtual disk that others name as their parent stays, under its name.
    pub(super) fn has_no_children(&self, at: usize, name: &str) -> Result<(), AlterError> {
        let vdisks = self.config.devices[at].vdisks.iter();
        let children = vdisks.filter(|it| it.parent.as_deref() == Some(name));
        let children: Vec<_> = children.map(|it| &*it.name).collect();
        if children.is_empty() {
            return Ok(());
        }
        let reason = format!("it is the parent of {}: delete these first", children.join(", "));
        Err(AlterError::Fixed { name: name.to_owned(), reason })
    }

    /// Holds another contract of a virtual disk, or makes it larger.
    ///
    /// # Errors
    /// If there is no such virtual disk on that device, something else differs, or the device can't
    /// keep it.
    pub fn alter_vdisk(&mut self, device: &str, vdisk: VdiskConfig) -> Result<(), AlterError> {
        let (at, place) = self.vdisk_at(&vdisk.name)?;
        if self.config.devices[at].name != device {
            return Err(AlterError::NoVdisk(format!("{} on device {device}", vdisk.name)));
        }
        let old = &self.config.devices[at].vdisks[place];
        is_alterable(device, old, &vdisk)?;
        let (before, bytes) = (old.size, vdisk.size);
        let mut altered = self.config.devices[at].clone();
        altered.vdisks[place] = vdisk.clone();
        let contracts = self.grounds[at].contracts(&altered).map_err(ConfigError::from)?;
        let layout = (bytes > before).then(|| self.rooms[at].plan(&altered)).transpose()?;
        let id = self.id_of(&vdisk.name)?;
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let change = Message::Change(vec![(id, contracts[place])], answer);
        changed(&self.shards[at], change, device)?;
        if let Err(error) = answered(&outcome, device) {
            // A device that hears of it later hears of the old contract after it.
            if matches!(error, AlterError::Silent(_)) {
                self.restore(at, place, id);
            }
            return Err(error);
        }
        if let Some(layout) = layout {
            if let Err(error) = self.rooms[at].make(&altered, layout) {
                self.restore(at, place, id);
                return Err(error.into());
            }
            let extent = self.grounds[at].extent(self.grounds[at].bases[place], bytes);
            let (answer, outcome) = crossbeam_channel::bounded(1);
            let grow = Message::Grow { vdisk: id, bytes, extent, answer };
            let told = changed(&self.shards[at], grow, device);
            if let Err(error) = told.and_then(|()| answered(&outcome, device)) {
                self.restore(at, place, id);
                return Err(error);
            }
        }
        self.config.devices[at].vdisks[place] = vdisk;
        Ok(())
    }

    /// The bytes that are recorded for a virtual disk on its device, if that has a record: after a change that
    /// failed they may be more than it is served with.
    #[must_use]
    pub fn recorded_size(&self, name: &str) -> Option<u64> {
        let (at, _) = self.vdisk_at(name).ok()?;
        self.rooms[at].recorded(name)
    }

    /// Has a virtual disk's contract be the one that the configuration states.
    fn restore(&self, at: usize, place: usize, id: VdiskId) {
        let Ok(contracts) = self.grounds[at].contracts(&self.config.devices[at]) else { return };
        let (answer, _) = crossbeam_channel::bounded(1);
        self.shards[at].tell_surely(Message::Change(vec![(id, contracts[place])], answer));
    }

    pub(super) fn id_of(&self, name: &str) -> Result<VdiskId, AlterError> {
        self.is_not_leaving(name)?;
        let entry = self.roll.catalog.entry(name);
        entry.map(|it| it.vdisk).ok_or_else(|| AlterError::NoVdisk(name.to_owned()))
    }

    /// Whether a device has neither a virtual disk nor data of that name.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn is_vacant(&self, device: &str, name: &str) -> Result<bool, AlterError> {
        let room = &self.rooms[self.device_at(device)?];
        Ok(self.roll.catalog.entry(name).is_none() && room.is_vacant(name))
    }

    /// Gives up data on a device that are of no virtual disk, if there are any.
    ///
    /// # Errors
    /// If there is no such device, a virtual disk has this name, or the system refuses.
    pub fn discard(&mut self, device: &str, name: &str) -> Result<(), AlterError> {
        let at = self.device_at(device)?;
        if self.vdisk_at(name).is_ok() {
            return Err(AlterError::Taken { what: "vdisk", name: name.to_owned() });
        }
        if !self.rooms[at].is_vacant(name) {
            self.rooms[at].remove(&self.config.devices[at], name)?;
        }
        Ok(())
    }

    fn give_up_room(&mut self, at: usize, name: &str) {
        if let Err(error) = self.rooms[at].remove(&self.config.devices[at], name) {
            tracing::warn!(vdisk = name, %error, "the room of a virtual disk that did not come stays");
        }
    }

    pub(super) fn device_at(&self, name: &str) -> Result<usize, AlterError> {
        let at = self.config.devices.iter().position(|device| device.name == name);
        at.ok_or_else(|| AlterError::NoDevice {
            name: name.to_owned(),
            known: self.config.devices.iter().map(|device| device.name.clone()).collect(),
        })
    }

    /// The place of a virtual disk's device, and its own place there.
    pub(super) fn vdisk_at(&self, name: &str) -> Result<(usize, usize), AlterError> {
        let mut devices = self.config.devices.iter().enumerate();
        let found = devices.find_map(|(at, device)| {
            Some((at, device.vdisks.iter().position(|vdisk| vdisk.name == name)?))
        });
        found.ok_or_else(|| AlterError::NoVdisk(name.to_owned()))
    }
}

/// A virtual disk's end at its shard, which any thread may wait for.
pub struct Removal(Outcome);

impl Removal {
    /// Waits until its clients are let go, or its shard is later with that than it can be.
    pub fn wait(&self) {
        let mut select = Select::new();
        select.recv(&self.0);
        // The outcome stays for the end of the removal; others may wait for it as well.
        let _late = select.ready_timeout(Duration::from_nanos(DRAIN.as_nanos()) + TIMEOUT);
    }
}

/// Where the outcome of a change at a shard comes in.
pub(super) type Outcome = Receiver<Result<(), VdiskError>>;

/// Sends a change to a shard, if it takes any.
pub(super) fn changed(
    shard: &ShardHandle,
    change: Message,
    device: &str,
) -> Result<(), AlterError> {
    if shard.tell_change(change) { Ok(()) } else { Err(AlterError::Deaf(device.to_owned())) }
}

/// The outcome of a change at a shard.
pub(super) fn answered(outcome: &Outcome, device: &str) -> Result<(), AlterError> {
    let outcome = outcome.recv_timeout(TIMEOUT).map_err(io::Error::other);
    let outcome = outcome.map_err(|_| AlterError::Silent(device.to_owned()))?;
    outcome.map_err(|error| AlterError::Refused { device: device.to_owned(), error })
}

/// Whether a virtual disk that is served can become that one.
pub(super) fn is_alterable(
    device: &str,
    old: &VdiskConfig,
    new: &VdiskConfig,
) -> Result<(), AlterError> {
    // Bitmaps change by a configuration alone.
    let fixed = |it: &Change| !it.live || it.key.starts_with("bitmap");
    let fixed: Vec<_> = vdisk_changes(device, old, new).into_iter().filter(fixed).collect();
    if fixed.is_empty() { Ok(()) } else { Err(ReloadError::Structure(fixed).into()) }
}

/// Asks a device how it is.
fn look(shard: &ShardHandle, watch: Watch) -> Receiver<WatchedDevice> {
    let (answer, watched) = crossbeam_channel::bounded(1);
    shard.try_tell(Message::Watch(watch, answer));
    watched
}
