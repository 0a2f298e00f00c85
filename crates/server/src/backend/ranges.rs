//! Range locks: a write that must first read its edges (read-modify-write) has its blocks for
//! itself. Other writes share: the protocol leaves the order of overlapping writes open, but not
//! that one of them brings back bytes from before the other.

use std::collections::VecDeque;
use std::ops::Range;

struct Claim {
    id: u32,
    range: Range<u64>,
    exclusive: bool,
}

impl Claim {
    fn conflicts(&self, other: &Self) -> bool {
        let overlap = self.range.start < other.range.end && other.range.start < self.range.end;
        overlap && (self.exclusive || other.exclusive)
    }
}

/// Locks on one disk's byte ranges; first come, first served among those that conflict.
#[derive(Default)]
pub(super) struct Ranges {
    held: Vec<Claim>,
    waiting: VecDeque<Claim>,
}

impl Ranges {
    /// True if the range is held now; else it will be answered by a [`release`](Self::release).
    pub(super) fn acquire(&mut self, id: u32, range: Range<u64>, exclusive: bool) -> bool {
        let claim = Claim { id, range, exclusive };
        let free = !self.held.iter().chain(&self.waiting).any(|other| claim.conflicts(other));
        if free {
            self.held.push(claim);
        } else {
            self.waiting.push_back(claim);
        }
        free
    }

    /// Lets a held range go; `granted` gets the jobs that hold theirs now.
    pub(super) fn release(&mut self, id: u32, granted: &mut VecDeque<u32>) {
        let Some(at) = self.held.iter().position(|claim| claim.id == id) else { return };
        self.held.swap_remove(at);
        let mut still = VecDeque::new();
        for claim in self.waiting.drain(..) {
            if self.held.iter().chain(&still).any(|other| claim.conflicts(other)) {
                still.push_back(claim);
            } else {
                granted.push_back(claim.id);
                self.held.push(claim);
            }
        }
        self.waiting = still;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharers_share_and_exclusive_ones_wait_in_order() {
        let (mut ranges, mut granted) = (Ranges::default(), VecDeque::new());
        assert!(ranges.acquire(1, 0..8192, false));
        assert!(ranges.acquire(2, 4096..12288, false));
        assert!(!ranges.acquire(3, 0..4096, true), "held by 1");
        assert!(!ranges.acquire(4, 0..4096, false), "would overtake 3");
        assert!(ranges.acquire(5, 1 << 20..2 << 20, true), "elsewhere");
        ranges.release(2, &mut granted);
        assert!(granted.is_empty());
        ranges.release(1, &mut granted);
        assert_eq!(granted, [3]);
        ranges.release(3, &mut granted);
        assert_eq!(granted, [3, 4]);
    }
}
