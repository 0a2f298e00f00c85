//! A shard: one device, one thread, one ring, one engine. No locks in the data path.
//!
//! A turn: completions are reaped, NBD bytes become requests, the engine says what the device does
//! next, pieces start and end, replies gather; then everything is submitted at once.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use disktime_core::cost::Estimate;
use disktime_core::{Contract, Engine, Instant};
use slab::Slab;

use crate::backend::{BackEnd, DeviceError, Io, Survey};
use crate::bitmap::{BitmapSpec, BitmapStep, BitmapView};
use crate::buffers::{Buffer, Pool};
use crate::clock;
use crate::emulate::Emulator;
use crate::frontend::nbd::{Accepted, Connection};
use crate::frontend::request::Work;
use crate::ring::{Finished, Keep, Ring, Token, Transfer};
use crate::stats::DeviceStats;

mod bitmaps;
mod carried;
mod carrier;
mod cause;
mod changes;
mod clients;
mod copies;
mod crossing;
mod depths;
mod device;
mod events;
mod flushes;
mod guest_streams;
mod guests;
mod handle;
mod holds;
mod idle;
mod migration;
mod own_time;
mod parting;
mod pieces;
mod touched;
mod turns;
mod vdisks;
mod watched;

pub use bitmaps::{BitmapError, LeftBitmaps};
use carried::Carried;
use cause::Cause;
use copies::Copies;
pub(crate) use depths::Depths;
use device::{AtDevice, Flight};
pub use guest_streams::{GuestStreamId, GuestStreamView, MountId, MountView};
pub use guests::FromGuest;
use guests::Guests;
pub(crate) use guests::{GUEST_REQUESTS_MAX, guest_spec};
pub use handle::ShardHandle;
use idle::Idle;
use migration::Migration;
use own_time::OwnTime;
pub use parting::Leaving;
use touched::Touched;
use turns::Turns;
use vdisks::Vdisks;
pub use vdisks::{Answer, NewVdisk, Vdisk, VdiskError, VdiskId};
pub use watched::{Watch, WatchedDevice, WatchedMount, WatchedVdisk};

/// The longest piece of a device in bytes, and the longest part of a request: what is at the device
/// holds others up for as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceMax {
    usual: u32,
    /// Where a virtual disk of the device has a latency bound.
    bounded: u32,
}

impl PieceMax {
    /// The bounds of a device that does its work itself, or whose work is timed by a model.
    pub(crate) const REMOTE: Self = Self { usual: 1 << 20, bounded: 256 << 10 };
    /// The bounds of a device whose work the shard's thread does itself: a copy of 128 KiB takes some 15 us while
    /// it is in the processor's cache, which holds what all clients have under way in parts of this
    /// length.
    pub(crate) const ON_THE_SHARD: Self = Self { usual: 128 << 10, bounded: 128 << 10 };

    /// The longest, where somebody has a latency bound or nobody has.
    pub(crate) fn beside(self, bounded: bool) -> u32 {
        if bounded { self.bounded } else { self.usual }
    }
}

/// A turn gives the device's work so long, and clients as long, whatever is left: then the ring is asked
/// what has come since, so that no client's work keeps another's requests from being seen. At ten times as
/// much a light client's 99th percentile beside a flood of flushes is 730 us (`cargo xtask bench hostile`).
const TURN: disktime_core::Duration = disktime_core::Duration::from_micros(50);
/// The least that a turn gives the device's work while a client waits for the thread: ten times the system
/// call that ends it, of about 1 us. Where all of [`TURN`] went by before a client was looked at, one with four
/// requests at once had .4 beside trims and zeroes of what it had beside an ordinary neighbour.
const TURN_LEAST: disktime_core::Duration = disktime_core::Duration::from_micros(10);
/// Requests that are taken from one client before the next one is looked at.
const VISIT: u32 = 32;
/// A back end that goes on by itself is handed so many pieces, at some 2 us each, between two looks at
/// the clock.
const HANDED: u32 = 8;
/// How long a drain waits for requests already taken.
pub const DRAIN: disktime_core::Duration = disktime_core::Duration::from_secs(4);
/// For a time of the timing model that is nearer than this the shard waits awake: a sleep ends some
/// 30 us late, which a fast sequential stream would feel.
const SPIN: disktime_core::Duration = disktime_core::Duration::from_micros(80);

/// Messages from other threads to a shard.
pub enum Message {
    /// A client whose handshake is over.
    Client {
        /// Its connection.
        client: Accepted,
        /// Its virtual disk.
        vdisk: VdiskId,
    },
    /// A virtual disk to serve from now on.
    AddVdisk(Box<NewVdisk>),
    /// A virtual disk to serve no longer. The answer comes when nothing of it is left.
    RemoveVdisk(VdiskId, Answer),
    /// Contracts to hold from now on, all of them or none.
    Change(Vec<(VdiskId, Contract)>, Answer),
    /// A virtual disk of so many bytes from now on, no fewer than before.
    Grow {
        /// Which.
        vdisk: VdiskId,
        /// Its size in bytes.
        bytes: u64,
        /// Where that lies, if the device's offsets are places.
        extent: Option<(u64, u64)>,
        /// Where the outcome goes.
        answer: Answer,
    },
    /// A virtual disk of fewer bytes from now on, if no client has it.
    Shrink {
        /// Which.
        vdisk: VdiskId,
        /// Its size in bytes.
        bytes: u64,
        /// Where that lies, if the device's offsets are places.
        extent: Option<(u64, u64)>,
        /// Where the outcome goes.
        answer: Answer,
    },
    /// The name that a virtual disk has from now on, for the log.
    Rename(VdiskId, String),
    /// A virtual disk whose requests wait from now on. The answer comes when the device has none of
    /// them.
    Hold(VdiskId, Answer),
    /// A virtual disk whose requests go on.
    Release(VdiskId),
    /// The bitmaps that a virtual disk has from now on. Known ones go on.
    Bitmaps(VdiskId, Vec<BitmapSpec>, Answer),
    /// A step of a bitmap, if any; the answer has all bitmaps of the virtual disk.
    Bitmap {
        /// Which virtual disk.
        vdisk: VdiskId,
        /// Which bitmap and what is done to it.
        step: Option<(String, BitmapStep)>,
        /// Where the outcome goes.
        answer: Sender<Result<Vec<BitmapView>, BitmapError>>,
    },
    /// A guest comes or goes.
    Guest(u64, FromGuest),
    /// A client of a virtual disk reports a missed deadline.
    Missed(VdiskId),
    /// Say what each virtual disk's pieces are taken to cost, in the order of identities, where the
    /// answer has room.
    Estimates(Sender<Vec<Vec<Estimate>>>),
    /// Say how the device and each virtual disk are now.
    Watch(Watch, Sender<WatchedDevice>),
    /// Take no more requests, finish those taken, and end.
    Drain,
    /// The same, with clients left for a successor.
    HandOver(Sender<Leaving>),
}

/// The parts that a shard is made of.
pub struct Parts {
    /// With every virtual disk's stream added.
    pub engine: Engine,
    /// The back end, which stores the bytes.
    pub back_end: Box<dyn BackEnd>,
    /// A timing model in front of it.
    pub emulator: Option<Emulator>,
    /// The virtual disks, in the order of their streams.
    pub vdisks: Vec<(VdiskId, Vdisk)>,
    /// If the back end may migrate data, what that is charged to: the stream after the last.
    pub migration: Option<Vdisk>,
    /// Depths by latency, where they are asked for.
    pub(crate) depths: Option<Depths>,
    /// The longest piece.
    pub(crate) piece_max: PieceMax,
    /// Clients that are idle for so long are let go.
    pub idle_timeout: Option<disktime_core::Duration>,
    /// All virtual disks are flushed at the end: nothing tells a successor what was not.
    pub flushes_at_end: bool,
    /// Threads that carry clients' bytes; with none the shard's own does.
    pub carriers: u32,
    /// Live figures.
    pub stats: Arc<DeviceStats>,
    /// Messages from other threads; each is followed by a count on the wake-up.
    pub messages: Receiver<Message>,
    /// An eventfd.
    pub wakeup: Arc<OwnedFd>,
}

/// Work on its way through the shard.
struct Operation {
    work: Work,
    vdisk: u32,
    /// The data of a read or write.
    buffer: Option<Buffer>,
    /// Where they begin in a buffer that the back end lends: else at the work's own place.
    lent_at: Option<usize>,
    error: Option<DeviceError>,
    /// The engine has it.
    arrived: bool,
    /// The device has begun it.
    begun: bool,
    /// No more parts of the request come. Said of carried clients' work alone.
    last: bool,
    /// Its virtual disk is held: the engine has it later.
    waits: bool,
    /// The answer to a status.
    survey: Option<Box<Survey>>,
}

/// Messages from other threads, each followed by a count on the wake-up.
struct Inbox {
    messages: Receiver<Message>,
    wakeup: Arc<OwnedFd>,
}

/// One device's thread.
pub struct Shard {
    ring: Ring,
    pool: Pool,
    engine: Engine,
    device: AtDevice,
    vdisks: Vdisks,
    stats: Arc<DeviceStats>,
    inbox: Inbox,
    clients: Slab<Connection>,
    /// Clients whose connections are with other threads. Then there are no others.
    carried: Option<Carried>,
    /// Clients that have something to send or to read, each once.
    touched: Touched,
    operations: Slab<Operation>,
    copies: Copies,
    migration: Option<Migration>,
    depths: Option<Depths>,
    turns: Turns,
}

impl Shard {
    /// A shard on the calling thread, which it must not leave.
    ///
    /// # Errors
    /// If the kernel gives no ring.
    pub fn new(mut parts: Parts) -> io::Result<Self> {
        let mut operations = Slab::new();
        let (mut vdisks, count) = (Vdisks::default(), parts.vdisks.len());
        for (id, vdisk) in parts.vdisks {
            let stream = vdisks.add(Some(id), vdisk);
            let view = parts.engine.stream(stream).expect("each virtual disk's stream was added");
            vdisks.agree(stream, &view.spec().contract);
        }
        let migration = parts.migration.map(|vdisk| {
            let stream = vdisks.add(None, vdisk);
            Migration::new(stream, &mut operations)
        });
        let mut pool = parts.back_end.pool();
        let mut ring = Ring::new(pool.arena())?;
        listen(&mut ring, &mut pool, Token::Wakeup, &parts.wakeup);
        let part_max = parts.piece_max.beside(vdisks.has_bound());
        let carried = Carried::start((parts.carriers, part_max), parts.idle_timeout, &parts.stats)?;
        if let Some(carried) = &carried {
            listen(&mut ring, &mut pool, Token::Carriers, &carried.wakeup);
        }
        parts.back_end.begin(&mut Io { ring: &mut ring, pool: &mut pool });
        let flushes = flushes::of(&*parts.back_end, count + usize::from(migration.is_some()));
        Ok(Self {
            ring,
            pool,
            engine: parts.engine,
            device: AtDevice {
                back_end: parts.back_end,
                emulator: parts.emulator,
                flights: Slab::new(),
                flushes,
                parts: Vec::new(),
                landed: VecDeque::new(),
                piece_max: parts.piece_max,
            },
            vdisks,
            stats: parts.stats,
            inbox: Inbox { messages: parts.messages, wakeup: parts.wakeup },
            clients: Slab::new(),
            carried,
            touched: Touched::default(),
            operations,
            copies: Copies::default(),
            migration,
            depths: parts.depths,
            turns: Turns {
                heard_at: clock::now(),
                now: clock::now(),
                unfinished: false,
                spun: false,
                drain_until: None,
                parting: None,
                flushes_at_end: parts.flushes_at_end,
                own_time: OwnTime::new(parts.carriers),
                idle: Idle::new(parts.idle_timeout.filter(|_| parts.carriers == 0)),
                guests: Guests::default(),
            },
        })
    }

    /// Serves until drained. Answers the bitmaps that are true of what is on the device.
    ///
    /// # Errors
    /// If the ring fails: nothing can be served any more.
    pub fn run(mut self) -> io::Result<Vec<LeftBitmaps>> {
        let mut finished = Vec::new();
        while !self.drained() {
            self.go_round(&mut finished)?;
        }
        self.stats.cpu_ns.store(clock::thread_cpu_ns(), Ordering::Relaxed);
        Ok(self.leave_bitmaps(&mut finished))
    }

    /// Waits for something to do, and does it.
    fn go_round(&mut self, finished: &mut Vec<Finished>) -> io::Result<()> {
        self.wait()?;
        self.ring.reap(finished);
        self.turns.heard_at = self.look();
        for operation in finished.drain(..) {
            self.handle(operation);
        }
        self.turn();
        self.check_carriers()
    }

    fn handle(&mut self, Finished { token, keep, result }: Finished) {
        match (token, keep) {
            (Token::Wakeup, Keep::Buffer(buffer)) => self.woken(buffer),
            (Token::Carriers, Keep::Buffer(buffer)) => {
                self.pool.give_back(buffer);
                if let Some(carried) = &self.carried {
                    let wakeup = &carried.wakeup;
                    listen(&mut self.ring, &mut self.pool, Token::Carriers, wakeup);
                }
            }
            (Token::Receive(client), Keep::Buffer(buffer)) => self.received(client, buffer, result),
            (Token::Send(client), Keep::Message(message)) => {
                let connection = &mut self.clients[client as usize];
                connection.moved_at = self.turns.heard_at;
                let bytes = usize::try_from(result).unwrap_or(0);
                self.turns.own_time.moved(connection.vdisk, bytes);
                if !connection.sent(message, result) {
                    self.lose(client);
                }
                self.touch(client);
            }
            (Token::Job { job, step }, keep) => self.job_finished(job, step, keep, result),
            (Token::BackEnd(what), keep) => {
                let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
                self.device.back_end.heard(what, (keep, result), &mut io);
                self.go_on();
            }
            (Token::Cancel, _) => {}
            (token, _) => unreachable!("{token:?} comes back with the memory it went with"),
        }
    }

    /// Everything that follows from what has come in.
    fn turn(&mut self) {
        self.engine.handle_timeout(self.turns.now);
        self.steer();
        self.hurry_migration();
        let more_of_guests = self.hear_guests();
        self.take_turns_back();
        self.end_removals();
        self.copy_on();
        let all_heard = self.hear_carriers();
        let start = self.look();
        let (least, until) = (start + TURN_LEAST, start + TURN);
        let clients_until = until + TURN;
        self.turns.unfinished = loop {
            self.collect_emulated();
            let pumped = self.pump(least, until);
            if pumped && self.touched.is_empty() && !self.migrate() {
                break false;
            }
            // Completions make room for requests that waited in their clients' input. Every turn has
            // time for a client, also one that the device's work has filled.
            for _ in 0..self.touched.len() {
                let Some(client) = self.touched.pop() else { break };
                self.serve(client);
                if self.look() >= clients_until {
                    break;
                }
            }
            if !pumped || self.turns.now >= clients_until {
                break true;
            }
        };
        self.turns.unfinished |= self.copies.waits() || more_of_guests || !all_heard;
        self.charge_own_time_in_time();
        self.let_idle_go();
        self.end_parting();
        self.tell_events();
        if self.turns.drain_until.is_some_and(|until| until <= self.turns.now) {
            self.give_up();
        }
        self.settle_carriers();
    }

    /// Looks at the clock. Calls that follow at once are of this time.
    fn look(&mut self) -> Instant {
        self.turns.now = clock::now();
        self.turns.now
    }

    /// Starts what the engine dispatches and ends what has landed, until neither is left; false if
    /// something was at the end of the turn: that ends after its least time if a client waits for the thread.
    fn pump(&mut self, least: Instant, until: Instant) -> bool {
        loop {
            let mut over = false;
            let mut handed = 0;
            while let Some(dispatch) = self.engine.poll_dispatch(self.turns.now) {
                let landed = self.device.landed.len();
                self.start(&dispatch);
                handed += 1;
                // A back end that has done the piece by now took its time for that; others are handed
                // a piece within less than a look takes.
                if self.device.landed.len() > landed || handed % HANDED == 0 {
                    let now = self.look();
                    over = now >= until || (now >= least && self.is_waited_for());
                }
                if over {
                    break;
                }
            }
            // Pieces that are done by now are charged up to now, not up to what the next turn
            // brings first.
            let landed = !self.device.landed.is_empty();
            while let Some(flight) = self.device.landed.pop_front() {
                self.land(flight);
            }
            if over || !landed {
                return !over;
            }
        }
    }

    /// Whether a client waits for the thread.
    fn is_waited_for(&mut self) -> bool {
        let carried = || self.carried.as_ref().is_some_and(Carried::has_news);
        !self.touched.is_empty() || carried() || self.ring.has_come()
    }

    /// Waits until something is to be done. Carriers wake the thread only if it sleeps.
    fn wait(&mut self) -> io::Result<()> {
        let Some(carried) = &self.carried else { return self.sleep() };
        if !carried.falls_asleep() || self.turns.unfinished {
            carried.awakes();
            return self.ring.look_in();
        }
        let waited = self.sleep();
        self.carried.iter().for_each(Carried::awakes);
        waited
    }

    /// Waits until something is to be done: until an operation is over, or the engine's or the
    /// model's next time. Waits awake for a near time of the model, but not twice in a row: others
    /// are heard in between.
    fn sleep(&mut self) -> io::Result<()> {
        if self.turns.unfinished {
            return self.ring.wait(Some(Duration::ZERO));
        }
        let emulated = self.device.emulator.as_ref().and_then(Emulator::next);
        let steer = self.depths.as_ref().and_then(Depths::next);
        let migration = self.migration_waits_until();
        let idle = self.turns.idle.next();
        let removal = self.vdisks.removing.front().map(|(until, _)| *until);
        let engine = self.engine.poll_timeout();
        let drain = self.turns.drain_until.into_iter().chain(self.parting_until()).min();
        let guests = self.turns.guests.next();
        let next = [engine, emulated, drain, steer, migration, idle, removal, guests];
        let next = next.into_iter().flatten().min();
        let now = self.look();
        let left = next.map(|next| next.since(now));
        let near = emulated.filter(|_| emulated == next && left <= Some(SPIN) && !self.turns.spun);
        self.turns.spun = near.is_some();
        let Some(until) = near else {
            // Up early for a time of the model, to be awake when it comes.
            let early = if emulated == next { SPIN } else { disktime_core::Duration::ZERO };
            let sleep = left.map(|left| left.saturating_sub(early).as_nanos());
            return self.ring.wait(sleep.map(Duration::from_nanos));
        };
        self.ring.submit()?;
        while clock::now() < until {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn woken(&mut self, buffer: Buffer) {
        self.pool.give_back(buffer);
        listen(&mut self.ring, &mut self.pool, Token::Wakeup, &self.inbox.wakeup);
        self.carried.iter_mut().for_each(Carried::look);
        self.stats.cpu_ns.store(clock::thread_cpu_ns(), Ordering::Relaxed);
        // Cycles end also while no request does.
        self.vdisks.rated().into_iter().for_each(|stream| self.publish_cycles(stream));
        self.publish_best_effort();
        while let Ok(message) = self.inbox.messages.try_recv() {
            match message {
                Message::Client { client, vdisk } => self.welcome(client, vdisk),
                Message::AddVdisk(new) => self.add_vdisk(*new),
                Message::RemoveVdisk(vdisk, answer) => self.remove_vdisk(vdisk, answer),
                Message::Change(contracts, answer) => self.set_contracts(&contracts, &answer),
                Message::Grow { vdisk, bytes, extent, answer } => {
                    self.grow_vdisk(vdisk, (bytes, extent), &answer);
                }
                Message::Shrink { vdisk, bytes, extent, answer } => {
                    self.shrink_vdisk(vdisk, (bytes, extent), &answer);
                }
                Message::Rename(vdisk, name) => self.rename_vdisk(vdisk, name),
                Message::Hold(vdisk, answer) => self.hold(vdisk, answer),
                Message::Release(vdisk) => self.release(vdisk),
                Message::Bitmaps(vdisk, specs, answer) => {
                    self.set_bitmaps(vdisk, specs, &answer);
                }
                Message::Bitmap { vdisk, step, answer } => {
                    self.step_bitmap(vdisk, step.as_ref(), &answer);
                }
                Message::Guest(guest, message) => self.guest(guest, message),
                Message::Missed(vdisk) => self.reported(vdisk),
                Message::Estimates(answer) => {
                    let streams = self.vdisks.streams();
                    let estimates = streams.map(|stream| self.engine.estimates(stream));
                    if answer.try_send(estimates.collect()).is_err() {
                        tracing::debug!("nobody waits for estimates any more");
                    }
                }
                Message::Watch(watch, answer) => {
                    let _nobody_waits = answer.try_send(self.watched(watch));
                }
                Message::Drain => self.drain(),
                Message::HandOver(to) => self.hand_over(to),
            }
        }
    }

    /// The longest part of a request beside all contracts, in bytes.
    fn part_max(&self) -> u32 {
        self.device.piece_max.beside(self.vdisks.has_bound())
    }

    fn drain(&mut self) {
        self.turns.drain_until.get_or_insert(clock::now() + DRAIN);
        self.lose_guests();
        for key in self.client_keys() {
            self.close(key);
        }
    }

    /// A drain took too long: what is left is not served, and the device's answers are not waited for.
    /// None of it was acknowledged.
    fn give_up(&mut self) {
        tracing::warn!(requests = self.operations.len(), "drained no further: giving up");
        for key in self.client_keys() {
            self.lose(key);
        }
        self.turns.drain_until = Some(Instant::MAX);
    }

    fn drained(&self) -> bool {
        let carried = self.carried.as_ref().is_some_and(|it| !it.is_empty());
        let over = self.clients.is_empty() && !carried && self.device.flights.is_empty();
        self.turns.drain_until.is_some_and(|until| over || until == Instant::MAX)
    }

    fn client_keys(&self) -> Vec<u32> {
        match &self.carried {
            Some(carried) => carried.keys(),
            None => self.clients.iter().map(|(key, _)| name(key)).collect(),
        }
    }
}

/// Waits for the next count on the wake-up.
fn listen(ring: &mut Ring, pool: &mut Pool, token: Token, wakeup: &OwnedFd) {
    let buffer = pool.take(8);
    let transfer = Transfer { fd: wakeup.as_raw_fd(), offset: 0, buffer, range: 0..8 };
    ring.read(token, transfer);
}

/// A slab's key as a name for the ring and the engine.
fn name(key: usize) -> u32 {
    u32::try_from(key).expect("tables are bounded far below 2^32")
}

#[cfg(test)]
mod tests;
