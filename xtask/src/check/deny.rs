//! The gate of dependencies: their licences, sources and known vulnerabilities, by `cargo deny` and
//! `deny.toml`. It is a note where cargo-deny is not installed.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::cargo_gates::{read_errors, report};
use crate::finding::{Finding, Report};
use crate::stream::{Deadline, stream};
use crate::workspace::{Workspace, cargo};

/// These need nothing but the manifests and their crates.
const OFFLINE: [&str; 3] = ["bans", "licenses", "sources"];
/// This one needs the database of advisories, which `cargo deny fetch` brings: the check goes by the
/// copy at hand.
const ADVISORIES: &str = "advisories";

/// Runs the gate.
///
/// # Errors
/// When cargo can't be run.
pub(super) fn gate(workspace: &Workspace, deadline: Deadline) -> Result<Report> {
    if !is_installed() {
        let what = "SKIP: is not installed: `cargo install cargo-deny --locked`";
        return Ok(noted("cargo-deny", what));
    }
    let run = |what: &[&str]| {
        let mut command = deadline.command(&cargo());
        command.current_dir(&workspace.root);
        command.args(["deny", "--locked", "--offline", "check", "--hide-inclusion-graph"]);
        command.args(what);
        stream(command)
    };
    let ended = run(&OFFLINE)?;
    let mut found = report(&ended, "deny", read_errors(&ended.lines, &workspace.root));
    let ended = run(&[ADVISORIES])?;
    let advised =
        advised(&ended.lines, report(&ended, "deny", read_errors(&ended.lines, &workspace.root)));
    found.failures.extend(advised.failures);
    found.notes.extend(advised.notes);
    Ok(found)
}

/// Advisories that were found; a note if there is no database of them.
fn advised(lines: &[String], found: Report) -> Report {
    let is_missing = |line: &&String| line.contains("[ERROR]") && line.contains("advisory-db");
    if lines.iter().any(|line| is_missing(&line)) {
        let what = "SKIP: no database of advisories is at hand: `cargo deny fetch` brings it";
        return noted("cargo-deny", what);
    }
    found
}

fn noted(place: &str, what: &str) -> Report {
    Report { failures: Vec::new(), notes: vec![Finding::new(place, what)] }
}

fn is_installed() -> bool {
    let mut command = Command::new(cargo());
    command.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::stream::Ended;

    fn ended(text: &str) -> Ended {
        let lines = text.lines().map(str::to_owned).collect();
        Ended { lines, failure: Some("ended with exit status: 1".to_owned()) }
    }

    #[test]
    fn a_refused_licence_is_a_failure_with_its_manifest() {
        let ended = ended(
            "error[rejected]: failed to satisfy license requirements\n    ┌─ /r/ring/Cargo.toml:160:27\n\
             bans ok, licenses FAILED, sources ok\n",
        );
        let found = report(&ended, "deny", read_errors(&ended.lines, Path::new("/r")));
        let shown: Vec<_> = found.failures.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["/r/ring/Cargo.toml:160:27: failed to satisfy license requirements"]);
    }

    #[test]
    fn a_missing_database_is_a_note_and_an_advisory_a_failure() {
        let missing = ended(
            "2026-01-01 00:00:00 [ERROR] failed to get 'FETCH_HEAD' metadata: [\"-C\", \
             \"/h/.cargo/advisory-dbs/advisory-db-3157b0\", \"show\"]\n",
        );
        let found = advised(&missing.lines, report(&missing, "deny", Vec::new()));
        assert!(found.passed() && found.notes.len() == 1);
        let hit = ended("error[vulnerability]: a crate reads beyond its buffer\n");
        let found = report(&hit, "deny", read_errors(&hit.lines, Path::new("/r")));
        assert!(!advised(&hit.lines, found).passed());
    }
}
