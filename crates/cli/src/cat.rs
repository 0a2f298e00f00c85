//! `disktime cat`: files to standard output, at a priority or under a contract of their own.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use disktime_config::{contract_text, read_contract};
use disktime_core::Contract;
use disktime_fuse::{abi, client};
use serde::Serialize;

use crate::BadInput;

const EXAMPLES: &str = "\
Examples:
  disktime cat --priority /mnt/media/film.mkv > copy
  disktime cat --priority=background /mnt/media/*.mkv | sha256sum
  disktime cat --contract 'reserve=50%' /mnt/media/film.mkv > /dev/null

Files with a priority or a contract lie on a mount of `disktime mount`. A
priority is `high` (99 parts of 100 beside others that have no promise), `usual`
or `background` (when nobody else wants the device). With --json the document is
on standard error, a failure's too, since the files are on standard output:
[{\"file\": \"…\", \"bytes\": 1}]. Exits with 1 if a file can't be read or the device
has not the time, 2 if a file can't be opened, or if a priority or a contract is
asked for one that is on no such mount, or by a user who may not.";

/// Bytes of a read.
const CHUNK: usize = 1 << 20;

/// Copy files to standard output with a priority or a contract.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Files on a mount of `disktime mount`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// A priority: `high` if none is named
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, require_equals = true, default_missing_value = "high")]
    priority: Option<Priority>,
    /// A contract, like `class=guaranteed-rate rate=8MB/s`
    #[arg(long, value_name = "CONTRACT", conflicts_with = "priority", value_parser = contract)]
    contract: Option<Contract>,
    /// Print one JSON document, on standard error
    #[arg(long)]
    json: bool,
}

/// A file that was copied.
#[derive(Serialize)]
struct Copied {
    file: String,
    bytes: u64,
}

/// The priorities, in the order of their numbers.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Priority {
    Background,
    Usual,
    High,
}

fn contract(text: &str) -> Result<Contract, String> {
    read_contract(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut buffer = vec![0; CHUNK];
    let mut output = io::stdout().lock();
    let mut copied = Vec::new();
    for path in &arguments.files {
        let name = path.display();
        let mut file =
            std::fs::File::open(path).map_err(|error| BadInput(format!("{name}: {error}")))?;
        if let Some(priority) = arguments.priority {
            let asked = client::prioritize(file.as_fd(), priority as u32);
            asked.map_err(|error| BadInput(refusal(&name.to_string(), &error.into())))?;
        }
        if let Some(contract) = &arguments.contract {
            ask(&name.to_string(), file.as_fd(), contract)?;
        }
        let mut whole = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    output.write_all(&buffer[..bytes]).context("standard output")?;
                    whole += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => bail!("{name}: {error}"),
            }
        }
        copied.push(Copied { file: name.to_string(), bytes: whole });
    }
    output.flush().context("standard output")?;
    if arguments.json {
        eprintln!("{}", serde_json::to_string(&copied)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(name: &str, file: impl AsFd, contract: &Contract) -> anyhow::Result<()> {
    let Err((error, answer)) = client::set(file, contract) else { return Ok(()) };
    let refused = abi::refused(&answer);
    match refused.reason {
        abi::Reason::None | abi::Reason::Permission => {
            bail!(BadInput(refusal(name, &error.into())))
        }
        _ => bail!("{name}: {}: {refused}", contract_text(contract)),
    }
}

/// Why a file's contract can't be set, in words.
fn refusal(name: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NOTTY.raw_os_error() => {
            format!("{name}: it is on no mount of `disktime mount`: name a file below one")
        }
        Some(code) if code == rustix::io::Errno::PERM.raw_os_error() => {
            format!("{name}: this user may not ask for it: see --askers of `disktime mount`")
        }
        _ => format!("{name}: {error}"),
    }
}
