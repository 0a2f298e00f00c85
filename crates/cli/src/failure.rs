//! How commands fail: the text, the exit code, and the same as a document under `--json`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use disktime_server::{ConfigError, StartError};

use crate::interrupt::{self, Interrupted};

/// Exit code of a failure while running, and of a check that missed.
pub const FAILED: u8 = 1;
/// For anything that is wrong with what the user gave.
pub const BAD_INPUT: u8 = 2;
/// For what was not judged: the machine was too busy to measure it.
pub const NOT_JUDGED: u8 = 3;
/// After a signal.
pub const INTERRUPTED: u8 = 130;

/// The meaning of every command's exit codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
    0  done; every check held
    1  failed while running, or a check missed
    2  something is wrong with what was given: options, files, configurations, profiles, sockets that
       can't be bound, back ends that can't be opened
    3  not judged: the machine was too busy for it
  130  interrupted by a signal; a second one ends at once

With --json a failure is one document on standard output: {\"error\": \"…\", \"exit\": 2}";

/// Whether answers are JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on failures are documents as well.
pub fn as_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Input that can't be used, as against a failure while running.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// A failure as a document with its line's end, under `--json`.
pub fn document(error: &str, exit: u8) -> Option<String> {
    let json = JSON.load(Ordering::Relaxed);
    json.then(|| format!("{}\n", serde_json::json!({ "error": error, "exit": exit })))
}

/// Says why a command failed, and how it exits.
pub fn tell(error: &anyhow::Error) -> ExitCode {
    let exit = code(error);
    // The first thing that fails because of a signal says something else.
    let text = if exit == INTERRUPTED { "interrupted".to_owned() } else { causes(error) };
    eprintln!("disktime: {text}");
    if let Some(document) = document(&text, exit) {
        print!("{document}");
    }
    ExitCode::from(exit)
}

/// An error's text with its causes, each once: some errors say their cause themselves.
fn causes(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.contains(&cause) {
            said += if said.is_empty() { "" } else { ": " };
            said += &cause;
        }
    }
    said
}

fn code(error: &anyhow::Error) -> u8 {
    let start = error.downcast_ref::<StartError>().map(StartError::is_input);
    let input = error.is::<BadInput>() || error.is::<ConfigError>();
    match start.unwrap_or(input) {
        _ if interrupt::is_asked() || error.is::<Interrupted>() => INTERRUPTED,
        true => BAD_INPUT,
        false => FAILED,
    }
}
