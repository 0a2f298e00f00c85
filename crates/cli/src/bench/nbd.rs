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
  disktime bench nbd --tls --rounds 5
  disktime bench nbd --seconds 10 --json

Peers are measured where nbdkit and qemu-nbd are installed, TLS where openssl is.";

/// Cost of a request for the server, ours and each peer found.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Seconds for each figure
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = super::seconds)]
    seconds: f64,
    /// Measure only reads under TLS
    #[arg(long)]
    tls: bool,
    /// Times that each figure is measured, server after server
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let machine = Machine::new();
    let ours = std::env::current_exe()?;
    let length = Duration::from_secs_f64(arguments.seconds);
    let papers = Temporary::new("disktime-bench-")?;
    let has_papers = nbd::certificates(papers.path())?;
    if !has_papers {
        eprintln!("openssl is not installed: TLS is not measured");
    }
    let mut rows: Vec<Row> = Vec::new();
    for server in (0..arguments.rounds).flat_map(|_| nbd::SERVERS) {
        let start = |papers| -> anyhow::Result<Option<(Temporary, Peer)>> {
            let directory = Temporary::new("disktime-bench-")?;
            let peer = Peer::start(server, directory.path(), &ours, papers)?;
            Ok(peer.map(|peer| (directory, peer)))
        };
        if !arguments.tls {
            let Some((_directory, peer)) = start(None)? else {
                eprintln!("{server} is not installed: not measured");
                continue;
            };
            for workload in &nbd::WORKLOADS {
                eprintln!("measuring {server}: {}", workload.name);
                rows.push(peer.measure(workload, length, &machine)?);
            }
        }
        if has_papers {
            let Some((_directory, peer)) = start(Some(papers.path()))? else { continue };
            eprintln!("measuring {server}: {}", nbd::SECURE);
            rows.push(peer.measure_secure(papers.path(), length, &machine)?);
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
