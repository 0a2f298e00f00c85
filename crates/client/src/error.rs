//! Why there is no connection, why there is none any more, and why a request failed.

use disktime_core::Duration;
use disktime_nbd::{ClientError, NbdError, ProtocolError};
use rustix::io::Errno;
use std::io::ErrorKind;

use crate::uri::Address;

/// Why a connection could not be opened. Nothing is left of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The host's name leads to no address.
    #[error("{address}: the host can't be resolved: {kind}")]
    Resolve {
        /// Where to.
        address: Address,
        /// The resolver's error.
        kind: ErrorKind,
    },
    /// The system refused, usually because nobody listens.
    #[error("{address}: {errno}")]
    Socket {
        /// Where to.
        address: Address,
        /// The system's error.
        errno: Errno,
    },
    /// The handshake could not be finished.
    #[error("{address}: {error} in the handshake")]
    Lost {
        /// Where to.
        address: Address,
        /// The reason.
        error: ConnectionError,
    },
    /// The server said no, or something that isn't NBD.
    #[error("{address}: {error}")]
    Handshake {
        /// Where to.
        address: Address,
        /// The reason.
        error: ClientError,
    },
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The server hung up.
    #[error("the server closed the connection")]
    Closed,
    /// The server didn't take or send enough in time.
    #[error("no answer within {timeout:?}")]
    Timeout {
        /// How long was waited.
        timeout: Duration,
    },
    /// The system failed.
    #[error("the connection failed: {0}")]
    Socket(Errno),
    /// The server sent what no server may send.
    #[error("the server broke the protocol: {0}")]
    Protocol(ProtocolError),
}

impl From<ProtocolError> for ConnectionError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<Errno> for ConnectionError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => Self::Closed,
            errno => Self::Socket(errno),
        }
    }
}

/// Why a request had no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server answered with an error; the connection goes on.
    #[error("the server failed the request: {0}")]
    Failed(NbdError),
    /// The connection is lost, and whether the request was carried out is unknown.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Not sent: a request's length has 32 bits.
    #[error("length {bytes} bytes: at most 4294967295 fit in a request")]
    TooLong {
        /// As asked.
        bytes: usize,
    },
    /// Not sent: as many requests as are possible wait for their replies, or replies for
    /// [`receive`](crate::Connection::receive).
    #[error("{0} requests are outstanding already; receive replies first")]
    TooMany(usize),
}
