//! The answer to a block status: stretches of the virtual disk as extents of `base:allocation`.
//!
//! The extents lie in a buffer of the pool, as a read's data do: so a client that asks for many and reads
//! none waits for itself.

use disktime_nbd::reply::ReplyTo;

use crate::backend::{EXTENTS_MAX, Stretch};
use crate::buffers::{Buffer, Pool};
use crate::memory::REQUEST;
use crate::ring::Payload;

/// Bytes of the longest answer's extents: of 16 bytes each with extended headers.
const BYTES_MAX: usize = EXTENTS_MAX * 16;
/// Bytes of its connection's account that a block status holds until its answer is sent.
pub(super) const MEMORY: usize = REQUEST + BYTES_MAX.next_power_of_two();
/// The flags of `base:allocation` for a hole, which reads as zeroes.
const HOLE_AND_ZERO: u32 = 1 | 2;

/// A buffer for an answer.
pub fn buffer(pool: &mut Pool) -> Option<Buffer> {
    pool.try_take(BYTES_MAX)
}

impl super::Connection {
    /// Writes the extents of `bytes` bytes into a buffer.
    pub fn describe(&self, found: &[Stretch], bytes: u64, buffer: Buffer) -> Payload {
        let to = ReplyTo { style: self.session.style, cookie: 0, offset: 0 };
        let (mut at, mut left) = (0, bytes);
        // Where nothing was told, everything is data: an answer without extents is none.
        let unknown = [Stretch { bytes, hole: false }];
        let found = if found.is_empty() { &unknown } else { found };
        for stretch in found {
            // Every length is within the request's, so it has no more bits than that.
            let length = stretch.bytes.min(left);
            if length == 0 {
                break;
            }
            let extent = to.extent(length, if stretch.hole { HOLE_AND_ZERO } else { 0 });
            buffer.put(at, &extent);
            (at, left) = (at + extent.len(), left - length);
        }
        (buffer, 0..at)
    }
}
