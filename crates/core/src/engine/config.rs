//! How an engine is made, and what its numbers may be.

use super::error::ConfigError;
use crate::classes::promise;
use crate::cost::CostParameters;
use crate::policy::{self, PolicyEntry};
use crate::shaping::feedback::FeedbackConfig;
use crate::types::share::Share;
use crate::types::time::Duration;

/// Bounds on everything that grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Pieces at the device at once, now; [`crate::Change::SetDepth`] changes it.
    pub depth: u32,
    /// The most that [`Limits::depth`] may become.
    pub depth_max: u32,
    /// Requests alive at once.
    pub requests_max: u32,
    /// Streams at once.
    pub streams_max: u32,
}

impl Default for Limits {
    /// Depth 1 of at most 1024; 65,536 requests; 16,384 streams.
    fn default() -> Self {
        Self { depth: 1, depth_max: 1024, requests_max: 65_536, streams_max: 16_384 }
    }
}

/// How an engine is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config<'a> {
    /// The policy that orders best effort: one of [`crate::policy::REGISTRY`], or another one.
    pub policy: &'static PolicyEntry,
    /// A name in [`crate::cost::REGISTRY`].
    pub cost_model: &'a str,
    /// Numbers for the cost model.
    pub cost: CostParameters,
    /// Bounds.
    pub limits: Limits,
    /// Share of the device that admission keeps free.
    pub headroom: Share,
    /// Requests per second that reservations are shares of, for policies that count requests.
    pub nominal_iops: u32,
    /// p: an idle stream keeps the reservation of this long (zygaria §2.1).
    pub period: Duration,
    /// The longest time that a piece is declared to take at a device without a profile: what promise
    /// bounds rest on.
    pub piece_time_max: Duration,
    /// Busy time is divided this often when more than one piece may be at the device.
    pub window: Duration,
    /// Whether the device is flushed for a stream when no client asks for it ([`crate::RequestId::FLUSH`]).
    pub flushes: bool,
    /// How best effort is shaped when soft real time misses deadlines.
    pub feedback: FeedbackConfig,
}

impl Default for Config<'_> {
    /// `disktime` over `fixed` costs, no headroom, 60 requests/s where they count (zygaria §4.1), a
    /// period of 1 s, pieces of 50 ms at most, windows of 100 ms, no flushes of its own and no feedback.
    fn default() -> Self {
        Self {
            policy: policy::DEFAULT,
            cost_model: "fixed",
            cost: CostParameters::default(),
            limits: Limits::default(),
            headroom: Share::ZERO,
            nominal_iops: 60,
            period: Duration::from_secs(1),
            piece_time_max: promise::PIECE_TIME,
            window: Duration::from_millis(100),
            flushes: false,
            feedback: FeedbackConfig::default(),
        }
    }
}

/// The longest of the spans of a [`FeedbackConfig`].
const SPAN_MAX: Duration = Duration::from_secs(60);
/// The largest R_max, in tokens per second.
const RATE_MAX: u64 = 1_000_000;

impl Config<'_> {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let limits = self.limits;
        within("queue_depth", u64::from(limits.depth), 1, u64::from(limits.depth_max))?;
        within("requests_max", u64::from(limits.requests_max), 1, u64::from(u32::MAX - 1))?;
        within("streams_max", u64::from(limits.streams_max), 1, u64::from(u32::MAX - 1))?;
        within("nominal_iops", u64::from(self.nominal_iops), 1, 1_000_000_000)?;
        within("period", self.period.as_nanos(), 1, Duration::from_secs(60).as_nanos())?;
        within("piece_time_max", self.piece_time_max.as_nanos(), 1, SPAN_MAX.as_nanos())?;
        within("window", self.window.as_nanos(), 1, Duration::from_secs(60).as_nanos())?;
        self.feedback.check()
    }
}

fn within(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    let fits = (min..=max).contains(&value);
    if fits { Ok(()) } else { Err(ConfigError::OutOfRange { field, value, min, max }) }
}

impl FeedbackConfig {
    /// Says what is wrong with its numbers, if anything.
    ///
    /// # Errors
    /// The first field out of range, with the range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (least, most) = (u64::from(self.rate_min), u64::from(self.rate_max));
        within("feedback.rate_max", most, 1, RATE_MAX)?;
        within("feedback.rate_min", least, 1, most)?;
        within("feedback.rate_start", u64::from(self.rate_start), least, RATE_MAX)?;
        within("feedback.cut_ppm", u64::from(self.cut.ppm()), 1, u64::from(Share::PARTS) - 1)?;
        within("feedback.burst", u64::from(self.burst), 1, RATE_MAX)?;
        within("feedback.creep_milli", u64::from(self.creep_milli), 0, RATE_MAX)?;
        let millisecond = Duration::from_millis(1).as_nanos();
        let span =
            |name, span: Duration| within(name, span.as_nanos(), millisecond, SPAN_MAX.as_nanos());
        span("feedback.refill", self.refill)?;
        span("feedback.report_interval", self.report_interval)
    }
}
