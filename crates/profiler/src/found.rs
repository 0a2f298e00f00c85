//! What a profiler has found: the profile for admission, and what it rests on.
//!
//! Serializes as a profile file (`found_file`); whoever reads one gets only what passes
//! [`Profile::check`].

use crate::costs::Costs;
use disktime_core::{Access, Duration, Profile};
use serde::{Deserialize, Serialize};
use std::fmt;

use super::found_file::File;
use super::speeds::{Priced, Speeds};

/// A device as it was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "File", into = "File")]
pub struct Found {
    /// What the device was called.
    pub name: String,
    /// What admission reckons with. Its size is the device's. `worst` bounds reads, and writes that go
    /// through; with a write cache, either may wait for `destage` before.
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

/// What positioning took over one distance at one place.
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
    /// Of what was read.
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
    /// (MODELS.md, presets).
    pub const WRITE_SETTLE_ALLOWANCE: Duration = Duration::from_micros(1500);

    /// The same with prices.
    #[must_use]
    pub fn with_prices(mut self, priced: Priced) -> Self {
        self.profile.prices = Some(priced.prices);
        self.speeds = Some(priced.speeds);
        self.requests += priced.requests;
        self.took += priced.took;
        self
    }

    /// What requests of so many bytes take by zygaria's mechanics (§2.4): half the longest seek, half
    /// a revolution, and the transfer of the slowest zone. `None` if nothing turns.
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
