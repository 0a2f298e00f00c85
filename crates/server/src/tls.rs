//! TLS for NBD clients: the daemon's certificate, whom it trusts, and one connection's protected bytes.
//!
//! Bytes of the wire go in and plain ones come out, and the other way round; sockets belong to the
//! caller. Does not know: NBD, exports, time.
//!
//! TLS 1.2 and 1.3 without renegotiation, compression or keys shared beforehand (rustls has none of
//! them).

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};

mod validity;

use validity::Validity;

/// The files that TLS needs, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The daemon's certificate, and those between it and one that clients trust.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of authorities. A client that shows no certificate from one of them is refused.
    pub client_ca: Option<PathBuf>,
    /// The authorities' lists of clients' certificates that are not valid any more.
    pub revoked: Option<PathBuf>,
}

impl TlsFiles {
    /// A warning of the daemon's certificates, if one of them is not valid at that time, in milliseconds since 1970,
    /// or not for much longer. Blocks. Files that can't be read are [`Tls::load`]'s to tell of.
    #[must_use]
    pub fn warning(&self, now_ms: u64) -> Option<String> {
        let all: Vec<CertificateDer<'static>> = all(&self.certificate).ok()?;
        let mut valid = all.iter().filter_map(|certificate| Validity::of(certificate));
        let why = valid.find_map(|valid| valid.warning(now_ms / 1000))?;
        Some(format!("tls: certificate {}: {why}", self.certificate.display()))
    }
}

/// Why TLS can't be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read, or is no PEM of what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The key is not the certificate's, or something of the kind.
    #[error("certificate {} with key {}: {reason}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The protection of new connections. It can be read again while others use it.
pub struct Tls {
    files: TlsFiles,
    now: Mutex<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files. Blocks; not to be called on a shard.
    ///
    /// # Errors
    /// If one is not what it should be.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { files: files.clone(), now: Mutex::new(Arc::new(read(files)?)) })
    }

    /// Reads the files again, for connections from now on.
    ///
    /// # Errors
    /// As [`load`](Self::load): then everything stays as it is.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.renew(self.read_again()?);
        Ok(())
    }

    /// The files as they are now; nothing is changed.
    pub(crate) fn read_again(&self) -> Result<Arc<ServerConfig>, TlsError> {
        read(&self.files).map(Arc::new)
    }

    /// Protects connections from now on by what was read again.
    pub(crate) fn renew(&self, settings: Arc<ServerConfig>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// The settings for new connections, for a caller that has a driver of its own.
    #[must_use]
    pub fn settings(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server's side of a new connection.
    ///
    /// # Errors
    /// If the library refuses: it has no memory, say.
    pub fn begin(&self) -> Result<Channel, rustls::Error> {
        let mut session = ServerConnection::new(self.settings())?;
        // The caller bounds the bytes that it seals.
        session.set_buffer_limit(None);
        Ok(Channel(session))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

fn read(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let certificates: Vec<CertificateDer<'static>> = all(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&contents(&files.key)?);
    let key = key.map_err(|error| wrong(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.certificate, error))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in all::<CertificateDer<'static>>(path)? {
                roots.add(root).map_err(|error| wrong(path, error))?;
            }
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            if let Some(path) = &files.revoked {
                verifier = verifier
                    .with_crls(all::<CertificateRevocationListDer<'static>>(path)?)
                    .allow_unknown_revocation_status();
            }
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(path, error))?)
        }
    };
    builder.with_single_cert(certificates, key).map_err(|error| TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        reason: error.to_string(),
    })
}

/// All sections of a kind in a file; at least one.
fn all<T: PemObject>(path: &Path) -> Result<Vec<T>, TlsError> {
    let found = T::pem_slice_iter(&contents(path)?).collect::<Result<Vec<T>, _>>();
    let found = found.map_err(|error| wrong(path, error))?;
    if found.is_empty() { Err(wrong(path, "it has none: PEM is expected")) } else { Ok(found) }
}

/// The contents of a regular file: a device has no end, and a pipe may have nobody who writes to it.
fn contents(path: &Path) -> Result<Vec<u8>, TlsError> {
    disktime_profiler::read_bytes(path).map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, reason: impl fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// One connection's TLS.
pub struct Channel(ServerConnection);

impl Channel {
    /// A connection that has no certificate, and shakes no hands.
    #[cfg(test)]
    pub fn mute() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
        Self(ServerConnection::new(Arc::new(settings)).unwrap())
    }

    /// Takes bytes of the wire and appends the plain ones that they carry. Afterwards there may be
    /// something [to say](Self::answer), also after an error.
    ///
    /// # Errors
    /// If the peer breaks the protocol, is not trusted, or has said goodbye.
    pub fn open(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !wire.is_empty() {
            if self.0.read_tls(&mut wire)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let state = self.0.process_new_packets().map_err(io::Error::other)?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut plain[start..])?;
            if state.peer_has_closed() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Ok(())
    }

    /// Appends plain bytes, protected, to what is to be sent.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        self.0.writer().write_all(plain)?;
        self.answer(wire)
    }

    /// Appends what the protocol itself has to say.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn answer(&mut self, wire: &mut Vec<u8>) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(wire)?;
        }
        Ok(())
    }

    /// Appends the goodbye, after which nothing more is said.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn say_goodbye(&mut self, wire: &mut Vec<u8>) -> io::Result<()> {
        self.0.send_close_notify();
        self.answer(wire)
    }

    /// Whether the peer's certificate, which was found valid, is for one of these names.
    #[must_use]
    pub fn is_one_of(&self, names: &[ServerName<'static>]) -> bool {
        let certificate = self.0.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.and_then(|der| ParsedCertificate::try_from(der).ok());
        certificate.is_some_and(|certificate| {
            names.iter().any(|name| rustls::client::verify_server_name(&certificate, name).is_ok())
        })
    }
}
