//! The list of mutants, `xtask/mutants.txt`: an entry is four lines, and a blank line follows it.
//!
//! ```text
//! <name> <file>
//! - <text, which stands exactly once in the file>
//! + <text in its place; nothing to remove it>
//! killed by <binary id> <test name>      or: survives <reason>
//! ```

use std::collections::BTreeSet;

use crate::finding::{Finding, Report};
use crate::workspace::{TestBinary, Workspace};

pub(super) const PATH: &str = "xtask/mutants.txt";

/// An entry of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    pub(super) line: usize,
    pub(super) name: String,
    /// Relative to the root.
    pub(super) file: String,
    pub(super) text: String,
    pub(super) replacement: String,
    pub(super) expected: Expected,
}

/// The fate of a mutant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Killed(Killer),
    /// No test can notice, for this reason.
    Survives(String),
}

/// A test, as nextest names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Killer {
    pub(super) binary: String,
    pub(super) test: String,
    /// How cargo selects its program.
    pub(super) selector: Vec<String>,
}

impl Mutant {
    /// Something that is wrong with the entry, or with the tests.
    pub(super) fn finding(&self, what: &str) -> Finding {
        Finding::at(PATH, self.line, format!("{} {what}", self.name))
    }
}

/// The usable entries, and what is wrong with the others.
pub(super) fn read(workspace: &Workspace) -> (Vec<Mutant>, Report) {
    let Some(file) = workspace.text(PATH) else {
        return (Vec::new(), vec![Finding::new(PATH, "is missing")].into());
    };
    let (mut mutants, mut failures) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for (line, block) in blocks(&file.text) {
        let parsed = parse(line, &block, workspace).and_then(|mutant| {
            let first = names.insert(mutant.name.clone());
            let twice = || format!("{} is the name of an entry above: choose another", mutant.name);
            if first { Ok(mutant) } else { Err(twice()) }
        });
        match parsed {
            Ok(mutant) => mutants.push(mutant),
            Err(what) => failures.push(Finding::at(PATH, line, what)),
        }
    }
    (mutants, failures.into())
}

/// Lines between blank ones, each block with the number of its first; lines that begin with `#` are
/// left out.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        if line.trim().is_empty() {
            open = false;
        } else if let Some((_, block)) = blocks.last_mut().filter(|_| open) {
            block.push(line);
        } else {
            blocks.push((index + 1, vec![line]));
            open = true;
        }
    }
    blocks
}

fn parse(line: usize, block: &[&str], workspace: &Workspace) -> Result<Mutant, String> {
    let shape = || {
        "is not `<name> <file>`, `- <text>`, `+ <text>`, `killed by <binary id> <test>` or \
         `survives <reason>`, each on a line"
            .to_owned()
    };
    let [head, text, replacement, fate] = block else { return Err(shape()) };
    let (name, file) = head.split_once(' ').ok_or_else(shape)?;
    let text = text.strip_prefix("- ").ok_or_else(shape)?;
    let replacement = replacement.strip_prefix('+').ok_or_else(shape)?;
    let replacement = replacement.strip_prefix(' ').unwrap_or(replacement);
    let known =
        workspace.text(file).ok_or_else(|| format!("{name}: {file} is not a file of this tree"))?;
    let count = known.text.matches(text).count();
    if count != 1 {
        let times =
            if count == 0 { "does not stand".to_owned() } else { format!("stands {count} times") };
        return Err(format!(
            "{name}: {text:?} {times} in {file}: give text that stands there once"
        ));
    }
    let expected = match (fate.strip_prefix("killed by "), fate.strip_prefix("survives ")) {
        (Some(test), _) => Expected::Killed(killer(name, test, workspace)?),
        (_, Some(reason)) => Expected::Survives(reason.trim().to_owned()),
        _ => return Err(shape()),
    };
    let (name, file) = (name.to_owned(), file.to_owned());
    let (text, replacement) = (text.to_owned(), replacement.to_owned());
    Ok(Mutant { line, name, file, text, replacement, expected })
}

fn killer(name: &str, test: &str, workspace: &Workspace) -> Result<Killer, String> {
    let (binary, test) = test.trim().split_once(' ').ok_or_else(|| {
        format!("{name}: `killed by {test}` does not say `<binary id> <test name>`: add what lacks")
    })?;
    let is_it = |known: &&TestBinary| known.id == binary;
    let known = workspace.packages.iter().flat_map(|package| &package.binaries).find(is_it);
    let known =
        known.ok_or_else(|| format!("{name}: there is no test binary {binary}: name one"))?;
    let (binary, test) = (binary.to_owned(), test.to_owned());
    Ok(Killer { binary, test, selector: known.selector.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn entries_are_read_and_mistakes_named() {
        let list = "# why\n\n\
                    good crates/nothing/Cargo.toml\n- version\n+\nkilled by nothing a::b\n\n\
                    known crates/nothing/Cargo.toml\n- version\n+  v\nsurvives it is empty\n\n\
                    twice crates/nothing/Cargo.toml\n- \"\n+\nkilled by nothing a::b\n\n\
                    missing crates/nothing/Cargo.toml\n- nowhere\n+\nkilled by nothing a::b\n\n\
                    moved crates/gone.rs\n- a\n+\nkilled by nothing a::b\n\n\
                    short crates/nothing/Cargo.toml\n- version\nkilled by nothing a::b\n\n\
                    unknown crates/nothing/Cargo.toml\n- version\n+\nkilled by gone a::b\n\n\
                    nameless crates/nothing/Cargo.toml\n- version\n+\nkilled by nothing\n\n\
                    good crates/nothing/Cargo.toml\n- version\n+\nkilled by nothing a::b\n";
        let (mutants, report) = read(&Fixture::new(&[(PATH, list)]).workspace());
        assert_eq!(mutants.len(), 2);
        assert_eq!((mutants[0].line, mutants[0].name.as_str()), (3, "good"));
        assert_eq!((mutants[0].text.as_str(), mutants[0].replacement.as_str()), ("version", ""));
        let selector = ["--package", "nothing", "--lib"].map(str::to_owned).to_vec();
        let killer = Killer { binary: "nothing".to_owned(), test: "a::b".to_owned(), selector };
        assert_eq!(mutants[0].expected, Expected::Killed(killer));
        assert_eq!(mutants[1].replacement, " v");
        assert_eq!(mutants[1].expected, Expected::Survives("it is empty".to_owned()));
        let failures: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        let file = "crates/nothing/Cargo.toml";
        let expected = [
            format!("13: twice: \"\\\"\" stands 6 times in {file}: give text that stands there once"),
            format!(
                "18: missing: \"nowhere\" does not stand in {file}: give text that stands there once"
            ),
            "23: moved: crates/gone.rs is not a file of this tree".to_owned(),
            "28: is not `<name> <file>`, `- <text>`, `+ <text>`, `killed by <binary id> <test>` or \
             `survives <reason>`, each on a line"
                .to_owned(),
            "32: unknown: there is no test binary gone: name one".to_owned(),
            "37: nameless: `killed by nothing` does not say `<binary id> <test name>`: add what lacks"
                .to_owned(),
            "42: good is the name of an entry above: choose another".to_owned(),
        ]
        .map(|line| format!("{PATH}:{line}"));
        assert_eq!(failures, expected);
    }

    #[test]
    fn a_missing_list_is_a_failure() {
        let (_, report) = read(&Fixture::new(&[]).workspace());
        assert_eq!(report.failures, [Finding::new(PATH, "is missing")]);
    }
}
