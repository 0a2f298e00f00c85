//! Tests that are known to fail are listed with their reasons. They are judged apart from the others:
//! to fail is right for them, to pass means that the list is out of date.

use super::counts::Counts;
use super::test_name::TestName;
use crate::finding::{Finding, Report};
use crate::workspace::{TestBinary, Workspace};

const PATH: &str = "xtask/expected-red.txt";

/// One line of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    line: usize,
    pub(super) name: TestName,
    reason: String,
}

/// The fate of a listed test.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Red,
    Passed,
    Gone,
}

/// The list's usable entries, and what is wrong with the others.
pub(super) fn read(workspace: &Workspace) -> (Vec<Entry>, Report) {
    let Some(file) = workspace.text(PATH) else {
        return (Vec::new(), vec![Finding::new(PATH, "is missing")].into());
    };
    let (mut entries, mut failures) = (Vec::new(), Vec::new());
    let binaries: Vec<_> = workspace.packages.iter().flat_map(|it| &it.binaries).collect();
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match parse(index + 1, line, &binaries) {
            Ok(entry) => entries.push(entry),
            Err(what) => failures.push(Finding::at(PATH, index + 1, what)),
        }
    }
    (entries, failures.into())
}

fn parse(line: usize, text: &str, binaries: &[&TestBinary]) -> Result<Entry, String> {
    let mut words = text.splitn(3, char::is_whitespace).map(str::trim);
    let (Some(binary), Some(test), Some(reason)) = (words.next(), words.next(), words.next())
    else {
        return Err("is not `<binary id> <test name> <reason>`".to_owned());
    };
    let Some(known) = binaries.iter().find(|known| known.id == binary) else {
        return Err(format!("there is no test binary {binary}: remove it"));
    };
    let (binary, test, selector) = (binary.to_owned(), test.to_owned(), known.selector.clone());
    Ok(Entry { line, name: TestName { binary, test, selector }, reason: reason.to_owned() })
}

/// Judges the listed tests by how each has ended. They are counted as skipped; one that turns out to pass is
/// counted as that.
pub(super) fn judge_all(
    listed: &[Entry],
    ended: &[Counts],
    counts: &mut Counts,
    report: &mut Report,
) {
    for (entry, counted) in listed.iter().zip(ended) {
        let fate = fate(*counted);
        if fate == Fate::Passed {
            counts.passed += 1;
            counts.skipped = counts.skipped.saturating_sub(1);
        }
        judge(entry, &fate, report);
    }
}

fn fate(counts: Counts) -> Fate {
    match counts {
        Counts { failed: 1.., .. } => Fate::Red,
        Counts { passed: 1.., .. } => Fate::Passed,
        _ => Fate::Gone,
    }
}

fn judge(entry: &Entry, fate: &Fate, report: &mut Report) {
    let name = entry.name.text();
    let stale = |what| Finding::at(PATH, entry.line, format!("{name} {what}: remove it"));
    match fate {
        Fate::Red => {
            report.notes.push(Finding::new(name, format!("expected red: {}", entry.reason)));
        }
        Fate::Passed => report.failures.push(stale("is no longer red")),
        Fate::Gone => report.failures.push(stale("did not run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn read_list(text: &str) -> (Vec<Entry>, Vec<String>) {
        let (entries, report) = read(&Fixture::new(&[(PATH, text)]).workspace());
        (entries, report.failures.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn entries_are_read_and_mistakes_named() {
        let (entries, failures) =
            read_list("# why\n\nnothing a::b not written yet\nnothing a::b\ngone c it was moved\n");
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].name.text(), "nothing a::b");
        assert_eq!(entries[0].reason, "not written yet");
        assert_eq!(entries[0].name.selector, ["--package", "nothing", "--lib"]);
        assert_eq!(
            failures,
            [
                "xtask/expected-red.txt:4: is not `<binary id> <test name> <reason>`",
                "xtask/expected-red.txt:5: there is no test binary gone: remove it",
            ]
        );
    }

    #[test]
    fn a_missing_list_is_a_failure() {
        let (_, report) = read(&Fixture::new(&[]).workspace());
        assert_eq!(report.failures, [Finding::new(PATH, "is missing")]);
    }

    #[test]
    fn only_red_passes() {
        let (entries, _) = read_list("nothing a::b not written yet");
        for (counts, failures, notes) in [
            (Counts { failed: 1, ..Counts::default() }, 0, 1),
            (Counts { passed: 1, ..Counts::default() }, 1, 0),
            (Counts { skipped: 9, ..Counts::default() }, 1, 0),
        ] {
            let mut report = Report::default();
            judge(&entries[0], &fate(counts), &mut report);
            assert_eq!((report.failures.len(), report.notes.len()), (failures, notes));
        }
    }
}
