//! `disktime bench random`: does a share give what it would give alone, where nobody tuned for it?

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use disktime_bench::insulation::{OWN, Origin};
use disktime_bench::random::{
    self, AloneStore, CellId, Group, NoStore, Progress, Row, SEED_CELLS, Settings, Summary,
};
use disktime_core::policy::PolicyEntry;

use super::files::write;
use crate::paper::machine;
use crate::{BadInput, output, progress, registries, table};

const EXAMPLES: &str = "\
Examples:
  disktime bench random --seeds 1-10 --policy disktime --policy argon
  disktime bench random --seeds 1-50 --group flash --policy disktime --json
  disktime bench random --seed 7 --cell 2 --policy bfq

Cells follow from the seed alone: docs/random-cells.md has how they are drawn
and what is due.";

/// The most cells of a seed.
const CELLS_MAX: u32 = 10_000;
/// The most seeds of a run.
const SEEDS_MAX: u64 = 10_000;

/// Insulation (throughput by what is due) of streams in cells drawn at random, for any policy, in
/// virtual time.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", registries::policies()))]
pub(super) struct Arguments {
    /// Decides everything about the cells: 1 or more
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "seeds",
          value_parser = clap::value_parser!(u64).range(1..))]
    seed: u64,
    /// Several seeds, both included
    #[arg(long, value_name = "A-B")]
    seeds: Option<Seeds>,
    /// Cells of each seed, which take turns among the groups: 1 to 10000
    #[arg(long, value_name = "M", default_value_t = SEED_CELLS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CELLS_MAX)))]
    cells: u32,
    /// Only this cell of each seed
    #[arg(long, value_name = "K", conflicts_with_all = ["cells", "groups"],
          value_parser = clap::value_parser!(u32).range(0..i64::from(CELLS_MAX)))]
    cell: Option<u32>,
    /// Only cells of this group: depth1, disks or flash; again for more
    #[arg(long = "group", value_name = "GROUP", value_parser = group)]
    groups: Vec<Group>,
    /// A policy; again for more
    #[arg(long = "policy", value_name = "NAME", default_value = "disktime")]
    policies: Vec<String>,
    /// Leave latency bounds out of contracts
    #[arg(long)]
    no_latency: bool,
    /// Also run each cell with the device to one stream at a time, in turns of 20 ms to 1 s, and
    /// sum up the streams to which that gives .9 of their due
    #[arg(long)]
    oracle: bool,
    /// Keep what each stream does alone here, for later runs of the same cells; empty it when device
    /// models or loads change
    #[arg(long, value_name = "DIR")]
    alone_cache: Option<PathBuf>,
    /// Also write a page, its heat-map as SVG and the rows as JSON here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Seeds from one to another, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seeds {
    from: u64,
    to: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = || {
            format!("A-B with A at least 1 and at most B, at most {SEEDS_MAX} of them, is needed")
        };
        let (from, to) = text.split_once('-').ok_or_else(allowed)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| allowed());
        let (from, to) = (number(from)?, number(to)?);
        if (1..=to).contains(&from) && to - from < SEEDS_MAX {
            Ok(Self { from, to })
        } else {
            Err(allowed())
        }
    }
}

fn group(text: &str) -> Result<Group, String> {
    let found = Group::ALL.into_iter().find(|group| group.name() == text);
    found.ok_or_else(|| "there are: depth1, disks, flash".to_owned())
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let policies = arguments.policies()?;
    let cells = arguments.cells();
    let dirs = [("--out", &arguments.out), ("--alone-cache", &arguments.alone_cache)];
    let dirs = dirs.map(|(option, dir)| dir.as_ref().map(|dir| output::directory(option, dir)));
    let _go_if_empty = dirs.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    if cells.is_empty() {
        let text = "--cells: no cell of that number is in the groups; 3 or more have one of each";
        return Err(BadInput(text.to_owned()).into());
    }
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let progress = progress::Progress::new(cells.len() as u64);
    progress.at(0, &format!("{} cells, {} policies", cells.len(), policies.len()));
    let kept = arguments.alone_cache.as_ref().map(|dir| Kept { dir: dir.clone() });
    let store = kept.as_ref().map_or(&NoStore as &dyn AloneStore, |kept| kept);
    let settings =
        Settings { threads, latency: !arguments.no_latency, oracle: arguments.oracle, store };
    let rows = random::run(&policies, &cells, settings, |Progress { done, of }| {
        progress.at(done as u64, &format!("{done} of {of} cells"));
    });
    progress.note(&format!("{} rows in {:.0} s", rows.len(), progress.elapsed().as_secs_f64()));
    drop(progress);
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
    }
    let (rows, ended) = random::whole(rows);
    if let Some(dir) = &arguments.out {
        let origin = Origin { command: arguments.command(), machine: machine() };
        write(dir, random::files(&rows, &origin), "random.json", &rows)?;
    }
    print_ended(arguments, &ended);
    if arguments.json {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.cell.is_some() {
        rows.iter().for_each(print_streams);
    }
    print_summaries(&random::summaries(&rows));
    print_versus(&rows);
    if arguments.cell.is_none() {
        policies.iter().for_each(|policy| print_worst(arguments, &rows, policy.name));
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn policies(&self) -> Result<Vec<&'static PolicyEntry>, BadInput> {
        let find = |name: &String| {
            disktime_rivals::find(name).map_err(|error| BadInput(format!("--policy: {error}")))
        };
        let twice = |(place, name): &(usize, &String)| self.policies[..*place].contains(*name);
        if let Some((_, name)) = self.policies.iter().enumerate().find(twice) {
            let text = format!(
                "--policy {name}: named twice, and its cells would count twice: name each policy once"
            );
            return Err(BadInput(text));
        }
        self.policies.iter().map(find).collect()
    }

    /// The command that makes the same rows again.
    fn command(&self) -> String {
        let mut command = "disktime bench random".to_owned();
        command += &match self.seeds {
            Some(Seeds { from, to }) => format!(" --seeds {from}-{to}"),
            None => format!(" --seed {}", self.seed),
        };
        command += &match self.cell {
            Some(cell) => format!(" --cell {cell}"),
            None => format!(" --cells {}", self.cells),
        };
        self.groups.iter().for_each(|group| command += &format!(" --group {}", group.name()));
        self.policies.iter().for_each(|name| command += &format!(" --policy {name}"));
        let options = [(self.no_latency, " --no-latency"), (self.oracle, " --oracle")];
        options.iter().filter(|(is_set, _)| *is_set).for_each(|(_, option)| command += option);
        command
    }

    /// The command that runs one cell of these again, as it was.
    fn command_of_cell(&self, row: &Row) -> String {
        let Row { policy, seed, cell, .. } = row;
        let command =
            format!("disktime bench random --seed {seed} --cell {cell} --policy {policy}");
        if self.no_latency { command + " --no-latency" } else { command }
    }

    fn cells(&self) -> Vec<CellId> {
        let Seeds { from, to } = self.seeds.unwrap_or(Seeds { from: self.seed, to: self.seed });
        let numbers = self.cell.map_or(0..self.cells, |cell| cell..cell + 1);
        let of = |seed| numbers.clone().map(move |number| CellId { seed, number });
        let all = (from..=to).flat_map(of);
        all.filter(|id| self.groups.is_empty() || self.groups.contains(&id.group())).collect()
    }
}

/// Figures alone as files of a directory.
struct Kept {
    dir: PathBuf,
}

impl AloneStore for Kept {
    fn load(&self, key: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.join(key)).ok()
    }

    fn save(&self, key: &str, text: &str) {
        let path = self.dir.join(key);
        if let Err(error) = output::write(&path, text) {
            eprintln!("--alone-cache: {}: {error}", path.display());
        }
    }
}

/// Rows that say nothing of policies, on standard error.
fn print_ended(arguments: &Arguments, ended: &[Row]) {
    let reasons = ended.iter().filter_map(|row| Some((row, row.ended_early.as_ref()?)));
    for (row, reason) in reasons {
        eprintln!("left out under all policies: {}\n  {reason}", arguments.command_of_cell(row));
    }
}

fn print_summaries(summaries: &[Summary]) {
    let header =
        ["policy", "group", "cells", "streams", "p05", "p50", "< .9", "< .5", "worst", "work"];
    let mut shares = table::new(&header, 2..10);
    for it in summaries {
        shares.add_row([
            it.policy.to_owned(),
            it.group.to_owned(),
            it.counts.cells.to_string(),
            it.counts.streams.to_string(),
            format!("{:.3}", it.insulation_p05),
            format!("{:.3}", it.insulation_median),
            percent(it.below_0_9),
            percent(it.below_0_5),
            format!("{:.3}", it.worst_median),
            format!("{:.3}", it.work_mean),
        ]);
    }
    println!("{shares}\n");
    let header = ["policy", "group", "p05", "< .9", "< .5"];
    let mut plain = table::new(&header, 2..5);
    for it in summaries {
        let Some([p05, below_0_9, below_0_5]) = it.of_alone else { continue };
        let figures = [format!("{p05:.3}"), percent(below_0_9), percent(below_0_5)];
        plain.add_row([it.policy.to_owned(), it.group.to_owned()].into_iter().chain(figures));
    }
    println!("closed loops, by share × throughput alone:\n{plain}\n");
    let header = ["policy", "group", "streams", "left out", "p05", "< .9", "< .5"];
    let mut possible = table::new(&header, 2..7);
    for (it, streams) in summaries.iter().filter_map(|it| Some((it, it.possible?))) {
        let counts = [streams.streams, streams.left_out].map(|count| count.to_string());
        let parts = [streams.below_0_9, streams.below_0_5].map(percent);
        let names = [it.policy.to_owned(), it.group.to_owned()].into_iter();
        possible.add_row(names.chain(counts).chain([format!("{:.3}", streams.p05)]).chain(parts));
    }
    if summaries.iter().any(|it| it.possible.is_some()) {
        println!("by the smaller due, of streams to which time division gives .9 of it:");
        println!("{possible}\n");
    }
    let header = ["policy", "group", "light", "p95", "latency", "p95", "gap ms", "p95", "broken"];
    let mut waits = table::new(&header, 2..9);
    for it in summaries {
        let [light, latency] = [it.waits.light_p99, it.waits.latency_p99].map(|it| pair(it, 2));
        let gap = pair(it.waits.gap_ms, 0);
        let numbers = [light, latency, gap].into_iter().flatten();
        let names = [it.policy.to_owned(), it.group.to_owned()];
        waits.add_row(names.into_iter().chain(numbers).chain([it.promises_broken.to_string()]));
    }
    println!("{waits}");
    let header = ["policy", "group", "costs", "within 2 x ±", "off", "p95"];
    let mut costs = table::new(&header, 2..6);
    for (it, seen) in summaries.iter().filter_map(|it| Some((it, it.costs?))) {
        let [off, p95] = [seen.off.0, seen.off.1].map(percent);
        let names = [it.policy.to_owned(), it.group.to_owned()];
        let figures = [seen.streams.to_string(), percent(seen.within), off, p95];
        costs.add_row(names.into_iter().chain(figures));
    }
    if summaries.iter().any(|it| it.costs.is_some()) {
        println!("\nlearned costs, beside the time of a request alone:\n{costs}");
    }
    let all = || summaries.iter().filter(|it| it.group == "all");
    let (hot, few): (usize, usize) =
        (all().map(|it| it.counts.hot).sum(), all().map(|it| it.counts.few).sum());
    if hot + few > 0 {
        println!("\nleft out, over all policies: {hot} streams whose cache others can empty,");
        println!("{few} to which fewer than 20 requests are due");
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn pair(values: Option<(f64, f64)>, digits: usize) -> [String; 2] {
    let number = |value| format!("{value:.digits$}");
    values.map_or_else(|| ["-".to_owned(), "-".to_owned()], |(a, b)| [number(a), number(b)])
}

fn print_versus(rows: &[Row]) {
    let versus = random::versus(rows);
    let Some(own) = versus.iter().find(|it| it.policy == OWN).or(versus.first()) else { return };
    let mut work = table::new(&["policy", "work by the best rival's", "p05"], 1..3);
    for it in &versus {
        let [median, p05] = pair(it.work_by_best, 3);
        work.add_row([it.policy.to_owned(), median, p05]);
    }
    println!("\n{work}");
    let header = format!("cells whose worst stream is better than with {}", own.policy);
    let mut better = table::new(&["rival", &header], 1..2);
    for (rival, part) in &own.rival_worst_better {
        better.add_row([(*rival).to_owned(), percent(*part)]);
    }
    println!("\n{better}");
}

fn print_worst(arguments: &Arguments, rows: &[Row], policy: &str) {
    println!("\nworst streams of {policy}:");
    for (row, stream) in random::worst(rows, policy, 20) {
        let Row { device, depth, .. } = row;
        let (insulation, share) = (stream.throughput.insulation, percent(stream.share));
        println!("{insulation:.3} at {share}, {} on {device}, depth {depth}", stream.name);
        println!("{}", wrapped(&stream.what));
        println!("  {}", arguments.command_of_cell(row));
    }
}

/// A list in lines of at most 80 columns, two of them free at the front.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 80;
    for part in text.split(", ") {
        if column + part.len() + 2 > 79 {
            lines += if lines.is_empty() { "  " } else { ",\n  " };
            column = 2;
        } else {
            lines += ", ";
            column += 2;
        }
        lines += part;
        column += part.len();
    }
    lines
}

fn print_streams(row: &Row) {
    let Row { policy, seed, cell, device, depth, costs, .. } = row;
    println!("{policy}: seed {seed}, cell {cell}: {device}, depth {depth}, {costs} costs");
    let header =
        ["stream", "share", "due/s", "got/s", "insulation", "used", "gap ms", "p99", "own"];
    let mut table = table::new(&header, 1..9);
    for it in &row.streams {
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.1}"));
        table.add_row([
            it.name.clone(),
            percent(it.share),
            format!("{:.1}", it.throughput.due),
            format!("{:.1}", it.throughput.got),
            format!("{:.3}", it.throughput.insulation),
            percent(it.utilization),
            optional(it.gap_ms_max),
            format!("{:.1}", it.p99_ms),
            optional(it.p99_own_disk_ms),
        ]);
    }
    println!("{table}");
    for it in &row.streams {
        println!("{}", wrapped(&format!("{}: {}", it.name, it.what)));
    }
    println!();
}
