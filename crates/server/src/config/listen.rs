//! Where clients connect: `unix:PATH` or `tcp:ADDRESS:PORT`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A listener's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address on this machine.
    Tcp(SocketAddr),
}

impl Listen {
    /// The URI under which an export is reached here.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        match self {
            Self::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Self::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    /// Only addresses of this machine: the protocol runs in the clear.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => match address.parse::<SocketAddr>() {
                Ok(address) if address.ip().is_loopback() => Ok(Self::Tcp(address)),
                Ok(_) => {
                    Err("only loopback addresses (127.0.0.1, [::1]): there is no TLS yet"
                        .to_owned())
                }
                Err(_) => {
                    Err("an address is like `tcp:127.0.0.1:10809` or `tcp:[::1]:10809`".to_owned())
                }
            },
            _ => Err("a listener is `unix:PATH` or `tcp:ADDRESS:PORT`".to_owned()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}
