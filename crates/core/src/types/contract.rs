//! Promises to a stream: contracts, and classes.

use crate::types::ids::StreamId;
use crate::types::share::Share;
use crate::types::time::Duration;

/// The order in which streams go. Soft real-time ranks with best effort, unshaped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Class {
    /// Done within a stated bound, from reserved time.
    GuaranteedLatency,
    /// A rate kept in every time cycle.
    GuaranteedRate,
    /// Unshaped, while other best effort can be shaped in its favour.
    SoftRealTime,
    /// The usual.
    #[default]
    BestEffort,
    /// Time that no other class wants, in preemptible pieces.
    Background,
}

/// How a guaranteed rate is admitted, from the firmest promise to none. When a degraded device
/// can't keep all rates, the firmest is cut last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Admission {
    /// Every cycle is kept at the profile's worst latencies.
    #[default]
    Deterministic,
    /// At most this part of the cycles is missed, by the profile's means and deviations.
    Statistical {
        /// The part.
        miss: Share,
    },
    /// Admitted without a check, and nothing is set aside for it. It goes before best effort, but while
    /// the slack register holds time best effort goes before it, as before every rate (ucsb §III-A).
    /// Without a profile there is no such register.
    BestEffort,
}

/// Whether a guaranteed-rate stream reads or writes, which decides at what rate its zone transfers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Access {
    /// Either: the slower counts.
    #[default]
    Both,
    /// Reads only.
    Read,
    /// Writes only.
    Write,
}

/// A rate that is kept in every time cycle (ucsb §III-B).
///
/// Cycles begin at the multiples of their length. Up to rate × cycle of the bytes that wait when a
/// cycle begins, or arrive while it lasts, are done before it ends; admission counts with a whole
/// cycle's bytes at its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    /// How much, in bytes per second.
    pub bytes_per_second: u64,
    /// How often: [`Rate::CYCLE_MIN`] to [`Rate::CYCLE_MAX`]; `None` to have one chosen that spends
    /// at most a tenth of the stream's time on positioning.
    pub cycle: Option<Duration>,
    /// The firmness of the promise.
    pub admission: Admission,
    /// Whether it reads or writes.
    pub access: Access,
}

impl Rate {
    /// The shortest cycle.
    pub const CYCLE_MIN: Duration = Duration::from_millis(50);
    /// The longest cycle.
    pub const CYCLE_MAX: Duration = Duration::from_secs(60);
}

/// A stream's part of the device's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Share of disk time that it gets whenever it wants it. A guaranteed-rate stream's follows
    /// from its rate: what is here is replaced.
    pub reserve: Share,
    /// Share of disk time that it never exceeds for long.
    pub limit: Share,
    /// Its part of the slack, against the other streams' weights: 1 to [`Contract::WEIGHT_MAX`].
    pub weight: u32,
    /// The class that decides its place in the order.
    pub class: Class,
    /// The rate of a guaranteed-rate stream; its reservation follows from it.
    pub rate: Option<Rate>,
    /// The bound on a guaranteed-latency stream's response times, as long as its own load stays
    /// within its reservation.
    pub latency: Option<Duration>,
}

impl Contract {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 10_000;

    /// The default contract with another reservation.
    #[must_use]
    pub const fn reserving(reserve: Share) -> Self {
        Self {
            reserve,
            limit: Share::FULL,
            weight: 100,
            class: Class::BestEffort,
            rate: None,
            latency: None,
        }
    }
}

impl Default for Contract {
    /// No reservation, no limit, weight 100, best effort.
    fn default() -> Self {
        Self::reserving(Share::ZERO)
    }
}

/// A stream as it is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSpec {
    /// The part of the device's time that it owns.
    pub contract: Contract,
    /// The stream whose limit and reservation hold as well (a file's virtual disk, a virtual disk's tenant):
    /// the reservation is a part of the parent's. A parent has none itself.
    pub parent: Option<StreamId>,
    /// Requests that may wait; one more is refused.
    pub queue_max: u32,
    /// Pieces of it that may be at the device at once.
    pub depth_max: u32,
    /// Largest piece in bytes that goes out at once; a larger request goes out in several.
    pub piece_bytes_max: u64,
    /// Where on the device its requests lie, first byte and end; `None` for anywhere. Admission
    /// uses the rates of the zones there.
    pub extent: Option<(u64, u64)>,
}

impl Default for StreamSpec {
    /// The default contract, no parent, 1024 waiting, no depth of its own, requests whole, anywhere.
    fn default() -> Self {
        Self {
            contract: Contract::default(),
            parent: None,
            queue_max: 1024,
            depth_max: u32::MAX,
            piece_bytes_max: u64::MAX,
            extent: None,
        }
    }
}
