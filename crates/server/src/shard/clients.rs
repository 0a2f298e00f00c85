//! The shard's side of its clients: their requests in, their replies out, their end.

use std::ops::Range;

use disktime_core::{Cancel, Kind, Request, RequestId, StreamId};

use super::carried::Ended;
use super::carrier::ToCarrier;
use super::{Cause, Operation, Shard, VISIT, VdiskId, name};
use crate::buffers::Buffer;
use crate::clock;
use crate::frontend::nbd::{self, Accepted, Connection};
use crate::frontend::request::{BlockError, Input, Op, Origin, State, Work};
use crate::record::Record;

impl Shard {
    pub(super) fn welcome(&mut self, client: Accepted, vdisk: VdiskId) {
        let StreamId(vdisk) = match self.vdisks.find(vdisk) {
            Ok(stream) => stream,
            Err(reason) => return tracing::warn!(%reason, "a client was refused"),
        };
        if self.turns.drain_until.is_some() {
            self.refused(vdisk, Cause::Client, &"the daemon ends");
            return;
        }
        // Its handshake began before the virtual disk became smaller.
        if client.session.export.size_bytes > self.vdisks[vdisk as usize].stats.size() {
            let why = "it was told of more bytes than there are now: it has to connect again";
            self.refused(vdisk, Cause::Client, &why);
            return;
        }
        self.vdisks[vdisk as usize].clients += 1;
        if let Some(carried) = &mut self.carried {
            let client = carried.welcome(client, vdisk);
            return self.flushes_welcome(client, vdisk);
        }
        let connection = Connection::new(client, vdisk, &mut self.pool, clock::now());
        let client = name(self.clients.insert(connection));
        self.flushes_welcome(client, vdisk);
        self.touch(client);
    }

    /// Has a client served in this turn.
    pub(super) fn touch(&mut self, client: u32) {
        let connection = &mut self.clients[client as usize];
        if !std::mem::replace(&mut connection.touched, true) {
            self.touched.push(connection.vdisk, client);
        }
    }

    /// Does what can be done for a client now: takes requests, sends replies, reads on, or ends it.
    pub(super) fn serve(&mut self, client: u32) {
        self.clients[client as usize].touched = false;
        let mut visit = VISIT;
        while self.issue(client) {
            if visit == 0 {
                self.touch(client);
                break;
            }
            visit -= 1;
            let connection = &mut self.clients[client as usize];
            match connection.next_input() {
                Input::Request => {}
                Input::Answered => self.turns.own_time.moved(connection.vdisk, 0),
                Input::Disconnect => connection.state = State::Closing,
                Input::Violation => self.lose(client),
                Input::Nothing => break,
            }
        }
        self.copy(client);
        if self.part(client) {
            return;
        }
        if self.clients[client as usize].is_answered() {
            self.lose(client);
        }
        if self.clients[client as usize].is_over() {
            let connection = self.forget(client);
            let vdisk = connection.vdisk;
            drop(connection);
            self.client_is_over(vdisk);
        }
    }

    /// Nothing of a client of a virtual disk is left, nor its seat.
    pub(super) fn client_is_over(&mut self, vdisk: u32) {
        if self.vdisks[vdisk as usize].stats.connections() == 0 {
            self.abandoned(StreamId(vdisk));
        }
        self.vdisks[vdisk as usize].clients -= 1;
        self.remove_if_unused(StreamId(vdisk));
    }

    /// A client takes no more requests; those taken are finished and answered.
    pub(super) fn close(&mut self, client: u32) {
        if let Some(carried) = &mut self.carried {
            return carried.say(client, ToCarrier::Close(client));
        }
        self.clients[client as usize].close();
        self.touch(client);
    }

    /// Takes a client off the shard's tables, of which nothing is under way.
    pub(super) fn forget(&mut self, client: u32) -> Connection {
        let connection = self.clients.remove(client as usize);
        if connection.touched {
            self.touched.remove(connection.vdisk, client);
        }
        self.copies.forget(client);
        connection
    }

    /// Goes on with the request that the client's input has come to; whether it is issued, so that the
    /// next one may be taken.
    fn issue(&mut self, client: u32) -> bool {
        loop {
            let part_max = self.part_max();
            let connection = &mut self.clients[client as usize];
            let vdisk = connection.vdisk;
            let Some(part) = connection.next_part(client, part_max) else {
                return connection.is_issued();
            };
            let (op, place) = (part.work.op, part.work.place());
            let key = name(self.operations.insert(Operation::new(part.work, vdisk)));
            if let Some(range) = part.begins.filter(|_| !matches!(op, Op::Status { .. })) {
                self.record(vdisk, op.kind(), &range);
            }
            if op != Op::Write {
                self.arrive(key);
                continue;
            }
            let end = place.end;
            let Some(buffer) = self.pool.take_for_data(end) else {
                tracing::error!(bytes = end, "the system has no memory: a client is let go");
                self.lose(client);
                return false;
            };
            self.operations[key as usize].buffer = Some(buffer);
            self.clients[client as usize].writing = Some((key, 0));
            self.write_on(client, key, 0);
        }
    }

    pub(super) fn record(&mut self, vdisk: u32, kind: Kind, range: &Range<u64>) {
        let (offset, bytes) = (range.start, range.end - range.start);
        if let Some(recorder) = &mut self.vdisks[vdisk as usize].recorder {
            recorder.note(Record { at: clock::now(), kind, offset, bytes });
        }
    }

    /// Takes more of a write's data; once the part is complete it arrives.
    fn write_on(&mut self, client: u32, key: u32, had: usize) {
        let work = &self.operations[key as usize];
        let (place, buffer) = (work.place(), work.buffer.clone().expect("a write has a buffer"));
        let connection = &mut self.clients[client as usize];
        let rest = place.start + had..place.end;
        let had = had + connection.take_payload(&buffer, rest.start, rest.len());
        if had == place.len() {
            connection.writing = None;
            self.arrive(key);
            return;
        }
        connection.writing = Some((key, had));
    }

    /// Bytes from a client, or its end.
    pub(super) fn received(&mut self, client: u32, buffer: Buffer, result: i32) {
        let connection = &mut self.clients[client as usize];
        let came = connection.received(buffer, result);
        connection.moved_at = self.turns.heard_at;
        let (writing, vdisk) = (connection.writing, connection.vdisk);
        self.touch(client);
        self.turns.own_time.moved(vdisk, came.map_or(0, |(bytes, _)| bytes));
        match (came, writing) {
            (None, _) => self.lose(client),
            (Some((_, count)), Some((key, had))) => self.write_on(client, key, had + count),
            (Some(_), None) => {}
        }
    }

    /// A part is whole and goes to the engine, unless its virtual disk is held.
    pub(super) fn arrive(&mut self, key: u32) {
        let operation = &mut self.operations[key as usize];
        if self.vdisks[operation.vdisk as usize].hold.is_some() {
            operation.waits = true;
            return;
        }
        operation.arrived = true;
        let (work, vdisk) = (&operation.work, operation.vdisk);
        let request = Request {
            id: RequestId(key),
            stream: StreamId(vdisk),
            kind: work.op.kind(),
            offset: self.vdisks[vdisk as usize].base + work.range.start,
            // A status asks about bytes and moves none; requests with a range have at least one.
            bytes: if matches!(work.op, Op::Status { .. }) { 1 } else { work.bytes() },
            fua: work.fua,
            class: None,
            deadline: None,
        };
        if let Err(refusal) = self.engine.handle_arrival(self.turns.now, request) {
            self.refused(vdisk, Cause::Queue, &refusal);
            self.answer(key, Err(BlockError::QueueFull));
        }
    }

    /// Work of a client is over: its front end answers.
    pub(super) fn answer(&mut self, key: u32, result: Result<(), BlockError>) {
        let operation = self.operations.remove(key as usize);
        let place = operation.place();
        let Operation { work, vdisk, buffer, survey, .. } = operation;
        let (range, op) = (work.range, work.op);
        let Origin::Client { client, ticket } = work.origin else {
            unreachable!("only clients' work is answered here");
        };
        self.note_still(StreamId(vdisk));
        self.turns.own_time.moved(vdisk, 0);
        let reads = result.is_ok() && op == Op::Read;
        let mut data = buffer.filter(|_| reads).map(|buffer| (buffer, place));
        if self.carried.is_some() {
            let ended = Ended { client, ticket, op, range, vdisk, data, survey };
            return self.answer_carried(ended, result);
        }
        self.touch(client);
        if let (Some(survey), true) = (survey, result.is_ok()) {
            let one = matches!(op, Op::Status { one: true });
            let found = (&survey.found[..], &range, one);
            let buffer = nbd::status_buffer(&mut self.pool);
            data = buffer.map(|buffer| self.describe(client, &ticket, found, buffer));
            if data.is_none() {
                tracing::error!("the system has no memory: a client is let go");
                self.lose(client);
            }
        }
        let connection = &mut self.clients[client as usize];
        if connection.answer(ticket, &range, result.map(|()| data)) {
            self.lose(client);
        }
    }

    /// A client is gone, or must go: its queued requests are dropped, those at the device end
    /// without a reply.
    pub(super) fn lose(&mut self, client: u32) {
        if let Some(carried) = &mut self.carried {
            if carried.lose(client, false) {
                self.drop_requests(client);
            }
            return;
        }
        let connection = &mut self.clients[client as usize];
        if connection.state == State::Dead {
            return;
        }
        connection.shut();
        self.drop_requests(client);
        self.touch(client);
    }

    /// Drops the queued requests of a client that is gone.
    pub(super) fn drop_requests(&mut self, client: u32) {
        let of_client = |(key, operation): (usize, &Operation)| {
            (operation.client() == Some(client)).then(|| name(key))
        };
        for key in self.operations.iter().filter_map(of_client).collect::<Vec<_>>() {
            let cancelled = self.operations[key as usize].arrived
                && self.engine.handle_cancel(clock::now(), RequestId(key)) == Cancel::InFlight;
            if !cancelled {
                self.answer(key, Ok(()));
            }
        }
    }

    /// Whether a client is gone: nothing can be answered.
    pub(super) fn is_dead(&self, client: u32) -> bool {
        match &self.carried {
            Some(carried) => carried.is_dead(client),
            None => self.clients[client as usize].is_dead(),
        }
    }
}

impl Operation {
    /// Work that the engine has not seen yet, on a virtual disk.
    pub(super) fn new(work: Work, vdisk: u32) -> Self {
        let (buffer, lent_at, error, survey) = (None, None, None, None);
        let (arrived, begun, last, waits) = (false, false, false, false);
        Self { work, vdisk, buffer, lent_at, error, arrived, begun, last, waits, survey }
    }

    /// Where its data are in its buffer.
    pub(super) fn place(&self) -> Range<usize> {
        let place = self.work.place();
        self.lent_at.map_or(place.clone(), |start| start..start + place.len())
    }

    /// The client that asked for it.
    pub(super) fn client(&self) -> Option<u32> {
        match self.work.origin {
            Origin::Client { client, .. } => Some(client),
            Origin::Guest { .. } | Origin::Internal => None,
        }
    }
}
