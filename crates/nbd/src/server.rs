//! The server's side: the handshake, what a request is allowed to ask, and how to answer it.

mod check;
mod contexts;
mod error;
mod handshake;
pub mod reply;

pub use check::{Checked, Operation, Reject};
pub use contexts::Context;
pub use error::HandshakeError;
pub use handshake::{Exports, Handshake, ServerHandshake, Session, Tls};

/// Length of the server's greeting in bytes.
pub const GREETING_BYTES: usize = 18;
