//! `disktime bench nbd`: what a request costs the server, ours and each peer found, in one run.
//!
//! Every server is a process of its own with 1 GiB in memory behind a Unix socket, loaded through
//! the same client from this process. CPU time is the system's own account of the server's process.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;
use disktime_client::{Load, LoadSpec, Options, Uri};
use disktime_workload::{Extent, Pace, Pattern, Spec};
use serde::Serialize;

use super::process::{Process, machine_busy, process_cpu};
use crate::interrupt::{self, Interrupted, Temporary};
use crate::table;

const EXAMPLES: &str = "\
Examples:
  disktime bench nbd
  disktime bench nbd --seconds 10 --json

Peers are measured where nbdkit and qemu-nbd are installed.";

/// Size of every export in bytes.
const SIZE: u64 = 1 << 30;
/// What passes before a measurement counts.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long a signal may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);

/// What a request costs the server, ours and each peer found.
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

#[derive(Serialize)]
struct Row {
    server: &'static str,
    workload: &'static str,
    iops: f64,
    bytes_per_second: f64,
    mean_us: f64,
    p99_us: f64,
    server_cpu_us_per_request: f64,
    /// Part of the machine's CPU time that neither the server nor this process used.
    foreign_cpu: f64,
}

struct Workload {
    name: &'static str,
    bytes: u64,
    outstanding: u32,
    reads_permille: u16,
    pattern: Pattern,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "random read 4 KiB x 32",
        bytes: 4096,
        outstanding: 32,
        reads_permille: 1000,
        pattern: Pattern::Random,
    },
    Workload {
        name: "random write 4 KiB x 32",
        bytes: 4096,
        outstanding: 32,
        reads_permille: 0,
        pattern: Pattern::Random,
    },
    Workload {
        name: "sequential read 128 KiB x 8",
        bytes: 131_072,
        outstanding: 8,
        reads_permille: 1000,
        pattern: Pattern::Sequential,
    },
];

const SERVERS: [&str; 3] = ["disktime", "nbdkit", "qemu-nbd"];

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // Servers' processes are to be ended.
    interrupt::polled();
    let mut rows = Vec::new();
    for server in SERVERS {
        let Some(peer) = Peer::start(server)? else {
            eprintln!("{server} is not installed: not measured");
            continue;
        };
        for workload in &WORKLOADS {
            eprintln!("measuring {server}: {}", workload.name);
            rows.push(peer.measure(workload, Duration::from_secs_f64(arguments.seconds))?);
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

/// A server process.
struct Peer {
    name: &'static str,
    process: Process,
    uri: Uri,
    _directory: Temporary,
}

impl Peer {
    /// `None` if the program is not installed.
    fn start(name: &'static str) -> anyhow::Result<Option<Self>> {
        let directory = Temporary::new("disktime-bench-")?;
        let socket = directory.path().join("nbd.sock");
        let mut command = command(name, directory.path(), &socket)?;
        let Some(process) = Process::start(&mut command, &socket)? else { return Ok(None) };
        let uri = format!("nbd+unix:///disk?socket={}", socket.display()).parse()?;
        Ok(Some(Self { name, process, uri, _directory: directory }))
    }

    fn measure(&self, workload: &Workload, length: Duration) -> anyhow::Result<Row> {
        let Workload { bytes, outstanding, reads_permille, pattern, .. } = *workload;
        let extent = Extent { start: 0, end: SIZE };
        let spec = LoadSpec {
            name: workload.name.replace(' ', "-"),
            workload: Spec { reads_permille, ..Spec::reads(pattern, extent, bytes) },
            pace: Pace::Closed { outstanding, think: disktime_core::Duration::ZERO },
            seed: 1,
            options: Options::default(),
        };
        let load = Load::start(&self.uri, spec)?;
        wait(WARM_UP)?;
        let (before, begin) = (load.counters(), now());
        let (server, all, own) = (self.cpu()?, machine_busy()?, process_cpu("self")?);
        wait(length)?;
        let (after, seconds) = (load.counters(), (now() - begin).as_secs_f64());
        let (server, all, own) =
            (self.cpu()? - server, machine_busy()? - all, process_cpu("self")? - own);
        let report = load.stop();
        if let Some(error) = report.lost {
            return Err(error).context(self.name);
        }
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let requests = (after.completed - before.completed) as f64;
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let size = bytes as f64;
        Ok(Row {
            server: self.name,
            workload: workload.name,
            iops: requests / seconds,
            bytes_per_second: requests * size / seconds,
            mean_us: report.latency.mean_us,
            p99_us: report.latency.p99_us,
            server_cpu_us_per_request: server * 1e6 / requests.max(1.0),
            foreign_cpu: ((all - server - own) / (seconds * cores)).max(0.0),
        })
    }

    fn cpu(&self) -> anyhow::Result<f64> {
        process_cpu(&self.process.id().to_string())
    }
}

fn command(name: &str, directory: &Path, socket: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(name);
    match name {
        "nbdkit" => command.args(["--foreground", "--unix"]).arg(socket).args(["memory", "1G"]),
        "qemu-nbd" => {
            let image = "driver=null-co,read-zeroes=on,size=1073741824";
            command
                .args(["--persistent", "--export-name=disk", "--shared=0", "--socket"])
                .arg(socket);
            command.args(["--image-opts", image])
        }
        _ => {
            let config = directory.join("disktime.toml");
            let text = format!(
                "[server]\nnbd = [\"unix:{}\"]\n[[device]]\nname = \"ram\"\nback_end = \"memory\"\n\
                 [[vdisk]]\nname = \"disk\"\ndevice = \"ram\"\nsize = \"1GiB\"\nreserve = \"50%\"\n",
                socket.display()
            );
            std::fs::write(&config, text)?;
            command = Command::new(std::env::current_exe()?);
            command.args(["serve", "--config"]).arg(config)
        }
    };
    Ok(command)
}

/// Waits, unless a signal says to stop.
fn wait(span: Duration) -> Result<(), Interrupted> {
    let until = now() + span;
    while now() < until {
        interrupt::check()?;
        sleep(until.saturating_duration_since(now()).min(NOTICE));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a bench measures in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a bench waits while others work")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
