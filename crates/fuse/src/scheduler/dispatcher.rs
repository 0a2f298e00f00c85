//! The engine's thread: what came in, what the device shall do next, what is done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use disktime_core::cost::CostParameters;
use disktime_core::{
    BrokenBy, Change, ChangeError, Class, Contract, Dispatch, Engine, Event, Instant, Limits,
    Outcome, Request, RequestId, Share, StreamId, StreamSpec,
};
use disktime_model::Op;
use disktime_server::clock;
use disktime_server::emulate::Emulator;
use rustix::io::Errno;
use slab::Slab;

use super::flights::{Flight, Operation};
use super::workers::{Action, Job, Moved};
use super::{Message, Parameter, Report, StreamReport, Terms, Transfer};
use crate::file_system::Answer;
use crate::mount_error::MountError;
use crate::open_files::OpenFile;
use crate::places::Places;
use crate::transfer::{Buffers, Waiting};

/// The contract of a stream to which nothing is promised.
const USUAL: Contract = Contract::reserving(Share::ZERO);
/// The stream that files without one share.
const SHARED: StreamId = StreamId(0);
/// Open files with streams of their own at once, and the one stream that the others share.
const STREAMS_MAX: u32 = 65_536;
/// Requests alive at once; each is a call of the kernel that waits for its answer.
const REQUESTS_MAX: u32 = 1 << 20;
/// The largest piece: a longer request goes out in several.
const PIECE_BYTES: u64 = 1 << 20;
/// Messages that are taken before the device is looked at again.
const MESSAGES_AT_ONCE: usize = 64;

/// The means by which the thread reaches others.
pub(super) struct Outside {
    pub(super) jobs: Sender<Job>,
    pub(super) buffers: Arc<Buffers>,
    pub(super) waiting: Arc<Waiting>,
    /// Streams with a contract that is not the usual one.
    pub(super) classed: Arc<AtomicU32>,
}

/// A stream of an open file.
struct OpenStream {
    file: Weak<OpenFile>,
    /// Its file is not open any more: it goes with its last request.
    released: bool,
}

pub(super) struct Dispatcher {
    engine: Engine,
    emulator: Option<Emulator>,
    places: Places,
    operations: Slab<Operation>,
    flights: Slab<Flight>,
    streams: BTreeMap<StreamId, OpenStream>,
    /// Names of streams that are free again.
    free: Vec<StreamId>,
    /// The least name of a stream that was never used.
    next: u32,
    headroom: Share,
    /// Times that a stream was behind its promise.
    broken: BTreeMap<StreamId, u64>,
    outside: Outside,
}

impl Dispatcher {
    pub(super) fn new(terms: &Terms, outside: Outside) -> Result<Self, MountError> {
        let scheduling = &terms.scheduling;
        let known = terms.profile.as_ref();
        let depth =
            scheduling.queue_depth.on(known.map(disktime_profiler::DeviceProfile::fast_from));
        let limits = Limits {
            depth,
            depth_max: scheduling.queue_depth.most().max(depth),
            requests_max: REQUESTS_MAX,
            streams_max: STREAMS_MAX,
        };
        let config = scheduling.engine(limits, CostParameters::default());
        let mut engine = Engine::new(&config).map_err(MountError::Engine)?;
        let now = clock::now();
        let mut change =
            |change: Change<'_>| engine.handle_change(now, change).map_err(MountError::Contract);
        scheduling.changes().try_for_each(&mut change)?;
        if let Some(known) = known {
            change(Change::SetProfile(&known.profile))?;
        }
        change(Change::AddStream(SHARED, spec(Contract::default())))?;
        let emulator = terms.emulate.map(|emulate| Emulator::new(emulate, 1));
        let places =
            Places::new(terms.emulate.map(disktime_server::emulate::Emulate::capacity_bytes));
        Ok(Self {
            engine,
            emulator,
            places,
            operations: Slab::new(),
            flights: Slab::new(),
            streams: BTreeMap::new(),
            free: Vec::new(),
            next: 1,
            headroom: scheduling.headroom,
            broken: BTreeMap::new(),
            outside,
        })
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            self.dispatch();
            let message = match self.wake_at() {
                None => messages.recv().ok(),
                Some(at) => {
                    let wait = at.since(clock::now()).as_nanos();
                    match messages.recv_timeout(std::time::Duration::from_nanos(wait)) {
                        Ok(message) => Some(message),
                        Err(RecvTimeoutError::Timeout) => {
                            self.timed();
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => None,
                    }
                }
            };
            let Some(message) = message else { return };
            let more = messages.try_iter().take(MESSAGES_AT_ONCE);
            for message in std::iter::once(message).chain(more) {
                if matches!(message, Message::Stop) {
                    return;
                }
                self.handle(message);
            }
            self.timed();
        }
    }

    /// When the engine or the timing model has something to do.
    fn wake_at(&self) -> Option<Instant> {
        let modelled = self.emulator.as_ref().and_then(Emulator::next);
        [self.engine.poll_timeout(), modelled].into_iter().flatten().min()
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Transfer(transfer) => self.arrived(*transfer),
            Message::Moved(flight, result) => self.moved(flight, result),
            Message::Contract(file, contract, answer) => {
                // The thread that asked may be gone: then the answer is too.
                let _gone = answer.send(self.set(&file, contract));
            }
            Message::Late(stream, answer) => {
                let _gone = answer.send(self.change(Change::MissedDeadline(stream)));
            }
            Message::Released(stream) => {
                if let Some(open) = self.streams.get_mut(&stream) {
                    open.released = true;
                }
                self.end_stream(stream);
            }
            Message::Parameter(parameter, answer) => {
                let _gone = answer.send(self.set_parameter(parameter));
            }
            Message::Report(answer) => {
                let _gone = answer.send(self.report());
            }
            Message::Stop => {}
        }
    }

    /// Notes that time has passed.
    fn timed(&mut self) {
        self.collect();
        self.engine.handle_timeout(clock::now());
        while let Some(event) = self.engine.poll_event() {
            self.tell(event);
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::PromiseBroken { stream, behind, bound, by } => {
                *self.broken.entry(stream).or_default() += 1;
                let by = if by == BrokenBy::Device { "the device" } else { "other streams" };
                tracing::warn!(%stream, ?behind, ?bound, by, "a stream is behind its promise");
            }
            Event::CycleMissed { stream, waited, done } => {
                tracing::info!(%stream, waited, done, "a cycle of a guaranteed rate was missed");
            }
            Event::Cut(stream) => tracing::warn!(%stream, "the device can't keep all rates: cut"),
            Event::Restored(stream) => tracing::warn!(%stream, "its rate is kept again"),
            _ => tracing::debug!(?event),
        }
    }

    fn arrived(&mut self, transfer: Transfer) {
        let stream = transfer.file.stream().filter(|stream| self.streams.contains_key(stream));
        let stream = stream.unwrap_or(SHARED);
        let range = (transfer.offset, transfer.bytes);
        let place = match transfer.place {
            Some(place) => self.places.within(place, transfer.bytes),
            None => self.places.of(&transfer.file.node, transfer.length, range),
        };
        let operation = Operation::new(transfer, stream, place);
        let (kind, bytes) = (operation.kind(), operation.bytes);
        let key = self.operations.insert(operation);
        let id = RequestId(u32::try_from(key).unwrap_or(u32::MAX));
        let request = Request {
            id,
            stream,
            kind,
            offset: place,
            bytes,
            fua: false,
            class: None,
            deadline: None,
        };
        if let Err(refusal) = self.engine.handle_arrival(clock::now(), request) {
            tracing::warn!(%refusal, "a request is refused: its program gets EAGAIN");
            let operation = self.operations.remove(key);
            self.outside.waiting.give_back(operation.refuse(Errno::AGAIN));
        }
    }

    /// Has the device do all that the engine says.
    fn dispatch(&mut self) {
        while let Some(dispatch) = self.engine.poll_dispatch(clock::now()) {
            self.start(&dispatch);
        }
    }

    fn start(&mut self, dispatch: &Dispatch) {
        let operation = &self.operations[dispatch.request.0 as usize];
        let range = operation.range(dispatch.offset, dispatch.bytes);
        let (file, kind) = (Arc::clone(&operation.file), operation.kind());
        let offset = operation.offset + range.start as u64;
        let action = match operation.data() {
            None => Action::Read(range.len()),
            Some(data) => Action::Write(data, range.clone(), dispatch.flush),
        };
        let flight = self.flights.insert(Flight {
            request: dispatch.request.0,
            piece: dispatch.piece,
            range,
            result: None,
            timed: self.emulator.is_none(),
        });
        if let Some(emulator) = &mut self.emulator {
            let Dispatch { offset, bytes, flush, .. } = *dispatch;
            let name =
                u32::try_from(flight).expect("pieces at the device are bounded by its depth");
            emulator.start(clock::now(), name, Op { kind, offset, bytes, fua: flush }, &[]);
        }
        let job = Job { flight, file, offset, action };
        self.outside.jobs.send(job).expect("workers run as long as the engine's thread");
    }

    fn moved(&mut self, key: usize, result: Answer<Moved>) {
        let flight = &mut self.flights[key];
        flight.result = Some(result);
        if flight.timed {
            self.land(key);
        }
    }

    /// Notes what the timing model has done by now.
    fn collect(&mut self) {
        let Some(emulator) = &mut self.emulator else { return };
        let (flights, mut landed) = (&mut self.flights, Vec::new());
        emulator.collect(clock::now(), |name, _| {
            let flight = &mut flights[name as usize];
            flight.timed = true;
            if flight.result.is_some() {
                landed.push(name as usize);
            }
        });
        landed.into_iter().for_each(|key| self.land(key));
    }

    /// A piece is done by the worker and by the timing model.
    fn land(&mut self, key: usize) {
        let Flight { request, piece, range, result, .. } = self.flights.remove(key);
        let result = result.expect("only pieces with a result land");
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        self.operations[request as usize].note(range, result);
        let over = self.engine.handle_completion(clock::now(), piece, outcome);
        if over.is_none() {
            return;
        }
        let operation = self.operations.remove(request as usize);
        let stream = operation.stream;
        let waited = operation.answer(&self.outside.buffers);
        if waited > 0 {
            self.outside.waiting.give_back(waited);
        }
        if self.streams.get(&stream).is_some_and(|open| open.released) {
            self.end_stream(stream);
        }
    }

    fn change(&mut self, change: Change<'_>) -> Result<(), ChangeError> {
        self.engine.handle_change(clock::now(), change)
    }

    fn set(&mut self, file: &Arc<OpenFile>, contract: Contract) -> Result<(), ChangeError> {
        if let Some(stream) = file.stream() {
            let before = self.contract(stream);
            self.change(Change::SetContracts(&[(stream, contract)]))?;
            self.count(before, contract);
            return Ok(());
        }
        let stream = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            StreamId(self.next - 1)
        });
        if let Err(error) = self.change(Change::AddStream(stream, spec(contract))) {
            self.free.push(stream);
            return Err(error);
        }
        self.streams.insert(stream, OpenStream { file: Arc::downgrade(file), released: false });
        file.set_stream(stream);
        self.count(USUAL, contract);
        Ok(())
    }

    /// A stream whose file is closed goes, unless it has requests: then with the last of them.
    fn end_stream(&mut self, stream: StreamId) {
        let before = self.contract(stream);
        if stream == SHARED || self.change(Change::RemoveStream(stream)).is_err() {
            return;
        }
        self.streams.remove(&stream);
        self.broken.remove(&stream);
        self.free.push(stream);
        self.count(before, USUAL);
    }

    fn contract(&self, stream: StreamId) -> Contract {
        self.engine.stream(stream).map_or(USUAL, |view| asked(&view.spec().contract))
    }

    /// Counts the streams that have another contract than the usual one.
    fn count(&self, before: Contract, after: Contract) {
        let (before, after) = (before != USUAL, after != USUAL);
        match (before, after) {
            (false, true) => self.outside.classed.fetch_add(1, Ordering::AcqRel),
            (true, false) => self.outside.classed.fetch_sub(1, Ordering::AcqRel),
            _ => return,
        };
    }

    fn set_parameter(&mut self, parameter: Parameter) -> Result<(), ChangeError> {
        match parameter {
            Parameter::Depth(depth) => self.change(Change::SetDepth(depth)),
            Parameter::Headroom(headroom) => {
                self.change(Change::SetHeadroom(headroom))?;
                self.headroom = headroom;
                Ok(())
            }
            Parameter::Shared(contract) => self.change(Change::SetContracts(&[(SHARED, contract)])),
        }
    }

    fn report(&self) -> Report {
        let streams = self.engine.streams().map(|view| StreamReport {
            stream: view.id(),
            file: self.streams.get(&view.id()).map(|open| open.file.clone()),
            contract: view.spec().contract,
            counters: view.counters(),
            waiting: view.waiting(),
            promise: self.engine.promise(view.id()),
            broken: self.broken.get(&view.id()).copied().unwrap_or(0),
        });
        let shared = self.engine.stream(SHARED).map(|view| view.spec().contract);
        Report {
            streams: streams.collect(),
            device: self.engine.device_time(),
            depth: self.engine.depth(),
            in_flight: self.engine.in_flight(),
            headroom: self.headroom,
            shared: shared.unwrap_or_default(),
            slack: self.engine.slack(),
        }
    }
}

/// A contract as it was asked for: the reservation of a rate follows from it.
fn asked(contract: &Contract) -> Contract {
    let reserve = if contract.rate.is_some() { Share::ZERO } else { contract.reserve };
    Contract { reserve, ..*contract }
}

/// A stream of that contract.
fn spec(contract: Contract) -> StreamSpec {
    let alone = contract.class == Class::Background;
    StreamSpec {
        contract,
        queue_max: REQUESTS_MAX,
        piece_bytes_max: if alone { PIECE_BYTES / 4 } else { PIECE_BYTES },
        ..StreamSpec::default()
    }
}
