//! `disktime bench insulation --live`: the same question to the daemon and its rivals, in real time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use disktime_bench::insulation::{Cell, OWN, Origin};
use disktime_bench::live::scratch_file::{self, ScratchError};
use disktime_bench::live::{
    self, BoxKind, Job, JobError, LiveDevice, LiveMiss, LiveRow, LiveSettings, Medium, Scene,
    Tuning, Way, World,
};
use disktime_config::quantity::parse_size;
use disktime_core::policy::PolicyEntry;

use super::cells::selected;
use super::files::write;
use super::machine::Machine;
use crate::interrupt::Temporary;
use crate::paper::hardware;
use crate::{BadInput, table};

/// The daemon's policies that are measured unless others are asked for.
pub(super) const POLICIES: [&str; 2] = [OWN, "zygaria-iops"];
/// How long all are together on a device.
const LENGTHS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
const ROUNDS_MAX: usize = 100;
/// Bytes of an `nbdkit`'s memory.
const NBDKIT_BYTES: u64 = 3 << 30;

/// Rivals that are told what each stream does alone.
const LIMITERS: [Way; 2] = [Way::Throttle, Way::Rate];
const LIMITERS_NOTE: &str = "qemu-throttle and nbdkit-rate were told what each stream does alone, and are \
                             not work conserving: their limits hold while others rest, too";

/// The storage that is measured on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum On {
    /// The daemon's emulated disk, with the simulator beside it.
    Emulated,
    /// A plain file.
    File,
    /// Behind an `nbdkit`.
    Nbdkit,
    /// Behind a `qemu-nbd`.
    QemuNbd,
}

/// Options of live benches alone.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Measure the daemon and others, live over NBD, instead of simulating
    #[arg(long)]
    pub(super) live: bool,
    /// How long all share a device, in each round (the emulated disk: five times as long, once)
    #[arg(long = "for", value_name = "SPAN", default_value = "20s", requires = "live")]
    length: humantime::Duration,
    /// How often each takes its turn; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, requires = "live")]
    rounds: usize,
    /// Only this device; again for more [default: all]
    #[arg(long = "on", value_name = "DEVICE", value_enum, requires = "live")]
    on: Vec<On>,
    /// Only this rival of the daemon: none, linux-bfq, qemu-throttle, nbdkit-rate; again for more [default: all]
    #[arg(long = "against", value_name = "NAME", requires = "live")]
    against: Vec<Way>,
    /// The daemon's cost model [default: the daemon's own]
    #[arg(long, value_name = "NAME", requires = "live")]
    cost_model: Option<String>,
    /// Requests that the daemon has at the device at once; the emulated disk takes one
    #[arg(long, value_name = "N", default_value_t = 32, requires = "live",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// Where the file is made [default: the directory for temporary files]
    #[arg(long, value_name = "DIR", requires = "live")]
    scratch: Option<PathBuf>,
    /// The file's size [default: 4GiB, or half of what is free]
    #[arg(long, value_name = "SIZE", requires = "live")]
    size: Option<String>,
}

/// A file to measure on, until dropped.
struct Scratch {
    path: PathBuf,
    bytes: u64,
    _directory: Temporary,
}

impl Scratch {
    fn create(within: &Path, bytes: Option<u64>, world: &dyn World) -> anyhow::Result<Self> {
        let bytes = scratch_file::size(within, bytes).map_err(|error| match error {
            ScratchError::Size { .. } => anyhow::Error::new(BadInput(format!("--size: {error}"))),
            error => BadInput(format!("--scratch {error}")).into(),
        })?;
        let directory = Temporary::within(within, "disktime-bench-")
            .map_err(|error| BadInput(format!("--scratch {}: {error}", within.display())))?;
        let path = directory.path().join("image");
        scratch_file::create(&path, bytes, world)?;
        Ok(Self { path, bytes, _directory: directory })
    }
}

/// The request beside the options.
pub(super) struct Asked<'a> {
    pub(super) policies: Vec<&'static PolicyEntry>,
    /// Cells of the emulated disk; none for those that are chosen for it.
    pub(super) cells: Vec<Cell>,
    pub(super) seed: u64,
    pub(super) json: bool,
    pub(super) out: Option<&'a Path>,
}

/// Runs the command.
pub(super) fn run(options: &Options, asked: &Asked<'_>) -> anyhow::Result<ExitCode> {
    let settings = options.settings(asked.seed)?;
    let bytes = options.size.as_deref().map(size).transpose()?;
    let on = options.on(&asked.cells);
    let world = Machine::new();
    // Sockets: their paths may not be long.
    let directory = Temporary::new("disktime-live-")?;
    let scratch = if on.contains(&On::File) || on.contains(&On::QemuNbd) {
        let within = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        world.say(&format!("writing a file full of noise in {}", within.display()));
        Some(Scratch::create(&within, bytes, &world)?)
    } else {
        None
    };
    let jobs = options.jobs(&on, asked, scratch.as_ref(), directory.path())?;
    let lengths = jobs.iter().map(|job| settings.length(&job.scene, job.contenders.len()));
    world.takes(lengths.sum());
    let mut rows = Vec::new();
    for Job { scene, contenders } in &jobs {
        rows.extend(live::run(scene, contenders, settings, &world)?);
    }
    world.note(&format!("{} rows in {:.0} s", rows.len(), world.now().as_secs_f64()));
    drop(world);
    if rows.is_empty() {
        bail!("nothing was measured: every contender was left out, for the reasons said above");
    }
    if let Some(dir) = asked.out {
        let origin = Origin { command: options.command(asked), machine: hardware() };
        write(dir, live::live_files(&rows, &origin), "insulation-live.json", &rows)?;
    }
    if asked.json {
        println!("{}", serde_json::to_string(&rows)?);
    } else {
        print_rows(&rows);
        print_distances(&rows);
    }
    if rows.iter().any(|row| LIMITERS.iter().any(|way| row.policy == way.name())) {
        eprintln!("{LIMITERS_NOTE}");
    }
    let missed = live::live_missed(&rows);
    for LiveMiss { what, measured, bar } in &missed {
        eprintln!("{OWN} misses {what}: {measured:.4}; {bar}");
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Options {
    fn settings(&self, seed: u64) -> Result<LiveSettings, BadInput> {
        let together: Duration = *self.length;
        if !(LENGTHS.0..=LENGTHS.1).contains(&together) {
            return Err(BadInput(format!("--for {}: 100ms to 1h", self.length)));
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return Err(BadInput(format!("--rounds {}: 1 to {ROUNDS_MAX}", self.rounds)));
        }
        Ok(LiveSettings { together, rounds: self.rounds, seed })
    }

    /// As asked for, each once; cells are of the emulated disk.
    fn on(&self, cells: &[Cell]) -> Vec<On> {
        let mut on = match (&self.on[..], cells) {
            ([], []) => On::value_variants().to_vec(),
            ([], _) => vec![On::Emulated],
            (asked, _) => asked.to_vec(),
        };
        on.sort_unstable();
        on.dedup();
        on
    }

    fn jobs(
        &self,
        on: &[On],
        asked: &Asked<'_>,
        scratch: Option<&Scratch>,
        directory: &Path,
    ) -> anyhow::Result<Vec<Job>> {
        let mut media: Vec<(Scene, Option<Medium>)> = Vec::new();
        for on in on {
            let file = || scratch.context("a file was made for what takes one");
            match on {
                On::Emulated => {
                    media.extend(emulated(&asked.cells)?.into_iter().map(|scene| (scene, None)));
                }
                On::File => {
                    let medium = Some(Medium::File(file()?.path.clone()));
                    let scenes = Scene::on_file(file()?.bytes).into_iter();
                    media.extend(scenes.map(|scene| (scene, medium.clone())));
                }
                On::Nbdkit => {
                    let scene = Scene::on_box(LiveDevice::Nbdkit, NBDKIT_BYTES);
                    media.push((scene, Some(Medium::Boxed(BoxKind::Nbdkit(NBDKIT_BYTES)))));
                }
                On::QemuNbd => {
                    let scene = Scene::on_box(LiveDevice::QemuNbd, file()?.bytes);
                    let kind = BoxKind::QemuNbd(file()?.path.clone());
                    media.push((scene, Some(Medium::Boxed(kind))));
                }
            }
        }
        let job = |(place, (scene, medium)): (usize, (Scene, Option<Medium>))| {
            self.job(scene, medium, asked, &directory.join(place.to_string()))
        };
        media.into_iter().enumerate().map(job).collect()
    }

    fn job(
        &self,
        scene: Scene,
        medium: Option<Medium>,
        asked: &Asked<'_>,
        directory: &Path,
    ) -> anyhow::Result<Job> {
        let tuning = Tuning { cost_model: self.cost_model.clone(), depth: self.depth };
        let policies: Vec<_> = asked.policies.iter().map(|policy| policy.name).collect();
        let ways = if self.against.is_empty() { &Way::ALL[..] } else { &self.against };
        Job::new(scene, medium, &policies, ways, &tuning, directory).map_err(|error| match error {
            JobError::Config(_) => BadInput(error.to_string()).into(),
            error => error.into(),
        })
    }

    /// The command that measures the same again.
    fn command(&self, asked: &Asked<'_>) -> String {
        let mut command = format!(
            "disktime bench insulation --live --for {} --rounds {} --depth {} --seed {}",
            self.length, self.rounds, self.depth, asked.seed
        );
        let mut add = |key: &str, value: &str| command += &format!(" --{key} {value}");
        asked.policies.iter().for_each(|policy| add("policy", policy.name));
        asked.cells.iter().for_each(|cell| add("cell", &cell.to_string()));
        let on = self.on.iter().filter_map(On::to_possible_value);
        on.for_each(|on| add("on", on.get_name()));
        self.against.iter().for_each(|way| add("against", way.name()));
        self.cost_model.iter().for_each(|name| add("cost-model", name));
        self.scratch.iter().for_each(|dir| add("scratch", &dir.display().to_string()));
        self.size.iter().for_each(|size| add("size", size));
        command
    }
}

fn size(text: &str) -> Result<u64, BadInput> {
    parse_size(text).map_err(|why| BadInput(format!("--size `{text}`: {why}")))
}

fn emulated(cells: &[Cell]) -> Result<Vec<Scene>, BadInput> {
    let chosen = || selected(&Scene::emulated_chosen());
    let cells = if cells.is_empty() { chosen()? } else { cells.to_vec() };
    let scene = |cell: Cell| {
        Scene::emulated(cell).map_err(|error| BadInput(format!("--live --cell `{cell}`: {error}")))
    };
    cells.into_iter().map(scene).collect()
}

fn print_rows(rows: &[LiveRow]) {
    let header = [
        "policy",
        "device",
        "victim",
        "antagonist",
        "share",
        "insulation",
        "simulated",
        "p01",
        "> .9",
        "share error",
        "work",
        "gap ms",
        "p99 ratio",
        "IOPS",
        "alone",
        "others' CPU",
    ];
    let mut table = table::new(&header, 4..16);
    let maybe = |figure: Option<f64>, digits: usize| {
        figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
    };
    for row in rows {
        table.add_row([
            row.policy.to_owned(),
            row.device.to_owned(),
            row.victim.to_owned(),
            row.antagonist.clone(),
            format!("{:.0} %", row.share * 100.0),
            format!("{:.3}", row.figures.insulation_mean),
            maybe(row.simulated, 3),
            format!("{:.3}", row.figures.insulation_p01),
            format!("{:.2}", row.figures.windows_above_0_9),
            maybe(row.figures.share_error_points, 2),
            format!("{:.3}", row.figures.work_conservation),
            format!("{:.0}", row.figures.gap_ms_max),
            format!("{:.2}", row.figures.p99_ratio),
            format!("{:.0}", row.iops),
            format!("{:.0}", row.alone_iops),
            format!("{:.0} %", row.foreign_cpu * 100.0),
        ]);
    }
    println!("{table}");
}

fn print_distances(rows: &[LiveRow]) {
    let header = [
        "policy",
        "device",
        "streams",
        "shares",
        "mean |insulation - 1|",
        "worst insulation",
        "by the best alone",
        "work",
    ];
    let mut table = table::new(&header, 4..8);
    for it in live::distances(rows) {
        table.add_row([
            it.policy.to_owned(),
            it.device.to_owned(),
            it.streams,
            it.split,
            format!("{:.3}", it.mean),
            format!("{:.3}", it.worst),
            format!("{:.3}", it.worst_of_best),
            format!("{:.3}", it.work_conservation),
        ]);
    }
    println!("\n{table}");
}
