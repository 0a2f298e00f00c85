//! Replies on their way to a client: gathered into messages, each sent with one system call.
//!
//! A message is sent at once, as far as the socket takes it; its rest goes to the ring, which waits for
//! the client. At most one message is with the ring; replies that come meanwhile gather in the next one.
//! Does not know: the form of a reply, requests.

use std::os::fd::RawFd;

use crate::ring::{Message, Payload, Ring, Sent, Token};

/// Bytes that left for a client.
#[derive(Clone, Copy, Default, Debug)]
pub struct Flushed {
    /// Bytes that were sent.
    pub sent: usize,
    /// Bytes that the ring was given to send.
    pub begun: usize,
}

/// The sending side of a connection.
#[derive(Default)]
pub(super) struct Outgoing {
    /// Replies that gather.
    pub(super) replies: Box<Message>,
    /// An empty message for the next ones.
    pub(super) spare: Option<Box<Message>>,
    /// Replies of which the ring has sent a part.
    pub(super) unsent: Option<Box<Message>>,
    /// The ring has replies to send.
    pub(super) sending: bool,
}

impl Outgoing {
    /// Appends the head of a reply, and data after it, for which so many bytes of memory are held.
    pub(super) fn push(&mut self, head: &[u8], data: Option<Payload>, held: usize) {
        self.replies.push(head, data, held);
    }

    /// Replies that gather.
    pub(super) fn len(&self) -> usize {
        self.replies.len()
    }

    /// Whether no replies gather.
    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Whether replies that gathered before are not sent yet.
    pub(super) fn is_sending(&self) -> bool {
        self.sending || self.unsent.is_some()
    }

    /// Whether the ring has memory of it.
    pub(super) fn is_in_ring(&self) -> bool {
        self.sending
    }

    /// Sends more of the replies, unless some are being sent. Answers how many bytes that were, and how
    /// many bytes of memory are held no longer. The ring is given about `most` bytes at most.
    pub(super) fn flush(
        &mut self,
        token: Token,
        ring: &mut Ring,
        fd: RawFd,
        most: usize,
    ) -> (Flushed, usize) {
        let mut flushed = Flushed::default();
        if self.sending {
            return (flushed, 0);
        }
        let message = self.unsent.take().or_else(|| {
            let mut next = || self.spare.take().unwrap_or_default();
            (!self.replies.is_empty()).then(|| std::mem::replace(&mut self.replies, next()))
        });
        let Some(mut message) = message else { return (flushed, 0) };
        let (count, stands) = message.send_now(fd);
        flushed.sent = count;
        match stands {
            Sent::All => {
                let memory = message.clear();
                self.spare = Some(message).filter(|message| message.is_small());
                return (flushed, memory);
            }
            Sent::More => self.unsent = Some(message),
            Sent::Full => {
                self.sending = true;
                flushed.begun = ring.send(token, fd, message, most);
            }
        }
        (flushed, 0)
    }

    /// Whether there is more to send, with nothing to wait for: the rest of a message, or replies that
    /// gathered behind it.
    pub(super) fn goes_on(&self) -> bool {
        !self.sending && (self.unsent.is_some() || !self.replies.is_empty())
    }

    /// A send is over. Answers how many bytes of memory are held no longer, and whether the client is
    /// still there.
    pub(super) fn sent(&mut self, mut message: Box<Message>, result: i32) -> (usize, bool) {
        self.sending = false;
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if count.is_some_and(|count| !message.sent(count)) {
            self.unsent = Some(message);
            return (0, true);
        }
        let memory = message.clear();
        self.spare = Some(message).filter(|message| message.is_small());
        (memory, count.is_some())
    }
}
