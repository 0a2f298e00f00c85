//! A server's export as a device, over several connections on the shard's own ring.
//!
//! A connection that is lost fails what was asked on it; new requests go to the others, or fail
//! while there is none, and a thread tries to connect again. Writes that were acknowledged but not
//! flushed may be lost with a connection; that is [told](Medium::lost). A server that breaks the
//! protocol or is silent for too long is left like one that hung up.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use disktime_client::Transmission;
use disktime_nbd::{
    Command, CommandFlags, NbdError, Pending, ReplyEvent, RequestHeader, TransmissionFlags,
};
use slab::Slab;

use super::blocks::{BLOCK, BlockBackEnd, Disk, Free, Medium, Name};
use super::survey::{self, EXTENTS_MAX, Stretch, Survey};
use super::{Abilities, Io};
use crate::buffers::Buffer;
use crate::clock;
use crate::quiet::Quiet;
use crate::ring::{Keep, Message, Payload, Token, Transfer};

mod connect;
mod line;

use connect::Connector;
pub use connect::Export;
use line::Line;

/// Virtual disks on an export.
pub type NbdBackEnd = BlockBackEnd<Remote>;

/// Requests without a reply on one connection; more wait here.
const ASKED_MAX: u32 = 128;
/// The longest transfer in bytes: what servers that don't say take.
const TRANSFER_MAX: u64 = 32 << 20;
/// How long a request may wait for its reply, unless a test is in a hurry.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Looks for silence in that time.
const LOOKS_MAX: u32 = 6;

/// The flag of `base:allocation` for bytes that read as zeroes.
const STATE_ZERO: u32 = 2;
const EIO: i32 = -libc::EIO;

/// The purpose of an operation on the ring, beside a connection's place.
const RECEIVE: u32 = 0;
const SEND: u32 = 1;
const FOUND: u32 = 2;
const TIME: u32 = 3;

/// The limits and options that the server agreed to.
#[derive(Clone, Copy, Debug)]
struct Terms {
    flags: TransmissionFlags,
    min: u32,
    max: u32,
    timeout: Duration,
    /// How long requests wait for a connection while there is none; else they fail at once.
    hold: Option<Duration>,
}

impl Terms {
    /// From one look at the time to the next.
    fn interval(&self) -> Duration {
        self.hold.map_or(self.timeout, |hold| hold.min(self.timeout)) / LOOKS_MAX
    }

    /// Looks in a span, at least.
    fn looks(&self, span: Duration) -> u64 {
        let looks = span.as_nanos().div_ceil(self.interval().as_nanos().max(1));
        u64::try_from(looks).unwrap_or(u64::MAX)
    }
}

/// A request that has no reply yet.
struct Ask {
    name: Name,
    flags: CommandFlags,
    asked: Pending,
    memory: Option<Payload>,
    /// Its connection, once it has one.
    line: Option<u32>,
    /// The high half of its cookie: a place in the table is used again, a cookie is not.
    serial: u32,
    /// The last look at the time when it was sent.
    look: u64,
    /// A block status has one: the answer so far, and where that goes.
    told: Option<Box<Told>>,
    /// The last look at the time when its first connection was lost.
    held: Option<u64>,
}

/// The answer to a block status so far, and where it goes.
type Told = (Vec<Stretch>, Sender<Vec<Stretch>>);

/// An export.
pub struct Remote {
    uri: String,
    terms: Terms,
    lines: Vec<Line>,
    asks: Slab<Ask>,
    serial: u32,
    /// Asks that wait for room on a connection.
    waiting: VecDeque<usize>,
    answers: VecDeque<(Name, i32)>,
    connector: Connector,
    input: Vec<u8>,
    look: u64,
    timing: bool,
    /// A connection was lost since that was asked.
    lost: bool,
    quiet: Quiet<Cause>,
}

/// An event of a connection that is logged at most once in a while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cause {
    Lost,
    Found,
}

impl NbdBackEnd {
    fn on(remote: Remote, whole: bool, extents: &[(u64, u64)], abilities: Abilities) -> Self {
        let disk = |(base, bytes): &(u64, u64)| Disk::new(0, whole, *base, *bytes);
        let disks = extents.iter().map(disk).collect();
        Self::new(vec![remote], disks, abilities).open_ended(whole)
    }
}

impl Remote {
    fn new(uri: String, terms: Terms, lines: Vec<Transmission>, connector: Connector) -> Self {
        Self {
            uri,
            terms,
            lines: lines.into_iter().map(Line::new).collect(),
            asks: Slab::new(),
            serial: 0,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            connector,
            input: Vec::new(),
            look: 0,
            timing: false,
            lost: false,
            quiet: Quiet::default(),
        }
    }

    fn can(&self, flag: TransmissionFlags) -> bool {
        self.terms.flags.contains(flag)
    }

    /// Sends a request, or has it wait for room.
    fn ask(
        &mut self,
        name: Name,
        what: (Command, CommandFlags),
        range: (u64, u32),
        memory: Option<Payload>,
        io: &mut Io<'_>,
    ) {
        self.enter(name, what, range, memory);
        self.send_waiting(io);
    }

    /// Enters a request into the table of those that wait; answers its place.
    fn enter(
        &mut self,
        name: Name,
        (command, flags): (Command, CommandFlags),
        (offset, length): (u64, u32),
        memory: Option<Payload>,
    ) -> usize {
        self.serial = self.serial.wrapping_add(1);
        let asked = Pending { command, offset, length };
        let (serial, look) = (self.serial, self.look);
        let ask =
            Ask { name, flags, asked, memory, line: None, serial, look, told: None, held: None };
        let key = self.asks.insert(ask);
        self.waiting.push_back(key);
        key
    }

    /// Sends what waits, as far as there is room; with no connection left it fails.
    fn send_waiting(&mut self, io: &mut Io<'_>) {
        while let Some(&key) = self.waiting.front() {
            let up = (0..).zip(&self.lines).filter(|(_, line)| line.takes_more());
            let Some((at, line)) = up.min_by_key(|(_, line)| line.asked) else {
                if self.terms.hold.is_some() {
                    return self.look_again(io);
                }
                self.waiting.pop_front();
                self.settle(key, EIO);
                continue;
            };
            if line.asked >= ASKED_MAX {
                return;
            }
            self.waiting.pop_front();
            let ask = &mut self.asks[key];
            (ask.line, ask.look) = (Some(at), self.look);
            let Pending { command, offset, length } = ask.asked;
            let cookie = cookie(key, ask.serial);
            let length = length.into();
            let header = RequestHeader { flags: ask.flags, command, cookie, offset, length };
            let data = ask.memory.clone().filter(|_| command == Command::Write);
            self.lines[at as usize].ask(token(at, SEND), header.to_bytes(), data, io);
            self.look_again(io);
        }
    }

    /// Looks at the time again in a while, if it is not going to already.
    fn look_again(&mut self, io: &mut Io<'_>) {
        if !self.timing {
            self.timing = true;
            io.ring.timer(token(0, TIME), self.terms.interval());
        }
    }

    /// A request is over.
    fn settle(&mut self, key: usize, result: i32) {
        let ask = self.asks.remove(key);
        if let Some(line) = ask.line.and_then(|at| self.lines.get_mut(at as usize)) {
            line.asked = line.asked.saturating_sub(1);
        }
        self.answers.push_back((ask.name, result));
    }

    /// Takes bytes from the server.
    fn received(&mut self, at: u32, input: Buffer, result: i32, io: &mut Io<'_>) {
        let mut bytes = std::mem::take(&mut self.input);
        let line = &mut self.lines[at as usize];
        let came = line.received(&input, result, &mut bytes);
        if !line.is_up() || !came {
            io.pool.give_back(input);
            self.lose(at, &"the server hung up", io);
        } else {
            match self.parse(at, &bytes) {
                // A server that is about to end has answered all that it had taken.
                Ok(()) if self.lines[at as usize].is_done() => {
                    io.pool.give_back(input);
                    self.lose(at, &NbdError::Shutdown, io);
                }
                Ok(()) => {
                    self.lines[at as usize].receive(token(at, RECEIVE), Some(input), io);
                    self.send_waiting(io);
                }
                Err(error) => {
                    io.pool.give_back(input);
                    self.lose(at, &error, io);
                }
            }
        }
        self.input = bytes;
    }

    fn parse(&mut self, at: u32, mut bytes: &[u8]) -> Result<(), disktime_nbd::ProtocolError> {
        loop {
            let asks = &self.asks;
            let pending = |name| find(asks, at, name).map(|key| asks[key].asked);
            let (used, event) = self.lines[at as usize].parser.poll(bytes, pending)?;
            bytes = &bytes[used..];
            let Some(event) = event else { return Ok(()) };
            match event {
                ReplyEvent::Data { cookie, offset, bytes } => {
                    if let Some((buffer, place)) = place(&self.asks, at, cookie, offset) {
                        buffer.put(place, bytes);
                    }
                }
                ReplyEvent::Hole { cookie, offset, length } => {
                    if let Some((buffer, place)) = place(&self.asks, at, cookie, offset) {
                        buffer.clear(&(place..place + length as usize));
                    }
                }
                ReplyEvent::Extent { cookie, length, state } => {
                    let ask = find(&self.asks, at, cookie).map(|key| &mut self.asks[key]);
                    if let Some((told, _)) = ask.and_then(|ask| ask.told.as_deref_mut()) {
                        tell(told, length, state);
                    }
                }
                ReplyEvent::Done { cookie, result } => {
                    let Some(key) = find(&self.asks, at, cookie) else { continue };
                    // The request is asked again, and this connection takes no more.
                    if result == Err(NbdError::Shutdown) && self.terms.hold.is_some() {
                        self.lines[at as usize].ends();
                        self.put_back(key);
                        continue;
                    }
                    if let Some((told, to)) = self.asks[key].told.take().map(|told| *told) {
                        let _nobody_waits_any_more = to.send(told);
                    }
                    let Pending { command, length, .. } = self.asks[key].asked;
                    let moved = matches!(command, Command::Read | Command::Write);
                    let done = if moved { i32::try_from(length).unwrap_or(i32::MAX) } else { 0 };
                    self.settle(key, result.map_or_else(errno, |()| done));
                }
            }
        }
    }

    /// A connection is of no more use.
    fn lose(&mut self, at: u32, reason: &dyn std::fmt::Display, io: &mut Io<'_>) {
        let line = &mut self.lines[at as usize];
        if line.is_up() {
            line.shut();
            if let Some(left_out) = self.quiet.note(clock::now(), Cause::Lost) {
                let server = self.uri.as_str();
                tracing::warn!(server, connection = at, %reason, left_out, "connection lost");
            }
            let mine = |(key, ask): (usize, &Ask)| (ask.line == Some(at)).then_some(key);
            for key in self.asks.iter().filter_map(mine).collect::<Vec<_>>() {
                self.put_back(key);
            }
            self.lost = true;
            self.send_waiting(io);
        }
        // Its place can be taken once the ring has given everything back.
        if self.lines[at as usize].is_quiet() && self.connector.wanted.try_send(at).is_err() {
            tracing::error!(server = self.uri, connection = at, "nobody connects again");
        }
    }

    /// A request that was not carried out waits for a connection again, if it is held and has not waited for too
    /// long; else it fails.
    fn put_back(&mut self, key: usize) {
        let ask = &mut self.asks[key];
        let held = self.look - *ask.held.get_or_insert(self.look);
        // A server that takes connections and answers nothing is given up, too.
        let longest = self.terms.hold.map(|hold| self.terms.looks(hold + self.terms.timeout));
        if longest.is_none_or(|longest| held > longest) {
            return self.settle(key, EIO);
        }
        // Asked again, it does what it would have done: no client has heard of it yet.
        ask.look = self.look;
        if let Some(line) = ask.line.take().and_then(|at| self.lines.get_mut(at as usize)) {
            line.asked = line.asked.saturating_sub(1);
        }
        if let Some((told, _)) = ask.told.as_deref_mut() {
            told.clear();
        }
        self.waiting.push_back(key);
    }

    /// New connections, for lost ones.
    fn found(&mut self, buffer: Buffer, io: &mut Io<'_>) {
        io.pool.give_back(buffer);
        self.listen(io);
        while let Ok((at, connection)) = self.connector.found.try_recv() {
            if let Some(left_out) = self.quiet.note(clock::now(), Cause::Found) {
                tracing::warn!(server = self.uri, connection = at, left_out, "connected again");
            }
            self.lines[at as usize] = Line::new(connection);
            self.lines[at as usize].receive(token(at, RECEIVE), None, io);
        }
        self.send_waiting(io);
    }

    fn listen(&mut self, io: &mut Io<'_>) {
        let (fd, buffer) = (self.connector.wakeup.as_raw_fd(), io.pool.take(8));
        io.ring.read(token(0, FOUND), Transfer { fd, offset: 0, buffer, range: 0..8 });
    }

    /// Time has passed: connections with a request that waits for too long are given up.
    fn looked(&mut self, io: &mut Io<'_>) {
        self.look += 1;
        let timeout = self.terms.looks(self.terms.timeout);
        for at in (0..).take(self.lines.len()) {
            let late = |ask: &Ask| ask.line == Some(at) && ask.look + timeout < self.look;
            if self.asks.iter().any(|(_, ask)| late(ask)) {
                self.lose(at, &"a request was not answered in time", io);
            }
        }
        self.give_up_waiting();
        self.timing = false;
        if !self.asks.is_empty() {
            self.look_again(io);
        }
    }

    /// Fails the requests that have waited for too long for a connection.
    fn give_up_waiting(&mut self) {
        let Some(hold) = self.terms.hold else { return };
        if self.lines.iter().any(Line::takes_more) {
            return;
        }
        let timeout = self.terms.looks(hold);
        for key in std::mem::take(&mut self.waiting) {
            if self.asks[key].look + timeout < self.look {
                self.settle(key, EIO);
            } else {
                self.waiting.push_back(key);
            }
        }
    }

    fn sent(&mut self, at: u32, message: Box<Message>, result: i32, io: &mut Io<'_>) {
        let line = &mut self.lines[at as usize];
        if !line.sent(token(at, SEND), message, result, io) || !line.is_up() {
            self.lose(at, &"the server takes no more", io);
        }
    }
}

impl Medium for Remote {
    const ASKS_AGAIN: bool = true;

    fn begin(&mut self, io: &mut Io<'_>) {
        self.listen(io);
        for (at, line) in (0..).zip(&mut self.lines) {
            line.receive(token(at, RECEIVE), None, io);
        }
    }

    fn reach(&self, _offset: u64) -> u64 {
        u64::from(self.terms.max).min(TRANSFER_MAX) / BLOCK * BLOCK
    }

    fn read(&mut self, name: Name, offset: u64, to: Payload, io: &mut Io<'_>) {
        let length = u32::try_from(to.1.len()).expect("no longer than the reach");
        self.ask(name, (Command::Read, CommandFlags::EMPTY), (offset, length), Some(to), io);
    }

    fn write(&mut self, name: Name, offset: u64, from: Payload, fua: bool, io: &mut Io<'_>) {
        let length = u32::try_from(from.1.len()).expect("no longer than the reach");
        let flags = if fua { CommandFlags::FUA } else { CommandFlags::EMPTY };
        self.ask(name, (Command::Write, flags), (offset, length), Some(from), io);
    }

    fn free(&mut self, job: u32, extent: Range<u64>, how: Free, io: &mut Io<'_>) -> u32 {
        let min = u64::from(self.terms.min);
        let (command, flags, extent, most) = match how {
            // A hint: what isn't whole blocks may stay.
            Free::Trim => {
                let inner = extent.start.next_multiple_of(min)..extent.end / min * min;
                (Command::Trim, CommandFlags::EMPTY, inner, u32::MAX)
            }
            Free::ZeroInPlace => {
                (Command::WriteZeroes, CommandFlags::NO_HOLE, extent, self.terms.max)
            }
            Free::Zero => (Command::WriteZeroes, CommandFlags::EMPTY, extent, self.terms.max),
            Free::Allocate => return 0,
        };
        let most = u64::from(most) / min * min;
        let (mut offset, mut step) = (extent.start, 0);
        while offset < extent.end {
            let length = u32::try_from(most.min(extent.end - offset)).expect("at most `most`");
            self.ask(Name { job, step }, (command, flags), (offset, length), None, io);
            (offset, step) = (offset + u64::from(length), step + 1);
        }
        step
    }

    fn sync(&mut self, job: u32, _disk: u32, io: &mut Io<'_>) -> u32 {
        if !self.can(TransmissionFlags::FLUSH) {
            return 0;
        }
        self.ask(Name { job, step: 0 }, (Command::Flush, CommandFlags::EMPTY), (0, 0), None, io);
        1
    }

    fn cache(&mut self, job: u32, _disk: u32, extent: Range<u64>, io: &mut Io<'_>) -> u32 {
        if !self.can(TransmissionFlags::CACHE) {
            return 0;
        }
        let min = u64::from(self.terms.min);
        let start = extent.start / min * min;
        let length = extent.end.next_multiple_of(min) - start;
        let length = u32::try_from(length).expect("a piece is at most 4 GiB");
        self.ask(
            Name { job, step: 0 },
            (Command::Cache, CommandFlags::EMPTY),
            (start, length),
            None,
            io,
        );
        1
    }

    fn describe(
        &mut self,
        name: Name,
        extent: Range<u64>,
        survey: &mut Survey,
        io: &mut Io<'_>,
    ) -> bool {
        let min = u64::from(self.terms.min);
        // Blocks that begin with the extent: disks begin on blocks, and clients may begin anywhere.
        let start = extent.start / min * min;
        let most = u64::from(u32::MAX) / min * min;
        let length = (extent.end.next_multiple_of(min) - start).min(most);
        let length = u32::try_from(length).expect("at most so many");
        let (to, answer) = bounded(1);
        survey.comes_from(answer, extent.start - start);
        let key =
            self.enter(name, (Command::BlockStatus, CommandFlags::EMPTY), (start, length), None);
        self.asks[key].told = Some(Box::new((Vec::new(), to)));
        self.send_waiting(io);
        true
    }

    fn durable(&self) -> bool {
        self.can(TransmissionFlags::FUA)
    }

    fn lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    fn heard(&mut self, what: u32, (keep, result): (Keep, i32), io: &mut Io<'_>) {
        let (at, what) = (what >> 2, what & 3);
        match (what, keep) {
            (RECEIVE, Keep::Buffer(input)) => self.received(at, input, result, io),
            (SEND, Keep::Message(message)) => self.sent(at, message, result, io),
            (FOUND, Keep::Buffer(buffer)) => self.found(buffer, io),
            (TIME, _) => self.looked(io),
            (what, _) => unreachable!("operation {what} comes back with the memory it went with"),
        }
    }

    fn answer(&mut self) -> Option<(Name, i32)> {
        self.answers.pop_front()
    }
}

fn token(at: u32, what: u32) -> Token {
    Token::BackEnd(at << 2 | what)
}

fn cookie(key: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | key as u64
}

/// The ask under a cookie, if that was sent on this connection.
fn find(asks: &Slab<Ask>, at: u32, name: u64) -> Option<usize> {
    let key = usize::try_from(name & u64::from(u32::MAX)).ok()?;
    let ask = asks.get(key)?;
    (cookie(key, ask.serial) == name && ask.line == Some(at)).then_some(key)
}

/// Where data of a read go. The parser has checked that they are in its range.
fn place(asks: &Slab<Ask>, at: u32, cookie: u64, offset: u64) -> Option<(&Buffer, usize)> {
    let ask = &asks[find(asks, at, cookie)?];
    let (buffer, range) = ask.memory.as_ref()?;
    let within = usize::try_from(offset.checked_sub(ask.asked.offset)?).ok()?;
    Some((buffer, range.start + within))
}

/// Adds an extent to an answer. A server may send more than an answer holds: a full one has none of those that follow.
fn tell(told: &mut Vec<Stretch>, length: u32, state: u32) {
    if told.len() < EXTENTS_MAX {
        // Only what reads as zeroes may be left out when it is read.
        let hole = state & STATE_ZERO != 0;
        survey::push(told, EXTENTS_MAX, Stretch { bytes: length.into(), hole });
    }
}

/// As the system would have it; what it has no client's word for is an I/O error.
fn errno(error: NbdError) -> i32 {
    -match error {
        NbdError::NotPermitted => libc::EPERM,
        NbdError::NoMemory => libc::ENOMEM,
        NbdError::NoSpace => libc::ENOSPC,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full answer took each second extent that followed into its last one, which was a hole: a copy of the disk
    /// left data out.
    #[test]
    fn a_full_answer_to_a_block_status_ends_where_its_last_extent_does() {
        let mut told = Vec::new();
        for at in 0..2 * EXTENTS_MAX {
            tell(&mut told, 4096, if at % 2 == 1 { STATE_ZERO } else { 0 });
        }
        assert_eq!(told.len(), EXTENTS_MAX);
        let is_right = |(at, it): (usize, &Stretch)| it.bytes == 4096 && it.hole == (at % 2 == 1);
        assert!(told.iter().enumerate().all(is_right), "{:?}", told.last());
        // Neighbours of one kind are one.
        let mut told = Vec::new();
        (0..3).for_each(|_| tell(&mut told, 4096, STATE_ZERO));
        assert_eq!(told, [Stretch { bytes: 3 * 4096, hole: true }]);
    }
}
