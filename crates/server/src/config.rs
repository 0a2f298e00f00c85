//! The configuration: TOML in, checked plans out.
//!
//! Unknown keys are errors, and every error names the key, its value and what is allowed.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use disktime_config::quantity::parse_duration;
use disktime_config::{Named, SyntaxError, ValueError};
use disktime_core::{Duration, Share};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::layout::LayoutError;
use crate::tls::TlsFiles;
use crate::vdisk_name::{NAME_MAX, is_name};
use device_table::DeviceTable;
use listener_table::{ListenerTable, TlsTable, check_doors};
use vdisk::VdiskTable;

mod changes;
mod control;
mod device_table;
mod listen;
mod listener_table;
mod memory;
mod reference;
mod vdisk;

pub use changes::Change;
pub(crate) use changes::{changes, vdisk_changes};
pub use control::WebConfig;
pub use device_table::DeviceConfig;
pub use listen::{Listen, SocketAccess};
pub use listener_table::{Door, TlsUse};
pub use reference::{KEYS, KeyRow};
pub use vdisk::{BitmapsConfig, REQUEST_BANDWIDTH, REQUEST_IOPS, VdiskConfig, VdiskGoal};

/// How long clients may be idle at least and at most, where that is bounded.
const IDLE_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A value that is not allowed.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The virtual disks of a device reserve more than there is.
    #[error(
        "device {device}: reservations come to {}.{:04}%, {available} may be reserved: lower one, or \
         the headroom",
        asked_ppm / 10_000,
        asked_ppm % 10_000
    )]
    Overbooked {
        /// Which device.
        device: String,
        /// The sum of all reservations, in parts per million.
        asked_ppm: u64,
        /// The share that may be reserved: all but the headroom.
        available: Share,
    },
    /// The virtual disks of a device can't be placed.
    #[error("device {device}: {error}")]
    Layout {
        /// Which device.
        device: String,
        /// Why.
        error: LayoutError,
    },
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where NBD clients connect.
    pub listen: Vec<Listen>,
    /// Users that may connect to the Unix sockets among them.
    pub access: SocketAccess,
    /// The Unix datagram socket where programs report missed deadlines.
    pub misses: Option<PathBuf>,
    /// Bytes of memory for clients' data and what devices need beside.
    pub memory: u64,
    /// Clients of which no byte came or went for so long are let go, if that is asked for.
    pub idle_timeout: Option<Duration>,
    /// The directory where layouts are recorded; else each lies beside its device's file.
    pub state: Option<PathBuf>,
    /// The devices, each with its virtual disks.
    pub devices: Vec<DeviceConfig>,
    /// Whether clients of `listen` use TLS.
    pub tls: TlsUse,
    /// The files for TLS.
    pub tls_files: Option<TlsFiles>,
    /// The Unix socket of the control API.
    pub control: Option<PathBuf>,
    /// The control API's TCP address, where browsers find its page, and the file of its tokens.
    pub web: Option<WebConfig>,
    /// Listeners beside `listen`, with terms of their own.
    pub listeners: Vec<Door>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    server: ServerTable,
    #[serde(default)]
    device: Vec<DeviceTable>,
    #[serde(default)]
    vdisk: Vec<VdiskTable>,
    #[serde(default)]
    listener: Vec<ListenerTable>,
    tls: Option<TlsTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTable {
    #[serde(default)]
    nbd: Vec<String>,
    tls: Option<String>,
    mode: Option<String>,
    group: Option<String>,
    misses: Option<String>,
    control: Option<control::Control>,
    tokens: Option<PathBuf>,
    state: Option<PathBuf>,
    memory: Option<String>,
    idle_timeout: Option<String>,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// If it can't be read or used.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::read_all(path).map_err(first)
    }

    /// As [`read`](Self::read), with all that can be found wrong.
    ///
    /// # Errors
    /// At least one.
    pub fn read_all(path: &Path) -> Result<Self, Vec<ConfigError>> {
        let text = disktime_profiler::read_text(path)
            .map_err(|error| vec![ConfigError::Read { path: path.to_owned(), error }])?;
        Self::parse_all(&text)
    }

    /// Checks a configuration's text.
    ///
    /// # Errors
    /// If it can't be used.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::parse_all(text).map_err(first)
    }

    /// As [`parse`](Self::parse), with all that can be found wrong: of each table the first thing.
    ///
    /// # Errors
    /// At least one.
    pub fn parse_all(text: &str) -> Result<Self, Vec<ConfigError>> {
        let file: File = toml_of(text).map_err(|error| vec![error])?;
        let mut wrong = Wrong(Vec::new());
        let listen = file.server.nbd.iter().filter_map(|text| {
            let listen = text.parse().map_err(|reason: String| wrong_server("nbd", text, reason));
            wrong.note(listen)
        });
        let listen = listen.collect::<Vec<_>>();
        if file.server.nbd.is_empty() && file.listener.is_empty() {
            let reason = "name at least one `unix:PATH` or `tcp:ADDRESS:PORT`";
            wrong.0.push(wrong_server("nbd", "[]", reason));
        }
        let access = wrong.note(file.server.access(&listen)).unwrap_or_default();
        let misses = file.server.misses.as_deref();
        let misses = misses.and_then(|text| wrong.note(misses_path(text, &listen)));
        let taken = control::Taken { listen: &listen, misses: misses.as_ref() };
        let tokens = control::tokens(file.server.tokens.as_ref(), file.server.state.as_ref());
        let control = file.server.control.as_ref();
        let control =
            control.map(|it| it.check(&taken, tokens.as_ref(), file.tls.is_some())).transpose();
        let (control, web) = wrong.note(control).flatten().unwrap_or_default();
        let real_time = |device: &DeviceTable| {
            let mut disks = file.vdisk.iter().filter(|vdisk| vdisk.device == device.name);
            disks.any(VdiskTable::is_real_time)
        };
        let devices = file.device.iter();
        let devices = devices.filter_map(|device| wrong.note(device.check(real_time(device))));
        let mut devices = devices.collect::<Vec<_>>();
        let named = || file.device.iter().map(|device| device.name.as_str());
        wrong.note(unique("device", named()));
        wrong.note(unique("vdisk", file.vdisk.iter().map(|vdisk| vdisk.name.as_str())));
        for table in &file.vdisk {
            let Some(vdisk) = wrong.note(table.check()) else { continue };
            if let Some(device) = devices.iter_mut().find(|device| device.name == table.device) {
                device.vdisks.push(vdisk);
            } else if named().all(|name| name != table.device) {
                let known = named().collect::<Vec<_>>().join(", ");
                let reason = format!("no such device; there are: {known}");
                let of = Named::new("vdisk", &table.name);
                wrong.0.push(of.wrong("device", &table.device, reason).into());
            }
        }
        for device in &devices {
            wrong.note(device.check());
        }
        let tls = Named::only("server").read("tls", file.server.tls.as_deref(), str::parse);
        let tls: TlsUse = wrong.note(tls.map_err(Into::into)).flatten().unwrap_or_default();
        let tls_files = file.tls.as_ref().map(TlsTable::check).transpose();
        let tls_files = wrong.note(tls_files).flatten();
        let listeners = file.listener.iter().filter_map(|table| wrong.note(table.check()));
        let listeners: Vec<Door> = listeners.collect();
        let vdisks: Vec<&str> = file.vdisk.iter().map(|vdisk| vdisk.name.as_str()).collect();
        let doors = [&own_doors(&listen, access, tls)[..], &listeners].concat();
        wrong.0.extend(check_doors(&doors, &vdisks, tls_files.as_ref()));
        wrong.0.extend(vdisk::check_together(
            &file.vdisk,
            tls_files.as_ref(),
            file.server.state.as_deref(),
        ));
        let memory = file.server.memory.as_deref().map(memory::parse).transpose();
        let memory = wrong.note(memory).flatten().unwrap_or_else(memory::usual);
        let idle_timeout = file.server.idle_timeout.as_deref().map(idle_timeout).transpose();
        let idle_timeout = wrong.note(idle_timeout).flatten();
        if !wrong.0.is_empty() {
            return Err(wrong.0);
        }
        let state = file.server.state;
        let config = Self {
            listen,
            access,
            misses,
            memory,
            idle_timeout,
            state,
            devices,
            tls,
            tls_files,
            control,
            web,
            listeners,
        };
        config.memory_for_clients().map_err(|error| vec![error])?;
        Ok(config)
    }

    /// Everywhere that clients connect: `listen`, where they find all virtual disks, then the others.
    #[must_use]
    pub fn doors(&self) -> Vec<Door> {
        [&own_doors(&self.listen, self.access, self.tls)[..], &self.listeners].concat()
    }

    /// Checks the table of one more virtual disk, or of the one that takes the place of the one of a
    /// name; answers its device's name as well.
    ///
    /// # Errors
    /// If it can't be used, whatever is left of the device.
    pub fn check_vdisk(
        &self,
        table: &str,
        in_place_of: Option<&str>,
    ) -> Result<(String, VdiskConfig), ConfigError> {
        let table: VdiskTable = toml_of(table)?;
        let vdisk = table.check()?;
        let of = Named::new("vdisk", &table.name);
        let Some(device) = self.devices.iter().find(|device| device.name == table.device) else {
            let known = self.devices.iter().map(|device| &*device.name).collect::<Vec<_>>();
            let reason = format!("no such device; there are: {}", known.join(", "));
            return Err(of.wrong("device", &table.device, reason).into());
        };
        let chooses = matches!(device.scheduling.queue_depth, disktime_config::QueueDepth::Auto(_));
        if table.is_real_time() && chooses {
            let reason = format!(
                "device {} chooses its queue depth, which real-time classes forbid: add it with a                  `queue_depth`",
                device.name
            );
            let class = table.class_text();
            return Err(of.wrong("class", class, reason).into());
        }
        device.with_family(vdisk.clone()).check()?;
        let stays = |it: &VdiskConfig| in_place_of.is_none_or(|name| it.name != name);
        let is_other = |it: &VdiskConfig| it.export.is_default && stays(it);
        if let (true, Some(other)) =
            (vdisk.export.is_default, self.vdisks().map(|(_, it)| it).find(|it| is_other(it)))
        {
            let reason = format!("vdisk {} is the default already", other.name);
            return Err(of.wrong("default", "true", reason).into());
        }
        let tables = [table];
        let wrong = vdisk::check_together(&tables, self.tls_files.as_ref(), self.state.as_deref());
        let [table] = tables;
        wrong.into_iter().next().map_or(Ok((table.device, vdisk)), Err)
    }

    /// Checks the table of one more device, which has no virtual disk yet.
    ///
    /// # Errors
    /// If it can't be used.
    pub fn check_device(&self, table: &str) -> Result<DeviceConfig, ConfigError> {
        let device = toml_of::<DeviceTable>(table)?.check(false)?;
        device.check()?;
        let back_end = device.back_end.paths();
        let paths = back_end.iter().map(|path| ("back_end", path));
        for (key, path) in paths.chain(device.scheduling.profile.iter().map(|it| ("profile", it))) {
            if !path.is_absolute() {
                let allowed = "an absolute path: the daemon may be started from another directory";
                let named = Named::new("device", &device.name);
                return Err(named.wrong(key, path.display(), allowed).into());
            }
        }
        Ok(device)
    }

    /// All virtual disks with their devices.
    pub fn vdisks(&self) -> impl Iterator<Item = (&DeviceConfig, &VdiskConfig)> {
        self.devices
            .iter()
            .flat_map(|device| device.vdisks.iter().map(move |vdisk| (device, vdisk)))
    }
}

fn own_doors(listen: &[Listen], access: SocketAccess, tls: TlsUse) -> Vec<Door> {
    let door = |listen: &Listen| Door { listen: listen.clone(), access, vdisks: None, tls };
    listen.iter().map(door).collect()
}

/// Errors found so far.
struct Wrong(Vec<ConfigError>);

impl Wrong {
    fn note<T>(&mut self, checked: Result<T, ConfigError>) -> Option<T> {
        checked.map_err(|error| self.0.push(error)).ok()
    }
}

/// A value that is written in TOML.
fn toml_of<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    let table = toml::from_str(text);
    table.map_err(|error| SyntaxError::new(text, error.span(), error.message()).into())
}

/// The first of several errors.
fn first(errors: Vec<ConfigError>) -> ConfigError {
    errors.into_iter().next().expect("a configuration that is refused has an error")
}

impl ServerTable {
    /// Users that may connect to the Unix sockets.
    fn access(&self, listen: &[Listen]) -> Result<SocketAccess, ConfigError> {
        let Self { mode, group, .. } = self;
        let said = [("mode", mode), ("group", group)];
        let said = said.into_iter().find_map(|(key, text)| Some((key, text.as_deref()?)));
        let unix = listen.iter().any(|listen| matches!(listen, Listen::Unix(_)));
        if let Some((key, text)) = said.filter(|_| !unix) {
            let reason = "only a `unix:` listener has it: leave it out";
            return Err(wrong_server(key, text, reason));
        }
        SocketAccess::parse(mode.as_deref(), group.as_deref()).map_err(|(key, reason)| {
            let text = if key == "mode" { mode } else { group };
            wrong_server(key, text.as_deref().unwrap_or_default(), reason)
        })
    }
}

/// A Unix socket's path, and not that of a listener.
fn misses_path(text: &str, listen: &[Listen]) -> Result<PathBuf, ConfigError> {
    let wrong = |reason: &str| Err(wrong_server("misses", text, reason));
    match text.parse() {
        Ok(path) if listen.contains(&path) => wrong("a listener's path: choose another"),
        Ok(Listen::Unix(path)) => Ok(path),
        Ok(Listen::Tcp(_)) | Err(_) => {
            wrong("a Unix datagram socket is `unix:PATH`; there is no other kind")
        }
    }
}

/// How long a client may be idle.
fn idle_timeout(text: &str) -> Result<Duration, ConfigError> {
    let (min, max) = (IDLE_TIMEOUTS.start(), IDLE_TIMEOUTS.end());
    let why = || format!("{min:?} to {max:?}; leave it out to let nobody go");
    let span = parse_duration(text)
        .and_then(|span| Some(span).filter(|span| IDLE_TIMEOUTS.contains(span)).ok_or_else(why));
    span.map_err(|why| wrong_server("idle_timeout", text, why))
}

/// Names are file names and parts of URIs.
fn check_name(table: &'static str, name: &str) -> Result<(), ConfigError> {
    if !is_name(name) {
        let reason =
            format!("1 to {NAME_MAX} letters, digits, `-`, `_` and `.`, not starting with `.`");
        return Err(ValueError::new(table, "name", name, reason).into());
    }
    Ok(())
}

fn unique<'a>(
    table: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            let reason = "the name of another one too";
            return Err(ValueError::new(table, "name", name, reason).into());
        }
    }
    Ok(())
}

fn wrong_server(key: &str, value: &str, allowed: impl Into<String>) -> ConfigError {
    ValueError::new("server", key, value, allowed).into()
}

#[cfg(test)]
mod tests;
