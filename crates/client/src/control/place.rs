//! Where a control API is, and connections to it.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use disktime_core::Instant;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::clock;
use crate::error::ConnectError;
use crate::socket::Socket;
use crate::uri::Address;

/// Where it is, with the token to show there.
#[derive(Clone)]
pub(super) enum Place {
    Unix(PathBuf),
    Tcp { address: SocketAddr, token: String },
    Tls(Box<Protected>),
}

/// An address under TLS.
#[derive(Clone)]
pub(super) struct Protected {
    /// `HOST:PORT`, as it was said.
    address: String,
    host: ServerName<'static>,
    token: String,
    settings: Arc<ClientConfig>,
}

/// A connection to it.
pub(super) enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

/// A socket, all reads and writes of which together take so long at most.
pub(super) struct Timed {
    socket: Wire,
    timeout: Duration,
    /// Without a bound if there is none.
    until: Option<Instant>,
}

enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp { address, .. } => write!(f, "http://{address}"),
            Self::Tls(at) => write!(f, "https://{}", at.address),
        }
    }
}

impl fmt::Debug for Place {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Protected {
    pub(super) fn new(address: &str, token: &str, authorities: &Path) -> io::Result<Self> {
        let wrong = |why: &str| io::Error::new(ErrorKind::InvalidInput, why.to_owned());
        let host = address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let (host, _) = host.ok_or_else(|| wrong("an address is `HOST:PORT`"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = ServerName::try_from(host.to_owned());
        let host = host.map_err(|_| wrong("the host is neither a name nor an address"))?;
        let file = |error: &dyn fmt::Display| {
            let text = format!("{}: {error}", authorities.display());
            io::Error::new(ErrorKind::InvalidInput, text)
        };
        let mut roots = RootCertStore::empty();
        let text = disktime_profiler::read_bytes(authorities).map_err(|error| file(&error))?;
        for root in CertificateDer::pem_slice_iter(&text) {
            let root = root.map_err(|error| file(&error))?;
            roots.add(root).map_err(|error| file(&error))?;
        }
        if roots.is_empty() {
            return Err(file(&"no certificate is in it"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (address, token, settings) = (address.to_owned(), token.to_owned(), settings.into());
        Ok(Self { address, host, token, settings })
    }

    fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        let mut last = io::Error::new(ErrorKind::NotFound, "its host has no address");
        let until = clock::now() + nanos(timeout);
        for address in self.address.to_socket_addrs()? {
            match tcp(&address, (timeout, until)) {
                Ok(stream) => {
                    let session =
                        ClientConnection::new(Arc::clone(&self.settings), self.host.clone());
                    let session = session.map_err(io::Error::other)?;
                    return Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Place {
    /// A connection, which takes so long at most with all its reads and writes, unless that
    /// [is lifted](Stream::wait_without_end).
    pub(super) fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        let until = clock::now() + nanos(timeout);
        match self {
            Self::Unix(path) => {
                // A listener may have no room.
                let socket = Socket::connect(&Address::Unix { path: path.clone() }, until);
                let socket = socket.and_then(|socket| {
                    let address = || Address::Unix { path: path.clone() };
                    let failed = |errno| ConnectError::Socket { address: address(), errno };
                    socket.into_blocking().map_err(failed)
                });
                let socket = socket.map_err(|error| match error {
                    ConnectError::Socket { errno, .. } => errno.into(),
                    error => io::Error::other(error),
                })?;
                let socket = Wire::Unix(UnixStream::from(socket));
                Ok(Stream::Plain(Timed { socket, timeout, until: Some(until) }))
            }
            Self::Tcp { address, .. } => tcp(address, (timeout, until)).map(Stream::Plain),
            Self::Tls(at) => at.connect(timeout),
        }
    }

    /// The host that requests name.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Unix(_) => "disktime".to_owned(),
            Self::Tcp { address, .. } => address.to_string(),
            Self::Tls(at) => at.address.clone(),
        }
    }

    /// The header with the token, where one is shown.
    pub(super) fn bearer(&self) -> Option<String> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp { token, .. } => Some(format!("Bearer {token}")),
            Self::Tls(at) => Some(format!("Bearer {}", at.token)),
        }
    }
}

fn tcp(address: &SocketAddr, (timeout, until): (Duration, Instant)) -> io::Result<Timed> {
    let left = left(timeout, Some(until))?.unwrap_or(timeout);
    let socket = TcpStream::connect_timeout(address, left).map(Wire::Tcp)?;
    Ok(Timed { socket, timeout, until: Some(until) })
}

fn nanos(time: Duration) -> disktime_core::Duration {
    disktime_core::Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The time that is left, never zero.
fn left(timeout: Duration, until: Option<Instant>) -> io::Result<Option<Duration>> {
    let Some(until) = until else { return Ok(None) };
    match until.since(clock::now()).as_nanos() {
        0 => Err(late(timeout)),
        // A socket's bound is in whole microseconds, and zero is none.
        left => Ok(Some(Duration::from_micros(left.div_ceil(1000)))),
    }
}

fn late(timeout: Duration) -> io::Error {
    let text = format!("it has not answered within {} s", timeout.as_secs_f64());
    io::Error::new(ErrorKind::TimedOut, text)
}

impl Stream {
    /// Waits for what comes as long as that takes.
    pub(super) fn wait_without_end(&mut self) {
        match self {
            Self::Plain(socket) => socket.until = None,
            Self::Tls(stream) => stream.sock.until = None,
        }
    }
}

impl Timed {
    /// The system's word for a bound that has passed says nothing to people.
    fn done<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => late(self.timeout),
            _ => error,
        })
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = left(self.timeout, self.until)?;
        let read = match &mut self.socket {
            Wire::Unix(socket) => socket.set_read_timeout(left).and_then(|()| socket.read(bytes)),
            Wire::Tcp(socket) => socket.set_read_timeout(left).and_then(|()| socket.read(bytes)),
        };
        self.done(read)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = left(self.timeout, self.until)?;
        let written = match &mut self.socket {
            Wire::Unix(socket) => socket.set_write_timeout(left).and_then(|()| socket.write(bytes)),
            Wire::Tcp(socket) => socket.set_write_timeout(left).and_then(|()| socket.write(bytes)),
        };
        self.done(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
