//! When operations are issued, as plain data.

use crate::error::{CYCLE_OPERATIONS_MAX, INTERVAL_MIN, OUTSTANDING_MAX, SpecError};
use crate::spec::Spec;
use disktime_config::quantity;
use disktime_core::Duration;
use serde::Deserialize;

/// The rule for when the next operation is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// A fixed number at once: each completion makes room for the next.
    Closed {
        /// How many may be outstanding, at least one.
        outstanding: u32,
        /// Time from a completion to the operation that takes its place; in files 0 if left out.
        #[serde(default, deserialize_with = "quantity::duration")]
        think: Duration,
    },
    /// A closed loop that rests: after each `length` operations it waits for their completions and
    /// then for an idle time. (Paper `qbox`: idle 0.5 to 1 s every 5000 requests.)
    Bursts {
        /// How many may be outstanding, at least one.
        outstanding: u32,
        /// Operations of a burst, at least one.
        length: u32,
        /// Shortest idle time.
        #[serde(deserialize_with = "quantity::duration")]
        idle_min: Duration,
        /// Longest idle time; all times between the two are equally likely.
        #[serde(deserialize_with = "quantity::duration")]
        idle_max: Duration,
    },
    /// By time alone, however many are outstanding.
    Open(Arrivals),
    /// At a constant rate, with a buffer.
    Player(Playback),
    /// At a constant rate, a cycle's worth at once.
    Cycles(Cycles),
}

/// The times between the arrivals of an open loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Always the same; the first operation comes at the start.
    Constant {
        /// From one to the next, more than zero.
        #[serde(deserialize_with = "quantity::duration")]
        interval: Duration,
    },
    /// A Poisson process: exponentially distributed, also from the start to the first.
    Poisson {
        /// Mean time from one to the next, more than zero.
        #[serde(deserialize_with = "quantity::duration")]
        mean: Duration,
    },
    /// Constant for a while, then nothing for a while. Each ON period starts with an operation, the
    /// first at the start.
    OnOff {
        /// From one operation to the next while ON, more than zero.
        #[serde(deserialize_with = "quantity::duration")]
        interval: Duration,
        /// Length of an ON period, or its mean, more than zero.
        #[serde(deserialize_with = "quantity::duration")]
        on: Duration,
        /// Length of an OFF period, or its mean.
        #[serde(deserialize_with = "quantity::duration")]
        off: Duration,
        /// Whether the lengths are always the same; in files they are if this is left out.
        #[serde(default)]
        spans: Spans,
    },
}

/// How long the periods of [`Arrivals::OnOff`] are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spans {
    /// Always the same.
    #[default]
    Fixed,
    /// Exponentially distributed.
    Exponential,
}

/// A constant-rate player (all reads) or recorder (all writes). (Paper `mdn`: its client reads at a
/// constant rate with a buffer of a second.)
///
/// A player fills its buffer as fast as it can from the start on, and again whenever there is room
/// for an operation. It starts to play when a buffer's time has passed. When it needs an operation
/// whose data isn't there, that is a miss: it stops playing until the data comes, plays on at once,
/// and catches up by filling its buffer again. So it never catches up by more than its buffer.
///
/// A recorder fills its buffer at the rate and writes whatever makes a whole operation. When the
/// buffer is full, that is a miss: it stops recording until an operation completes.
///
/// The buffer holds whole operations in flight, so short operations use it best.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Playback {
    /// Bytes per second, more than zero.
    #[serde(rename = "rate", deserialize_with = "quantity::rate")]
    pub bytes_per_second: u64,
    /// How long what is in a full buffer lasts; in files a second if left out. It holds at least two
    /// of the largest operations.
    #[serde(default = "second", deserialize_with = "quantity::duration")]
    pub buffer: Duration,
    /// How many operations may be outstanding, at least one; in files 1 if left out.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// A variable bit rate: a second's worth of bytes plays in a second more or less this part of it
    /// at most, in thousandths, up to 900. Which does how much is a fixed table, and 16 of them play in
    /// 16 seconds. In files `vbr = "50%"`; 0 if left out.
    #[serde(rename = "vbr", default, deserialize_with = "quantity::permille")]
    pub vbr_permille: u16,
}

/// A load that issues a cycle's worth of whole operations at the start of every cycle, however many
/// are outstanding. (Paper `ucsb`, section III-B: all real-time requests of a cycle are submitted
/// at its start.)
///
/// Cycles start at the multiples of their length from time zero, as those of the scheduler do; the
/// first that counts starts at the load's start or later. The rest of a cycle's bytes below a whole
/// operation goes into the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycles {
    /// Bytes per second, more than zero.
    #[serde(rename = "rate", deserialize_with = "quantity::rate")]
    pub bytes_per_second: u64,
    /// From the start of one to the next, more than zero.
    #[serde(deserialize_with = "quantity::duration")]
    pub cycle: Duration,
}

const fn second() -> Duration {
    Duration::from_secs(1)
}

const fn one() -> u32 {
    1
}

impl Pace {
    /// How many operations may be outstanding; `None` where there is no bound.
    #[must_use]
    pub const fn outstanding_max(&self) -> Option<u32> {
        match *self {
            Self::Closed { outstanding, .. } | Self::Bursts { outstanding, .. } => {
                Some(outstanding)
            }
            Self::Player(Playback { outstanding, .. }) => Some(outstanding),
            Self::Open(_) | Self::Cycles(_) => None,
        }
    }

    /// Says what is wrong, if anything.
    ///
    /// # Errors
    /// A loop with nothing outstanding, without time between arrivals, without anything to do.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.outstanding_max() == Some(0) {
            return Err(SpecError::NothingOutstanding);
        }
        if let Some(outstanding) = self.outstanding_max().filter(|most| *most > OUTSTANDING_MAX) {
            return Err(SpecError::OutstandingMany { outstanding });
        }
        match *self {
            Self::Bursts { length: 0, .. } => Err(SpecError::BurstEmpty),
            Self::Bursts { idle_min: min, idle_max: max, .. } if min > max => {
                Err(SpecError::IdleBackwards { min, max })
            }
            Self::Open(
                Arrivals::Constant { interval: Duration::ZERO }
                | Arrivals::Poisson { mean: Duration::ZERO }
                | Arrivals::OnOff { interval: Duration::ZERO, .. },
            ) => Err(SpecError::IntervalZero),
            Self::Open(
                Arrivals::Constant { interval }
                | Arrivals::Poisson { mean: interval }
                | Arrivals::OnOff { interval, .. },
            ) if interval < INTERVAL_MIN => Err(SpecError::IntervalShort { interval }),
            Self::Open(Arrivals::OnOff { on: Duration::ZERO, .. }) => Err(SpecError::OnZero),
            Self::Open(Arrivals::OnOff { on, off, .. }) if on + off < INTERVAL_MIN => {
                Err(SpecError::PeriodShort { period: on + off })
            }
            Self::Player(Playback { bytes_per_second: 0, .. })
            | Self::Cycles(Cycles { bytes_per_second: 0, .. }) => Err(SpecError::RateZero),
            Self::Cycles(Cycles { cycle: Duration::ZERO, .. }) => Err(SpecError::CycleZero),
            Self::Cycles(Cycles { cycle, .. }) if cycle < INTERVAL_MIN => {
                Err(SpecError::CycleShort { cycle })
            }
            Self::Closed { .. }
            | Self::Bursts { .. }
            | Self::Open(_)
            | Self::Player(_)
            | Self::Cycles(_) => Ok(()),
        }
    }

    /// Says what is wrong with issuing these operations so, if anything.
    ///
    /// # Errors
    /// As [`check`](Self::check), and a player that reads and writes or whose buffer is too short.
    pub fn check_with(&self, spec: &Spec) -> Result<(), SpecError> {
        self.check()?;
        if let Self::Cycles(Cycles { bytes_per_second, cycle }) = self {
            let bytes =
                u128::from(*bytes_per_second) * u128::from(cycle.as_nanos()) / 1_000_000_000;
            let operations = bytes / u128::from(spec.unit().unwrap_or(1).max(1));
            let operations = u64::try_from(operations).unwrap_or(u64::MAX);
            if operations > CYCLE_OPERATIONS_MAX {
                return Err(SpecError::CycleMany { operations });
            }
        }
        let Self::Player(playback) = self else { return Ok(()) };
        if playback.vbr_permille > Playback::VBR_MAX {
            return Err(SpecError::Vbr { permille: playback.vbr_permille });
        }
        if !matches!(spec.reads_permille, 0 | 1000) {
            return Err(SpecError::PlayerMixed { permille: spec.reads_permille });
        }
        let bytes = playback.capacity();
        let needed = spec.largest().saturating_mul(2);
        if bytes < needed { Err(SpecError::BufferShort { bytes, needed }) } else { Ok(()) }
    }
}

/// By what part of [`Playback::vbr_permille`] a second's worth of bytes plays longer, in thousandths,
/// one after another; together by nothing.
const VARIES: [i64; 16] =
    [0, 300, -500, 800, -1000, 600, -200, 1000, -700, 100, -900, 500, 900, -400, -800, 300];

impl Playback {
    /// The largest variation of the bit rate, in thousandths.
    pub const VBR_MAX: u16 = 900;

    /// How long the first so many bytes play, in ns by [`bytes_per_second`](Self::bytes_per_second).
    pub(crate) fn playing_time(&self, bytes: u64) -> u128 {
        const SECOND: u128 = 1_000_000_000;
        let rate = self.bytes_per_second;
        // A second's worth plays in 0.1 to 1.9 s.
        let span = |second: usize| {
            let millionths = VARIES[second % VARIES.len()] * i64::from(self.vbr_permille);
            SECOND.saturating_add_signed(i128::from(millionths) * 1000)
        };
        let (seconds, rest) = (bytes / rate, bytes % rate);
        let table = VARIES.len() as u64;
        let at = usize::try_from(seconds % table).unwrap_or(0);
        let whole = u128::from(seconds - seconds % table) * SECOND;
        let whole = whole + (0..at).map(span).sum::<u128>();
        whole * u128::from(rate) + u128::from(rest) * span(at)
    }

    /// Bytes that the buffer holds, rounded down.
    pub(crate) fn capacity(&self) -> u64 {
        let product = u128::from(self.bytes_per_second) * u128::from(self.buffer.as_nanos());
        u64::try_from(product / 1_000_000_000).unwrap_or(u64::MAX)
    }
}
