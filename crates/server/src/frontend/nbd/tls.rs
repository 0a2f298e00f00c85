//! A connection under TLS: the same requests and replies, with the bytes of the wire apart.
//!
//! Bytes of the wire are opened into the connection's input, from which the data of writes are copied,
//! too. Replies are sealed in pieces of at most [`COPY_MAX`] bytes, so that a turn spends little on one
//! client. A connection without TLS pays for one test of an option.

use std::io::ErrorKind;
use std::os::fd::{OwnedFd, RawFd};

use rustix::net::{SendFlags, Shutdown, send, shutdown};

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::buffers::{Buffer, Pool};
use crate::memory::INPUT;
use crate::ring::{COPY_MAX, CopyPlace, Message, Ring, Token};
use crate::tls::Channel;

/// Bytes of the wire that are received at once. Opened, they fit into the input beside a record that
/// came in part (of 16 KiB at most) and a request's header.
const WIRE: usize = 32 << 10;
/// Bytes of the input that stay when more is received: less than a request's header.
const REST: usize = 64;
const _: () = assert!(WIRE + (17 << 10) + REST < INPUT);

/// TLS and its bytes under way.
pub(super) struct Secured {
    channel: Channel,
    /// Replies of which a part is sealed.
    sealing: Option<(Box<Message>, CopyPlace)>,
    /// A message whose sealed bytes were sent, to be filled again.
    sealed: Option<Box<Message>>,
    /// The client has said goodbye: the connection's end from then on is no attacker's.
    pub(super) client_ended: bool,
    /// Kept to save the allocations: bytes of the wire, and plain ones.
    wire: Vec<u8>,
    plain: Vec<u8>,
}

impl Secured {
    pub(super) fn new(channel: Channel) -> Box<Self> {
        let (wire, plain) = (Vec::new(), Vec::new());
        Box::new(Self { channel, sealing: None, sealed: None, client_ended: false, wire, plain })
    }

    /// Whether replies wait to be sealed.
    pub(super) fn is_sealing(&self) -> bool {
        self.sealing.is_some()
    }

    /// Says goodbye, if the socket takes that now: a client takes the connection's end without it for an
    /// attacker's.
    pub(super) fn say_goodbye(&mut self, fd: &OwnedFd) {
        let mut wire = Vec::new();
        let said = self.channel.say_goodbye(&mut wire);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Err(error) = said.and_then(|()| Ok(send(fd, &wire, flags)?)) {
            tracing::trace!(%error, "the peer hears no goodbye");
        }
    }

    /// Seals bytes of the message that is being sealed, if any; answers the sealed ones with what TLS
    /// itself has to say, and how many bytes of memory are held no longer.
    fn seal(&mut self, spare: &mut Option<Box<Message>>) -> (Option<Box<Message>>, usize) {
        let mut memory = 0;
        self.plain.clear();
        if let Some((mut message, mut place)) = self.sealing.take() {
            if message.copy_out(&mut place, &mut self.plain, COPY_MAX) {
                memory = message.clear();
                *spare = Some(message).filter(|message| message.is_small());
            } else {
                self.sealing = Some((message, place));
            }
        }
        let mut sealed = self.sealed.take().unwrap_or_default();
        let (channel, plain) = (&mut self.channel, &self.plain);
        let outcome = sealed.refill(|wire| channel.seal(plain, wire));
        // A client that reads much at once leaves no more than this behind: it is in no account.
        self.plain.shrink_to(WIRE);
        if let Err(error) = outcome {
            tracing::debug!(%error, "a reply can't be sealed");
        }
        ((!sealed.is_empty()).then_some(sealed), memory)
    }
}

impl Incoming {
    /// Receives more of the wire, unless the ring is reading: at most so many bytes.
    pub(super) fn receive_wire(
        &mut self,
        token: Token,
        ring: &mut Ring,
        fd: RawFd,
        pool: &mut Pool,
    ) -> usize {
        if self.receiving {
            return 0;
        }
        let Some(buffer) = &mut self.buffer else { return 0 };
        let (mut rest, len) = ([0; REST], self.filled.len());
        if len > REST {
            return 0;
        }
        buffer.get(self.filled.start, &mut rest[..len]);
        if buffer.len() < INPUT {
            *buffer = pool.take(INPUT);
        }
        buffer.put(0, &rest[..len]);
        self.filled = 0..len;
        self.receiving = true;
        ring.receive(token, fd, pool.take(WIRE), &(0..WIRE), false);
        WIRE
    }

    /// Bytes of the wire have come. Answers as [`received`](Self::received); none go straight into a
    /// buffer of somebody else. Bytes before a client's goodbye count; nothing is read after it.
    pub(super) fn received_wire(
        &mut self,
        tls: &mut Secured,
        fd: &OwnedFd,
        wire: &Buffer,
        result: i32,
    ) -> Option<(usize, usize)> {
        self.receiving = false;
        let count = usize::try_from(result).ok().filter(|count| *count > 0)?;
        let buffer = self.buffer.as_ref()?;
        tls.wire.resize(count, 0);
        wire.get(0, &mut tls.wire);
        tls.plain.clear();
        if let Err(error) = tls.channel.open(&tls.wire, &mut tls.plain) {
            tracing::debug!(%error, "a connection's TLS is over");
            if error.kind() != ErrorKind::ConnectionAborted {
                return None;
            }
            tls.client_ended = true;
            shutdown(fd, Shutdown::Read).ok()?;
        }
        if self.filled.end + tls.plain.len() > buffer.len() {
            tracing::debug!("a connection's TLS opened to more than came");
            return None;
        }
        buffer.put(self.filled.end, &tls.plain);
        self.came(tls.plain.len());
        Some((count, 0))
    }
}

impl Outgoing {
    /// As [`flush`](Self::flush), sealed; answers also how many bytes of memory are held no longer.
    pub(super) fn flush_sealed(
        &mut self,
        tls: &mut Secured,
        token: Token,
        ring: &mut Ring,
        fd: RawFd,
        most: usize,
    ) -> (usize, usize) {
        if self.sending {
            return (0, 0);
        }
        let (message, memory) = match self.unsent.take() {
            Some(unsent) => (Some(unsent), 0),
            None => {
                if tls.sealing.is_none() && !self.replies.is_empty() {
                    let fresh = self.spare.take().unwrap_or_default();
                    let next = std::mem::replace(&mut self.replies, fresh);
                    tls.sealing = Some((next, CopyPlace::default()));
                }
                tls.seal(&mut self.spare)
            }
        };
        self.sending = message.is_some();
        (message.map_or(0, |message| ring.send(token, fd, message, most)), memory)
    }

    /// As [`sent`](Self::sent), of sealed bytes.
    pub(super) fn sent_sealed(
        &mut self,
        tls: &mut Secured,
        mut message: Box<Message>,
        result: i32,
    ) -> (usize, bool) {
        self.sending = false;
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if count.is_some_and(|count| !message.sent(count)) {
            self.unsent = Some(message);
            return (0, true);
        }
        tls.sealed = Some(message);
        (0, count.is_some())
    }
}
