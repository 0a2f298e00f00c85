//! Where a control API is, and connections to it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

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
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
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
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let host = address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let (host, _) = host.ok_or_else(|| wrong("an address is `HOST:PORT`"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = ServerName::try_from(host.to_owned());
        let host = host.map_err(|_| wrong("the host is neither a name nor an address"))?;
        let file = |error: &dyn fmt::Display| {
            let text = format!("{}: {error}", authorities.display());
            io::Error::new(io::ErrorKind::InvalidInput, text)
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
        let mut last = io::Error::new(io::ErrorKind::NotFound, "its host has no address");
        for address in self.address.to_socket_addrs()? {
            match tcp(&address, timeout) {
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
    /// A connection, each write of which takes so long at most.
    pub(super) fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp { address, .. } => tcp(address, timeout).map(Stream::Tcp),
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

fn tcp(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    // A handshake under TLS reads, too; a caller that waits for events lifts the bound.
    stream.set_read_timeout(Some(timeout))?;
    Ok(stream)
}

impl Stream {
    /// How long a read may wait; without a bound if there is none.
    pub(super) fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(time),
            Self::Tcp(stream) => stream.set_read_timeout(time),
            Self::Tls(stream) => stream.sock.set_read_timeout(time),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
