//! The keys `control` and `tokens` of `[server]`: where operators and browsers find the control API.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::{ConfigError, Listen, wrong_server};

/// The control API's TCP address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebConfig {
    /// Where it listens; port 0 is any that is free.
    pub address: SocketAddr,
    /// The file of the tokens that callers must show.
    pub tokens: PathBuf,
}

/// One address or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`unix:PATH` or `tcp:ADDRESS:PORT`, or a list of one of each")]
pub(super) enum Control {
    One(String),
    Several(Vec<String>),
}

/// Sockets that have another use.
pub(super) struct Taken<'a> {
    pub(super) listen: &'a [Listen],
    pub(super) misses: Option<&'a PathBuf>,
}

/// The file of tokens: as said, or in the state directory.
pub(super) fn tokens(said: Option<&PathBuf>, state: Option<&PathBuf>) -> Option<PathBuf> {
    said.cloned().or_else(|| Some(state?.join("tokens")))
}

impl Control {
    /// A Unix socket at most, and a TCP address at most.
    pub(super) fn check(
        &self,
        taken: &Taken<'_>,
        tokens: Option<&PathBuf>,
        has_tls: bool,
    ) -> Result<(Option<PathBuf>, Option<WebConfig>), ConfigError> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        };
        let (mut unix, mut web) = (None, None);
        for text in texts {
            let wrong = |reason: &str| Err(wrong_server("control", text, reason));
            match text.parse() {
                Ok(listen) if taken.listen.contains(&listen) => {
                    return wrong("a listener's address: choose another");
                }
                Ok(Listen::Unix(path)) if Some(&path) == taken.misses => {
                    return wrong("the path of `misses`: choose another");
                }
                Ok(Listen::Unix(_)) if unix.is_some() => {
                    return wrong("a second Unix socket: one at most");
                }
                Ok(Listen::Unix(path)) => unix = Some(path),
                Ok(Listen::Tcp(_)) if web.is_some() => {
                    return wrong("a second TCP address: one at most");
                }
                Ok(Listen::Tcp(address)) => {
                    if !address.ip().is_loopback() && !has_tls {
                        return wrong(
                            "beyond this machine only under TLS: name a certificate and its key, in a table \
                             `[tls]` or by --tls-certificate and --tls-key, or choose `tcp:127.0.0.1:PORT`",
                        );
                    }
                    let Some(tokens) = tokens.cloned() else {
                        return wrong(
                            "callers over TCP show a token: name the file of `tokens`, or a `state`",
                        );
                    };
                    web = Some(WebConfig { address, tokens });
                }
                Err(reason) if text.starts_with("unix:") || text.starts_with("tcp:") => {
                    return wrong(&reason);
                }
                Err(_) => {
                    return wrong("`unix:PATH` or `tcp:ADDRESS:PORT`, or a list of one of each");
                }
            }
        }
        Ok((unix, web))
    }
}
