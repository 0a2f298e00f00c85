//! A connection for tests and tools: plain calls, or several requests outstanding.
//!
//! It validates nothing against the export, so that a test can ask for anything; the driver of
//! [`Load`](crate::Load) is the way to many requests per second.

use std::collections::VecDeque;
use std::io::IoSlice;

use disktime_nbd::{
    Command, CommandFlags, ExportInfo, NbdError, Pending, ReplyEvent, ReplyParser, RequestHeader,
};

use crate::OUTSTANDING_MAX;
use crate::error::{ConnectError, ConnectionError, RequestError};
use crate::handshake::{self, Opened, Options};
use crate::inflight::InFlight;
use crate::socket::{Deadline, Socket};
use crate::uri::Uri;

/// Bytes of input taken at once.
const INPUT_BYTES: usize = 128 << 10;

/// A connection to an export.
///
/// Plain calls ([`read`](Self::read), [`write`](Self::write), …) send a request and wait for its
/// reply. For several at once, [`send`](Self::send) them and [`receive`](Self::receive) replies in
/// the order in which the server gives them. Both may be mixed. No call takes longer than
/// [`Options::timeout`]. After a [`ConnectionError`], every call returns the same one.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    export: ExportInfo,
    options: Options,
    parser: ReplyParser,
    /// With the data that has come so far of each read.
    inflight: InFlight<Vec<u8>>,
    /// Replies that are complete but not received by the caller. Together with those in flight at
    /// most [`OUTSTANDING_MAX`].
    finished: VecDeque<Reply>,
    input: Box<[u8]>,
    lost: Option<ConnectionError>,
}

/// A request as the wire knows it, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// How to do it.
    pub flags: CommandFlags,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

/// A reply that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's, from [`Connection::send`].
    pub cookie: u64,
    /// How it went.
    pub result: Result<(), NbdError>,
    /// The bytes that were read; empty for other commands. Not to be trusted if the read failed.
    pub data: Vec<u8>,
}

impl Connection {
    /// Connects to an export with the default [`Options`].
    ///
    /// # Errors
    /// Why there is no connection: no server, a refusal, a timeout, nonsense.
    pub fn open(uri: &Uri) -> Result<Self, ConnectError> {
        Self::open_with(uri, Options::default())
    }

    /// Connects to an export.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(uri: &Uri, options: Options) -> Result<Self, ConnectError> {
        let Opened { socket, export, parser, .. } = handshake::open(uri, options)?;
        Ok(Self {
            socket,
            export,
            options,
            parser,
            inflight: InFlight::new(OUTSTANDING_MAX),
            finished: VecDeque::new(),
            input: vec![0; INPUT_BYTES].into(),
            lost: None,
        })
    }

    /// The export as the server described it: size, flags, block sizes.
    #[must_use]
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// Fills `buffer` from the bytes at `offset`.
    ///
    /// # Errors
    /// See [`RequestError`]; `buffer` is untouched then.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), RequestError> {
        let length = length_of(buffer)?;
        let data = self.call(Command::Read, CommandFlags::EMPTY, offset, length, &[])?;
        buffer.copy_from_slice(&data);
        Ok(())
    }

    /// Writes `data` at `offset`; with `fua` it is durable on return.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), RequestError> {
        let flags = if fua { CommandFlags::FUA } else { CommandFlags::EMPTY };
        let length = length_of(data)?;
        self.call(Command::Write, flags, offset, length, data).map(drop)
    }

    /// Makes every write that was acknowledged durable.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn flush(&mut self) -> Result<(), RequestError> {
        self.call(Command::Flush, CommandFlags::EMPTY, 0, 0, &[]).map(drop)
    }

    /// Says that `length` bytes at `offset` are no longer needed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn trim(&mut self, offset: u64, length: u32) -> Result<(), RequestError> {
        self.call(Command::Trim, CommandFlags::EMPTY, offset, length, &[]).map(drop)
    }

    /// Makes `length` bytes at `offset` read as zeroes. Flags that apply are `FUA`, `NO_HOLE` and
    /// `FAST_ZERO`.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn zeroes(
        &mut self,
        offset: u64,
        length: u32,
        flags: CommandFlags,
    ) -> Result<(), RequestError> {
        self.call(Command::WriteZeroes, flags, offset, length, &[]).map(drop)
    }

    /// Says good-bye and hangs up. Requests that are outstanding are carried out or not.
    ///
    /// # Errors
    /// Why the server could not be told.
    pub fn disconnect(mut self) -> Result<(), ConnectionError> {
        let farewell = RequestHeader {
            flags: CommandFlags::EMPTY,
            command: Command::Disconnect,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        self.alive()?;
        self.transmit(&farewell.to_bytes(), &[])
    }

    /// Sends a request and returns its cookie. `payload` follows the request as it is: to stay
    /// within the protocol it is empty unless the request is a write, and then as long as the
    /// request says.
    ///
    /// # Errors
    /// [`RequestError::TooMany`], or why the connection is lost; never [`RequestError::Failed`].
    pub fn send(&mut self, request: Request, payload: &[u8]) -> Result<u64, RequestError> {
        self.alive()?;
        let Request { command, flags, offset, length } = request;
        let outstanding = self.outstanding();
        if outstanding >= OUTSTANDING_MAX {
            return Err(RequestError::TooMany(outstanding));
        }
        let cookie = self
            .inflight
            .insert(Pending { command, offset, length }, Vec::new())
            .ok_or(RequestError::TooMany(outstanding))?;
        let header = RequestHeader { flags, command, cookie, offset, length: length.into() };
        let sent = self.transmit(&header.to_bytes(), payload);
        self.keep(sent)?;
        Ok(cookie)
    }

    /// The next reply, in the order in which they were completed; `None` if nothing is outstanding.
    ///
    /// # Errors
    /// Why the connection is lost.
    pub fn receive(&mut self) -> Result<Option<Reply>, ConnectionError> {
        self.alive()?;
        let arrived = self.wait_until(|finished| !finished.is_empty());
        self.keep(arrived)?;
        Ok(self.finished.pop_front())
    }

    /// Requests sent whose replies were not received.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.inflight.len() + self.finished.len()
    }

    fn call(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> Result<Vec<u8>, RequestError> {
        let cookie = self.send(Request { command, flags, offset, length }, payload)?;
        let ours = |reply: &Reply| reply.cookie == cookie;
        let arrived = self.wait_until(|finished| finished.iter().any(ours));
        self.keep(arrived)?;
        let at = self.finished.iter().position(ours);
        let reply = at.and_then(|at| self.finished.remove(at)).expect("it was waited for");
        reply.result.map_err(RequestError::Failed)?;
        Ok(reply.data)
    }

    /// Takes input until `enough`, or until nothing is outstanding.
    fn wait_until(
        &mut self,
        enough: impl Fn(&VecDeque<Reply>) -> bool,
    ) -> Result<(), ConnectionError> {
        let deadline = Deadline::after(self.options.timeout);
        while self.inflight.len() > 0 && !enough(&self.finished) {
            // A server that never stops talking is not waited for any longer than a silent one.
            let left = deadline.left()?;
            if !self.take_input()? {
                self.socket.wait(false, None, left)?;
            }
        }
        Ok(())
    }

    /// Sends all of it. Replies are taken meanwhile, for a server may stop reading until they are.
    fn transmit(&mut self, header: &[u8], payload: &[u8]) -> Result<(), ConnectionError> {
        let deadline = Deadline::after(self.options.timeout);
        let mut slices = [IoSlice::new(header), IoSlice::new(payload)];
        let mut left = &mut slices[..];
        let mut bytes_left = header.len() + payload.len();
        while bytes_left > 0 {
            let time = deadline.left()?;
            if let Some(bytes) = self.socket.send(left)? {
                IoSlice::advance_slices(&mut left, bytes);
                bytes_left -= bytes;
            } else if self.socket.wait(true, None, time)? {
                self.take_input()?;
            }
        }
        Ok(())
    }

    /// Takes what has arrived; returns whether anything had.
    fn take_input(&mut self) -> Result<bool, ConnectionError> {
        let Self { socket, parser, inflight, finished, input, .. } = self;
        let Some(bytes) = socket.receive(input)? else { return Ok(false) };
        let mut rest = &input[..bytes];
        loop {
            let (consumed, event) = parser.poll(rest, |cookie| inflight.asked(cookie))?;
            rest = &rest[consumed..];
            let Some(event) = event else { return Ok(true) };
            match event {
                ReplyEvent::Data { cookie, offset, bytes } => {
                    content(inflight, cookie, offset, bytes.len()).copy_from_slice(bytes);
                }
                ReplyEvent::Hole { cookie, offset, length } => {
                    content(inflight, cookie, offset, length as usize).fill(0);
                }
                // It asks for no block status, and the parser takes none for anything else.
                ReplyEvent::Extent { .. } => {}
                ReplyEvent::Done { cookie, result } => {
                    let (_, data) = inflight.remove(cookie).expect(ASKED);
                    finished.push_back(Reply { cookie, result, data });
                }
            }
        }
    }

    fn alive(&self) -> Result<(), ConnectionError> {
        self.lost.map_or(Ok(()), Err)
    }

    /// Remembers what ended the connection.
    fn keep<T>(&mut self, result: Result<T, ConnectionError>) -> Result<T, ConnectionError> {
        if let Err(error) = result {
            self.lost = Some(error);
        }
        result
    }
}

const ASKED: &str = "the parser only answers cookies that are in flight";

/// Where content of a read belongs. The buffer is made when the first of it arrives, and no longer
/// than what was asked for.
fn content(inflight: &mut InFlight<Vec<u8>>, cookie: u64, offset: u64, length: usize) -> &mut [u8] {
    let (asked, data) = inflight.get_mut(cookie).expect(ASKED);
    if data.is_empty() {
        *data = vec![0; asked.length as usize];
    }
    let start = offset
        .checked_sub(asked.offset)
        .and_then(|start| usize::try_from(start).ok())
        .expect("the parser keeps content inside the range");
    &mut data[start..start + length]
}

fn length_of(bytes: &[u8]) -> Result<u32, RequestError> {
    u32::try_from(bytes.len()).map_err(|_| RequestError::TooLong { bytes: bytes.len() })
}
