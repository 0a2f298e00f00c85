//! The gates that cargo's own commands are, and how to read each one's failures from its output.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::finding::{Finding, Report};
use crate::stream::{Deadline, Ended, stream};
use crate::workspace::{Workspace, cargo, git};

/// A gate that runs one cargo command in the workspace's root.
pub(super) struct CargoGate {
    pub(super) name: &'static str,
    words: &'static [&'static str],
    env: Option<(&'static str, &'static str)>,
    read: fn(&[String], &Path) -> Vec<Finding>,
}

pub(super) const GATES: &[CargoGate] = &[
    CargoGate { name: "format", words: &["fmt", "--all", "--check"], env: None, read: read_diffs },
    CargoGate {
        name: "clippy",
        words: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--keep-going",
            "--",
            "-D",
            "warnings",
        ],
        env: None,
        read: read_errors,
    },
    CargoGate {
        name: "docs",
        words: &["doc", "--workspace", "--no-deps", "--locked", "--keep-going"],
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
        read: read_errors,
    },
];

impl CargoGate {
    /// # Errors
    /// When cargo can't be run.
    pub(super) fn run(&self, workspace: &Workspace, deadline: Deadline) -> Result<Report> {
        let mut command = deadline.command(&cargo());
        command.args(self.words).current_dir(&workspace.root).envs(self.env);
        let ended = stream(command)?;
        Ok(report(&ended, self.words[0], (self.read)(&ended.lines, &workspace.root)))
    }
}

/// The findings in the output, or at least how the command ended.
pub(super) fn report(ended: &Ended, name: &str, mut found: Vec<Finding>) -> Report {
    let Some(failure) = &ended.failure else { return Report::default() };
    if found.is_empty() {
        found.push(Finding::new(name, failure));
    }
    found.into()
}

/// The lock file is the committed one; cargo changes it silently when it doesn't fit the manifests.
///
/// # Errors
/// When git can't be run.
pub(super) fn lockfile(workspace: &Workspace) -> Result<Report> {
    let mut command = git(&workspace.root);
    command.args(["diff", "--quiet", "HEAD", "--", "Cargo.lock"]);
    let clean = command.status().context("cannot run git diff")?.success();
    let what = "is not what the manifests ask for: run `cargo check` and commit it";
    Ok(if clean { Vec::new() } else { vec![Finding::new("Cargo.lock", what)] }.into())
}

/// rustfmt prints `Diff in /path/to/file.rs:12:` above each difference.
fn read_diffs(lines: &[String], root: &Path) -> Vec<Finding> {
    let places: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("Diff in "))
        .map(|place| place.trim_end_matches(':'))
        .map(|place| place.strip_prefix(&format!("{}/", root.display())).unwrap_or(place))
        .collect();
    places.into_iter().map(|place| Finding::new(place, "is not formatted")).collect()
}

/// rustc, clippy and rustdoc print `error: what` or `error[E0001]: what`, then `--> place`; cargo-deny
/// prints `┌─ place`. The
/// same error comes once for each target that a file is compiled into.
pub(super) fn read_errors(lines: &[String], _: &Path) -> Vec<Finding> {
    const SUMMARIES: [&str; 4] =
        ["could not compile", "could not document", "aborting due to", "build failed"];
    let mut found = BTreeSet::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((head, what)) = line.split_once(": ") else { continue };
        let is_error = head == "error" || head.starts_with("error[") && head.ends_with(']');
        if !is_error || SUMMARIES.iter().any(|summary| what.contains(summary)) {
            continue;
        }
        let place = lines[index + 1..].iter().take(3).find_map(|it| {
            let it = it.trim();
            it.strip_prefix("--> ").or_else(|| it.strip_prefix("┌─ "))
        });
        found.insert(Finding::new(place.unwrap_or("cargo"), what));
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn shown(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn errors_are_read_with_their_places_and_once() {
        let text = "error: unused variable: `x`\n  --> src/lib.rs:3:5\n   |\n\
                    error[E0308]: mismatched types\n  --> src/a.rs:1:1\n\
                    error: could not compile `a` (lib) due to 2 previous errors\n\
                    error: unused variable: `x`\n  --> src/lib.rs:3:5\n\
                    error: failed to load source for dependency\n";
        assert_eq!(
            shown(&read_errors(&lines(text), Path::new("/r"))),
            [
                "cargo: failed to load source for dependency",
                "src/a.rs:1:1: mismatched types",
                "src/lib.rs:3:5: unused variable: `x`",
            ]
        );
    }

    #[test]
    fn differences_are_read_with_relative_paths() {
        let text = "Diff in /r/src/lib.rs:1:\n-fn  a() {}\n+fn a() {}\n";
        let found = read_diffs(&lines(text), Path::new("/r"));
        assert_eq!(shown(&found), ["src/lib.rs:1: is not formatted"]);
    }

    #[test]
    fn a_failure_without_a_readable_error_is_still_one() {
        let ended = Ended { lines: Vec::new(), failure: Some("ended with 1".to_owned()) };
        assert_eq!(shown(&report(&ended, "doc", Vec::new()).failures), ["doc: ended with 1"]);
    }
}
