//! `disktime bench shards`: a device with one thread and with two, and a model of up to nine.

use std::process::ExitCode;
use std::time::Duration;

use disktime_bench::live::World;
use disktime_bench::nbd::{NbdError, Places, WORKS, Work};
use disktime_bench::shards::{CARRIERS_MAX, Pair, Row, Scale, scale};
use serde::Serialize;

use super::machine::Machine;
use crate::BadInput;
use crate::interrupt::Temporary;
use crate::table;

const EXAMPLES: &str = "\
Examples:
  disktime bench shards
  disktime bench shards --only 'random read' --rounds 9
  disktime bench shards --seconds 5 --json

Both daemons serve from memory. The model takes the processor times that were
measured with two threads, and gives each thread a core of its own. Exits with
3 if others had more than 5 % of the processor, or the host took more than 2 %.";

/// How a bench that found the machine too busy exits.
const NOT_JUDGED: u8 = 3;
/// Time that connections and warming up take for each figure.
const BETWEEN: Duration = Duration::from_millis(500);

/// A device with one thread and with two, in turns; and by a model with up to nine.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Seconds for each figure
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::seconds)]
    seconds: f64,
    /// Times that each figure is measured, in turns
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measure only loads with this in their names; may be given several times
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    rows: Vec<Row>,
    scales: Vec<Scale>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let wanted = |work: &&Work| {
        let only = &arguments.only;
        only.is_empty() || only.iter().any(|text| work.name.contains(text.as_str()))
    };
    let works: Vec<&Work> = WORKS.iter().filter(wanted).collect();
    if works.is_empty() {
        let only = arguments.only.join(", ");
        let known = known();
        anyhow::bail!(BadInput(format!("--only {only}: no load has that in its name; {known}")));
    }
    let machine = Machine::new();
    let rows = measure(arguments, &works, &machine)?;
    drop(machine);
    let scales: Vec<Scale> = works.iter().map(|work| scale(work, &rows)).collect();
    let judged = rows.iter().all(|row| row.judged);
    if arguments.json {
        println!("{}", serde_json::to_string(&Document { rows, scales })?);
    } else {
        println!("{}", list(&scales));
    }
    if judged {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("not judged: others were at work in some rounds; run it when less else runs");
    Ok(ExitCode::from(NOT_JUDGED))
}

fn known() -> String {
    let names: Vec<&str> = WORKS.iter().map(|work| work.name).collect();
    format!("there are: {}", names.join("; "))
}

fn measure(arguments: &Arguments, works: &[&Work], machine: &Machine) -> anyhow::Result<Vec<Row>> {
    let directory = Temporary::new("disktime-bench-")?;
    let path = directory.path();
    let places = Places {
        ours: std::env::current_exe()?,
        file: path.join("file"),
        cached: path.join("cached"),
        in_memory: None,
        papers: None,
    };
    let length = Duration::from_secs_f64(arguments.seconds);
    let count = 2 * arguments.rounds * u32::try_from(works.len()).unwrap_or(u32::MAX);
    machine.say("starting two daemons");
    let pair = Pair::start(path, &places, machine)?;
    machine.takes((length + BETWEEN) * count);
    let mut rows = Vec::new();
    for round in 1..=arguments.rounds {
        for work in works {
            machine.wait(Duration::ZERO).map_err(NbdError::from)?;
            machine.say(&format!("round {round}: {}", work.name));
            rows.extend(pair.round(work, round, length, machine)?);
        }
    }
    Ok(rows)
}

/// A line for each load. The model's figures are relative to a core that serves alone.
fn list(scales: &[Scale]) -> table::Table {
    let mut header: Vec<String> = ["workload", "µs alone", "decides", "carries", "measured 2 : 1"]
        .map(str::to_owned)
        .to_vec();
    header.extend((1..=CARRIERS_MAX).map(|carriers| format!("model {}", carriers + 1)));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table::new(&header, 1..header.len());
    for scale in scales {
        let mut row = vec![
            scale.workload.to_owned(),
            format!("{:.2}", scale.alone_us),
            format!("{:.2}", scale.decides_us),
            format!("{:.2}", scale.carries_us),
            format!("{:.2}", scale.measured_ratio),
        ];
        let model = |at| scale.model_iops.get(at).map(|it| format!("{:.2}", it / scale.alone_iops));
        row.extend((0..CARRIERS_MAX).map(|at| model(at).unwrap_or_else(|| "-".to_owned())));
        table.add_row(row);
    }
    table
}
