//! How long a device may still be busy with what it had before.
//!
//! Pieces that are at the device come back within as long as it holds a piece. Work that the device
//! puts off takes several times that: a seek back to a stream's place after answers from its cache,
//! or writes that others left in its buffer. So the time is four of the longest responses seen
//! lately, and at most what a disk needs; on a disk it always is that.
//!
//! Does not know: what the device does in that time.

use crate::types::time::{Duration, Instant};

/// A piece held longest counts as so many.
const PIECES: u64 = 4;
/// It counts for so long at least, and twice that at most.
const MEMORY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Settling {
    since: Instant,
    /// The longest response in this span and in the one before.
    longest: [Duration; 2],
}

impl Settling {
    /// No device needs longer: a disk's seeks, and what it answers and writes before them. Before
    /// anything was seen it may be one.
    pub(crate) const MOST: Duration = Duration::from_millis(50);

    /// The device had a piece for that long.
    pub(crate) fn seen(&mut self, now: Instant, response: Duration) {
        if now.since(self.since) > MEMORY {
            self.longest = [Duration::ZERO, self.longest[0]];
            self.since = now;
        }
        self.longest[0] = self.longest[0].max(response);
    }

    pub(crate) fn time(&self) -> Duration {
        match self.longest[0].max(self.longest[1]).as_nanos() {
            0 => Self::MOST,
            nanos => Duration::from_nanos(nanos.saturating_mul(PIECES)).min(Self::MOST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_four_of_the_pieces_held_longest_and_no_longer_than_a_disk_takes() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut settling = Settling::default();
        assert_eq!(settling.time(), Settling::MOST, "it may be a disk");
        settling.seen(at(1), Duration::from_micros(80));
        settling.seen(at(2), Duration::from_micros(900));
        settling.seen(at(3), Duration::from_micros(80));
        assert_eq!(settling.time(), Duration::from_micros(3600));
        // A disk's farthest seek: what it puts off takes four of them.
        settling.seen(at(4), Duration::from_millis(12));
        assert_eq!(settling.time(), Duration::from_millis(48));
        settling.seen(at(4), Duration::from_millis(13));
        assert_eq!(settling.time(), Settling::MOST);
        settling.seen(at(6_000), Duration::from_micros(80));
        settling.seen(at(10_002), Duration::from_micros(80));
        settling.seen(at(11_500), Duration::from_micros(80));
        assert_eq!(settling.time(), Settling::MOST, "the span before counts");
        settling.seen(at(20_004), Duration::from_micros(80));
        assert_eq!(settling.time(), Duration::from_micros(320));
        settling.seen(at(20_005), Duration::from_nanos(u64::MAX));
        assert_eq!(settling.time(), Settling::MOST);
    }
}
