//! The shard's side of its clients: their requests in, their replies out, their end.

use std::ops::Range;
use std::os::fd::OwnedFd;

use disktime_core::{Cancel, Kind, Request, RequestId, StreamId};
use disktime_nbd::{NbdError, Operation, Session};

use super::{CONNECTIONS_MAX, CONNECTIONS_PER_VDISK_MAX, Shard, Work, name};
use crate::buffers::{ALIGN, Buffer};
use crate::clock;
use crate::frontend::nbd::{Asked, Connection, Input, State};
use crate::record::Record;
use crate::stats::{add, subtract};

impl Shard {
    pub(super) fn welcome(&mut self, socket: OwnedFd, vdisk: u32, session: Session, unread: &[u8]) {
        let stats = &self.vdisks[vdisk as usize].stats;
        let crowded = stats.connections() >= CONNECTIONS_PER_VDISK_MAX;
        if crowded || self.clients.len() >= CONNECTIONS_MAX || self.drain_until.is_some() {
            tracing::warn!(vdisk, "a client was turned away: too many, or shutting down");
            return;
        }
        add(&stats.connections, 1);
        let connection = Connection::new(socket, vdisk, session, unread, &mut self.pool);
        let client = name(self.clients.insert(connection));
        self.flushes_welcome(client);
        self.touched.push(client);
    }

    /// Does what can be done for a client now: takes requests, sends replies, reads on, or ends it.
    pub(super) fn serve(&mut self, client: u32) {
        loop {
            let Some(connection) = self.clients.get_mut(client as usize) else { return };
            match connection.next_input() {
                Input::Request(asked) => {
                    let vdisk = connection.vdisk;
                    self.take(client, Work::new(client, vdisk, asked));
                }
                Input::Disconnect => connection.state = State::Closing,
                Input::Violation => self.lose(client),
                Input::Nothing => break,
            }
        }
        let connection = &mut self.clients[client as usize];
        connection.flush(client, &mut self.ring);
        connection.receive(client, &mut self.ring);
        if connection.is_answered() {
            self.lose(client);
        }
        if self.clients[client as usize].is_over() {
            let connection = self.clients.remove(client as usize);
            let stats = &self.vdisks[connection.vdisk as usize].stats;
            subtract(&stats.connections, 1);
            if stats.connections() == 0 {
                self.abandoned(StreamId(connection.vdisk));
            }
            connection.dispose(&mut self.pool);
        }
    }

    /// A request's header is in.
    fn take(&mut self, client: u32, mut work: Work) {
        let asked = work.asked;
        match asked.checked.operation {
            Operation::Nothing => {
                self.clients[client as usize].reply(&asked, Ok(None));
            }
            Operation::Write { .. } => {
                work.buffer = Some(self.pool.take(work.place().end));
                let key = name(self.operations.insert(work));
                self.clients[client as usize].writing = Some((key, 0));
                self.write_on(client, key, 0);
            }
            _ => {
                let key = name(self.operations.insert(work));
                self.arrive(key);
            }
        }
    }

    /// Takes more of a write's data; once it is complete the request arrives.
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
        let rest = place.start + had..place.end;
        connection.receive_payload(client, &mut self.ring, &buffer, &rest);
    }

    /// Bytes from a client, or its end.
    pub(super) fn received(&mut self, client: u32, buffer: Buffer, result: i32) {
        let connection = &mut self.clients[client as usize];
        let count = connection.received(buffer, result);
        self.touched.push(client);
        match (count, self.clients[client as usize].writing) {
            (None, _) => self.lose(client),
            (Some(count), Some((key, had))) => self.write_on(client, key, had + count),
            (Some(_), None) => {}
        }
    }

    /// A request is whole and goes to the engine.
    fn arrive(&mut self, key: u32) {
        let work = &mut self.operations[key as usize];
        let vdisk = work.vdisk;
        let checked = work.asked.checked;
        let request = Request {
            id: RequestId(key),
            stream: StreamId(vdisk),
            kind: work.kind,
            offset: self.vdisks[vdisk as usize].base + checked.offset,
            bytes: u64::from(checked.length),
            fua: work.fua(),
            class: None,
            deadline: None,
        };
        work.arrived = true;
        let (kind, now) = (work.kind, clock::now());
        if let Some(recorder) = &mut self.vdisks[vdisk as usize].recorder {
            let (offset, bytes) = (checked.offset, request.bytes);
            recorder.note(Record { at: now, kind, offset, bytes });
        }
        if let Err(refusal) = self.engine.handle_arrival(now, request) {
            tracing::warn!(%refusal, "a client's request was refused");
            self.answer(key, Err((NbdError::NoMemory, "the virtual disk's queue is full")));
        }
    }

    /// A request is over: its reply gathers, unless its client is gone.
    pub(super) fn answer(&mut self, key: u32, result: Result<(), (NbdError, &str)>) {
        let mut work = self.operations.remove(key as usize);
        let client = work.client;
        let connection = &mut self.clients[client as usize];
        self.touched.push(client);
        let place = work.place();
        let data = work.buffer.take();
        if connection.state == State::Dead {
            connection.forget(&work.asked);
        } else if let (Ok(()), Kind::Read, Some(data)) = (result, work.kind, data.clone()) {
            connection.reply(&work.asked, Ok(Some((data, place))));
        } else {
            connection.reply(&work.asked, result.map(|()| None));
        }
        if let Some(data) = data {
            self.pool.give_back(data);
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
        let of_client = |(key, work): (usize, &Work)| (work.client == client).then(|| name(key));
        for key in self.operations.iter().filter_map(of_client).collect::<Vec<_>>() {
            let cancelled = self.operations[key as usize].arrived
                && self.engine.handle_cancel(clock::now(), RequestId(key)) == Cancel::InFlight;
            if !cancelled {
                self.answer(key, Ok(()));
            }
        }
    }
}

impl Work {
    fn new(client: u32, vdisk: u32, asked: Asked) -> Self {
        let kind = match asked.checked.operation {
            Operation::Read { .. } => Kind::Read,
            Operation::Write { .. } => Kind::Write,
            Operation::Trim { .. } => Kind::Trim,
            Operation::Cache => Kind::Cache,
            Operation::WriteZeroes { .. } => Kind::Zeroes,
            Operation::Flush | Operation::Nothing | Operation::Disconnect => Kind::Flush,
        };
        Self { client, vdisk, asked, kind, buffer: None, error: None, arrived: false }
    }

    /// Where its data are in its buffer: as far into the first block as on the virtual disk.
    pub(super) fn place(&self) -> Range<usize> {
        let offset = self.asked.checked.offset % ALIGN as u64;
        let start = usize::try_from(offset).expect("below a block");
        start..start + self.asked.data_bytes()
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
