//! `disktime plan`: from what someone wants of a device to a share of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use disktime_config::quantity::{parse_duration, parse_rate, parse_share, parse_size};
use disktime_config::{QueueDepth, access, horizon};
use disktime_core::promise::{self, Terms};
use disktime_core::{Access, Duration, Share};
use disktime_plan::broker::Broker;
use disktime_plan::goal::{self, Bound, Demand, Goal};
use disktime_profiler::DeviceProfile;
use disktime_server::Config;
use disktime_server::config::{REQUEST_BANDWIDTH, REQUEST_IOPS};
use disktime_server::standing::{self, Standing};
use disktime_workload::trace::{TraceFormat, TraceReader};

use crate::BadInput;

mod report;

use report::Report;

const EXAMPLES: &str = "\
Examples:
  disktime plan --profile disk.json --iops 2000 --request 4KiB
  disktime plan --profile disk.json --bandwidth 80MB/s --run 64 --request 64KiB
  disktime plan --profile ssd.json --depth 32 --iops 50000 --latency 2ms \\
      --percentile 99
  disktime plan --profile disk.json --trace db.csv --percentile 99
  disktime plan --config disktime.toml --device disk --iops 300 --access write

The profile is what `disktime device profile` saves. The share is the surest
method's that the profile allows: batches (what 20 requests took, at
--confidence), prices (what they took on the mean), mechanics (half the longest
seek, half a revolution, and the transfer). With --config it must fit beside
what the device's virtual disks reserve, and beside its headroom.
docs/planning.md derives the formulas and says what they leave out.

Exits with 1 if it does not fit, and says what would; with 2 if an option or a
file can't be used.";

/// The groups of options that one line has no room for.
const USAGE: &str = "\
disktime plan [OPTIONS] <--profile <FILE>|--config <FILE>>
           <--iops <NUMBER>|--bandwidth <RATE>|--latency <TIME>|--trace <FILE>>";

/// Work out what share of a device's time a goal takes, and whether it fits.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
#[command(group = clap::ArgGroup::new("where").required(true).args(["profile", "config"]))]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["iops", "bandwidth", "latency", "trace"]))]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    wish: Wish,
    /// Which part of the batches costs hold for
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "95%")]
    confidence: Share,
    /// Requests at the device at once [default: the configuration's `queue_depth`, or as many as the
    /// profile found it fastest with]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: Option<u32>,
    /// How long the scheduler stays with one stream [default: 350ms, or the device's `horizon`]
    #[arg(long, value_name = "TIME", value_parser = horizon)]
    stay: Option<Duration>,
    #[command(flatten)]
    recorded: Trace,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The device to plan on.
#[derive(clap::Args)]
struct Place {
    /// The device's profile
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// A daemon's configuration: what would be admitted beside what is reserved there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which device of the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "profile")]
    device: Option<String>,
}

/// The goal; the percentile is of a trace's seconds as well.
#[derive(Clone, Copy, clap::Args)]
struct Wish {
    /// Requests per second
    #[arg(long, value_name = "NUMBER", conflicts_with = "bandwidth")]
    iops: Option<u64>,
    /// Bytes per second
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bandwidth: Option<u64>,
    /// Size of a request [default: 4KiB, of a bandwidth 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    request: Option<u64>,
    /// Requests that follow one another in sequence
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    run: u64,
    /// Operations of the requests
    #[arg(long, value_name = "read|write|both", value_parser = access, default_value = "read")]
    access: Access,
    /// Bound on response times
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    latency: Option<Duration>,
    /// Which part of the requests the bound holds for, or of a trace's seconds
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "95%")]
    percentile: Share,
}

/// A recorded trace in place of a goal.
#[derive(clap::Args)]
struct Trace {
    /// A recorded trace in place of a goal
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iops", "bandwidth", "latency"])]
    trace: Option<PathBuf>,
    /// The trace's format, if its first line doesn't say
    #[arg(long, value_name = "NAME", requires = "trace")]
    format: Option<TraceFormat>,
    /// One stream of the trace
    #[arg(long, value_name = "NUMBER", requires = "trace")]
    stream: Option<u64>,
}

/// `95`, `95%` or `99.9%`.
fn parse_percent(text: &str) -> Result<Share, String> {
    let percent = if text.ends_with('%') { text.to_owned() } else { format!("{text}%") };
    let share = parse_share(&percent)
        .map_err(|_| "a part is above 0% and at most 99.999%, like `95%`".to_owned())?;
    let allowed = share > Share::ZERO && share.ppm() <= 999_990;
    allowed.then_some(share).ok_or_else(|| "above 0% and at most 99.999% are possible".to_owned())
}

/// A device to plan on.
struct Device {
    profile: DeviceProfile,
    depth: u32,
    stay: Duration,
    /// With the configuration's device and its reservations, if there is one.
    standing: Option<Standing>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let device = device(arguments).map_err(BadInput)?;
    let report = match &arguments.recorded.trace {
        Some(path) => of_trace(arguments, &device, path),
        None => of_goal(arguments, &device),
    };
    let report = report.map_err(BadInput)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report.json())?);
    } else {
        report.print();
    }
    Ok(if report.fits() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn device(arguments: &Arguments) -> Result<Device, String> {
    let Arguments { depth, stay, .. } = arguments;
    if let Some(path) = &arguments.place.config {
        let named = |error: String| format!("{}: {error}", path.display());
        let config = Config::read(path).map_err(|error| named(error.to_string()))?;
        let standing =
            standing::standing(&config, arguments.place.device.as_deref()).map_err(named)?;
        let Standing { device, profile, .. } = &standing;
        return Ok(Device {
            profile: profile.clone(),
            depth: depth
                .unwrap_or_else(|| device.scheduling.queue_depth.on(Some(profile.fast_from()))),
            stay: stay.or(device.scheduling.horizon).unwrap_or(goal::STAY),
            standing: Some(standing),
        });
    }
    let path = arguments.place.profile.as_deref().unwrap_or(Path::new(""));
    let profile = DeviceProfile::load(path, None).map_err(|error| error.to_string())?;
    let depth = depth.unwrap_or_else(|| QueueDepth::AUTO.on(Some(profile.fast_from())));
    let stay = stay.unwrap_or(goal::STAY);
    Ok(Device { profile, depth, stay, standing: None })
}

impl Device {
    fn broker(&self, confidence: Share) -> Broker<'_> {
        Broker { profile: &self.profile, depth: self.depth, stay: self.stay, confidence }
    }

    /// The terms of the promise bounds of this device, with the depth and the slice length of this plan.
    fn terms(&self) -> Terms {
        let piece = promise::piece_time(&self.profile.profile, promise::PIECE_BYTES);
        let new = Terms::new(self.depth, piece, self.stay, disktime_core::Config::default().period);
        let standing = self.standing.as_ref().map(|standing| standing.terms);
        let mut terms = standing.unwrap_or(new);
        (terms.depth, terms.slice) = (self.depth, self.stay);
        terms
    }

    /// The share that can be had of it.
    fn available(&self) -> Share {
        self.standing.as_ref().map_or(Share::FULL, |standing| standing.free)
    }
}

fn of_goal(arguments: &Arguments, device: &Device) -> Result<Report, String> {
    let Wish { iops, bandwidth, request, run, access, latency, percentile } = arguments.wish;
    let demand = iops.map(Demand::Requests).or(bandwidth.map(Demand::Bytes));
    let bound = latency.map(|latency| Bound { latency, percentile });
    let usual = if bandwidth.is_some() { REQUEST_BANDWIDTH } else { REQUEST_IOPS };
    let request = request.unwrap_or(usual);
    let goal = Goal { demand, bound, request, run };
    let answers = device.broker(arguments.confidence).answers(&goal, access);
    let answers = answers.map_err(|error| error.to_string())?;
    let Some(answer) = answers.first() else { return Err(nothing(&device.profile)) };
    let available = device.available();
    let ppm = answer.needs.ppm();
    let fitting = answer.fitting(&goal, available).map_err(|error| error.to_string())?;
    let mut report = Report::new(device, arguments, ppm, answer.method);
    report.goal = Some((goal, access));
    report.answers = answers;
    report.fitting = fitting;
    Ok(report)
}

fn nothing(profile: &DeviceProfile) -> String {
    format!(
        "the profile of {} has neither prices nor a rotation: make it again with `disktime device \
         profile`",
        profile.name
    )
}

fn of_trace(arguments: &Arguments, device: &Device, path: &Path) -> Result<Report, String> {
    let broker = device.broker(arguments.confidence);
    let open = || TraceReader::open(path, arguments.recorded.format);
    let rows = broker.trace_shares(open, arguments.recorded.stream, arguments.wish.percentile);
    let rows = rows.map_err(|error| error.to_string())?;
    let Some(row) = rows.first() else { return Err(nothing(&device.profile)) };
    let mut report = Report::new(device, arguments, row.share_ppm, row.method);
    report.traces = rows;
    Ok(report)
}
