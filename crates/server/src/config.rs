//! The configuration: TOML in, checked plans out.
//!
//! Unknown keys are errors, and every error names the key, its value and what is allowed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use disktime_core::{Class, Contract, ParseShareError, Share};
use disktime_model::preset::{self, Preset};
use serde::Deserialize;

use crate::backend::BackEndKind;

mod listen;
mod quantity;

pub use listen::Listen;
pub use quantity::parse_size;

/// The longest name of a device or virtual disk in bytes.
const NAME_MAX: usize = 64;
/// The largest virtual disk in bytes.
const SIZE_MAX: u64 = 1 << 50;
/// All virtual disks of one memory back end together, in bytes.
const MEMORY_MAX: u64 = 1 << 40;

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A value that is not allowed.
    #[error("{key} = \"{value}\": {reason}")]
    Value {
        /// Which key, with its table and name.
        key: String,
        /// What it says.
        value: String,
        /// What is allowed.
        reason: String,
    },
    /// The parts do not fit together.
    #[error("{0}")]
    Whole(String),
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where NBD clients connect.
    pub listen: Vec<Listen>,
    /// The devices, each with its virtual disks.
    pub devices: Vec<DeviceConfig>,
}

/// A device and its virtual disks.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its name.
    pub name: String,
    /// What stores its bytes.
    pub back_end: BackEndKind,
    /// The timing model in front of it.
    pub emulate: Option<&'static Preset>,
    /// A name in the core's registry of policies.
    pub policy: String,
    /// A name in the core's registry of cost models.
    pub cost_model: String,
    /// Pieces at the device at once.
    pub queue_depth: u32,
    /// Share kept free by admission.
    pub headroom: Share,
    /// Its virtual disks.
    pub vdisks: Vec<VdiskConfig>,
}

/// A virtual disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VdiskConfig {
    /// Its name, and its export's.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its contract.
    pub contract: Contract,
    /// Where its requests are recorded as a trace, if at all.
    pub record: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    server: ServerTable,
    #[serde(default)]
    device: Vec<DeviceTable>,
    #[serde(default)]
    vdisk: Vec<VdiskTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTable {
    nbd: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    name: String,
    back_end: String,
    emulate: Option<String>,
    policy: Option<String>,
    cost_model: Option<String>,
    queue_depth: Option<u32>,
    headroom: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VdiskTable {
    name: String,
    device: String,
    size: String,
    reserve: Option<String>,
    limit: Option<String>,
    weight: Option<u32>,
    class: Option<String>,
    record: Option<PathBuf>,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// If it can't be read or used.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Checks a configuration's text.
    ///
    /// # Errors
    /// If it can't be used.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)?;
        let listen = file
            .server
            .nbd
            .iter()
            .map(|text| text.parse().map_err(|reason| value("server.nbd", text, reason)));
        let listen = listen.collect::<Result<Vec<_>, _>>()?;
        if listen.is_empty() {
            let reason = "name at least one `unix:PATH` or `tcp:ADDRESS:PORT`".to_owned();
            return Err(value("server.nbd", "[]", reason));
        }
        let mut devices =
            file.device.iter().map(DeviceTable::check).collect::<Result<Vec<_>, _>>()?;
        unique("device", devices.iter().map(|device| device.name.as_str()))?;
        unique("vdisk", file.vdisk.iter().map(|vdisk| vdisk.name.as_str()))?;
        for table in &file.vdisk {
            let vdisk = table.check()?;
            let known = devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
            let device = devices.iter_mut().find(|device| device.name == table.device);
            let device = device.ok_or_else(|| {
                let key = format!("vdisk {}: device", table.name);
                value(
                    &key,
                    &table.device,
                    format!("no such device; there are: {}", known.join(", ")),
                )
            })?;
            device.vdisks.push(vdisk);
        }
        devices.iter().try_for_each(DeviceConfig::check)?;
        Ok(Self { listen, devices })
    }

    /// All virtual disks with their devices.
    pub fn vdisks(&self) -> impl Iterator<Item = (&DeviceConfig, &VdiskConfig)> {
        self.devices
            .iter()
            .flat_map(|device| device.vdisks.iter().map(move |vdisk| (device, vdisk)))
    }
}

impl DeviceConfig {
    /// First bytes of the virtual disks on the device, in order, and where the last one ends.
    /// Each starts on a boundary of 1 MiB.
    #[must_use]
    pub fn places(&self) -> (Vec<u64>, u64) {
        let mut end = 0u64;
        let place = |vdisk: &VdiskConfig| {
            let base = end;
            end = (base + vdisk.size).next_multiple_of(1 << 20);
            base
        };
        (self.vdisks.iter().map(place).collect(), end)
    }

    /// Everything but the name and the virtual disks, to see whether it differs.
    pub(crate) fn settings(&self) -> impl PartialEq + use<> {
        let emulate = self.emulate.map(|preset| preset.name);
        let names = (self.policy.clone(), self.cost_model.clone());
        (self.back_end.clone(), emulate, names, self.queue_depth, self.headroom)
    }

    /// What only shows with all virtual disks at hand.
    fn check(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        let reserved = self.vdisks.iter().map(|vdisk| u64::from(vdisk.contract.reserve.ppm()));
        let reserved = reserved.sum::<u64>();
        let available = Share::PARTS - self.headroom.ppm();
        if reserved > u64::from(available) {
            let percent = |ppm: u64| format!("{}.{:04}%", ppm / 10_000, ppm % 10_000);
            return Err(ConfigError::Whole(format!(
                "device {name}: reservations come to {}, {} may be reserved: lower one, or the headroom",
                percent(reserved),
                Share::from_ppm(available).expect("a part of the whole"),
            )));
        }
        let (_, end) = self.places();
        let most = match (&self.back_end, self.emulate) {
            (_, Some(preset)) => (preset.build)(0).capacity_bytes(),
            (BackEndKind::Memory, None) => MEMORY_MAX,
            (BackEndKind::File(_), None) => u64::MAX,
        };
        if end > most {
            return Err(ConfigError::Whole(format!(
                "device {name}: its virtual disks come to {end} bytes, it has {most}: make one smaller"
            )));
        }
        Ok(())
    }
}

impl DeviceTable {
    fn check(&self) -> Result<DeviceConfig, ConfigError> {
        let key = |key: &str| format!("device {}: {key}", self.name);
        check_name("device", &self.name)?;
        let back_end = self.back_end.parse();
        let back_end = back_end.map_err(|why| value(&key("back_end"), &self.back_end, why))?;
        let emulate = self.emulate.as_deref().map(|name| {
            let known = || preset::PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>();
            preset::find(name).ok_or_else(|| {
                value(
                    &key("emulate"),
                    name,
                    format!("no such preset; there are: {}", known().join(", ")),
                )
            })
        });
        let emulate = emulate.transpose()?;
        let policy = self.policy.clone().unwrap_or_else(|| "zygaria".to_owned());
        if disktime_core::policy::find(&policy).is_none() {
            let error = disktime_core::ConfigError::UnknownPolicy(policy.clone());
            return Err(value(&key("policy"), &policy, error.to_string()));
        }
        let cost_model = self.cost_model.clone().unwrap_or_else(|| "fixed".to_owned());
        if disktime_core::cost::find(&cost_model).is_none() {
            let error = disktime_core::ConfigError::UnknownCostModel(cost_model.clone());
            return Err(value(&key("cost_model"), &cost_model, error.to_string()));
        }
        let most = emulate.map_or(1024, |preset| (preset.build)(0).queue_depth());
        let queue_depth = self.queue_depth.unwrap_or(1);
        if !(1..=most).contains(&queue_depth) {
            let text = queue_depth.to_string();
            return Err(value(
                &key("queue_depth"),
                &text,
                format!("this device takes 1 to {most}"),
            ));
        }
        let headroom = share(&key("headroom"), self.headroom.as_deref(), Share::ZERO)?;
        Ok(DeviceConfig {
            name: self.name.clone(),
            back_end,
            emulate,
            policy,
            cost_model,
            queue_depth,
            headroom,
            vdisks: Vec::new(),
        })
    }
}

impl VdiskTable {
    fn check(&self) -> Result<VdiskConfig, ConfigError> {
        let key = |key: &str| format!("vdisk {}: {key}", self.name);
        check_name("vdisk", &self.name)?;
        let size = parse_size(&self.size).map_err(|why| value(&key("size"), &self.size, why))?;
        if !(512..=SIZE_MAX).contains(&size) || !size.is_multiple_of(512) {
            let reason = format!("a size is a multiple of 512 bytes, up to {SIZE_MAX}");
            return Err(value(&key("size"), &self.size, reason));
        }
        let reserve = share(&key("reserve"), self.reserve.as_deref(), Share::ZERO)?;
        let limit = share(&key("limit"), self.limit.as_deref(), Share::FULL)?;
        if limit == Share::ZERO {
            let reason = "above 0%: else the virtual disk could never run".to_owned();
            return Err(value(&key("limit"), "0%", reason));
        }
        if reserve > limit {
            let reason = format!("at most the limit, {limit}");
            return Err(value(&key("reserve"), &reserve.to_string(), reason));
        }
        let weight = self.weight.unwrap_or(100);
        if !(1..=Contract::WEIGHT_MAX).contains(&weight) {
            let reason = format!("a weight is 1 to {}", Contract::WEIGHT_MAX);
            return Err(value(&key("weight"), &weight.to_string(), reason));
        }
        let class = self.class.as_deref().unwrap_or("best-effort");
        let class = CLASSES.iter().find(|(name, _)| *name == class).ok_or_else(|| {
            let known = CLASSES.map(|(name, _)| name).join(", ");
            value(&key("class"), class, format!("no such class; there are: {known}"))
        })?;
        let contract =
            Contract { reserve, limit, weight, class: class.1, rate: None, latency: None };
        Ok(VdiskConfig { name: self.name.clone(), size, contract, record: self.record.clone() })
    }
}

/// Classes by name.
const CLASSES: [(&str, Class); 5] = [
    ("guaranteed-latency", Class::GuaranteedLatency),
    ("guaranteed-rate", Class::GuaranteedRate),
    ("soft-real-time", Class::SoftRealTime),
    ("best-effort", Class::BestEffort),
    ("background", Class::Background),
];

fn share(key: &str, text: Option<&str>, default: Share) -> Result<Share, ConfigError> {
    let parse = |text: &str| {
        text.parse().map_err(|error: ParseShareError| value(key, text, error.to_string()))
    };
    text.map_or(Ok(default), parse)
}

/// Names are file names and parts of URIs.
fn check_name(table: &str, name: &str) -> Result<(), ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) || name.starts_with('.')
    {
        let reason =
            format!("1 to {NAME_MAX} letters, digits, `-`, `_` and `.`, not starting with `.`");
        return Err(value(&format!("{table}.name"), name, reason));
    }
    Ok(())
}

fn unique<'a>(table: &str, names: impl Iterator<Item = &'a str>) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            let reason = "the name of another one too".to_owned();
            return Err(value(&format!("{table}.name"), name, reason));
        }
    }
    Ok(())
}

fn value(key: &str, value: &str, reason: String) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), value: value.to_owned(), reason }
}

#[cfg(test)]
mod tests;
