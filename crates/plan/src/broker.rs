//! The broker: from a goal and a device's profile to a share of the device.
//!
//! The arithmetic is [`goal`]'s; costs are the profile's. QBox (§2) has such a broker take a service
//! level for a utilization, from batches of 20 requests at a confidence of 95 %.

use disktime_core::{Access, Duration, Share};
use disktime_profiler::{DeviceProfile, Method};

use crate::goal::{self, Demand, Fitting, Goal, GoalError, Ground, Needs};

/// The part of batches that costs hold for, unless someone wants it otherwise (QBox §2).
pub const CONFIDENCE: Share = match Share::from_percent(95) {
    Some(share) => share,
    None => Share::FULL,
};
/// Others' pieces that may be at the device when a bounded request's turn has come: at depth 1 they are cut to
/// that beside a bound, and deeper their number counts for more than their length.
const PIECE_BYTES: u64 = 32 << 10;

/// A device as a broker knows it.
#[derive(Clone, Debug)]
pub struct Broker<'a> {
    /// The measured profile.
    pub profile: &'a DeviceProfile,
    /// Pieces at the device at once.
    pub depth: u32,
    /// How long the scheduler stays with one stream.
    pub stay: Duration,
    /// Which part of batches costs hold for.
    pub confidence: Share,
}

/// A goal's answer by one method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// How costs were found.
    pub method: Method,
    /// The ground of the calculation.
    pub ground: Ground,
    /// The share that it takes.
    pub needs: Needs,
}

impl Answer {
    /// The largest goal that could be had instead, if it takes more than what is available.
    ///
    /// # Errors
    /// As [`goal::fitting`].
    pub fn fitting(&self, goal: &Goal, available: Share) -> Result<Option<Fitting>, GoalError> {
        if self.needs.ppm() <= u64::from(available.ppm()) {
            return Ok(None);
        }
        goal::fitting(goal, &self.ground, available).map(Some)
    }
}

impl Broker<'_> {
    /// The share that a goal takes by each method that the profile allows, the surest first.
    ///
    /// # Errors
    /// If the goal is none.
    pub fn answers(&self, goal: &Goal, access: Access) -> Result<Vec<Answer>, GoalError> {
        let mut answers = Vec::new();
        for method in Method::ALL {
            let Some(ground) = self.ground(method, access, goal.request) else { continue };
            answers.push(Answer { method, ground, needs: goal::needs(goal, &ground)? });
        }
        Ok(answers)
    }

    fn ground(&self, method: Method, access: Access, bytes: u64) -> Option<Ground> {
        let costs = |access, bytes| {
            self.profile.costs(method, (access, bytes), self.depth, self.confidence)
        };
        let piece = costs(Access::Both, PIECE_BYTES)?.first.as_nanos();
        let ahead = Duration::from_nanos(piece.saturating_mul(self.depth.into()));
        Some(Ground { costs: costs(access, bytes)?, stay: self.stay, ahead })
    }
}

/// Parts per million as people read them, above the whole as well.
#[must_use]
pub fn percent(ppm: u64) -> String {
    match u32::try_from(ppm).ok().and_then(Share::from_ppm) {
        Some(share) => share.to_string(),
        None if ppm == u64::MAX => "more than any share".to_owned(),
        // Rounded up, as shares are: what is a little above the whole does not read as the whole.
        None => {
            let permille = ppm.div_ceil(1_000);
            format!("{}.{}%", permille / 10, permille % 10)
        }
    }
}

/// The largest goal that would fit, in a sentence.
#[must_use]
pub fn said(fitting: &Fitting) -> String {
    let demand = fitting.demand.map(|demand| match demand {
        Demand::Requests(0) | Demand::Bytes(0) => "no rate would fit".to_owned(),
        Demand::Requests(rate) => format!("{rate} requests/s would fit"),
        Demand::Bytes(rate) => format!("{rate} B/s would fit"),
    });
    let latency = fitting.latency.map(|latency| format!("{latency:?} could be kept"));
    let parts: Vec<String> = demand.into_iter().chain(latency).collect();
    if parts.is_empty() { "no bound could be kept".to_owned() } else { parts.join(", or ") }
}
