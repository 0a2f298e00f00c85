//! `disktime bench nbd`: what a request costs the server, ours and each peer found, in one run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use disktime_bench::live::{World, scratch_file};
use disktime_bench::nbd::{
    self, Generator, Peer, Places, Row, SECURE_SERVERS, SERVERS, SIZE, Settings, Store,
};

use super::machine::Machine;
use crate::BadInput;
use crate::interrupt::Temporary;
use crate::table;

const EXAMPLES: &str = "\
Examples:
  disktime bench nbd
  disktime bench nbd --only 'memory/' --rounds 5
  disktime bench nbd --only 'file/fio/random read 4 KiB x 32' --seconds 10
  disktime bench nbd --tls --rounds 5 --json

A load's full name is STORE/GENERATOR/WORK: file, memory or cached / disktime or
fio / as in the table. Peers are measured where nbdkit, qemu-nbd
and qemu-storage-daemon are installed, loads by fio where fio is, TLS where
openssl is. A server is left out with a line that says so. Exits with 3 if
others had more than 5 % of the processor, or the host took more than 2 %, in
each of three attempts.";

/// Where memory has a file system.
const IN_MEMORY: &str = "/dev/shm";
/// Time that connections and warming up take for each figure.
const BETWEEN: Duration = Duration::from_millis(500);
/// How a bench that found the machine too busy exits.
const NOT_JUDGED: u8 = 3;

/// Cost of a request for the server, ours and each peer found.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Seconds for each figure
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = super::seconds)]
    seconds: f64,
    /// Measure only reads under TLS
    #[arg(long)]
    tls: bool,
    /// Times that each figure is measured, server after server
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measure only loads with this in their full names; may be given several times
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Directory for two files of 1 GiB [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let machine = Machine::new();
    let rows =
        if arguments.tls { secure(arguments, &machine)? } else { plain(arguments, &machine)? };
    drop(machine);
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
    } else if arguments.tls {
        println!("{}", list(&rows));
    } else {
        println!("{}", nbd::markdown(&rows));
    }
    if arguments.tls || rows.iter().all(|row| row.judged) {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("not judged: others were at work in some rounds; run it when less else runs");
    Ok(ExitCode::from(NOT_JUDGED))
}

/// Every load in the clear.
fn plain(arguments: &Arguments, machine: &Machine) -> anyhow::Result<Vec<Row>> {
    let mut generators = vec![Generator::Disktime, Generator::Fio];
    if !nbd::has_fio() {
        machine.note("fio is not installed: its loads are not measured");
        generators.pop();
    }
    let settings = Settings {
        length: Duration::from_secs_f64(arguments.seconds),
        rounds: arguments.rounds,
        generators,
        only: arguments.only.clone(),
    };
    if !Store::ALL.iter().any(|store| settings.needs(*store)) {
        anyhow::bail!(BadInput(format!(
            "--only {}: no load has that in its full name; --help shows full names",
            arguments.only.join(", ")
        )));
    }
    let within = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let directory = Temporary::within(&within, "disktime-bench-")
        .map_err(|error| BadInput(format!("--dir {}: {error}", within.display())))?;
    let mut places = places(directory.path())?;
    if settings.needs(Store::File) || settings.needs(Store::Cached) {
        machine.say(&format!("writing two files of {} MiB", SIZE >> 20));
        scratch_file::create(&places.file, SIZE, machine)?;
        scratch_file::create(&places.cached, SIZE, machine)?;
    }
    let in_memory =
        settings.needs(Store::Memory).then(|| in_memory(machine)).transpose()?.flatten();
    places.in_memory = in_memory.as_ref().map(|it| it.path().join("image"));
    let mut peers = Vec::new();
    let servers = SERVERS.iter().filter(|server| settings.needs(server.store));
    for (number, server) in servers.enumerate() {
        let at = directory.path().join(format!("server-{number}"));
        std::fs::create_dir(&at)?;
        machine.say(&format!("starting {}", server.name));
        match Peer::start(server, &at, &places, machine)? {
            Some(peer) => peers.push(peer),
            None => machine.note(&format!("{} is not installed: not measured", server.name)),
        }
    }
    machine.takes((settings.length + BETWEEN) * settings.measurements(&peers));
    Ok(nbd::run(&settings, &peers, machine, &|what| machine.say(what))?)
}

/// Reads under TLS.
fn secure(arguments: &Arguments, machine: &Machine) -> anyhow::Result<Vec<Row>> {
    let directory = Temporary::new("disktime-bench-")?;
    let papers = directory.path().join("papers");
    std::fs::create_dir(&papers)?;
    if !nbd::certificates(&papers)? {
        anyhow::bail!("--tls: openssl, which makes the certificates, is not installed");
    }
    let in_memory = in_memory(machine)?;
    let places = Places {
        papers: Some(papers.clone()),
        in_memory: in_memory.as_ref().map(|it| it.path().join("image")),
        ..places(directory.path())?
    };
    let length = Duration::from_secs_f64(arguments.seconds);
    let is_asked = |server: &&nbd::Server| {
        server.store == Store::Memory && SECURE_SERVERS.contains(&server.name)
    };
    let servers = SERVERS.iter().filter(is_asked).count();
    machine.takes((length + BETWEEN) * arguments.rounds * u32::try_from(servers).unwrap_or(1));
    let mut rows = Vec::new();
    for round in 1..=arguments.rounds {
        for server in SERVERS.iter().filter(is_asked) {
            machine.wait(Duration::ZERO).map_err(nbd::NbdError::from)?;
            let at = Temporary::within(directory.path(), "server-")?;
            let Some(peer) = Peer::start(server, at.path(), &places, machine)? else {
                machine.note(&format!("{} is not installed: not measured", server.name));
                continue;
            };
            machine.say(&format!("round {round}: {}: {}", nbd::SECURE, server.name));
            let figures = peer.measure_secure(&papers, length, machine)?;
            rows.push(Row {
                server: server.name,
                store: server.store,
                workload: nbd::SECURE,
                generator: Generator::Disktime,
                round,
                judged: figures.is_quiet(),
                figures,
            });
        }
    }
    Ok(rows)
}

fn places(directory: &Path) -> std::io::Result<Places> {
    Ok(Places {
        ours: std::env::current_exe()?,
        file: directory.join("direct"),
        cached: directory.join("cached"),
        in_memory: None,
        papers: None,
    })
}

/// A full file in memory, if there is a place for it.
fn in_memory(machine: &Machine) -> anyhow::Result<Option<Temporary>> {
    let Ok(directory) = Temporary::within(Path::new(IN_MEMORY), "disktime-bench-") else {
        machine.note(&format!("{IN_MEMORY} takes no files: qemu-nbd is not measured there"));
        return Ok(None);
    };
    scratch_file::create(&directory.path().join("image"), SIZE, machine)?;
    Ok(Some(directory))
}

/// A line for each row.
fn list(rows: &[Row]) -> table::Table {
    let header =
        ["server", "workload", "IOPS", "mean µs", "p99 µs", "server CPU µs/request", "others' CPU"];
    let mut table = table::new(&header, 2..7);
    for row in rows {
        let figures = &row.figures;
        table.add_row([
            row.server.to_owned(),
            row.workload.to_owned(),
            format!("{:.0}", figures.iops),
            format!("{:.0}", figures.mean_us),
            format!("{:.0}", figures.p99_us),
            format!("{:.2}", figures.server_cpu_us_per_request),
            format!("{:.0} %", figures.foreign_cpu * 100.0),
        ]);
    }
    table
}
