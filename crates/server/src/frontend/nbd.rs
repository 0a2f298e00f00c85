//! One NBD connection in its transmission phase: bytes in, requests out, replies gathered.
//!
//! Does not know: the engine, the device. It only keeps a client within its bounds: requests
//! alive, bytes of data held for it, replies not yet read. At a bound it stops reading, so a client
//! that sends too much or reads too little waits for itself and for nobody else.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use disktime_nbd::{
    Checked, Command, NbdError, Operation, ProtocolError, REQUEST_BYTES, Reject, RequestHeader,
    Session, reply,
};

use crate::buffers::{Buffer, Pool};
use crate::ring::{Message, Payload, Ring, Token};

/// Requests of one connection alive at once, and replies gathered for it: two cycles of 8 MB/s for
/// 4 s in requests of 128 KiB, one that is served and one that waits. At most what one message
/// takes, because every request alive may be answered in one.
pub const REQUESTS_MAX: u32 = 512;
/// Data in bytes held for one connection: those two cycles.
const BYTES_MAX: usize = 64 << 20;
/// The longest request in bytes; advertised, and what clients that don't ask assume.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Input read at once, in bytes.
const INPUT: usize = 128 << 10;

const _: () = assert!(REQUESTS_MAX as usize <= crate::ring::PARTS_MAX);

/// Whether more requests are wanted from the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Yes.
    Open,
    /// No; what it asked for is finished, answered, and then it is closed.
    Closing,
    /// It is gone: nothing can be answered.
    Dead,
}

/// A request as it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What is to be done.
    pub checked: Checked,
    /// The command on the wire, which decides the form of the reply.
    pub command: Command,
}

impl Asked {
    /// Bytes of data that it makes the server hold.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        match self.checked.operation {
            Operation::Read { .. } | Operation::Write { .. } => self.checked.length as usize,
            _ => 0,
        }
    }
}

/// How a request ended: with data, without, or with an error and a word of explanation.
pub type Answer<'a> = Result<Option<Payload>, (NbdError, &'a str)>;

/// What the input holds.
#[derive(Debug)]
pub enum Input {
    /// A request; a write's data follow and are to be taken with
    /// [`Connection::take_payload`].
    Request(Asked),
    /// Nothing to do now: more bytes, or room, must come first.
    Nothing,
    /// The client wants to go.
    Disconnect,
    /// The client broke the protocol beyond an answer.
    Violation,
}

/// A client.
pub struct Connection {
    fd: OwnedFd,
    /// Its virtual disk, by place on the device.
    pub vdisk: u32,
    session: Session,
    /// Whether it goes on.
    pub state: State,
    /// The input buffer; `None` while the ring reads into it.
    input: Option<Buffer>,
    filled: Range<usize>,
    receiving: bool,
    /// Data of a refused write, still to be skipped.
    skip: usize,
    /// A write whose data are not complete: its operation and how many have come.
    pub writing: Option<(u32, usize)>,
    replies: Box<Message>,
    spare: Option<Box<Message>>,
    sending: bool,
    /// Operations that have not been answered.
    pub requests: u32,
    held_bytes: usize,
}

impl Connection {
    /// A connection whose handshake is over, with the bytes that came after it.
    pub fn new(fd: OwnedFd, vdisk: u32, session: Session, unread: &[u8], pool: &mut Pool) -> Self {
        let input = pool.take(INPUT.max(unread.len()));
        input.put(0, unread);
        Self {
            fd,
            vdisk,
            session,
            state: State::Open,
            input: Some(input),
            filled: 0..unread.len(),
            receiving: false,
            skip: 0,
            writing: None,
            replies: Box::default(),
            spare: None,
            sending: false,
            requests: 0,
            held_bytes: 0,
        }
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether it is closing and everything has been answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let quiet = !self.sending && self.requests == 0 && self.replies.is_empty();
        self.state == State::Closing && quiet
    }

    /// Whether nothing of it is left, neither here nor in the ring.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let quiet = !self.receiving && !self.sending && self.requests == 0;
        quiet && self.state == State::Dead
    }

    /// The next thing in the input.
    pub fn next_input(&mut self) -> Input {
        loop {
            let Some(header) = self.next_header() else { return Input::Nothing };
            let Ok(header) = header else { return Input::Violation };
            match header.validate(&self.session.export, REQUEST_BYTES_MAX) {
                Ok(checked) => return self.accept(Asked { checked, command: header.command }),
                Err(Reject::Close) => return Input::Violation,
                Err(Reject::Reply { error, message, payload_bytes }) => {
                    self.filled.start += REQUEST_BYTES;
                    self.skip = payload_bytes as usize;
                    let reply = reply::error(self.session.style, header.cookie, error, message);
                    self.replies.push(&reply, None);
                }
            }
        }
    }

    /// The header at the front of the input, if one is there and may be acted on.
    fn next_header(&mut self) -> Option<Result<RequestHeader, ProtocolError>> {
        let input = self.input.as_ref()?;
        if self.state != State::Open || self.writing.is_some() {
            return None;
        }
        let skipped = self.skip.min(self.filled.len());
        self.skip -= skipped;
        self.filled.start += skipped;
        let full = self.requests as usize + self.replies.len() >= REQUESTS_MAX as usize;
        if self.skip > 0 || self.filled.len() < REQUEST_BYTES || full {
            return None;
        }
        let mut bytes = [0; REQUEST_BYTES];
        input.get(self.filled.start, &mut bytes);
        Some(RequestHeader::parse(&bytes))
    }

    /// Takes a good request off the input, if its data may be held.
    fn accept(&mut self, asked: Asked) -> Input {
        let bytes = asked.data_bytes();
        if self.held_bytes > 0 && self.held_bytes + bytes > BYTES_MAX {
            return Input::Nothing;
        }
        self.filled.start += REQUEST_BYTES;
        if asked.checked.operation == Operation::Disconnect {
            return Input::Disconnect;
        }
        self.requests += 1;
        self.held_bytes += bytes;
        Input::Request(asked)
    }

    /// Moves what has come of a write's data into its buffer at `at`; answers how much.
    pub fn take_payload(&mut self, to: &Buffer, at: usize, wanted: usize) -> usize {
        let Some(input) = &self.input else { return 0 };
        let count = wanted.min(self.filled.len());
        to.put_from(at, input, &(self.filled.start..self.filled.start + count));
        self.filled.start += count;
        count
    }

    /// Reads the rest of a write's data straight into its buffer.
    pub fn receive_payload(
        &mut self,
        key: u32,
        ring: &mut Ring,
        to: &Buffer,
        range: &Range<usize>,
    ) {
        if !self.receiving && self.state == State::Open {
            self.receiving = true;
            ring.receive(Token::Receive(key), self.raw(), to.clone(), range, true);
        }
    }

    /// Reads more input, if there is room to act on it.
    pub fn receive(&mut self, key: u32, ring: &mut Ring) {
        let wants = self.skip > 0 || self.filled.len() < REQUEST_BYTES;
        if self.receiving || self.state != State::Open || self.writing.is_some() || !wants {
            return;
        }
        let Some(input) = self.input.take() else { return };
        let len = self.filled.len();
        if len > 0 {
            let mut rest = [0; REQUEST_BYTES];
            input.get(self.filled.start, &mut rest[..len]);
            input.put(0, &rest[..len]);
        }
        self.filled = 0..len;
        self.receiving = true;
        let range = len..input.len();
        ring.receive(Token::Receive(key), self.raw(), input, &range, false);
    }

    /// A receive is over: its buffer and how many bytes came. Answers how many bytes of a write's
    /// data that were; `None` if the client is gone.
    pub fn received(&mut self, buffer: Buffer, result: i32) -> Option<usize> {
        self.receiving = false;
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if self.input.is_none() {
            self.input = Some(buffer);
            self.filled.end += count.unwrap_or(0);
            return count.map(|_| 0);
        }
        count
    }

    /// Gathers a reply; it goes out with the next [`flush`](Self::flush).
    pub fn reply(&mut self, asked: &Asked, answer: Answer<'_>) {
        let (style, cookie) = (self.session.style, asked.checked.cookie);
        self.requests -= 1;
        if !matches!(answer, Ok(Some(_))) {
            self.held_bytes -= asked.data_bytes();
        }
        match answer {
            Ok(Some(data)) => {
                let Checked { offset, length, .. } = asked.checked;
                let header = reply::read_ok_header(style, cookie, offset, length);
                self.replies.push(&header, Some(data));
            }
            Ok(None) => self.replies.push(&reply::done(style, asked.command, cookie), None),
            Err((error, message)) => {
                self.replies.push(&reply::error(style, cookie, error, message), None);
            }
        }
    }

    /// Forgets an operation that nobody waits for any more.
    pub fn forget(&mut self, asked: &Asked) {
        self.requests -= 1;
        self.held_bytes -= asked.data_bytes();
    }

    /// Sends the gathered replies, unless some are being sent.
    pub fn flush(&mut self, key: u32, ring: &mut Ring) {
        if self.sending || self.replies.is_empty() || self.state == State::Dead {
            return;
        }
        self.sending = true;
        let next = self.spare.take().unwrap_or_default();
        let message = std::mem::replace(&mut self.replies, next);
        ring.send(Token::Send(key), self.raw(), message);
    }

    /// A send is over. Answers whether the client is still there.
    pub fn sent(
        &mut self,
        key: u32,
        mut message: Box<Message>,
        result: i32,
        ring: &mut Ring,
        pool: &mut Pool,
    ) -> bool {
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        let rest = count.is_some_and(|count| !message.sent(count)) && self.state != State::Dead;
        if rest {
            ring.send(Token::Send(key), self.raw(), message);
            return true;
        }
        self.sending = false;
        for (buffer, range) in message.clear() {
            self.held_bytes -= range.len();
            pool.give_back(buffer);
        }
        self.spare = Some(message);
        count.is_some()
    }

    /// Ends both directions, so that what the ring has of the socket comes back.
    pub fn shut(&mut self) {
        self.state = State::Dead;
        if let Err(error) = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both) {
            tracing::trace!(%error, "the peer was gone already");
        }
    }

    /// Gives its buffers back.
    pub fn dispose(mut self, pool: &mut Pool) {
        if let Some(input) = self.input.take() {
            pool.give_back(input);
        }
        for (buffer, _) in self.replies.clear() {
            pool.give_back(buffer);
        }
    }
}
