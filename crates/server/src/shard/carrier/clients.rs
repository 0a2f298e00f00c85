//! The carrier's clients: their requests in, their replies out, their end. The shard's own are served the
//! same way ([`shard/clients.rs`](crate::shard)).

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::super::{VISIT, name};
use super::{Carrier, Outcome, ToShard, Writing};
use crate::buffers::Buffer;
use crate::clock;
use crate::frontend::nbd::{self, Accepted, Connection, Part};
use crate::frontend::request::{BlockError, Input, Op, Origin, State, Ticket};
use crate::ring::Token;

impl Carrier {
    pub(super) fn client(&mut self, client: u32) -> Option<&mut Connection> {
        self.clients.get_mut(client as usize)?.as_mut()
    }

    pub(super) fn welcome(&mut self, key: u32, client: Accepted, vdisk: u32) {
        let (at, disk) = (key as usize, vdisk as usize);
        let connection = Connection::new(client, vdisk, &mut self.pool, clock::now());
        if at >= self.clients.len() {
            self.clients.resize_with(at + 1, || None);
        }
        self.clients[at] = Some(connection);
        self.crowds.resize(self.crowds.len().max(disk + 1), 0);
        self.crowds[disk] += 1;
        self.touch(key);
    }

    /// Has a client served in this turn.
    pub(super) fn touch(&mut self, client: u32) {
        let Some(connection) = self.client(client) else { return };
        if !std::mem::replace(&mut connection.touched, true) {
            let vdisk = connection.vdisk;
            self.touched.push(vdisk, client);
        }
    }

    /// Does what can be done for a client now: takes requests, sends replies, reads on, or ends it.
    pub(super) fn serve(&mut self, client: u32) {
        let Some(connection) = self.client(client) else { return };
        connection.touched = false;
        let mut visit = VISIT;
        while self.issue(client) {
            if visit == 0 {
                self.touch(client);
                break;
            }
            visit -= 1;
            let Some(connection) = self.client(client) else { return };
            match connection.next_input() {
                Input::Request => {}
                Input::Answered => {
                    let vdisk = connection.vdisk;
                    self.tally.moved(vdisk, 0);
                }
                Input::Disconnect => connection.state = State::Closing,
                Input::Violation => self.lose(client),
                Input::Nothing => break,
            }
        }
        self.copy(client);
        if self.part(client) {
            return;
        }
        if self.client(client).is_some_and(|it| it.is_answered()) {
            self.lose(client);
        }
        if self.client(client).is_some_and(|it| it.is_over()) {
            // Its seat is free once the shard hears of it.
            drop(self.forget(client));
            self.made.crossing.say(ToShard::Over(client));
        }
    }

    /// Takes a client off the carrier's tables, of which nothing is under way.
    fn forget(&mut self, client: u32) -> Option<Connection> {
        let connection = self.clients.get_mut(client as usize)?.take()?;
        if connection.touched {
            self.touched.remove(connection.vdisk, client);
        }
        self.copies.forget(client);
        self.crowds[connection.vdisk as usize] -= 1;
        // Another virtual disk may have its number soon.
        self.tell_work();
        Some(connection)
    }

    /// Goes on with the request that the client's input has come to; whether it is issued, so that the
    /// next one may be taken.
    fn issue(&mut self, client: u32) -> bool {
        loop {
            let part_max = self.made.part_max.load(Ordering::Relaxed);
            let Some(connection) = self.client(client) else { return false };
            let Some(part) = connection.next_part(client, part_max) else {
                return connection.is_issued() && !self.made.crossing.is_short();
            };
            let last = connection.has_issued_all();
            if part.work.op != Op::Write {
                self.made.crossing.say(ToShard::Part { part, last, data: None });
                continue;
            }
            let Some(buffer) = self.pool.take_for_data(part.work.place().end) else {
                tracing::error!("the system has no memory: a client is let go");
                self.lose(client);
                self.take_answer(client, part, Ok(()));
                return false;
            };
            let key = self.writes.insert(Writing { part, last, buffer });
            self.write_on(client, name(key), 0);
        }
    }

    /// Takes more of a write's data; once the part is complete the shard has it.
    fn write_on(&mut self, client: u32, key: u32, had: usize) {
        let writing = &self.writes[key as usize];
        let place = writing.part.work.place();
        let Some(Some(connection)) = self.clients.get_mut(client as usize) else { return };
        let rest = place.start + had..place.end;
        let had = had + connection.take_payload(&writing.buffer, rest.start, rest.len());
        if had < place.len() {
            connection.writing = Some((key, had));
            return;
        }
        connection.writing = None;
        let Writing { part, last, buffer } = self.writes.remove(key as usize);
        let data = Some(self.lender.lend(buffer));
        self.made.crossing.say(ToShard::Part { part, last, data });
    }

    /// Bytes from a client, or its end.
    pub(super) fn received(&mut self, client: u32, buffer: Buffer, result: i32) {
        let now = self.turns.heard_at;
        let Some(connection) = self.client(client) else { return };
        let came = connection.received(buffer, result);
        connection.moved_at = now;
        let (writing, vdisk) = (connection.writing, connection.vdisk);
        self.touch(client);
        self.tally.moved(vdisk, came.map_or(0, |(bytes, _)| bytes));
        match (came, writing) {
            (None, _) => self.lose(client),
            (Some((_, count)), Some((key, had))) => self.write_on(client, key, had + count),
            (Some(_), None) => {}
        }
    }

    /// Begins to copy a client's replies out and its requests in, as far as this turn has room.
    fn copy(&mut self, client: u32) {
        let Some(Some(connection)) = self.clients.get_mut(client as usize) else { return };
        let into = connection.writing.map(|(key, had)| {
            let Writing { part, buffer, .. } = &self.writes[key as usize];
            let place = part.work.place();
            (buffer, place.start + had..place.end)
        });
        let crowd = self.crowds[connection.vdisk as usize];
        let io = (&mut self.ring, &mut self.pool);
        let copied = self.copies.copy(client, connection, crowd, into, io);
        if copied.sent > 0 {
            connection.moved_at = self.turns.now;
            self.tally.moved(connection.vdisk, copied.sent);
        }
        if copied.freed {
            self.touch(client);
        }
    }

    /// The shard has ended work of a client.
    pub(super) fn answer(
        &mut self,
        client: u32,
        ticket: Ticket,
        range: &Range<u64>,
        outcome: Result<Option<Outcome>, BlockError>,
    ) {
        let data = match outcome {
            Ok(Some(Outcome::Data(loan, place))) => Ok(Some((self.pool.borrow(loan), place))),
            Ok(Some(Outcome::Described(found))) => {
                let buffer = nbd::status_buffer(&mut self.pool);
                let Some(Some(connection)) = self.clients.get(client as usize) else { return };
                let bytes = range.end - range.start;
                let described = buffer.map(|it| connection.describe(&ticket, &found, bytes, it));
                if described.is_none() {
                    tracing::error!("the system has no memory: a client is let go");
                    self.lose(client);
                }
                Ok(described)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let Some(connection) = self.client(client) else { return };
        let vdisk = connection.vdisk;
        if connection.answer(ticket, range, data) {
            self.lose(client);
        }
        self.tally.moved(vdisk, 0);
        self.touch(client);
    }

    /// Work that the shard has not seen is over.
    fn take_answer(&mut self, client: u32, part: Part, result: Result<(), BlockError>) {
        let Origin::Client { ticket, .. } = part.work.origin else {
            unreachable!("a carrier's work is of clients");
        };
        self.answer(client, ticket, &part.work.range, result.map(|()| None));
    }

    /// A write whose data are on their way, if the client has one, is over.
    fn end_write(
        &mut self,
        client: u32,
        writing: Option<(u32, usize)>,
        result: Result<(), BlockError>,
    ) {
        if let Some((key, _)) = writing {
            let Writing { part, .. } = self.writes.remove(key as usize);
            self.take_answer(client, part, result);
        }
    }

    /// A client is gone, or must go: what the shard has of it is not wanted any more.
    pub(super) fn lose(&mut self, client: u32) {
        let Some(connection) = self.client(client) else { return };
        if connection.state == State::Dead {
            return;
        }
        let writing = connection.writing.take();
        connection.shut();
        self.end_write(client, writing, Ok(()));
        self.touch(client);
        self.made.crossing.say(ToShard::Gone(client));
    }

    /// A client takes no more requests from now on.
    pub(super) fn end_of(&mut self, client: u32, end: fn(&mut Connection)) {
        if let Some(connection) = self.client(client) {
            end(connection);
            self.touch(client);
        }
    }

    /// A client's virtual disk is removed.
    pub(super) fn remove(&mut self, client: u32) {
        let Some(connection) = self.client(client) else { return };
        let writing = connection.writing.take();
        self.end_write(client, writing, Err(BlockError::Removed));
        let Some(connection) = self.client(client) else { return };
        connection.close();
        if connection.cut_short(BlockError::Removed) {
            self.lose(client);
        }
        self.touch(client);
    }

    /// A client that leaves goes as soon as nothing of it is under way; whether it is gone.
    fn part(&mut self, client: u32) -> bool {
        let Some(connection) = self.client(client) else { return false };
        if connection.gives_up_waiting() {
            self.ring.cancel(Token::Receive(client));
        }
        if !self.client(client).is_some_and(|it| it.may_part()) {
            return false;
        }
        let Some(connection) = self.forget(client) else { return false };
        let parted = Box::new(connection.leave());
        self.made.crossing.say(ToShard::Parted(client, parted));
        true
    }

    /// Lets clients go that hold a hand-over up.
    pub(super) fn hurry(&mut self) {
        for client in self.those(|connection| !connection.waits_for_device()) {
            tracing::debug!("a client that does not go on is hung up on");
            self.lose(client);
        }
    }

    /// Lets clients go of which no byte came or went for long, unless the device has work of theirs.
    pub(super) fn let_idle_go(&mut self) {
        let now = self.turns.now;
        let Some(timeout) = self.idle.due(now) else { return };
        let idle = self.those(|connection| {
            connection.moved_at + timeout <= now && !connection.waits_for_device()
        });
        for client in idle {
            tracing::info!(?timeout, "a client was idle for longer than idle_timeout");
            self.lose(client);
        }
    }

    fn those(&self, which: impl Fn(&Connection) -> bool) -> Vec<u32> {
        let clients = self.clients.iter().enumerate();
        let those = clients.filter(|(_, client)| client.as_ref().is_some_and(&which));
        those.map(|(key, _)| name(key)).collect()
    }
}
