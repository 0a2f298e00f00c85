//! Pieces on their way through the device: from the engine's dispatch to its completion.

use disktime_core::{Completion, Dispatch, Kind, Outcome, RequestId, StreamId, Tier};
use disktime_model::Op;

use super::flushes::Began;
use super::{Flight, Shard, name};
use crate::backend::{DeviceError, Io, Job, Step, Survey};
use crate::clock;
use crate::frontend::request::{BlockError, Op as WorkOp, Origin};
use crate::ring::Keep;
use crate::stats::add;

/// The operation that brings to the medium what a write cache holds.
const FLUSH: Op = Op { kind: Kind::Flush, offset: 0, bytes: 0, fua: false };

impl Shard {
    /// The device begins a piece.
    pub(super) fn start(&mut self, dispatch: &Dispatch) {
        if dispatch.request == RequestId::FLUSH {
            return self.start_flush(dispatch);
        }
        let operation = &mut self.operations[dispatch.request.0 as usize];
        if matches!(operation.work.origin, Origin::Guest { .. }) {
            return self.start_of_guest(dispatch);
        }
        operation.begun = true;
        let vdisk = operation.vdisk;
        let offset = dispatch.offset - self.vdisks[vdisk as usize].base;
        if operation.work.op == WorkOp::Read && operation.buffer.is_none() {
            let range = &operation.work.range;
            // A read of several pieces has a buffer of its own.
            let carried = self.carried.as_ref();
            let whole = dispatch.bytes == range.end - range.start
                && carried.is_none_or(|it| it.may_lend(operation.client()));
            let lent = whole.then(|| self.device.back_end.lend(vdisk, range)).flatten();
            (operation.buffer, operation.lent_at) = match lent {
                Some((buffer, place)) => (Some(buffer), Some(place.start)),
                None => (self.pool.take_for_data(operation.place().end), None),
            };
        }
        let place = operation.place();
        let work = &operation.work;
        let within = usize::try_from(offset - work.range.start.min(offset));
        let mut job = Job::new(vdisk, work.op.kind(), offset, dispatch.bytes);
        if let WorkOp::Status { one } = work.op {
            job.kind = Kind::Cache;
            job.survey = Some(Box::new(Survey::new(work.range.clone(), one)));
        }
        job.at = place.start + within.expect("a part is within a request");
        (job.fua, job.no_hole) = (work.fua, work.op == WorkOp::Zeroes { no_hole: true });
        job.buffer = operation.buffer.clone();
        let internal = work.origin == Origin::Internal;
        if let Some(migration) = self.migration.as_mut().filter(|_| internal) {
            migration.sent(dispatch.offset + dispatch.bytes, clock::now());
        }
        let key = name(self.device.flights.vacant_key());
        // The records that a status is answered from are not on the emulated device.
        let timed = self.device.emulator.is_none() || job.survey.is_some();
        let Dispatch { offset, bytes, .. } = *dispatch;
        let op = Op { kind: job.kind, offset, bytes, fua: job.fua };
        self.device.parts.clear();
        if job.survey.is_none() {
            self.emulate(key, op);
        }
        let tier = Tier::of_all(self.device.parts.iter().map(|(tier, _)| *tier));
        if matches!(op.kind, Kind::Read | Kind::Write) && !self.device.parts.is_empty() {
            let stats = &self.vdisks[vdisk as usize].stats;
            let hit = tier == Some(Tier::Fast);
            add(if hit { &stats.fast } else { &stats.slow }, 1);
        }
        let flight = Flight {
            operation: Some(dispatch.request.0),
            piece: dispatch.piece,
            job,
            result: None,
            timed,
            flush: dispatch.flush,
            tier,
            began: Began::default(),
        };
        self.device.flights.insert(flight);
        self.begin(key);
    }

    /// The device's write cache is flushed between two slices, for no request.
    fn start_flush(&mut self, dispatch: &Dispatch) {
        let &Dispatch { piece, stream, .. } = dispatch;
        if self.vdisks[stream.0 as usize].is_of_mount() {
            // A mount's files may lie on anything, which is not the shard's to flush.
            let over = self.engine.handle_completion(self.turns.now, piece, Outcome::Done);
            debug_assert!(over.is_none(), "nobody asked for it");
            return;
        }
        let key = name(self.device.flights.vacant_key());
        self.emulate(key, FLUSH);
        self.device.flights.insert(Flight {
            operation: None,
            piece,
            job: Job::new(stream.0, Kind::Flush, 0, 0),
            result: None,
            timed: self.device.emulator.is_none(),
            flush: false,
            tier: None,
            began: Began::default(),
        });
        self.begin(key);
    }

    /// The timing model, if there is one, begins an operation where its parts are now.
    fn emulate(&mut self, key: u32, op: Op) {
        self.device.parts.clear();
        self.device.back_end.parts(op, &mut self.device.parts);
        if let Some(emulator) = &mut self.device.emulator {
            emulator.start(clock::now(), key, op, &self.device.parts);
        }
    }

    /// Hands a flight's job to the back end.
    fn begin(&mut self, key: u32) {
        self.flushes_begin(key);
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        let job = &mut self.device.flights[key as usize].job;
        let step = if job.kind == Kind::Read && job.buffer.is_none() {
            Step::Done(Err(DeviceError(libc::ENOMEM)))
        } else {
            self.device.back_end.start(key, job, &mut io)
        };
        self.stepped(key, step);
    }

    /// One of a job's operations is over.
    pub(super) fn job_finished(&mut self, key: u32, step: u32, keep: Keep, result: i32) {
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        let job = &mut self.device.flights[key as usize].job;
        let step = self.device.back_end.finished(key, step, job, (keep, result), &mut io);
        self.stepped(key, step);
    }

    /// A job is over, or not yet; when it is, those that waited for it go on.
    fn stepped(&mut self, key: u32, step: Step) {
        self.note(key, step);
        self.go_on();
    }

    /// Goes on with the jobs that can.
    pub(super) fn go_on(&mut self) {
        while let Some(next) = self.device.back_end.unblocked() {
            let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
            let step = self.device.back_end.resume(
                next,
                &mut self.device.flights[next as usize].job,
                &mut io,
            );
            self.note(next, step);
        }
        // After all that was done before it.
        self.flushes_lost();
    }

    fn note(&mut self, key: u32, step: Step) {
        let Step::Done(result) = step else { return };
        let result = self.flushes_end(key, result);
        let flight = &mut self.device.flights[key as usize];
        flight.result = Some(result);
        if flight.timed {
            self.device.landed.push_back(key);
        }
    }

    /// Notes what the timing model has done by now.
    pub(super) fn collect_emulated(&mut self) {
        let Some(emulator) = &mut self.device.emulator else { return };
        let now = clock::now();
        let (flights, landed, stats) =
            (&mut self.device.flights, &mut self.device.landed, &self.stats);
        emulator.collect(now, |key, at| {
            stats.timing_error.record(now.since(at).as_nanos());
            let flight = &mut flights[key as usize];
            flight.timed = true;
            if flight.result.is_some() {
                landed.push_back(key);
            }
        });
    }

    /// A flight's write is done, and what the write cache holds of it is to be on the medium before
    /// it lands.
    fn flush(&mut self, key: u32) {
        let flight = &mut self.device.flights[key as usize];
        flight.flush = false;
        flight.tier = None;
        flight.result = None;
        flight.timed = self.device.emulator.is_none();
        if let Some(buffer) = flight.job.buffer.take() {
            self.pool.give_back(buffer);
        }
        flight.job = Job::new(flight.job.disk, Kind::Flush, 0, 0);
        self.emulate(key, FLUSH);
        self.begin(key);
    }

    /// A piece is done by the back end and by the model: the engine is told, and the client if
    /// that was all of its request.
    pub(super) fn land(&mut self, key: u32) {
        self.mark_dirty(key);
        let flight = &self.device.flights[key as usize];
        if flight.flush && flight.result == Some(Ok(())) {
            return self.flush(key);
        }
        let flight = self.device.flights.remove(key as usize);
        let result = flight.result.expect("only finished jobs land");
        let stream = StreamId(flight.job.disk);
        let work = flight.operation.map(|operation| &self.operations[operation as usize].work);
        let of_guest = work.is_some_and(|work| matches!(work.origin, Origin::Guest { .. }));
        // A guest has told its own program.
        if let (Err(error), false) = (result, of_guest) {
            self.failed(stream, &flight.job, error);
        }
        if let Some(buffer) = flight.job.buffer {
            self.pool.give_back(buffer);
        }
        if let Some(operation) = flight.operation {
            let operation = &mut self.operations[operation as usize];
            operation.survey = flight.job.survey;
            operation.error = operation.error.or(result.err());
        }
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        let piece = flight.piece;
        let completion =
            self.engine.handle_completion_on(self.turns.now, piece, outcome, flight.tier);
        if let Some(completion) = completion {
            self.complete(&completion);
        } else if flight.operation.is_none() {
            self.publish_charged(stream);
            self.remove_if_unused(stream);
        }
    }

    fn complete(&mut self, completion: &Completion) {
        let key = completion.request.0;
        let operation = &self.operations[key as usize];
        let (error, kind) = (operation.error, operation.work.op.kind());
        let (bytes, client) = (operation.place().len() as u64, operation.client());
        // A request of several parts is counted with its last one.
        let last = match &operation.work.origin {
            Origin::Client { .. } if self.carried.is_some() => operation.last,
            Origin::Client { client, ticket } => {
                self.clients[*client as usize].is_last(ticket, &operation.work.range)
            }
            Origin::Guest { .. } | Origin::Internal => true,
        };
        let vdisk = &self.vdisks[completion.stream.0 as usize];
        vdisk.count(|it| &it.requests, u64::from(last));
        vdisk.count(|it| &it.failed, u64::from(completion.outcome == Outcome::Failed));
        vdisk.count(|it| &it.bytes, bytes);
        for stats in vdisk.figures() {
            stats.queue_time.record(completion.queue_time.as_nanos());
            stats.service_time.record(completion.service_time.as_nanos());
        }
        self.answered(completion.stream, completion.service_time);
        self.publish_charged(completion.stream);
        self.publish_cycles(completion.stream);
        let Some(client) = client else {
            return match self.operations[key as usize].work.origin {
                Origin::Guest { guest, request } => {
                    self.guest_is_served(completion, (guest, request));
                }
                _ => self.migrated(completion.outcome),
            };
        };
        let result = match (completion.outcome, error) {
            (Outcome::Done, _) => Ok(()),
            (_, Some(error)) => Err(error.into()),
            (_, None) => Err(BlockError::GivenUp),
        };
        let result = self.flushes_answer((client, completion.stream.0), kind, result);
        self.answer(key, result);
    }
}
