//! `disktime miss`: one report of a missed deadline, for scripts and to try it.

use std::path::PathBuf;
use std::process::ExitCode;

use disktime_client::{MissError, MissReports};

use crate::BadInput;

const EXAMPLES: &str = "\
Examples:
  # the daemon has `misses` set to this path
  disktime miss video
  disktime miss video --socket /tmp/misses.sock

Says what a player says of itself when data were not there in time: one datagram
with the virtual disk's name. It counts only for a virtual disk of class
soft-real-time on a device with a `feedback` controller, at most once a second,
and only while the disk's requests keep it waiting. The daemon answers nothing;
a name that it does not know it drops, with a warning in its log. Exits with 1
if nobody listens, 2 if it can't be a name.";

/// Report a missed deadline of a virtual disk.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The virtual disk whose client was not served in time
    #[arg(value_name = "VDISK")]
    vdisk: String,
    /// The socket that `misses` in the daemon's configuration names
    #[arg(long, value_name = "PATH", default_value = "/run/disktime/misses.sock")]
    socket: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let sent = MissReports::new(&arguments.socket, &arguments.vdisk).and_then(|it| it.send());
    sent.map_err(|error| match error {
        MissError::Name { .. } => BadInput(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    if arguments.json {
        println!("{}", serde_json::json!({ "reported": arguments.vdisk }));
    }
    Ok(ExitCode::SUCCESS)
}
