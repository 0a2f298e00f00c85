//! `disktime serve`: the daemon in the foreground.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use disktime_server::{Config, Server, VdiskView};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::BadInput;
use crate::costs::{self, CostRow};

const EXAMPLES: &str = "\
Examples:
  disktime serve --config disktime.toml
  kill -HUP PID      read the configuration again and change contracts live
  kill -USR1 PID     show on stderr what pieces are learned to cost (one document with --json)
  kill -TERM PID     finish the requests taken, then end

A configuration:
  [server]
  nbd = [\"unix:/tmp/disktime.sock\"]
  misses = \"unix:/tmp/misses.sock\"    # where programs report missed deadlines
  state = \"/var/lib/disktime\"         # where layouts of block devices and exports are recorded

  [[device]]
  name = \"disk\"
  back_end = \"file:/srv/disktime\"     # a directory or image (`disktime device init` makes it; also:
                                      #   create), a block device; or one of
                                      #   \"memory\"
                                      #   \"raid0:/dev/sdx,/dev/sdy\"   (also: chunk)
                                      #   \"tiered:/dev/nvme0n1,/dev/sdx\"   (fast, slow; also: promotion,
                                      #    empty_fast)
                                      #   \"nbd://HOST:PORT/EXPORT\"   (also: connections)
                                      #   \"nbd+unix:///EXPORT?socket=PATH\"
  emulate = \"deskstar-34gxp\"          # leave out for the device's own speed
  feedback = \"adaptive\"              # misses shape best effort; also: feedback_token, feedback_min,
                                      #   and feedback_rate of \"fixed\"
  profile = \"disk.json\"               # from `disktime device profile`; promises and goals need one

  [[vdisk]]
  name = \"db\"
  device = \"disk\"
  size = \"8GiB\"
  reserve = \"70%\"                     # also: limit, weight, zone, record; in its place a goal:
                                      #   iops or bandwidth, request, run (see `disktime plan`)

  [[vdisk]]
  name = \"camera\"
  device = \"disk\"
  size = \"8GiB\"
  class = \"guaranteed-rate\"           # or guaranteed-latency, soft-real-time, best-effort,
                                      # background
  rate = \"2MB/s\"                      # also: cycle, admission, access; of a latency: latency";

/// What is logged unless `DISKTIME_LOG` says otherwise: warnings, and what was done on a signal.
pub const LOG: &str = "warn,disktime::serve=info";

/// Serves the virtual disks of a configuration over NBD until SIGTERM.
///
/// Prints each virtual disk's URI once clients can connect.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The configuration, in TOML
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print the URIs as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Vdisk<'a> {
    name: &'a str,
    device: &'a str,
    uris: &'a [String],
}

#[derive(Serialize)]
struct Costs<'a> {
    name: &'a str,
    device: &'a str,
    costs: Vec<CostRow>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = read(arguments)?;
    // Before any thread starts: a signal must not end the process half-way.
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1]).context("signals can't be handled")?;
    let mut server = Server::start(config)?;
    announce(&server, arguments.json)?;
    for signal in &mut signals {
        if signal == SIGUSR1 {
            show_costs(&server, arguments.json)?;
            continue;
        }
        if signal != SIGHUP {
            break;
        }
        match read(arguments).and_then(|config| Ok(server.reload(config)?)) {
            Ok(()) => eprintln!("disktime: contracts changed"),
            Err(error) => eprintln!("disktime: nothing changed: {error:#}"),
        }
    }
    eprintln!("disktime: finishing the requests taken");
    server.shutdown()?;
    Ok(ExitCode::SUCCESS)
}

fn read(arguments: &Arguments) -> anyhow::Result<Config> {
    let config = Config::read(&arguments.config);
    config.map_err(|error| BadInput(format!("{}: {error}", arguments.config.display())).into())
}

fn announce(server: &Server, json: bool) -> anyhow::Result<()> {
    let disks = server.vdisks();
    if json {
        let disks = disks.iter().map(|disk| Vdisk {
            name: &disk.name,
            device: &disk.device,
            uris: &disk.uris,
        });
        tell(&(serde_json::to_string(&disks.collect::<Vec<_>>())? + "\n"));
        return Ok(());
    }
    let width = disks.iter().map(|disk| disk.name.len()).max().unwrap_or(0);
    let line = |disk: &VdiskView| format!("{:width$}  {}\n", disk.name, disk.uris.join("  "));
    tell(&disks.iter().map(line).collect::<String>());
    Ok(())
}

/// What each virtual disk's pieces cost, as far as that is learned: on stderr, since stdout has had its
/// document.
fn show_costs(server: &Server, json: bool) -> anyhow::Result<()> {
    let disks = server.vdisks().iter().zip(server.estimates());
    let costs = disks.map(|(VdiskView { name, device, .. }, estimates)| Costs {
        name,
        device,
        costs: estimates.iter().map(CostRow::from).collect(),
    });
    let costs: Vec<_> = costs.collect();
    if json {
        eprintln!("{}", serde_json::to_string(&costs)?);
        return Ok(());
    }
    let rows = costs.iter().map(|disk| (disk.name, disk.costs.as_slice()));
    let none = "disktime: no costs are known: no device learns them, or nothing was sent";
    let table = costs::table("virtual disk", rows);
    eprintln!("{}", table.map_or_else(|| none.to_owned(), |table| table.to_string()));
    Ok(())
}

/// Prints to whoever reads; nobody need be there.
fn tell(text: &str) {
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        tracing::debug!(%error, "nobody reads the URIs");
    }
}
