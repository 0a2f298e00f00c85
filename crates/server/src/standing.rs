//! How a configured device stands: what its virtual disks reserve, and what could still be reserved.

use disktime_core::{Engine, Share, StreamId};
use disktime_profiler::DeviceProfile;

use crate::config::{Config, DeviceConfig};

/// How a configured device stands before anybody else asks.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The device.
    pub device: DeviceConfig,
    /// The measured profile.
    pub profile: DeviceProfile,
    /// Each virtual disk and what it reserves.
    pub vdisks: Vec<(String, Share)>,
    /// The share that could still be reserved.
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
    let path = device.scheduling.profile.as_ref().ok_or_else(|| {
        format!(
            "device {} has no `profile` to reckon with: make one with `disktime device profile`",
            device.name
        )
    })?;
    let profile =
        DeviceProfile::load(path, device.capacity()).map_err(|error| error.to_string())?;
    let engine =
        crate::opened_device::admitted(device, &profile).map_err(|error| error.to_string())?;
    let share = |at| reserved(&engine, at);
    let names = device.vdisks.iter().map(|vdisk| vdisk.name.clone());
    let vdisks: Vec<(String, Share)> = names.zip((0..).map(share)).collect();
    let taken = vdisks.iter().map(|(_, share)| share.ppm());
    let taken = taken.fold(device.scheduling.headroom.ppm(), u32::saturating_add);
    let free = Share::from_ppm(Share::PARTS.saturating_sub(taken)).unwrap_or(Share::ZERO);
    Ok(Standing { device: device.clone(), profile, vdisks, free })
}

fn reserved(engine: &Engine, at: u32) -> Share {
    engine.stream(StreamId(at)).map_or(Share::ZERO, |stream| stream.contract().reserve)
}
