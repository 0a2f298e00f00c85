//! Reservations of a configuration's virtual disks: goals are made shares, and the rest is free.

use disktime_config::{Named, ValueError};
use disktime_core::{Contract, Share};
use disktime_plan::broker::{Broker, CONFIDENCE, percent, said};
use disktime_plan::goal;
use disktime_profiler::DeviceProfile;

use crate::config::{DeviceConfig, VdiskConfig, VdiskGoal};

/// A broker for a device of a configuration.
fn broker<'a>(profile: &'a DeviceProfile, device: &DeviceConfig) -> Broker<'a> {
    let stay = device.scheduling.horizon.unwrap_or(goal::STAY);
    Broker {
        profile,
        depth: device.scheduling.queue_depth.on(Some(profile.fast_from())),
        stay,
        confidence: CONFIDENCE,
    }
}

/// The contracts of a device's virtual disks, goals made reservations in their order.
///
/// # Errors
/// Which goal does not fit, and what would.
pub(crate) fn contracts(
    device: &DeviceConfig,
    profile: Option<&DeviceProfile>,
) -> Result<Vec<Contract>, ValueError> {
    let own = device.vdisks.iter().filter(|vdisk| vdisk.parent.is_none());
    let reserved = own.map(|vdisk| vdisk.contract.reserve.ppm());
    let reserved: u32 = reserved.fold(device.scheduling.headroom.ppm(), u32::saturating_add);
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
) -> Result<Share, ValueError> {
    let (key, text) = wanted.said();
    let of = Named::new("vdisk", &vdisk.name);
    let wrong = |reason: &str| of.wrong(key, &text, reason);
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

#[cfg(test)]
mod tests;
