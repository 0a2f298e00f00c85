//! How commands fail: the text, the exit code, and the same as a document under `--json`.

use std::process::ExitCode;

use disktime_server::{ConfigError, StartError};

use crate::interrupt::{self, Interrupted};
use crate::{progress, terminal};

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
    1  failed while running, or a check missed; or standard output was closed
       before all was said
    2  something is wrong with what was given: options, files, configurations,
       profiles, sockets that can't be bound, back ends that can't be opened
    3  not judged: the machine was too busy for it
  130  interrupted by a signal; a second one ends at once

With --json a failure is one document on standard output:
{\"error\": \"…\", \"exit\": 2}";

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
    terminal::is_json()
        .then(|| format!("{}\n", serde_json::json!({ "error": error, "exit": exit })))
}

/// How a command exits that a signal ends, and its document.
pub fn interrupted() -> (u8, Option<String>) {
    progress::wipe();
    (INTERRUPTED, document("interrupted", INTERRUPTED))
}

/// Says why a command failed, and how it exits.
pub fn tell(error: &anyhow::Error) -> ExitCode {
    if interrupt::is_unheard() {
        return ExitCode::from(FAILED);
    }
    let exit = code(error);
    // The first thing that fails because of a signal says something else.
    // An error's own text says its causes; what its context adds stands before it.
    let text = if exit == INTERRUPTED { "interrupted".to_owned() } else { format!("{error:#}") };
    let document = document(&text, exit);
    match &document {
        Some(document) if terminal::is_document_on_stderr() => {
            crate::say::err(format_args!("{document}"));
        }
        _ => eprintln!("{} {text}", terminal::alarm("disktime:")),
    }
    if let Some(document) = document.filter(|_| !terminal::is_document_on_stderr()) {
        crate::say::last(&document);
    }
    ExitCode::from(exit)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context;
    use disktime_server::{Config, Tls, TlsFiles};

    use super::*;

    /// Errors said their cause and named it as their source as well: it was said twice until the text
    /// was searched for it, which also dropped a cause that another text happened to contain.
    #[test]
    fn a_cause_is_said_once() {
        let missing = Config::read(Path::new("/no/such/place")).expect_err("there is no such file");
        let syntax = Config::parse("server = 3").expect_err("`server` is a table");
        let wanted = "expected struct";
        for (error, cause) in [(missing, "No such file"), (syntax, wanted)] {
            let failed = Err::<(), _>(StartError::from(error)).context("--config");
            let error = failed.expect_err("it failed");
            let text = format!("{error:#}");
            assert!(text.starts_with("--config: "), "{text}");
            assert_eq!(text.matches(cause).count(), 1, "{text}");
        }
        let [certificate, key] = ["/no/such.pem", "/no/such.key"].map(Into::into);
        let files = TlsFiles { certificate, key, client_ca: None, revoked: None };
        let failed = Tls::load(&files).map_err(StartError::from);
        let text = format!("{:#}", anyhow::Error::from(failed.expect_err("there is no such file")));
        assert_eq!(text.matches("/no/such.pem").count(), 1, "{text}");
    }
}
