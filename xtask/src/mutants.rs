//! `cargo xtask mutants`: one-line mistakes are planted in the engine one at a time, and for each the
//! test that [`list`] names must notice.
//!
//! A mistake is planted in a copy of the workspace ([`scratch`]), which is built apart from the
//! workspace. A mistake that its test does not notice fails the command, and so does an entry that
//! can't be judged: the text is not there exactly once, the result does not build, or the test is not
//! there or fails without any mistake.

mod list;
mod scratch;
mod table;
mod trial;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::finding::{Finding, Report};
use crate::stream::Deadline;
use crate::workspace::{Workspace, git};
use list::{Expected, Mutant, PATH};
use scratch::Scratch;
use table::Table;

/// With this flag the commit chooses [`SAMPLE`] of the mutants.
const SAMPLE_FLAG: &str = "--sample";
/// Mutants in a sample: at 2 s each on two cores, after a first build of 40 s, they take 80 s.
const SAMPLE: usize = 20;

/// Runs the command; see the module.
///
/// # Errors
/// When the words are not understood, or cargo or git can't be run.
pub(crate) fn run(words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let report = if words == [SAMPLE_FLAG] {
        sample(&workspace, Deadline::new(None))?
    } else {
        let (mutants, mistakes) = list::read(&workspace);
        let chosen = named(&mutants, words)?;
        judge(&workspace, Deadline::new(None), &chosen, mistakes)?
    };
    report.notes.iter().for_each(|note| println!("{note}"));
    report.failures.iter().for_each(|failure| eprintln!("{failure}"));
    Ok(report.passed())
}

/// Judges some of the mutants: each commit others, and the same commit the same.
///
/// # Errors
/// When cargo or git can't be run.
pub(crate) fn sample(workspace: &Workspace, deadline: Deadline) -> Result<Report> {
    let (mutants, mistakes) = list::read(workspace);
    let commit = commit(&workspace.root)?;
    let chosen = drawn(&mutants, &commit);
    let mut report = judge(workspace, deadline, &chosen, mistakes)?;
    let names = chosen.iter().map(|mutant| mutant.name.as_str()).collect::<Vec<_>>().join(", ");
    let what = format!("{} of {} mutants were judged: {names}", chosen.len(), mutants.len());
    report.notes.push(Finding::new(format!("commit {commit}"), what));
    Ok(report)
}

/// The mutants of these names, or all if none is named.
fn named<'a>(mutants: &'a [Mutant], names: &[String]) -> Result<Vec<&'a Mutant>> {
    for name in names {
        if !mutants.iter().any(|mutant| mutant.name == *name) {
            bail!(
                "{name:?} is neither {SAMPLE_FLAG} alone nor a mutant of {PATH}: name one of those"
            );
        }
    }
    let is_named = |mutant: &&Mutant| names.is_empty() || names.contains(&mutant.name);
    Ok(mutants.iter().filter(is_named).collect())
}

/// A sample of the mutants that have a test, in the order of the list.
fn drawn<'a>(mutants: &'a [Mutant], commit: &str) -> Vec<&'a Mutant> {
    let lot = |mutant: &Mutant| {
        let mut hasher = DefaultHasher::new();
        (commit, &mutant.name).hash(&mut hasher);
        hasher.finish()
    };
    let killed = |mutant: &&Mutant| matches!(mutant.expected, Expected::Killed(_));
    let mut all: Vec<_> = mutants.iter().filter(killed).collect();
    all.sort_by_key(|mutant| lot(mutant));
    all.truncate(SAMPLE);
    all.sort_by_key(|mutant| mutant.line);
    all
}

/// The current commit, or `none` in a repository without one.
fn commit(root: &Path) -> Result<String> {
    let output = git(root)
        .args(["rev-parse", "--verify", "--quiet", "HEAD"])
        .output()
        .context("cannot run git rev-parse")?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(if name.is_empty() { "none".to_owned() } else { name })
}

/// Judges each of `chosen`, prints each result as it comes and a table of all. `report` has what is
/// wrong with the list.
fn judge(
    workspace: &Workspace,
    deadline: Deadline,
    chosen: &[&Mutant],
    mut report: Report,
) -> Result<Report> {
    let mut table = Table::default();
    if chosen.iter().any(|mutant| matches!(mutant.expected, Expected::Killed(_))) {
        let scratch = Scratch::sync(workspace)?;
        report.failures.extend(trial::unmutated(&scratch, deadline, chosen)?);
        if !report.passed() {
            return Ok(report);
        }
        for (index, mutant) in chosen.iter().enumerate() {
            let row = trial::of(&scratch, deadline, mutant)?;
            println!("[{:>3}/{}] {row}", index + 1, chosen.len());
            report.failures.extend(row.failure());
            table.push(row);
        }
    } else {
        chosen.iter().for_each(|mutant| table.push(trial::untested(mutant)));
    }
    println!("\n{table}");
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, manifest};

    const LIB: &str = "pub fn half(x: u32) -> u32 {\n    x / 2\n}\n\npub fn zero() -> u32 {\n    0\n}\n\n\
                       #[cfg(test)]\nmod tests {\n    #[test]\n    fn four_has_two() {\n        \
                       assert_eq!(super::half(4), 2);\n    }\n\n    #[test]\n    fn red() {\n        \
                       assert_eq!(super::half(4), 3);\n    }\n}\n";

    /// The report on a workspace with this list.
    fn report(list: &str) -> Vec<String> {
        let fixture = Fixture::new(&[
            (".gitignore", "/target\n"),
            ("crates/engine/Cargo.toml", &manifest("engine", "")),
            ("crates/engine/src/lib.rs", LIB),
            (PATH, list),
        ]);
        let workspace = fixture.workspace();
        let (mutants, mistakes) = list::read(&workspace);
        let chosen = named(&mutants, &[]).expect("all are chosen");
        let report = judge(&workspace, Deadline::new(None), &chosen, mistakes);
        let report = report.expect("cargo can be run");
        let source = std::fs::read_to_string(fixture.root().join("crates/engine/src/lib.rs"));
        assert_eq!(source.expect("it is there"), LIB, "the workspace is left alone");
        report.failures.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn killed_mutants_and_those_that_are_known_to_survive_pass() {
        let list = "doubled crates/engine/src/lib.rs\n- x / 2\n+ x * 2\n\
                    killed by engine tests::four_has_two\n\n\
                    hangs crates/engine/src/lib.rs\n- x / 2\n+ std::process::abort()\n\
                    killed by engine tests::four_has_two\n\n\
                    one crates/engine/src/lib.rs\n-     0\n+     1\nsurvives zero is for show\n";
        assert_eq!(report(list), [""; 0]);
    }

    #[test]
    fn a_mutant_that_survives_or_does_not_build_fails() {
        let list = "one crates/engine/src/lib.rs\n-     0\n+     1\n\
                    killed by engine tests::four_has_two\n\n\
                    broken crates/engine/src/lib.rs\n- x / 2\n+ y\n\
                    killed by engine tests::four_has_two\n";
        let failures = report(list);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert_eq!(
            failures[0],
            "xtask/mutants.txt:1: one survives engine tests::four_has_two: let a test notice it, or \
             delete the rule that nothing needs"
        );
        let broken = "xtask/mutants.txt:6: broken does not build: mend the entry: error[E0425]: ";
        assert!(failures[1].starts_with(broken), "{failures:?}");
    }

    #[test]
    fn a_test_that_fails_without_a_mutant_or_is_not_there_kills_nothing() {
        let list = "doubled crates/engine/src/lib.rs\n- x / 2\n+ x * 2\n\
                    killed by engine tests::red\n\n\
                    zero crates/engine/src/lib.rs\n- x / 2\n+ 0\nkilled by engine tests::gone\n";
        assert_eq!(
            report(list),
            [
                "xtask/mutants.txt:1: doubled names engine tests::red, which fails without any mutant: \
                 mend the test",
                "xtask/mutants.txt:6: zero names engine tests::gone, which did not run: name a test \
                 of that program",
            ]
        );
    }

    #[test]
    fn each_commit_draws_its_own_sample() {
        let entry = |index: u32| {
            format!(
                "m{index} crates/nothing/Cargo.toml\n- name\n+ {index}\nkilled by nothing t\n\n"
            )
        };
        let list: String = (0..40).map(entry).collect();
        let (mutants, report) = list::read(&Fixture::new(&[(PATH, &list)]).workspace());
        assert!(report.passed(), "{:?}", report.failures);
        let names =
            |commit| -> Vec<_> { drawn(&mutants, commit).iter().map(|it| it.line).collect() };
        assert_eq!((names("a").len(), names("a")), (SAMPLE, names("a")));
        assert_ne!(names("a"), names("b"));
        assert!(names("a").is_sorted());
    }

    #[test]
    fn names_that_are_not_listed_are_refused() {
        let error = named(&[], &["gone".to_owned()]).expect_err("nothing is listed");
        assert!(error.to_string().starts_with("\"gone\" is neither --sample alone nor a mutant"));
    }
}
