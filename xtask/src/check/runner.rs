//! Runs tests: with nextest where it is installed, else with `cargo test`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::cargo_gates::{read_errors, report};
use super::counts::Counts;
use super::skips;
use super::slowest::Slowest;
use super::test_name::TestName;
use crate::finding::{Finding, Report};
use crate::stream::{Deadline, Ended, stream};
use crate::workspace::{Workspace, cargo};

/// Gives nextest a time limit for each test.
const NEXTEST_CONFIG: &str = "xtask/nextest.toml";

/// The result of one invocation of the runner.
pub(super) struct Ran {
    pub(super) counts: Counts,
    pub(super) report: Report,
    pub(super) slowest: Slowest,
}

/// The tests of a workspace and how to run them.
pub(super) struct Tests<'a> {
    workspace: &'a Workspace,
    deadline: Deadline,
    skips: Option<PathBuf>,
    has_nextest: bool,
}

impl<'a> Tests<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        deadline: Deadline,
        skips: Option<PathBuf>,
    ) -> Self {
        Self { workspace, deadline, skips, has_nextest: has_nextest() }
    }

    /// Every test but doc tests and `left_out`.
    ///
    /// # Errors
    /// When cargo can't be run.
    pub(super) fn all(&self, left_out: &[&TestName]) -> Result<Ran> {
        let mut command = self.command();
        if self.has_nextest {
            self.nextest(&mut command);
            if !left_out.is_empty() {
                command.args(["--filterset", &format!("not ({})", filter_of(left_out))]);
            }
        } else {
            command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
            command.args(["--lib", "--bins", "--tests", "--", "--exact"]);
            command.args(left_out.iter().flat_map(|name| ["--skip", &name.test]));
        }
        Ok(self.read(&stream(command)?))
    }

    /// The tests in documentation, which nextest can't run.
    ///
    /// # Errors
    /// When cargo can't be run.
    pub(super) fn docs(&self) -> Result<Ran> {
        let mut command = self.command();
        command.args(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
        Ok(read_cargo_test(&stream(command)?))
    }

    /// These tests alone: the counts of each, which are all zero if there is no such test.
    ///
    /// # Errors
    /// When cargo can't be run.
    pub(super) fn each(&self, names: &[&TestName]) -> Result<Vec<Counts>> {
        if self.has_nextest && !names.is_empty() {
            let mut command = self.command();
            self.nextest(&mut command);
            command.args(["--no-tests", "pass", "--filterset", &filter_of(names)]);
            let lines = stream(command)?.lines;
            return Ok(names.iter().map(|name| counts_of(&lines, &name.text())).collect());
        }
        let one = |name: &&TestName| {
            let mut command = self.command();
            command.args(["test", "--locked"]).args(&name.selector);
            command.args(["--", "--exact", &name.test]);
            Ok(self.read(&stream(command)?).counts)
        };
        names.iter().map(one).collect()
    }

    fn command(&self) -> Command {
        let mut command = self.deadline.command(&cargo());
        command.current_dir(&self.workspace.root);
        command.envs(self.skips.iter().map(|path| (skips::VARIABLE, path)));
        command
    }

    fn nextest(&self, command: &mut Command) {
        let config = self.workspace.root.join(NEXTEST_CONFIG);
        command.args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]);
        command.arg("--tool-config-file").arg(format!("xtask:{}", config.display()));
    }

    fn read(&self, ended: &Ended) -> Ran {
        if self.has_nextest { read_nextest(ended) } else { read_cargo_test(ended) }
    }
}

fn has_nextest() -> bool {
    let mut command = Command::new(cargo());
    command.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The expression that selects these tests in nextest's language.
fn filter_of(names: &[&TestName]) -> String {
    let each = names.iter().map(|name| format!("({})", name.filter()));
    each.collect::<Vec<_>>().join(" or ")
}

/// The fate of one test by the lines that nextest prints as tests end: `PASS [ 0.1s] (1/9) name`.
fn counts_of(lines: &[String], name: &str) -> Counts {
    let mut ended = lines.iter().filter_map(|line| {
        let (status, rest) = line.trim_start().split_once(" [")?;
        (rest.ends_with(&format!(" {name}")) && status != "SLOW").then_some(status)
    });
    let passed = |status| Counts {
        passed: u64::from(status == "PASS"),
        failed: u64::from(status != "PASS"),
        skipped: 0,
    };
    ended.next_back().map_or(Counts::default(), passed)
}

/// Below its summary nextest lists what failed: `FAIL [   0.128s] (2/3) package test::name`.
fn read_nextest(ended: &Ended) -> Ran {
    let is_summary = |line: &String| line.trim_start().starts_with("Summary [");
    let below = ended.lines.iter().rposition(is_summary).map_or(ended.lines.len(), |it| it + 1);
    let failed = ended.lines[below..].iter().filter_map(|line| {
        let (status, rest) = line.trim_start().split_once(" [")?;
        let (_, name) = rest.split_once("s] ")?;
        let name = name.split_once(") ").map_or(name, |(_, name)| name);
        Some(Finding::new(name.trim(), format!("test failed ({})", status.trim())))
    });
    let counts = Counts::from_nextest(&ended.lines).unwrap_or_default();
    let report = report(ended, "nextest", failed.chain(build_errors(ended)).collect());
    Ran { counts, report, slowest: Slowest::from_nextest(&ended.lines) }
}

/// `cargo test` prints `test name ... FAILED` as it goes.
fn read_cargo_test(ended: &Ended) -> Ran {
    let failed = ended.lines.iter().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(Finding::new(name, "test failed"))
    });
    let counts = Counts::from_cargo_test(&ended.lines);
    let report = report(ended, "test", failed.chain(build_errors(ended)).collect());
    // `cargo test` tells no times.
    Ran { counts, report, slowest: Slowest::default() }
}

/// Errors that the compiler reports; what cargo says of tests that failed is left out.
fn build_errors(ended: &Ended) -> Vec<Finding> {
    let is_code = |it: &Finding| !it.to_string().starts_with("cargo: ");
    let mut errors = read_errors(&ended.lines, std::path::Path::new(""));
    errors.retain(is_code);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(text: &str) -> Ended {
        let lines = text.lines().map(str::to_owned).collect();
        Ended { lines, failure: Some("ended with exit status: 100".to_owned()) }
    }

    fn shown(ran: &Ran) -> Vec<String> {
        ran.report.failures.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nextests_failures_are_named_once_with_what_befell_them() {
        let ran = read_nextest(&ended(
            "        FAIL [   0.128s] (2/3) nx bad\n    test result: FAILED. 0 passed; 1 failed\n\
             \x20    Summary [   0.145s] 3 tests run: 0 passed, 2 failed, 1 timed out, 0 skipped\n\
             \x20    SIGABRT [   0.008s] (1/3) nx abrt\n        FAIL [   0.128s] (2/3) nx bad\n\
             \x20    TIMEOUT [ 300.1s] (3/3) nx::e2e slow\nerror: test run failed\n",
        ));
        assert_eq!(ran.counts, Counts { passed: 0, failed: 3, skipped: 0 });
        assert_eq!(
            shown(&ran),
            [
                "nx abrt: test failed (SIGABRT)",
                "nx bad: test failed (FAIL)",
                "nx::e2e slow: test failed (TIMEOUT)",
            ]
        );
    }

    #[test]
    fn the_fate_of_each_test_is_read_from_one_run() {
        let text = "        SLOW [> 60.000s] (─────────) nx a\n        PASS [   0.1s] (1/4) nx a\n\
                    \x20       FAIL [   0.1s] (2/4) nx::b mod::a\n     TIMEOUT [ 300.1s] (3/4) nx c\n\
                    \x20       SLOW [> 60.000s] (─────────) nx d\n";
        let lines = ended(text).lines;
        let fate = |name| counts_of(&lines, name);
        let (passed, failed) =
            (Counts { passed: 1, ..Counts::default() }, Counts { failed: 1, ..Counts::default() });
        assert_eq!([fate("nx a"), fate("nx::b mod::a"), fate("nx c")], [passed, failed, failed]);
        assert_eq!([fate("nx d"), fate("nx e")], [Counts::default(); 2], "cut short, or gone");
    }

    #[test]
    fn cargo_tests_failures_are_named() {
        let ran = read_cargo_test(&ended(
            "test a::good ... ok\ntest a::bad ... FAILED\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
             error: test failed, to rerun pass `--lib`\n",
        ));
        assert_eq!(ran.counts, Counts { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(shown(&ran), ["a::bad: test failed"]);
    }

    #[test]
    fn tests_that_do_not_compile_fail_with_the_compilers_error() {
        let ran = read_nextest(&ended("error[E0425]: cannot find `x`\n --> src/lib.rs:1:1\n"));
        assert_eq!(ran.counts, Counts::default());
        assert_eq!(shown(&ran), ["src/lib.rs:1:1: cannot find `x`"]);
    }
}
