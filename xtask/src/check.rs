//! `cargo xtask check`: every gate and every test, whatever fails before. It ends with a table, a
//! list of every failure, the slowest tests, and the count of tests as the last line.

mod cargo_gates;
mod counts;
mod deny;
mod expected_red;
mod packages;
mod runner;
mod skips;
mod slowest;
mod test_name;
mod verdict;

use std::time::Duration;

use anyhow::Result;

use crate::finding::Report;
use crate::fuzz;
use crate::instructions;
use crate::mutants;
use crate::stream::{Deadline, now};
use crate::tidy;
use crate::workspace::Workspace;
use counts::Counts;
use skips::Skips;
use slowest::Slowest;
use verdict::{Row, Verdict};

/// The longest run where nobody watches. It is to take less than 25 minutes on two cores; a slower machine
/// is no reason to call the tests failed.
const CI_TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// With this flag the system's packages are looked for and left alone.
pub(crate) const NO_INSTALL: &str = "--no-install";

/// Runs the command; see the module.
///
/// # Errors
/// When the workspace can't be read.
pub(crate) fn run(words: &[String]) -> Result<bool> {
    let install = !words.iter().any(|word| word == NO_INSTALL);
    let in_ci = std::env::var_os("CI").is_some();
    let deadline = Deadline::new(in_ci.then(|| now() + CI_TIME_MAX));
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut session = Session { workspace: &workspace, deadline, verdict: Verdict::default() };
    session.gate("packages", |_| Ok(packages::run(install)));
    if in_ci {
        session.gate("lockfile", |it| cargo_gates::lockfile(it.workspace));
    }
    session.cargo_gates();
    session.gate("dependencies", |it| deny::gate(it.workspace, it.deadline));
    session.tidy();
    session.tests();
    session.gate("instructions", |it| instructions::gate(it.workspace, it.deadline));
    session.gate("fuzz", |it| fuzz::gate(it.workspace, it.deadline));
    session.gate("mutants", |it| mutants::sample(it.workspace, it.deadline));
    Ok(session.verdict.print())
}

/// State that the steps share.
struct Session<'a> {
    workspace: &'a Workspace,
    deadline: Deadline,
    verdict: Verdict,
}

impl Session<'_> {
    /// Runs one gate and writes its row. An error of the gate itself is a failure like others.
    fn gate(&mut self, name: &str, run: impl FnOnce(&Self) -> Result<Report>) {
        println!("\n==> {name}");
        let started = now();
        let result = run(self);
        self.verdict.rows.push(Row::new(name, result, started.elapsed()));
    }

    fn cargo_gates(&mut self) {
        for gate in cargo_gates::GATES {
            self.gate(gate.name, |it| gate.run(it.workspace, it.deadline));
        }
    }

    fn tidy(&mut self) {
        for gate in tidy::GATES {
            let name = format!("tidy: {}", gate.name);
            self.gate(&name, |it| Ok((gate.run)(it.workspace)));
        }
    }

    fn tests(&mut self) {
        let skips = Skips::start(&self.workspace.target);
        let skips_path = skips.as_ref().ok().map(|skips| skips.path().to_owned());
        let tests = runner::Tests::new(self.workspace, self.deadline, skips_path);
        let (listed, mut red_report) = expected_red::read(self.workspace);
        let (mut counts, mut slowest) = (Counts::default(), Slowest::default());
        let mut of_listed = vec![Counts::default(); listed.len()];
        self.gate("tests", |_| {
            let names: Vec<_> = listed.iter().map(|entry| &entry.name).collect();
            let (ran, apart) = tests.all(&names)?;
            counts += ran.counts;
            (slowest, of_listed) = (ran.slowest, apart);
            Ok(ran.report)
        });
        self.gate("doc tests", |_| {
            let ran = tests.docs()?;
            counts += ran.counts;
            Ok(ran.report)
        });
        self.gate("expected red", |_| {
            expected_red::judge_all(&listed, &of_listed, &mut counts, &mut red_report);
            Ok(red_report)
        });
        (self.verdict.counts, self.verdict.slowest) = (counts, slowest);
        match skips.and_then(|skips| skips.read()) {
            Ok(lines) => self.verdict.skips = lines,
            Err(error) => self.verdict.rows.push(Row::new("skips", Err(error), Duration::ZERO)),
        }
    }
}
