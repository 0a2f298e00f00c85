//! Virtual disks of a running daemon: made, changed, shown, deleted over its control API.

use std::process::ExitCode;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use disktime_api::{Plan, Vdisk, VdiskChange, VdiskSpec};
use disktime_config::quantity::{parse_size, size_text};

use crate::control::{Daemon, address};
use crate::{BadInput, table};

/// The terms of a virtual disk.
#[derive(Args, Clone, Debug)]
pub struct Terms {
    /// Its class: guaranteed-latency, guaranteed-rate, soft-real-time, best-effort, background
    #[arg(long)]
    class: Option<String>,
    /// Share of the device's time that it gets whenever it wants it: 30%
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    reserve: Option<String>,
    /// Share that it never exceeds for long
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Its part of what others leave, against their weights
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    weight: Option<u32>,
    /// Bytes per second of class guaranteed-rate: 2MB/s
    #[arg(long)]
    rate: Option<String>,
    /// How often the rate is kept
    #[arg(long, value_name = "TIME")]
    cycle: Option<String>,
    /// deterministic or best-effort, of the rate
    #[arg(long)]
    admission: Option<String>,
    /// The operations of its requests: read, write, both
    #[arg(long)]
    access: Option<String>,
    /// The bound on its response times
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// A goal in requests per second, in place of a reservation; 0 takes it away
    #[arg(long, allow_negative_numbers = true, value_parser = count())]
    iops: Option<u64>,
    /// A goal in bytes per second, in place of a reservation
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<String>,
    /// Bytes of a request of the goal: 64KiB
    #[arg(long, value_name = "SIZE")]
    request: Option<String>,
    /// Requests in sequence of the goal: 64
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count())]
    run: Option<u64>,
}

/// A number of requests, so that a negative one is named with the range.
fn count() -> RangedI64ValueParser<u64> {
    RangedI64ValueParser::new().range(0..)
}

/// A virtual disk to be made.
#[derive(Args, Clone, Debug)]
pub struct Create {
    /// Its name
    #[arg(value_name = "VDISK")]
    name: String,
    /// Its device
    #[arg(long)]
    device: String,
    /// Its size: 10GiB
    #[arg(long, allow_hyphen_values = true)]
    size: String,
    #[command(flatten)]
    terms: Terms,
    /// The virtual disk whose limit and reservation hold for it, too
    #[arg(long, value_name = "VDISK")]
    parent: Option<String>,
    /// Its end of the device: outer or inner
    #[arg(long)]
    zone: Option<String>,
    /// Clients can't change it
    #[arg(long)]
    read_only: bool,
    /// Text for a person
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Only say whether it would fit
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Another contract.
#[derive(Args, Clone, Debug)]
pub struct Set {
    /// The virtual disk
    #[arg(value_name = "VDISK")]
    name: String,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    daemon: Daemon,
}

/// Another size.
#[derive(Args, Clone, Debug)]
pub struct Size {
    /// The virtual disk
    #[arg(value_name = "VDISK")]
    name: String,
    /// Its size from now on
    #[arg(long, allow_hyphen_values = true)]
    size: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// A smaller size.
#[derive(Args, Clone, Debug)]
pub struct Shrink {
    #[command(flatten)]
    to: Size,
    /// All data beyond that size may be lost
    #[arg(long)]
    yes: bool,
}

/// Another name.
#[derive(Args, Clone, Debug)]
pub struct Rename {
    /// The virtual disk
    #[arg(value_name = "VDISK")]
    name: String,
    /// Its name from now on
    #[arg(value_name = "NAME")]
    to: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// A snapshot.
#[derive(Args, Clone, Debug)]
pub struct Snapshot {
    /// The virtual disk that has the data
    #[arg(value_name = "VDISK")]
    of: String,
    /// The name of the snapshot, which is a virtual disk of the same size
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    daemon: Daemon,
}

/// One virtual disk.
#[derive(Args, Clone, Debug)]
pub struct One {
    /// The virtual disk
    #[arg(value_name = "VDISK")]
    name: String,
    #[command(flatten)]
    daemon: Daemon,
}

impl Terms {
    fn change(&self) -> VdiskChange {
        let Self { class, reserve, limit, weight, rate, cycle, .. } = self.clone();
        let Self { admission, access, latency, iops, bandwidth, request, run, .. } = self.clone();
        VdiskChange {
            name: None,
            size: None,
            shrink: None,
            class,
            reserve,
            limit,
            weight: weight.map(Some),
            rate,
            cycle,
            admission,
            access,
            latency,
            iops,
            bandwidth,
            request,
            run,
        }
    }
}

/// Makes a virtual disk.
pub fn create(arguments: &Create) -> anyhow::Result<ExitCode> {
    let Create { name, device, size, terms, parent, zone, read_only, description, plan, daemon } =
        arguments;
    let bare = VdiskSpec {
        name: name.clone(),
        device: device.clone(),
        size: size.clone(),
        parent: parent.clone(),
        zone: zone.clone(),
        read_only: read_only.then_some(true),
        description: description.clone(),
        ..VdiskSpec::default()
    };
    let spec = terms.change().of(&bare);
    if *plan {
        let answer = daemon.ask("POST", "/v1/plan", (Some(&spec), None))?;
        let plan: Plan = serde_json::from_slice(&answer.body)?;
        if daemon.json {
            println!("{}", serde_json::to_string(&plan)?);
        } else if plan.fits {
            println!("it fits, with {:.2}% of {device} reserved", plan.reserve * 100.0);
        } else {
            let room = plan.would_fit * 100.0;
            let why = plan.reason.unwrap_or_default();
            println!("it does not fit: {why}; {room:.2}% can be reserved");
        }
        return Ok(if plan.fits {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(crate::failure::FAILED)
        });
    }
    daemon.ask("PUT", &address("vdisks", name)?, (Some(&spec), None))?;
    show_one(name, daemon)
}

/// Changes a contract.
pub fn set(Set { name, terms, daemon }: &Set) -> anyhow::Result<ExitCode> {
    let change = terms.change();
    if change == VdiskChange::default() {
        let why = "nothing to set: name a term, --reserve 40% say";
        return Err(BadInput(why.to_owned()).into());
    }
    daemon.ask("PATCH", &address("vdisks", name)?, (Some(&change), None))?;
    show_one(name, daemon)
}

/// Makes a virtual disk larger.
pub fn grow(Size { name, size, daemon }: &Size) -> anyhow::Result<ExitCode> {
    let wanted = parse_size(size).map_err(|why| BadInput(format!("--size {size}: {why}")))?;
    let before: Vdisk = daemon.get(&address("vdisks", name)?)?;
    if wanted <= before.size_bytes {
        let has = size_text(before.size_bytes);
        let why =
            format!("--size {size}: {name} has {has}: `disktime vdisk shrink` makes it smaller");
        return Err(BadInput(why).into());
    }
    let change = VdiskChange { size: Some(size.clone()), ..VdiskChange::default() };
    daemon.ask("PATCH", &address("vdisks", name)?, (Some(&change), None))?;
    show_one(name, daemon)
}

/// Makes a virtual disk smaller.
pub fn shrink(
    Shrink { to: Size { name, size, daemon }, yes }: &Shrink,
) -> anyhow::Result<ExitCode> {
    if !yes {
        let why = format!(
            "{name}: all data beyond {size} would be lost, and nothing was changed: say --yes if they may be"
        );
        return Err(BadInput(why).into());
    }
    let (size, shrink) = (Some(size.clone()), Some(true));
    let change = VdiskChange { size, shrink, ..VdiskChange::default() };
    daemon.ask("PATCH", &address("vdisks", name)?, (Some(&change), None))?;
    show_one(name, daemon)
}

/// Gives a virtual disk another name.
pub fn rename(Rename { name, to, daemon }: &Rename) -> anyhow::Result<ExitCode> {
    let change = VdiskChange { name: Some(to.clone()), ..VdiskChange::default() };
    daemon.ask("PATCH", &address("vdisks", name)?, (Some(&change), None))?;
    show_one(to, daemon)
}

/// Makes a virtual disk with the data that another one has now.
pub fn snapshot(Snapshot { of, name, terms, daemon }: &Snapshot) -> anyhow::Result<ExitCode> {
    let wish = VdiskChange { name: Some(name.clone()), ..terms.change() };
    daemon.ask("POST", &format!("{}/snapshot", address("vdisks", of)?), (Some(&wish), None))?;
    show_one(name, daemon)
}

/// Shows a virtual disk.
pub fn show(One { name, daemon }: &One) -> anyhow::Result<ExitCode> {
    show_one(name, daemon)
}

fn show_one(name: &str, daemon: &Daemon) -> anyhow::Result<ExitCode> {
    let vdisk: Vdisk = daemon.get(&address("vdisks", name)?)?;
    if daemon.json {
        println!("{}", serde_json::to_string(&vdisk)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", shown(std::slice::from_ref(&vdisk)));
    vdisk.uris.iter().for_each(|uri| println!("{uri}"));
    Ok(ExitCode::SUCCESS)
}

/// Shows all virtual disks.
pub fn list(daemon: &Daemon) -> anyhow::Result<ExitCode> {
    let vdisks: Vec<Vdisk> = daemon.get("/v1/vdisks")?;
    if daemon.json {
        println!("{}", serde_json::to_string(&vdisks)?);
    } else if vdisks.is_empty() {
        println!("{}", daemon.none_yet("virtual disks", "make one with `disktime vdisk create`")?);
    } else {
        println!("{}", shown(&vdisks));
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes a virtual disk and its data.
pub fn delete(One { name, daemon }: &One) -> anyhow::Result<ExitCode> {
    daemon.ask("DELETE", &address("vdisks", name)?, (None::<&()>, None))?;
    if daemon.json {
        println!("{}", serde_json::json!({ "deleted": name }));
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(vdisks: &[Vdisk]) -> String {
    let header = [
        "virtual disk",
        "device",
        "size",
        "reserve",
        "limit",
        "weight",
        "class",
        "got",
        "IOPS",
        "MB/s",
    ];
    let mut shown = table::new(&header, 2..10);
    for Vdisk { name, device, size_bytes, contract, figures, .. } in vdisks {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        shown.add_row([
            name.clone(),
            device.clone(),
            size_text(*size_bytes),
            percent(contract.reserve),
            percent(contract.limit),
            contract.weight.to_string(),
            contract.class.clone(),
            percent(figures.utilization),
            format!("{:.0}", figures.iops),
            format!("{:.1}", figures.bytes_per_second / 1e6),
        ]);
    }
    shown.to_string()
}
