//! Requests on their way out: many in one system call, payloads from one buffer of noise.

use std::collections::VecDeque;
use std::io::IoSlice;

use disktime_nbd::{REQUEST_BYTES, RequestHeader};

use crate::OUTSTANDING_MAX;
use crate::error::ConnectionError;
use crate::socket::Socket;

/// Most slices handed to the system at once: its own limit is 1024, the gain is gone far below.
const SLICES_MAX: usize = 64;

pub(super) struct Outbox {
    queue: VecDeque<Message>,
    /// Bytes of the first message that are sent.
    sent: usize,
    noise: Box<[u8]>,
}

struct Message {
    header: [u8; REQUEST_BYTES],
    payload_bytes: usize,
}

impl Outbox {
    /// An outbox for payloads of up to `payload_bytes_max`. It allocates here and, while no more
    /// than [`OUTSTANDING_MAX`] messages are in it, never again.
    pub(super) fn new(payload_bytes_max: usize, seed: u64) -> Self {
        let queue = VecDeque::with_capacity(OUTSTANDING_MAX + 1);
        Self { queue, sent: 0, noise: noise(payload_bytes_max, seed) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, header: &RequestHeader, payload_bytes: usize) {
        assert!(payload_bytes <= self.noise.len(), "payloads are at most as long as announced");
        self.queue.push_back(Message { header: header.to_bytes(), payload_bytes });
    }

    /// Sends as much as there is room for.
    pub(super) fn flush(&mut self, socket: &Socket) -> Result<(), ConnectionError> {
        while !self.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.gather(&mut slices);
            let offered: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            let Some(bytes) = socket.send(&slices[..count])? else { return Ok(()) };
            self.advance(bytes);
            if bytes < offered {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Fills `slices` with what is next; returns how many were used.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut skip = self.sent;
        let mut count = 0;
        for message in &self.queue {
            for part in [&message.header[..], &self.noise[..message.payload_bytes]] {
                let unsent = &part[skip.min(part.len())..];
                skip -= part.len() - unsent.len();
                if unsent.is_empty() {
                    continue;
                }
                if count == SLICES_MAX {
                    return count;
                }
                slices[count] = IoSlice::new(unsent);
                count += 1;
            }
        }
        count
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(first) = self.queue.front() {
            let length = REQUEST_BYTES + first.payload_bytes;
            if self.sent < length {
                break;
            }
            self.sent -= length;
            self.queue.pop_front();
        }
    }
}

/// Bytes that neither compress nor deduplicate within one payload.
///
/// Source: Marsaglia, "Xorshift RNGs", 2003: the 64-bit generator with shifts 13, 7, 17.
fn noise(bytes: usize, seed: u64) -> Box<[u8]> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let words = std::iter::repeat_with(|| {
        // The generator stays at zero for ever, so it must not start there.
        state = state.max(1);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_nbd::{Command, CommandFlags};

    fn header(cookie: u64, length: u32) -> RequestHeader {
        let (command, flags) = (Command::Write, CommandFlags::EMPTY);
        RequestHeader { flags, command, cookie, offset: 0, length: length.into() }
    }

    /// However the system cuts what it takes, the bytes are those of the messages in order.
    #[test]
    fn any_cut_leaves_the_stream_whole() {
        for step in [1, 27, 28, 29, 61, 100, 1000, 100_000] {
            let mut outbox = Outbox::new(40, 7);
            let mut expected = Vec::new();
            for cookie in 0..100 {
                let payload_bytes = [0, 1, 40][usize::try_from(cookie % 3).unwrap()];
                let header = header(cookie, u32::try_from(payload_bytes).unwrap());
                outbox.push(&header, payload_bytes);
                expected.extend_from_slice(&header.to_bytes());
                expected.extend_from_slice(&outbox.noise[..payload_bytes]);
            }
            let mut stream = Vec::new();
            while !outbox.is_empty() {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = outbox.gather(&mut slices);
                let offered = slices[..count].iter().map(|slice| &slice[..]).collect::<Vec<_>>();
                let taken = offered.concat();
                let taken = &taken[..step.min(taken.len())];
                stream.extend_from_slice(taken);
                let bytes = taken.len();
                outbox.advance(bytes);
            }
            assert_eq!(stream, expected, "in steps of {step}");
        }
    }

    #[test]
    fn noise_depends_on_the_seed_and_is_no_zeroes() {
        assert_eq!(noise(100, 1), noise(100, 1));
        assert_ne!(noise(100, 1), noise(100, 2));
        assert!(noise(4096, 0x9e37_79b9_7f4a_7c15).iter().filter(|&&byte| byte == 0).count() < 64);
    }
}
