//! A cloud volume as a file describes it.

use disktime_config::quantity;
use disktime_core::Duration;
use disktime_model::cloud::{Cap, CloudSpec};
use disktime_model::preset::Parameters;
use serde::Deserialize;

use super::values::{DeviceError, Place, QUEUE, SOME};

/// A cloud volume: what differs from a preset, `cloud-gp2` if none is named.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudTable {
    based_on: Option<String>,
    capacity: Option<String>,
    queue_depth: Option<i64>,
    operation: Option<String>,
    iops: Option<IopsTable>,
    bandwidth: Option<BandwidthTable>,
    read: Option<String>,
    write: Option<String>,
    jitter: Option<String>,
    day: Option<DayTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IopsTable {
    base: i64,
    burst: Option<i64>,
    credit: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BandwidthTable {
    base: String,
    burst: Option<String>,
    credit: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DayTable {
    length: String,
    amplitude: String,
}

/// The longest day.
const DAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most operations per second, and of credit.
const IOPS_MAX: u32 = 1_000_000_000;

impl CloudTable {
    pub(super) fn check(&self, place: &Place) -> Result<CloudSpec, DeviceError> {
        let mut spec = base(place, self.based_on.as_deref().unwrap_or("cloud-gp2"))?;
        if let Some(text) = &self.capacity {
            spec.capacity_bytes = place.size("capacity", text, 512)?;
        }
        if let Some(depth) = self.queue_depth {
            spec.queue_depth = place.number("queue_depth", depth, QUEUE)?;
        }
        if let Some(text) = &self.operation {
            spec.operation_bytes = place.size("operation", text, 512)?;
        }
        if let Some(table) = &self.iops {
            spec.operations = table.check(&place.table("iops"))?;
        }
        if let Some(table) = &self.bandwidth {
            spec.bytes = table.check(&place.table("bandwidth"))?;
        }
        if let Some(text) = &self.read {
            spec.read = place.time("read", text, SOME)?;
        }
        if let Some(text) = &self.write {
            spec.write = place.time("write", text, SOME)?;
        }
        if let Some(text) = &self.jitter {
            spec.jitter_permille = place.permille("jitter", text)?;
        }
        if let Some(DayTable { length, amplitude }) = &self.day {
            let place = place.table("day");
            spec.day = day(&place, length)?;
            spec.amplitude_permille = place.permille("amplitude", amplitude)?;
        }
        Ok(spec)
    }
}

fn base(place: &Place, name: &str) -> Result<CloudSpec, DeviceError> {
    match super::find(place, "based_on", name)?.parameters {
        Parameters::Cloud(spec) => Ok(spec()),
        _ => {
            let allowed = "a cloud volume's preset is needed";
            Err(place.error("based_on", format_args!("`{name}`"), allowed))
        }
    }
}

fn day(place: &Place, text: &str) -> Result<Duration, DeviceError> {
    let length = quantity::parse_duration(text).ok();
    let length = length.filter(|length| (Duration::from_secs(1)..=DAY_MAX).contains(length));
    length.ok_or_else(|| place.error("length", format_args!("`{text}`"), "1s to 168h is needed"))
}

impl IopsTable {
    fn check(&self, place: &Place) -> Result<Cap, DeviceError> {
        let base = place.number("base", self.base, 1..=IOPS_MAX)?;
        let burst = self.burst.map(|burst| place.number("burst", burst, base..=IOPS_MAX));
        let credit = self.credit.map(|credit| place.number("credit", credit, 1..=IOPS_MAX));
        Ok(Cap {
            base: u64::from(base),
            burst: u64::from(burst.transpose()?.unwrap_or(base)),
            credit: u64::from(credit.transpose()?.unwrap_or(base)),
        })
    }
}

impl BandwidthTable {
    fn check(&self, place: &Place) -> Result<Cap, DeviceError> {
        let base = place.rate("base", &self.base)?;
        let burst = self.burst.as_ref().map(|text| (text, place.rate("burst", text)));
        let burst = match burst {
            None => base,
            Some((text, rate)) => {
                let rate = rate?;
                if rate < base {
                    let allowed = format!("at least the base of {base}B/s is needed");
                    return Err(place.error("burst", format_args!("`{text}`"), allowed));
                }
                rate
            }
        };
        let credit = self.credit.as_ref().map(|text| place.size("credit", text, 512));
        Ok(Cap { base, burst, credit: credit.transpose()?.unwrap_or(base) })
    }
}
