//! `disktime device`: what a device does, found out from outside.

mod drawing;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use disktime_client::workload::profiler::{Found, Progress};
use disktime_client::workload::quantity;
use disktime_client::{Duration, ProfileTarget, Uri};

use crate::{BadInput, table};

const EXAMPLES: &str = "\
Examples:
  disktime device profile /dev/sdb --out sdb.json --svg sdb.svg
  disktime device profile 'nbd+unix:///db?socket=/tmp/disktime.sock' --budget 20s
  disktime device profile /dev/sdb --destructive      # measures writes: ALL DATA ON IT IS LOST

Nothing else should use the device meanwhile. A block device can only be read by who may: its group
is usually `disk`. Exits with 2 if the device or an option can't be used.";

/// A device's figures.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find out rotation, zones and seeks of a disk, with requests of our own
    #[command(after_help = EXAMPLES)]
    Profile(Profile),
}

#[derive(clap::Args)]
struct Profile {
    /// A block device, a file, or an NBD URI
    #[arg(value_name = "PATH|URI")]
    device: String,
    /// Write the profile here, in JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw rates and seeks here
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the profile as one JSON document
    #[arg(long)]
    json: bool,
    /// When to stop; less time is coarser
    #[arg(long, value_name = "TIME", default_value = "150s", value_parser = quantity::parse_duration)]
    budget: Duration,
    /// Measure writes as well, all over the device: what is on it is lost
    #[arg(long)]
    destructive: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Command::Profile(arguments) = &arguments.command;
    let target = open(arguments).map_err(said)?;
    // Not after minutes: what can't be written is known at once. An old profile stays until then.
    for path in arguments.out.iter().chain(&arguments.svg) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.with_context(|| path.display().to_string())?;
    }
    let mut line = Line::new(arguments.json, arguments.budget);
    let found =
        target.profile(&arguments.device, arguments.budget, |progress| line.watch(progress));
    line.end();
    let found = found.map_err(said)?;
    let text = serde_json::to_string_pretty(&found)? + "\n";
    if let Some(path) = &arguments.out {
        write(path, &text)?;
    }
    if let Some(path) = &arguments.svg {
        write(path, &drawing::svg(&found))?;
    }
    if arguments.json {
        print!("{text}");
    } else {
        print(&found);
    }
    Ok(ExitCode::SUCCESS)
}

fn open(arguments: &Profile) -> Result<ProfileTarget, Failure> {
    let Profile { device, destructive, .. } = arguments;
    if !device.starts_with("nbd") || !device.contains("://") {
        return Ok(ProfileTarget::file(Path::new(device), *destructive)?);
    }
    let uri: Uri = device.parse().map_err(|error| Failure::Uri(format!("{device}: {error}")))?;
    Ok(ProfileTarget::export(&uri, *destructive)?)
}

/// Why there is no profile.
enum Failure {
    Uri(String),
    Profile(disktime_client::ProfileError),
}

impl From<disktime_client::ProfileError> for Failure {
    fn from(error: disktime_client::ProfileError) -> Self {
        Self::Profile(error)
    }
}

fn said(failure: impl Into<Failure>) -> anyhow::Error {
    match failure.into() {
        Failure::Uri(text) => BadInput(text).into(),
        Failure::Profile(error) if error.is_input() => BadInput(error.to_string()).into(),
        Failure::Profile(error) => error.into(),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
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
    let header = ["from GB", "to GB", "read MB/s", "us/request", "write MB/s", "us/request"];
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
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// How far a profile is: one line on stderr, rewritten, if a person watches.
struct Line {
    terminal: bool,
    budget: Duration,
    drawn: Option<u64>,
}

impl Line {
    fn new(json: bool, budget: Duration) -> Self {
        let terminal = !json && std::io::stderr().is_terminal();
        if !json && !terminal {
            eprintln!("profiling for at most {} s", budget.as_secs_f64());
        }
        Self { terminal, budget, drawn: None }
    }

    fn watch(&mut self, progress: Progress) {
        let line = line(progress, self.budget);
        // A line for each percent.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        let percent = (progress.part * 100.0) as u64;
        if self.terminal && self.drawn.replace(percent) != Some(percent) {
            tell(&format!("\r\x1b[K{line}"));
        }
    }

    /// Wipes the line.
    fn end(&self) {
        if self.drawn.is_some() {
            tell("\r\x1b[K");
        }
    }
}

/// Below 80 columns.
fn line(progress: Progress, budget: Duration) -> String {
    let Progress { phase, part, requests } = progress;
    format!(
        "profiling: {:.0} %, {phase}, {requests} requests, at most {} s",
        part * 100.0,
        budget.as_secs_f64()
    )
}

fn tell(text: &str) {
    let mut stderr = std::io::stderr();
    // Who can't be told is not worth failing for.
    let _told = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_done_and_how_far_it_is() {
        let progress = Progress { phase: "seeks", part: 0.705, requests: 12_345 };
        let said = line(progress, Duration::from_secs(150));
        assert_eq!(said, "profiling: 70 %, seeks, 12345 requests, at most 150 s");
    }
}
