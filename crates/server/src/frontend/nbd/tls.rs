//! A connection under TLS: the same requests and replies, with the bytes of the wire apart.
//!
//! What comes is opened from a buffer of the wire into the connection's input, from which the data of
//! writes are copied, too. Replies are sealed in pieces of at most [`COPY_MAX`] bytes: what a turn
//! spends on one client stays bounded. A connection without TLS pays for one test of an option.

use super::Connection;
use crate::buffers::{Buffer, Pool};
use crate::frontend::request::State;
use crate::memory::{INPUT, REQUEST};
use crate::ring::{COPY_MAX, CopyPlace, Message, Ring, Token};
use crate::tls::Channel;

/// Bytes of the wire that are received at once. What they open to fits into the input beside a record
/// that came in part (of 16 KiB at most) and a request's header.
const WIRE: usize = 32 << 10;
const _: () = assert!(WIRE + (17 << 10) + 64 < INPUT);

/// TLS and what is under way in it.
pub(super) struct Secured {
    channel: Channel,
    /// Replies of which a part is sealed.
    sealing: Option<(Box<Message>, CopyPlace)>,
    /// Sealed bytes that were sent, to be filled again.
    sealed: Option<Box<Message>>,
    /// Kept to save the allocations: bytes of the wire, and plain ones.
    wire: Vec<u8>,
    plain: Vec<u8>,
}

impl Secured {
    pub(super) fn new(channel: Channel) -> Box<Self> {
        let (wire, plain) = (Vec::new(), Vec::new());
        Box::new(Self { channel, sealing: None, sealed: None, wire, plain })
    }

    /// Whether replies wait to be sealed.
    pub(super) fn is_sealing(&self) -> bool {
        self.sealing.is_some()
    }
}

impl Connection {
    /// Reads more of the wire, if nothing is read: at most so many bytes.
    pub(super) fn receive_wire(&mut self, key: u32, ring: &mut Ring, pool: &mut Pool) -> usize {
        if self.receiving || self.state != State::Open {
            return 0;
        }
        let Some(input) = &mut self.input else { return 0 };
        // What is left of the input goes to its front: less than a header, or nothing.
        let (mut rest, len) = ([0; 64], self.filled.len().min(64));
        input.get(self.filled.start, &mut rest[..len]);
        if input.len() < INPUT {
            *input = pool.take(INPUT);
        }
        input.put(0, &rest[..len]);
        self.filled = 0..len;
        self.receiving = true;
        ring.receive(Token::Receive(key), self.raw(), pool.take(WIRE), &(0..WIRE), false);
        WIRE
    }

    /// Bytes of the wire have come: as [`received`](Self::received), with none straight into a write's
    /// buffer.
    pub(super) fn received_wire(&mut self, buffer: &Buffer, result: i32) -> Option<(usize, usize)> {
        let count = usize::try_from(result).ok().filter(|count| *count > 0)?;
        let (tls, input) = (self.tls.as_mut()?, self.input.as_mut()?);
        tls.wire.resize(count, 0);
        buffer.get(0, &mut tls.wire);
        tls.plain.clear();
        if let Err(error) = tls.channel.open(&tls.wire, &mut tls.plain) {
            tracing::debug!(%error, "a connection's TLS is over");
            return None;
        }
        if self.filled.end + tls.plain.len() > input.len() {
            tracing::debug!("a connection's TLS opened to more than a record");
            return None;
        }
        input.put(self.filled.end, &tls.plain);
        self.filled.end += tls.plain.len();
        Some((count, 0))
    }

    /// Seals more of the gathered replies; `None` if there is nothing to send.
    pub(super) fn next_sealed(&mut self) -> Option<Box<Message>> {
        let tls = self.tls.as_mut()?;
        if tls.sealing.is_none() && !self.replies.is_empty() {
            let fresh = self.spare.take().unwrap_or_default();
            let next = std::mem::replace(&mut self.replies, fresh);
            tls.sealing = Some((next, CopyPlace::default()));
        }
        tls.plain.clear();
        if let Some((mut message, mut place)) = tls.sealing.take() {
            if message.copy_out(&mut place, &mut tls.plain, COPY_MAX) {
                for (buffer, _) in message.clear() {
                    self.seat.account.give(REQUEST + buffer.len());
                }
                self.spare = Some(message).filter(|message| message.is_small());
            } else {
                tls.sealing = Some((message, place));
            }
        }
        let mut sealed = tls.sealed.take().unwrap_or_default();
        let (channel, plain) = (&mut tls.channel, &tls.plain);
        let outcome = sealed.refill(|wire| channel.seal(plain, wire));
        // Of a client that reads much at once nothing is kept: it is not in its account.
        tls.plain.shrink_to(WIRE);
        if let Err(error) = outcome {
            tracing::debug!(%error, "a reply can't be sealed");
            return None;
        }
        (!sealed.is_empty()).then_some(sealed)
    }

    /// Sealed bytes were sent.
    pub(super) fn sent_sealed(&mut self, sealed: Box<Message>) {
        if let Some(tls) = &mut self.tls {
            tls.sealed = Some(sealed);
        }
    }
}
