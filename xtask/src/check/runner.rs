//! Runs tests: with nextest where it is installed, else with `cargo test`.

use std::num::NonZero;
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
/// How nextest ends when it has run all tests and one has failed.
const TESTS_FAILED: &str = "ended with exit status: 100";

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

    /// Every test but doc tests. The tests `apart` count as skipped; each has its own counts, which are all
    /// zero if there is no such test.
    ///
    /// # Errors
    /// When cargo can't be run.
    pub(super) fn all(&self, apart: &[&TestName]) -> Result<(Ran, Vec<Counts>)> {
        let mut command = self.command();
        if self.has_nextest {
            self.nextest(&mut command);
            let names: Vec<_> = apart.iter().map(|name| name.text()).collect();
            return Ok(read_nextest(&stream(command)?, &names));
        }
        command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
        command.args(["--lib", "--bins", "--tests", "--", "--exact"]);
        command.args(apart.iter().flat_map(|name| ["--skip", &name.test]));
        let ran = read_cargo_test(&stream(command)?);
        let fates = apart.iter().map(|name| self.one(name));
        Ok((ran, fates.collect::<Result<_>>()?))
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

    /// A test alone, by `cargo test`.
    fn one(&self, name: &TestName) -> Result<Counts> {
        let mut command = self.command();
        command.args(["test", "--locked"]).args(&name.selector);
        command.args(["--", "--exact", &name.test]);
        Ok(read_cargo_test(&stream(command)?).counts)
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
        // Tests of a daemon leave their processor to others while they wait.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        command.arg("--test-threads").arg((processors + 1).to_string());
    }
}

fn has_nextest() -> bool {
    let mut command = Command::new(cargo());
    command.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
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

/// Below its summary nextest lists what failed: `FAIL [   0.128s] (2/3) package test::name`. The tests `apart`
/// are no failures, and count as skipped; answers the counts of each.
fn read_nextest(ended: &Ended, apart: &[String]) -> (Ran, Vec<Counts>) {
    let is_summary = |line: &String| line.trim_start().starts_with("Summary [");
    let below = ended.lines.iter().rposition(is_summary).map_or(ended.lines.len(), |it| it + 1);
    let failed = ended.lines[below..].iter().filter_map(|line| {
        let (status, rest) = line.trim_start().split_once(" [")?;
        let (_, name) = rest.split_once("s] ")?;
        let name = name.split_once(") ").map_or(name, |(_, name)| name).trim();
        let counts = !apart.iter().any(|it| it == name);
        counts.then(|| Finding::new(name, format!("test failed ({})", status.trim())))
    });
    let failures: Vec<_> = failed.chain(build_errors(ended)).collect();
    let fates: Vec<_> = apart.iter().map(|name| counts_of(&ended.lines, name)).collect();
    let mut counts = Counts::from_nextest(&ended.lines).unwrap_or_default();
    for fate in &fates {
        counts.passed = counts.passed.saturating_sub(fate.passed);
        counts.failed = counts.failed.saturating_sub(fate.failed);
        counts.skipped += fate.passed + fate.failed;
    }
    // The runner's own verdict is of all tests: it is no failure if only those apart failed.
    let apart_failed = fates.iter().any(|fate| fate.failed > 0) && counts.failed == 0;
    let is_well = apart_failed && ended.failure.as_deref() == Some(TESTS_FAILED);
    let report = if is_well { failures.into() } else { report(ended, "nextest", failures) };
    (Ran { counts, report, slowest: Slowest::from_nextest(&ended.lines) }, fates)
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
        let (ran, _) = read_nextest(
            &ended(
                "        FAIL [   0.128s] (2/3) nx bad\n    test result: FAILED. 0 passed; 1 failed\n\
             \x20    Summary [   0.145s] 3 tests run: 0 passed, 2 failed, 1 timed out, 0 skipped\n\
             \x20    SIGABRT [   0.008s] (1/3) nx abrt\n        FAIL [   0.128s] (2/3) nx bad\n\
             \x20    TIMEOUT [ 300.1s] (3/3) nx::e2e slow\nerror: test run failed\n",
            ),
            &[],
        );
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

    /// Tests that are known to fail run among all others, and only they may fail.
    #[test]
    fn tests_apart_are_no_failures_and_count_as_skipped() {
        let text = "        PASS [   0.1s] (1/4) nx green\n        FAIL [   0.1s] (2/4) nx red\n\
                    \x20       PASS [   0.1s] (3/4) nx good\n     Summary [   0.1s] 4 tests run: ";
        let only_red = "3 passed, 1 failed, 5 skipped\n        FAIL [   0.1s] (2/4) nx red\n";
        let bad = "2 passed, 2 failed, 5 skipped\n        FAIL [   0.1s] (2/4) nx red\n\
                   \x20       FAIL [   0.1s] (4/4) nx bad\n";
        let apart = ["nx red", "nx green", "nx gone"].map(str::to_owned);
        let (ran, fates) = read_nextest(&ended(&format!("{text}{only_red}")), &apart);
        assert_eq!(shown(&ran), [""; 0]);
        assert_eq!(ran.counts, Counts { passed: 2, failed: 0, skipped: 7 });
        let [red, green, gone] = &fates[..] else { panic!("one for each") };
        assert_eq!((red.failed, green.passed, *gone), (1, 1, Counts::default()));
        let (ran, _) = read_nextest(&ended(&format!("{text}{bad}")), &apart);
        assert_eq!(shown(&ran), ["nx bad: test failed (FAIL)"]);
        assert_eq!(ran.counts, Counts { passed: 1, failed: 1, skipped: 7 });
        // A failure whose name can't be read is one all the same.
        let unnamed = format!("{text}2 passed, 2 failed, 5 skipped\n");
        let (ran, _) = read_nextest(&ended(&unnamed), &apart);
        assert_eq!(shown(&ran), ["nextest: ended with exit status: 100"]);
        // A runner that ends in another way has not run them all.
        let cut = Ended { failure: Some("took too long".to_owned()), ..ended(text) };
        assert_eq!(shown(&read_nextest(&cut, &apart).0), ["nextest: took too long"]);
        assert_eq!(shown(&read_nextest(&ended(""), &[]).0).len(), 1);
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
        let text = "error[E0425]: cannot find `x`\n --> src/lib.rs:1:1\n";
        let (ran, _) = read_nextest(&ended(text), &["nx red".to_owned()]);
        assert_eq!(ran.counts, Counts::default());
        assert_eq!(shown(&ran), ["src/lib.rs:1:1: cannot find `x`"]);
    }
}
