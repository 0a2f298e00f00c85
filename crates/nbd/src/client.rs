//! The client's side: the handshake, and the parser of replies. Requests are
//! [`RequestHeader::to_bytes`](crate::RequestHeader::to_bytes).

mod error;
mod handshake;
mod replies;

pub use error::ClientError;
pub use handshake::{ClientHandshake, ClientProgress, Goal, ListedExport};
pub use replies::{Pending, ReplyEvent, ReplyParser};
