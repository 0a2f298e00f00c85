//! Bytes where direct I/O wants them.

/// Addresses and lengths are multiples of this.
pub(crate) const ALIGN: usize = 4096;

/// A buffer of noise that begins on a block.
#[derive(Debug)]
pub(crate) struct Buffer {
    room: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A buffer of so many bytes.
    pub(crate) fn new(length: usize) -> Self {
        // Not zeroes, which a device might not store.
        let room: Vec<u8> = (1..=251).cycle().take(length + ALIGN).collect();
        let start = room.as_ptr().align_offset(ALIGN);
        Self { room, start }
    }

    /// Its first bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> &mut [u8] {
        &mut self.room[self.start..self.start + length]
    }
}
