//! Places of files on the device, from which the engine reckons nearness and costs.
//!
//! A byte is where the file system below says that it is (`extents.rs`). Where it says nothing, a file's
//! bytes lie one after the other at a place that the file gets with its first request.

use std::collections::BTreeMap;

use crate::nodes::Node;

/// Room that a file gets at least, so that it can grow where it lies.
const ROOM_MIN: u64 = 64 << 20;
/// The device's size if none is emulated: far more than files take.
const ENDLESS: u64 = 1 << 62;
/// Places that are remembered; beyond, a file that comes back may get another one.
const KNOWN_MAX: usize = 1 << 20;

/// Places by the files' identity at the source.
pub(crate) struct Places {
    starts: BTreeMap<(u64, u64), u64>,
    next: u64,
    capacity: u64,
}

impl Places {
    /// On a device of so many bytes, or an endless one.
    pub(crate) fn new(capacity: Option<u64>) -> Self {
        Self { starts: BTreeMap::new(), next: 0, capacity: capacity.unwrap_or(ENDLESS) }
    }

    /// The first byte on the device of a range of a file that is `length` bytes long now. A range
    /// that would end behind the device lies at its end.
    pub(crate) fn of(&mut self, node: &Node, length: u64, (offset, bytes): (u64, u64)) -> u64 {
        let (next, capacity) = (&mut self.next, self.capacity);
        if self.starts.len() >= KNOWN_MAX {
            self.starts.clear();
        }
        let start = *self.starts.entry(node.identity).or_insert_with(|| {
            let room = length.max(ROOM_MIN).checked_next_multiple_of(1 << 20).unwrap_or(capacity);
            if next.saturating_add(room) > capacity {
                *next = 0;
            }
            let start = *next;
            *next = start.saturating_add(room) % capacity.max(1);
            start
        });
        self.within((start % capacity).saturating_add(offset % capacity), bytes)
    }

    /// A place with room for so many bytes on the device: a smaller one than the source's has the
    /// source's places round and round.
    pub(crate) fn within(&self, place: u64, bytes: u64) -> u64 {
        let last = self.capacity.saturating_sub(bytes);
        if place > last { place % last.max(1) } else { place }
    }
}
