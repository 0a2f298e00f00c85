//! Text that says more about where it was written than about the project: a machine's paths, a
//! workplace's words, marks of unfinished work, registries that a stranger can't reach. And prose
//! that a stranger can't follow ([`language`]).

mod language;

use crate::finding::{Finding, Report};
use crate::workspace::{TextFile, Workspace};

const LOCK_FILE: &str = "Cargo.lock";
const REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

/// A text that must not occur. It is spelt in two halves, so that this file passes its own gate.
struct Needle {
    halves: (&'static str, &'static str),
    /// Only between characters that don't belong to a word.
    whole_word: bool,
}

const fn path(first: &'static str, second: &'static str) -> Needle {
    Needle { halves: (first, second), whole_word: false }
}

const fn word(first: &'static str, second: &'static str) -> Needle {
    Needle { halves: (first, second), whole_word: true }
}

const NEEDLES: &[Needle] = &[
    path("/wor", "k/"),
    path("/far", "m/"),
    path("/roo", "t/"),
    path(".inter", "nal/"),
    path("artif", "actory"),
    word("seed do", "cument"),
    word("suba", "gent"),
    word("suba", "gents"),
    word("C", "EO"),
    word("TO", "DO"),
    word("FIX", "ME"),
    word("XX", "X"),
    word("HA", "CK"),
];

/// Finds such text in every file, dependencies that don't come from crates.io, and prose without
/// the field's words.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut failures = Vec::new();
    for file in &workspace.texts {
        if file.path == LOCK_FILE {
            check_sources(file, &mut failures);
        } else {
            check_needles(file, &mut failures);
        }
    }
    failures.extend(language::judge(workspace).failures);
    failures.into()
}

fn check_needles(file: &TextFile, failures: &mut Vec<Finding>) {
    let needles: Vec<_> = NEEDLES
        .iter()
        .map(|it| (format!("{}{}", it.halves.0, it.halves.1), it.whole_word))
        .collect();
    for (index, line) in file.text.lines().enumerate() {
        for (needle, whole_word) in &needles {
            if occurs(line, needle, *whole_word) {
                let what = format!("{needle:?} does not belong in the project");
                failures.push(Finding::at(&file.path, index + 1, what));
            }
        }
    }
}

fn occurs(line: &str, needle: &str, whole_word: bool) -> bool {
    let in_word = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(needle).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + needle.len()..].chars().next();
        !whole_word || !in_word(before) && !in_word(after)
    })
}

fn check_sources(file: &TextFile, failures: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("source = ") && line != REGISTRY {
            failures.push(Finding::at(
                &file.path,
                index + 1,
                format!("not from crates.io: {line}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    #[test]
    fn every_needle_is_found_in_every_kind_of_file() {
        for needle in NEEDLES {
            let text = format!("fine\nsee {}{}.\n", needle.halves.0, needle.halves.1);
            for path in ["a.md", "crates/nothing/src/lib.rs", ".ci/run"] {
                let found = failures(run, &[(path, &text)]);
                assert_eq!(found.len(), 1, "{path}: {text}: {found:?}");
                assert!(found[0].starts_with(&format!("{path}:2: ")), "{found:?}");
            }
        }
    }

    #[test]
    fn words_are_whole_and_paths_are_not() {
        assert!(!occurs("ABCD and ABC_D", "ABC", true));
        assert!(occurs("(ABC)", "ABC", true));
        assert!(occurs("at /a/b/", "/a/", false));
        assert!(!occurs("crates/workload/src, tests/root.rs", &["/wor", "k/"].concat(), false));
    }

    #[test]
    fn a_dependency_from_elsewhere_is_found() {
        let lock = format!("{REGISTRY}\nsource = \"git+https://example.com/x\"\n");
        assert_eq!(
            failures(run, &[(LOCK_FILE, &lock)]),
            ["Cargo.lock:2: not from crates.io: source = \"git+https://example.com/x\""]
        );
    }
}
