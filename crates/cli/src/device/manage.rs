//! Devices of a running daemon: added, shown, removed over its control API.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use disktime_api::{Device, DeviceSpec};

use crate::control::{Daemon, address};
use crate::{BadInput, table};

/// A device to be served.
#[derive(Args, Clone, Debug)]
pub struct Add {
    /// Its name
    #[arg(value_name = "DEVICE")]
    name: String,
    /// The back end: memory, file:PATH, raid0:PATH,PATH, tiered:FAST,SLOW, nbd://HOST:PORT/EXPORT
    #[arg(long, value_name = "BACK_END")]
    back_end: String,
    /// Make a directory of raw files at the back end's path if nothing is there
    #[arg(long)]
    create: bool,
    /// The preset of an emulated device in front of it
    #[arg(long, value_name = "PRESET")]
    emulate: Option<String>,
    /// Which policy orders requests
    #[arg(long)]
    policy: Option<String>,
    /// A profile from `disktime device profile`; promises and goals need one
    #[arg(long, value_name = "FILE")]
    profile: Option<std::path::PathBuf>,
    /// Pieces at the device at once
    #[arg(long, value_name = "COUNT")]
    queue_depth: Option<u32>,
    /// Share of its time that can't be reserved
    #[arg(long, value_name = "SHARE")]
    headroom: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
}

/// One device.
#[derive(Args, Clone, Debug)]
pub struct One {
    /// The device
    #[arg(value_name = "DEVICE")]
    name: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// Serves a device from now on.
pub fn add(arguments: &Add) -> anyhow::Result<ExitCode> {
    let Add { name, back_end, create, emulate, policy, .. } = arguments.clone();
    let Add { profile, queue_depth, headroom, daemon, .. } = arguments.clone();
    // The daemon has a directory of its own.
    let profile = profile.map(|path| from_root("--profile", &path)).transpose()?;
    let back_end = absolute(&back_end)?;
    let create = create.then_some(true);
    let spec = DeviceSpec {
        name,
        back_end,
        create,
        emulate,
        policy,
        profile,
        queue_depth,
        headroom,
        ..DeviceSpec::default()
    };
    daemon.ask("PUT", &address("devices", &spec.name)?, (Some(&spec), None))?;
    show_one(&spec.name, &daemon)
}

/// A back end whose paths begin at the root.
fn absolute(back_end: &str) -> anyhow::Result<String> {
    let (kind, paths) = match back_end.split_once(':') {
        Some(("file", path)) => ("file", vec![path]),
        Some((kind @ ("raid0" | "tiered"), paths)) => {
            (kind, paths.split(',').map(str::trim).collect())
        }
        _ => return Ok(back_end.to_owned()),
    };
    // The daemon says that an empty one is none.
    let paths = paths.into_iter().map(|path| match path {
        "" => Ok(String::new()),
        path => from_root("--back-end", Path::new(path)),
    });
    Ok(format!("{kind}:{}", paths.collect::<anyhow::Result<Vec<_>>>()?.join(",")))
}

/// A path that begins at the root, as the daemon is told it: in UTF-8.
fn from_root(option: &str, path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    let odd = || {
        BadInput(format!("{option} {}: a path is UTF-8: choose another directory", path.display()))
    };
    Ok(path.to_str().ok_or_else(odd)?.to_owned())
}

/// Shows a device.
pub fn show(One { name, daemon }: &One) -> anyhow::Result<ExitCode> {
    show_one(name, daemon)
}

fn show_one(name: &str, daemon: &Daemon) -> anyhow::Result<ExitCode> {
    let devices: Vec<Device> = daemon.get("/v1/devices")?;
    let Some(device) = devices.iter().find(|device| device.name == name) else {
        let known: Vec<_> = devices.iter().map(|device| &*device.name).collect();
        let why = format!("no device {name}; there are: {}", known.join(", "));
        return Err(BadInput(why).into());
    };
    if daemon.json {
        println!("{}", serde_json::to_string(device)?);
    } else {
        println!("{}", shown(std::slice::from_ref(device)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows all devices.
pub fn list(daemon: &Daemon) -> anyhow::Result<ExitCode> {
    let devices: Vec<Device> = daemon.get("/v1/devices")?;
    if daemon.json {
        println!("{}", serde_json::to_string(&devices)?);
    } else if devices.is_empty() {
        println!("{}", daemon.none_yet("devices", "add one with `disktime device add`")?);
    } else {
        println!("{}", shown(&devices));
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves a device no longer.
pub fn remove(One { name, daemon }: &One) -> anyhow::Result<ExitCode> {
    daemon.ask("DELETE", &address("devices", name)?, (None::<&()>, None))?;
    if daemon.json {
        println!("{}", serde_json::json!({ "removed": name }));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(devices: &[Device]) -> String {
    let header =
        ["device", "back end", "emulates", "virtual disks", "reserved", "available", "depth"];
    let mut shown = table::new(&header, 3..7);
    for device in devices {
        shown.add_row([
            device.name.clone(),
            device.back_end.clone(),
            device.emulate.clone().unwrap_or_default(),
            device.vdisks.to_string(),
            format!("{:.1}%", device.reserved * 100.0),
            format!("{:.1}%", device.available * 100.0),
            device.queue_depth.to_string(),
        ]);
    }
    shown.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path was taken for one of the daemon's directory, and no longer found from another one.
    #[test]
    fn paths_of_a_back_end_are_those_of_the_caller() {
        let here = std::env::current_dir().unwrap().display().to_string();
        for (given, sent) in [
            ("file:pool", format!("file:{here}/pool")),
            ("file:/srv/a,b", "file:/srv/a,b".to_owned()),
            ("raid0:a, /b", format!("raid0:{here}/a,/b")),
            ("tiered:/a,b", format!("tiered:/a,{here}/b")),
            ("file:", "file:".to_owned()),
            ("memory", "memory".to_owned()),
            ("nbd://host:1/a", "nbd://host:1/a".to_owned()),
        ] {
            assert_eq!(absolute(given).unwrap(), sent);
        }
    }
}
