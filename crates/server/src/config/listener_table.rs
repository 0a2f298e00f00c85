//! Listeners of their own: who reaches which virtual disks there, and how they are protected.

use std::path::PathBuf;

use disktime_config::{Named, ValueError};
use serde::Deserialize;

use super::{ConfigError, Listen, SocketAccess};
use crate::tls::TlsFiles;

/// Whether clients of a listener use TLS.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TlsUse {
    /// They can't.
    #[default]
    Off,
    /// They may.
    Allow,
    /// They must: nothing is told to others.
    Require,
}

impl std::str::FromStr for TlsUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "allow" => Ok(Self::Allow),
            "require" => Ok(Self::Require),
            _ => Err("`off`, `allow` or `require`".to_owned()),
        }
    }
}

/// A place where clients connect, and what they find there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// Its address.
    pub listen: Listen,
    /// Users that may connect, if it is a Unix socket.
    pub access: SocketAccess,
    /// The virtual disks that are reached here, by name; else all.
    pub vdisks: Option<Vec<String>>,
    /// Whether clients use TLS.
    pub tls: TlsUse,
}

/// The table `[[listener]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListenerTable {
    nbd: String,
    mode: Option<String>,
    owner: Option<String>,
    group: Option<String>,
    vdisks: Option<Vec<String>>,
    tls: Option<String>,
}

/// The table `[tls]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsTable {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    revoked: Option<PathBuf>,
}

impl TlsTable {
    pub(super) fn check(&self) -> Result<TlsFiles, ConfigError> {
        let Self { certificate, key, client_ca, revoked } = self;
        if let (None, Some(revoked)) = (client_ca, revoked) {
            let reason = "it lists clients' certificates: name their authority, `client_ca`, too";
            let text = revoked.display().to_string();
            return Err(ValueError::new("tls", "revoked", &text, reason).into());
        }
        let (certificate, key) = (certificate.clone(), key.clone());
        Ok(TlsFiles { certificate, key, client_ca: client_ca.clone(), revoked: revoked.clone() })
    }
}

impl ListenerTable {
    pub(super) fn check(&self) -> Result<Door, ConfigError> {
        let of = Named::new("listener", &self.nbd);
        let listen: Listen =
            self.nbd.parse().map_err(|why: String| of.wrong("nbd", &self.nbd, why))?;
        let said = [("mode", &self.mode), ("owner", &self.owner), ("group", &self.group)];
        let said = said.into_iter().find_map(|(key, text)| Some((key, text.as_deref()?)));
        if let (Some((key, text)), Listen::Tcp(_)) = (said, &listen) {
            let reason = "only a `unix:` listener has it: leave it out";
            return Err(of.wrong(key, text, reason).into());
        }
        let access = SocketAccess::parse(self.mode.as_deref(), self.group.as_deref());
        let mut access = access.map_err(|(key, why)| {
            let text = if key == "mode" { &self.mode } else { &self.group };
            of.wrong(key, text.as_deref().unwrap_or_default(), why)
        })?;
        access.owner = of.read("owner", self.owner.as_deref(), super::listen::user_number)?;
        if let Some([]) = self.vdisks.as_deref() {
            let reason = "name at least one, or leave it out for all of them";
            return Err(of.wrong("vdisks", "[]", reason).into());
        }
        let tls = of.read("tls", self.tls.as_deref(), str::parse)?.unwrap_or_default();
        Ok(Door { listen, access, vdisks: self.vdisks.clone(), tls })
    }
}

/// Whether the doors are good together with what else was read: with the virtual disks' names, and with
/// `[tls]` if that is there.
pub(super) fn check_doors(
    doors: &[Door],
    vdisks: &[&str],
    tls: Option<&TlsFiles>,
) -> Vec<ConfigError> {
    let mut wrong: Vec<ConfigError> = Vec::new();
    for (at, door) in doors.iter().enumerate() {
        let address = door.listen.to_string();
        let of = Named::new("listener", &address);
        if doors[..at].iter().any(|other| other.listen == door.listen) {
            wrong.push(of.wrong("nbd", &address, "the address of another one too").into());
        }
        let unknown = door.vdisks.iter().flatten().find(|name| !vdisks.contains(&&***name));
        if let Some(name) = unknown {
            let reason = format!("no such virtual disk; there are: {}", vdisks.join(", "));
            wrong.push(of.wrong("vdisks", name, reason).into());
        }
        if door.tls != TlsUse::Off && tls.is_none() {
            let reason = "a table `[tls]` must name a `certificate` and its `key`";
            wrong.push(
                of.wrong(
                    "tls",
                    if door.tls == TlsUse::Allow { "allow" } else { "require" },
                    reason,
                )
                .into(),
            );
        }
        let beyond = matches!(&door.listen, Listen::Tcp(at) if !at.ip().is_loopback());
        if beyond && door.tls != TlsUse::Require {
            let reason = "beyond loopback addresses (127.0.0.1, [::1]) only with `tls = \"require\"`: \
                          the protocol runs in the clear";
            wrong.push(of.wrong("nbd", &address, reason).into());
        }
    }
    wrong
}
