//! Whether a test notices a mutant.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};

use super::list::{Expected, Killer, Mutant};
use super::scratch::Scratch;
use crate::finding::Finding;
use crate::stream::{Deadline, capture, now};
use crate::workspace::cargo;

/// A test that runs longer hangs: it has noticed.
const HANGS: Duration = Duration::from_secs(60);

/// A mutant with its fate.
pub(super) struct Row<'a> {
    pub(super) mutant: &'a Mutant,
    pub(super) fate: Fate,
    pub(super) took: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Killed,
    Survived,
    /// As the list says.
    Known,
    /// With the compiler's first error.
    NotBuilt(String),
}

impl Row<'_> {
    /// The mistake that the row shows, if it shows one.
    pub(super) fn failure(&self) -> Option<Finding> {
        let what = match &self.fate {
            Fate::Killed | Fate::Known => return None,
            Fate::Survived => format!(
                "survives {}: let a test notice it, or delete the rule that nothing needs",
                self.mutant.expected
            ),
            Fate::NotBuilt(error) => format!("does not build: mend the entry: {error}"),
        };
        Some(self.mutant.finding(&what))
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seconds) = (&self.mutant.name, self.took.as_secs_f64());
        match &self.fate {
            Fate::Killed => write!(f, "{name}: killed in {seconds:.1} s"),
            Fate::Survived => write!(f, "{name}: SURVIVES, {seconds:.1} s"),
            Fate::Known => write!(f, "{name}: not judged"),
            Fate::NotBuilt(_) => write!(f, "{name}: DOES NOT BUILD"),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(Killer { binary, test, .. }) => write!(f, "{binary} {test}"),
            Self::Survives(reason) => write!(f, "- ({reason})"),
        }
    }
}

/// Runs all tests that the mutants name, without any mutant: each must be there and pass.
///
/// # Errors
/// When cargo can't be run, or the tests don't build.
pub(super) fn unmutated(
    scratch: &Scratch,
    deadline: Deadline,
    mutants: &[&Mutant],
) -> Result<Vec<Finding>> {
    let mut programs: BTreeMap<&str, Vec<(&Mutant, &Killer)>> = BTreeMap::new();
    for mutant in mutants {
        if let Expected::Killed(killer) = &mutant.expected {
            programs.entry(&killer.binary).or_default().push((mutant, killer));
        }
    }
    let mut found = Vec::new();
    for (binary, named) in programs {
        println!("{binary}: the tests pass without any mutant?");
        let mut words = named[0].1.selector.clone();
        build(scratch, deadline, &words)?.map_or(Ok(()), |error| {
            bail!("{binary} does not build without any mutant: {error}: mend it first")
        })?;
        words.extend(["--no-fail-fast", "--", "--exact"].map(str::to_owned));
        words.extend(named.iter().map(|(_, killer)| killer.test.clone()));
        let ended = capture(scratch.test(deadline, &words))?;
        for (mutant, killer) in named {
            let said = |end: &str| ended.lines.contains(&format!("test {} ... {end}", killer.test));
            let what = match (said("ok"), said("FAILED")) {
                (true, false) => continue,
                (_, true) => "fails without any mutant: mend the test",
                _ => "did not run: name a test of that program",
            };
            found.push(mutant.finding(&format!("names {}, which {what}", mutant.expected)));
        }
    }
    found.sort();
    Ok(found)
}

/// Judges one mutant.
///
/// # Errors
/// When cargo can't be run, a file can't be written, or the time is up.
pub(super) fn of<'a>(scratch: &Scratch, deadline: Deadline, mutant: &'a Mutant) -> Result<Row<'a>> {
    let Expected::Killed(killer) = &mutant.expected else { return Ok(untested(mutant)) };
    let started = now();
    let fate = scratch.with(mutant, || {
        if let Some(error) = build(scratch, deadline, &killer.selector)? {
            return Ok(Fate::NotBuilt(error));
        }
        let words =
            [killer.selector.clone(), ["--", "--exact", &killer.test].map(str::to_owned).into()];
        let command = deadline.command_within(HANGS, &cargo());
        let ended = capture(scratch.configure(command, &words.concat()))?;
        Ok(if ended.failure.is_some() { Fate::Killed } else { Fate::Survived })
    })?;
    if deadline.is_over() {
        bail!("the time was up at mutant {}: allow more, or judge fewer", mutant.name);
    }
    Ok(Row { mutant, fate, took: started.elapsed() })
}

/// A mutant that no test is said to notice.
pub(super) fn untested(mutant: &Mutant) -> Row<'_> {
    Row { mutant, fate: Fate::Known, took: Duration::ZERO }
}

/// Builds a test program. Answers the first error if it can't be built.
fn build(scratch: &Scratch, deadline: Deadline, selector: &[String]) -> Result<Option<String>> {
    let words = [selector, &["--no-run".to_owned()]].concat();
    let ended = capture(scratch.test(deadline, &words))?;
    Ok(ended.build_failure().map(str::to_owned))
}
