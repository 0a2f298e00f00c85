//! The time that a device took for a piece, without the time that the piece waited there, as seen
//! from outside.
//!
//! In a queue that is served in order a piece waits only for pieces that went out before it and
//! come back before it. So its service began when it went out or when the last of these came back,
//! whichever is later, and ended when it came back. The result is exact for one server that serves
//! in order. Several such servers side by side (tiers) can only make it too short: pieces that
//! another server finished meanwhile count as predecessors, too; those that overtook it don't,
//! which is how a slow tier's pieces are told from the fast ones that pass them.
//!
//! Does not know: how many servers there are, or that one serves in another order than pieces came.

use alloc::collections::VecDeque;

use disktime_core::{Duration, Instant, StreamId};

/// A piece at the device.
#[derive(Clone, Copy)]
struct Sent {
    stream: StreamId,
    at: Instant,
    /// When the last piece came back that went out before it; before that, `at`.
    begins: Instant,
}

/// All pieces at the device, in the order in which they went out.
#[derive(Default)]
pub(crate) struct AtDevice {
    pieces: VecDeque<Sent>,
}

impl AtDevice {
    /// A piece goes out.
    pub(crate) fn sent(&mut self, now: Instant, stream: StreamId) {
        self.pieces.push_back(Sent { stream, at: now, begins: now });
    }

    /// A piece comes back after that response: its service. O(pieces at the device). Pieces of one
    /// stream that went out together come back in that order, which changes no sum.
    pub(crate) fn back(&mut self, now: Instant, stream: StreamId, response: Duration) -> Duration {
        let is_it = |sent: &Sent| sent.stream == stream && now.since(sent.at) == response;
        let Some(place) = self.pieces.iter().position(is_it) else { return response };
        let sent = self.pieces.remove(place);
        for later in self.pieces.range_mut(place..) {
            later.begins = now;
        }
        sent.map_or(response, |sent| now.since(sent.begins))
    }

    /// The stream is gone, and with it whatever it had out.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        self.pieces.retain(|sent| sent.stream != stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId(0);
    const B: StreamId = StreamId(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(time: u64) -> Instant {
        Instant::ZERO + ms(time)
    }

    #[test]
    fn one_server_in_order_is_told_exactly() {
        let mut device = AtDevice::default();
        // Three at once, of 4, 2 and 3 ms; another, of 1 ms, joins at 5 ms.
        [A, B, A].into_iter().for_each(|stream| device.sent(at(0), stream));
        assert_eq!(device.back(at(4), A, ms(4)), ms(4));
        device.sent(at(5), B);
        assert_eq!(device.back(at(6), B, ms(6)), ms(2));
        assert_eq!(device.back(at(9), A, ms(9)), ms(3));
        assert_eq!(device.back(at(10), B, ms(5)), ms(1));
        // Idle until 20 ms: nothing to wait for.
        device.sent(at(20), A);
        assert_eq!(device.back(at(27), A, ms(7)), ms(7));
    }

    #[test]
    fn a_piece_did_not_wait_for_one_that_overtakes_it() {
        let mut device = AtDevice::default();
        // A's go to a disk of 10 ms each, B's to flash of 1 ms each.
        [A, A].into_iter().for_each(|stream| device.sent(at(0), stream));
        for start in 0..10 {
            device.sent(at(start), B);
            assert_eq!(device.back(at(start + 1), B, ms(1)), ms(1));
        }
        assert_eq!(device.back(at(10), A, ms(10)), ms(10));
        device.sent(at(11), B);
        device.sent(at(11), A);
        assert_eq!(device.back(at(12), B, ms(1)), ms(1));
        assert_eq!(device.back(at(20), A, ms(20)), ms(10));
        assert_eq!(device.back(at(30), A, ms(19)), ms(10));
    }

    #[test]
    fn another_server_can_only_make_it_shorter() {
        let mut device = AtDevice::default();
        device.sent(at(0), A);
        device.sent(at(0), B);
        // Served side by side: A's end looks like the beginning of B's service.
        assert_eq!(device.back(at(6), A, ms(6)), ms(6));
        assert_eq!(device.back(at(10), B, ms(10)), ms(4));
    }

    #[test]
    fn no_piece_waits_for_a_stream_that_is_gone() {
        let mut device = AtDevice::default();
        device.sent(at(0), A);
        device.sent(at(0), B);
        device.forget(A);
        assert_eq!(device.back(at(6), B, ms(6)), ms(6));
        assert_eq!(device.back(at(7), A, ms(7)), ms(7), "what it never saw took its response");
    }
}
