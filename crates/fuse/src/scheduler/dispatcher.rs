//! The scheduler's thread: what came in, whose turn it is, what is done.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, never, select};
use disktime_core::{Contract, Duration, Instant, Outcome, Request, RequestId, Share, StreamId};
use disktime_server::clock;
use rustix::io::Errno;
use slab::Slab;

use super::flights::{Flight, Operation};
use super::turns::{DeviceParameter, News, Over, Turn, Turns};
use super::workers::{self, Job, Landed, Moved};
use super::{Message, Parameter, Report, SHARED_NAME, StreamReport, Transfer};
use crate::abi::Refused;
use crate::nodes::lock;
use crate::open_files::OpenFile;
use crate::places::Places;
use crate::transfer::Buffers;

/// The contract of a stream to which nothing is promised.
const USUAL: Contract = Contract::reserving(Share::ZERO);
/// The stream that files without one share.
const SHARED: StreamId = StreamId(0);
/// Messages that are taken before the device is looked at again.
const MESSAGES_AT_ONCE: usize = 64;
/// A sleep that an emulated device's next piece ends is so much shorter, and the thread waits awake for the
/// rest: a sleep ends some 40 us late on a virtual machine. A sequential stream of 3,000 requests per second
/// had 10 % less for it.
const SPIN: Duration = Duration::from_micros(80);
/// The longest sleep: with nothing to wake up for, any time will do.
const SLEEP_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

/// The means by which the thread reaches others.
pub(super) struct Outside {
    pub(super) jobs: Sender<Job>,
    /// Pieces whose bytes were moved. They are apart from other messages: the device waits for each.
    pub(super) moved: Receiver<Landed>,
    pub(super) buffers: Arc<Buffers>,
    /// Streams with a contract that is not the usual one.
    pub(super) classed: Arc<AtomicU32>,
}

/// A stream of an open file.
struct OpenStream {
    file: Weak<OpenFile>,
    /// As it was asked for.
    contract: Contract,
    /// Its requests that are not answered.
    live: u32,
    /// Its file is not open any more: it goes with its last request.
    released: bool,
}

pub(super) struct Dispatcher {
    turns: Box<dyn Turns>,
    places: Places,
    operations: Slab<Operation>,
    flights: Slab<Flight>,
    /// Counts operations, so that a piece that comes late is known from those of another one.
    last: u64,
    streams: BTreeMap<StreamId, OpenStream>,
    /// The contract of the stream that files without one share.
    shared: Contract,
    /// Names of streams that are free again.
    free: Vec<StreamId>,
    /// The least name of a stream that was never used.
    next: u32,
    /// The last figures, and until when they are good enough.
    kept: Option<(Arc<Report>, Instant)>,
    /// A piece or a stream has ended since the engine was asked for turns.
    ended: bool,
    outside: Outside,
}

impl Dispatcher {
    /// On a device of so many bytes, if that is known, whose turns come from there.
    pub(super) fn new(
        mut turns: Box<dyn Turns>,
        capacity: Option<u64>,
        outside: Outside,
    ) -> Result<Self, Refused> {
        let shared = Contract::default();
        turns.add(SHARED, shared, SHARED_NAME)?;
        Ok(Self {
            turns,
            places: Places::new(capacity),
            operations: Slab::new(),
            flights: Slab::new(),
            last: 0,
            streams: BTreeMap::new(),
            shared,
            free: Vec::new(),
            next: 1,
            kept: None,
            ended: false,
            outside,
        })
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        // The system adds up to 50 us to each wait by default. Waits that stay so long are no reason to stop.
        let _coarse = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut news = self.turns.news();
        while self.round((messages, &mut news)).is_some() {}
    }

    /// Does what is to be done, and waits for more; nothing once it is told to stop.
    fn round(&mut self, (messages, news): (&Receiver<Message>, &mut Receiver<News>)) -> Option<()> {
        let goes_on = self.dispatch();
        let moved = self.outside.moved.clone();
        let wake_at = self.turns.wake_at();
        let modelled = self.turns.modelled_at().filter(|_| wake_at == self.turns.modelled_at());
        // Others are heard as they come.
        stay_awake(modelled, || {
            !goes_on && messages.is_empty() && moved.is_empty() && news.is_empty()
        });
        let sleep = asleep_for(clock::now(), (wake_at, modelled.is_some()));
        let wait = sleep.map_or(SLEEP_MAX, |it| std::time::Duration::from_nanos(it.as_nanos()));
        let wait = if goes_on { std::time::Duration::ZERO } else { wait };
        select! {
            recv(moved) -> landed => landed.into_iter().for_each(|landed| self.moved(landed)),
            recv(messages) -> message => {
                let more = messages.try_iter().take(MESSAGES_AT_ONCE);
                for message in std::iter::once(message.ok()?).chain(more) {
                    if matches!(message, Message::Stop) {
                        return None;
                    }
                    self.handle(message);
                }
            }
            recv(*news) -> heard => {
                // There are no more: a channel without its sender would be heard from again and again.
                let heard = heard.unwrap_or_else(|_| {
                    *news = never();
                    News::Gone
                });
                let more = news.try_iter().take(MESSAGES_AT_ONCE);
                std::iter::once(heard).chain(more).for_each(|heard| self.turns.hear(heard));
            }
            default(wait) => {}
        }
        self.land();
        self.turns.timed();
        self.note_lost();
        Some(())
    }

    /// Notes which streams have lost their contracts.
    fn note_lost(&mut self) {
        while let Some((stream, why)) = self.turns.lost() {
            if stream == SHARED {
                self.shared = USUAL;
            }
            let Some(open) = self.streams.get_mut(&stream) else { continue };
            let before = std::mem::replace(&mut open.contract, USUAL);
            if let Some(file) = open.file.upgrade() {
                *lock(&file.contract) = USUAL;
                *lock(&file.refused) = why;
            }
            self.classed(before, USUAL);
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Transfer(transfer) => self.arrived(*transfer),
            Message::Contract(file, contract, answer) => {
                // The thread that asked may be gone: then the answer is too.
                let _gone = answer.send(self.set(&file, contract));
            }
            Message::Late(stream, answer) => {
                let _gone = answer.send(self.turns.late(stream));
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
                if let Some(report) = self.reported() {
                    let _gone = answer.send(report);
                }
            }
            Message::Stop => {}
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
        let number = self.count();
        let operation = Operation::new(transfer, (stream, place), number);
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
        if let Some(open) = self.streams.get_mut(&stream) {
            open.live += 1;
        }
        if let Err(refusal) = self.turns.arrive(request) {
            self.refuse(key, &refusal);
        }
    }

    fn count(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn refuse(&mut self, key: usize, why: &str) {
        tracing::warn!(why, "a request is refused: its program gets EAGAIN");
        let operation = self.operations.remove(key);
        let stream = operation.stream;
        operation.held.iter().for_each(|turn| self.end(turn.name, Outcome::Failed));
        operation.refuse(Errno::AGAIN, &self.outside.buffers);
        self.answered(stream);
    }

    /// Has the device do all that may begin, and answers all that is over meanwhile: an answer copies the
    /// data, for which the device need not wait. The last piece may be moved here. Answers whether more may begin:
    /// that one was moved, or a piece or stream has ended since the engine was asked for turns.
    fn dispatch(&mut self) -> bool {
        self.ended = false;
        let mut last: Option<Turn> = None;
        while let Some(turn) = self.turns.next() {
            if let Some(before) = last.replace(turn) {
                self.start(&before, false);
            }
        }
        // Nothing else could begin meanwhile.
        let moved = last.is_some_and(|turn| self.start(&turn, true));
        self.answer_all();
        moved || self.ended
    }

    /// The engine hears that a piece is over.
    fn end(&mut self, turn: u64, outcome: Outcome) {
        self.turns.ended(turn, outcome);
        self.ended = true;
    }

    /// Answers all that is over.
    fn answer_all(&mut self) {
        while let Some(Over { request, taken }) = self.turns.over() {
            let key = request.0 as usize;
            let Some(operation) = self.operations.get_mut(key) else { continue };
            if !taken {
                self.refuse(key, "as many wait as may");
                continue;
            }
            operation.over = true;
            self.answer_if_done(key);
        }
    }

    /// Has a piece moved, or moves it if it `may`; whether it did.
    fn start(&mut self, turn: &Turn, may: bool) -> bool {
        let key = turn.request.0 as usize;
        let number = self.count();
        let Some(operation) = self.operations.get_mut(key) else {
            self.end(turn.name, Outcome::Failed);
            return false;
        };
        // A piece of before that is moved later than one of now could bring old bytes.
        if operation.open > 0 && (turn.anew || !operation.held.is_empty()) {
            operation.held.push_back(*turn);
            return false;
        }
        if turn.anew {
            operation.begin_anew(number, &self.outside.buffers);
        }
        let range = operation.range(turn.offset, turn.bytes);
        let at_once = !self.turns.keeps_time();
        let Some(action) = operation.action(&range, (turn.flush, at_once)) else {
            self.end(turn.name, Outcome::Done);
            return false;
        };
        operation.open += 1;
        let file = Arc::clone(&operation.file);
        let offset = operation.offset + range.start as u64;
        let number = operation.number;
        let flight = Flight { operation: key, number, turn: turn.name, range };
        let flight = self.flights.insert(flight);
        let mut job = Job { flight, file, offset, action };
        if may && at_once {
            job = match workers::read_if_cached(job, &self.outside.buffers) {
                Ok(landed) => {
                    self.moved(landed);
                    return true;
                }
                Err(job) => job,
            };
        }
        self.outside.jobs.send(job).expect("workers run as long as the engine's thread");
        false
    }

    /// The engine hears of all pieces that have been moved, however much else there is to hear.
    fn land(&mut self) {
        let landed = self.outside.moved.clone();
        landed.try_iter().for_each(|landed| self.moved(landed));
    }

    fn moved(&mut self, (key, result): Landed) {
        let Flight { operation: key, number, turn, range } = self.flights.remove(key);
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        self.end(turn, outcome);
        // It may have been refused meanwhile.
        let operation = self.operations.get_mut(key).filter(|it| it.number == number);
        let Some(operation) = operation else {
            if let Ok(Moved::Read(buffer, _)) = result {
                self.outside.buffers.give_back(buffer);
            }
            return;
        };
        operation.note(range, result, &self.outside.buffers);
        operation.open -= 1;
        if operation.open == 0 {
            let held = std::mem::take(&mut operation.held);
            for turn in &held {
                self.start(turn, false);
            }
        }
        self.answer_if_done(key);
    }

    /// Answers a request that is over, once its last piece has been moved.
    fn answer_if_done(&mut self, key: usize) {
        if !self.operations.get(key).is_some_and(Operation::is_done) {
            return;
        }
        let operation = self.operations.remove(key);
        let stream = operation.stream;
        operation.answer(&self.outside.buffers);
        self.answered(stream);
    }

    /// A request of a stream is answered.
    fn answered(&mut self, stream: StreamId) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.live -= 1;
        if open.released {
            self.end_stream(stream);
        }
    }

    fn set(&mut self, file: &Arc<OpenFile>, contract: Contract) -> Result<(), Refused> {
        if let Some(stream) = file.stream() {
            self.turns.set(stream, contract)?;
            if let Some(open) = self.streams.get_mut(&stream) {
                let before = std::mem::replace(&mut open.contract, contract);
                self.classed(before, contract);
            }
            return Ok(());
        }
        let stream = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            StreamId(self.next - 1)
        });
        if let Err(error) = self.turns.add(stream, contract, &file.path()) {
            self.free.push(stream);
            return Err(error);
        }
        let (file_of_it, live, released) = (Arc::downgrade(file), 0, false);
        let open = OpenStream { file: file_of_it, contract, live, released };
        self.streams.insert(stream, open);
        file.set_stream(stream);
        self.classed(USUAL, contract);
        Ok(())
    }

    /// A stream whose file is closed goes, unless it has requests: then with the last of them.
    fn end_stream(&mut self, stream: StreamId) {
        if self.streams.get(&stream).is_none_or(|open| open.live > 0) {
            return;
        }
        let Some(open) = self.streams.remove(&stream) else { return };
        self.turns.remove(stream);
        self.ended = true;
        self.free.push(stream);
        self.classed(open.contract, USUAL);
    }

    /// Counts the streams that have another contract than the usual one.
    fn classed(&self, before: Contract, after: Contract) {
        let (before, after) = (before != USUAL, after != USUAL);
        match (before, after) {
            (false, true) => self.outside.classed.fetch_add(1, Ordering::AcqRel),
            (true, false) => self.outside.classed.fetch_sub(1, Ordering::AcqRel),
            _ => return,
        };
    }

    fn set_parameter(&mut self, parameter: Parameter) -> Result<(), String> {
        match parameter {
            Parameter::Depth(depth) => self.turns.set_device(DeviceParameter::Depth(depth)),
            Parameter::Headroom(headroom) => {
                self.turns.set_device(DeviceParameter::Headroom(headroom))
            }
            Parameter::Shared(contract) => {
                self.turns.set(SHARED, contract).map_err(|refused| refused.to_string())?;
                self.shared = contract;
                Ok(())
            }
        }
    }

    /// The figures now. Figures of very many streams take long, and anybody may ask for them: the last
    /// ones are answered until nine times as long has passed.
    fn reported(&mut self) -> Option<Arc<Report>> {
        let began = clock::now();
        if let Some((report, _)) = self.kept.as_ref().filter(|(_, until)| began < *until) {
            return Some(Arc::clone(report));
        }
        let report = Arc::new(self.report()?);
        let now = clock::now();
        let until = now + Duration::from_nanos(now.since(began).as_nanos().saturating_mul(9));
        self.kept = Some((Arc::clone(&report), until));
        Some(report)
    }

    fn report(&mut self) -> Option<Report> {
        let it = self.turns.figures()?;
        let streams = it.streams.into_iter().map(|of| StreamReport {
            stream: of.stream,
            file: self.streams.get(&of.stream).map(|open| open.file.clone()),
            contract: of.contract,
            counters: of.counters,
            waiting: of.waiting,
            promise: of.promise,
            broken: of.broken,
        });
        Some(Report {
            streams: streams.collect(),
            device: it.device,
            depth: it.depth,
            in_flight: it.in_flight,
            headroom: it.headroom,
            reserved_ppm: it.reserved_ppm,
            shared: self.shared,
            slack: it.slack,
        })
    }
}

/// How long to sleep now; awake again a little before the time of an emulated device.
fn asleep_for(now: Instant, (wake_at, modelled): (Option<Instant>, bool)) -> Option<Duration> {
    let left = wake_at?.since(now);
    Some(if modelled { left.saturating_sub(SPIN) } else { left })
}

/// Waits awake until a time that is near, as long as nothing else is to be done.
fn stay_awake(until: Option<Instant>, idle: impl Fn() -> bool) {
    let Some(until) = until.filter(|until| until.since(clock::now()) <= SPIN) else { return };
    while clock::now() < until && idle() {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests;
