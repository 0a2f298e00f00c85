//! How fast a device is with each kind of request: what a pricer has found.
//!
//! Beside the price list that costs are anchored to, this says at which depth each kind is fastest,
//! what shorter queues cost, how batches of [`BATCH`] requests scatter (QBox's broker, §2: it takes
//! a rate for the device's utilization at a confidence, from batches of sequential and of random
//! requests apart), what switching costs and what caches do.

pub(super) mod fit;
mod speeds_file;

use crate::costs::Costs;
use disktime_core::cost::{Price, PriceList};
use disktime_core::{Access, Duration, Kind, Share};
use serde::{Deserialize, Serialize};

pub use speeds_file::PricesFile;
use speeds_file::SpeedsFile;

/// Requests of a batch (QBox §2).
pub const BATCH: u64 = 20;
/// At which parts of the batches their times are kept, in per cent.
pub const CONFIDENCES: [u32; 5] = [50, 80, 90, 95, 99];

/// A kind of requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Reads anywhere.
    RandomRead,
    /// Reads one behind the other.
    SequentialRead,
    /// Writes anywhere.
    RandomWrite,
    /// Writes one behind the other.
    SequentialWrite,
}

/// How a device is with each kind of requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "SpeedsFile", into = "SpeedsFile")]
pub struct Speeds {
    /// Each kind that was measured, at least reads.
    pub works: Vec<WorkSpeed>,
    /// The switch costs between kinds, if they were measured.
    pub switching: Option<Switching>,
    /// The effects of caches, if they were measured.
    pub cache: Option<Caches>,
}

/// How a device is with one kind of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkSpeed {
    /// Which kind.
    pub work: Work,
    /// The fewest outstanding with which it is about as fast as with any more: of 4 KiB anywhere, of
    /// 64 KiB in sequence.
    pub best_depth: u32,
    /// How many times as fast as with one outstanding, in thousandths.
    pub parallelism_permille: u64,
    /// The measurements: depths with one size first, then sizes with one outstanding and at the
    /// best depth.
    pub cells: Vec<Cell>,
}

/// Requests of one size with so many outstanding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests outstanding.
    pub depth: u32,
    /// Requests that it rests on.
    pub requests: u64,
    /// From one completion to the next, on the mean; at least 1 ns.
    pub each: Duration,
    /// The same of batches, at [`CONFIDENCES`]: in so many per cent of the batches a request takes
    /// at most so long on the mean. Kept at the best depth.
    pub batches: Option<[Duration; CONFIDENCES.len()]>,
}

/// The cost of a switch beyond the requests' own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switching {
    /// Between two streams that read in sequence.
    pub streams: Duration,
    /// Between reads in sequence and reads anywhere.
    pub kinds: Duration,
    /// Between reads and writes anywhere, if writes were measured.
    pub read_write: Option<Duration>,
}

/// The effects of caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caches {
    /// A read of a place that was not read before, one outstanding.
    pub read_first: Duration,
    /// The same again.
    pub read_again: Duration,
    /// Writes anywhere as they are acknowledged at first, if writes were measured.
    pub write_burst: Option<Duration>,
    /// Bytes that were acknowledged so before it took longer, as far as was tried.
    pub write_burst_bytes: Option<u64>,
}

/// A price list, and what it rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Priced {
    /// For the cost model. Writes that were not measured are priced as reads.
    pub prices: PriceList,
    /// Beside it.
    pub speeds: Speeds,
    /// Requests issued.
    pub requests: u64,
    /// From the first to the last.
    pub took: Duration,
}

impl Work {
    /// Every kind, reads first.
    pub const ALL: [Self; 4] =
        [Self::RandomRead, Self::SequentialRead, Self::RandomWrite, Self::SequentialWrite];

    /// As people say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RandomRead => "random read",
            Self::SequentialRead => "sequential read",
            Self::RandomWrite => "random write",
            Self::SequentialWrite => "sequential write",
        }
    }

    /// The kind of such a request.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::RandomRead | Self::SequentialRead => Kind::Read,
            Self::RandomWrite | Self::SequentialWrite => Kind::Write,
        }
    }

    /// Whether it goes anywhere.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite)
    }

    /// Its price in a list.
    #[must_use]
    pub const fn price(self, prices: &PriceList) -> Price {
        match self {
            Self::RandomRead => prices.random_read,
            Self::SequentialRead => prices.sequential_read,
            Self::RandomWrite => prices.random_write,
            Self::SequentialWrite => prices.sequential_write,
        }
    }
}

impl Caches {
    /// Whether what was read before comes from a cache.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.read_again.as_nanos() < self.read_first.as_nanos() / 2
    }
}

impl WorkSpeed {
    /// The fewest outstanding with which requests of the size that depths were compared with take at
    /// most so many thousandths more than at the best depth. More make others wait for little.
    #[must_use]
    pub fn shallowest(&self, permille: u64) -> u32 {
        let Some(first) = self.cells.first() else { return self.best_depth };
        let compared = || self.cells.iter().filter(|cell| cell.bytes == first.bytes);
        let of = |cell: &Cell| u128::from(cell.each.as_nanos()) * 1_000;
        let fastest = compared().map(of).min().unwrap_or(0) / 1_000;
        let fast = |cell: &&Cell| of(cell) <= fastest * u128::from(1_000 + permille);
        compared().filter(fast).map(|cell| cell.depth).min().unwrap_or(self.best_depth)
    }

    /// The cost of requests of about so many bytes with at most `depth` outstanding, by their cost
    /// at the best depth, in thousandths: at least 1000. By the size that was measured nearest to
    /// this one; between two depths by the shallower, as if twice as many were twice as fast.
    #[must_use]
    pub fn slowdown_permille(&self, bytes: u64, depth: u32) -> u64 {
        let Some(deep) = self.nearest(bytes) else { return 1_000 };
        let shallow = self.cells.iter().filter(|cell| cell.bytes == deep.bytes);
        let shallow = shallow.filter(|cell| cell.depth <= depth.max(1));
        let Some(shallow) = shallow.max_by_key(|cell| cell.depth) else { return 1_000 };
        let here = u128::from(shallow.each.as_nanos()) * u128::from(shallow.depth);
        let here = u64::try_from(here / u128::from(depth.max(1))).unwrap_or(u64::MAX);
        permille(Duration::from_nanos(here), deep.each).max(1_000)
    }

    /// The time of batches at a confidence by the mean time of requests, in thousandths, at the
    /// size that was measured nearest to this one. Confidences beyond those kept are the last
    /// one's.
    #[must_use]
    pub fn scatter_permille(&self, bytes: u64, confidence: Share) -> u64 {
        let nearest = self.nearest(bytes);
        let of = CONFIDENCES.iter().position(|percent| percent * 10_000 >= confidence.ppm());
        let of = of.unwrap_or(CONFIDENCES.len() - 1);
        let batches = nearest.and_then(|cell| Some((cell.batches?[of], cell.each)));
        batches.map_or(1_000, |(batch, each)| permille(batch, each))
    }

    /// The measurement at the best depth in the size that is nearest.
    fn nearest(&self, bytes: u64) -> Option<&Cell> {
        self.cells.iter().filter(|cell| cell.batches.is_some()).min_by_key(|cell| {
            let (small, large) = (cell.bytes.min(bytes).max(1), cell.bytes.max(bytes));
            large / small
        })
    }
}

/// How much longer pieces may take than at the depth at which the device is fastest, in thousandths:
/// for the last tenth depths double, and a stream that asks for little waits behind all of it.
const SLOWER_PERMILLE: u64 = 100;

impl Speeds {
    /// The fewest outstanding with which every kind is fast, within a tenth.
    #[must_use]
    pub fn fast_from(&self) -> u32 {
        let depths = self.works.iter().map(|work| work.shallowest(SLOWER_PERMILLE));
        depths.max().unwrap_or(1)
    }

    /// How fast one kind is, if that was measured.
    #[must_use]
    pub fn of(&self, work: Work) -> Option<&WorkSpeed> {
        self.works.iter().find(|of| of.work == work)
    }

    /// The cost of requests of so many bytes with at most `depth` outstanding, at a confidence;
    /// where reads and writes may come, the higher of both.
    #[must_use]
    pub fn costs(
        &self,
        prices: &PriceList,
        access: Access,
        bytes: u64,
        depth: u32,
        confidence: Option<Share>,
    ) -> Costs {
        let cost = |work: Work| {
            let nanos = u128::from(work.price(prices).of(bytes).as_nanos());
            let Some(speed) = self.of(work) else { return nanos };
            let scatter = confidence.map_or(1_000, |at| speed.scatter_permille(bytes, at));
            let permille = u128::from(speed.slowdown_permille(bytes, depth)) * u128::from(scatter);
            nanos.saturating_mul(permille).div_ceil(1_000_000)
        };
        let costlier = |read: Work, write: Work| {
            let reads = if access == Access::Write { 0 } else { cost(read) };
            let writes = if access == Access::Read { 0 } else { cost(write) };
            Duration::from_nanos(u64::try_from(reads.max(writes)).unwrap_or(u64::MAX))
        };
        Costs {
            first: costlier(Work::RandomRead, Work::RandomWrite),
            next: costlier(Work::SequentialRead, Work::SequentialWrite),
        }
    }
}

fn permille(one: Duration, other: Duration) -> u64 {
    let by = u128::from(one.as_nanos()) * 1_000 / u128::from(other.as_nanos().max(1));
    u64::try_from(by).unwrap_or(u64::MAX)
}
