//! `disktime bench sched`: how fast the engine decides.

use std::process::ExitCode;

use anyhow::anyhow;
use disktime_bench::sched::{self, CostFigure, SchedFigure, sched};
use serde::Serialize;

use crate::progress::Progress;
use crate::table;

const EXAMPLES: &str = "\
Examples:
  disktime bench sched
  disktime bench sched --vdisks 10,1000 --seconds 2 --json
  disktime bench sched --costs";

/// Decisions (arrival, dispatch, completion) per second of CPU time, for every policy; or what
/// learning costs takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Numbers of virtual disks to try
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [10, 100, 1_000, 10_000],
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    vdisks: Vec<u32>,
    /// CPU seconds for each figure
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::seconds)]
    seconds: f64,
    /// Measure cost models `fixed` and `learned` instead: policy `disktime`, 32 pieces at the device
    #[arg(long)]
    costs: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CostRow {
    cost_model: &'static str,
    vdisks: u32,
    ns_per_decision: f64,
    ns_per_window: f64,
}

#[derive(Serialize)]
struct SchedRow {
    policy: &'static str,
    vdisks: u32,
    decisions_per_second: f64,
    ns_per_decision: f64,
    ns_per_wake: f64,
}

impl From<SchedFigure> for SchedRow {
    fn from(figure: SchedFigure) -> Self {
        let SchedFigure { policy, vdisks, ns_per_decision, ns_per_wake } = figure;
        let decisions_per_second = 1e9 / ns_per_decision;
        Self { policy, vdisks, decisions_per_second, ns_per_decision, ns_per_wake }
    }
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { vdisks, seconds, costs, json } = arguments;
    if *costs {
        return run_costs(vdisks, *seconds, *json);
    }
    let shown = Progress::new((disktime_rivals::all().count() * vdisks.len()) as u64);
    let figures = sched(vdisks, *seconds, told(&shown)).map_err(|error| anyhow!("{error}"))?;
    drop(shown);
    let rows: Vec<SchedRow> = figures.into_iter().map(SchedRow::from).collect();
    if *json {
        println!("{}", serde_json::to_string(&rows)?);
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["policy", "virtual disks", "decisions/s (CPU)", "ns/decision", "ns/wake"];
    let mut table = table::new(&header, 1..5);
    for row in rows {
        let millions = format!("{:.2} million", row.decisions_per_second / 1e6);
        let (decision, wake) =
            (format!("{:.0}", row.ns_per_decision), format!("{:.0}", row.ns_per_wake));
        table.add_row([row.policy.to_owned(), row.vdisks.to_string(), millions, decision, wake]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

/// Shows each figure that is begun.
fn told(shown: &Progress) -> impl FnMut(&str, u32) {
    let mut done = 0;
    move |what, vdisks| {
        shown.at(done, &format!("{what} with {vdisks} virtual disks"));
        done += 1;
    }
}

fn run_costs(vdisks: &[u32], seconds: f64, json: bool) -> anyhow::Result<ExitCode> {
    let shown = Progress::new(2 * vdisks.len() as u64);
    let figures =
        sched::costs(vdisks, seconds, told(&shown)).map_err(|error| anyhow!("{error}"))?;
    drop(shown);
    let rows = figures.into_iter().map(|figure| {
        let CostFigure { cost_model, vdisks, ns_per_decision, ns_per_window } = figure;
        CostRow { cost_model, vdisks, ns_per_decision, ns_per_window }
    });
    let rows: Vec<CostRow> = rows.collect();
    if json {
        println!("{}", serde_json::to_string(&rows)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table::new(&["costs", "virtual disks", "ns/decision", "ns/window"], 1..4);
    for CostRow { cost_model, vdisks, ns_per_decision, ns_per_window } in rows {
        let (decision, window) = (format!("{ns_per_decision:.0}"), format!("{ns_per_window:.0}"));
        table.add_row([cost_model.to_owned(), vdisks.to_string(), decision, window]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
