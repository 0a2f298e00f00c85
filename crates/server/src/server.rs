//! The daemon as a whole: its threads, their start, their end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use disktime_core::cost::{Estimate, PriceList};
use disktime_nbd::{BlockSizes, ExportInfo, TransmissionFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::ServerName;

use crate::backend::faulty::{Fault, Faulty};
use crate::backend::{Abilities, BackEnd, BackEndKind};
use crate::bitmap::{Bitmap, Offered};
use crate::claims::Claims;
use crate::commands::CommandDesk;
use crate::config::{Config, DeviceConfig, Door, Listen, TlsUse, VdiskConfig};
use crate::daemon_socket::DaemonSocket;
use crate::desk::{Catalog, Desk, Entry, OpenDoor};
use crate::emulate::Emulator;
use crate::frontend::nbd::REQUEST_BYTES_MAX;
use crate::guests::Hosts;
use crate::kept_bitmaps::{self, Keeper};
use crate::listener::{Inherited, Listener};
use crate::memory::Budget;
use crate::opened_device::{Ground, Opened};
use crate::record::Recorders;
use crate::reports::{ReportDesk, ReportSocket, ReportStats};
use crate::room::Room;
use crate::shard::{DRAIN, Message, Parts, Shard, ShardHandle, Vdisk, VdiskId};
use crate::start_error::StartError;
use crate::stats::{DeviceStats, VdiskStats};
use crate::take_over::{Looked, Predecessor, Successor, TakenOver};
use crate::threads::{self, ThreadFailure, Threads};
use crate::tls::Tls;
use crate::wakeup::wake;

mod devices;
mod hand_over;
mod live;
mod moves;
mod preview;
mod reload;
mod snapshots;

pub use devices::{DeviceJob, OpenedDevice};
pub use live::{AlterError, Removal};
pub use moves::finish_move;
use reload::BitmapNumbers;
pub use reload::ReloadError;
pub use snapshots::SnapshotJob;

/// The seed of emulated devices: where the platter stands at the start.
const EMULATOR_SEED: u64 = 1;

/// How long the end of all threads may take: shards give up before that.
const END: disktime_core::Duration = disktime_core::Duration::from_millis(4500);
const _: () = assert!(DRAIN.as_nanos() < END.as_nanos());

/// How long a shard may take to say what it knows.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Takes a device's place in the configuration and its back end; answers what its shard uses.
pub type Wrap = Arc<dyn Fn(usize, Box<dyn BackEnd>) -> Box<dyn BackEnd> + Send + Sync>;

/// A virtual disk as seen from outside.
#[derive(Clone, Debug)]
pub struct VdiskView {
    id: VdiskId,
    /// Its name.
    pub name: String,
    /// Its device's name.
    pub device: Arc<str>,
    /// Its live figures.
    pub stats: Arc<VdiskStats>,
    bitmaps: Offered,
    reach: Arc<Reach>,
}

/// The places where clients connect, each with its address.
#[derive(Debug)]
struct Reach(Vec<(Listen, Door)>);

impl Reach {
    fn of(config: &Config, listen: &[Listen]) -> Self {
        Self(listen.iter().cloned().zip(config.doors()).collect())
    }
}

impl VdiskView {
    /// Its identity, which no other virtual disk of this daemon has or had.
    #[must_use]
    pub fn id(&self) -> VdiskId {
        self.id
    }

    /// Under which URIs it is reached. They are made when somebody asks: a hundred thousand of them
    /// would take more memory than the names.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        let reached = |door: &Door| match &door.vdisks {
            Some(names) => names.contains(&self.name),
            None => true,
        };
        let doors = self.reach.0.iter().filter(|(_, door)| reached(door));
        let uri = |(listen, door): &(Listen, Door)| match door.tls {
            TlsUse::Require => listen.tls_uri(&self.name),
            TlsUse::Off | TlsUse::Allow => listen.uri(&self.name),
        };
        doors.map(uri).collect()
    }
}

/// The parts of a start that end with it.
struct Starting<'a> {
    wrap: &'a Wrap,
    /// After a take-over: what quick probes have found, in place of new ones.
    looked: Option<Vec<Looked>>,
}

/// A running daemon.
pub struct Server {
    config: Config,
    listen: Vec<Listen>,
    tls: Option<Arc<Tls>>,
    shards: Vec<ShardHandle>,
    grounds: Vec<Ground>,
    rooms: Vec<Room>,
    devices: Vec<Arc<DeviceStats>>,
    vdisks: Vec<VdiskView>,
    closing: Arc<OwnedFd>,
    reports: Arc<ReportStats>,
    threads: Threads,
    recorders: Recorders,
    bitmap_numbers: BitmapNumbers,
    roll: Roll,
    handing: Handing,
}

/// The exports, files and numbers that are given away.
struct Roll {
    catalog: Arc<Catalog>,
    hosts: Arc<Hosts>,
    budget: Arc<Budget>,
    claims: Claims,
    reach: Arc<Reach>,
    /// The identity of the next virtual disk.
    next_id: u64,
    /// Devices that are being opened, by name.
    coming: BTreeMap<String, DeviceConfig>,
    /// Virtual disks that are being removed, by name, and where the outcomes come in.
    leaving: BTreeMap<String, live::Outcome>,
}

/// The parts of a server that a successor is to have, and ways to it.
struct Handing {
    /// Says that this daemon uses the state directory.
    socket: Option<Arc<DaemonSocket>>,
    doors: Arc<Vec<OpenDoor>>,
    /// The desk is to close once its visitors are gone.
    leaving: Arc<AtomicBool>,
    /// Ends when the desk does.
    desk: Receiver<()>,
    successors: Receiver<Successor>,
}

impl Server {
    /// Starts all threads and returns once clients can connect.
    ///
    /// # Errors
    /// If something can't be opened or the system refuses; nothing is left running.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with_faults(config, &[])
    }

    /// As [`start`](Self::start), with back ends that fail on purpose; each fault with its
    /// device's place in the configuration.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_faults(
        config: Config,
        faults: &[(usize, Fault)],
    ) -> Result<Self, StartError> {
        let faults = faults.to_vec();
        let wrap = move |index, inner| {
            let faults = faults.iter().filter(|(at, _)| *at == index);
            let faults: Vec<_> = faults.map(|(_, fault)| fault.clone()).collect();
            if faults.is_empty() { inner } else { Box::new(Faulty::new(inner, faults)) as _ }
        };
        let wrap: Wrap = Arc::new(wrap);
        Self::start_wrapped(config, &wrap)
    }

    /// As [`start`](Self::start), with something between each shard and its back end, or in its
    /// place; made on the shard's thread.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_wrapped(config: Config, wrap: &Wrap) -> Result<Self, StartError> {
        Self::start_inheriting(config, wrap, Inherited::default(), None)
    }

    /// As [`start`](Self::start), on sockets that the service manager listens on already, where there
    /// are some with the addresses of the configuration.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(config: Config, inherited: Inherited) -> Result<Self, StartError> {
        let wrap: Wrap = Arc::new(|_, back_end| back_end);
        Self::start_inheriting(config, &wrap, inherited, None)
    }

    /// As [`start_on`](Self::start_on), in the place of a running daemon, with its listeners and its
    /// clients.
    ///
    /// # Errors
    /// As [`start`](Self::start). Errors that show without the devices leave the other daemon as it was.
    pub fn take_over(
        config: Config,
        inherited: Inherited,
        predecessor: Predecessor,
    ) -> Result<Self, StartError> {
        let wrap: Wrap = Arc::new(|_, back_end| back_end);
        Self::start_inheriting(config, &wrap, inherited, Some(predecessor))
    }

    fn start_inheriting(
        config: Config,
        wrap: &Wrap,
        mut inherited: Inherited,
        mut predecessor: Option<Predecessor>,
    ) -> Result<Self, StartError> {
        raise_descriptors();
        if let Some(error) = crate::check::few_descriptors(&config) {
            return Err(error);
        }
        if let Some(predecessor) = &mut predecessor {
            inherited = inherited.and(predecessor.listeners());
        }
        let doors = bind(&config, inherited)?;
        let listen = doors.iter().map(|door| door.listener.address());
        let listen = listen.collect::<io::Result<Vec<_>>>()?;
        let tls = config.tls_files.as_ref().map(Tls::load).transpose()?.map(Arc::new);
        let budget = Budget::new(config.memory_for_clients()?);
        if let Some(predecessor) = &predecessor {
            crate::check::rehearse(&config, predecessor.process())?;
        }
        // A trace that can't be begun after *go* would end both daemons.
        let recorders =
            if predecessor.is_some() { begin_traces(&config)? } else { Recorders::default() };
        // From here on this daemon is the one to serve.
        let taken = predecessor.map(Predecessor::let_go).transpose();
        let taken = taken.map_err(StartError::TakeOver)?;
        let (clients, taken) = taken.unzip();
        let doors = owning(doors, taken.as_ref());
        let takes_over = taken.is_some();
        let misses = if takes_over { None } else { reports(&config)? };
        let (is_here, desk) = crossbeam_channel::bounded(0);
        let (successor, successors) = crossbeam_channel::bounded(1);
        let doors = Arc::new(doors);
        let handing = Handing { socket: None, doors, leaving: Arc::default(), desk, successors };
        let reach = Arc::new(Reach::of(&config, &listen));
        let mut server = Self {
            config,
            roll: Roll {
                reach,
                catalog: Arc::new(Catalog::new(Arc::clone(&budget))),
                hosts: Arc::default(),
                budget,
                claims: Claims::default(),
                next_id: 0,
                coming: BTreeMap::new(),
                leaving: BTreeMap::new(),
            },
            listen,
            tls: tls.clone(),
            shards: Vec::new(),
            grounds: Vec::new(),
            rooms: Vec::new(),
            devices: Vec::new(),
            vdisks: Vec::new(),
            closing: Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?),
            reports: Arc::default(),
            threads: Threads::new(),
            recorders,
            bitmap_numbers: BitmapNumbers::default(),
            handing,
        };
        let (own, looked) = taken.map(|it| (it.own, it.looked)).unzip();
        server.handing.socket = match own {
            Some(own) => Some(Arc::new(own)),
            None => server.bind_socket()?,
        };
        let mut starting = Starting { wrap, looked };
        for (index, device) in server.config.devices.clone().iter().enumerate() {
            let started = server.start_shard(index, device, &mut starting);
            let vdisks = server.config.vdisks().count();
            started.map_err(|error| error.with_descriptors(&device.name, vdisks))?;
        }
        let catalog = Arc::clone(&server.roll.catalog);
        server.start_reports(misses)?;
        server.start_commands(successor)?;
        // Clients can write from now on.
        if let Some(state) = &server.config.state {
            let mut vdisks = server.vdisks.iter();
            vdisks.try_for_each(|it| kept_bitmaps::invalidate(state, &it.name))?;
        }
        server.adopt(clients.unwrap_or_default(), &catalog);
        let desk = Desk {
            doors: Arc::clone(&server.handing.doors),
            tls,
            catalog,
            closing: Arc::clone(&server.closing),
            leaving: Arc::clone(&server.handing.leaving),
            _is_here: is_here,
        };
        server.threads.start("desk", "the front desk", move || desk.run())?;
        if takes_over {
            server.report_after_all()?;
        }
        Ok(server)
    }

    /// Takes reports of missed deadlines once clients that were handed over are served. They have no other
    /// daemon, so a socket that can't be had ends nothing.
    fn report_after_all(&mut self) -> Result<(), StartError> {
        match reports(&self.config) {
            Ok(misses) => self.start_reports(misses),
            Err(error) => {
                let text =
                    "no missed deadlines are heard of until this is mended and taken over again";
                tracing::error!(%error, "{text}");
                Ok(())
            }
        }
    }

    /// Takes the state directory for this daemon alone. In one that can't be written to there is no socket, and
    /// bitmaps can't be kept.
    fn bind_socket(&self) -> Result<Option<Arc<DaemonSocket>>, StartError> {
        let Some(state) = &self.config.state else { return Ok(None) };
        crate::check::is_state(state)?;
        match DaemonSocket::bind(state) {
            Ok(socket) => Ok(Some(Arc::new(socket))),
            Err(error)
                if !error.is_in_use()
                    && self.config.vdisks().all(|(_, it)| it.bitmaps.names.is_empty()) =>
            {
                let state = state.display().to_string();
                tracing::warn!(state, %error, "commands can't reach this daemon");
                Ok(None)
            }
            Err(error) => Err(StartError::Listen { listen: Listen::Unix(state.clone()), error }),
        }
    }

    /// Takes reports of missed deadlines from now on, if there is a socket for them.
    fn start_reports(&mut self, socket: Option<ReportSocket>) -> Result<(), StartError> {
        let Some(socket) = socket else { return Ok(()) };
        let (closing, stats) = (Arc::clone(&self.closing), Arc::clone(&self.reports));
        let desk = ReportDesk::new(socket, Arc::clone(&self.roll.catalog), closing, stats);
        Ok(self.threads.start("reports", "the socket for misses", move || desk.run())?)
    }

    /// Answers commands from now on.
    fn start_commands(&mut self, successors: Sender<Successor>) -> io::Result<()> {
        let Some(socket) = &self.handing.socket else { return Ok(()) };
        let mut devices = self.config.devices.iter();
        let stays = devices.find(|device| device.back_end == BackEndKind::Memory).map(|device| {
            format!(
                "device {}: its contents are in the daemon's memory, and end with it",
                device.name
            )
        });
        let desk = CommandDesk {
            socket: Arc::clone(socket),
            catalog: Arc::clone(&self.roll.catalog),
            hosts: Arc::clone(&self.roll.hosts),
            stays,
            successors,
            closing: Arc::clone(&self.closing),
        };
        self.threads.start("commands", "the daemon's own socket", move || desk.run())
    }

    fn start_shard(
        &mut self,
        index: usize,
        device: &DeviceConfig,
        starting: &mut Starting<'_>,
    ) -> Result<(), StartError> {
        self.roll.claims.claim(device)?;
        let opened = devices::open(device, self.config.state.as_deref())?;
        self.start_opened(index, device, opened, starting)
    }

    /// Serves a device that was opened, whose paths are claimed.
    fn start_opened(
        &mut self,
        index: usize,
        device: &DeviceConfig,
        mut back_end: Opened,
        starting: &mut Starting<'_>,
    ) -> Result<(), StartError> {
        // Again: what was made just now.
        self.roll.claims.claim(device)?;
        let looked = starting.looked.as_deref().unwrap_or_default();
        if !hand_over::is_known(&mut back_end.ground, looked, &device.name) {
            back_end.look(device);
        }
        let refused =
            |error| StartError::Engine { device: device.name.clone(), error: Box::new(error) };
        let engine = back_end.ground.engine(device).map_err(refused)?;
        back_end.record(device)?;
        back_end.ground.abilities = back_end.abilities();
        let abilities = back_end.ground.abilities;
        let Opened { storage, ground, room, found, .. } = back_end;
        self.rooms.push(room);
        let keeper = Keeper::of(device, self.config.state.as_deref(), self.handing.socket.as_ref());
        let mut vdisks = Vec::new();
        let (handle, messages, wakeup) = ShardHandle::new()?;
        for (vdisk, base) in device.vdisks.iter().zip(&ground.bases) {
            let place = (&handle, *base, abilities);
            let (view, vdisk) =
                self.enter(device, vdisk, place, keeper.as_ref().map(|it| (it, found.as_ref())))?;
            vdisks.push((view.id, vdisk));
            self.vdisks.push(view);
        }
        let stats = Arc::new(DeviceStats::default());
        let migration = device.promotes().then(Vdisk::migration);
        self.devices.push(Arc::clone(&stats));
        self.shards.push(handle);
        let emulate = device.emulate;
        let idle_timeout = self.config.idle_timeout;
        let carriers = device.shards - 1;
        let flushes_at_end = matches!(device.back_end, BackEndKind::Nbd { .. });
        let (depths, piece_max) = (device.depths(ground.depth()), device.piece_max());
        self.grounds.push(ground);
        let (started, start) = crossbeam_channel::bounded(1);
        let wrap = Arc::clone(starting.wrap);
        let run = move || {
            set_timer_slack();
            let emulator = emulate.map(|emulate| Emulator::new(emulate, EMULATOR_SEED));
            let back_end = wrap(index, storage.on_shard());
            let parts = Parts {
                engine,
                back_end,
                emulator,
                vdisks,
                migration,
                depths,
                piece_max,
                idle_timeout,
                flushes_at_end,
                carriers,
                stats,
                messages,
                wakeup,
            };
            let shard = Shard::new(parts);
            let (outcome, shard) = match shard {
                Ok(shard) => (Ok(()), Some(shard)),
                Err(error) => (Err(error), None),
            };
            let _starter_waits = started.send(outcome);
            let left = shard.map_or(Ok(Vec::new()), Shard::run)?;
            if let Some(keeper) = keeper {
                keeper.save(&left);
            }
            Ok(())
        };
        let what = format!("device {}", device.name);
        self.threads.start(&format!("shard-{index}"), &what, run)?;
        start.recv().map_err(io::Error::other)??;
        self.roll.hosts.add(device, &self.shards[index]);
        Ok(())
    }

    /// Enters a virtual disk that lies at a place of a device: for its shard, for clients, and for
    /// other threads.
    fn enter(
        &mut self,
        device: &DeviceConfig,
        vdisk: &VdiskConfig,
        (shard, base, abilities): (&ShardHandle, u64, Abilities),
        kept: Option<(&Keeper, Option<&BTreeMap<String, u64>>)>,
    ) -> Result<(VdiskView, Vdisk), StartError> {
        let stats = Arc::new(VdiskStats::of(vdisk.size));
        let path = vdisk.record.as_deref();
        let recorder = path.map(|path| self.recorders.start(path, &vdisk.name)).transpose();
        let recorder =
            recorder.map_err(|error| StartError::Trace { vdisk: vdisk.name.clone(), error })?;
        let id = VdiskId(self.roll.next_id);
        self.roll.next_id += 1;
        let specs = self.bitmap_numbers.specs(vdisk, &[]);
        let bitmaps = match kept {
            Some((keeper, found)) => {
                let found = found.map(|it| it.get(&vdisk.name).copied().unwrap_or(0));
                keeper.load(vdisk, &specs, found)
            }
            None => specs.iter().map(|it| Bitmap::dirty(it.clone(), vdisk.size)).collect(),
        };
        let offered = Offered::default();
        offered.set(specs);
        self.roll.catalog.add(Entry {
            info: export(device, vdisk, abilities),
            shard: shard.clone(),
            vdisk: id,
            stats: Arc::clone(&stats),
            surveyed: abilities.survey,
            is_default: vdisk.export.is_default,
            clients: names_of(vdisk),
            bitmaps: offered.clone(),
        });
        let (name, stats_here) = (vdisk.name.clone(), Arc::clone(&stats));
        // One text for all virtual disks of a device.
        let same = self.vdisks.last().filter(|it| *it.device == *device.name);
        let device = same.map_or_else(|| device.name.as_str().into(), |it| Arc::clone(&it.device));
        let reach = Arc::clone(&self.roll.reach);
        let view = VdiskView { id, name, device, stats, bitmaps: offered, reach };
        let disk = Vdisk::new(vdisk.name.clone(), base, stats_here, recorder);
        Ok((view, disk.with_bitmaps(bitmaps)))
    }

    /// Where clients connect.
    #[must_use]
    pub fn listen(&self) -> &[Listen] {
        &self.listen
    }

    /// The virtual disks.
    #[must_use]
    pub fn vdisks(&self) -> &[VdiskView] {
        &self.vdisks
    }

    /// The devices' live figures, as in the configuration.
    #[must_use]
    pub fn devices(&self) -> &[Arc<DeviceStats>] {
        &self.devices
    }

    /// The cost table of each device from the quick probe at its start, in the order of the
    /// configuration.
    pub fn quick_prices(&self) -> impl Iterator<Item = Option<&PriceList>> {
        self.grounds.iter().map(Ground::anchor)
    }

    /// How many pieces each device has at once, as in the configuration.
    pub fn queue_depths(&self) -> impl Iterator<Item = u32> {
        self.grounds.iter().map(Ground::depth)
    }

    /// The current cost estimates of each virtual disk's pieces, by kind, in the order of
    /// [`vdisks`](Self::vdisks): only kinds that it has sent, and only where the device's cost
    /// model knows. Nothing of a device that does not answer within a second.
    #[must_use]
    pub fn estimates(&self) -> Vec<Vec<Estimate>> {
        let (answers, devices) = (self.shards.iter().map(ask_estimates), &self.config.devices);
        // All are asked before the first one is waited for.
        let answers: Vec<_> = answers.collect();
        let of_device = |(answer, device): (Receiver<Vec<Vec<Estimate>>>, &DeviceConfig)| {
            let nothing = || vec![Vec::new(); device.vdisks.len()];
            answer.recv_timeout(TIMEOUT).unwrap_or_else(|_| nothing())
        };
        answers.into_iter().zip(devices).flat_map(of_device).collect()
    }

    /// Whether every device's thread answers within a second each.
    #[must_use]
    pub fn is_responsive(&self) -> bool {
        let answers: Vec<_> = self.shards.iter().map(ask_estimates).collect();
        answers.into_iter().all(|answer| answer.recv_timeout(TIMEOUT).is_ok())
    }

    /// Counts of the socket for missed deadlines.
    #[must_use]
    pub fn reports(&self) -> &ReportStats {
        &self.reports
    }

    /// The memory for clients' data.
    #[must_use]
    pub fn memory(&self) -> &Budget {
        &self.roll.budget
    }

    /// Makes shards publish their CPU time.
    pub fn refresh(&self) {
        self.shards.iter().for_each(ShardHandle::wake);
    }

    /// Where it is told of threads that failed: the daemon can't serve all of its virtual disks any
    /// more, and is to be ended. Ends when the daemon does.
    #[must_use]
    pub fn failures(&self) -> Receiver<ThreadFailure> {
        self.threads.failures()
    }

    /// Takes no more clients and requests, finishes those taken, and ends: within 5 s, whatever
    /// clients and devices do.
    ///
    /// # Errors
    /// If a thread had failed before.
    pub fn shutdown(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        let until = crate::clock::now() + END;
        wake(&self.closing);
        // One that stands still keeps no other one waiting.
        self.shards.drain(..).for_each(|shard| shard.tell_surely(Message::Drain));
        let mut outcome = self.threads.join(until).map(drop);
        // Recorders end once their shards have.
        for recorder in self.recorders.threads.drain(..) {
            outcome = outcome.and(threads::join(recorder, until).map(drop));
        }
        outcome
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "a thread had failed");
        }
    }
}

/// Opens all doors of a configuration, on sockets that were handed over where there are some.
fn bind(config: &Config, mut inherited: Inherited) -> Result<Vec<OpenDoor>, StartError> {
    let bind = |door: Door| {
        let bound = match inherited.find(&door.listen) {
            Some(listener) => Ok(listener),
            None => Listener::bind(&door.listen, &door.access),
        };
        let listener =
            bound.map_err(|error| StartError::Listen { listen: door.listen.clone(), error })?;
        let vdisks = door.vdisks.map(|names| names.into_iter().collect());
        Ok(OpenDoor { listener, vdisks, tls: door.tls })
    };
    let doors = config.doors().into_iter().map(bind).collect::<Result<Vec<_>, StartError>>()?;
    for socket in inherited.left() {
        tracing::warn!(socket, "a socket that was handed over is no listener's");
    }
    Ok(doors)
}

/// Doors with sockets whose files are this daemon's now; those of no door are removed.
fn owning(doors: Vec<OpenDoor>, taken: Option<&TakenOver>) -> Vec<OpenDoor> {
    let Some(taken) = taken else { return doors };
    let mut left = taken.owned.clone();
    let own = |door: OpenDoor| {
        let own = door.listener.path().0.is_some_and(|path| left.remove(path));
        OpenDoor { listener: if own { door.listener.owning() } else { door.listener }, ..door }
    };
    let doors = doors.into_iter().map(own).collect();
    for path in left {
        let _gone_already = std::fs::remove_file(path);
    }
    doors
}

/// Where the answer will come.
fn ask_estimates(shard: &ShardHandle) -> Receiver<Vec<Vec<Estimate>>> {
    let (answer, estimates) = crossbeam_channel::bounded(1);
    // One that has no room for the question will not answer.
    shard.try_tell(Message::Estimates(answer));
    estimates
}

/// Names of certificates, one of which a client must show. The configuration was checked.
fn names_of(vdisk: &VdiskConfig) -> Vec<ServerName<'static>> {
    let names = vdisk.export.clients.iter();
    names.filter_map(|name| ServerName::try_from(name.clone()).ok()).collect()
}

fn export(device: &DeviceConfig, vdisk: &VdiskConfig, can: Abilities) -> ExportInfo {
    let reads = Abilities { write: false, trim: false, zero: false, fast_zero: false, ..can };
    let can = if vdisk.export.read_only { reads } else { can };
    let mut flags =
        TransmissionFlags::FLUSH.with(TransmissionFlags::FUA).with(TransmissionFlags::MULTI_CONN);
    for (can, flag) in [
        (can.trim, TransmissionFlags::TRIM),
        (can.zero, TransmissionFlags::WRITE_ZEROES),
        (!can.write, TransmissionFlags::READ_ONLY),
        (can.cache, TransmissionFlags::CACHE),
        // An emulated device zeroes no faster than it writes.
        (can.fast_zero && device.emulate.is_none(), TransmissionFlags::FAST_ZERO),
    ] {
        flags = if can { flags.with(flag) } else { flags };
    }
    if device.emulate.is_some() {
        flags = flags.with(TransmissionFlags::ROTATIONAL);
    }
    let block_sizes = BlockSizes::new(1, 4096, REQUEST_BYTES_MAX).expect("constants that fit");
    let description = vdisk.export.description.clone();
    let description = description.unwrap_or_else(|| format!("a virtual disk of {}", device.name));
    ExportInfo { name: vdisk.name.clone(), description, size_bytes: vdisk.size, flags, block_sizes }
}

/// The traces of all virtual disks that are recorded, begun.
fn begin_traces(config: &Config) -> Result<Recorders, StartError> {
    let mut recorders = Recorders::default();
    for (_, vdisk) in config.vdisks() {
        let begun = vdisk.record.as_deref().map(|path| recorders.begin(path, &vdisk.name));
        let failed = |error| StartError::Trace { vdisk: vdisk.name.clone(), error };
        begun.transpose().map_err(failed)?;
    }
    Ok(recorders)
}

/// The socket for reports of missed deadlines, if the configuration has one.
fn reports(config: &Config) -> Result<Option<ReportSocket>, StartError> {
    let Some(path) = config.misses.as_deref() else { return Ok(None) };
    let failed = |error| StartError::Listen { listen: Listen::Unix(path.into()), error };
    ReportSocket::bind(path).map(Some).map_err(failed)
}

/// As many descriptors as the system allows: each virtual disk may have a file, each client has a socket.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if limit != raised
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::debug!(%error, "the limit of descriptors stays as it is");
    }
}

/// Sleeps of this thread end when they should: by default the kernel adds up to 50 µs.
fn set_timer_slack() {
    if let Err(error) = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)) {
        tracing::debug!(%error, "timers stay coarse");
    }
}
