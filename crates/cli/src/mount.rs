//! `disktime mount`: a directory whose open files own shares of the device's time.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use disktime_config::{DepthText, DeviceFacts, Named, SchedulingKeys, read_contract};
use disktime_core::Contract;
use disktime_fuse::{Askers, Engine, MountError, Mounted, Options, Rule};
use disktime_model::preset;
use disktime_server::emulate::Emulate;
use serde::Serialize;

use crate::control::usual_state;
use crate::{BadInput, interrupt};

const EXAMPLES: &str = "\
Examples:
  # until Ctrl-C or `umount /mnt/media`
  disktime mount /srv/media /mnt/media
  disktime mount /srv/media /mnt/media --default 'reserve=0% limit=50%'
  # promises need a profile
  disktime mount /srv/media /mnt/media --profile disk.json --queue-depth 1
  disktime mount /srv/media /mnt/media --emulate deskstar-34gxp
  # beside the virtual disks of a running daemon: its device `hdd` has the time
  disktime mount /srv/media /mnt/media --device hdd
  setfattr -n user.disktime.contract -v 'reserve=50%' /mnt/media/film.mkv
  disktime cat --priority /mnt/media/film.mkv > /dev/null
  # also: device, queue_depth, headroom, shared
  cat /mnt/media/.disktime/streams

A program asks for a contract of an open file by ioctl (include/disktime.h), or
anybody by the attribute user.disktime.contract of a file or of a directory, for
all files below. Keys are those of a virtual disk: class, reserve, limit,
weight, rate, cycle, admission, access, latency. Files without a contract share
one stream of best effort while any file has one; while none has, they go
straight through. With --device the daemon's engine says whose turn it is, all
files enter it, and its virtual disks and the files know of each other. Runs in
the foreground. Exits with 0 once it is unmounted, also after a signal; with 1
if that fails or the daemon ends, 2 if the source, the place or an option can't
be used.";

/// Options of an engine of the mount's own: a daemon's device has these in its configuration.
const OWN: [&str; 7] =
    ["emulate", "profile", "policy", "experimental", "queue_depth", "headroom", "feedback"];
/// The options' name in errors.
const TABLE: &str = "mount";
/// How often it is seen whether the mount is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Mount a directory whose open files own shares of the device's time.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The directory that is shown
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The directory in whose place it is shown
    #[arg(value_name = "MNT")]
    at: PathBuf,
    /// The contract of files for which neither an attribute nor a rule states one, like `limit=50%`
    #[arg(long, value_name = "CONTRACT", value_parser = contract)]
    default: Option<Contract>,
    /// A contract by who opens a file, like `user=backup class=background` or `process=rsync limit=20%`,
    /// where no attribute states one; the first that holds counts
    #[arg(long, value_name = "RULE", value_parser = Rule::read)]
    rule: Vec<Rule>,
    /// Users who may ask for promises beside the superuser and the one who mounts: user IDs, or `all`
    #[arg(long, value_name = "UIDS|all", value_parser = askers, default_value = "")]
    askers: Askers,
    #[command(flatten)]
    engine: EngineArguments,
    /// The device of a running daemon on which SRC is: open files are streams beside its virtual disks
    #[arg(long, value_name = "NAME", conflicts_with_all = OWN)]
    device: Option<String>,
    /// The state directory of that daemon; else the user's own
    #[arg(long, value_name = "DIR", requires = "device")]
    state: Option<PathBuf>,
    /// Nothing can be changed through the mount
    #[arg(long)]
    read_only: bool,
    /// Let the kernel take files over that have no contract when they are opened and while no file has one:
    /// they are as fast as the source's. Their reads and writes take no turns from then on, so that no
    /// promise holds beside them
    #[arg(long, conflicts_with_all = ["device", "emulate"])]
    pass_through: bool,
    /// Take a mount away whose daemon is gone, and mount anew
    #[arg(long)]
    recover: bool,
    /// Threads that take the kernel's calls
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Print one JSON document once it is unmounted
    #[arg(long)]
    json: bool,
}

/// How the device's time is shared.
#[derive(clap::Args)]
struct EngineArguments {
    /// A device whose times are kept to, as `emulate` in a configuration
    #[arg(long, value_name = "PRESET")]
    emulate: Option<String>,
    /// A profile of the device, from `disktime device profile`: promises of rates and latencies need it
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Which policy orders requests
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The policy may be one that is there to compare with
    #[arg(long)]
    experimental: bool,
    /// Pieces at the device at once; else 32, or as many as an emulated device takes
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Share of the device's time that is promised to no file
    #[arg(long, value_name = "SHARE")]
    headroom: Option<String>,
    /// A controller that shapes best effort when files of class soft-real-time say that they are late
    #[arg(long, value_name = "NAME")]
    feedback: Option<String>,
}

/// How it went.
#[derive(Serialize)]
struct Report<'a> {
    source: &'a str,
    mount: &'a str,
    seconds: f64,
}

fn contract(text: &str) -> Result<Contract, String> {
    read_contract(text).map_err(|error| error.to_string())
}

fn askers(text: &str) -> Result<Askers, String> {
    if text == "all" {
        return Ok(Askers::All);
    }
    let users = text.split(',').filter(|user| !user.is_empty()).map(|user| {
        user.parse().map_err(|_| format!("{user}: user IDs like `1000,1001`, or `all`"))
    });
    users.collect::<Result<_, _>>().map(Askers::Only)
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = options(arguments)?;
    interrupt::polled();
    let mounted = Mounted::new(&options).map_err(|error| match error {
        MountError::Thread(_) => anyhow::Error::from(error),
        error => BadInput(error.to_string()).into(),
    })?;
    let began = now();
    let (source, at) = (arguments.source.display(), arguments.at.display());
    if !arguments.json {
        // Nobody need read it: the mount stays.
        let passes = match (arguments.pass_through, mounted.passes_not_through()) {
            (false, _) => String::new(),
            (true, None) => "; the kernel takes over files without a contract".to_owned(),
            (true, Some(why)) => format!("; --pass-through is off: {why}"),
        };
        let _nobody_reads = writeln!(std::io::stdout(), "{source} is mounted at {at}{passes}");
    }
    while !mounted.is_over() && !mounted.is_left() && !interrupt::is_asked() {
        wait();
    }
    let is_left = mounted.is_left();
    if let Err(error) = mounted.unmount() {
        bail!("MNT {at}: it can't be unmounted: {error}");
    }
    if arguments.json {
        let seconds = now().duration_since(began).as_secs_f64();
        let (source, at) = (source.to_string(), at.to_string());
        let report = Report { source: &source, mount: &at, seconds };
        println!("{}", serde_json::to_string(&report)?);
    }
    if is_left {
        let device = arguments.device.as_deref().unwrap_or_default();
        bail!(
            "the daemon of device {device} has ended or let the mount go: MNT {at} is unmounted; mount \
             again once the daemon is there"
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::disallowed_methods, reason = "the command line has a real clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the session offers nothing to wait for")]
fn wait() {
    std::thread::sleep(LOOK);
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    Ok(Options {
        source: arguments.source.clone(),
        at: arguments.at.clone(),
        engine: engine(arguments)?,
        rules: arguments.rule.clone(),
        default: arguments.default,
        askers: arguments.askers.clone(),
        read_only: arguments.read_only,
        threads: arguments.threads.into(),
        recover: arguments.recover,
        pass_through: arguments.pass_through,
    })
}

/// The engine that is asked for.
fn engine(arguments: &Arguments) -> anyhow::Result<Engine> {
    if let Some(device) = &arguments.device {
        let state = arguments.state.clone().map_or_else(usual_state, Ok)?;
        return Ok(Engine::Daemon { state, device: device.clone() });
    }
    let engine = &arguments.engine;
    let emulate = match &engine.emulate {
        None => None,
        Some(name) => {
            let known = || preset::PRESETS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
            let found = preset::find(name).ok_or_else(|| {
                BadInput(format!("--emulate {name}: no such device; there are: {}", known()))
            })?;
            Some(Emulate::One(found))
        }
    };
    let depth_max = emulate.map_or(disktime_config::DEPTH_MAX, Emulate::queue_depth);
    let keys = SchedulingKeys {
        policy: engine.policy.clone(),
        experimental: Some(engine.experimental),
        queue_depth: engine.queue_depth.map(|depth| DepthText::Count(depth.into())),
        headroom: engine.headroom.clone(),
        feedback: engine.feedback.clone(),
        profile: engine.profile.clone(),
        ..SchedulingKeys::default()
    };
    let facts = DeviceFacts { depth_max, timed: true, real_time: false };
    let scheduling =
        keys.check(&Named::only(TABLE), facts).map_err(|error| BadInput(error.to_string()))?;
    Ok(Engine::Own { scheduling: Box::new(scheduling), emulate })
}
