//! How a configured device stands: what its virtual disks reserve, and what could still be reserved.

use disktime_core::promise::Terms;
use disktime_core::{Contract, Share, StreamId, StreamView};
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
    /// The contracts of these, in the same order.
    pub contracts: Vec<Contract>,
    /// The terms that their promise bounds follow from.
    pub terms: Terms,
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
    let contract = |at| engine.stream(StreamId(at)).map(StreamView::contract).unwrap_or_default();
    let names = device.vdisks.iter().map(|vdisk| vdisk.name.clone());
    let (vdisks, contracts): (Vec<(String, Share)>, Vec<Contract>) =
        names.zip((0..).map(contract)).map(|(name, it)| ((name, it.reserve), it)).unzip();
    let taken = vdisks.iter().map(|(_, share)| share.ppm());
    let taken = taken.fold(device.scheduling.headroom.ppm(), u32::saturating_add);
    let free = Share::from_ppm(Share::PARTS.saturating_sub(taken)).unwrap_or(Share::ZERO);
    let terms = engine.promise_terms();
    Ok(Standing { device: device.clone(), profile, vdisks, contracts, terms, free })
}
