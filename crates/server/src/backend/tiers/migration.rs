//! An extent on its way from one tier to the other.

use std::ops::Range;

use disktime_core::Tier;

use super::BLOCK;
use super::map::EXTENT;

const BLOCKS: usize = (EXTENT / BLOCK) as usize;

/// The operation that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing.
    Ready,
    /// These bytes of the device are read from where they are.
    Reading(Range<u64>),
    /// And written to where they go.
    Writing(Range<u64>),
    /// The tier that they went to makes them durable.
    Syncing,
    /// The map's entry is written.
    Noting,
}

/// A promotion, or the way back.
pub(super) struct Migration {
    pub(super) extent: u32,
    pub(super) slot: u32,
    /// Where it goes.
    pub(super) to: Tier,
    /// Blocks whose copy is not current.
    stale: Vec<bool>,
    /// The piece that is under way, and which blocks it is to copy.
    pub(super) job: Option<u32>,
    piece: Range<usize>,
    /// It is the last: others wait.
    pub(super) last: bool,
    pub(super) phase: Phase,
}

impl Migration {
    pub(super) fn new(extent: u32, slot: u32, to: Tier) -> Self {
        let stale = vec![true; BLOCKS];
        let (job, piece, last) = (None, 0..0, false);
        Self { extent, slot, to, stale, job, piece, last, phase: Phase::Ready }
    }

    fn start(&self) -> u64 {
        u64::from(self.extent) * EXTENT
    }

    /// The bytes of the device that move.
    pub(super) fn extent_bytes(&self) -> Range<u64> {
        self.start()..self.start() + EXTENT
    }

    /// The extent that its slot has when the migration is done.
    pub(super) fn moved(&self) -> Option<u32> {
        (self.to == Tier::Fast).then_some(self.extent)
    }

    /// Whether these bytes may be a piece of it.
    pub(super) fn takes(&self, bytes: &Range<u64>) -> bool {
        let all = self.extent_bytes();
        all.start <= bytes.start && bytes.start < bytes.end && bytes.end <= all.end
    }

    /// A piece begins.
    pub(super) fn begin_piece(&mut self, job: u32, bytes: &Range<u64>) {
        self.job = Some(job);
        self.piece = self.blocks(bytes);
        self.last = bytes.end == self.extent_bytes().end;
        if self.last {
            self.piece = 0..BLOCKS;
        }
    }

    /// Whether others have to wait for this extent.
    pub(super) fn holds(&self, extent: u32) -> bool {
        self.last && self.extent == extent
    }

    /// The next bytes that the piece has to copy; their copy counts as current from now on.
    pub(super) fn next_run(&mut self) -> Option<Range<u64>> {
        let first = self.piece.clone().find(|block| self.stale[*block])?;
        let end = (first..self.piece.end).find(|block| !self.stale[*block]);
        let end = end.unwrap_or(self.piece.end);
        self.stale[first..end].fill(false);
        let byte = |block: usize| self.start() + block as u64 * BLOCK;
        Some(byte(first)..byte(end))
    }

    /// Only so many bytes of a run came through: the rest is to be copied again. Answers the first
    /// part.
    pub(super) fn short(&mut self, run: Range<u64>, bytes: u64) -> Range<u64> {
        let end = run.end.min(run.start + bytes);
        let rest = self.blocks(&(end..run.end));
        self.stale[rest].fill(true);
        run.start..end
    }

    /// These bytes of the device change.
    pub(super) fn changed(&mut self, bytes: &Range<u64>) {
        let blocks = self.blocks(bytes);
        self.stale[blocks].fill(true);
    }

    /// Nothing of the copy is known to be on its tier any more.
    pub(super) fn doubt(&mut self) {
        self.stale.fill(true);
    }

    /// Whether all of the copy is on its tier.
    pub(super) fn is_current(&self) -> bool {
        !self.stale.contains(&true)
    }

    /// The blocks of the extent that these bytes touch.
    fn blocks(&self, bytes: &Range<u64>) -> Range<usize> {
        let within = |byte: u64| byte.clamp(self.start(), self.start() + EXTENT) - self.start();
        let (start, end) = (within(bytes.start), within(bytes.end));
        let block = |at: u64| usize::try_from(at / BLOCK).expect("blocks of an extent are few");
        block(start)..block(end.next_multiple_of(BLOCK)).max(block(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_change_are_copied_again() {
        let mut migration = Migration::new(3, 0, Tier::Fast);
        let (start, piece) = (3 * EXTENT, 128 << 10);
        assert!(!migration.takes(&(start - 1..start + 1)) && !migration.takes(&(start..start)));
        migration.begin_piece(1, &(start..start + piece));
        assert_eq!(migration.next_run(), Some(start..start + piece));
        assert_eq!(migration.next_run(), None);
        // Changes of another extent; within a block; over an edge; not yet copied.
        migration.changed(&(start - EXTENT..start));
        migration.changed(&(start + 5000..start + 5001));
        migration.changed(&(start + 3 * BLOCK..start + 4 * BLOCK + 1));
        migration.changed(&(start + piece..start + piece + 1));
        assert_eq!(migration.next_run(), Some(start + BLOCK..start + 2 * BLOCK));
        assert_eq!(migration.next_run(), Some(start + 3 * BLOCK..start + 5 * BLOCK));
        assert_eq!(migration.next_run(), None);
        assert!(!migration.holds(3));
        migration.begin_piece(2, &(start + piece..start + EXTENT));
        assert!(migration.holds(3) && !migration.holds(2));
        migration.changed(&(start..start + 1));
        assert_eq!(migration.next_run(), Some(start..start + BLOCK), "the last does it all");
        let rest = start + piece..start + EXTENT;
        assert_eq!(migration.next_run(), Some(rest.clone()));
        assert_eq!(migration.short(rest, 2 * BLOCK), start + piece..start + piece + 2 * BLOCK);
        assert_eq!(migration.next_run(), Some(start + piece + 2 * BLOCK..start + EXTENT));
        assert_eq!(migration.next_run(), None);
    }
}
