//! A device's profile: what positioning and transferring takes, as found out from outside.
//!
//! Admission's arithmetic is over these numbers. Where they come from (a profiler, a data sheet)
//! is not known here.

use alloc::vec::Vec;
use core::fmt;

use crate::cost::PriceList;
use crate::types::contract::Access;
use crate::types::ratio::scaled;
use crate::types::time::Duration;

/// How fast one device is, as measured from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The device from its first byte to its last, in ascending order, at least one.
    pub zones: Vec<Zone>,
    /// The time that a request takes before its transfer when it continues nothing, by distance
    /// from the last one: ascending, at least one; the last holds for any distance beyond.
    pub positioning: Vec<Positioning>,
    /// How long a request may wait, before its own positioning, for what a write cache brings to the
    /// medium meanwhile; zero if writes complete on the medium.
    pub destage: Duration,
    /// The cost of each kind of request alone at the best depth, if that was measured: for the cost
    /// model, not for admission.
    pub prices: Option<PriceList>,
}

/// A part of a device that transfers at one rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Where it ends, in bytes; it begins where the last one ended.
    pub end: u64,
    /// Requests that read in sequence.
    pub read: Transfer,
    /// Requests that write in sequence.
    pub write: Transfer,
}

/// The time of requests in sequence, one after the other: `per_request + bytes / rate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// For each.
    pub per_request: Duration,
    /// At least 1.
    pub bytes_per_second: u64,
}

/// Seek, rotation and overheads of requests at one distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Positioning {
    /// Up to this many bytes from the last request.
    pub distance: u64,
    /// The mean.
    pub mean: Duration,
    /// The standard deviation.
    pub deviation: Duration,
    /// The longest.
    pub worst: Duration,
}

/// Why a profile can't be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileError {
    /// No zone, or no positioning.
    Empty(&'static str),
    /// A zone or a distance that does not ascend.
    Order {
        /// The list that holds the value.
        list: &'static str,
        /// At which place.
        index: usize,
    },
    /// A rate of zero.
    ZeroRate {
        /// In which zone.
        zone: usize,
    },
    /// A mean above the worst.
    MeanAboveWorst {
        /// At which place.
        index: usize,
    },
}

impl Profile {
    /// Whether admission can reckon with it.
    ///
    /// # Errors
    /// If a list is empty or out of order, or a number can't be.
    pub fn check(&self) -> Result<(), ProfileError> {
        if self.zones.is_empty() {
            return Err(ProfileError::Empty("zones"));
        }
        if self.positioning.is_empty() {
            return Err(ProfileError::Empty("positioning"));
        }
        let mut last = 0;
        for (zone, Zone { end, read, write }) in self.zones.iter().enumerate() {
            if *end <= last {
                return Err(ProfileError::Order { list: "zones", index: zone });
            }
            last = *end;
            if read.bytes_per_second == 0 || write.bytes_per_second == 0 {
                return Err(ProfileError::ZeroRate { zone });
            }
        }
        let mut last = None;
        for (index, at) in self.positioning.iter().enumerate() {
            if last.is_some_and(|last| at.distance <= last) {
                return Err(ProfileError::Order { list: "positioning", index });
            }
            last = Some(at.distance);
            if at.mean > at.worst {
                return Err(ProfileError::MeanAboveWorst { index });
            }
        }
        Ok(())
    }

    /// Whether writes complete before they are on the medium.
    #[must_use]
    pub fn has_write_cache(&self) -> bool {
        self.destage > Duration::ZERO
    }

    /// The device's size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.end)
    }

    /// The slowest transfer in an extent.
    #[must_use]
    pub fn transfer(&self, (start, end): (u64, u64), access: Access) -> Transfer {
        let mut begin = 0;
        let mut slowest: Option<Transfer> = None;
        for zone in &self.zones {
            let within = begin < end && start < zone.end;
            begin = zone.end;
            if !within {
                continue;
            }
            let kinds: &[Transfer] = match access {
                Access::Read => &[zone.read],
                Access::Write => &[zone.write],
                Access::Both => &[zone.read, zone.write],
            };
            for kind in kinds {
                let slow = slowest.get_or_insert(*kind);
                slow.per_request = slow.per_request.max(kind.per_request);
                slow.bytes_per_second = slow.bytes_per_second.min(kind.bytes_per_second);
            }
        }
        slowest.unwrap_or(Transfer { per_request: Duration::ZERO, bytes_per_second: 1 })
    }

    /// The time of positioning over at most this distance.
    #[must_use]
    pub fn positioning(&self, distance: u64) -> Positioning {
        let farthest = self.positioning.last();
        let found = self.positioning.iter().find(|at| at.distance >= distance).or(farthest);
        let none = Duration::ZERO;
        found.copied().unwrap_or(Positioning { distance, mean: none, deviation: none, worst: none })
    }

    /// The most that positioning takes over any distance up to this one: each of mean, deviation
    /// and worst by itself. A longer way may take less, past a turn of the disk.
    #[must_use]
    pub fn positioning_within(&self, distance: u64) -> Positioning {
        let mut most = self.positioning(distance);
        for at in self.positioning.iter().filter(|at| at.distance < distance) {
            most.mean = most.mean.max(at.mean);
            most.deviation = most.deviation.max(at.deviation);
            most.worst = most.worst.max(at.worst);
        }
        most
    }
}

/// Places that the head may come from, evenly over the device.
const PLACES: u64 = 16;

impl Profile {
    /// The time of positioning to an extent when the head comes from anywhere, each place as
    /// likely: the mean and the deviation over 16 of them to the extent's middle, and the worst
    /// from its farthest.
    #[must_use]
    pub fn positioning_to(&self, (start, end): (u64, u64)) -> Positioning {
        let (size, middle) = (self.size(), start.midpoint(end));
        let distance = end.max(size.saturating_sub(start));
        let ways = || {
            let place = move |part| scaled(size, 2 * part + 1, 2 * PLACES);
            (0..PLACES).map(move |part| self.positioning(middle.abs_diff(place(part))))
        };
        let means = || ways().map(|way| u128::from(way.mean.as_nanos()));
        let mean = means().sum::<u128>() / u128::from(PLACES);
        let square = |nanos: u128| nanos.min(u64::MAX.into()).pow(2) / u128::from(PLACES);
        let between = means().map(|of_way| square(of_way.abs_diff(mean))).sum::<u128>();
        let within = ways().map(|way| square(way.deviation.as_nanos().into())).sum::<u128>();
        let deviation = between.saturating_add(within).isqrt();
        let nanos = |nanos: u128| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let worst = self.positioning_within(distance).worst;
        Positioning { distance, mean: nanos(mean), deviation: nanos(deviation), worst }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty(list) => write!(f, "{list} is empty: it must hold at least one"),
            Self::Order { list, index } => {
                write!(f, "{list}[{index}] is not above the one before: sort them")
            }
            Self::ZeroRate { zone } => {
                write!(f, "zones[{zone}] transfers 0 bytes/s: a rate is at least 1")
            }
            Self::MeanAboveWorst { index } => {
                write!(f, "positioning[{index}] has a mean above its worst: measure again")
            }
        }
    }
}

impl core::error::Error for ProfileError {}

impl Transfer {
    /// The time that so many bytes take in requests of `request` bytes each.
    #[must_use]
    pub fn time(self, bytes: u64, request: u64) -> Duration {
        let requests = bytes.div_ceil(request.max(1));
        let transfer = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        let each = u128::from(self.per_request.as_nanos()) * u128::from(requests);
        Duration::from_nanos(u64::try_from(transfer.saturating_add(each)).unwrap_or(u64::MAX))
    }
}
