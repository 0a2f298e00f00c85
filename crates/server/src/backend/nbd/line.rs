//! One connection on the shard's ring: requests gather while a message is being sent, replies are
//! parsed as they come.
//!
//! Does not know: what was asked for under a cookie, or other connections.

use std::os::fd::{AsRawFd, OwnedFd};

use disktime_client::Transmission;
use disktime_nbd::{Command, CommandFlags, REQUEST_BYTES, ReplyParser, RequestHeader};
use rustix::net::SendFlags;

use crate::backend::Io;
use crate::buffers::Buffer;
use crate::ring::{COPY_MAX, Message, Payload, Token};

/// Input taken at once, in bytes.
const INPUT: usize = 128 << 10;

/// A connection, or the place of a lost one.
pub(super) struct Line {
    socket: OwnedFd,
    pub(super) parser: ReplyParser,
    up: bool,
    /// The server is about to end: it takes no more requests.
    ending: bool,
    receiving: bool,
    sending: bool,
    out: Box<Message>,
    spare: Option<Box<Message>>,
    /// Requests that have no reply yet.
    pub(super) asked: u32,
}

impl Line {
    pub(super) fn new(Transmission { socket, parser, .. }: Transmission) -> Self {
        let (out, spare) = (Box::default(), None);
        let (receiving, sending, ending) = (false, false, false);
        Self { socket, parser, up: true, ending, receiving, sending, out, spare, asked: 0 }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// The server has said that it is about to end.
    pub(super) fn ends(&mut self) {
        self.ending = true;
    }

    /// Whether requests may be sent on it.
    pub(super) fn takes_more(&self) -> bool {
        self.up && !self.ending
    }

    /// Whether the server is about to end, and has nothing more to say.
    pub(super) fn is_done(&self) -> bool {
        self.ending && self.asked == 0
    }

    /// Whether the ring has nothing of it any more.
    pub(super) fn is_quiet(&self) -> bool {
        !self.receiving && !self.sending
    }

    /// Reads on.
    pub(super) fn receive(&mut self, token: Token, input: Option<Buffer>, io: &mut Io<'_>) {
        let input = input.unwrap_or_else(|| io.pool.take(INPUT));
        let range = 0..input.len();
        self.receiving = true;
        io.ring.receive(token, self.socket.as_raw_fd(), input, &range, false);
    }

    /// A receive is over: copies what came to `to`; false if the server is gone.
    pub(super) fn received(&mut self, input: &Buffer, result: i32, to: &mut Vec<u8>) -> bool {
        self.receiving = false;
        let count = usize::try_from(result).unwrap_or(0);
        to.resize(count, 0);
        input.get(0, to);
        count > 0
    }

    /// Sends a request, with the next message if one is on its way.
    pub(super) fn ask(
        &mut self,
        token: Token,
        header: [u8; REQUEST_BYTES],
        data: Option<Payload>,
        io: &mut Io<'_>,
    ) {
        self.out.push(&header, data, 0);
        self.asked += 1;
        self.flush(token, io);
    }

    fn flush(&mut self, token: Token, io: &mut Io<'_>) {
        if self.up && !self.sending && !self.out.is_empty() {
            self.sending = true;
            let message = std::mem::replace(&mut self.out, self.spare.take().unwrap_or_default());
            io.ring.send(token, self.socket.as_raw_fd(), message, COPY_MAX);
        }
    }

    /// A send is over; false if the server takes no more.
    pub(super) fn sent(
        &mut self,
        token: Token,
        mut message: Box<Message>,
        result: i32,
        io: &mut Io<'_>,
    ) -> bool {
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if self.up && count.is_some_and(|count| !message.sent(count)) {
            io.ring.send(token, self.socket.as_raw_fd(), message, COPY_MAX);
            return true;
        }
        self.sending = false;
        message.clear();
        self.spare = Some(message);
        self.flush(token, io);
        count.is_some()
    }

    /// Gives it up: what the ring has of it comes back.
    pub(super) fn shut(&mut self) {
        self.up = false;
        self.asked = 0;
        self.out.clear();
        if let Err(error) = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both) {
            tracing::trace!(%error, "the peer was gone already");
        }
    }
}

impl Drop for Line {
    /// Says good-bye, if that can be said at once and not into the middle of a request.
    fn drop(&mut self) {
        if !self.up || self.sending {
            return;
        }
        let (flags, command) = (CommandFlags::EMPTY, Command::Disconnect);
        let farewell = RequestHeader { flags, command, cookie: 0, offset: 0, length: 0 };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Err(error) = rustix::net::send(&self.socket, &farewell.to_bytes(), flags) {
            tracing::trace!(%error, "the server hears no farewell");
        }
    }
}
