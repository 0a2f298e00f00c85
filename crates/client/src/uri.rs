//! NBD URIs: `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`.
//!
//! Source: `doc/uri.md` of the `NetworkBlockDevice/nbd` repository. TLS isn't spoken here, so its
//! schemes and parameters are refused by name.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use disktime_nbd::limits::STRING_BYTES_MAX;

/// The port that IANA assigned to NBD.
pub const PORT_DEFAULT: u16 = 10809;

/// An export, and where its server is. Parses and displays as an NBD URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Where the server listens.
    pub address: Address,
    /// The export's name; empty is the server's default export.
    pub export: String,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix {
        /// Its path, absolute or from the current directory.
        path: PathBuf,
    },
    /// A TCP port.
    Tcp {
        /// A name or an address; an IPv6 address without brackets.
        host: String,
        /// The port, not 0.
        port: u16,
    },
}

/// Why a string is not an NBD URI that can be used here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its fields say")]
pub enum UriError {
    #[error("{uri:?} has no scheme: begin with nbd:// or nbd+unix://")]
    NoScheme { uri: String },
    #[error("scheme {scheme:?}: allowed are nbd and nbd+unix (TLS isn't spoken)")]
    Scheme { scheme: String },
    #[error("host {host:?}: a name, an IPv4 address or an IPv6 address in brackets is needed")]
    Host { host: String },
    #[error("user {user:?}: users belong to TLS, which isn't spoken; leave out up to the @")]
    User { user: String },
    #[error("port {port:?}: allowed are 1 to 65535")]
    Port { port: String },
    #[error("host {host:?}: must be empty for nbd+unix, as in nbd+unix:///disk?socket=/path")]
    HostBesideSocket { host: String },
    #[error("socket: nbd+unix needs it, as in nbd+unix:///disk?socket=/path")]
    NoSocket,
    #[error("socket {path:?}: a path without NUL is allowed, once")]
    Socket { path: String },
    #[error("parameter {name:?}: allowed is socket, with nbd+unix")]
    Parameter { name: String },
    #[error("fragment {fragment:?}: not allowed; a # in a name is written %23")]
    Fragment { fragment: String },
    #[error("{field} {value:?}: a % is followed by two hexadecimal digits")]
    Percent { field: &'static str, value: String },
    #[error("export {value:?}: allowed is UTF-8 without NUL of up to {STRING_BYTES_MAX} bytes")]
    Export { value: String },
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        let (scheme, rest) =
            uri.split_once("://").ok_or_else(|| UriError::NoScheme { uri: uri.into() })?;
        if let Some((_, fragment)) = rest.split_once('#') {
            return Err(UriError::Fragment { fragment: fragment.into() });
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        let address = match scheme.to_ascii_lowercase().as_str() {
            "nbd" => tcp(authority, parameters)?,
            "nbd+unix" => unix(authority, parameters)?,
            _ => return Err(UriError::Scheme { scheme: scheme.into() }),
        };
        Ok(Self { address, export: export(path)? })
    }
}

fn tcp<'a>(
    authority: &str,
    mut parameters: impl Iterator<Item = &'a str>,
) -> Result<Address, UriError> {
    if let Some(parameter) = parameters.next() {
        return Err(UriError::Parameter { name: name_of(parameter).into() });
    }
    if let Some((user, _)) = authority.rsplit_once('@') {
        return Err(UriError::User { user: user.into() });
    }
    let invalid = || UriError::Host { host: authority.into() };
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(invalid)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| invalid())?;
            let port = match port.strip_prefix(':') {
                None if !port.is_empty() => return Err(invalid()),
                port => port,
            };
            (host.to_owned(), port)
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            let host = String::from_utf8(decoded("host", host)?).map_err(|_| invalid())?;
            (host, port)
        }
    };
    if host.is_empty() || host.contains('\0') {
        return Err(invalid());
    }
    // An empty port is the default one (RFC 3986, 3.2.3).
    let port = match port.unwrap_or_default() {
        "" => PORT_DEFAULT,
        port => port
            .parse()
            .ok()
            .filter(|&number| number != 0)
            .ok_or_else(|| UriError::Port { port: port.into() })?,
    };
    Ok(Address::Tcp { host, port })
}

fn unix<'a>(
    authority: &str,
    parameters: impl Iterator<Item = &'a str>,
) -> Result<Address, UriError> {
    if !authority.is_empty() {
        return Err(UriError::HostBesideSocket { host: authority.into() });
    }
    let mut socket = None;
    for parameter in parameters {
        let path = match parameter.split_once('=') {
            Some(("socket", path)) => path,
            _ => return Err(UriError::Parameter { name: name_of(parameter).into() }),
        };
        let bytes = decoded("socket", path)?;
        if bytes.is_empty() {
            return Err(UriError::NoSocket);
        }
        if bytes.contains(&0) || socket.is_some() {
            return Err(UriError::Socket { path: path.into() });
        }
        socket = Some(PathBuf::from(OsString::from_vec(bytes)));
    }
    Ok(Address::Unix { path: socket.ok_or(UriError::NoSocket)? })
}

fn name_of(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

/// The path without its leading slash, decoded.
fn export(path: &str) -> Result<String, UriError> {
    String::from_utf8(decoded("export", path)?)
        .ok()
        .filter(|name| !name.contains('\0') && name.len() <= STRING_BYTES_MAX)
        .ok_or_else(|| UriError::Export { value: path.into() })
}

fn decoded(field: &'static str, value: &str) -> Result<Vec<u8>, UriError> {
    let error = || UriError::Percent { field, value: value.into() };
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(hex_digit).ok_or_else(error);
            let high = digit()?;
            bytes.push(high << 4 | digit()?);
        } else {
            bytes.push(byte);
        }
    }
    Ok(bytes)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Bytes as they may stand in a path or a query's value; everything doubtful is encoded.
struct Encoded<'a>(&'a [u8]);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    write!(f, "{}", char::from(byte))?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = Encoded(self.export.as_bytes());
        match &self.address {
            Address::Unix { path } => {
                write!(f, "nbd+unix:///{export}?socket={}", Encoded(path.as_os_str().as_bytes()))
            }
            Address::Tcp { host, port } if host.contains(':') => {
                write!(f, "nbd://[{host}]:{port}/{export}")
            }
            Address::Tcp { host, port } => {
                write!(f, "nbd://{}:{port}/{export}", Encoded(host.as_bytes()))
            }
        }
    }
}

impl fmt::Display for Address {
    /// As the daemon's configuration writes it: `unix:PATH` or `tcp:HOST:PORT`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path } => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}
