//! An engine of the mount's own, with a timing model if a device is emulated.

use std::collections::{BTreeMap, VecDeque};

use crossbeam_channel::{Receiver, never};
use disktime_core::cost::CostParameters;
use disktime_core::{
    BrokenBy, Change, ChangeError, Config, Contract, Engine, Event, Instant, Limits, Outcome,
    PieceId, Request, Share, StreamId, StreamSpec,
};
use disktime_model::Op;
use disktime_server::clock;
use disktime_server::emulate::Emulator;
use slab::Slab;

use super::{DeviceParameter, Figures, News, Over, StreamFigures, Turn, Turns};
use crate::abi::Refused;
use crate::mount_error::MountError;
use crate::scheduler::{PIECE_BYTES, REQUESTS_MAX, STREAMS_MAX, Terms};

/// A piece at the device.
struct Piece {
    piece: PieceId,
    /// How it went, once its bytes have been moved.
    outcome: Option<Outcome>,
    /// The timing model is done, or there is none.
    timed: bool,
}

/// The engine.
pub(in crate::scheduler) struct Own {
    engine: Engine,
    emulator: Option<Emulator>,
    /// Pieces at the device, by their turns' names.
    pieces: Slab<Piece>,
    /// The operation of each request, for the timing model if there is one.
    kinds: BTreeMap<u32, disktime_core::Kind>,
    over: VecDeque<Over>,
    headroom: Share,
    /// Times that a stream was behind its promise.
    broken: BTreeMap<StreamId, u64>,
}

impl Own {
    pub(in crate::scheduler) fn new(terms: &Terms) -> Result<Self, MountError> {
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
        // The files may lie on anything, which is not a mount's to flush.
        let config =
            Config { flushes: false, ..scheduling.engine(limits, CostParameters::default()) };
        let mut engine = Engine::new(&config).map_err(MountError::Engine)?;
        let now = clock::now();
        let mut change =
            |change: Change<'_>| engine.handle_change(now, change).map_err(MountError::Contract);
        scheduling.changes().try_for_each(&mut change)?;
        if let Some(known) = known {
            change(Change::SetProfile(&known.profile))?;
        }
        Ok(Self {
            engine,
            emulator: terms.emulate.map(|emulate| Emulator::new(emulate, 1)),
            pieces: Slab::new(),
            kinds: BTreeMap::new(),
            over: VecDeque::new(),
            headroom: scheduling.headroom,
            broken: BTreeMap::new(),
        })
    }

    fn change(&mut self, change: Change<'_>) -> Result<(), ChangeError> {
        self.engine.handle_change(clock::now(), change)
    }

    /// A piece is done by who moves its bytes and by the timing model.
    fn land(&mut self, key: usize) {
        let Piece { piece, outcome, .. } = self.pieces.remove(key);
        let outcome = outcome.expect("only pieces land whose bytes were moved");
        if let Some(over) = self.engine.handle_completion(clock::now(), piece, outcome) {
            self.kinds.remove(&over.request.0);
            self.over.push_back(Over { request: over.request, taken: true });
        }
    }

    /// Notes what the timing model has done by now.
    fn collect(&mut self) {
        let Some(emulator) = &mut self.emulator else { return };
        let (pieces, mut landed) = (&mut self.pieces, Vec::new());
        emulator.collect(clock::now(), |name, _| {
            let piece = &mut pieces[name as usize];
            piece.timed = true;
            if piece.outcome.is_some() {
                landed.push(name as usize);
            }
        });
        landed.into_iter().for_each(|key| self.land(key));
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
}

impl Turns for Own {
    fn add(&mut self, stream: StreamId, contract: Contract, _: &str) -> Result<(), Refused> {
        let added = self.change(Change::AddStream(stream, spec(contract)));
        added.map_err(|error| Refused::of(&error, &contract))
    }

    fn set(&mut self, stream: StreamId, contract: Contract) -> Result<(), Refused> {
        let set = self.change(Change::SetContracts(&[(stream, contract)]));
        set.map_err(|error| Refused::of(&error, &contract))
    }

    fn remove(&mut self, stream: StreamId) {
        if let Err(error) = self.change(Change::RemoveStream(stream)) {
            tracing::error!(%error, "a stream that ended stays");
        }
        self.broken.remove(&stream);
    }

    fn late(&mut self, stream: StreamId) -> bool {
        self.change(Change::MissedDeadline(stream)).is_ok()
    }

    fn set_device(&mut self, parameter: DeviceParameter) -> Result<(), String> {
        let set = match parameter {
            DeviceParameter::Depth(depth) => self.change(Change::SetDepth(depth)),
            DeviceParameter::Headroom(headroom) => {
                self.change(Change::SetHeadroom(headroom)).map(|()| self.headroom = headroom)
            }
        };
        set.map_err(|error| error.to_string())
    }

    fn arrive(&mut self, request: Request) -> Result<(), String> {
        let arrived = self.engine.handle_arrival(clock::now(), request);
        arrived.map_err(|refusal| refusal.to_string())?;
        if self.emulator.is_some() {
            self.kinds.insert(request.id.0, request.kind);
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Turn> {
        let it = self.engine.poll_dispatch(clock::now())?;
        let piece = Piece { piece: it.piece, outcome: None, timed: self.emulator.is_none() };
        let key = self.pieces.insert(piece);
        let (offset, bytes, flush) = (it.offset, it.bytes, it.flush);
        if let Some(emulator) = &mut self.emulator {
            let name = u32::try_from(key).expect("pieces at the device are bounded by its depth");
            let kind = self.kinds[&it.request.0];
            emulator.start(clock::now(), name, Op { kind, offset, bytes, fua: flush }, &[]);
        }
        let (name, request) = (key as u64, it.request);
        Some(Turn { name, request, offset, bytes, flush, anew: false })
    }

    fn ended(&mut self, turn: u64, outcome: Outcome) {
        let key = usize::try_from(turn).expect("turns have the names that they were given");
        let piece = &mut self.pieces[key];
        piece.outcome = Some(outcome);
        if piece.timed {
            self.land(key);
        }
    }

    fn over(&mut self) -> Option<Over> {
        self.over.pop_front()
    }

    fn wake_at(&self) -> Option<Instant> {
        [self.engine.poll_timeout(), self.modelled_at()].into_iter().flatten().min()
    }

    fn modelled_at(&self) -> Option<Instant> {
        self.emulator.as_ref().and_then(Emulator::next)
    }

    fn timed(&mut self) {
        self.collect();
        self.engine.handle_timeout(clock::now());
        while let Some(event) = self.engine.poll_event() {
            self.tell(event);
        }
    }

    fn news(&self) -> Receiver<News> {
        never()
    }

    fn hear(&mut self, _news: News) {}

    fn keeps_time(&self) -> bool {
        self.emulator.is_some()
    }

    fn lost(&mut self) -> Option<(StreamId, Refused)> {
        None
    }

    fn figures(&mut self) -> Option<Figures> {
        let streams = self.engine.streams().map(|view| StreamFigures {
            stream: view.id(),
            contract: view.spec().contract,
            counters: view.counters(),
            waiting: view.waiting(),
            promise: self.engine.promise(view.id()),
            broken: self.broken.get(&view.id()).copied().unwrap_or(0),
        });
        let streams: Vec<_> = streams.collect();
        let reserved = streams.iter().map(|it| u64::from(it.contract.reserve.ppm()));
        Some(Figures {
            reserved_ppm: reserved.sum(),
            streams,
            device: self.engine.device_time(),
            depth: self.engine.depth(),
            in_flight: self.engine.in_flight(),
            headroom: self.headroom,
            slack: self.engine.slack(),
        })
    }
}

/// A stream of that contract.
fn spec(contract: Contract) -> StreamSpec {
    let alone = contract.class == disktime_core::Class::Background;
    StreamSpec {
        contract,
        queue_max: REQUESTS_MAX,
        piece_bytes_max: if alone { PIECE_BYTES / 4 } else { PIECE_BYTES },
        ..StreamSpec::default()
    }
}
