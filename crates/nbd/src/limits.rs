//! Every bound that a peer can run into, in one place.

/// Longest string of the protocol, in bytes ("Protocol phases": strings are at most 4096 bytes).
pub const STRING_BYTES_MAX: usize = 4096;

/// Most options a client may send in one handshake before the server hangs up.
pub const OPTIONS_MAX: u32 = 64;

/// Most bytes of an option's data that the server stores; a longer option that it would have
/// understood is drained and refused with `ERR_TOO_BIG`.
pub const OPTION_DATA_BYTES_MAX: usize = 16 << 10;

/// Most bytes of one option's data that the server reads and throws away; it hangs up above this.
pub const OPTION_DRAIN_BYTES_MAX: u32 = 256 << 10;

/// Most bytes of replies to one `LIST`; a longer list is answered with `ERR_TOO_BIG`.
pub const LIST_REPLY_BYTES_MAX: usize = 1 << 20;

/// Most bytes that the server writes in one handshake before it hangs up: a client that asks for
/// the list again and again without reading must not fill memory.
pub const HANDSHAKE_REPLY_BYTES_MAX: usize = 4 << 20;

/// Largest write payload that is drained when its request is refused; the connection is closed
/// above this. "Block size constraints" asks servers not to treat less than 2^25 as an attack.
pub const WRITE_DRAIN_BYTES_MAX: u32 = 1 << 25;

/// Longest message that the server puts into an error chunk, in bytes.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 120;

/// Longest read that one reply can carry, in bytes: a chunk's length field counts its offset too.
pub const READ_BYTES_MAX: u32 = u32::MAX - 8;

/// Most bytes of data in one reply to an option that the client stores.
pub const OPTION_REPLY_BYTES_MAX: u32 = 16 << 10;

/// Most replies that the client takes for one option other than `LIST`.
pub const OPTION_REPLIES_MAX: u32 = 64;

/// Most bytes of names and descriptions, and of their bookkeeping, that the client keeps of a list.
pub const LISTED_BYTES_MAX: usize = 4 << 20;

/// Longest payload of an error chunk that the client accepts, in bytes: a string and room for
/// fields that later versions may add.
pub const ERROR_PAYLOAD_BYTES_MAX: u32 = 8 << 10;

/// Most structured replies that may be between their first and last chunk at one time.
pub const OPEN_REPLIES_MAX: usize = 1024;
