//! The daemon's control API as commands use it: where it is, questions, errors.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{anyhow, bail};
use clap::Args;
use disktime_api::{Event, Problem, Server as About};
use disktime_client::control::{Answer, ControlApi};
use disktime_server::clock;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BadInput;

/// Where the daemon is.
#[derive(Args, Clone, Debug)]
pub struct Daemon {
    /// The daemon's control API: `unix:PATH`, on this machine `http://127.0.0.1:PORT`, anywhere
    /// `https://HOST:PORT`; else the socket in its state directory
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The certificates, in PEM, one of which vouches for the daemon's own at an `https:` URL
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// A file with a token for an `http:` or `https:` URL, or the daemon's own file of tokens; else the variable
    /// DISKTIME_TOKEN has the token
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// The daemon's state directory; else the user's own
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    state: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The state directory of a daemon that is told of none.
///
/// # Errors
/// If the user has no home.
pub fn usual_state() -> Result<PathBuf, BadInput> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let missing = "no state directory: name one with --state, or set HOME";
    state.map(|state| state.join("disktime")).ok_or_else(|| BadInput(missing.to_owned()))
}

/// A part of an address, with everything escaped that is not plain.
fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let escape = |byte: u8| {
        if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(escape).collect()
}

/// The address of something by its name.
///
/// # Errors
/// If the name is none: a dot, or two, would be another directory.
pub fn address(kind: &str, name: &str) -> Result<String, BadInput> {
    if name.is_empty() || name.starts_with('.') {
        let allowed = "1 to 64 letters, digits, `-`, `_` and `.`, not starting with `.`";
        return Err(BadInput(format!("name = \"{name}\": {allowed}")));
    }
    Ok(format!("/v1/{kind}/{}", escaped(name)))
}

/// Events that the daemon keeps, some at a time.
pub const EVENTS: &str = "/v1/events/kept";

impl Daemon {
    /// The daemon's API.
    pub fn api(&self) -> anyhow::Result<ControlApi> {
        if let Some(url) = &self.url {
            if let Some(address) = url.strip_prefix("http://") {
                let address =
                    loopback(address).map_err(|why| BadInput(format!("--url {url}: {why}")))?;
                return Ok(ControlApi::at_tcp(address, &token(self.token_file.as_deref())?));
            }
            if let Some(address) = url.strip_prefix("https://") {
                let missing = "name the certificate that vouches for the daemon's by --ca";
                let wrong = |why: String| BadInput(format!("--url {url}: {why}"));
                let ca = self.ca.as_deref().ok_or_else(|| wrong(missing.to_owned()))?;
                let token = token(self.token_file.as_deref())?;
                let api = ControlApi::at_tls(address.trim_end_matches('/'), &token, ca);
                return Ok(api.map_err(|error| wrong(error.to_string()))?);
            }
            let Some(path) = url.strip_prefix("unix:").filter(|path| !path.is_empty()) else {
                let why = "the control API is at `unix:PATH`, `http://127.0.0.1:PORT` or, under TLS, \
                           `https://HOST:PORT`";
                bail!(BadInput(format!("--url {url}: {why}")));
            };
            return Ok(ControlApi::at(Path::new(path)));
        }
        let state = self.state.clone().map_or_else(usual_state, Ok)?;
        Ok(ControlApi::at(&state.join("control.sock")))
    }

    /// Asks, and answers what the daemon says if it did as it was asked.
    pub fn ask(
        &self,
        method: &str,
        target: &str,
        (body, tag): (Option<&impl Serialize>, Option<&str>),
    ) -> anyhow::Result<Answer> {
        let api = self.api()?;
        let body = body.map(serde_json::to_vec).transpose()?;
        let answer = api.request(method, target, (body.as_deref(), tag));
        let answer = answer.map_err(|error| gone(&api, &error))?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        let said = serde_json::from_slice::<Problem>(&answer.body);
        let said =
            said.map_or_else(|_| format!("the daemon answers {}", answer.status), |it| it.detail);
        if (400..500).contains(&answer.status) {
            bail!(BadInput(said));
        }
        bail!("{said}");
    }

    /// Asks for an object.
    pub fn get<T: DeserializeOwned>(&self, target: &str) -> anyhow::Result<T> {
        let answer = self.ask("GET", target, (None::<&()>, None))?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// A list that is empty: how to have an entry, or why commands make none.
    pub fn none_yet(&self, of: &str, remedy: &str) -> anyhow::Result<String> {
        let about: About = self.get("/v1")?;
        Ok(match about.reason {
            Some(reason) => format!("no {of}; {reason}"),
            None => format!("no {of}: {remedy}"),
        })
    }

    /// All events that the daemon keeps, after the one of a number.
    pub fn kept_events(&self, mut after: u64) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let more: Vec<Event> = self.get(&format!("{EVENTS}?after={after}"))?;
            let Some(last) = more.last() else { return Ok(events) };
            after = last.id;
            events.extend(more);
        }
    }
}

/// An address of this machine: a token that is not protected goes no farther.
fn loopback(text: &str) -> Result<SocketAddr, &'static str> {
    let text = text.trim_end_matches('/').replacen("localhost", "127.0.0.1", 1);
    let address: SocketAddr =
        text.parse().map_err(|_| "an address is like `http://127.0.0.1:7070`")?;
    let beyond = "without TLS a token goes to this machine only: serve with a certificate and use `https:`, \
         or forward the daemon's socket by `ssh -L`";
    if address.ip().is_loopback() { Ok(address) } else { Err(beyond) }
}

/// The token to show: of the one with most rights, where a file has several.
fn token(file: Option<&Path>) -> Result<String, BadInput> {
    let Some(file) = file else {
        let missing =
            "over TCP a token is shown: name its file by --token-file, or set DISKTIME_TOKEN";
        return std::env::var("DISKTIME_TOKEN").map_err(|_| BadInput(missing.to_owned()));
    };
    let shown = file.display();
    let text = disktime_profiler::read_text_of_any(file)
        .map_err(|error| BadInput(format!("--token-file {shown}: {error}")))?;
    // A token that has ended is shown only where there is no other: the daemon says then that it has.
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(clock::wall_ms());
    let now = humantime::format_rfc3339_seconds(now).to_string();
    let has_ended = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        // Dates in both forms are in the order of their texts.
        words.next() == Some("until") && words.next().is_some_and(|date| date <= &*now)
    };
    let lines = || text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
    let of = |role: &str, ended| {
        let mut lines = lines().filter(|line| has_ended(line) == ended);
        lines.find_map(|line| line.strip_prefix(role)?.split_whitespace().next())
    };
    let alone = || lines().next().filter(|line| !line.contains(char::is_whitespace));
    let best = |ended| of("operate ", ended).or_else(|| of("view ", ended));
    let token = best(false).or_else(alone).or_else(|| best(true));
    token.map(str::to_owned).ok_or_else(|| {
        BadInput(format!(
            "--token-file {shown}: no token: a line is `operate TOKEN`, `view TOKEN` or `TOKEN`"
        ))
    })
}

/// No daemon is there, it ended, or this user may not ask it.
pub fn gone(api: &ControlApi, error: &std::io::Error) -> anyhow::Error {
    let path = api.place();
    let remedy = if error.kind() == std::io::ErrorKind::PermissionDenied {
        "it is for the daemon's own user: run this as that one, or as root"
    } else {
        "is a daemon there? `disktime serve` starts one; --state or --url names it"
    };
    anyhow!("{path}: {error}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user beside the package's daemon was asked whether there is one.
    #[test]
    fn a_socket_of_another_user_is_no_missing_daemon() {
        let api = ControlApi::at(Path::new("/run/disktime/control.sock"));
        let said = |kind: std::io::ErrorKind| gone(&api, &kind.into()).to_string();
        let refused = said(std::io::ErrorKind::PermissionDenied);
        assert!(refused.contains("or as root") && !refused.contains("is a daemon"), "{refused}");
        assert!(said(std::io::ErrorKind::NotFound).contains("`disktime serve` starts one"));
    }

    #[test]
    fn a_token_goes_to_this_machine_only() {
        for (text, good) in [
            ("127.0.0.1:7070", true),
            ("localhost:7070/", true),
            ("[::1]:7070", true),
            ("192.0.2.7:7070", false),
            ("example.org:7070", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(loopback(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn a_file_of_tokens_or_of_one_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        for (text, expected) in [
            ("# roles\nview abc\noperate def until 2999-01-01\n", Some("def")),
            ("view abc\n", Some("abc")),
            // After a token was replaced, the old one was shown, which had ended.
            ("operate old until 2020-01-01\noperate new\n", Some("new")),
            ("operate old until 2020-01-01T12:00:00Z\nview abc\n", Some("abc")),
            ("operate old until 2020-01-01\n", Some("old")),
            ("\nabc\n", Some("abc")),
            ("# nothing\n", None),
            ("some words here\n", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(token(Some(&path)).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn names_stay_names_in_addresses() {
        let address = |name| address("vdisks", name).map_err(|error| error.to_string());
        assert_eq!(address("db-1_a.b").as_deref(), Ok("/v1/vdisks/db-1_a.b"));
        assert_eq!(address("a/b?c\n").as_deref(), Ok("/v1/vdisks/a%2Fb%3Fc%0A"));
        // The daemon was asked for one without a name, and said that it is not there.
        for none in ["", ".", "..", "../x"] {
            let said = address(none).unwrap_err();
            assert!(said.starts_with(&format!("name = \"{none}\": 1 to 64 letters")), "{said}");
        }
    }
}
