//! Cost models: how much disk time a piece will take.
//!
//! A cost model supplies modelled costs; the engine charges, the policy orders. No cost model knows
//! contracts, queues, or when a piece goes out.

use alloc::boxed::Box;

use crate::types::ids::StreamId;
use crate::types::tiers::Tier;
use crate::types::time::{Duration, Instant};

pub(crate) mod book;
mod fixed;
mod learned;
mod priced;

pub use crate::types::piece::{PieceKind, PieceShape};

/// Estimates disk time. Called by the engine, on its thread, once for every piece that becomes the
/// next of its stream.
pub trait CostModel: Send {
    /// The disk time that this piece will take if it goes out next: what is debited at dispatch
    /// (deeper than 1 in the proportion that recent windows charged), and its part when a window's
    /// busy time is divided. At least 1 ns.
    fn estimate(&mut self, piece: &PieceShape) -> Duration;
    /// How far its costs can be trusted.
    fn trust(&self) -> Trust {
        Trust::None
    }
    /// How sure its cost of such a piece is; `None` if it knows nothing of costs.
    fn certainty(&self, _piece: &PieceShape) -> Option<Certainty> {
        None
    }
    /// The same model, if it learns while it runs.
    fn learner(&mut self) -> Option<&mut dyn Learner> {
        None
    }
}

/// A cost model that learns from what comes back.
pub trait Learner: CostModel {
    /// A piece is over while its stream had the device to itself. Answers whether that made the
    /// stream's price known, or known anew.
    fn seen_alone(&mut self, seen: &SeenAlone) -> bool;
    /// A piece is over, and one tier of the device served it, beside others' pieces or not. Answers
    /// what that tells of the stream's price, if anything.
    fn seen_on_tier(&mut self, seen: &SeenOnTier) -> Option<Seen>;
    /// A piece goes out that begins at that byte of the device. Answers what the model wants to be told when
    /// the piece comes back.
    fn sent(&mut self, piece: &PieceShape, offset: u64) -> Option<Used>;
    /// Its [`estimate`](CostModel::estimate) of a piece, and the disk time of such a piece by the device's price
    /// list, or by a guess: the same until the list changes.
    fn estimate_and_list(&mut self, piece: &PieceShape) -> [Duration; 2];
    /// The estimated costs of requests, of the streams seen.
    fn costs(&self) -> Costs;
    /// Whether what such a piece is taken to cost has moved beyond chance since that was told last:
    /// told now.
    fn moved(&mut self, piece: &PieceShape) -> Option<Moved>;
    /// The stream is gone; its id may come back for another.
    fn forget(&mut self, stream: StreamId);
    /// The device's price list has been measured, or measured again.
    fn anchor(&mut self, prices: &PriceList);
}

/// How far a model's costs can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Costs of unlike pieces don't compare. Under a policy that gives turns each piece is charged
    /// the time since the previous completion.
    None,
    /// They compare as the device has them.
    Stated,
    /// They compare once each stream had the device to itself for a while.
    Learned,
}

/// A piece that is over, while its stream had the device to itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenAlone {
    /// Its shape.
    pub piece: PieceShape,
    /// The time since the stream's previous completion, or since its release.
    pub took: Duration,
    /// For how long the stream had the device to itself when it ended,
    pub since: Duration,
    /// and how many of its pieces had ended before this one, in that time.
    pub pieces: u32,
    /// Its pieces that were at the device, this one included.
    pub in_flight: u32,
    /// How long the device may be busy with what it had before.
    pub settling: Duration,
    /// Whether it took what it takes alone, if the policy tells: in the middle of a slice.
    pub steady: Option<bool>,
}

/// A piece that is over, on a device that tells which tier served it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenOnTier {
    /// Its shape.
    pub piece: PieceShape,
    /// The answer of [`Learner::sent`].
    pub used: Option<Used>,
    /// The tier that served it.
    pub tier: Tier,
    /// The time since that tier's previous completion, or since this piece's release: exact where a
    /// tier serves in order.
    pub took: Duration,
    /// From its release to its end.
    pub response: Duration,
    /// The same piece, if its stream had the device to itself.
    pub alone: Option<SeenAlone>,
}

/// How many pieces ago a piece's block was used last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Counted in pieces of all streams; `None` if it was not used before.
    pub of_all: Option<u64>,
    /// Counted in pieces of its own stream.
    pub own: Option<u64>,
}

/// News from a completion on a stream's cost: it is known, or known anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It was seen while the stream had the device to itself.
    Alone,
    /// It is what the stream's pieces take of the device's tiers: it is seen among other streams' pieces,
    /// too.
    OnTier,
}

/// The costs of requests at the device, as worked out while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// One that goes on where another ended.
    pub sequential: Duration,
    /// Any other.
    pub random: Duration,
    /// The number of observations behind them, since they were worked out last; 0 if nothing could be.
    pub observations: u32,
}

/// Where a cost comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// Somebody said it, and it stays so.
    Stated,
    /// Nobody has measured the device, and nobody has seen it.
    Guessed,
    /// By the device's price list, or by what others' pieces took by it; not seen of this stream.
    Anchored,
    /// Seen of this stream.
    Learned,
}

/// How sure a cost is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Certainty {
    /// Where it comes from.
    pub basis: Basis,
    /// By how much what was seen differs from it, more or less, on average, in thousandths of it;
    /// `None` before that was seen. The mean of many observations is surer.
    pub spread_permille: Option<u32>,
    /// How far it is above what the device's price list says (below: negative), in thousandths of
    /// that; `None` without a list.
    pub drift_permille: Option<i64>,
}

/// The estimated cost of a stream's pieces of one kind, and its certainty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// The kind of the pieces.
    pub kind: PieceKind,
    /// Their length in bytes: that of the stream's last such piece.
    pub bytes: u64,
    /// Its disk time.
    pub cost: Duration,
    /// How sure that is.
    pub certainty: Certainty,
    /// When the model learned last from such a piece; `None` if it never did.
    pub seen_at: Option<Instant>,
    /// The charge for a guest's pieces in the stream's slices, by the time that they take alone, in permille; `None`
    /// before a guest was there, and under policies that give no slices.
    pub guest_permille: Option<u32>,
}

/// A cost that has moved beyond chance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The cost that was told last; at first the one in the device's cost table.
    pub before: Duration,
    /// The cost now.
    pub now: Duration,
    /// The cost in the device's cost table, if there is one.
    pub listed: Option<Duration>,
}

/// The longest cost of a piece that the engine takes from a cost model: 2^44 ns, 4.9 h. A signed sum
/// in 64 bits holds half a million such pieces; a window of 100 ms completes fewer.
pub(crate) const COST_MAX: Duration = Duration::from_nanos(1 << 44);

/// Numbers that a cost model may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostParameters {
    /// Estimate for a piece that continues its stream's previous one.
    pub sequential: Duration,
    /// Estimate for any other.
    pub random: Duration,
    /// The costs of the first streams' pieces, where they are known: the cost table of `priced`.
    pub prices: [Price; CostParameters::PRICES],
    /// The costs of the kinds of requests, where they have been measured.
    pub anchor: Option<PriceList>,
}

impl CostParameters {
    /// How many streams can have a price of their own.
    pub const PRICES: usize = 16;
}

/// The cost of a stream's pieces, known beforehand. No price: neither a time each nor one by length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Price {
    /// For every piece, however long.
    pub each: Duration,
    /// For every MiB of it, in proportion.
    pub per_mib: Duration,
}

/// The saturation costs of a device: disk time per request of each kind when that kind runs alone at the
/// device's best depth, from one completion to the next. The profile of any device has them, and
/// estimates start from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriceList {
    /// Reads that continue the one before.
    pub sequential_read: Price,
    /// Reads anywhere.
    pub random_read: Price,
    /// Writes that continue the one before.
    pub sequential_write: Price,
    /// Writes anywhere, in the long run: as fast as they reach the medium, not its cache.
    pub random_write: Price,
}

impl Price {
    /// The cost of a request of so many bytes, rounded up.
    #[must_use]
    pub fn of(&self, bytes: u64) -> Duration {
        const MIB: u128 = 1 << 20;
        let by_length = u128::from(bytes) * u128::from(self.per_mib.as_nanos());
        let nanos = by_length.div_ceil(MIB) + u128::from(self.each.as_nanos());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl PriceList {
    /// Whether its prices of writes are their own: those of writes that were not measured are those
    /// of reads.
    #[must_use]
    pub fn writes_measured(&self) -> bool {
        let reads = (self.sequential_read, self.random_read);
        (self.sequential_write, self.random_write) != reads
    }
}

impl Default for CostParameters {
    /// 300 µs and 20 ms (zygaria §3), and no prices.
    fn default() -> Self {
        Self {
            sequential: Duration::from_micros(300),
            random: Duration::from_millis(20),
            prices: [Price::default(); Self::PRICES],
            anchor: None,
        }
    }
}

/// A cost model that can be configured by name.
pub struct CostEntry {
    /// Its name in configurations.
    pub name: &'static str,
    /// A description of one line.
    pub doc: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes one.
    pub build: fn(CostParameters) -> Box<dyn CostModel>,
}

/// Every cost model there is.
pub static REGISTRY: &[CostEntry] = &[fixed::ENTRY, learned::ENTRY, priced::ENTRY];

/// The policy if none is named: `disktime`.
pub(crate) const DEFAULT_POLICY: &str = "disktime";

/// The cost model for a policy if none is named: the product's gives slices, from which costs are learned.
#[must_use]
pub fn usual(policy: &str) -> &'static str {
    if policy == DEFAULT_POLICY { learned::ENTRY.name } else { fixed::ENTRY.name }
}

/// The entry of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static CostEntry> {
    REGISTRY.iter().find(|entry| entry.name == name)
}
