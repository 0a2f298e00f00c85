//! Devices that a scenario describes: TOML in, a device of the model or an error out.
//!
//! A description is checked as a whole before anything is built, since models take impossible
//! parameters as their caller's mistake and panic.
//!
//! Does not know: how a device behaves.

mod cloud;
mod disk;
mod flash;
#[cfg(test)]
mod tests;
mod values;

use disktime_model::Device;
use disktime_model::cloud::{Cloud, CloudSpec};
use disktime_model::disk::{Disk, DiskSpec};
use disktime_model::exponential::{Exponential, ExponentialSpec, Service};
use disktime_model::flash::{Flash, FlashSpec};
use disktime_model::parity::{Level, Parity};
use disktime_model::preset::{self, Parameters, Preset};
use disktime_model::raid0::Raid0;
use disktime_model::tiered::{Cached, HitRatio, Placement, Tiered};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use cloud::CloudTable;
use disk::DiskTable;
use flash::FlashTable;
use values::{Place, QUEUE, SIZE_MAX, SOME};

pub use values::DeviceError;

/// A device as a file describes it: a table whose `kind` says which of these it is.
#[derive(Clone, Debug)]
pub enum DeviceSpec {
    /// One of the presets.
    Preset(PresetTable),
    /// A hard disk.
    Disk(Box<DiskTable>),
    /// A flash drive.
    Flash(Box<FlashTable>),
    /// A stripe set.
    Raid0(StripesTable),
    /// A stripe set with parity.
    Parity(Level, StripesTable),
    /// A fast device beside a slow one.
    Tiered(Box<TieredTable>),
    /// A server with drawn or constant service times.
    Exponential(ExponentialTable),
    /// A cloud volume.
    Cloud(Box<CloudTable>),
}

/// One of the presets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetTable {
    preset: String,
}

/// A stripe set, with parity or without.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripesTable {
    members: Vec<Member>,
    chunk: String,
}

/// A fast device beside a slow one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TieredTable {
    fast: Member,
    slow: Member,
    hits: Hits,
}

/// Which requests the fast device serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Hits {
    /// This part of them, drawn at random.
    Ratio(String),
    /// Reads of what was read lately.
    Lru {
        /// How much is remembered.
        size: String,
        /// In pieces of this size.
        line: String,
    },
}

/// A server with drawn or constant service times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExponentialTable {
    mean: String,
    write_mean: Option<String>,
    #[serde(default)]
    service: ServiceName,
    capacity: Option<String>,
    queue_depth: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ServiceName {
    #[default]
    Exponential,
    Constant,
}

/// Part of a device: a preset's name, or a description.
#[derive(Clone, Debug)]
struct Member(DeviceSpec);

/// A description that was checked: it can be built as often as there are seeds.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    Preset(&'static Preset),
    Disk(Box<DiskSpec>),
    Flash(Box<FlashSpec>),
    Raid0 { members: Vec<Model>, chunk_bytes: u64 },
    Parity { level: Level, members: Vec<Model>, chunk_bytes: u64 },
    Tiered { fast: Box<Model>, slow: Box<Model>, rule: Rule },
    Exponential(ExponentialSpec),
    Cloud(CloudSpec),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Ratio { hits_ppm: u32 },
    Lru { lines: usize, line_bytes: u64 },
}

impl DeviceSpec {
    fn preset(name: &str) -> Self {
        Self::Preset(PresetTable { preset: name.to_owned() })
    }

    /// Builds the device; the seed decides what the description leaves open.
    ///
    /// # Errors
    /// Names the first field that makes no sense, its value, and what is allowed.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Device>, DeviceError> {
        self.check().map(|model| model.build(seed))
    }

    pub(crate) fn check(&self) -> Result<Model, DeviceError> {
        self.check_at(&Place::root())
    }

    fn check_at(&self, place: &Place) -> Result<Model, DeviceError> {
        let model = self.check_parts_at(place)?;
        let flash = model.flash_bytes();
        if flash > FLASH_BYTES_MAX {
            let key = if matches!(self, Self::Tiered(_)) { "fast, slow" } else { "members" };
            let allowed =
                format!("at most {FLASH_BYTES_MAX}B are needed: name fewer or smaller ones");
            return Err(place.error(key, format_args!("{flash}B in all flash drives"), allowed));
        }
        Ok(model)
    }

    fn check_parts_at(&self, place: &Place) -> Result<Model, DeviceError> {
        match self {
            Self::Preset(table) => find(place, "preset", &table.preset).map(Model::Preset),
            Self::Disk(table) => table.check(place).map(|spec| Model::Disk(Box::new(spec))),
            Self::Flash(table) => table.check(place).map(|spec| Model::Flash(Box::new(spec))),
            Self::Raid0(table) => {
                let (members, chunk_bytes) = table.check(place, 1)?;
                Ok(Model::Raid0 { members, chunk_bytes })
            }
            Self::Parity(level, table) => {
                let (members, chunk_bytes) = table.check(place, Parity::MEMBERS_MIN)?;
                Ok(Model::Parity { level: *level, members, chunk_bytes })
            }
            Self::Tiered(table) => table.check(place),
            Self::Exponential(table) => table.check(place).map(Model::Exponential),
            Self::Cloud(table) => table.check(place).map(Model::Cloud),
        }
    }
}

/// The preset that a key of the table above the description names.
pub(crate) fn preset_of(key: &str, name: &str) -> Result<Model, DeviceError> {
    find(&Place::root(), key, name).map(Model::Preset)
}

/// The preset that a key names.
fn find(place: &Place, key: &str, name: &str) -> Result<&'static Preset, DeviceError> {
    preset::find(name).ok_or_else(|| {
        let known: Vec<_> = preset::PRESETS.iter().map(|preset| preset.name).collect();
        let allowed = format!("not known; there are: {}", known.join(", "));
        place.error(key, format_args!("`{name}`"), allowed)
    })
}

impl StripesTable {
    /// The members, at least so many, and a chunk's bytes.
    fn check(&self, place: &Place, least: usize) -> Result<(Vec<Model>, u64), DeviceError> {
        let count = self.members.len();
        if !(least..=64).contains(&count) {
            return Err(place.error("members", count, format!("{least} to 64 of them are needed")));
        }
        let chunk_bytes = place.size("chunk", &self.chunk, 512)?;
        let checked = self.members.iter().enumerate();
        let members = checked.map(|(index, Member(it))| it.check_at(&place.item("members", index)));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let capacities = members.iter().map(Model::capacity_bytes);
        let smallest = capacities.min().unwrap_or(0);
        if chunk_bytes > smallest {
            let allowed = format!("512B to the smallest member's {smallest}B is needed");
            return Err(place.error("chunk", format_args!("`{}`", self.chunk), allowed));
        }
        if smallest > SIZE_MAX / count as u64 {
            let value = format_args!("{count} of {smallest}B or more").to_string();
            return Err(place.error("members", value, "up to 1000TB together are needed"));
        }
        Ok((members, chunk_bytes))
    }
}

impl TieredTable {
    fn check(&self, place: &Place) -> Result<Model, DeviceError> {
        let fast = Box::new(self.fast.0.check_at(&place.table("fast"))?);
        let slow = Box::new(self.slow.0.check_at(&place.table("slow"))?);
        let place = place.table("hits");
        let rule = match &self.hits {
            Hits::Ratio(text) => Rule::Ratio { hits_ppm: place.permille("ratio", text)? * 1000 },
            Hits::Lru { size, line } => {
                let place = place.table("lru");
                let line_bytes = place.size("line", line, 512)?;
                let lines = place.size("size", size, line_bytes)? / line_bytes;
                Rule::Lru { lines: usize::try_from(lines).unwrap_or(usize::MAX), line_bytes }
            }
        };
        Ok(Model::Tiered { fast, slow, rule })
    }
}

impl ExponentialTable {
    fn check(&self, place: &Place) -> Result<ExponentialSpec, DeviceError> {
        let read_mean = place.time("mean", &self.mean, SOME)?;
        let write_mean = self.write_mean.as_ref();
        let write_mean = write_mean.map(|text| place.time("write_mean", text, SOME));
        let capacity = self.capacity.as_ref().map(|text| place.size("capacity", text, 512));
        let depth = self.queue_depth.map(|depth| place.number("queue_depth", depth, QUEUE));
        let usual = preset::exponential(read_mean);
        Ok(ExponentialSpec {
            capacity_bytes: capacity.transpose()?.unwrap_or(usual.capacity_bytes),
            queue_depth: depth.transpose()?.unwrap_or(usual.queue_depth),
            read_mean,
            write_mean: write_mean.transpose()?.unwrap_or(read_mean),
            service: match self.service {
                ServiceName::Exponential => Service::Exponential,
                ServiceName::Constant => Service::Constant,
            },
        })
    }
}

impl Model {
    /// The seed decides what the description leaves open.
    pub(crate) fn build(&self, seed: u64) -> Box<dyn Device> {
        match self {
            Self::Preset(preset) => (preset.build)(seed),
            Self::Disk(spec) => Box::new(Disk::new(spec.as_ref().clone(), seed)),
            Self::Flash(spec) => Box::new(Flash::new(**spec)),
            Self::Raid0 { members, chunk_bytes } => {
                Box::new(Raid0::new(build_members(members, seed), *chunk_bytes))
            }
            Self::Parity { level, members, chunk_bytes } => {
                Box::new(Parity::new(*level, build_members(members, seed), *chunk_bytes))
            }
            Self::Tiered { fast, slow, rule } => {
                let placement: Box<dyn Placement> = match *rule {
                    Rule::Ratio { hits_ppm } => {
                        Box::new(HitRatio::everywhere(hits_ppm, seed ^ 0x7469_6572))
                    }
                    Rule::Lru { lines, line_bytes } => Box::new(Cached::new(lines, line_bytes)),
                };
                Box::new(Tiered::new(fast.build(!seed), slow.build(seed), placement))
            }
            Self::Exponential(spec) => Box::new(Exponential::new(*spec, seed)),
            Self::Cloud(spec) => Box::new(Cloud::new(*spec, seed)),
        }
    }

    /// The capacity of all flash drives in it.
    fn flash_bytes(&self) -> u64 {
        let of_all =
            |members: &[Self]| members.iter().map(Self::flash_bytes).fold(0, u64::saturating_add);
        match self {
            Self::Preset(preset) => match preset.parameters {
                Parameters::Flash(spec) => spec().capacity_bytes,
                _ => 0,
            },
            Self::Flash(spec) => spec.capacity_bytes,
            Self::Raid0 { members, .. } | Self::Parity { members, .. } => of_all(members),
            Self::Tiered { fast, slow, .. } => {
                fast.flash_bytes().saturating_add(slow.flash_bytes())
            }
            Self::Disk(_) | Self::Exponential(_) | Self::Cloud(_) => 0,
        }
    }

    fn capacity_bytes(&self) -> u64 {
        self.build(0).capacity_bytes()
    }
}

/// As the presets do it, so that a described set is the same device.
fn build_members(members: &[Model], seed: u64) -> Vec<Box<dyn Device>> {
    let first = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..).zip(members).map(|(index, it)| it.build(first.wrapping_add(index))).collect()
}

/// By hand, since what serde derives for a tag forgets where in the table an error is.
impl<'de> Deserialize<'de> for DeviceSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::of_table(Table::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl DeviceSpec {
    fn of_table(mut table: Table) -> Result<Self, toml::de::Error> {
        let kind = table.remove("kind").ok_or_else(|| toml::de::Error::missing_field("kind"))?;
        match kind.as_str() {
            Some("preset") => PresetTable::deserialize(table).map(Self::Preset),
            Some("disk") => DiskTable::deserialize(table).map(|it| Self::Disk(Box::new(it))),
            Some("flash") => FlashTable::deserialize(table).map(|it| Self::Flash(Box::new(it))),
            Some("raid0") => StripesTable::deserialize(table).map(Self::Raid0),
            Some("raid4") => {
                StripesTable::deserialize(table).map(|it| Self::Parity(Level::Four, it))
            }
            Some("raid5") => {
                StripesTable::deserialize(table).map(|it| Self::Parity(Level::Five, it))
            }
            Some("tiered") => TieredTable::deserialize(table).map(|it| Self::Tiered(Box::new(it))),
            Some("cloud") => CloudTable::deserialize(table).map(|it| Self::Cloud(Box::new(it))),
            Some("exponential") => ExponentialTable::deserialize(table).map(Self::Exponential),
            _ => Err(toml::de::Error::custom(format!("kind: {kind} is not known; {KINDS}"))),
        }
    }
}

/// Flash drives of a device together: their maps take up to 2 GiB of memory for each TiB.
const FLASH_BYTES_MAX: u64 = 16 << 40;

const KINDS: &str =
    "there are: preset, disk, flash, raid0, raid4, raid5, tiered, exponential, cloud";

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::String(name) => Ok(Self(DeviceSpec::preset(&name))),
            Value::Table(table) => DeviceSpec::of_table(table).map(Self).map_err(D::Error::custom),
            other => Err(D::Error::custom(format!(
                "{other} is no device; a preset's name, or a table with `kind`, is needed"
            ))),
        }
    }
}
