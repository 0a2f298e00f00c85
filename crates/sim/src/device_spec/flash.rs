//! A flash drive as a file describes it.

use disktime_core::Duration;
use disktime_model::flash::{Duplex, Firmware, FlashSpec, Later, Suspend, Wait};
use disktime_model::preset::Parameters;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;

use super::values::{DeviceError, Place, QUEUE, SOME};

/// The smallest unit of a flash drive's map.
const UNIT_BYTES: u64 = 4096;
/// With its spare. Each TiB takes up to 2 GiB of the simulator's memory.
const FLASH_BYTES_MAX: u64 = 4 << 40;

/// A flash drive: what differs from a preset, `flash-generic` if none is named.
#[derive(Clone, Debug, Default)]
pub struct FlashTable {
    based_on: Option<String>,
    shape: ShapeTable,
    speeds: SpeedsTable,
}

/// The parts of the drive.
#[derive(Clone, Debug, Default)]
struct ShapeTable {
    capacity: Option<String>,
    spare: Option<String>,
    channels: Option<i64>,
    dies_per_channel: Option<i64>,
    page: Option<PageTable>,
    pages_per_block: Option<i64>,
    write_buffer: Option<String>,
    queue_depth: Option<i64>,
}

/// The times and rates of its parts.
#[derive(Clone, Debug, Default)]
struct SpeedsTable {
    read: Option<String>,
    program: Option<String>,
    erase: Option<String>,
    suspend: Option<SuspendTable>,
    channel: Option<String>,
    link: Option<LinkTable>,
    firmware: Option<FirmwareTable>,
    later: Option<LaterTable>,
}

/// The keys of a [`FlashTable`], in the order in which errors list them.
#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    BasedOn,
    Capacity,
    Spare,
    Channels,
    DiesPerChannel,
    Page,
    PagesPerBlock,
    Read,
    Program,
    Erase,
    Suspend,
    Channel,
    Link,
    Firmware,
    WriteBuffer,
    QueueDepth,
    Later,
}

impl<'de> Deserialize<'de> for FlashTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

/// Reads a [`FlashTable`] key by key. `serde(flatten)` would lose the list of keys in errors.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = FlashTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of a flash drive")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FlashTable, A::Error> {
        let mut table = FlashTable::default();
        let FlashTable { based_on, shape, speeds } = &mut table;
        while let Some(key) = map.next_key()? {
            match key {
                Key::BasedOn => *based_on = map.next_value()?,
                Key::Capacity => shape.capacity = map.next_value()?,
                Key::Spare => shape.spare = map.next_value()?,
                Key::Channels => shape.channels = map.next_value()?,
                Key::DiesPerChannel => shape.dies_per_channel = map.next_value()?,
                Key::Page => shape.page = map.next_value()?,
                Key::PagesPerBlock => shape.pages_per_block = map.next_value()?,
                Key::Read => speeds.read = map.next_value()?,
                Key::Program => speeds.program = map.next_value()?,
                Key::Erase => speeds.erase = map.next_value()?,
                Key::Suspend => speeds.suspend = map.next_value()?,
                Key::Channel => speeds.channel = map.next_value()?,
                Key::Link => speeds.link = map.next_value()?,
                Key::Firmware => speeds.firmware = map.next_value()?,
                Key::WriteBuffer => shape.write_buffer = map.next_value()?,
                Key::QueueDepth => shape.queue_depth = map.next_value()?,
                Key::Later => speeds.later = map.next_value()?,
            }
        }
        Ok(table)
    }
}

/// The state of the drive later in the run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LaterTable {
    after: String,
    program: String,
}

/// Whether a read waits for a program or an erase to end.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum SuspendTable {
    Never,
    Within(String),
    /// For each a time, `under-way`, or the end of all if that is left out.
    Each {
        program: Option<String>,
        erase: Option<String>,
    },
}

/// A link's rate, and whether both directions have it at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum LinkTable {
    Rate(String),
    Duplex(DuplexTable),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DuplexTable {
    rate: String,
    duplex: String,
}

/// A page that is mapped by 4 KiB, or by another unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum PageTable {
    Size(String),
    Mapped(MappedTable),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MappedTable {
    size: String,
    unit: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirmwareTable {
    read: String,
    write: String,
    #[serde(default = "nothing")]
    write_each: String,
}

fn nothing() -> String {
    "0ns".to_owned()
}

impl FlashTable {
    pub(super) fn check(&self, place: &Place) -> Result<FlashSpec, DeviceError> {
        let mut spec = base(place, self.based_on.as_deref().unwrap_or("flash-generic"))?;
        if let Some(text) = &self.shape.capacity {
            spec.capacity_bytes = place.size("capacity", text, UNIT_BYTES)?;
        }
        if let Some(text) = &self.shape.spare {
            spec.spare_permille = place.permille("spare", text)?;
            if spec.spare_permille == 0 {
                return Err(place.error(
                    "spare",
                    format_args!("`{text}`"),
                    "0.1% to 100% is needed",
                ));
            }
        }
        if let Some(count) = self.shape.channels {
            spec.channels = place.number("channels", count, 1..=1024)?;
        }
        if let Some(count) = self.shape.dies_per_channel {
            spec.dies_per_channel = place.number("dies_per_channel", count, 1..=1024)?;
        }
        match &self.shape.page {
            Some(PageTable::Size(text)) => {
                spec.page.bytes = place.size("page", text, spec.page.unit_bytes)?;
            }
            Some(PageTable::Mapped(MappedTable { size, unit })) => {
                let place = place.table("page");
                spec.page.unit_bytes = place.size("unit", unit, UNIT_BYTES)?;
                spec.page.bytes = place.size("size", size, spec.page.unit_bytes)?;
            }
            None => {}
        }
        if !spec.capacity_bytes.is_multiple_of(spec.page.unit_bytes) {
            let allowed = format!("a multiple of the map's {}B is needed", spec.page.unit_bytes);
            let value = format_args!("{}B", spec.capacity_bytes).to_string();
            return Err(place.error("capacity", value, allowed));
        }
        if let Some(count) = self.shape.pages_per_block {
            spec.page.per_block = place.number("pages_per_block", count, 1..=65_536)?;
        }
        if let Some(text) = &self.shape.write_buffer {
            spec.write_buffer_bytes = place.size("write_buffer", text, UNIT_BYTES)?;
        }
        if let Some(depth) = self.shape.queue_depth {
            spec.queue_depth = place.number("queue_depth", depth, QUEUE)?;
        }
        self.times(place, &mut spec)?;
        fits(place, &spec)?;
        Ok(spec)
    }

    fn times(&self, place: &Place, spec: &mut FlashSpec) -> Result<(), DeviceError> {
        if let Some(text) = &self.speeds.read {
            spec.read = place.time("read", text, SOME)?;
        }
        if let Some(text) = &self.speeds.program {
            spec.program = place.time("program", text, SOME)?;
        }
        if let Some(LaterTable { after, program }) = &self.speeds.later {
            let place = place.table("later");
            spec.later = Some(Later {
                after: place.time("after", after, Duration::ZERO)?,
                program: place.time("program", program, SOME)?,
            });
        }
        if let Some(text) = &self.speeds.erase {
            spec.erase = place.time("erase", text, Duration::ZERO)?;
        }
        if let Some(suspend) = &self.speeds.suspend {
            spec.suspend = match suspend {
                SuspendTable::Never => Suspend::NEVER,
                SuspendTable::Within(text) => {
                    let place = place.table("suspend");
                    Suspend::within(place.time("within", text, Duration::ZERO)?)
                }
                SuspendTable::Each { program, erase } => {
                    let place = place.table("suspend").table("each");
                    Suspend {
                        program: wait(&place, "program", program.as_deref())?,
                        erase: wait(&place, "erase", erase.as_deref())?,
                    }
                }
            };
        }
        if let Some(text) = &self.speeds.channel {
            spec.channel_bytes_per_second = place.rate("channel", text)?;
        }
        match &self.speeds.link {
            Some(LinkTable::Rate(text)) => spec.link.bytes_per_second = place.rate("link", text)?,
            Some(LinkTable::Duplex(DuplexTable { rate, duplex: text })) => {
                let place = place.table("link");
                spec.link.bytes_per_second = place.rate("rate", rate)?;
                spec.link.duplex = duplex(&place, text)?;
            }
            None => {}
        }
        if let Some(FirmwareTable { read, write, write_each }) = &self.speeds.firmware {
            let place = place.table("firmware");
            spec.firmware = Firmware {
                read: place.time("read", read, SOME)?,
                write: place.time("write", write, SOME)?,
                write_each: place.time("write_each", write_each, Duration::ZERO)?,
            };
        }
        Ok(())
    }
}

fn duplex(place: &Place, text: &str) -> Result<Duplex, DeviceError> {
    match text {
        "half" => Ok(Duplex::Half),
        "full" => Ok(Duplex::Full),
        _ => Err(place.error("duplex", format_args!("`{text}`"), "`half` or `full` is needed")),
    }
}

fn wait(place: &Place, key: &str, text: Option<&str>) -> Result<Wait, DeviceError> {
    match text {
        None => Ok(Wait::ForAll),
        Some("under-way") => Ok(Wait::ForUnderWay),
        Some(text) => Ok(Wait::Within(place.time(key, text, Duration::ZERO)?)),
    }
}

fn base(place: &Place, name: &str) -> Result<FlashSpec, DeviceError> {
    match super::find(place, "based_on", name)?.parameters {
        Parameters::Flash(spec) => Ok(spec()),
        _ => Err(place.error(
            "based_on",
            format_args!("`{name}`"),
            "a flash drive's preset is needed",
        )),
    }
}

/// Checks the rules that concern several numbers.
fn fits(place: &Place, spec: &FlashSpec) -> Result<(), DeviceError> {
    if spec.write_buffer_bytes < spec.page.bytes {
        let allowed = format!("at least a page of {}B is needed", spec.page.bytes);
        return Err(place.error(
            "write_buffer",
            format_args!("{}B", spec.write_buffer_bytes),
            allowed,
        ));
    }
    let blocks = spec.pages_per_line();
    let line = blocks.saturating_mul(spec.page.bytes);
    if line > FLASH_BYTES_MAX / 16 {
        let value = format_args!("{blocks} in a block of every die, {line}B").to_string();
        return Err(place.error("pages_per_block", value, "at most 256GiB of them are needed"));
    }
    // The drive keeps four such blocks beside its spare.
    let flash = spec.capacity_bytes + spec.capacity_bytes / 1000 * u64::from(spec.spare_permille);
    if flash + 5 * line > FLASH_BYTES_MAX {
        let value = format_args!("{flash}B with the spare").to_string();
        let allowed = format!("at most {}B are needed", FLASH_BYTES_MAX - 5 * line);
        return Err(place.error("capacity", value, allowed));
    }
    if blocks < 2 {
        let allowed = "2 or more are needed where there is one die";
        return Err(place.error("pages_per_block", blocks, allowed));
    }
    if !spec.can_collect() {
        // So much is enough, whatever the capacity.
        let permille = 1000_u64.div_ceil(blocks - 1);
        let allowed = format!(
            "with {blocks} pages in a block of every die {}.{}% is needed, or more pages",
            permille / 10,
            permille % 10
        );
        let value = format_args!("{}.{}%", spec.spare_permille / 10, spec.spare_permille % 10);
        return Err(place.error("spare", value.to_string(), allowed));
    }
    Ok(())
}
