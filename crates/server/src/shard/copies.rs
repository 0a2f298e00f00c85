//! How many bytes are copied between sockets and memory: in each turn a virtual disk's clients have so many
//! between them.
//!
//! The system copies on the shard's thread, while operations are submitted. One client's copy is at most
//! [`COPY_MAX`] bytes; if each of a virtual disk's clients were copied for in each turn, other virtual
//! disks' clients would wait for sixteen of them. A client for which nothing is left waits for the next
//! turn, behind those that waited before it.

use std::collections::VecDeque;

use super::Shard;
use crate::ring::COPY_MAX;

/// A virtual disk's allowance.
#[derive(Clone, Copy, Default)]
struct Allowance {
    turn: u64,
    /// Bytes that may be begun in that turn; a copy may take more than is left.
    left: usize,
}

/// The allowances of a shard's virtual disks.
#[derive(Default)]
pub(super) struct Copies {
    turn: u64,
    allowances: Vec<Allowance>,
    /// Clients that wait for the next turn.
    waiting: VecDeque<u32>,
}

impl Copies {
    /// Whether a client waits for the next turn.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes that a virtual disk's clients may begin to copy in this turn.
    pub(super) fn left(&mut self, vdisk: u32) -> &mut usize {
        let at = vdisk as usize;
        if at >= self.allowances.len() {
            self.allowances.resize(at + 1, Allowance::default());
        }
        let allowance = &mut self.allowances[at];
        if allowance.turn != self.turn {
            *allowance = Allowance { turn: self.turn, left: COPY_MAX };
        }
        &mut allowance.left
    }

    /// A client is gone.
    pub(super) fn forget(&mut self, client: u32) {
        self.waiting.retain(|waiting| *waiting != client);
    }
}

impl Shard {
    /// A turn begins: those that waited for it are served.
    pub(super) fn copy_on(&mut self) {
        self.copies.turn += 1;
        while let Some(client) = self.copies.waiting.pop_front() {
            self.touch(client);
        }
    }

    /// Begins to copy a client's replies out and its requests in, if there is anything left for it in
    /// this turn.
    pub(super) fn copy(&mut self, client: u32) {
        let connection = &mut self.clients[client as usize];
        let vdisk = connection.vdisk;
        let left = self.copies.left(vdisk);
        if *left == 0 {
            self.copies.waiting.push_back(client);
            return;
        }
        let flushed = connection.flush(client, &mut self.ring);
        let mut bytes = flushed.sent + flushed.begun;
        if flushed.sent > 0 {
            connection.moved_at = self.turns.now;
            self.turns.own_time.moved(vdisk, flushed.sent);
        }
        if connection.goes_on_sending() {
            self.copies.waiting.push_back(client);
        }
        // Replies that have left make room for requests.
        let freed = flushed.sent > 0 && connection.has_input();
        if let Some((key, had)) = connection.writing {
            let work = &self.operations[key as usize];
            let (place, buffer) =
                (work.place(), work.buffer.as_ref().expect("a write has a buffer"));
            let rest = place.start + had..place.end;
            let into = (buffer, &rest);
            bytes += connection.receive_payload(client, &mut self.ring, &mut self.pool, into);
        } else {
            bytes += connection.receive(client, &mut self.ring, &mut self.pool);
        }
        let left = self.copies.left(vdisk);
        *left = left.saturating_sub(bytes);
        if freed {
            self.touch(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of a virtual disk's fifteen clients was copied for in each turn: 600 us in which nobody else
    /// was served.
    #[test]
    fn the_clients_of_a_virtual_disk_share_what_a_turn_copies() {
        let mut copies = Copies { turn: 1, ..Copies::default() };
        assert_eq!(*copies.left(0), COPY_MAX);
        *copies.left(0) -= COPY_MAX;
        assert_eq!((*copies.left(0), *copies.left(1)), (0, COPY_MAX), "each disk has its own");
        copies.turn += 1;
        assert_eq!(*copies.left(0), COPY_MAX, "what was left is not saved up");
    }
}
