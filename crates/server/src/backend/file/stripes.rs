//! Where a striped device's bytes are: chunks go to the members in turn.

use std::ops::Range;

/// So many members take turns of so many bytes. A single member is a device of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stripes {
    members: u64,
    chunk: u64,
}

impl Stripes {
    /// One member, whose bytes are the device's.
    pub(super) const ONE: Self = Self { members: 1, chunk: 1 << 62 };

    pub(super) fn new(members: usize, chunk: u64) -> Self {
        Self { members: members as u64, chunk }
    }

    /// Bytes of the device when its smallest member has `smallest`: whole chunks.
    pub(super) fn size(self, smallest: u64) -> Option<u64> {
        (smallest / self.chunk * self.chunk).checked_mul(self.members)
    }

    /// The member that has a byte, where, and how many bytes from there on are next to each other.
    pub(super) fn place(self, offset: u64) -> (usize, u64, u64) {
        let (turn, within) = (offset / self.chunk, offset % self.chunk);
        let at = turn / self.members * self.chunk + within;
        (index(turn % self.members), at, self.chunk - within)
    }

    /// An extent's bytes on a member: they are next to each other there.
    pub(super) fn on(self, member: usize, extent: &Range<u64>) -> Range<u64> {
        self.below(member, extent.start)..self.below(member, extent.end)
    }

    /// How many of the device's first `bytes` a member has.
    fn below(self, member: usize, bytes: u64) -> u64 {
        let row = self.chunk.saturating_mul(self.members);
        let rest = (bytes % row).saturating_sub(member as u64 * self.chunk).min(self.chunk);
        bytes / row * self.chunk + rest
    }
}

fn index(member: u64) -> usize {
    usize::try_from(member).expect("members are few")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte: every byte has its own place, and an extent's places are those of its bytes.
    #[test]
    fn places_and_extents_agree() {
        for (members, chunk) in [(1, 8), (2, 4), (3, 4), (5, 1)] {
            let stripes = Stripes::new(members, chunk);
            for start in 0..40 {
                for end in start..40 {
                    let mut count = vec![0; members];
                    for byte in start..end {
                        let (member, at, run) = stripes.place(byte);
                        let on = stripes.on(member, &(start..end));
                        assert!(on.contains(&at), "{byte} of {start}..{end}: {at} in {on:?}");
                        count[member] += 1;
                        assert!(run >= 1 && run <= chunk);
                    }
                    for (member, count) in count.iter().enumerate() {
                        let on = stripes.on(member, &(start..end));
                        assert_eq!(on.end - on.start, *count);
                    }
                }
            }
        }
    }

    #[test]
    fn one_member_is_itself() {
        assert_eq!(Stripes::ONE.place(12_345), (0, 12_345, (1 << 62) - 12_345));
        assert_eq!(Stripes::ONE.on(0, &(7..1 << 40)), 7..1 << 40);
        assert_eq!(Stripes::new(3, 4096).size(10_000), Some(3 * 8192));
    }
}
