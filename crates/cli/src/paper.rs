//! `disktime paper`: the papers' figures, run again and checked.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context;
use clap::Subcommand;
use disktime_papers::paper_page::{self, Provenance};
use disktime_papers::{Experiment, PAPERS, Paper, RECORDED, Report, Runs, reproduction};
use disktime_report::page::{self, File};
use disktime_workload::OpenTrace;
use disktime_workload::trace::TraceReader;
use serde::Serialize;

use crate::progress::Progress;
use crate::{BadInput, output, table, terminal};

mod daemon_runs;
mod file_programs;
mod mounted_runs;

const EXAMPLES: &str = "\
Examples:
  disktime paper list
  disktime paper run zygaria-4 zygaria-5
  disktime paper all --out reports
  disktime paper run zygaria-1 --seeds 1 --json | jq '.[].checks'
  disktime paper run reward-t2 --seeds 5 --first-seed 11 --no-bands
  disktime paper run reward-t1 reward-2 --live --out reports
  disktime paper run ucsb-5 mdn-3a --live       (on a mount, as root)
  disktime paper run qbox-17 --trace reads.csv.gz

Exits with 1 if a check misses.";

/// The action on the papers' figures.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Name every figure
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Run figures and check what was published
    Run {
        /// Figures, as `paper list` names them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Also run figures live: those of zygaria, mdn, ucsb and qbox by programs on a mount, for as
        /// long as the figure; those of reward on emulated tiers, each cell for so long
        #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "20s")]
        live: Option<humantime::Duration>,
        #[command(flatten)]
        options: Options,
    },
    /// Run every figure
    All {
        #[command(flatten)]
        options: Options,
    },
}

#[derive(clap::Args)]
struct Options {
    /// Runs of each figure, with as many seeds
    #[arg(long, value_name = "N", default_value = "3", value_parser = seeds)]
    seeds: NonZero<u32>,
    /// The least seed; the others follow it
    #[arg(long, value_name = "N", default_value = "1", value_parser = first_seed)]
    first_seed: u64,
    /// Leave out the other values of the numbers that a paper leaves open
    #[arg(long)]
    no_bands: bool,
    /// Also run the figures that a recorded trace can join (qbox-17 to qbox-20) with its reads: a file
    /// as `replay` of a scenario reads it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also write a page for each paper, the figures as SVG and the reports as JSON here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs of each figure.
fn seeds(text: &str) -> Result<NonZero<u32>, String> {
    let seeds = text.parse::<NonZero<u32>>().ok().filter(|seeds| seeds.get() <= SEEDS_MAX);
    seeds.ok_or_else(|| format!("1 to {SEEDS_MAX} runs are possible"))
}

fn first_seed(text: &str) -> Result<u64, String> {
    let seed = text.parse::<u64>().ok().filter(|seed| (1..=FIRST_SEED_MAX).contains(seed));
    seed.ok_or_else(|| format!("1 to {FIRST_SEED_MAX} is possible"))
}

/// The greatest first seed: all that follow are exact in JSON.
const FIRST_SEED_MAX: u64 = 1_000_000_000;
/// The most runs of a figure.
const SEEDS_MAX: u32 = 1000;

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: &'static str,
    /// Whether it can be run live.
    live: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::List { json } => list(*json),
        Action::Run { ids, live, options } => {
            let experiments: Result<Vec<_>, _> = ids.iter().map(|id| find(id)).collect();
            let live = live.map(|span| daemon_runs::Wanted::new(span, ids)).transpose()?;
            let flag = live.as_ref().map(daemon_runs::Wanted::flag).unwrap_or_default();
            run_all(&experiments?, &format!("run {}{flag}", ids.join(" ")), live.as_ref(), options)
        }
        Action::All { options } => {
            run_all(&disktime_papers::experiments().collect::<Vec<_>>(), "all", None, options)
        }
    }
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let listed = disktime_papers::experiments().map(|experiment| {
        let live = disktime_papers::live_ids().any(|id| id == experiment.id);
        Listed { id: experiment.id, title: experiment.title, live }
    });
    if json {
        println!("{}", serde_json::to_string(&listed.collect::<Vec<_>>())?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table::new(&["id", "title", "runs"], 0..0);
    for Listed { id, title, live } in listed {
        table.add_row([id, title, if live { "simulated, live" } else { "simulated" }]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

fn find(id: &str) -> Result<&'static Experiment, BadInput> {
    disktime_papers::find(id).ok_or_else(|| {
        let known: Vec<_> = disktime_papers::experiments().map(|known| known.id).collect();
        BadInput(format!("ID: `{id}` is not known; known are: {}", known.join(", ")))
    })
}

fn run_all(
    experiments: &[&'static Experiment],
    what: &str,
    live: Option<&daemon_runs::Wanted>,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let Options { seeds, first_seed, no_bands, trace, json, out } = options;
    if let Some(trace) = trace {
        recorded(experiments, trace)?;
    }
    let _goes_if_empty = out.as_deref().map(|dir| output::directory("--out", dir)).transpose()?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let begun = now();
    let runs = match no_bands {
        true => Runs { first_seed: *first_seed, ..Runs::of_seeds(*seeds) },
        false => Runs::whole(*first_seed, *seeds),
    };
    let all: usize = experiments.iter().map(|experiment| runs.count(experiment)).sum();
    let progress = Progress::new(all as u64);
    let begun_runs = AtomicUsize::new(0);
    let mut reports = disktime_papers::run(experiments, runs, threads, |experiment, seed| {
        let before = begun_runs.fetch_add(1, Ordering::Relaxed);
        // Runs that began on other threads are under way.
        let done = before.saturating_sub(threads.get() - 1);
        progress.at(done as u64, &format!("{} with seed {seed}", experiment.id));
    });
    drop(progress);
    match trace {
        Some(trace) => join(&mut reports, trace, runs, threads)?,
        None => tell_left_out(&mut reports),
    }
    let simulated: f64 = reports.iter().map(|report| report.seconds).sum();
    let wall = now().duration_since(begun).as_secs_f64();
    eprintln!("{simulated:.0} simulated seconds in {wall:.1} s on {threads} threads");
    if let Some(live) = live {
        live.add_to(&mut reports)?;
    }
    if let Some(dir) = out {
        let mut command = format!("disktime paper {what} --seeds {seeds}");
        if *first_seed > 1 {
            command += &format!(" --first-seed {first_seed}");
        }
        if *no_bands {
            command += " --no-bands";
        }
        if trace.is_some() {
            command += " --trace FILE";
        }
        let last_seed = first_seed + u64::from(seeds.get()) - 1;
        let seeds = (*first_seed, last_seed);
        write(dir, &reports, &Provenance { command, seeds, machine: machine() })?;
    }
    if *json {
        println!("{}", serde_json::to_string(&reports)?);
    } else {
        reports.iter().for_each(print);
        let of_paper = |paper: &&Paper| reports.iter().any(|report| belongs(report, paper));
        PAPERS.iter().filter(of_paper).for_each(print_ways);
    }
    let pass = reports.iter().all(Report::pass);
    Ok(if pass { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Checks that the trace can be opened, and that a figure has a use for it.
fn recorded(experiments: &[&'static Experiment], trace: &Path) -> Result<(), BadInput> {
    let joins = |id: &str| RECORDED.iter().any(|it| it.id == id);
    if !experiments.iter().any(|experiment| joins(experiment.id)) {
        let known: Vec<_> = RECORDED.iter().map(|it| it.id).collect();
        let known = known.join(", ");
        return Err(BadInput(format!("--trace: it can join none of these figures, but {known}")));
    }
    TraceReader::open(trace, None).map_err(|error| BadInput(format!("--trace: {error}")))?;
    Ok(())
}

fn join(
    reports: &mut [Report],
    trace: &Path,
    runs: Runs,
    threads: NonZero<usize>,
) -> anyhow::Result<()> {
    let open = || -> OpenTrace {
        let trace = trace.to_owned();
        Box::new(move || TraceReader::open(&trace, None))
    };
    let progress = Progress::new(0);
    progress.at(0, "with the recorded trace");
    disktime_papers::recorded::join(reports, &open, runs, threads)
        .map_err(|error| BadInput(format!("--trace: {error}")))?;
    Ok(())
}

/// Without a recorded trace: says which figures lack their part with one.
fn tell_left_out(reports: &mut [Report]) {
    let ids = disktime_papers::recorded::leave_out(reports);
    if !ids.is_empty() {
        eprintln!(
            "{}: left out with a recorded trace, since there is no --trace FILE",
            ids.join(", ")
        );
    }
}

fn print(report: &Report) {
    println!("{}: {}", report.id, report.title);
    let mut table = table::new(&["  check", "published", "measured", "passes", ""], 1..4);
    for check in &report.checks {
        let [published, measured] = [check.published, check.measured].map(page::number);
        let verdict = if report.passes(check) { "holds" } else { "MISSED" };
        let name = format!("  {}", check.name);
        table.add_row([name, published, measured, paper_page::bounds(check), verdict.to_owned()]);
    }
    for row in &report.reported {
        let [published, measured] = [row.published, row.measured].map(page::number);
        let shown = ["shown", ""].map(str::to_owned);
        let [passes, verdict] = shown;
        table.add_row([format!("  {}", row.name), published, measured, passes, verdict]);
    }
    println!("{table}");
    let say = |text: String| println!("{}", terminal::paragraph(&text, "    "));
    for band in &report.bands {
        for (course, places) in band.partly() {
            say(format!("  {} ({}): {} holds {places}", band.name, band.range(), course.check));
        }
    }
    for miss in report.missed_by_seed_in_words() {
        say(format!("  missed by single seeds: {miss}"));
    }
    let texts = [report.reason, report.note].into_iter().filter(|_| !report.pass());
    for text in texts.chain(report.left_out).filter(|text| !text.is_empty()) {
        say(format!("  {text}"));
    }
    println!();
}

/// How a paper's figures are run, and the command for those that are run live.
fn print_ways(paper: &Paper) {
    let live = paper.live().join(" ");
    let how = if live.is_empty() {
        String::new()
    } else {
        format!(" (in real time by `disktime paper run {live} --live`)")
    };
    println!("{}", terminal::paragraph(&format!("{}: {}{how}", paper.id, paper.ways()), "  "));
}

fn write(dir: &Path, reports: &[Report], provenance: &Provenance) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(reports)? + "\n";
    let mut files = vec![File { name: "reports.json".to_owned(), text: json }];
    for paper in PAPERS {
        let of_paper: Vec<&Report> =
            reports.iter().filter(|report| belongs(report, paper)).collect();
        if !of_paper.is_empty() {
            files.push(paper_page::page(paper, &of_paper, provenance));
            files.extend(paper_page::figures(&of_paper));
        }
    }
    files.push(paper_page::index(reports, provenance));
    files.extend(reproduction::files(reports, provenance));
    for File { name, text } in files {
        let path = dir.join(name);
        output::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    eprintln!("wrote {}", dir.display());
    Ok(())
}

fn belongs(report: &Report, paper: &Paper) -> bool {
    paper.experiments.iter().any(|experiment| experiment.id == report.id)
}

/// Processor, cores and kernel, as far as the system says.
pub(crate) fn machine() -> String {
    format!("{}; simulated, so it changes no figure", hardware())
}

/// The processor and the kernel.
pub(crate) fn hardware() -> String {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.rsplit_once(": ").map_or(line, |(_, value)| value).trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let processor = first("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let kernel = first("/proc/sys/kernel/osrelease", "").unwrap_or_default();
    format!("{processor}, {cores} cores, kernel {kernel}")
}

#[expect(clippy::disallowed_methods, reason = "how long the runs took is told to a person")]
fn now() -> Instant {
    Instant::now()
}
