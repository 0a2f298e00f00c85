//! The device's time among open files: one thread asks the engine whose turn it is, a pool of workers
//! moves bytes. The engine is the mount's own, or a daemon's.
//!
//! Reads and writes come in over a bounded channel and are answered when the engine has had them
//! done. While no open file has a contract and no device is emulated, requests of files without a
//! contract don't come here at all: they go straight through. As soon as one has, they share one
//! stream of best effort, since a reservation can't be kept beside requests that the engine does
//! not see.

mod dispatcher;
mod flights;
mod turns;
mod workers;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use disktime_config::Scheduling;
use disktime_core::{Contract, DeviceTime, Duration, Share, StreamCounters, StreamId};
use disktime_profiler::DeviceProfile;
use disktime_server::emulate::Emulate;
use disktime_server::guests::GuestLine;

use crate::abi::Refused;
use crate::file_system::{ReadReply, WriteReply};
use crate::mount_error::MountError;
use crate::open_files::OpenFile;
use crate::transfer::{Buffers, Data, Waiting};

use dispatcher::Dispatcher;
use turns::{Daemon, Own, Turns};
use workers::Workers;

/// Messages that wait for the engine's thread; a thread that has one more waits.
const MESSAGES_MAX: usize = 4096;
/// Open files with streams of their own at once, and the one stream that the others share.
const STREAMS_MAX: u32 = 65_536;
/// Requests alive at once; each is a call of the kernel that waits for its answer.
const REQUESTS_MAX: u32 = 1 << 20;
/// The name of the stream that files without one share, for people.
pub(crate) const SHARED_NAME: &str = "(shared)";
/// The largest piece: a longer request goes out in several.
const PIECE_BYTES: u64 = 1 << 20;

/// A read or write that is to be done in its turn.
pub(crate) struct Transfer {
    pub(crate) file: Arc<OpenFile>,
    /// The first byte in the file.
    pub(crate) offset: u64,
    /// Bytes that the device has to move: a read past the end of the file moves fewer than asked.
    pub(crate) bytes: u64,
    /// The file's length when it came.
    pub(crate) length: u64,
    /// Its first byte on the device, if the file system below says so.
    pub(crate) place: Option<u64>,
    pub(crate) work: Work,
}

/// The two kinds of transfers.
pub(crate) enum Work {
    /// So many bytes, if the file has them.
    Read(usize, ReadReply),
    Write(Arc<Data>, WriteReply),
}

/// A parameter of the engine that can be changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameter {
    Depth(u32),
    Headroom(Share),
    /// The contract of the stream that files without one share.
    Shared(Contract),
}

enum Message {
    Transfer(Box<Transfer>),
    Contract(Arc<OpenFile>, Contract, Sender<Result<(), Refused>>),
    Late(StreamId, Sender<bool>),
    Released(StreamId),
    Parameter(Parameter, Sender<Result<(), String>>),
    Report(Sender<Arc<Report>>),
    Stop,
}

/// The figures of a stream.
pub(crate) struct StreamReport {
    pub(crate) stream: StreamId,
    /// Its file; none for the stream that files without a contract share.
    pub(crate) file: Option<Weak<OpenFile>>,
    pub(crate) contract: Contract,
    pub(crate) counters: StreamCounters,
    pub(crate) waiting: u32,
    pub(crate) promise: Option<Duration>,
    /// Times that it was behind its promise.
    pub(crate) broken: u64,
}

/// The figures of the device and of all streams.
pub(crate) struct Report {
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) device: DeviceTime,
    pub(crate) depth: u32,
    pub(crate) in_flight: u32,
    pub(crate) headroom: Share,
    /// The share that is reserved for all streams together, those of others on the device among them.
    pub(crate) reserved_ppm: u64,
    pub(crate) shared: Contract,
    /// The time in the slack register, in ns.
    pub(crate) slack: i64,
}

impl Report {
    /// The figures of an open file's stream. A report that was kept may be older than the file, and have figures of
    /// one that had its stream before.
    pub(crate) fn of(&self, file: &OpenFile) -> Option<&StreamReport> {
        let is_own = |it: &&StreamReport| it.file.as_ref().is_some_and(|it| it.as_ptr() == file);
        self.streams.iter().find(is_own)
    }
}

/// Terms on which a scheduler with an engine of its own is started.
pub(crate) struct Terms {
    pub(crate) scheduling: Scheduling,
    pub(crate) emulate: Option<Emulate>,
    pub(crate) profile: Option<DeviceProfile>,
}

/// The engine's thread, as other threads see it.
pub(crate) struct Scheduler {
    to: Sender<Message>,
    thread: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    /// Streams with a contract that is not the usual one.
    classed: Arc<AtomicU32>,
    waiting: Arc<Waiting>,
    /// Nothing goes straight through: a device is emulated, or shared with a daemon's virtual disks.
    counts_all: bool,
    /// The daemon whose engine it is has gone.
    gone: Arc<AtomicBool>,
}

impl Scheduler {
    /// Starts a scheduler with an engine of its own.
    pub(crate) fn start(terms: &Terms) -> Result<Self, MountError> {
        let depth_max = terms.scheduling.queue_depth.most();
        let capacity = terms.emulate.map(Emulate::capacity_bytes);
        let device = (depth_max, capacity, terms.emulate.is_some());
        Self::start_with(Box::new(Own::new(terms)?), device, Arc::default())
    }

    /// Starts a scheduler whose engine is a daemon's.
    pub(crate) fn start_as_guest(line: GuestLine) -> Result<Self, MountError> {
        let (facts, gone) = (line.facts(), Arc::default());
        let device = (facts.depth_max, facts.capacity, true);
        Self::start_with(Box::new(Daemon::new(line, Arc::clone(&gone))?), device, gone)
    }

    /// Starts the thread and its workers, at a device of that depth and capacity.
    fn start_with(
        turns: Box<dyn Turns>,
        (depth_max, capacity, counts_all): (u32, Option<u64>, bool),
        gone: Arc<AtomicBool>,
    ) -> Result<Self, MountError> {
        let (to, messages) = bounded(MESSAGES_MAX);
        let classed = Arc::new(AtomicU32::new(0));
        let (waiting, buffers) = (Arc::new(Waiting::new()), Arc::new(Buffers::default()));
        let Workers { jobs, landed, threads: workers } = workers::start(depth_max, &buffers)?;
        let shared =
            dispatcher::Outside { jobs, moved: landed, buffers, classed: Arc::clone(&classed) };
        let dispatcher = Dispatcher::new(turns, capacity, shared).map_err(MountError::Shared)?;
        let thread = Some(spawn("engine", move || dispatcher.run(&messages))?);
        Ok(Self { to, thread, workers, classed, waiting, counts_all, gone })
    }

    /// Whether the daemon whose engine it is has gone.
    pub(crate) fn is_left(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether a file's requests need not come here.
    pub(crate) fn is_straight(&self, file: &OpenFile) -> bool {
        !self.counts_all && file.stream().is_none() && !self.has_classes()
    }

    /// Whether any open file has a contract that is not the usual one.
    pub(crate) fn has_classes(&self) -> bool {
        self.classed.load(Ordering::Acquire) > 0
    }

    /// Whether each byte that moves takes the device's time.
    pub(crate) fn counts_all(&self) -> bool {
        self.counts_all || self.has_classes()
    }

    /// The data of a write, or as many of its first bytes as may wait.
    pub(crate) fn take(&self, user: Option<u32>, data: &[u8]) -> Data {
        self.waiting.take(user, data)
    }

    /// Has it done in its turn.
    pub(crate) fn transfer(&self, transfer: Transfer) {
        self.send(Message::Transfer(Box::new(transfer)));
    }

    /// Gives an open file a stream of its own with that contract, or its stream another one.
    pub(crate) fn set(&self, file: &Arc<OpenFile>, contract: Contract) -> Result<(), Refused> {
        self.ask(|answer| Message::Contract(Arc::clone(file), contract, answer)).unwrap_or(Ok(()))
    }

    /// The client of a stream says that data came too late; whether there is such a stream.
    pub(crate) fn late(&self, stream: StreamId) -> bool {
        self.ask(|answer| Message::Late(stream, answer)).unwrap_or(true)
    }

    /// A file is not open any more.
    pub(crate) fn released(&self, stream: StreamId) {
        self.send(Message::Released(stream));
    }

    /// Changes a parameter, or says why not.
    pub(crate) fn change(&self, parameter: Parameter) -> Result<(), String> {
        self.ask(|answer| Message::Parameter(parameter, answer)).unwrap_or(Ok(()))
    }

    /// The figures now; none while it ends.
    pub(crate) fn report(&self) -> Option<Arc<Report>> {
        self.ask(Message::Report)
    }

    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (answer, answered): (_, Receiver<T>) = bounded(1);
        self.send(message(answer));
        answered.recv().ok()
    }

    fn send(&self, message: Message) {
        // The thread ends after the last call of the kernel; what comes later is nobody's.
        let _ended = self.to.send(message);
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.send(Message::Stop);
        let threads = self.thread.take().into_iter().chain(self.workers.drain(..));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the scheduler panicked");
            }
        }
    }
}

pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}
