//! Guests of the device: streams whose pieces are carried out by others, in their turn.
//!
//! A guest's request is in the shard's table of work like any other, and its piece is a flight that no
//! back end has. The piece ends when the guest says so and, if the device is emulated, the model does.
//!
//! A guest can hold its turns, and so the device, for [`DRAIN`] at most. Then a turn is taken back: the
//! guest's bytes may still be on their way, and the engine counts with them no longer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use disktime_core::admission::{AdmissionError, DemandError};
use disktime_core::{
    Cancel, Change, ChangeError, Completion, Contract, Dispatch, Instant, Kind, Limits, Request,
    RequestId, StreamError, StreamId, StreamSpec,
};
use disktime_model::Op as ModelOp;

use super::flushes::Began;
use super::guest_streams::{
    GuestStream, GuestStreamId, GuestStreamView, GuestStreams, MountId, MountView,
};
use super::{DRAIN, Flight, Operation, PieceMax, Shard, Vdisk, name};
use crate::backend::{DeviceError, Job};
use crate::clock;
use crate::emulate::Emulator;
use crate::frontend::nbd::REQUESTS_MAX;
use crate::frontend::request::{Op, Origin, Work};
use crate::guest_messages::{
    Ask, Call, DeviceFigures, Facts, NotGranted, STREAMS_AT_ONCE, StreamFigures, Told, Turn,
};
use crate::seats::CLIENTS_MAX;

/// Guests of a device at once: as many as a virtual disk may have clients.
const GUESTS_MAX: u64 = CLIENTS_MAX;
/// Requests of a guest at once: as many as a virtual disk's clients may have.
pub(crate) const GUEST_REQUESTS_MAX: u32 = 16 * REQUESTS_MAX;
const _: () = assert!(GUEST_REQUESTS_MAX as u64 == REQUESTS_MAX as u64 * CLIENTS_MAX);
/// Messages of all guests that are taken in a round of the shard, some 50 us of its time: as long as a round
/// works for clients. With more at once a guest's flood keeps clients waiting for that much longer.
const ASKS_AT_ONCE: usize = 64;
/// Turns of a guest that are taken back, one after the other, before it is let go: it has been silent for
/// half a minute, after which Linux gives up a command to a disk.
const TAKEN_BACK_MAX: u32 = 8;

/// A message about a guest.
pub enum FromGuest {
    /// It comes, and is told things there, the first of which is that it is welcome.
    Came {
        /// Its name for people.
        name: Arc<str>,
        /// Where it is told.
        told: Sender<Told>,
        /// Where it asks; the shard is woken for it.
        asks: Receiver<Ask>,
        /// The device's headroom, in parts per million.
        headroom_ppm: u32,
        /// Where the outcome goes.
        answer: Sender<Result<(), String>>,
    },
    /// It is gone.
    Gone,
}

/// A guest.
struct Guest {
    mount: Arc<MountView>,
    told: Sender<Told>,
    asks: Receiver<Ask>,
    streams: GuestStreams,
    /// Its requests by its own numbers, each with its key among the operations.
    requests: BTreeMap<u32, u32>,
    /// Its turns, the oldest first: each with the key of its flight and when it began.
    turns: BTreeMap<u64, (u32, Instant)>,
    /// Turns that were taken back since it gave one back itself.
    taken_back: u32,
    /// The device's headroom when it came, in parts per million.
    headroom_ppm: u32,
}

/// The guests of a shard.
#[derive(Default)]
pub(super) struct Guests {
    by_number: BTreeMap<u64, Guest>,
    /// Streams of guests that are gone, and have requests at the device yet.
    leaving: Vec<GuestStream>,
    /// The number of the last turn.
    turn: u64,
    /// The guest that was heard last.
    heard: u64,
    /// Streams that were added.
    added: u64,
    /// The streams as other threads see them, unless one has come or gone since.
    views: Option<Arc<[Arc<GuestStreamView>]>>,
}

impl Guests {
    /// When the oldest turn is taken back.
    pub(super) fn next(&self) -> Option<Instant> {
        let first = |guest: &Guest| guest.turns.first_key_value().map(|(_, (_, since))| *since);
        self.by_number.values().filter_map(first).min().map(|since| since + DRAIN)
    }

    /// The streams of all guests, those of guests that are gone among them as long as the engine has them.
    pub(super) fn streams(&self) -> impl Iterator<Item = &GuestStream> {
        self.by_number.values().flat_map(|guest| guest.streams.values()).chain(&self.leaving)
    }

    /// The mounts of all guests, and of streams of guests that are gone: each once.
    pub(super) fn mounts(&self) -> Vec<&Arc<MountView>> {
        let of_guests = self.by_number.values().map(|guest| &guest.mount);
        let mut mounts: Vec<_> =
            of_guests.chain(self.leaving.iter().map(|it| &it.view.mount)).collect();
        mounts.sort_by_key(|mount| mount.id);
        mounts.dedup_by_key(|mount| mount.id);
        mounts
    }

    /// How many guests there are.
    pub(super) fn count(&self) -> usize {
        self.by_number.len()
    }

    /// The streams of all guests, as other threads see them.
    pub(super) fn views(&mut self) -> Arc<[Arc<GuestStreamView>]> {
        if self.views.is_none() {
            self.views = Some(self.streams().map(|it| Arc::clone(&it.view)).collect());
        }
        self.views.clone().unwrap_or_default()
    }
}

impl Shard {
    /// A message about a guest.
    pub(super) fn guest(&mut self, number: u64, message: FromGuest) {
        match message {
            FromGuest::Came { name, told, asks, headroom_ppm, answer } => {
                // One who has gone meanwhile says so next.
                let _gone = answer.try_send(self.take_in(number, (name, told, asks), headroom_ppm));
            }
            FromGuest::Gone => self.lose_guest(number),
        }
    }

    /// Hears guests, one message of each in turn, until none says anything or there were as many as may be
    /// in a round: whether there is more.
    pub(super) fn hear_guests(&mut self) -> bool {
        let guests = &self.turns.guests;
        if guests.by_number.is_empty() {
            return false;
        }
        let behind = guests.by_number.range(guests.heard + 1..).chain(&guests.by_number);
        let numbers = behind.map(|(number, _)| *number).take(guests.by_number.len());
        let mut numbers: VecDeque<u64> = numbers.collect();
        let mut left = ASKS_AT_ONCE;
        while let Some(number) = numbers.pop_front() {
            let Some(guest) = self.turns.guests.by_number.get(&number) else { continue };
            if left == 0 {
                return true;
            }
            let Ok(ask) = guest.asks.try_recv() else { continue };
            left -= 1;
            self.turns.guests.heard = number;
            numbers.push_back(number);
            if let Err(why) = self.asks(number, &ask) {
                tracing::warn!(guest = number, why, "a guest breaks its protocol");
                self.lose_guest(number);
            }
        }
        false
    }

    fn take_in(
        &mut self,
        number: u64,
        (name, told, asks): (Arc<str>, Sender<Told>, Receiver<Ask>),
        headroom_ppm: u32,
    ) -> Result<(), String> {
        if self.turns.drain_until.is_some() {
            return Err("the daemon ends".to_owned());
        }
        if self.turns.guests.by_number.len() as u64 >= GUESTS_MAX {
            return Err(format!("it has {GUESTS_MAX} mounts, which is the most: unmount one"));
        }
        let capacity = self.device.emulator.as_ref().map(Emulator::capacity_bytes);
        let depth_max = Limits::default().depth_max.max(self.engine.depth());
        let facts = Facts { depth_max, requests_max: GUEST_REQUESTS_MAX, capacity };
        if told.try_send(Told::Welcome(facts)).is_err() {
            return Err("it is gone".to_owned());
        }
        let (streams, requests, turns) = Default::default();
        tracing::info!(guest = number, mount = &*name, "a guest has come");
        let guests = &mut self.turns.guests;
        let known = guests.mounts().into_iter().find(|it| it.name == name).map(Arc::clone);
        let mount = known.unwrap_or_else(|| Arc::new(MountView::new(MountId(number), name)));
        let taken_back = 0;
        let guest = Guest { mount, told, asks, streams, requests, turns, taken_back, headroom_ppm };
        guests.by_number.insert(number, guest);
        Ok(())
    }

    /// Does what a guest asks for; or says how it breaks the protocol.
    fn asks(&mut self, number: u64, ask: &Ask) -> Result<(), &'static str> {
        let outcome = match *ask {
            Ask::Add(call, contract, ref name) => {
                (call, self.add_guest_stream(number, (call.stream, name), contract))
            }
            Ask::Set(call, contract) => {
                (call, self.set_guest_stream(number, call.stream, contract))
            }
            Ask::Remove(call) => (call, self.end_guest_stream(number, call.stream)),
            Ask::Late(call) => {
                let late = self.guest_stream(number, call.stream).and_then(|stream| {
                    self.vdisks[stream.0 as usize].count(|it| &it.promises.misses, 1);
                    let change = Change::MissedDeadline(stream);
                    let told = self.engine.handle_change(clock::now(), change);
                    told.map_err(|_| NotGranted::Invalid)
                });
                self.publish_best_effort();
                (call, late)
            }
            Ask::Report(call) => {
                self.report_to(number, call);
                return Ok(());
            }
            Ask::Request { request, stream, kind, offset, bytes } => {
                return self.guest_asks_for(number, (request, stream), kind, (offset, bytes));
            }
            Ask::Ended { turn, done } => {
                self.turn_ended(number, turn, done);
                return Ok(());
            }
        };
        let (call, granted) = outcome;
        if matches!(ask, Ask::Add(..) | Ask::Set(..)) {
            let mount = self.turns.guests.by_number.get(&number).map(|guest| &guest.mount);
            mount.into_iter().for_each(|mount| mount.answered(granted.is_ok()));
        }
        self.tell_guest(number, Told::Answer(call.call, granted));
        Ok(())
    }

    /// Tells a guest something, unless it is gone. One that does not read is let go.
    fn tell_guest(&mut self, number: u64, told: Told) {
        let Some(guest) = self.turns.guests.by_number.get(&number) else { return };
        match guest.told.try_send(told) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!(guest = number, "a guest does not listen, and is let go");
                self.lose_guest(number);
            }
            // It says so itself.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    fn guest_stream(&self, number: u64, stream: u32) -> Result<StreamId, NotGranted> {
        let guest = self.turns.guests.by_number.get(&number);
        guest.and_then(|it| it.streams.get(&stream)).map(|it| it.id).ok_or(NotGranted::Invalid)
    }

    fn add_guest_stream(
        &mut self,
        number: u64,
        (stream, name): (u32, &str),
        contract: Contract,
    ) -> Result<(), NotGranted> {
        if self.guest_stream(number, stream).is_ok() {
            return Err(NotGranted::Invalid);
        }
        let guest = self.turns.guests.by_number.get(&number).ok_or(NotGranted::Invalid)?;
        let mount = Arc::clone(&guest.mount);
        let id = self.vdisks.next_stream();
        let spec = guest_spec(contract, self.device.piece_max);
        let added = self.engine.handle_change(clock::now(), Change::AddStream(id, spec));
        added.map_err(|error| not_granted(&error))?;
        if let Some(depths) = &mut self.depths {
            depths.add(id, contract.weight);
        }
        let shown = format!("(guest {number}, stream {stream})");
        let stats: Arc<crate::stats::VdiskStats> = Arc::default();
        let of_engine = Vdisk::new(shown, 0, Arc::clone(&stats), None);
        self.vdisks.add(None, of_engine.of_mount(Arc::clone(&mount.stats)));
        self.agreed(&[(id, contract)]);
        let guests = &mut self.turns.guests;
        (guests.added, guests.views) = (guests.added + 1, None);
        if let Some(guest) = guests.by_number.get_mut(&number) {
            let view = GuestStreamView {
                id: GuestStreamId { guest: number, nth: guests.added },
                mount,
                stream,
                name: name.to_owned(),
                stats,
            };
            guest.streams.insert(stream, GuestStream { id, contract, view: Arc::new(view) });
        }
        Ok(())
    }

    fn set_guest_stream(
        &mut self,
        number: u64,
        own: u32,
        contract: Contract,
    ) -> Result<(), NotGranted> {
        let stream = self.guest_stream(number, own)?;
        let change = Change::SetContracts(&[(stream, contract)]);
        self.engine.handle_change(clock::now(), change).map_err(|error| not_granted(&error))?;
        if let Some(depths) = &mut self.depths {
            depths.weigh(stream, contract.weight);
        }
        self.agreed(&[(stream, contract)]);
        let guest = self.turns.guests.by_number.get_mut(&number);
        if let Some(it) = guest.and_then(|guest| guest.streams.get_mut(&own)) {
            it.contract = contract;
        }
        Ok(())
    }

    fn end_guest_stream(&mut self, number: u64, stream: u32) -> Result<(), NotGranted> {
        let id = self.guest_stream(number, stream)?;
        if !self.remove_guest_stream(id) {
            return Err(NotGranted::Invalid);
        }
        if let Some(guest) = self.turns.guests.by_number.get_mut(&number) {
            guest.streams.remove(&stream);
        }
        Ok(())
    }

    /// Whether a stream has gone: one with requests stays.
    fn remove_guest_stream(&mut self, stream: StreamId) -> bool {
        if self.engine.stream(stream).is_some_and(|it| it.waiting() + it.in_flight() > 0) {
            return false;
        }
        // Charges and log lines that are still open are of this stream: another may have its number.
        self.charge_own_time();
        self.publish_charged(stream);
        if self.engine.handle_change(clock::now(), Change::RemoveStream(stream)).is_err() {
            return false;
        }
        self.tell_events();
        if let Some(depths) = &mut self.depths {
            depths.remove(stream);
        }
        self.vdisks.remove(stream);
        self.turns.guests.views = None;
        true
    }

    /// A request of a guest arrives; or the guest breaks the protocol.
    fn guest_asks_for(
        &mut self,
        number: u64,
        (request, stream): (u32, u32),
        kind: Kind,
        (offset, bytes): (u64, u64),
    ) -> Result<(), &'static str> {
        let id = self.guest_stream(number, stream).map_err(|_| "it has no such stream")?;
        let capacity = self.device.emulator.as_ref().map_or(u64::MAX, Emulator::capacity_bytes);
        let end = offset.checked_add(bytes).filter(|end| *end <= capacity);
        let end = end.ok_or("a request ends behind the device")?;
        let Some(guest) = self.turns.guests.by_number.get_mut(&number) else { return Ok(()) };
        if guest.requests.contains_key(&request) {
            return Err("the number of a request is in use");
        }
        let op = if kind == Kind::Write { Op::Write } else { Op::Read };
        let origin = Origin::Guest { guest: number, request };
        let work = Work { origin, op, range: offset..end, fua: false };
        let full = guest.requests.len() >= GUEST_REQUESTS_MAX as usize;
        let key = name(self.operations.insert(Operation::new(work, id.0)));
        let asked = Request {
            id: RequestId(key),
            stream: id,
            kind,
            offset,
            bytes,
            fua: false,
            class: None,
            deadline: None,
        };
        let taken = !full && self.engine.handle_arrival(clock::now(), asked).is_ok();
        if taken {
            self.operations[key as usize].arrived = true;
            guest.requests.insert(request, key);
            self.turns.own_time.moved(id.0, 0);
        } else {
            self.operations.remove(key as usize);
            self.tell_guest(number, Told::Over { request, taken });
        }
        Ok(())
    }

    /// A piece of a guest begins.
    pub(super) fn start_of_guest(&mut self, dispatch: &Dispatch) {
        let operation = &mut self.operations[dispatch.request.0 as usize];
        operation.begun = true;
        let Origin::Guest { guest: number, request } = operation.work.origin else {
            unreachable!("only a guest's work comes here");
        };
        let (kind, stream) = (operation.work.op.kind(), operation.vdisk);
        let Dispatch { offset, bytes, flush, .. } = *dispatch;
        let (key, now) = (name(self.device.flights.vacant_key()), clock::now());
        if let Some(emulator) = &mut self.device.emulator {
            emulator.start(now, key, ModelOp { kind, offset, bytes, fua: flush }, &[]);
        }
        let flight = Flight {
            operation: Some(dispatch.request.0),
            piece: dispatch.piece,
            job: Job::new(stream, kind, offset, bytes),
            result: None,
            timed: self.device.emulator.is_none(),
            flush: false,
            tier: None,
            began: Began::default(),
        };
        self.device.flights.insert(flight);
        self.turns.guests.turn += 1;
        let turn = self.turns.guests.turn;
        match self.turns.guests.by_number.get_mut(&number) {
            Some(guest) => {
                guest.turns.insert(turn, (key, now));
                self.tell_guest(number, Told::Turn(Turn { turn, request, offset, bytes, flush }));
            }
            None => self.flight_ended(key, false),
        }
    }

    /// A guest gives a turn back, unless it was taken back before.
    fn turn_ended(&mut self, number: u64, turn: u64, done: bool) {
        let Some(guest) = self.turns.guests.by_number.get_mut(&number) else { return };
        guest.taken_back = 0;
        if let Some((key, _)) = guest.turns.remove(&turn) {
            self.flight_ended(key, done);
        }
    }

    fn flight_ended(&mut self, key: u32, done: bool) {
        let flight = &mut self.device.flights[key as usize];
        flight.result = Some(if done { Ok(()) } else { Err(DeviceError(libc::EIO)) });
        if flight.timed {
            self.device.landed.push_back(key);
        }
    }

    /// Takes turns back that guests have had for too long.
    pub(super) fn take_turns_back(&mut self) {
        let now = self.turns.now;
        if self.turns.guests.next().is_none_or(|next| next > now) {
            return;
        }
        let (mut late, mut silent) = (Vec::new(), Vec::new());
        for (number, guest) in &mut self.turns.guests.by_number {
            let over = |(_, since): &(u32, Instant)| *since + DRAIN <= now;
            while let Some(first) = guest.turns.first_entry().filter(|it| over(it.get())) {
                late.push(first.remove().0);
                guest.taken_back += 1;
            }
            if guest.taken_back >= TAKEN_BACK_MAX {
                silent.push(*number);
            }
        }
        tracing::warn!(turns = late.len(), "guests don't give their turns back: they are taken");
        late.into_iter().for_each(|key| self.flight_ended(key, false));
        for number in silent {
            tracing::warn!(guest = number, "a guest is silent, and is let go");
            self.lose_guest(number);
        }
    }

    /// All of a guest's request is over.
    pub(super) fn guest_is_served(
        &mut self,
        completion: &Completion,
        (number, request): (u64, u32),
    ) {
        self.operations.remove(completion.request.0 as usize);
        if let Some(guest) = self.turns.guests.by_number.get_mut(&number) {
            guest.requests.remove(&request);
            return self.tell_guest(number, Told::Over { request, taken: true });
        }
        self.end_leaving();
    }

    /// Removes the streams of guests that are gone, as far as they have no request.
    fn end_leaving(&mut self) {
        let mut leaving = std::mem::take(&mut self.turns.guests.leaving);
        leaving.retain(|stream| !self.remove_guest_stream(stream.id));
        self.turns.guests.leaving = leaving;
    }

    /// A guest is gone, or must go: its requests are dropped, its turns taken back.
    fn lose_guest(&mut self, number: u64) {
        let Some(guest) = self.turns.guests.by_number.remove(&number) else { return };
        tracing::info!(guest = number, requests = guest.requests.len(), "a guest is gone");
        for key in guest.requests.into_values() {
            if self.engine.handle_cancel(clock::now(), RequestId(key)) == Cancel::Gone {
                self.operations.remove(key as usize);
            }
        }
        guest.turns.into_values().for_each(|(key, _)| self.flight_ended(key, false));
        self.turns.guests.leaving.extend(guest.streams.into_values());
        self.end_leaving();
    }

    /// Lets all guests go.
    pub(super) fn lose_guests(&mut self) {
        let numbers: Vec<u64> = self.turns.guests.by_number.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.lose_guest(number));
    }

    /// Tells a guest the figures of its streams and of the device.
    fn report_to(&mut self, number: u64, Call { call, .. }: Call) {
        let Some(guest) = self.turns.guests.by_number.get(&number) else { return };
        let (headroom_ppm, streams) = (guest.headroom_ppm, guest.streams.iter());
        let figures: Vec<_> =
            streams.filter_map(|(own, it)| self.figures_of(*own, it.id)).collect();
        for streams in figures.chunks(STREAMS_AT_ONCE) {
            self.tell_guest(number, Told::Streams(streams.to_vec()));
        }
        let time = self.engine.device_time();
        let of_device = DeviceFigures {
            depth: self.engine.depth(),
            in_flight: self.engine.in_flight(),
            headroom_ppm,
            reserved_ppm: u32::try_from(self.reserved_ppm()).unwrap_or(u32::MAX),
            slack_ns: self.engine.slack(),
            busy_ns: time.busy.as_nanos(),
            spare_ns: time.spare.as_nanos(),
            held_ns: time.held.as_nanos(),
            charged_ns: time.charged.as_nanos(),
        };
        self.tell_guest(number, Told::Report(call, of_device));
    }

    fn figures_of(&self, stream: u32, id: StreamId) -> Option<StreamFigures> {
        let view = self.engine.stream(id)?;
        let counters = view.counters();
        Some(StreamFigures {
            stream,
            reserve_ppm: view.spec().contract.reserve.ppm(),
            waiting: view.waiting(),
            completed: counters.completed,
            failed: counters.failed,
            bytes_read: counters.bytes_read,
            bytes_written: counters.bytes_written,
            charged_ns: counters.charged.as_nanos(),
            held_ns: counters.held.as_nanos(),
            cycles: counters.cycles,
            cycles_missed: counters.cycles_missed,
            promise_ns: self.engine.promise(id).map_or(0, disktime_core::Duration::as_nanos),
            broken: self.vdisks[id.0 as usize].stats.promises_broken(),
        })
    }
}

/// The stream of a guest on a device with such pieces.
pub(crate) fn guest_spec(contract: Contract, piece_max: PieceMax) -> StreamSpec {
    // As short as beside a latency bound: one may come while the stream is there.
    let piece_bytes_max = piece_max.beside(true).into();
    let queue_max = GUEST_REQUESTS_MAX;
    StreamSpec { contract, queue_max, piece_bytes_max, ..StreamSpec::default() }
}

/// The engine's answer in words that its guest understands.
fn not_granted(error: &ChangeError) -> NotGranted {
    match *error {
        ChangeError::Overbooked { asked_ppm, available } => {
            NotGranted::Overbooked(asked_ppm, available.ppm())
        }
        ChangeError::Admission(AdmissionError::Stream {
            error:
                DemandError::Refused { largest: fits, .. } | DemandError::AboveZone { max: fits, .. },
            ..
        }) => NotGranted::Rate(fits),
        ChangeError::Admission(AdmissionError::Overbooked { .. }) => NotGranted::Overbooked(0, 0),
        ChangeError::Stream { error, .. } => match error {
            StreamError::Latency(error) => NotGranted::Latency(error.smallest.as_nanos()),
            StreamError::NoProfile => NotGranted::NoProfile,
            StreamError::OutOfRange { .. } => NotGranted::Streams,
            _ => NotGranted::Invalid,
        },
        _ => NotGranted::Invalid,
    }
}
