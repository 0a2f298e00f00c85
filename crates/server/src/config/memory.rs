//! How much memory a daemon takes for its clients: key `memory`.

use std::ops::RangeInclusive;

use disktime_config::quantity::parse_size;

use super::{Config, ConfigError, wrong_server};
use crate::buffers::{POOL_BYTES, SMALL_POOL_BYTES};
use crate::memory::OWN;

/// The least and the most that can be stated, in bytes.
const RANGE: RangeInclusive<u64> = (16 << 20)..=(1 << 40);
/// The most memory that is taken if no amount is stated.
const USUAL_MAX: u64 = 1 << 30;

pub(super) fn parse(text: &str) -> Result<u64, ConfigError> {
    let why = || {
        let (min, max) = (RANGE.start() >> 20, RANGE.end() >> 40);
        format!("{min}MiB to {max}TiB; leave it out for a quarter of the machine's, at most 1GiB")
    };
    let size = parse_size(text)
        .and_then(|size| Some(size).filter(|size| RANGE.contains(size)).ok_or_else(why));
    size.map_err(|why| wrong_server("memory", text, why))
}

/// A quarter of the machine's memory, at most 1 GiB.
pub(super) fn usual() -> u64 {
    (machine() / 4).clamp(*RANGE.start(), USUAL_MAX)
}

fn machine() -> u64 {
    let info = rustix::system::sysinfo();
    let (total, unit): (u64, u64) = (info.totalram, info.mem_unit.into());
    total.saturating_mul(unit)
}

impl Config {
    /// The memory left for clients once each device has the memory that it always needs.
    ///
    /// # Errors
    /// If there is not enough for a client of each device.
    pub fn memory_for_clients(&self) -> Result<usize, ConfigError> {
        let count = self.devices.len() as u64;
        let carriers: u64 = self.devices.iter().map(|device| u64::from(device.shards) - 1).sum();
        let devices = POOL_BYTES as u64 * count + SMALL_POOL_BYTES as u64 * carriers;
        let clients = OWN as u64 * count;
        let left = self.memory.checked_sub(devices).filter(|left| *left >= clients);
        let left = left.and_then(|left| usize::try_from(left).ok());
        left.ok_or_else(|| {
            let least = (devices + clients).div_ceil(1 << 20);
            let reason = format!("{count} devices with a client each need at least {least}MiB");
            wrong_server("memory", &format!("{}MiB", self.memory >> 20), reason)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_quarter_of_the_machines_or_what_is_stated() {
        let usual = usual();
        assert!((16 << 20..=USUAL_MAX).contains(&usual));
        assert!(machine() > 64 << 20, "no machine that runs this has less");
        assert_eq!(parse("64MiB").unwrap(), 64 << 20);
        for text in ["8MiB", "2TiB", "much", "-1"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("server.memory = \"{text}\"")), "{error}");
        }
    }

    #[test]
    fn every_device_and_a_client_of_it_have_room() {
        let config = |memory: &str, devices: u32| {
            let device = |at| format!("[[device]]\nname=\"d{at}\"\nback_end=\"memory\"\n");
            let devices: String = (0..devices).map(device).collect();
            Config::parse(&format!("[server]\nnbd=[\"unix:/s\"]\nmemory=\"{memory}\"\n{devices}"))
        };
        assert_eq!(config("16MiB", 1).unwrap().memory_for_clients().unwrap(), 4 << 20);
        let error = config("16MiB", 2).unwrap_err().to_string();
        let asked = "server.memory = \"16MiB\": 2 devices with a client each need at least 25MiB";
        assert_eq!(error, asked);
        assert!(config("25MiB", 2).is_ok());
    }
}
