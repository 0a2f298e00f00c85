//! Properties of an export that both sides know.

use alloc::string::String;
use core::error::Error;
use core::fmt;

use crate::flags::TransmissionFlags;

/// An export as the handshake describes it.
///
/// A server fills it in from what the virtual disk can do; the copy that its handshake returns has
/// the flags that were really told to this client, and is the one to validate requests with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The canonical name, at most [`STRING_BYTES_MAX`](crate::limits::STRING_BYTES_MAX) bytes
    /// without NUL; longer ones are left out of lists.
    pub name: String,
    /// Text for a human, may be empty; cut at the same length on the wire.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The kind and the abilities of the export. The server's handshake adds and removes what
    /// depends on the session ([`TransmissionFlags::advertised`]).
    pub flags: TransmissionFlags,
    /// The lengths and offsets that it takes.
    pub block_sizes: BlockSizes,
}

/// The lengths and offsets that an export takes ("Block size constraints"), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    min: u32,
    preferred: u32,
    max: u32,
}

impl BlockSizes {
    /// The sizes that hold where nothing was said: any offset, 4 KiB preferred, no maximum.
    pub const DEFAULT: Self = Self { min: 1, preferred: 4096, max: u32::MAX };

    /// The smallest `preferred` that the protocol allows.
    const PREFERRED_MIN: u32 = 512;
    /// The largest `min` that the protocol allows.
    const MIN_MAX: u32 = 1 << 16;

    /// The three sizes in bytes. `max` is a multiple of `min`, or `u32::MAX` for no limit; that it
    /// should reach `preferred` or the export's size is the caller's to see to.
    ///
    /// # Errors
    /// The first size that the protocol doesn't allow.
    pub const fn new(min: u32, preferred: u32, max: u32) -> Result<Self, BlockSizesError> {
        if !min.is_power_of_two() || min > Self::MIN_MAX {
            return Err(BlockSizesError::Min(min));
        }
        if !preferred.is_power_of_two() || preferred < min || preferred < Self::PREFERRED_MIN {
            return Err(BlockSizesError::Preferred(preferred));
        }
        if max == 0 || (max != u32::MAX && !max.is_multiple_of(min)) {
            return Err(BlockSizesError::Max(max));
        }
        Ok(Self { min, preferred, max })
    }

    /// Offsets and lengths are multiples of this; a power of two of at most 65,536.
    #[inline]
    #[must_use]
    pub const fn min(self) -> u32 {
        self.min
    }

    /// Multiples of this are served efficiently; a power of two.
    #[must_use]
    pub const fn preferred(self) -> u32 {
        self.preferred
    }

    /// The longest read, write, cache or (unless fast) write-zeroes.
    #[inline]
    #[must_use]
    pub const fn max(self) -> u32 {
        self.max
    }
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A block size that the protocol doesn't allow, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSizesError {
    /// Not a power of two of at most 65,536.
    Min(u32),
    /// Not a power of two that is at least 512 and the minimum.
    Preferred(u32),
    /// Zero, or neither a multiple of the minimum nor `u32::MAX`.
    Max(u32),
}

impl fmt::Display for BlockSizesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min(size) => {
                write!(f, "minimum block size {size}: allowed are powers of two up to 65536")
            }
            Self::Preferred(size) => write!(
                f,
                "preferred block size {size}: allowed are powers of two from 512 and the minimum"
            ),
            Self::Max(size) => {
                write!(f, "maximum block size {size}: allowed are multiples of the minimum")
            }
        }
    }
}

impl Error for BlockSizesError {}
