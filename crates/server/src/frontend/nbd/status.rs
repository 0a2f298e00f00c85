//! The answer to a block status: stretches of the virtual disk as extents, for each metadata context that
//! the client has chosen.
//!
//! The chunks lie in a buffer of the pool, as a read's data do: so a client that asks for many and reads
//! none waits for itself.

use disktime_nbd::reply::{Chunk, EXTENDED_CHUNK_HEADER_BYTES};

use crate::backend::{EXTENTS_MAX, Stretch};
use crate::buffers::{Buffer, Pool};
use crate::frontend::request::Ticket;
use crate::memory::REQUEST;
use crate::ring::Payload;

/// Bytes of an extent with extended headers, and of the header before a context's extents.
const EXTENT: usize = 16;
const HEADER: usize = EXTENDED_CHUNK_HEADER_BYTES + 8;
/// Bytes of the longest answer.
const BYTES_MAX: usize = (EXTENTS_MAX + 20) * EXTENT;
const _: () = assert!(HEADER <= 3 * EXTENT);
/// Bytes of its connection's account that a block status holds until its answer is sent.
pub(super) const MEMORY: usize = REQUEST + BYTES_MAX.next_power_of_two();

/// The state of an extent in a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Holes, which read as zeroes: `base:allocation`.
    Allocation,
    /// Bytes that have changed: `qemu:dirty-bitmap:NAME`. A hole is a clean stretch.
    Dirty,
}

/// A metadata context's answer.
pub struct Described {
    /// Its identifier on the wire.
    pub context: u32,
    /// The meaning of its stretches.
    pub meaning: Meaning,
    /// From the range's start on.
    pub stretches: Vec<Stretch>,
}

/// Extents that an answer in so many contexts has room for, of each.
pub fn extents_max(contexts: usize) -> usize {
    EXTENTS_MAX / contexts.max(1) - if contexts > 1 { 3 } else { 0 }
}

/// A buffer for an answer.
pub fn buffer(pool: &mut Pool) -> Option<Buffer> {
    pool.take_for_data(BYTES_MAX)
}

impl Described {
    fn state(&self, stretch: Stretch) -> u32 {
        match (self.meaning, stretch.hole) {
            (Meaning::Allocation, true) => 1 | 2,
            (Meaning::Dirty, false) => 1,
            (Meaning::Allocation, false) | (Meaning::Dirty, true) => 0,
        }
    }
}

impl super::Connection {
    /// The metadata contexts that the client has chosen.
    #[must_use]
    pub fn contexts(&self) -> &[u32] {
        &self.session.contexts
    }

    /// Writes the answer about `bytes` bytes in each context into a buffer.
    pub fn describe(
        &self,
        ticket: &Ticket,
        found: &[Described],
        bytes: u64,
        buffer: Buffer,
    ) -> Payload {
        let to = self.requests.pending[ticket.request as usize].asked.reply_to(self.session.style);
        let (most, mut at) = (extents_max(found.len()), 0);
        for (place, described) in found.iter().enumerate() {
            let mut left = bytes;
            let mut extents = Vec::new();
            for stretch in described.stretches.iter().take(most) {
                // Every length is within the request's, so it has no more bits than that.
                let length = stretch.bytes.min(left);
                if length == 0 {
                    break;
                }
                extents.push((length, described.state(*stretch)));
                left -= length;
            }
            // Where nothing was told, everything is data, and dirty: an answer without extents is none.
            if extents.is_empty() {
                let unknown = Stretch { bytes, hole: false };
                extents.push((bytes, described.state(unknown)));
            }
            let last = place + 1 == found.len();
            let count = u32::try_from(extents.len()).expect("extents are few");
            let chunk = if last { Chunk::Last } else { Chunk::More };
            let header = to.status_header(chunk, described.context, count);
            buffer.put(at, &header);
            at += header.len();
            for (length, state) in extents {
                let extent = to.extent(length, state);
                buffer.put(at, &extent);
                at += extent.len();
            }
        }
        (buffer, 0..at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All contexts that a client can choose fit into one answer.
    #[test]
    fn every_choice_of_contexts_fits_into_an_answer() {
        for contexts in 1..=crate::bitmap::BITMAPS_MAX + 1 {
            let bytes = contexts * (HEADER + extents_max(contexts) * EXTENT);
            assert!(bytes <= BYTES_MAX, "{contexts}: {bytes}");
        }
    }
}
