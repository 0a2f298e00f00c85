//! A profiler's result: the profile for admission, and the measurements that it rests on.
//!
//! Serializes as a profile file; a reader gets only what passes [`Profile::check`].
//!
//! Does not know: JSON, TOML, or where files are.

use crate::asked::{BLOCK_BYTES, REQUEST_BYTES_MAX};
use crate::costs::Costs;
use disktime_core::cost::PriceList;
use disktime_core::{Access, Duration, Kind, Positioning, Profile, ProfileError, Transfer, Zone};
use serde::{Deserialize, Serialize};
use std::fmt;

use super::speeds::{Priced, PricesFile, Speeds, Work};

/// A device as it was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "File", into = "File")]
pub struct Found {
    /// The name that the device was given.
    pub name: String,
    /// The profile that admission uses. Its size is the device's. `worst` bounds reads, and writes
    /// that go through; with a write cache, either may wait for `destage` before.
    pub profile: Profile,
    /// One revolution; `None` if nothing turns, or it could not be told.
    pub rotation: Option<Duration>,
    /// The least positioning that was seen, without rotational wait and transfer: the electronics, and
    /// a head switch where reading ahead has left the track meanwhile.
    pub overhead: Duration,
    /// Whether writes were measured. If not, zones write as fast as they read, and what writes may
    /// settle longer by is an allowance ([`WRITE_SETTLE_ALLOWANCE`](Self::WRITE_SETTLE_ALLOWANCE)).
    pub writes: bool,
    /// Every measured positioning, by distance.
    pub seeks: Vec<Seek>,
    /// Every measured rate of reads of 1 MiB in sequence, by place.
    pub rates: Vec<Rate>,
    /// How fast it is with each kind of requests, if that was measured: what the profile's prices
    /// rest on.
    pub speeds: Option<Speeds>,
    /// Requests issued.
    pub requests: u64,
    /// From the first to the last.
    pub took: Duration,
}

/// The time of positioning over one distance at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seek {
    /// In bytes, from request to request.
    pub distance: u64,
    /// The lower one's first byte.
    pub from: u64,
    /// Without rotational wait and transfer: seek and electronics. If nothing turns: the mean.
    pub time: Duration,
    /// Requests that it rests on.
    pub samples: u32,
}

/// How fast a place is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// First byte.
    pub offset: u64,
    /// The rate of reads.
    pub bytes_per_second: u64,
}

/// A profile of another device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// The profile's.
    pub name: String,
    /// Size of the device that was profiled, in bytes.
    pub profiled: u64,
    /// Size of the device at hand, in bytes.
    pub size: u64,
}

impl Found {
    /// By how much writes are assumed to settle longer than reads where that was not measured.
    /// Measured disks have 0.07 to 0.5 ms, and data sheets up to 1 ms; electronics up to 0.8 ms more
    /// (`docs/devices.md`).
    pub const WRITE_SETTLE_ALLOWANCE: Duration = Duration::from_micros(1500);

    /// No device answers a read sooner: the fastest flash drives take 8 us through the system. Holes
    /// and files in memory took 1 to 2 us.
    pub const ANSWER_LEAST: Duration = Duration::from_micros(4);

    /// The same with prices.
    #[must_use]
    pub fn with_prices(mut self, priced: Priced) -> Self {
        self.profile.prices = Some(priced.prices);
        self.speeds = Some(priced.speeds);
        self.requests += priced.requests;
        self.took += priced.took;
        self
    }

    /// A kind whose price moves long requests more than twice as fast as the fastest zone does, and the
    /// times of 1 MiB by both. A device that does not turn may be faster with several requests at
    /// once, so that only a price without any time for bytes is doubted there.
    #[must_use]
    pub fn beyond_zones(&self) -> Option<(Work, Duration, Duration)> {
        let prices = self.profile.prices.as_ref()?;
        Work::ALL.into_iter().find_map(|work| {
            let transfer = |zone: &Zone| match work.kind() {
                Kind::Write => zone.write,
                _ => zone.read,
            };
            let zones = self.profile.zones.iter();
            let fastest = zones.map(|zone| transfer(zone).bytes_per_second).max()?;
            let whole = Transfer { per_request: Duration::ZERO, bytes_per_second: fastest };
            let of_bytes = work.price(prices);
            let (price, zone) = (of_bytes.of(REQUEST_BYTES_MAX), whole.time(REQUEST_BYTES_MAX, 1));
            let doubted = self.rotation.is_some() || of_bytes.per_mib == Duration::ZERO;
            let faster = price.as_nanos() < zone.as_nanos() / 2;
            (doubted && faster).then_some((work, price, zone))
        })
    }

    /// The time of a read of 4 KiB, as the median over places, if that is shorter than any device
    /// answers: a hole, a file system in memory or a cache did.
    #[must_use]
    pub fn answered_from_memory(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self.seeks.iter().map(|seek| seek.time).collect();
        times.sort_unstable();
        let rates = self.profile.zones.iter().map(|zone| zone.read.bytes_per_second);
        let whole = Transfer { per_request: Duration::ZERO, bytes_per_second: rates.max()? };
        let read = *times.get(times.len() / 2)? + whole.time(BLOCK_BYTES, BLOCK_BYTES);
        (read < Self::ANSWER_LEAST).then_some(read)
    }

    /// The cost of requests of so many bytes by zygaria's mechanics (§2.4): half the longest seek,
    /// half a revolution, and the transfer of the slowest zone. `None` if nothing turns.
    #[must_use]
    pub fn mechanics(&self, access: Access, bytes: u64) -> Option<Costs> {
        let longest = self.seeks.iter().map(|seek| seek.time).max()?;
        let whole = self.profile.transfer((0, self.profile.size()), access);
        Some(Costs::mechanical(longest, self.rotation?, whole.time(bytes, bytes)))
    }

    /// Whether it can be of a device of `size` bytes.
    ///
    /// # Errors
    /// [`Misfit`] if the sizes differ.
    pub fn fits(&self, size: u64) -> Result<(), Misfit> {
        let profiled = self.profile.size();
        if profiled == size {
            return Ok(());
        }
        Err(Misfit { name: self.name.clone(), profiled, size })
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, profiled, size } = self;
        write!(
            f,
            "profile `{name}`: of a device of {profiled} bytes, this one has {size}; profile it with \
             `disktime device profile`"
        )
    }
}

impl std::error::Error for Misfit {}

/// A profile as a file says it: integers with their units in the keys, in any format of serde's.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rotation_ns: Option<u64>,
    overhead_ns: u64,
    writes_measured: bool,
    requests: u64,
    took_ns: u64,
    zones: Vec<ZoneRow>,
    positioning: Vec<PositioningRow>,
    #[serde(default)]
    destage_ns: u64,
    #[serde(default)]
    seeks: Vec<SeekRow>,
    #[serde(default)]
    rates: Vec<RateRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prices: Option<PricesFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speeds: Option<Speeds>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneRow {
    end_bytes: u64,
    read: TransferRow,
    write: TransferRow,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferRow {
    per_request_ns: u64,
    bytes_per_second: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PositioningRow {
    distance_bytes: u64,
    mean_ns: u64,
    deviation_ns: u64,
    worst_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekRow {
    distance_bytes: u64,
    from_bytes: u64,
    time_ns: u64,
    samples: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RateRow {
    offset_bytes: u64,
    bytes_per_second: u64,
}

impl From<Found> for File {
    fn from(found: Found) -> Self {
        let zone = |zone: &Zone| ZoneRow {
            end_bytes: zone.end,
            read: zone.read.into(),
            write: zone.write.into(),
        };
        let positioning = |at: &Positioning| PositioningRow {
            distance_bytes: at.distance,
            mean_ns: at.mean.as_nanos(),
            deviation_ns: at.deviation.as_nanos(),
            worst_ns: at.worst.as_nanos(),
        };
        let seek = |seek: &Seek| SeekRow {
            distance_bytes: seek.distance,
            from_bytes: seek.from,
            time_ns: seek.time.as_nanos(),
            samples: seek.samples,
        };
        let rate = |rate: &Rate| RateRow {
            offset_bytes: rate.offset,
            bytes_per_second: rate.bytes_per_second,
        };
        Self {
            size_bytes: found.profile.size(),
            rotation_ns: found.rotation.map(Duration::as_nanos),
            overhead_ns: found.overhead.as_nanos(),
            writes_measured: found.writes,
            requests: found.requests,
            took_ns: found.took.as_nanos(),
            zones: found.profile.zones.iter().map(zone).collect(),
            positioning: found.profile.positioning.iter().map(positioning).collect(),
            destage_ns: found.profile.destage.as_nanos(),
            seeks: found.seeks.iter().map(seek).collect(),
            rates: found.rates.iter().map(rate).collect(),
            prices: found.profile.prices.as_ref().map(PricesFile::from),
            speeds: found.speeds,
            name: found.name,
        }
    }
}

impl TryFrom<File> for Found {
    type Error = String;

    /// # Errors
    /// Says what is wrong, by key.
    fn try_from(file: File) -> Result<Self, String> {
        let zone = |row: &ZoneRow| Zone {
            end: row.end_bytes,
            read: (&row.read).into(),
            write: (&row.write).into(),
        };
        let positioning = |row: &PositioningRow| Positioning {
            distance: row.distance_bytes,
            mean: Duration::from_nanos(row.mean_ns),
            deviation: Duration::from_nanos(row.deviation_ns),
            worst: Duration::from_nanos(row.worst_ns),
        };
        let seek = |row: &SeekRow| Seek {
            distance: row.distance_bytes,
            from: row.from_bytes,
            time: Duration::from_nanos(row.time_ns),
            samples: row.samples,
        };
        let rate = |row: &RateRow| Rate {
            offset: row.offset_bytes,
            bytes_per_second: row.bytes_per_second,
        };
        let profile = Profile {
            zones: file.zones.iter().map(zone).collect(),
            positioning: file.positioning.iter().map(positioning).collect(),
            destage: Duration::from_nanos(file.destage_ns),
            prices: file.prices.as_ref().map(PriceList::from),
        };
        profile.check().map_err(said)?;
        if profile.size() != file.size_bytes {
            return Err(format!(
                "size_bytes: {}, but the last zone ends at {}; both must be the device's size",
                file.size_bytes,
                profile.size()
            ));
        }
        Ok(Self {
            name: file.name,
            profile,
            rotation: file.rotation_ns.map(Duration::from_nanos),
            overhead: Duration::from_nanos(file.overhead_ns),
            writes: file.writes_measured,
            seeks: file.seeks.iter().map(seek).collect(),
            rates: file.rates.iter().map(rate).collect(),
            speeds: file.speeds,
            requests: file.requests,
            took: Duration::from_nanos(file.took_ns),
        })
    }
}

fn said(error: ProfileError) -> String {
    match error {
        ProfileError::Empty(list) => format!("{list}: empty; at least one is needed"),
        ProfileError::Order { list, index } => {
            let key = if list == "zones" { "end_bytes" } else { "distance_bytes" };
            format!("{list}[{index}].{key}: not above the one before; they must ascend")
        }
        ProfileError::ZeroRate { zone } => {
            format!("zones[{zone}]: bytes_per_second of read or write is 0; at least 1 is possible")
        }
        ProfileError::MeanAboveWorst { index } => {
            format!("positioning[{index}].mean_ns: above its worst_ns; at most that is possible")
        }
    }
}

impl From<Transfer> for TransferRow {
    fn from(transfer: Transfer) -> Self {
        Self {
            per_request_ns: transfer.per_request.as_nanos(),
            bytes_per_second: transfer.bytes_per_second,
        }
    }
}

impl From<&TransferRow> for Transfer {
    fn from(row: &TransferRow) -> Self {
        Self {
            per_request: Duration::from_nanos(row.per_request_ns),
            bytes_per_second: row.bytes_per_second,
        }
    }
}
