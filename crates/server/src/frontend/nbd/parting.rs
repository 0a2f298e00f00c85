//! A connection that leaves for another process: between two requests, with the bytes that came of the
//! next one.
//!
//! Its client notices a pause. A connection under TLS can't leave, because its keys stay; nor can one
//! that has chosen a bitmap, whose number is this process's own.

use std::os::fd::OwnedFd;

use disktime_nbd::Session;

use super::Connection;
use crate::frontend::request::State;

/// A connection between two requests.
pub struct Parted {
    /// Its socket.
    pub socket: OwnedFd,
    /// The session that was negotiated.
    pub session: Session,
    /// Bytes that have come and were not acted on.
    pub unread: Vec<u8>,
    /// How many of the next bytes are data of a write that was refused.
    pub skip: usize,
}

impl Connection {
    /// Takes no more requests; those taken are finished and answered, and then it [may
    /// leave](Self::may_part), or is closed if it can't.
    pub fn part(&mut self) {
        if self.state == State::Open {
            let can = self.tls.is_none() && self.session.contexts.iter().all(|id| *id == 0);
            self.state = if can { State::Parting } else { State::Closing };
        }
    }

    /// Whether it leaves and nothing of it is under way.
    #[must_use]
    pub fn may_part(&self) -> bool {
        let parting = self.state == State::Parting && !self.incoming.is_in_ring();
        parting && self.is_issued() && self.is_quiet()
    }

    /// Whether it leaves and the ring waits for a next request, which is to be given up: answered once.
    pub fn gives_up_waiting(&mut self) -> bool {
        let waits = self.state == State::Parting && self.is_issued();
        waits && self.incoming.gives_up()
    }

    /// The connection as it is.
    #[must_use]
    pub fn leave(self) -> Parted {
        let (unread, skip) = self.incoming.rest();
        Parted { socket: self.fd, session: self.session, unread, skip }
    }
}
