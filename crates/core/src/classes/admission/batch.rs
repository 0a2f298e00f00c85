//! The demand of a stream in each of its cycles.

use super::{CYCLES, Demand, DemandError, Others, PARTS, REQUEST, flush, nanos};
use crate::classes::profile::{Positioning, Profile};
use crate::types::contract::{Access, Admission, Rate};
use crate::types::ratio::scaled;
use crate::types::share::Share;
use crate::types::time::Duration;

/// Batches are whole sectors.
const SECTOR: u64 = 512;

/// A demand in each cycle of its stream.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) kind: Admission,
    pub(super) cycle: Duration,
    pub(super) bytes: u64,
    /// To its extent from the farthest place.
    seek: Positioning,
    transfer: Duration,
    /// The transfer of one request.
    request: Duration,
    /// The time of the flush that ends a turn, beside the transfer; `None` if none does.
    pub(super) flush: Option<Positioning>,
    /// The most bytes before one.
    unflushed: u64,
}

/// Checks a demand by itself, and chooses its cycle.
pub(super) fn batch(
    profile: &Profile,
    demand: &Demand,
    others: &Others,
) -> Result<Batch, DemandError> {
    let Demand { rate: Rate { bytes_per_second, cycle, admission, access }, extent } = *demand;
    if bytes_per_second == 0 {
        return Err(DemandError::ZeroRate);
    }
    let size = profile.size();
    let extent = extent.unwrap_or((0, size));
    if extent.0 >= extent.1 || extent.1 > size {
        return Err(DemandError::Extent { extent, size });
    }
    let zone = profile.transfer(extent, access);
    let request = zone.time(REQUEST, REQUEST);
    let max = scaled(REQUEST, 1_000_000_000, request.as_nanos());
    if bytes_per_second > max {
        return Err(DemandError::AboveZone { bytes_per_second, max });
    }
    if let Admission::Statistical { miss } = admission
        && (miss == Share::ZERO || miss == Share::FULL)
    {
        return Err(DemandError::Miss { miss });
    }
    let seek = profile.positioning_to(extent);
    let of = |cycle: Duration| {
        let bytes = u128::from(bytes_per_second) * u128::from(cycle.as_nanos());
        let bytes = u64::try_from(bytes.div_ceil(1_000_000_000)).unwrap_or(u64::MAX - SECTOR);
        let bytes = bytes.div_ceil(SECTOR) * SECTOR;
        let transfer = zone.time(bytes, REQUEST);
        let flush = flush(profile, bytes).filter(|_| access != Access::Read);
        let unflushed = others.unflushed_bytes.filter(|_| flush.is_some()).unwrap_or(u64::MAX);
        Batch { kind: admission, cycle, bytes, seek, transfer, request, flush, unflushed }
    };
    let chosen = cycle.map_or_else(|| choose(of), of);
    let min = Rate::CYCLE_MIN.max(seek.worst + request);
    if chosen.cycle < min || chosen.cycle > Rate::CYCLE_MAX {
        return Err(DemandError::Cycle { cycle: chosen.cycle, min });
    }
    Ok(chosen)
}

/// The shortest cycle that spends at most a tenth of its disk time on positioning, or the longest.
fn choose(of: impl Fn(Duration) -> Batch) -> Batch {
    let efficient = |batch: &Batch| {
        let seek = u128::from(match batch.kind {
            Admission::Statistical { .. } => batch.seek.mean.as_nanos(),
            Admission::Deterministic | Admission::BestEffort => batch.seek.worst.as_nanos(),
        });
        10 * seek <= seek + u128::from(batch.transfer.as_nanos())
    };
    let longest = of(CYCLES[CYCLES.len() - 1]);
    CYCLES.into_iter().map(of).find(efficient).unwrap_or(longest)
}

impl Batch {
    pub(super) fn checked(&self) -> bool {
        self.kind != Admission::BestEffort
    }

    /// The bytes of a turn of that length, positioning included; `None` for no turns.
    pub(super) fn turn(&self, turn: Option<Duration>) -> Option<u64> {
        let transfer = turn?.saturating_sub(self.seek.worst).as_nanos();
        let bytes = scaled(self.bytes, transfer, self.transfer.as_nanos());
        Some(bytes.max(REQUEST).min(self.unflushed))
    }

    /// The time of the seeks of one cycle: one for each of its turns; without turns its own, and back
    /// to the farthest of the longer cycles.
    pub(super) fn seeks(
        &self,
        all: &[Self],
        turn: Option<Duration>,
        of: impl Fn(&Positioning) -> u128,
    ) -> u128 {
        if let Some(bytes) = self.turn(turn) {
            let each = of(&self.seek) + self.flush.as_ref().map_or(0, &of);
            return each * u128::from(self.bytes.div_ceil(bytes).max(1));
        }
        let longer = all.iter().filter(|other| other.checked() && other.cycle > self.cycle);
        of(&self.seek) + longer.map(|other| of(&other.seek)).max().unwrap_or(0)
    }

    /// The longest that a stream of a shorter cycle waits for it: a turn, which may end within a
    /// request; without turns a request.
    pub(super) fn in_the_way(&self, turn: Option<Duration>) -> u128 {
        let request = u128::from((self.seek_and_flush() + self.request).as_nanos());
        let Some(bytes) = self.turn(turn).filter(|_| self.checked()) else { return request };
        let transfer = u128::from(self.transfer.as_nanos());
        let part = transfer * u128::from(bytes.min(self.bytes)) / u128::from(self.bytes.max(1));
        request + part.min(transfer)
    }

    pub(super) fn seek_and_flush(&self) -> Duration {
        self.seek.worst + self.flush.map_or(Duration::ZERO, |flush| flush.worst)
    }

    pub(super) fn cost(&self, all: &[Self], turn: Option<Duration>, reckoned: Reckoned) -> u128 {
        let seeks = self.seeks(all, turn, |seek| match reckoned {
            Reckoned::Worst => seek.worst.as_nanos().into(),
            Reckoned::Mean => seek.mean.as_nanos().into(),
        });
        seeks + u128::from(self.transfer.as_nanos())
    }

    /// Cost by cycle in parts per million, rounded up; above the whole if it does not fit.
    pub(super) fn parts(&self, all: &[Self], turn: Option<Duration>, reckoned: Reckoned) -> u128 {
        (self.cost(all, turn, reckoned) * PARTS).div_ceil(self.cycle.as_nanos().into())
    }

    pub(super) fn allowance(&self, all: &[Self], turn: Option<Duration>) -> Duration {
        if turn.is_some() {
            return nanos(self.cost(all, turn, Reckoned::Worst));
        }
        let shorter = all.iter().filter(|other| other.checked() && other.cycle < self.cycle);
        let begin = |other: &Self| self.cycle.as_nanos().div_ceil(other.cycle.as_nanos());
        let seeks = 1 + shorter.map(|other| u128::from(begin(other))).sum::<u128>();
        nanos(seeks * u128::from(self.seek.worst.as_nanos()) + u128::from(self.transfer.as_nanos()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reckoned {
    Worst,
    Mean,
}
