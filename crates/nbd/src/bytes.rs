//! Reading and writing big-endian bytes: a cursor, a bounded gatherer, a fixed-size message.

use alloc::vec::Vec;
use core::ops::Deref;

/// Reads fields off the front of a slice; every read says when the bytes have run out.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(bytes)?;
        self.0 = tail;
        Some(head)
    }

    /// A string behind its 32-bit length.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }
}

/// Collects a message of known length out of input that arrives in any fragments.
///
/// It never holds more than the length asked for, so its bound is its caller's.
#[derive(Debug, Default)]
pub(crate) struct Gather(Vec<u8>);

impl Gather {
    /// Moves bytes from `input` until `length` are here; `None` when the input ends before.
    /// The message is gone from the gatherer once it was returned.
    pub(crate) fn message(&mut self, length: usize, input: &mut &[u8]) -> Option<Vec<u8>> {
        self.fill(length, input).then(|| core::mem::take(&mut self.0))
    }

    /// The same for a fixed length, keeping the buffer for the next message.
    pub(crate) fn array<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if !self.fill(N, input) {
            return None;
        }
        let message = self.0.first_chunk::<N>().copied();
        self.0.clear();
        message
    }

    fn fill(&mut self, length: usize, input: &mut &[u8]) -> bool {
        let missing = length.saturating_sub(self.0.len());
        let (head, tail) = input.split_at(missing.min(input.len()));
        self.0.extend_from_slice(head);
        *input = tail;
        head.len() == missing
    }
}

/// A message of at most `N` bytes, on the stack: what reply encoders return, so that answering
/// never allocates. Dereferences to the bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Encoded<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    /// Appends; the encoders' fixed layouts are what keeps this in bounds.
    #[inline]
    pub(crate) fn with(mut self, field: &[u8]) -> Self {
        let end = self.length + field.len();
        assert!(end <= N, "an encoder outgrew its own message");
        self.bytes[self.length..end].copy_from_slice(field);
        self.length = end;
        self
    }

    /// The bytes to send.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> Deref for Encoded<N> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// The longest prefix of `text` of at most `bytes_max` bytes that doesn't cut a character.
pub(crate) fn prefix(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A string off the wire: at most [`STRING_BYTES_MAX`](crate::limits::STRING_BYTES_MAX) bytes of
/// UTF-8 without NUL.
pub(crate) fn wire_str(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > crate::limits::STRING_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    core::str::from_utf8(bytes).ok()
}
