//! `disktime device`: what a device does, found out from outside; and places for virtual disks, made on
//! purpose.

mod drawing;
mod init;
mod manage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use disktime_client::{ProfileTarget, Uri};
use disktime_config::quantity;
use disktime_core::Duration;
use disktime_core::cost::PriceList;
use disktime_profiler::{BUDGET_MIN, Caches, Found, Progress, Speeds, Switching};
use disktime_server::probe::{ProbeError, ProbeOptions, price_export, price_file};

use crate::{BadInput, output, table};

const EXAMPLES: &str = "\
Examples:
  disktime device profile /dev/sdb --out sdb.json --svg sdb.svg
  disktime device profile 'nbd+unix:///db?socket=/tmp/disktime.sock' \\
      --budget 60s
  disktime device profile 'nbd+unix:///scratch?socket=/tmp/disktime.sock' \\
      --scratch --out box.json
  # measures writes: ALL DATA ON IT IS LOST
  disktime device profile /dev/sdb --destructive

Three quarters of the time go to rotation, zones and seeks, if there are any,
the rest to what each kind of requests costs at the device's best depth. Nothing
else should use the device meanwhile. One that holds nothing yet is faster than
it will be. A block device can only be read by who may: its group is usually
`disk`. docs/device-profiles.md explains what is saved.

Exits with 1 if the device fails or falls silent, with 2 if it or an option
can't be used.";

/// A device's figures.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a device from now on
    Add(manage::Add),
    /// Show a device that a daemon serves
    Show(manage::One),
    /// Show the devices that a daemon serves
    List(crate::control::Daemon),
    /// Serve a device no longer, which has no virtual disk
    Remove(manage::One),
    /// Find out what a device does, with requests of our own: rotation, zones and seeks of a disk; what
    /// each kind of requests costs, on any device
    #[command(after_help = EXAMPLES)]
    Profile(Profile),
    /// Make a directory or an image for virtual disks
    #[command(after_help = init::EXAMPLES)]
    Init(init::Init),
    /// Make the raw file of a virtual disk shorter, while no daemon serves it: what is beyond is lost
    Shrink(init::Shrink),
}

#[derive(clap::Args)]
struct Profile {
    /// A block device, a file, or an NBD URI
    #[arg(value_name = "PATH|URI")]
    device: String,
    /// Write the profile here, in JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw what was found here
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the profile as one JSON document
    #[arg(long)]
    json: bool,
    /// When to stop; less time is coarser
    #[arg(long, value_name = "TIME", default_value = "200s", value_parser = quantity::parse_duration)]
    budget: Duration,
    /// Measure writes as well, all over the device: what is on it is lost
    #[arg(long)]
    destructive: bool,
    /// The export is a virtual disk to be profiled on: measure writes as well, what is on it is lost
    #[arg(long, conflicts_with = "destructive")]
    scratch: bool,
}

impl Profile {
    fn writes(&self) -> bool {
        self.destructive || self.scratch
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Add(arguments) => manage::add(arguments),
        Command::Show(arguments) => manage::show(arguments),
        Command::List(daemon) => manage::list(daemon),
        Command::Remove(arguments) => manage::remove(arguments),
        Command::Profile(arguments) => profile(arguments),
        Command::Init(arguments) => init::init(arguments),
        Command::Shrink(arguments) => init::shrink(arguments),
    }
}

fn profile(arguments: &Profile) -> anyhow::Result<ExitCode> {
    let target = open(arguments).map_err(said)?;
    // Not after minutes: what can't be written is known at once.
    let device = Path::new(&arguments.device);
    let begin = |option: &str, path: &Option<PathBuf>, others: &[&Path]| {
        path.as_deref().map(|path| output::begin_apart(option, path, others)).transpose()
    };
    let out = begin("--out", &arguments.out, &[device])?;
    let beside: Vec<&Path> =
        [Some(device), arguments.out.as_deref()].into_iter().flatten().collect();
    let svg = begin("--svg", &arguments.svg, &beside)?;
    let mut watch = Watch::new(arguments.budget);
    let found = find(target, arguments, &mut watch);
    drop(watch);
    let mut found = found.map_err(said)?;
    leave_out(&mut found, arguments.budget);
    doubt(&found);
    let text = serde_json::to_string_pretty(&found)? + "\n";
    if let Some(out) = out {
        out.finish(&text).context("--out")?;
    }
    if let Some(svg) = svg {
        svg.finish(&drawing::svg(&found)).context("--svg")?;
    }
    if arguments.json {
        print!("{text}");
    } else {
        print(&found);
    }
    Ok(ExitCode::SUCCESS)
}

/// A file's place, or an export's.
enum Place<'a> {
    Path(&'a Path),
    Export(Uri),
}

fn place(device: &str) -> Result<Place<'_>, Failure> {
    if !device.starts_with("nbd") || !device.contains("://") {
        return Ok(Place::Path(Path::new(device)));
    }
    let uri = device.parse().map_err(|error| Failure::Input(format!("{device}: {error}")))?;
    Ok(Place::Export(uri))
}

fn open(arguments: &Profile) -> Result<ProfileTarget, Failure> {
    let (device, writes) = (&arguments.device, arguments.writes());
    match place(device)? {
        Place::Path(_) if arguments.scratch => Err(Failure::Input(format!(
            "--scratch: {device} is no export; of a device of which all may be lost say --destructive"
        ))),
        Place::Path(path) => Ok(ProfileTarget::file(path, writes)?),
        Place::Export(uri) => Ok(ProfileTarget::export(&uri, writes)?),
    }
}

/// The disk's part, one request at a time; then prices, with many.
fn find(target: ProfileTarget, arguments: &Profile, watch: &mut Watch) -> Result<Found, Failure> {
    let Profile { device, budget, .. } = arguments;
    let part = |of: u64| Duration::from_nanos(budget.as_nanos() / 4 * of);
    let disk = if *budget < BUDGET_MIN { *budget } else { part(3).max(BUDGET_MIN) };
    let found = target.profile(device, disk, |progress| watch.see(progress.between(0.0, 0.75)))?;
    let options = ProbeOptions::thorough(part(1), arguments.writes());
    let see = |progress: Progress| watch.see(progress.between(0.75, 1.0));
    let priced = match place(device)? {
        Place::Path(path) => price_file(path, &options, see),
        Place::Export(uri) => price_export(&uri, &options, see),
    };
    Ok(found.with_prices(priced?))
}

/// Leaves out prices that no disk can have: admission would believe them.
fn leave_out(found: &mut Found, budget: Duration) {
    if let Some((work, price, zone)) = found.beyond_zones() {
        eprintln!(
            "--budget {budget:?} is too short for prices, which are left out: a {} of 1 MiB would take \
             {price:?}, and takes {zone:?} in the fastest zone: give it more time",
            work.name()
        );
        (found.profile.prices, found.speeds) = (None, None);
    }
}

/// Says of times that are none of a device's whose they are.
fn doubt(found: &Found) {
    if let Some(read) = found.answered_from_memory() {
        eprintln!(
            "{}: a read of 4 KiB takes {read:?}, and no device answers within {:?}: these are the times \
             of memory, of a hole (a file that was never written) or of a cache. Fill it with data \
             first, or profile the device that it lies on",
            found.name,
            Found::ANSWER_LEAST
        );
    }
}

/// Why there is no profile.
enum Failure {
    Input(String),
    Profile(disktime_client::ProfileError),
    Probe(ProbeError),
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        Self::Probe(error)
    }
}

impl From<disktime_client::ProfileError> for Failure {
    fn from(error: disktime_client::ProfileError) -> Self {
        Self::Profile(error)
    }
}

fn said(failure: impl Into<Failure>) -> anyhow::Error {
    match failure.into() {
        Failure::Input(text) => BadInput(text).into(),
        Failure::Probe(error) => error.into(),
        Failure::Profile(error) if error.is_input() => BadInput(error.to_string()).into(),
        Failure::Profile(error) => error.into(),
    }
}

fn print(found: &Found) {
    let Found { name, profile, .. } = found;
    println!(
        "{name}: {:.3} GB, {} requests in {:.1} s",
        profile.size() as f64 / 1e9,
        found.requests,
        found.took.as_secs_f64()
    );
    match found.rotation {
        Some(rotation) => println!(
            "rotation: {:.4} ms, {:.0} rpm",
            millis(rotation),
            60.0 / rotation.as_secs_f64()
        ),
        None => println!("rotation: none found"),
    }
    println!("nearest positioning: {:.3} ms", millis(found.overhead));
    if !found.writes {
        println!(
            "writes: not measured; taken to be as reads, and to settle {:?} longer",
            Found::WRITE_SETTLE_ALLOWANCE
        );
    }
    println!("\nzones, in sequence");
    let header = ["from GB", "to GB", "read MB/s", "µs/request", "write MB/s", "µs/request"];
    let mut zones = table::new(&header, 0..6);
    let mut from = 0;
    for zone in &profile.zones {
        zones.add_row([
            format!("{:.3}", from as f64 / 1e9),
            format!("{:.3}", zone.end as f64 / 1e9),
            format!("{:.2}", zone.read.bytes_per_second as f64 / 1e6),
            format!("{:.1}", zone.read.per_request.as_secs_f64() * 1e6),
            format!("{:.2}", zone.write.bytes_per_second as f64 / 1e6),
            format!("{:.1}", zone.write.per_request.as_secs_f64() * 1e6),
        ]);
        from = zone.end;
    }
    println!("{zones}\n\npositioning, by distance");
    let header = ["up to MB", "seek ms", "mean ms", "deviation ms", "worst ms", "requests"];
    let mut seeks = table::new(&header, 0..6);
    for at in &profile.positioning {
        let points = || found.seeks.iter().filter(|seek| seek.distance == at.distance);
        let sum: f64 = points().map(|seek| millis(seek.time)).sum();
        seeks.add_row([
            format!("{:.3}", at.distance as f64 / 1e6),
            format!("{:.3}", sum / points().count().max(1) as f64),
            format!("{:.3}", millis(at.mean)),
            format!("{:.3}", millis(at.deviation)),
            format!("{:.3}", millis(at.worst)),
            points().map(|seek| seek.samples).sum::<u32>().to_string(),
        ]);
    }
    println!("{seeks}");
    if let (Some(prices), Some(speeds)) = (&profile.prices, &found.speeds) {
        print_prices(prices, speeds);
    }
}

/// The cost of each kind of requests, and the requests and bytes per second that follow.
fn print_prices(prices: &PriceList, speeds: &Speeds) {
    println!("\nprices, alone at the best depth");
    let header =
        ["kind", "depth", "parallel", "µs each", "µs/MiB", "4 KiB/s", "64 KiB MB/s", "1 MiB MB/s"];
    let mut table = table::new(&header, 1..8);
    for of in &speeds.works {
        let price = of.work.price(prices);
        let micros = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e6);
        let rate = |bytes: u64| 1.0 / price.of(bytes).as_secs_f64().max(1e-9);
        table.add_row([
            of.work.name().to_owned(),
            of.best_depth.to_string(),
            format!("{:.1}", of.parallelism_permille as f64 / 1e3),
            micros(price.each),
            micros(price.per_mib),
            format!("{:.0}", rate(4096)),
            format!("{:.1}", rate(1 << 16) * 65_536e-6),
            format!("{:.1}", rate(1 << 20) * 1.048_576),
        ]);
    }
    println!("{table}");
    if let Some(Switching { streams, kinds, read_write }) = speeds.switching {
        let read_write = read_write.map(|cost| format!(", of reads and writes {cost:?}"));
        println!(
            "switching: of streams {streams:?}, of kinds {kinds:?}{}",
            read_write.unwrap_or_default()
        );
    }
    if let Some(cache) = speeds.cache {
        let Caches { read_first, read_again, write_burst, write_burst_bytes } = cache;
        let hit = if cache.reads() { ", from a cache" } else { "" };
        println!("a place read once {read_first:?}, again {read_again:?}{hit}");
        if let (Some(burst), Some(bytes)) = (write_burst, write_burst_bytes.filter(|it| *it > 0)) {
            println!("a write cache takes {:.1} MB at {burst:?} each", bytes as f64 / 1e6);
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A profile that is watched, in thousandths of its budget.
struct Watch {
    shown: crate::progress::Progress,
    told: u64,
}

impl Watch {
    fn new(budget: Duration) -> Self {
        let shown = crate::progress::Progress::new(1000);
        shown.at(0, &format!("profiling for at most {} s", budget.as_secs_f64()));
        Self { shown, told: 0 }
    }

    fn see(&mut self, progress: Progress) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
        let part = (progress.part * 1000.0) as u64;
        if part > self.told {
            self.told = part;
            let Progress { phase, requests, .. } = progress;
            self.shown.at(part, &format!("profiling: {phase}, {requests} requests"));
        }
    }
}
