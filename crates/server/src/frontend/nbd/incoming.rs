//! Bytes that a client sent, from the socket to where they are acted on: headers of requests, and data
//! of writes.
//!
//! Data of a write that come with its header lie in the input buffer and are copied out of it. The rest
//! of them is received straight into the write's own buffer. Does not know: requests, replies.

use std::ops::Range;
use std::os::fd::RawFd;

use disktime_nbd::EXTENDED_REQUEST_BYTES;

use crate::buffers::{ALIGN, Buffer, Pool};
use crate::memory::INPUT;
use crate::ring::{Ring, Token};

/// Input read at once while little comes, in bytes.
const INPUT_FIRST: usize = ALIGN;

/// The receiving side of a connection.
pub(super) struct Incoming {
    /// Length of a request's header.
    header_bytes: usize,
    /// The input buffer; `None` while the ring reads into it.
    pub(super) buffer: Option<Buffer>,
    /// Bytes of it that are not acted on yet.
    pub(super) filled: Range<usize>,
    /// Input to be read at once next time, in bytes.
    read_bytes: usize,
    /// The ring is reading, into the input buffer or into that of a write.
    pub(super) receiving: bool,
    /// The ring was asked to give up reading.
    given_up: bool,
    /// Data of a refused write that are still to come, and to be skipped: what has come of them is not
    /// among the bytes that are filled.
    skip: usize,
}

impl Incoming {
    /// The bytes that came after a handshake.
    pub(super) fn new(header_bytes: usize, unread: &[u8], pool: &mut Pool) -> Self {
        let buffer = pool.take(INPUT_FIRST.max(unread.len()));
        buffer.put(0, unread);
        Self {
            header_bytes,
            buffer: Some(buffer),
            filled: 0..unread.len(),
            read_bytes: INPUT_FIRST,
            receiving: false,
            given_up: false,
            skip: 0,
        }
    }

    /// Whether the ring has memory of it.
    pub(super) fn is_in_ring(&self) -> bool {
        self.receiving
    }

    /// Whether the ring is reading and is to give that up: true once.
    pub(super) fn gives_up(&mut self) -> bool {
        self.receiving && !std::mem::replace(&mut self.given_up, true)
    }

    /// Bytes that have come and were not acted on, and how many of the next ones nobody wants.
    pub(super) fn rest(&self) -> (Vec<u8>, usize) {
        let mut bytes = vec![0; self.filled.len()];
        if let Some(buffer) = &self.buffer {
            buffer.get(self.filled.start, &mut bytes);
        }
        (bytes, self.skip)
    }

    /// The bytes of the header at the front, once all of them have come; zeroes follow a short one.
    pub(super) fn header(&self) -> Option<[u8; EXTENDED_REQUEST_BYTES]> {
        let buffer = self.buffer.as_ref()?;
        if self.wants() {
            return None;
        }
        let mut bytes = [0; EXTENDED_REQUEST_BYTES];
        buffer.get(self.filled.start, &mut bytes[..self.header_bytes]);
        Some(bytes)
    }

    /// The header at the front was acted on.
    pub(super) fn header_taken(&mut self) {
        self.filled.start += self.header_bytes;
    }

    /// The next bytes are data that nobody wants.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.skip = bytes;
        self.came(0);
    }

    /// So many more bytes are filled. Data that nobody wants go at once.
    pub(super) fn came(&mut self, bytes: usize) {
        self.filled.end += bytes;
        let skipped = self.skip.min(self.filled.len());
        self.skip -= skipped;
        self.filled.start += skipped;
    }

    /// Moves at most so many of the bytes that have come to a buffer; answers how many.
    pub(super) fn take(&mut self, to: &Buffer, at: usize, wanted: usize) -> usize {
        let Some(buffer) = &self.buffer else { return 0 };
        let count = wanted.min(self.filled.len());
        to.put_from(at, buffer, &(self.filled.start..self.filled.start + count));
        self.filled.start += count;
        count
    }

    /// Receives straight into a buffer of somebody else, unless the ring is reading: at most so many
    /// bytes.
    pub(super) fn receive_into(
        &mut self,
        token: Token,
        ring: &mut Ring,
        fd: RawFd,
        to: &Buffer,
        range: &Range<usize>,
        most: usize,
    ) -> usize {
        if self.receiving {
            return 0;
        }
        self.receiving = true;
        let range = range.start..range.end.min(range.start + most);
        ring.receive(token, fd, to.clone(), &range, true);
        range.len()
    }

    /// Whether more input must come before anything is acted on.
    pub(super) fn wants(&self) -> bool {
        self.skip > 0 || self.filled.len() < self.header_bytes
    }

    /// Receives more input, unless the ring is reading or a header is there: at most so many bytes.
    pub(super) fn receive(
        &mut self,
        token: Token,
        ring: &mut Ring,
        fd: RawFd,
        pool: &mut Pool,
    ) -> usize {
        if self.receiving || !self.wants() {
            return 0;
        }
        let Some(mut buffer) = self.buffer.take() else { return 0 };
        let len = self.filled.len();
        let mut rest = [0; EXTENDED_REQUEST_BYTES];
        buffer.get(self.filled.start, &mut rest[..len]);
        if buffer.len() != self.read_bytes {
            buffer = pool.take(self.read_bytes);
        }
        buffer.put(0, &rest[..len]);
        self.filled = 0..len;
        self.receiving = true;
        let range = len..buffer.len();
        ring.receive(token, fd, buffer, &range, false);
        range.len()
    }

    /// A receive is over: its buffer and how many bytes came. Answers how many bytes came, and how
    /// many of them went straight into the buffer of somebody else; `None` if the client is gone.
    pub(super) fn received(&mut self, buffer: Buffer, result: i32) -> Option<(usize, usize)> {
        self.receiving = false;
        let count = usize::try_from(result).ok().filter(|count| *count > 0);
        if self.buffer.is_some() {
            return count.map(|count| (count, count));
        }
        let room = buffer.len();
        self.buffer = Some(buffer);
        self.came(count.unwrap_or(0));
        // A client that fills a buffer gets a larger one, one that needs little of it a smaller.
        if self.filled.end == room {
            self.read_bytes = INPUT;
        } else if self.filled.end < room / 8 {
            self.read_bytes = INPUT_FIRST;
        }
        count.map(|count| (count, 0))
    }
}
