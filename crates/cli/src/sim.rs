//! `disktime sim`: scenarios in virtual time.

mod drawings;
mod progress;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use disktime_sim::{self as sim, Outcome, Scenario, Summary};
use serde::Serialize;

use crate::costs::{self, CostRow};
use crate::{BadInput, output, table};
use progress::Watch;

const EXAMPLES: &str = "\
Examples:
  disktime sim run scenario.toml
  disktime sim run scenario.toml --csv windows.csv
  disktime sim run scenario.toml --out reports
  disktime sim run scenario.toml --decisions 10..10.5 --json

A scenario:
  [scenario]
  duration = \"60s\"
  seeds = [1, 2, 3]

  [device]
  emulate = \"deskstar-34gxp\"

  [[stream]]
  name = \"sequential\"
  reserve = \"70%\"
  [[stream.phases]]
  pace = { closed = { outstanding = 8 } }
  [stream.phases.spec]
  pattern = { runs = { length = 1024 } }
  extent = { end = \"9GiB\" }
  sizes = \"4KiB\"

docs/simulator.md and docs/devices.md explain every key and column. Exits with 1
if a promise was violated.";

/// The action on scenarios.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario with each of its seeds
    #[command(after_help = EXAMPLES)]
    Run {
        /// The scenario, in TOML
        #[arg(value_name = "SCENARIO.toml")]
        scenario: PathBuf,
        /// Write every stream's figures in every window here
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,
        /// Write the same as `windows.csv` here, and draw utilization, queue and service times
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Show every decision between these seconds, with its reasons
        #[arg(long, value_name = "FROM..TO", value_parser = parse_span)]
        decisions: Option<(f64, f64)>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct Run {
    seed: u64,
    seconds: f64,
    requests: u64,
    streams: Vec<StreamRow>,
    violations: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<DecisionRow>,
}

#[derive(Serialize)]
struct StreamRow {
    name: String,
    utilization: f64,
    iops: f64,
    bytes_per_second: f64,
    queue_us_mean: f64,
    queue_us_p99: f64,
    service_us_mean: f64,
    service_us_p99: f64,
    /// From arrival to completion.
    response_us_mean: f64,
    response_us_p99: f64,
    response_us_p999: f64,
    /// Cycles of a guaranteed rate that began with work waiting, and those of them not kept.
    cycles: u64,
    cycles_missed: u64,
    /// The cost estimates of its pieces at the end, by kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    costs: Vec<CostRow>,
}

#[derive(Serialize)]
struct DecisionRow {
    at_s: f64,
    stream: u32,
    offset: u64,
    due: bool,
    candidates: Vec<CandidateRow>,
}

#[derive(Serialize)]
struct CandidateRow {
    stream: u32,
    level_ns: i64,
    /// Left out where it never comes.
    deadline_s: Option<f64>,
    usage_per_weight: i64,
    queued: u32,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Command::Run { scenario, csv, out, decisions, json } = &arguments.command;
    let scenario = Scenario::read(scenario).map_err(|error| BadInput(error.to_string()))?;
    // Not after the runs: what can't be written is known at once.
    let _goes_if_empty = out.as_deref().map(|dir| output::directory("--out", dir)).transpose()?;
    let inputs: Vec<_> = scenario.files().collect();
    let in_dir = out.as_deref().map(|dir| ("--out", dir.join("windows.csv")));
    let named = csv.clone().map(|path| ("--csv", path)).into_iter().chain(in_dir);
    let begin = |(option, path): (_, PathBuf)| {
        output::begin_apart(option, &path, &inputs).map(|table| (option, table))
    };
    let mut tables = named.map(begin).collect::<Result<Vec<_>, _>>()?;
    for (option, table) in &mut tables {
        table.append(CSV_HEADER).context(*option)?;
    }
    let seconds = scenario.duration().as_secs_f64();
    let mut runs = Vec::new();
    for seed in scenario.seeds() {
        let mut plan = scenario.plan(*seed).map_err(|error| BadInput(error.to_string()))?;
        plan.decisions = decisions.map(|(from, to)| (instant(from), instant(to)));
        let outcome = {
            let mut watch = Watch::new(seconds, *seed);
            sim::simulate_watched(plan, |moment| watch.see(moment))
        };
        let outcome = outcome.map_err(|error| BadInput(error.to_string()))?;
        if let Some((_, error)) = outcome.failures.first() {
            bail!(BadInput(error.clone()));
        }
        if outcome.decisions_left_out > 0 {
            let (shown, left_out) = (outcome.decisions.len(), outcome.decisions_left_out);
            eprintln!(
                "--decisions: seed {seed}: the first {shown}; {left_out} later ones are left out"
            );
        }
        // One seed's at a time: those of all might take more memory than there is.
        for (option, table) in &mut tables {
            table.append(&windows(*seed, &outcome)).context(*option)?;
        }
        if let Some(dir) = out {
            for file in drawings::files(*seed, &outcome) {
                write(&dir.join(&file.name), &file.text)?;
            }
        }
        runs.push(Run::new(*seed, seconds, &outcome));
    }
    for (option, table) in tables {
        table.finish("").context(option)?;
    }
    let kept = runs.iter().all(|run| run.violations.is_empty());
    if *json {
        println!("{}", serde_json::to_string(&runs)?);
    } else {
        runs.iter().for_each(print);
    }
    Ok(ExitCode::from(u8::from(!kept)))
}

impl Run {
    fn new(seed: u64, seconds: f64, outcome: &Outcome) -> Self {
        let decisions = outcome.decisions.iter().map(|decision| DecisionRow {
            at_s: seconds_of(decision.at.as_nanos()),
            stream: decision.stream.0,
            offset: decision.offset,
            due: decision.due,
            candidates: decision.candidates.iter().map(CandidateRow::from).collect(),
        });
        let streams = outcome.streams.iter().zip(&outcome.estimates).map(|(stream, estimates)| {
            let costs = estimates.iter().map(CostRow::from).collect();
            StreamRow { costs, ..StreamRow::new(stream, seconds) }
        });
        Self {
            seed,
            seconds,
            requests: outcome.requests,
            streams: streams.collect(),
            violations: outcome.violations.iter().map(|found| format!("{found:?}")).collect(),
            decisions: decisions.collect(),
        }
    }
}

impl StreamRow {
    fn new(stream: &Summary, seconds: f64) -> Self {
        let Summary { name, counters, queue, service, response } = stream;
        let quantile = |times: &sim::Times, part| times.quantile(part).as_secs_f64() * 1e6;
        let p99 = |times| quantile(times, 0.99);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let (requests, bytes) =
            (counters.completed as f64, (counters.bytes_read + counters.bytes_written) as f64);
        Self {
            name: name.clone(),
            utilization: counters.charged.as_secs_f64() / seconds,
            iops: requests / seconds,
            bytes_per_second: bytes / seconds,
            queue_us_mean: queue.mean_secs() * 1e6,
            queue_us_p99: p99(queue),
            service_us_mean: service.mean_secs() * 1e6,
            service_us_p99: p99(service),
            response_us_mean: response.mean_secs() * 1e6,
            response_us_p99: p99(response),
            response_us_p999: quantile(response, 0.999),
            cycles: counters.cycles,
            cycles_missed: counters.cycles_missed,
            costs: Vec::new(),
        }
    }
}

impl From<&sim::Candidate> for CandidateRow {
    fn from(candidate: &sim::Candidate) -> Self {
        let deadline = candidate.deadline_ns;
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let deadline_s = (deadline != i64::MAX).then(|| deadline as f64 / 1e9);
        Self {
            stream: candidate.stream.0,
            level_ns: candidate.level_ns,
            deadline_s,
            usage_per_weight: candidate.usage_per_weight,
            queued: candidate.queued,
        }
    }
}

fn print(run: &Run) {
    println!("seed {}: {} requests in {} s", run.seed, run.requests, run.seconds);
    let header =
        ["stream", "disk time", "IOPS", "MB/s", "queue mean µs", "p99", "service mean µs", "p99"];
    let mut table = table::new(&header, 1..8);
    for stream in &run.streams {
        table.add_row([
            stream.name.clone(),
            format!("{:.1} %", stream.utilization * 100.0),
            format!("{:.1}", stream.iops),
            format!("{:.2}", stream.bytes_per_second / 1e6),
            format!("{:.0}", stream.queue_us_mean),
            format!("{:.0}", stream.queue_us_p99),
            format!("{:.0}", stream.service_us_mean),
            format!("{:.0}", stream.service_us_p99),
        ]);
    }
    println!("{table}");
    let costs = run.streams.iter().map(|stream| (stream.name.as_str(), stream.costs.as_slice()));
    if let Some(table) = costs::table("stream", costs) {
        println!("{table}");
    }
    for StreamRow { name, cycles, cycles_missed, .. } in &run.streams {
        if *cycles > 0 {
            println!("{name}: {cycles_missed} of {cycles} cycles missed");
        }
    }
    for DecisionRow { at_s, stream, offset, due, candidates } in &run.decisions {
        let why = if *due { "due" } else { "slack" };
        let of = candidates.iter().map(|candidate| {
            let level_ms = candidate.level_ns / 1_000_000;
            format!("{} (level {level_ms} ms, {} queued)", candidate.stream, candidate.queued)
        });
        println!(
            "{at_s:.6} s: stream {stream} at {offset}, {why}, of {}",
            of.collect::<Vec<_>>().join(", ")
        );
    }
    run.violations.iter().for_each(|violation| println!("VIOLATED: {violation}"));
}

const CSV_HEADER: &str = "seed,start_s,stream,utilization,iops,bytes_per_second,queue_us_mean,\
                          service_us_mean,estimate_us_mean,truth_us_mean\n";

fn windows(seed: u64, outcome: &Outcome) -> String {
    let mut rows = String::new();
    let names: Vec<_> = outcome.streams.iter().map(|stream| csv_field(&stream.name)).collect();
    let length = outcome.window.as_secs_f64();
    for window in &outcome.windows {
        let name = &names[window.stream.0 as usize];
        let micros = |time: disktime_core::Duration| time.as_secs_f64() * 1e6;
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let (requests, bytes) = (window.requests as f64, window.bytes as f64);
        let line = writeln!(
            rows,
            "{seed},{:.3},{name},{:.6},{:.3},{:.1},{:.3},{:.3},{:.3},{:.3}",
            f64::from(window.index) * length,
            window.charged.as_secs_f64() / length,
            requests / length,
            bytes / length,
            micros(window.queue_mean),
            micros(window.service_mean),
            micros(window.estimate_mean),
            micros(window.truth_mean),
        );
        line.expect("a String takes everything");
    }
    rows
}

/// A value of a comma-separated line: in quotation marks if it needs them (RFC 4180).
fn csv_field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    output::write(path, text).with_context(|| path.display().to_string())
}

fn parse_span(text: &str) -> Result<(f64, f64), String> {
    let wrong = || "two times in seconds like `10..10.5`, the first below the second".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let parse = |text: &str| text.parse::<f64>().ok().filter(|time| (0.0..1e9).contains(time));
    let (from, to) = parse(from).zip(parse(to)).ok_or_else(wrong)?;
    if from < to { Ok((from, to)) } else { Err(wrong()) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be 0 to 10^9 seconds"
)]
fn instant(seconds: f64) -> disktime_core::Instant {
    disktime_core::Instant::from_nanos((seconds * 1e9) as u64)
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn seconds_of(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream named `a,b` shifted the columns of its rows.
    #[test]
    fn a_name_is_one_value_of_a_line() {
        assert_eq!(csv_field("plain name"), "plain name");
        assert_eq!(csv_field("a,b"), "\"a,b\"");
        assert_eq!(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
    }
}
