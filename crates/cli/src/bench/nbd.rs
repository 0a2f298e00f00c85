//! `disktime bench nbd`: what a request costs the server, ours and each peer found, in one run.

use std::process::ExitCode;
use std::time::Duration;

use disktime_bench::nbd::{self, Peer, Row};

use super::machine::Machine;
use crate::interrupt::Temporary;
use crate::table;

const EXAMPLES: &str = "\
Examples:
  disktime bench nbd
  disktime bench nbd --seconds 10 --json

Peers are measured where nbdkit and qemu-nbd are installed.";

/// Cost of a request for the server, ours and each peer found.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Seconds for each figure
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = super::seconds)]
    seconds: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let machine = Machine::new();
    let ours = std::env::current_exe()?;
    let length = Duration::from_secs_f64(arguments.seconds);
    let mut rows: Vec<Row> = Vec::new();
    for server in nbd::SERVERS {
        let directory = Temporary::new("disktime-bench-")?;
        let Some(peer) = Peer::start(server, directory.path(), &ours)? else {
            eprintln!("{server} is not installed: not measured");
            continue;
        };
        for workload in &nbd::WORKLOADS {
            eprintln!("measuring {server}: {}", workload.name);
            rows.push(peer.measure(workload, length, &machine)?);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
        return Ok(ExitCode::SUCCESS);
    }
    let header = [
        "server",
        "workload",
        "IOPS",
        "MB/s",
        "mean us",
        "p99 us",
        "server CPU us/request",
        "others' CPU",
    ];
    let mut table = table::new(&header, 2..8);
    for row in rows {
        table.add_row([
            row.server.to_owned(),
            row.workload.to_owned(),
            format!("{:.0}", row.iops),
            format!("{:.0}", row.bytes_per_second / 1e6),
            format!("{:.0}", row.mean_us),
            format!("{:.0}", row.p99_us),
            format!("{:.2}", row.server_cpu_us_per_request),
            format!("{:.0} %", row.foreign_cpu * 100.0),
        ]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
