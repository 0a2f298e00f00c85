//! Values of a described device: read as written, then checked, so that an error has their path.

use std::fmt::Display;
use std::ops::RangeInclusive;

use disktime_config::quantity;
use disktime_core::Duration;

/// Why a described device can't be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {value}; {allowed}")]
pub struct DeviceError {
    /// The key, with the tables and lists that it is in.
    pub field: String,
    /// As it was written, or what it came to.
    pub value: String,
    /// The values that are allowed.
    pub allowed: String,
}

/// Where in the description a table is: `members[1].` before its keys.
#[derive(Clone, Debug)]
pub(super) struct Place(String);

impl Place {
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    /// The table of that key.
    pub(super) fn table(&self, key: &str) -> Self {
        Self(format!("{}{key}.", self.0))
    }

    /// A table in the list of that key.
    pub(super) fn item(&self, key: &str, index: usize) -> Self {
        Self(format!("{}{key}[{index}].", self.0))
    }

    pub(super) fn error(
        &self,
        key: &str,
        value: impl Display,
        allowed: impl Into<String>,
    ) -> DeviceError {
        let (value, allowed) = (value.to_string(), allowed.into());
        DeviceError { field: format!("{}{key}", self.0), value, allowed }
    }

    pub(super) fn number(
        &self,
        key: &str,
        value: i64,
        range: RangeInclusive<u32>,
    ) -> Result<u32, DeviceError> {
        let number = u32::try_from(value).ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            self.error(key, value, format!("{} to {} is needed", range.start(), range.end()))
        })
    }

    /// A time from `least` to an hour.
    pub(super) fn time(
        &self,
        key: &str,
        text: &str,
        least: Duration,
    ) -> Result<Duration, DeviceError> {
        let time =
            quantity::parse_duration(text).map_err(|allowed| self.quoted(key, text, allowed))?;
        if (least..=TIME_MAX).contains(&time) {
            return Ok(time);
        }
        Err(self.quoted(key, text, format!("{} ns to 1h is needed", least.as_nanos())))
    }

    /// A size in whole units of `unit` bytes, from one of them to 1 PB.
    pub(super) fn size(&self, key: &str, text: &str, unit: u64) -> Result<u64, DeviceError> {
        let size = quantity::parse_size(text).map_err(|allowed| self.quoted(key, text, allowed))?;
        if size.is_multiple_of(unit) && (unit..=SIZE_MAX).contains(&size) {
            return Ok(size);
        }
        Err(self.quoted(
            key,
            text,
            format!("a multiple of {unit}B from {unit}B to 1000TB is needed"),
        ))
    }

    /// From 1 kB/s to 1 TB/s.
    pub(super) fn rate(&self, key: &str, text: &str) -> Result<u64, DeviceError> {
        let rate = quantity::parse_rate(text).map_err(|allowed| self.quoted(key, text, allowed))?;
        if (1_000..=1_000_000_000_000).contains(&rate) {
            return Ok(rate);
        }
        Err(self.quoted(key, text, "1kB/s to 1TB/s is needed"))
    }

    pub(super) fn permille(&self, key: &str, text: &str) -> Result<u32, DeviceError> {
        let ratio = quantity::parse_permille(text);
        ratio.map(u32::from).map_err(|allowed| self.quoted(key, text, allowed))
    }

    fn quoted(&self, key: &str, text: &str, allowed: impl Into<String>) -> DeviceError {
        self.error(key, format_args!("`{text}`"), allowed)
    }
}

/// Beyond any device, and far from where times of a simulation end.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Beyond any device; multiples of it still fit 64 bits.
pub(super) const SIZE_MAX: u64 = 1_000_000_000_000_000;
/// How many operations a device may hold: room for them is kept from the beginning.
pub(super) const QUEUE: RangeInclusive<u32> = 1..=65_536;
/// The shortest time where a device takes any.
pub(super) const SOME: Duration = Duration::from_nanos(1);
