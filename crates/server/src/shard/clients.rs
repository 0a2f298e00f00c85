//! The shard's side of its clients: their requests in, their replies out, their end.

use std::ops::Range;
use std::os::fd::OwnedFd;

use disktime_core::{Cancel, Kind, Request, RequestId, StreamId};
use disktime_nbd::{NbdError, Operation, Session};

use super::wholes::Whole;
use super::{Cause, Shard, Work, name};
use crate::buffers::Buffer;
use crate::clock;
use crate::frontend::nbd::{Asked, Connection, Cut, Input, Part, State};
use crate::record::Record;
use crate::seats::Seat;

/// Requests that are taken from one client before the next one is looked at.
const VISIT: u32 = 32;

impl Shard {
    pub(super) fn welcome(&mut self, client: (OwnedFd, Session, Seat), vdisk: u32, unread: &[u8]) {
        if self.drain_until.is_some() {
            self.refused(vdisk, Cause::Client, &"the daemon ends");
            return;
        }
        let connection = Connection::new(client, vdisk, unread, &mut self.pool, clock::now());
        let client = name(self.clients.insert(connection));
        self.flushes_welcome(client);
        self.touch(client);
    }

    /// Has a client served in this turn.
    pub(super) fn touch(&mut self, client: u32) {
        let connection = &mut self.clients[client as usize];
        if !std::mem::replace(&mut connection.touched, true) {
            self.touched.push_back(client);
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
                Input::Disconnect => connection.state = State::Closing,
                Input::Violation => self.lose(client),
                Input::Nothing => break,
            }
        }
        self.copy(client);
        if self.clients[client as usize].is_answered() {
            self.lose(client);
        }
        if self.clients[client as usize].is_over() {
            let connection = self.clients.remove(client as usize);
            let vdisk = connection.vdisk;
            if connection.touched {
                self.touched.retain(|touched| *touched != client);
            }
            self.copies.forget(client);
            drop(connection);
            if self.vdisks[vdisk as usize].stats.connections() == 0 {
                self.abandoned(StreamId(vdisk));
            }
        }
    }

    /// Goes on with the request that the client's input has come to; whether it is issued, so that the
    /// next one may be taken.
    fn issue(&mut self, client: u32) -> bool {
        loop {
            let connection = &mut self.clients[client as usize];
            let Some(cut) = connection.cut else { return connection.writing.is_none() };
            let Some(part) = connection.next_part(self.part_max) else {
                if let Some(whole) = connection.waits_for_memory() {
                    self.send_kept(whole, client);
                }
                return false;
            };
            if cut.asked.checked.operation == Operation::Nothing {
                connection.issued(&part, None);
                connection.reply(&cut.asked, part.memory, Ok(None));
                continue;
            }
            let vdisk = connection.vdisk;
            let whole = self.whole(&cut, &part, client);
            self.clients[client as usize].issued(&part, whole);
            let work = Work::new(client, vdisk, cut.asked, (part, whole));
            let writes = work.kind == Kind::Write;
            let key = name(self.operations.insert(work));
            if cut.issued == 0 {
                self.record(vdisk, &cut.asked);
            }
            if !writes {
                self.arrive(key);
                continue;
            }
            let end = Part::place(part.offset, part.bytes).end;
            let Some(buffer) = self.pool.try_take(end) else {
                tracing::error!(bytes = end, "the system has no memory: a client is let go");
                self.lose(client);
                return false;
            };
            self.operations[key as usize].buffer = Some(buffer);
            self.clients[client as usize].writing = Some((key, 0));
            self.write_on(client, key, 0);
        }
    }

    /// Where the parts of a request come together: nowhere, if this one is all of it.
    fn whole(&mut self, cut: &Cut, part: &Part, client: u32) -> Option<u32> {
        let Cut { asked, whole, .. } = *cut;
        if whole.is_none() && part.bytes == asked.checked.length {
            return None;
        }
        let alone = self.clients[client as usize].cut.is_some_and(|cut| cut.alone);
        let whole = whole.unwrap_or_else(|| name(self.wholes.insert(Whole::new(asked, alone))));
        self.wholes[whole as usize].issue(part.bytes);
        Some(whole)
    }

    fn record(&mut self, vdisk: u32, asked: &Asked) {
        let kind = kind_of(asked.checked.operation);
        let (offset, bytes) = (asked.checked.offset, u64::from(asked.checked.length));
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
        connection.moved_at = self.heard_at;
        let (writing, vdisk) = (connection.writing, connection.vdisk);
        self.touch(client);
        self.own_time.moved(vdisk, came.map_or(0, |(bytes, _)| bytes));
        match (came, writing) {
            (None, _) => self.lose(client),
            (Some((_, count)), Some((key, had))) => self.write_on(client, key, had + count),
            (Some(_), None) => {}
        }
    }

    /// A part is whole and goes to the engine.
    fn arrive(&mut self, key: u32) {
        let work = &mut self.operations[key as usize];
        work.arrived = true;
        let request = Request {
            id: RequestId(key),
            stream: StreamId(work.vdisk),
            kind: work.kind,
            offset: self.vdisks[work.vdisk as usize].base + work.offset,
            bytes: u64::from(work.bytes),
            fua: work.fua(),
            class: None,
            deadline: None,
        };
        let vdisk = work.vdisk;
        if let Err(refusal) = self.engine.handle_arrival(clock::now(), request) {
            self.refused(vdisk, Cause::Queue, &refusal);
            self.answer(key, Err((NbdError::NoMemory, "the virtual disk's queue is full")));
        }
    }

    /// A part is over: a reply gathers, unless its client is gone or the request has more to come.
    pub(super) fn answer(&mut self, key: u32, result: Result<(), (NbdError, &str)>) {
        let mut work = self.operations.remove(key as usize);
        let client = work.client;
        self.touch(client);
        self.own_time.moved(work.vdisk, 0);
        let place = work.place();
        let reads = result.is_ok() && work.kind == Kind::Read;
        let data = work.buffer.take().filter(|_| reads).map(|buffer| (buffer, place));
        if let Some(whole) = work.whole {
            return self.part_over(whole, &work, result.map(|()| data));
        }
        let connection = &mut self.clients[client as usize];
        if connection.state == State::Dead {
            connection.forget(work.memory);
        } else {
            connection.reply(&work.asked, work.memory, result.map(|()| data));
        }
    }

    /// A client is gone, or must go: its queued requests are dropped, those at the device end
    /// without a reply.
    pub(super) fn lose(&mut self, client: u32) {
        let connection = &mut self.clients[client as usize];
        if connection.state == State::Dead {
            return;
        }
        connection.shut();
        connection.writing = None;
        if let Some(whole) = connection.cut.take().and_then(|cut| cut.whole) {
            self.cut_short(whole, client);
        }
        let of_client = |(key, work): (usize, &Work)| (work.client == client).then(|| name(key));
        for key in self.operations.iter().filter_map(of_client).collect::<Vec<_>>() {
            let cancelled = self.operations[key as usize].arrived
                && self.engine.handle_cancel(clock::now(), RequestId(key)) == Cancel::InFlight;
            if !cancelled {
                self.answer(key, Ok(()));
            }
        }
        self.touch(client);
    }
}

fn kind_of(operation: Operation) -> Kind {
    match operation {
        Operation::Read { .. } => Kind::Read,
        Operation::Write { .. } => Kind::Write,
        Operation::Trim { .. } => Kind::Trim,
        Operation::Cache => Kind::Cache,
        Operation::WriteZeroes { .. } => Kind::Zeroes,
        Operation::Flush | Operation::Nothing | Operation::Disconnect => Kind::Flush,
    }
}

impl Work {
    /// A part of a client's request, and where it comes together with others.
    fn new(client: u32, vdisk: u32, asked: Asked, (part, whole): (Part, Option<u32>)) -> Self {
        let Part { offset, bytes, memory } = part;
        let kind = kind_of(asked.checked.operation);
        let (buffer, error, arrived) = (None, None, false);
        Self { client, vdisk, asked, offset, bytes, memory, whole, kind, buffer, error, arrived }
    }

    /// Where its data are in its buffer.
    pub(super) fn place(&self) -> Range<usize> {
        Part::place(self.offset, if self.asked.has_data() { self.bytes } else { 0 })
    }

    pub(super) fn fua(&self) -> bool {
        use Operation::{Trim, Write, WriteZeroes};
        matches!(
            self.asked.checked.operation,
            Write { fua: true } | Trim { fua: true } | WriteZeroes { fua: true, .. }
        )
    }

    pub(super) fn no_hole(&self) -> bool {
        matches!(self.asked.checked.operation, Operation::WriteZeroes { no_hole: true, .. })
    }
}
