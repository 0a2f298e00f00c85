//! How many bytes are copied between sockets and memory: in each turn a virtual disk's clients have so many
//! between them, and fewer while another virtual disk's clients have bytes to copy, too.
//!
//! The system copies on the shard's thread, while operations are submitted. One client's copy is at most
//! [`COPY_MAX`] bytes; if each of a virtual disk's clients were copied for in each turn, other virtual
//! disks' clients would wait for sixteen of them. A client for which nothing is left waits for the next
//! turn, behind those that waited before it.

use std::collections::VecDeque;

use std::ops::Range;

use super::Shard;
use crate::buffers::{Buffer, Pool};
use crate::frontend::nbd::Connection;
use crate::ring::{COPY_LEAST, COPY_MAX, Ring};

/// A virtual disk's bytes in a turn beside others': some 8 us of copying, as long as the least turn of the
/// device. With [`COPY_MAX`] a client with four requests at once had .7 beside fifteen that write of what it had
/// beside an ordinary neighbour (`cargo xtask bench hostile`). Alone that has up to a fifth more of requests of
/// 1 MiB with [`COPY_MAX`].
const COPY_BESIDE: usize = 32 << 10;
/// Another virtual disk's clients count for so many turns: some ms.
const BESIDE: u64 = 100;

/// A virtual disk's allowance.
#[derive(Clone, Copy, Default)]
struct Allowance {
    turn: u64,
    /// Bytes that may be begun in that turn; a copy may take more than is left.
    left: usize,
}

/// Bytes of a client's that were copied at once.
#[derive(Clone, Copy, Default)]
pub(super) struct Copied {
    /// Bytes of replies that have left.
    pub(super) sent: usize,
    /// They made room for requests that have come.
    pub(super) freed: bool,
}

/// The allowances of a shard's virtual disks.
#[derive(Default)]
pub(super) struct Copies {
    turn: u64,
    allowances: Vec<Allowance>,
    /// The virtual disk that copied last, and until when others count as well.
    last: u32,
    beside_until: u64,
    /// Clients that wait for the next turn.
    waiting: VecDeque<u32>,
}

impl Copies {
    /// Whether a client waits for the next turn.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes of a turn for a virtual disk's clients.
    fn most(&mut self, vdisk: u32) -> usize {
        if std::mem::replace(&mut self.last, vdisk) != vdisk {
            self.beside_until = self.turn + BESIDE;
        }
        if self.turn < self.beside_until { COPY_BESIDE } else { COPY_MAX }
    }

    /// Bytes that a virtual disk's clients may begin to copy in this turn.
    pub(super) fn left(&mut self, vdisk: u32) -> &mut usize {
        let most = self.most(vdisk);
        let at = vdisk as usize;
        if at >= self.allowances.len() {
            self.allowances.resize(at + 1, Allowance::default());
        }
        let allowance = &mut self.allowances[at];
        if allowance.turn != self.turn {
            *allowance = Allowance { turn: self.turn, left: most };
        }
        &mut allowance.left
    }

    /// The bytes that the ring is to copy for one of so many clients of a virtual disk. It has an operation for
    /// each, which copies in whatever turn the client's bytes come, so that all of them may fall into one.
    fn share(&mut self, vdisk: u32, clients: u32) -> usize {
        (self.most(vdisk) / clients.max(1) as usize).max(COPY_LEAST)
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.turn += 1;
    }

    /// The next client that waited for this turn.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    /// Begins to copy a client's replies out and its requests in, if there is anything left for it in
    /// this turn: the data of a write go `into` the rest of its buffer. The virtual disk has so many clients.
    pub(super) fn copy(
        &mut self,
        client: u32,
        connection: &mut Connection,
        clients: u32,
        into: Option<(&Buffer, Range<usize>)>,
        (ring, pool): (&mut Ring, &mut Pool),
    ) -> Copied {
        let vdisk = connection.vdisk;
        if *self.left(vdisk) == 0 {
            self.waiting.push_back(client);
            return Copied::default();
        }
        let most = self.share(vdisk, clients);
        let flushed = connection.flush(client, ring, most);
        let mut bytes = flushed.sent + flushed.begun;
        if connection.goes_on_sending() {
            self.waiting.push_back(client);
        }
        // Replies that have left make room for requests.
        let freed = flushed.sent > 0 && connection.has_input();
        bytes += match into {
            Some((buffer, rest)) => {
                connection.receive_payload(client, ring, pool, (buffer, &rest), most)
            }
            None => connection.receive(client, ring, pool),
        };
        let left = self.left(vdisk);
        *left = left.saturating_sub(bytes);
        Copied { sent: flushed.sent, freed }
    }

    /// A client is gone.
    pub(super) fn forget(&mut self, client: u32) {
        self.waiting.retain(|waiting| *waiting != client);
    }
}

impl Shard {
    /// A turn begins: those that waited for it are served.
    pub(super) fn copy_on(&mut self) {
        self.copies.begin_turn();
        while let Some(client) = self.copies.next_waiting() {
            self.touch(client);
        }
    }

    /// Begins to copy a client's replies out and its requests in, as far as this turn has room.
    pub(super) fn copy(&mut self, client: u32) {
        let connection = &mut self.clients[client as usize];
        let vdisk = connection.vdisk;
        let into = connection.writing.map(|(key, had)| {
            let work = &self.operations[key as usize];
            let (place, buffer) =
                (work.place(), work.buffer.as_ref().expect("a write has a buffer"));
            (buffer, place.start + had..place.end)
        });
        let clients = self.vdisks[vdisk as usize].clients;
        let io = (&mut self.ring, &mut self.pool);
        let copied = self.copies.copy(client, connection, clients, into, io);
        if copied.sent > 0 {
            connection.moved_at = self.turns.now;
            self.turns.own_time.moved(vdisk, copied.sent);
        }
        if copied.freed {
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
        assert_eq!((*copies.left(0), *copies.left(1)), (0, COPY_BESIDE), "each disk has its own");
        copies.turn += 1;
        assert_eq!(*copies.left(0), COPY_BESIDE, "what was left is not saved up");
    }

    /// Fifteen clients' receives came in one turn: 128 KiB each.
    #[test]
    fn what_the_ring_copies_for_a_client_is_its_part_of_a_turn() {
        let mut copies = Copies { turn: 1, ..Copies::default() };
        assert_eq!((copies.share(0, 1), copies.share(0, 2)), (COPY_MAX, COPY_MAX / 2));
        assert_eq!(copies.share(0, 16), COPY_LEAST);
        assert_eq!(copies.share(1, 1), COPY_BESIDE, "another virtual disk copies, too");
        copies.turn += BESIDE - 1;
        assert_eq!(copies.share(1, 1), COPY_BESIDE);
        copies.turn += 1;
        assert_eq!(copies.share(1, 1), COPY_MAX, "it is alone again");
    }
}
