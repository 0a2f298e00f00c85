//! `disktime bench insulation`: does a share give what it would give alone?

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use disktime_bench::insulation::{
    self, Cell, Miss, OWN, Origin, Progress, QUICK, Row, SHARING, Settings,
};
use disktime_core::policy::PolicyEntry;

use super::cells::selected;
use super::files::write;
use super::insulation_live as live;
use crate::paper::machine;
use crate::{BadInput, output, progress, registries, table};

const EXAMPLES: &str = "\
Examples:
  disktime bench insulation --quick
  disktime bench insulation --policy disktime --policy bfq --out report
  disktime bench insulation --policy zygaria \\
      --cell 'deskstar-34gxp/random-4k/*/10' --json
  disktime bench insulation --live --on file --on nbdkit --out report

Live: the daemon's policies (disktime and zygaria-iops unless said) beside a
server without any order, Linux's BFQ on a loop device (root) and QEMU's
throttle groups, as far as they can be had here.

Exits with 1 if policy `disktime` misses a bar.";

/// Insulation (throughput by share and by throughput alone) of victims beside antagonists, for every
/// policy that shares a device, in virtual time.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", registries::policies()))]
pub(super) struct Arguments {
    /// Sixteen cells and four policies only
    #[arg(long, conflicts_with = "live")]
    quick: bool,
    /// Only this policy; again for more [default: all that are meant for sharing]
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// Only these of all combinations, `*` for any part; again for more
    #[arg(long = "cell", value_name = "DEVICE/VICTIM/ANTAGONIST/SHARE", conflicts_with = "quick")]
    cells: Vec<String>,
    /// Decides every load's requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also write a page, its heat-map as SVG and the rows as JSON here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Live")]
    live: live::Options,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let policies = arguments.policies()?;
    let out = arguments.out.as_deref();
    let _goes_if_empty = out.map(|dir| output::directory("--out", dir)).transpose()?;
    if arguments.live.live {
        let (cells, seed) = (selected(&arguments.cells)?, arguments.seed);
        let Arguments { json, out, .. } = arguments;
        let asked = live::Asked { policies, cells, seed, json: *json, out: out.as_deref() };
        return live::run(&arguments.live, &asked);
    }
    let cells = arguments.cells()?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let settings = Settings { seed: arguments.seed, windows: Settings::WINDOWS, threads };
    let progress = progress::Progress::new(0);
    progress.at(0, &format!("{} cells, {} policies", cells.len(), policies.len()));
    let rows = insulation::run(&policies, &cells, settings, |step| {
        let (what, done, of) = match step {
            Progress::Alone(done, of) => ("loads alone", done, of),
            Progress::Rows(done, of) => ("rows", done, of),
        };
        progress.set_of(of as u64);
        progress.at(done as u64, &format!("{done} of {of} {what}"));
    });
    progress.note(&format!("{} rows in {:.0} s", rows.len(), progress.elapsed().as_secs_f64()));
    drop(progress);
    if let Some(dir) = &arguments.out {
        let origin = Origin { command: arguments.command(), machine: machine() };
        write(dir, insulation::files(&rows, &origin), "insulation.json", &rows)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
    } else {
        print_rows(&rows);
        print_summaries(&rows);
    }
    let missed = insulation::missed(&rows);
    tell_missed(&missed);
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Arguments {
    /// As asked for, else those of the list.
    fn policies(&self) -> Result<Vec<&'static PolicyEntry>, BadInput> {
        if !self.policies.is_empty() {
            return self.policies.iter().map(|name| find(name)).collect();
        }
        let names = match (self.live.live, self.quick) {
            (true, _) => &live::POLICIES[..],
            (false, true) => &QUICK[..],
            (false, false) => &SHARING[..],
        };
        names.iter().map(|name| find(name)).collect()
    }

    /// The command that makes the same rows again.
    fn command(&self) -> String {
        let mut command = "disktime bench insulation".to_owned();
        if self.quick {
            command += " --quick";
        }
        self.policies.iter().for_each(|name| command += &format!(" --policy {name}"));
        self.cells.iter().for_each(|cells| command += &format!(" --cell '{cells}'"));
        command + &format!(" --seed {}", self.seed)
    }

    fn cells(&self) -> Result<Vec<Cell>, BadInput> {
        if self.cells.is_empty() {
            return Ok(if self.quick { insulation::quick() } else { insulation::cover() });
        }
        selected(&self.cells)
    }
}

fn find(name: &str) -> Result<&'static PolicyEntry, BadInput> {
    disktime_rivals::find(name).map_err(|error| BadInput(format!("--policy: {error}")))
}

/// A table for each policy and device.
fn print_rows(rows: &[Row]) {
    let header = [
        "victim",
        "beside",
        "share",
        "insulation",
        "p01",
        "> .9",
        "share error",
        "work",
        "gap ms",
        "p99 ratio",
    ];
    for rows in rows.chunk_by(|a, b| (a.policy, a.cell.device) == (b.policy, b.cell.device)) {
        let Some(first) = rows.first() else { continue };
        let mut table = table::new(&header, 2..10);
        for row in rows {
            let Cell { victim, antagonist, share_percent, .. } = row.cell;
            table.add_row([
                victim.name().to_owned(),
                antagonist.name().to_owned(),
                format!("{share_percent} %"),
                format!("{:.3}", row.insulation_mean),
                format!("{:.3}", row.insulation_p01),
                format!("{:.2}", row.windows_above_0_9),
                format!("{:.2}", row.share_error_points),
                format!("{:.3}", row.work_conservation),
                format!("{:.1}", row.gap_ms_max),
                format!("{:.2}", row.p99_ratio),
            ]);
        }
        println!("{} on {}\n{table}\n", first.policy, first.cell.device.name());
    }
}

fn print_summaries(rows: &[Row]) {
    let header = [
        "policy",
        "meets its bars",
        "insulation, median",
        "worst",
        "p01, worst",
        "work, median",
        "worst",
    ];
    let mut table = table::new(&header, 1..7);
    for summary in insulation::summaries(rows) {
        let (insulation, work) = (summary.insulation_mean, summary.work_conservation);
        table.add_row([
            summary.policy.to_owned(),
            format!("{} of {}", summary.met, summary.cells),
            format!("{:.3}", insulation.0),
            format!("{:.3}", insulation.1),
            format!("{:.3}", summary.insulation_p01_worst),
            format!("{:.3}", work.0),
            format!("{:.3}", work.1),
        ]);
    }
    println!("{table}");
}

fn tell_missed(missed: &[Miss]) {
    for Miss { cell, figure, measured, bar } in missed {
        eprintln!("{OWN} misses {cell}: {figure} is {measured:.4}, bar {bar}");
    }
}
