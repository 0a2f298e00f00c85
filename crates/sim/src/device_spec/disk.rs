//! A hard disk as a file describes it.

use disktime_core::Duration;
use disktime_model::disk::{
    BusStart, Destage, DiskSpec, Geometry, Layout, Order, Overhead, Prefetch, PublishedSeek,
    ReadAhead, SECTOR_BYTES, SeekCurve, Turn, WriteBack, Zone,
};
use disktime_model::preset::Parameters;
use serde::Deserialize;

use super::values::{DeviceError, Place, QUEUE, SIZE_MAX, SOME};

/// A hard disk: everything, or what differs from a preset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskTable {
    based_on: Option<String>,
    rpm: Option<i64>,
    heads: Option<i64>,
    /// Outermost first.
    zones: Option<Vec<ZoneTable>>,
    /// All that the zones hold, if it is left out.
    capacity: Option<String>,
    seek: Option<SeekTable>,
    head_switch: Option<String>,
    write_settle: Option<String>,
    overhead: Option<OverheadTable>,
    bus: Option<String>,
    bus_start: Option<BusStartName>,
    read_ahead: Option<ReadAheadTable>,
    write_back: Option<WriteBackTable>,
    queue_depth: Option<i64>,
    order: Option<OrderTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneTable {
    cylinders: i64,
    sectors_per_track: i64,
    #[serde(default)]
    track_skew: i64,
    #[serde(default)]
    cylinder_skew: i64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum SeekTable {
    /// The three numbers of a data sheet.
    Published { track_to_track: String, average: String, full_stroke: String },
    /// Cylinders and time, point by point.
    Table(Vec<(i64, String)>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverheadTable {
    /// Before the arm starts for a read.
    media: String,
    /// For what the buffer serves or takes.
    hit: String,
    /// The two after a write.
    media_after_write: Option<String>,
    hit_after_write: Option<String>,
    /// Before the arm starts for a write, and the same after a write.
    write_media: Option<String>,
    write_media_after_write: Option<String>,
    /// For a write taken into the buffer, and for one that continues the write before.
    accept: Option<String>,
    accept_continuing: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BusStartName {
    FirstSector,
    LastSector,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum ReadAheadTable {
    Off,
    Segments {
        count: i64,
        size: String,
        #[serde(default)]
        prefetch: PrefetchName,
    },
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PrefetchName {
    Never,
    #[default]
    Always,
    AfterSequence,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum WriteBackTable {
    Off,
    Buffer {
        size: String,
        #[serde(default = "extents")]
        extents: i64,
        #[serde(default = "yes")]
        read_hits: bool,
        #[serde(default)]
        destage: DestageName,
    },
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DestageName {
    #[default]
    Nearest,
    Oldest,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum OrderTable {
    Fcfs,
    Sstf,
    Scan,
    CScan,
    Satf { aging: String },
}

fn extents() -> i64 {
    64
}

fn yes() -> bool {
    true
}

impl DiskTable {
    pub(super) fn check(&self, place: &Place) -> Result<DiskSpec, DeviceError> {
        let base = self.based_on.as_ref().map(|name| base(place, name)).transpose()?;
        let layout = self.layout(place, base.as_ref())?;
        let geometry = Geometry::new(&layout);
        let seek = self.seek.as_ref().map(|seek| seek.check(place, geometry.cylinders()));
        let seek = match (seek.transpose()?, &base) {
            (Some(seek), _) => seek,
            (None, Some(base)) => base.seek.clone(),
            (None, None) => return Err(missing(place, "seek")),
        };
        let mut spec = DiskSpec { geometry, seek, ..base.unwrap_or_else(|| plain(&layout)) };
        if let Some(text) = &self.head_switch {
            spec.head_switch = place.time("head_switch", text, Duration::ZERO)?;
        }
        if let Some(text) = &self.write_settle {
            spec.write_settle = place.time("write_settle", text, Duration::ZERO)?;
        }
        if let Some(table) = &self.overhead {
            spec.overhead = table.check(place)?;
        }
        if let Some(text) = &self.bus {
            spec.bus_bytes_per_second = place.rate("bus", text)?;
        }
        if let Some(name) = self.bus_start {
            spec.bus_start = match name {
                BusStartName::FirstSector => BusStart::FirstSector,
                BusStartName::LastSector => BusStart::LastSector,
            };
        }
        if let Some(table) = &self.read_ahead {
            spec.read_ahead = table.check(place)?;
        }
        if let Some(table) = &self.write_back {
            spec.write_back = table.check(place)?;
        }
        if let Some(depth) = self.queue_depth {
            spec.queue_depth = place.number("queue_depth", depth, QUEUE)?;
        }
        if let Some(order) = &self.order {
            spec.order = order.check(place)?;
        }
        Ok(spec)
    }

    fn layout(&self, place: &Place, base: Option<&DiskSpec>) -> Result<Layout, DeviceError> {
        let base = base.map(|spec| layout_of(&spec.geometry));
        let base = base.as_ref();
        let rpm = self.rpm.map(|rpm| place.number("rpm", rpm, 1..=100_000)).transpose()?;
        let heads = self.heads.map(|heads| place.number("heads", heads, 1..=256)).transpose()?;
        let zones = self.zones.as_ref().map(|zones| check_zones(place, zones)).transpose()?;
        let resized = heads.is_some() || zones.is_some();
        let given = |value, key| match value {
            Some(value) => Ok(value),
            None => Err(missing(place, key)),
        };
        let surfaces = given(heads.or(base.map(|base| base.surfaces)), "heads")?;
        let zones = zones.or_else(|| base.map(|base| base.zones.clone()));
        let zones = zones.ok_or_else(|| missing(place, "zones"))?;
        let held = u64::from(surfaces) * zones.iter().map(sectors_of_surface).sum::<u64>();
        if held > SIZE_MAX / SECTOR_BYTES {
            return Err(place.error(
                "zones",
                format_args!("{held} sectors"),
                "up to 1000TB are needed",
            ));
        }
        let whole = base.filter(|_| !resized).map_or(held, |base| base.sectors);
        let sectors = match &self.capacity {
            None => whole,
            Some(text) => place.size("capacity", text, SECTOR_BYTES)? / SECTOR_BYTES,
        };
        if sectors > held {
            let allowed =
                format!("at most the {}B that the zones hold are needed", held * SECTOR_BYTES);
            return Err(place.error(
                "capacity",
                format_args!("{}B", sectors * SECTOR_BYTES),
                allowed,
            ));
        }
        Ok(Layout {
            rpm: given(rpm.or(base.map(|base| base.rpm)), "rpm")?,
            surfaces,
            sectors,
            zones,
        })
    }
}

fn missing(place: &Place, key: &str) -> DeviceError {
    place.error(key, "missing", "it is needed unless `based_on` names a disk")
}

fn base(place: &Place, name: &str) -> Result<DiskSpec, DeviceError> {
    match super::find(place, "based_on", name)?.parameters {
        Parameters::Disk(spec) => Ok(spec()),
        _ => Err(place.error("based_on", format_args!("`{name}`"), "a disk's preset is needed")),
    }
}

/// The values of a disk that no key states.
fn plain(layout: &Layout) -> DiskSpec {
    DiskSpec {
        geometry: Geometry::new(layout),
        seek: SeekCurve::RootAndLine { first_ms: 0.0, root_ms: 0.0, slope_ms: 0.0 },
        head_switch: Duration::from_millis(1),
        write_settle: Duration::from_micros(500),
        overhead: Overhead::plain(Duration::from_micros(500), Duration::from_micros(70)),
        bus_bytes_per_second: 100_000_000,
        bus_start: BusStart::FirstSector,
        read_ahead: ReadAhead::OFF,
        write_back: WriteBack::OFF,
        queue_depth: 1,
        order: Order::Fcfs,
    }
}

/// The layout that a geometry was made of. Its heads are as many as the capacity needs: what a disk
/// leaves unused is less than a surface.
fn layout_of(geometry: &Geometry) -> Layout {
    let zones: Vec<_> = geometry.zones().collect();
    let surface = zones.iter().map(sectors_of_surface).sum::<u64>();
    let surfaces = geometry.sectors().div_ceil(surface);
    Layout {
        rpm: u32::try_from(60_000_000_000 / geometry.revolution_ns()).unwrap_or(u32::MAX),
        surfaces: u32::try_from(surfaces).unwrap_or(u32::MAX),
        sectors: geometry.sectors(),
        zones,
    }
}

fn sectors_of_surface(zone: &Zone) -> u64 {
    u64::from(zone.cylinders) * u64::from(zone.sectors_per_track)
}

/// Bounds keep times of sectors above zero, and all sums within their types.
fn check_zones(place: &Place, tables: &[ZoneTable]) -> Result<Vec<Zone>, DeviceError> {
    if !(1..=100).contains(&tables.len()) {
        return Err(place.error("zones", tables.len(), "1 to 100 of them are needed"));
    }
    let zone = |(index, table): (usize, &ZoneTable)| {
        let place = place.item("zones", index);
        let number = |key, value, range| place.number(key, value, range);
        let sectors_per_track = number("sectors_per_track", table.sectors_per_track, 1..=100_000)?;
        let skews = 0..=sectors_per_track - 1;
        Ok(Zone {
            cylinders: number("cylinders", table.cylinders, 1..=10_000_000)?,
            sectors_per_track,
            track_skew: number("track_skew", table.track_skew, skews.clone())?,
            cylinder_skew: number("cylinder_skew", table.cylinder_skew, skews)?,
        })
    };
    tables.iter().enumerate().map(zone).collect()
}

impl SeekTable {
    fn check(&self, place: &Place, cylinders: u32) -> Result<SeekCurve, DeviceError> {
        let place = place.table("seek");
        match self {
            Self::Published { track_to_track, average, full_stroke } => {
                let place = place.table("published");
                let first = place.time("track_to_track", track_to_track, SOME)?;
                let average = place.time("average", average, first)?;
                let full = place.time("full_stroke", full_stroke, average)?;
                let ms = |time: Duration| time.as_secs_f64() * 1e3;
                let seek = PublishedSeek {
                    track_to_track_ms: ms(first),
                    average_ms: ms(average),
                    full_stroke_ms: ms(full),
                };
                Ok(SeekCurve::published(seek, cylinders))
            }
            Self::Table(points) => check_table(&place, points),
        }
    }
}

fn check_table(place: &Place, points: &[(i64, String)]) -> Result<SeekCurve, DeviceError> {
    let mut text = format!("Seek distances measured: {}\n", points.len());
    let mut last = 0;
    for (index, (distance, time)) in points.iter().enumerate() {
        let key = format!("table[{index}]");
        let distance = place.number(&key, *distance, last + 1..=1_000_000_000)?;
        // Measured tables have outliers: a time may be below the one before it.
        let time = place.time(&key, time, SOME)?;
        if time >= Duration::from_secs(60) {
            return Err(place.error(
                &key,
                format_args!("{} s", time.as_secs_f64()),
                "below 1min is needed",
            ));
        }
        text += &format!("{distance}, {}\n", time.as_secs_f64() * 1e3);
        last = distance;
    }
    SeekCurve::parse_table(&text)
        .map_err(|error| place.error("table", points.len(), error.to_string()))
}

impl OverheadTable {
    /// A time that is left out is that of the nearest case that is stated.
    fn check(&self, place: &Place) -> Result<Overhead, DeviceError> {
        let place = place.table("overhead");
        let time = |key, text: &Option<String>, usual| match text {
            Some(text) => place.time(key, text, SOME),
            None => Ok(usual),
        };
        let media = place.time("media", &self.media, SOME)?;
        let hit = place.time("hit", &self.hit, SOME)?;
        let write = time("write_media", &self.write_media, media)?;
        let accept = time("accept", &self.accept, hit)?;
        Ok(Overhead {
            read_media: Turn {
                after_read: media,
                after_write: time("media_after_write", &self.media_after_write, media)?,
            },
            read_hit: Turn {
                after_read: hit,
                after_write: time("hit_after_write", &self.hit_after_write, hit)?,
            },
            write_media: Turn {
                after_read: write,
                after_write: time("write_media_after_write", &self.write_media_after_write, write)?,
            },
            accept,
            accept_continuing: time("accept_continuing", &self.accept_continuing, accept)?,
        })
    }
}

impl ReadAheadTable {
    fn check(&self, place: &Place) -> Result<ReadAhead, DeviceError> {
        let Self::Segments { count, size, prefetch } = self else {
            return Ok(ReadAhead::OFF);
        };
        let place = place.table("read_ahead").table("segments");
        Ok(ReadAhead {
            segments: place.number("count", *count, 1..=4096)?,
            segment_bytes: place.size("size", size, SECTOR_BYTES)?,
            prefetch: match prefetch {
                PrefetchName::Never => Prefetch::Never,
                PrefetchName::Always => Prefetch::Always,
                PrefetchName::AfterSequence => Prefetch::AfterSequence,
            },
        })
    }
}

impl WriteBackTable {
    fn check(&self, place: &Place) -> Result<WriteBack, DeviceError> {
        let Self::Buffer { size, extents, read_hits, destage } = self else {
            return Ok(WriteBack::OFF);
        };
        let place = place.table("write_back").table("buffer");
        Ok(WriteBack {
            dirty_bytes: place.size("size", size, SECTOR_BYTES)?,
            extents: place.number("extents", *extents, 1..=65_536)?,
            read_hits: *read_hits,
            destage: match destage {
                DestageName::Nearest => Destage::Nearest,
                DestageName::Oldest => Destage::Oldest,
            },
        })
    }
}

impl OrderTable {
    fn check(&self, place: &Place) -> Result<Order, DeviceError> {
        Ok(match self {
            Self::Fcfs => Order::Fcfs,
            Self::Sstf => Order::Sstf,
            Self::Scan => Order::Scan,
            Self::CScan => Order::CScan,
            Self::Satf { aging } => {
                let place = place.table("order").table("satf");
                Order::Satf { aging_permille: place.permille("aging", aging)? }
            }
        })
    }
}
