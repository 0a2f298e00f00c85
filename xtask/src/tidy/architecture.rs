//! ARCHITECTURE.md exists, is read in one sitting, and its code map names every crate and no other.

use std::collections::BTreeSet;

use crate::finding::{Finding, Report};
use crate::workspace::Workspace;

const PATH: &str = "ARCHITECTURE.md";
/// About five pages.
const WORDS_MAX: usize = 2_500;
const HEADING: &str = "code map";

/// Finds a missing or long document, and differences between its code map and the workspace.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let Some(file) = workspace.text(PATH) else {
        return vec![Finding::new(PATH, "is missing")].into();
    };
    let mut failures = Vec::new();
    let words = file.text.split_whitespace().count();
    if words > WORDS_MAX {
        failures.push(Finding::new(PATH, format!("has {words} words, more than {WORDS_MAX}")));
    }
    match code_map(&file.text) {
        Some(map) => compare(workspace, &map, &mut failures),
        None => failures.push(Finding::new(PATH, "has no heading \"Code map\"")),
    }
    failures.into()
}

/// The section under the heading, up to the next heading of the same or a higher level.
fn code_map(text: &str) -> Option<String> {
    let level = |line: &str| line.chars().take_while(|it| *it == '#').count();
    let is_heading = |line: &&str| level(line) > 0 && line.to_lowercase().contains(HEADING);
    let mut lines = text.lines().skip_while(|line| !is_heading(line));
    let heading = lines.next()?;
    let ends = |line: &&str| level(line) > 0 && level(line) <= level(heading);
    Some(lines.take_while(|line| !ends(line)).collect::<Vec<_>>().join("\n"))
}

fn compare(workspace: &Workspace, map: &str, failures: &mut Vec<Finding>) {
    let dirs: BTreeSet<&str> = workspace.packages.iter().map(|it| it.dir.as_str()).collect();
    let named = named_dirs(map);
    for dir in dirs.iter().filter(|dir| !named.contains(**dir)) {
        failures.push(Finding::new(PATH, format!("the code map does not name {dir}")));
    }
    for dir in named.iter().filter(|dir| !dirs.contains(dir.as_str())) {
        failures.push(Finding::new(PATH, format!("the code map names {dir}, which is no crate")));
    }
}

/// `xtask` and every `crates/<name>`, whatever path follows.
fn named_dirs(map: &str) -> BTreeSet<String> {
    let is_path = |it: char| it.is_alphanumeric() || matches!(it, '/' | '_' | '-');
    map.split(|it| !is_path(it))
        .filter_map(|word| {
            let mut parts = word.trim_start_matches('/').split('/');
            match (parts.next(), parts.next()) {
                (Some("crates"), Some(name)) if !name.is_empty() => Some(format!("crates/{name}")),
                (Some("xtask"), _) => Some("xtask".to_owned()),
                _ => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    #[test]
    fn a_document_must_exist() {
        assert_eq!(failures(run, &[]), ["ARCHITECTURE.md: is missing"]);
    }

    #[test]
    fn a_map_of_exactly_the_crates_passes() {
        let text =
            "# A\ncrates/other\n## Code map\n- `crates/nothing/src/lib.rs`\n## B\ncrates/b\n";
        assert_eq!(failures(run, &[(PATH, text)]), Vec::<String>::new());
    }

    #[test]
    fn the_map_must_exist_and_agree_both_ways() {
        let no_map = [(PATH, "# A\ncrates/nothing\n")];
        assert_eq!(failures(run, &no_map), ["ARCHITECTURE.md: has no heading \"Code map\""]);
        assert_eq!(
            failures(run, &[(PATH, "## The code map\n| [`crates/gone`](crates/gone) |\n")]),
            [
                "ARCHITECTURE.md: the code map does not name crates/nothing",
                "ARCHITECTURE.md: the code map names crates/gone, which is no crate",
            ]
        );
    }

    #[test]
    fn a_long_document_is_found() {
        let text = format!("## Code map\ncrates/nothing {}", "word ".repeat(WORDS_MAX));
        assert_eq!(
            failures(run, &[(PATH, &text)]),
            ["ARCHITECTURE.md: has 2504 words, more than 2500"]
        );
    }
}
