//! The broker: from what someone wants of a device to a share of it, and what would fit if it
//! doesn't.
//!
//! The arithmetic is the core's ([`disktime_core::goal`]); costs are a profile's. QBox (§2) has such
//! a broker take a service level for a utilization, from batches of 20 requests at a confidence of
//! 95 %.

use disktime_core::goal::{self, Demand, Fitting, Goal, GoalError, Ground, Needs};
use disktime_core::{Access, Contract, Duration, Engine, Share, StreamId};

use crate::config::{Config, DeviceConfig, VdiskConfig, VdiskGoal};
use crate::profile::{self, DeviceProfile, Method};

/// The part of batches that costs hold for, unless someone wants it otherwise (QBox §2).
pub const CONFIDENCE: Share = match Share::from_percent(95) {
    Some(share) => share,
    None => Share::FULL,
};
/// Others' pieces that may be at the device when a bounded request's turn has come: policy `disktime`
/// keeps them so short beside a bound.
const PIECE_BYTES: u64 = 32 << 10;

/// A device as a broker knows it.
#[derive(Clone, Debug)]
pub struct Broker<'a> {
    /// What it does.
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
    /// What was reckoned on.
    pub ground: Ground,
    /// What it takes.
    pub needs: Needs,
}

impl<'a> Broker<'a> {
    /// For a device of a configuration.
    #[must_use]
    pub fn of(profile: &'a DeviceProfile, device: &DeviceConfig) -> Self {
        let stay = device.horizon.unwrap_or(goal::STAY);
        Self { profile, depth: device.queue_depth.by(profile), stay, confidence: CONFIDENCE }
    }

    /// What a goal takes by each method that the profile allows, the surest first.
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

/// The contracts of a device's virtual disks, goals made reservations in their order.
///
/// # Errors
/// Which goal does not fit, and what would.
pub(crate) fn contracts(
    device: &DeviceConfig,
    profile: Option<&DeviceProfile>,
) -> Result<Vec<Contract>, String> {
    let reserved = device.vdisks.iter().map(|vdisk| vdisk.contract.reserve.ppm());
    let reserved: u32 = reserved.fold(device.headroom.ppm(), u32::saturating_add);
    let mut left = Share::PARTS.saturating_sub(reserved);
    let mut contracts = Vec::with_capacity(device.vdisks.len());
    for vdisk in &device.vdisks {
        let mut contract = vdisk.contract;
        if let Some(wanted) = &vdisk.goal {
            let available = Share::from_ppm(left).unwrap_or(Share::ZERO).min(contract.limit);
            contract.reserve = reserve(device, profile, (vdisk, wanted), available)?;
            left -= contract.reserve.ppm();
        }
        contracts.push(contract);
    }
    Ok(contracts)
}

fn reserve(
    device: &DeviceConfig,
    profile: Option<&DeviceProfile>,
    (vdisk, wanted): (&VdiskConfig, &VdiskGoal),
    available: Share,
) -> Result<Share, String> {
    let (key, text) = wanted.said();
    let wrong = |reason: &str| format!("vdisk {}: {key} = \"{text}\": {reason}", vdisk.name);
    let profile = profile.ok_or_else(|| wrong("the device has no profile"))?;
    let answers = Broker::of(profile, device).answers(&wanted.goal, wanted.access);
    let answers = answers.map_err(|error| wrong(&error.to_string()))?;
    let answer = answers.first().ok_or_else(|| {
        wrong(
            "the device's profile has neither prices nor a rotation: make it again with `disktime \
             device profile`",
        )
    })?;
    if let Some(share) = answer.needs.share().filter(|share| *share <= available) {
        return Ok(share);
    }
    let fitting = goal::fitting(&wanted.goal, &answer.ground, available);
    let fitting = fitting.map_or_else(|error| error.to_string(), |fits| said(&fits));
    Err(wrong(&format!(
        "takes {} of device {}, {available} can be had: {fitting}",
        percent(answer.needs.ppm()),
        device.name
    )))
}

/// Parts per million as people read them, above the whole as well.
#[must_use]
pub fn percent(ppm: u64) -> String {
    match u32::try_from(ppm).ok().and_then(Share::from_ppm) {
        Some(share) => share.to_string(),
        None if ppm == u64::MAX => "more than any share".to_owned(),
        None => format!("{}.{}%", ppm / 10_000, ppm % 10_000 / 1_000),
    }
}

/// What would fit, in a sentence.
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

/// How a configured device stands before anybody else asks.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The device.
    pub device: DeviceConfig,
    /// What it does.
    pub profile: DeviceProfile,
    /// Each virtual disk and what it reserves.
    pub vdisks: Vec<(String, Share)>,
    /// What could still be reserved.
    pub free: Share,
}

/// How a device of a configuration stands; without a name, its only one.
///
/// # Errors
/// If there is none of that name, it has no profile that can be read, or its contracts can't be
/// kept.
pub fn standing(config: &Config, name: Option<&str>) -> Result<Standing, String> {
    let known = || config.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>();
    let device = match name {
        Some(name) => config.devices.iter().find(|device| device.name == name),
        None => Some(&config.devices[..]).filter(|all| all.len() == 1).and_then(<[_]>::first),
    };
    let device = device.ok_or_else(|| {
        let name = name.map_or("say which device".to_owned(), |name| format!("no device {name}"));
        format!("{name}; there are: {}", known().join(", "))
    })?;
    let path = device.profile.as_ref().ok_or_else(|| {
        format!(
            "device {} has no `profile` to reckon with: make one with `disktime device profile`",
            device.name
        )
    })?;
    let profile = profile::load(path, device.capacity()).map_err(|error| error.to_string())?;
    let engine = crate::device::admitted(device, &profile)?;
    let share = |at| reserved(&engine, at);
    let names = device.vdisks.iter().map(|vdisk| vdisk.name.clone());
    let vdisks: Vec<(String, Share)> = names.zip((0..).map(share)).collect();
    let taken = vdisks.iter().map(|(_, share)| share.ppm());
    let taken = taken.fold(device.headroom.ppm(), u32::saturating_add);
    let free = Share::from_ppm(Share::PARTS.saturating_sub(taken)).unwrap_or(Share::ZERO);
    Ok(Standing { device: device.clone(), profile, vdisks, free })
}

fn reserved(engine: &Engine, at: u32) -> Share {
    engine.stream(StreamId(at)).map_or(Share::ZERO, |stream| stream.contract().reserve)
}

#[cfg(test)]
mod tests;
