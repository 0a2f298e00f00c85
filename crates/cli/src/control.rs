//! The daemon's control API as commands use it: where it is, questions, errors.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::Args;
use disktime_api::Problem;
use disktime_client::control::{Answer, ControlApi};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BadInput;

/// Where the daemon is.
#[derive(Args, Clone, Debug)]
pub struct Daemon {
    /// The daemon's control socket, `unix:PATH`; else the one in its state directory
    #[arg(long, value_name = "URL")]
    url: Option<String>,
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
pub fn address(kind: &str, name: &str) -> String {
    // A dot, or two, would be another directory.
    let name = if name.is_empty() || name.starts_with('.') { "%00" } else { &escaped(name) };
    format!("/v1/{kind}/{name}")
}

impl Daemon {
    /// The daemon's API.
    pub fn api(&self) -> anyhow::Result<ControlApi> {
        if let Some(url) = &self.url {
            let Some(path) = url.strip_prefix("unix:").filter(|path| !path.is_empty()) else {
                bail!(BadInput(format!("--url {url}: a control socket is `unix:PATH`")));
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
}

/// No daemon is there, or it ended.
pub fn gone(api: &ControlApi, error: &std::io::Error) -> anyhow::Error {
    let path = api.path().display();
    anyhow!(
        "{path}: {error}: is a daemon there? `disktime serve` starts one; --state or --url names it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names_in_addresses() {
        assert_eq!(address("vdisks", "db-1_a.b"), "/v1/vdisks/db-1_a.b");
        assert_eq!(address("vdisks", "../x"), "/v1/vdisks/%00");
        assert_eq!(address("vdisks", "a/b?c\n"), "/v1/vdisks/a%2Fb%3Fc%0A");
    }
}
