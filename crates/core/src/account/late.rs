//! Late pieces: the device keeps them for far longer than others.
//!
//! If nothing went out and nothing came back for 50 ms, what is at the device is late: nobody waits for it any
//! longer. If a piece that goes out after that comes back first, the device works, and single answers are late: a
//! sector that is hard to read, or a request that is lost. If a late one comes back first, the device had stopped,
//! and waiting would have been right: silences may be longer from then on, up to a second, until one of the others
//! comes back first again.
//!
//! Does not know: whose pieces they are, or who pays for a silence.

use super::settling::Settling;
use crate::types::time::{Duration, Instant};

/// A device that works does something for all that is there in this time.
const SILENCE: Duration = Settling::MOST;
/// Nobody waits for longer than by so much more. Tried at this value only.
const LONGER_MOST: Duration = Duration::from_secs(1);

/// Pieces at the device, and their debits in ns.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) pieces: u32,
    pub(crate) debits: u64,
}

#[derive(Default)]
pub(crate) struct Late {
    /// When a piece went out or came back, and when one came back.
    moved_at: Instant,
    returned_at: Instant,
    /// When the device was given up, and what is left of the work that it had then.
    given_up_at: Instant,
    left: Work,
    /// Silences may be so much longer.
    longer: Duration,
}

impl Late {
    /// When what is at the device will be late, if nothing goes out and nothing comes back.
    pub(crate) fn at(&self) -> Instant {
        self.moved_at + SILENCE + self.longer
    }

    /// The work at the device that is not late.
    pub(crate) fn others(&self, now: Instant, all: Work) -> Work {
        if now >= self.at() {
            return Work::default();
        }
        Work { pieces: all.pieces - self.left.pieces, debits: all.debits - self.left.debits }
    }

    /// Whether a piece that went out then is late, or was when it came back.
    fn is_late(&self, dispatched_at: Instant) -> bool {
        dispatched_at < self.given_up_at
    }

    /// A piece goes out, or comes back, while that is at the device.
    pub(crate) fn moved(&mut self, now: Instant, all: Work) {
        if now >= self.at() {
            (self.left, self.given_up_at) = (all, now);
        }
        self.moved_at = now;
    }

    /// A piece of the work at the device comes back, which went out then and was debited that.
    pub(crate) fn returned(&mut self, now: Instant, all: Work, dispatched_at: Instant, debit: u64) {
        if self.left.pieces > 0 && self.returned_at < self.given_up_at {
            let more = self.longer + self.longer.max(SILENCE);
            let was_right = !self.is_late(dispatched_at);
            self.longer = if was_right { Duration::ZERO } else { more.min(LONGER_MOST) };
        }
        self.moved(now, all);
        if self.is_late(dispatched_at) {
            self.left.pieces -= 1;
            self.left.debits -= debit;
        }
        self.returned_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// So many pieces, which were debited 10 ns each.
    fn work(pieces: u32) -> Work {
        Work { pieces, debits: 10 * u64::from(pieces) }
    }

    /// Two pieces go out at 100 ms; nothing comes back.
    fn two() -> Late {
        let mut late = Late::default();
        late.moved(at(100), work(0));
        late.moved(at(100), work(1));
        late
    }

    #[test]
    fn pieces_are_late_after_fifty_milliseconds_of_silence() {
        let mut late = two();
        assert_eq!([149, 150].map(|ms| late.others(at(ms), work(2)).pieces), [2, 0]);
        // One of them comes back in time.
        late.returned(at(120), work(2), at(100), 10);
        assert_eq!([169, 170].map(|ms| late.others(at(ms), work(1)).pieces), [1, 0]);
        assert!(!late.is_late(at(100)));
    }

    /// Also those that go out at that very moment.
    #[test]
    fn pieces_that_go_out_later_are_not_late() {
        let mut late = two();
        late.moved(at(160), work(2));
        late.moved(at(160), work(3));
        assert_eq!(late.others(at(160), work(4)), work(2));
        assert!(late.is_late(at(100)) && !late.is_late(at(160)));
        late.returned(at(170), work(4), at(160), 10);
        late.returned(at(180), work(3), at(100), 10);
        assert_eq!(late.others(at(180), work(2)).pieces, 1);
        late.returned(at(190), work(2), at(100), 10);
        assert_eq!(late.others(at(190), work(1)).pieces, 1);
    }

    /// A piece that comes back after a silence in which nothing else went out.
    #[test]
    fn a_device_that_has_all_that_there_is_tells_nothing() {
        let mut late = two();
        late.returned(at(400), work(2), at(100), 10);
        late.returned(at(400), work(1), at(100), 10);
        assert_eq!(late.others(at(400), work(0)).pieces, 0);
        late.moved(at(500), work(0));
        assert_eq!([549, 550].map(|ms| late.others(at(ms), work(1)).pieces), [1, 0]);
    }

    /// A device that had nothing to do was not silent.
    #[test]
    fn the_first_answer_after_idleness_tells_nothing() {
        let mut late = stopped(3);
        late.returned(at(1_000_010), work(1), at(1_000_000), 10);
        late.moved(at(1_000_020), work(0));
        assert_eq!([1_000_269, 1_000_270].map(|ms| late.others(at(ms), work(1)).pieces), [1, 0]);
    }

    /// The device stops so often; a piece goes out in each silence once it is given up, and comes back last.
    fn stopped(times: u32) -> Late {
        let mut late = Late::default();
        for time in 0..u64::from(times) {
            let [began, given_up, ended] = [0, 5_000, 6_000].map(|ms| at(10_000 * (time + 1) + ms));
            late.moved(began, work(0));
            late.moved(given_up, work(1));
            late.returned(ended, work(2), began, 10);
            late.returned(ended, work(1), given_up, 10);
        }
        late.moved(at(1_000_000), work(0));
        late
    }

    #[test]
    fn silences_may_be_longer_as_the_device_stops_up_to_a_second() {
        let silence = |times| {
            let late = stopped(times);
            (0..5_000)
                .find(|ms| late.others(at(1_000_000 + ms), work(1)).pieces == 0)
                .expect("it is given up")
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 20].map(silence), [50, 100, 150, 250, 450, 850, 1_050]);
    }

    #[test]
    fn a_device_that_works_beside_a_late_piece_is_given_up_soon_again() {
        let mut late = stopped(3);
        late.moved(at(1_000_250), work(1));
        assert_eq!(late.others(at(1_000_250), work(2)).pieces, 1);
        late.returned(at(1_000_260), work(2), at(1_000_250), 10);
        // Later ones of the same silence tell nothing new.
        late.moved(at(1_000_261), work(1));
        late.returned(at(1_000_270), work(2), at(1_000_000), 10);
        assert_eq!([1_000_319, 1_000_320].map(|ms| late.others(at(ms), work(1)).pieces), [1, 0]);
    }
}
