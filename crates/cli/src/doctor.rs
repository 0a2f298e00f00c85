//! `disktime doctor`: what this machine lacks, and what a device is good for.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::failure::FAILED;
use crate::terminal::wrapped;

mod device;
mod machine;

const EXAMPLES: &str = "\
Examples:
  disktime doctor                    what this machine lacks
  disktime doctor /dev/nvme0n1
      and what a block device, file or directory is good for
  disktime doctor --json

Nothing is changed and no device is written to. Exits with 0 if disktime can
serve here, with 1 if something is missing.";

/// Say what this machine lacks, and what a device is good for.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A block device, a file or a directory for virtual disks
    #[arg(value_name = "PATH")]
    device: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// disktime serves, and something is slower, later or less safe.
    Note,
    /// disktime can't serve.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// The value found, for a person.
    found: String,
    /// The remedy; empty if there is nothing to do.
    advice: String,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>, advice: &str) -> Self {
        Self { name, state, found: found.into(), advice: advice.to_owned() }
    }

    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, State::Ok, found, "")
    }

    /// `Ok` if it holds; else so, with advice.
    fn unless(
        holds: bool,
        otherwise: State,
        name: &'static str,
        (found, advice): (String, &str),
    ) -> Self {
        if holds { Self::ok(name, found) } else { Self::new(name, otherwise, found, advice) }
    }
}

/// The whole answer.
#[derive(Serialize)]
pub(crate) struct Diagnosis {
    version: &'static str,
    machine: Vec<Check>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device: Vec<Check>,
    pass: bool,
}

/// Looks at the machine, and at a device if one is named.
pub(crate) fn diagnose(device: Option<&Path>) -> Diagnosis {
    let machine = machine::checks();
    let device = device.map(device::checks).unwrap_or_default();
    let pass = machine.iter().chain(&device).all(|check| check.state != State::Missing);
    Diagnosis { version: env!("CARGO_PKG_VERSION"), machine, device, pass }
}

/// Runs `doctor`.
pub fn run(Arguments { device, json }: &Arguments) -> anyhow::Result<ExitCode> {
    let found = diagnose(device.as_deref());
    if *json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        show("This machine", &found.machine);
        if let Some(path) = device {
            show(&path.display().to_string(), &found.device);
        }
        let verdict = if found.pass {
            "disktime can serve here."
        } else {
            "disktime can't serve here: mend what is missing."
        };
        println!("\n{verdict}");
    }
    Ok(if found.pass { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Prints checks in lines of at most 80 columns, as far as their words are shorter.
fn show(title: &str, checks: &[Check]) {
    println!("{title}");
    for check in checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Missing => "MISSING",
        };
        for (index, line) in wrapped(&check.found, 57).iter().enumerate() {
            let (state, name) = if index == 0 { (state, check.name) } else { ("", "") };
            println!("  {state:<8}{name:<13}{line}");
        }
        wrapped(&check.advice, 57).iter().for_each(|line| println!("{:23}{line}", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fails_and_notes_pass() {
        let check = |holds, state| Check::unless(holds, state, "x", ("1".to_owned(), "do it"));
        assert_eq!(check(true, State::Missing).state, State::Ok);
        assert_eq!(check(true, State::Missing).advice, "");
        assert_eq!(check(false, State::Note).advice, "do it");
        let found = diagnose(Some(Path::new("/nowhere/at/all")));
        assert!(!found.pass, "a path that is not there is missing");
    }
}
