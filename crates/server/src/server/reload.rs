//! Another configuration while the daemon runs: contracts, sizes that grow, bitmaps.

use std::collections::BTreeSet;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::{Server, TIMEOUT};
use crate::bitmap::BitmapSpec;
use crate::clock;
use crate::config::{Change, Config, DeviceConfig, VdiskConfig, changes};
use crate::shard::{Message, VdiskId};
use crate::start_error::{StartError, Unfit};
use crate::tls::TlsError;

/// Numbers of bitmaps, each given once.
#[derive(Default)]
pub(super) struct BitmapNumbers(u32);

impl BitmapNumbers {
    /// The bitmaps that a virtual disk is to have, of which it has some.
    pub(super) fn specs(&mut self, vdisk: &VdiskConfig, known: &[BitmapSpec]) -> Vec<BitmapSpec> {
        let granularity = vdisk.bitmaps.granularity;
        let mut spec = |name: &String| match known.iter().find(|it| it.name == *name) {
            Some(known) => known.clone(),
            None => {
                // 0 is the context of what was never written.
                self.0 += 1;
                BitmapSpec { id: self.0, name: name.clone(), granularity }
            }
        };
        vdisk.bitmaps.names.iter().map(&mut spec).collect()
    }
}

/// Why a configuration was not taken over. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Something else than contracts differs: what can't be changed while running.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Structure(Vec<Change>),
    /// There is no room for a virtual disk that is to grow, or it can't be made.
    #[error("{0}")]
    Room(Box<StartError>),
    /// The certificates can't be read again: connections get those from before.
    #[error("tls: {0}: new connections get the certificates from before")]
    Tls(TlsError),
    /// A device's thread stands still, and too many messages wait for it.
    #[error(
        "device {0}: its thread stands still, and too many messages wait for it: send SIGHUP again once the \
         device answers"
    )]
    Deaf(String),
    /// The contracts of a device can't all be kept.
    #[error("device {device}: {error}")]
    Refused {
        /// Which.
        device: String,
        /// Why.
        error: Box<Unfit>,
    },
}

/// A virtual disk for which there is more room than before.
struct Grown {
    shard: usize,
    id: VdiskId,
    bytes: u64,
    extent: Option<(u64, u64)>,
}

impl Server {
    /// Takes over another configuration's contracts and larger sizes, all of them or none; answers
    /// what differs.
    ///
    /// # Errors
    /// If anything else differs, a device can't keep all contracts or hears no changes, there is no room, or a
    /// certificate can't be read: then nothing changes.
    pub fn reload(&mut self, mut config: Config) -> Result<Vec<Change>, ReloadError> {
        let (live, fixed): (Vec<_>, Vec<_>) =
            changes(&self.config, &config).into_iter().partition(|change| change.live);
        if !fixed.is_empty() {
            return Err(ReloadError::Structure(fixed));
        }
        // A shard's engine answers as this one does: admission asks for contracts, profile and
        // places alone. So either all devices change or none.
        let mut agreed = Vec::new();
        for (ground, device) in self.grounds.iter().zip(&config.devices) {
            let refused = |error: Unfit| {
                let (device, error) = (device.name.clone(), Box::new(error));
                ReloadError::Refused { device, error }
            };
            ground.engine(device).map(drop).map_err(refused)?;
            agreed.push(ground.contracts(device).map_err(Unfit::from).map_err(refused)?);
        }
        if let Some(at) = self.shards.iter().position(|shard| !shard.takes_changes()) {
            return Err(ReloadError::Deaf(self.config.devices[at].name.clone()));
        }
        let settings = self.tls.as_ref().map(|tls| tls.read_again()).transpose();
        let settings = settings.map_err(ReloadError::Tls)?;
        let grown = self.make_room(&config)?;
        let mut ids = self.vdisks.iter().map(|vdisk| vdisk.id);
        let mut deaf = BTreeSet::new();
        for (at, contracts) in agreed.into_iter().enumerate() {
            let contracts = contracts.into_iter().zip(ids.by_ref());
            let contracts = contracts.map(|(contract, id)| (id, contract)).collect();
            // No thread waits for the answer: it was admitted above, and the shard logs what it
            // can't do.
            let (answer, _) = crossbeam_channel::bounded(1);
            self.tell_or_note(at, Message::Change(contracts, answer), &mut deaf);
        }
        self.grow(&grown, &mut deaf);
        self.set_bitmaps(&config, &mut deaf);
        for at in deaf {
            let device = &self.config.devices[at];
            let text =
                "its thread stands still: send SIGHUP again once it answers, to repeat its changes";
            tracing::error!(device = device.name, "{text}");
            config.devices[at] = device.clone();
        }
        self.config = config;
        if let Some((tls, settings)) = self.tls.as_ref().zip(settings) {
            tls.renew(settings);
        }
        Ok(live)
    }

    /// Tells a shard, whose changes may be more than it hears at once; notes one that stands still, and tells it
    /// nothing more. Whether it was told.
    fn tell_or_note(&self, at: usize, message: Message, deaf: &mut BTreeSet<usize>) -> bool {
        let told = !deaf.contains(&at) && self.shards[at].tell_within(message, TIMEOUT);
        if !told {
            deaf.insert(at);
        }
        told
    }

    /// Makes room for virtual disks that are larger in another configuration; answers which.
    fn make_room(&mut self, config: &Config) -> Result<Vec<Grown>, ReloadError> {
        let of = |error| ReloadError::Room(Box::new(error));
        let devices = self.config.devices.iter().zip(&config.devices).enumerate();
        let sizes = |it: &DeviceConfig| it.vdisks.iter().map(|it| it.size).collect::<Vec<_>>();
        let grows = devices.filter(|(_, (old, new))| sizes(old) != sizes(new));
        let grows: Vec<usize> = grows.map(|(at, _)| at).collect();
        let plan = |at: &usize| self.rooms[*at].plan(&config.devices[*at]).map_err(of);
        let plans = grows.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        for (at, layout) in grows.into_iter().zip(plans) {
            self.rooms[at].make(&config.devices[at], layout).map_err(of)?;
        }
        let mut found = Vec::new();
        let (mut before, mut ids) = (self.config.vdisks(), self.vdisks.iter().map(|it| it.id));
        for (shard, (ground, device)) in self.grounds.iter().zip(&config.devices).enumerate() {
            for (vdisk, base) in device.vdisks.iter().zip(&ground.bases) {
                let (old, id) = (before.next().map_or(0, |(_, it)| it.size), ids.next());
                let (Some(id), true) = (id, old < vdisk.size) else { continue };
                let extent = ground.extent(*base, vdisk.size);
                found.push(Grown { shard, id, bytes: vdisk.size, extent });
            }
        }
        Ok(found)
    }

    /// Has virtual disks have the bitmaps of another configuration, and clients find them.
    fn set_bitmaps(&mut self, config: &Config, deaf: &mut BTreeSet<usize>) {
        let shards = config.devices.iter().enumerate();
        let shards = shards.flat_map(|(at, device)| device.vdisks.iter().map(move |_| at));
        let mut asked = Vec::new();
        for ((shard, (_, vdisk)), view) in shards.zip(config.vdisks()).zip(&self.vdisks) {
            let known = view.bitmaps.now();
            let specs = self.bitmap_numbers.specs(vdisk, &known);
            if specs == known {
                continue;
            }
            let (answer, outcome) = crossbeam_channel::bounded(1);
            let change = Message::Bitmaps(view.id, specs.clone(), answer);
            if self.tell_or_note(shard, change, deaf) {
                asked.push((outcome, (&view.bitmaps, specs)));
            }
        }
        let (outcomes, changed): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        wait(&outcomes, "bitmaps there change later");
        changed.into_iter().for_each(|(offered, specs)| offered.set(specs));
    }

    /// Has shards serve more of virtual disks for which there is room.
    fn grow(&self, grown: &[Grown], deaf: &mut BTreeSet<usize>) {
        let ask = |it: &Grown| {
            let (answer, outcome) = crossbeam_channel::bounded(1);
            let Grown { shard, id, bytes, extent } = *it;
            let grow = Message::Grow { vdisk: id, bytes, extent, answer };
            self.tell_or_note(shard, grow, deaf).then_some(outcome)
        };
        // All are asked before the first one is waited for. Clients that connect from then on hear the
        // new size; a shard logs what it can't do.
        let outcomes: Vec<_> = grown.iter().filter_map(ask).collect();
        wait(&outcomes, "virtual disks there grow later");
    }
}

/// Waits for a moment until shards have done as they were told; they log what they can't do.
fn wait<T>(outcomes: &[Receiver<T>], otherwise: &str) {
    let until = clock::now() + disktime_core::Duration::from_secs(TIMEOUT.as_secs());
    let is_late = |outcome: &&Receiver<T>| {
        let rest = Duration::from_nanos(until.since(clock::now()).as_nanos());
        outcome.recv_timeout(rest).is_err()
    };
    let late = outcomes.iter().filter(is_late).count();
    if late > 0 {
        tracing::warn!(late, "a device does not answer: {otherwise}");
    }
}
