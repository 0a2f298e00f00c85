//! Feedback: soft real-time clients say "I missed", a controller answers with how fast best effort
//! may go.
//!
//! Best effort passes a token bucket filter, one for what reads and one for what writes. A
//! controller moves the filter's rate R between [`FeedbackConfig::rate_min`] and none at all. The
//! engine owns the filter, counts only reports that it can believe, and remembers for which streams
//! R was cut. `docs/soft-real-time.md` explains all of it.
//!
//! Source: mdn, sections 3 to 5.

use alloc::boxed::Box;

use crate::types::share::Share;
use crate::types::time::{Duration, Instant};

mod adaptive;
mod fixed;

/// Bytes of a token, where tokens are data.
pub(crate) const TOKEN_BYTES: u64 = 128 << 10;
/// Disk time of a token, where tokens are time: what a token of data takes on the paper's disk.
pub(crate) const TOKEN_TIME: Duration = Duration::from_millis(5);

/// The unit of a token of best effort.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Token {
    /// A request, however long (mdn, section 3).
    Request,
    /// 128 KiB of data; a flush is free.
    Data,
    /// 5 ms of disk time, as it is charged: 200 tokens a second are the whole device.
    #[default]
    Time,
}

impl Token {
    /// Units of counting in one token: requests, bytes or nanoseconds.
    pub(crate) fn grains(self) -> u64 {
        match self {
            Self::Request => 1,
            Self::Data => TOKEN_BYTES,
            Self::Time => TOKEN_TIME.as_nanos(),
        }
    }
}

/// Thousandths of a token per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TokenRate(u64);

impl TokenRate {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many tokens per second.
    #[must_use]
    pub const fn per_second(tokens: u32) -> Self {
        Self(tokens as u64 * 1000)
    }

    /// So many thousandths of a token per second.
    #[must_use]
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli)
    }

    /// In thousandths of a token per second.
    #[must_use]
    pub const fn as_milli(self) -> u64 {
        self.0
    }

    /// Less this part of it, rounded down.
    #[must_use]
    pub fn less(self, part: Share) -> Self {
        let parts = u128::from(self.0) * u128::from(part.ppm());
        let part = u64::try_from(parts.div_ceil(u128::from(Share::PARTS))).unwrap_or(u64::MAX);
        Self(self.0 - part)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// How best effort is shaped for soft real time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedbackConfig {
    /// The controller: one of [`REGISTRY`], or another one.
    pub controller: &'static FeedbackEntry,
    /// The unit of a token.
    pub token: Token,
    /// R_min, in tokens per second: best effort that reads and best effort that writes each keep
    /// this much, whatever is reported.
    pub rate_min: u32,
    /// R_max, in tokens per second: from there on nothing is held back.
    pub rate_max: u32,
    /// R before the first report; R_max and more for no effect.
    pub rate_start: u32,
    /// β, the part that a report takes off R.
    pub cut: Share,
    /// δ, in thousandths of a token per second and refill: how fast `optimistic` gives back.
    pub creep_milli: u32,
    /// How often a controller looks at what it has done.
    pub refill: Duration,
    /// Tokens that a stream gets at once when its turn comes; the bucket holds twice as many.
    pub burst: u32,
    /// The shortest time between two reports of one stream that count.
    pub report_interval: Duration,
    /// Whether reports need proof, and what false ones brought is taken back.
    pub anti_cheat: bool,
}

impl Default for FeedbackConfig {
    /// No controller; tokens of disk time. The paper's values where it has any; those it lost are β
    /// 24 %, δ 1 token/s every 0.5 s, R from 10 to 10,000 tokens/s, 8 tokens at once (a megabyte of data, as
    /// an elevator's batch) and one report per stream and second.
    fn default() -> Self {
        Self {
            controller: &NONE,
            token: Token::Time,
            rate_min: 10,
            rate_max: 10_000,
            rate_start: 10_000,
            cut: Share::from_percent(24).expect("at most 100"),
            creep_milli: 1000,
            refill: Duration::from_millis(500),
            burst: 8,
            report_interval: Duration::from_secs(1),
            anti_cheat: true,
        }
    }
}

impl FeedbackConfig {
    pub(crate) fn least(&self) -> TokenRate {
        TokenRate::per_second(self.rate_min)
    }

    /// A rate as the filter takes it: never below R_min, none from R_max on.
    pub(crate) fn bounded(&self, rate: TokenRate) -> Option<TokenRate> {
        Some(rate.max(self.least())).filter(|rate| *rate < TokenRate::per_second(self.rate_max))
    }
}

/// One direction of best effort, as its controller sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe {
    /// R; `None` if it has no effect.
    pub rate: Option<TokenRate>,
    /// The rate of best effort in the last second.
    pub observed: TokenRate,
    /// R held best effort back in the last second: it is not above what is attainable.
    pub binding: bool,
}

impl Pipe {
    /// The rate that a cut starts from: R, or the observed rate where R is above what is attainable
    /// (mdn, section 5).
    #[must_use]
    pub fn cut_from(self) -> TokenRate {
        self.rate.filter(|_| self.binding).unwrap_or(self.observed)
    }
}

/// How those soft real-time streams do for which R was cut: the one that does worst.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// It has not paused since the last look: it does not have all that it wants.
    pub behind: bool,
    /// By how much of its own playing time it has fallen behind since it last paused: what of its
    /// buffer is gone. `None` while its rate is not known.
    pub lag: Option<Duration>,
}

/// Decides R, for best effort that reads or for best effort that writes.
///
/// Called by the engine alone. Each call answers the new R, which the engine keeps between R_min and
/// R_max; `None` is no limit. Where a controller says nothing, R stays.
pub trait Controller: Send {
    /// A report counts.
    fn missed(&mut self, now: Instant, pipe: Pipe) -> Option<TokenRate>;
    /// A refill has passed, or, if the controller clears the way, the stream that was behind has
    /// caught up; called while R has an effect.
    fn refilled(&mut self, _now: Instant, pipe: Pipe, _standing: Standing) -> Option<TokenRate> {
        pipe.rate
    }
    /// A stream for which R was cut is done with soft real time: `part` is what the cuts for it came
    /// to, `others` what those for others did.
    fn ended(
        &mut self,
        _now: Instant,
        pipe: Pipe,
        _part: TokenRate,
        _others: TokenRate,
    ) -> Option<TokenRate> {
        pipe.rate
    }
}

/// Makes a controller.
pub type Build = fn(&FeedbackConfig) -> Box<dyn Controller>;

/// A controller that can be configured by name.
#[derive(Debug)]
pub struct FeedbackEntry {
    /// Its name in configurations.
    pub name: &'static str,
    /// A summary in one line.
    pub doc: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The controller clears the way for a stream that reports. So a report's gain is a loan: a
    /// stream that has not had enough soon after it pays it back. Under the other controllers that
    /// would be too much to ask.
    pub lends: bool,
    /// Makes one; `None` for no filter at all.
    pub build: Option<Build>,
}

/// A controller is known by its name.
impl PartialEq for FeedbackEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for FeedbackEntry {}

static NONE: FeedbackEntry = FeedbackEntry {
    name: "none",
    doc: "best effort is not shaped; reports are events only",
    source: "-",
    lends: false,
    build: None,
};

/// The product's controllers. Others implement [`Controller`] elsewhere and have entries of their own.
pub static REGISTRY: &[&FeedbackEntry] = &[&NONE, &adaptive::ENTRY, &fixed::ENTRY];
