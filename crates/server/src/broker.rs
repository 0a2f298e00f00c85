//! What a configuration's virtual disks reserve: goals are made shares, and what is left is free.

use disktime_core::{Contract, Engine, Share, StreamId};
use disktime_plan::broker::{Broker, CONFIDENCE, percent, said};
use disktime_plan::goal;
use disktime_profiler::DeviceProfile;

use crate::config::{Config, DeviceConfig, VdiskConfig, VdiskGoal};

/// A broker for a device of a configuration.
fn broker<'a>(profile: &'a DeviceProfile, device: &DeviceConfig) -> Broker<'a> {
    let stay = device.horizon.unwrap_or(goal::STAY);
    Broker { profile, depth: device.queue_depth.by(profile), stay, confidence: CONFIDENCE }
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
    let answers = broker(profile, device).answers(&wanted.goal, wanted.access);
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
    let profile =
        DeviceProfile::load(path, device.capacity()).map_err(|error| error.to_string())?;
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
