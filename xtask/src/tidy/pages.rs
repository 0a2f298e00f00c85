//! The manual is read: README.md is short, each page of `docs/` is in the table of contents, has a
//! bounded number of words and short sentences, and each block of commands says whether it is run.
//!
//! Exceptions are listed with their numbers, which a page may not exceed.

use std::collections::BTreeMap;

use crate::finding::{Finding, Report};
use crate::source::prose;
use crate::workspace::{TextFile, Workspace};

/// The exceptions; none if there is no such file.
const PATH: &str = "xtask/prose.txt";
const FRONT: &str = "README.md";
const FRONT_LINES_MAX: usize = 150;
const CONTENTS: &str = "docs/README.md";
/// Words of a page without its blocks of code.
const WORDS_MAX: usize = 1_500;
/// Words of a sentence.
const SENTENCE_MAX: usize = 35;
/// Pages of derivations, whose sentences may be long.
const DERIVATIONS: &str = "docs/appendix/";
/// Kinds of fenced blocks in a page with commands.
const LANGUAGES: &[&str] = &["sh", "text", "toml", "xml", "yaml", "json", "c", "python"];
/// The word behind `sh` where a test does not run the block; the reason follows.
const NOT_RUN: &str = "not-run:";

/// The measure that a page exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Excess {
    Words,
    Sentences,
}

type Exceptions<'a> = BTreeMap<(&'a str, Excess), usize>;

/// Finds pages that are long, hard to read, or not to be found.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let (listed, mut failures) = read(workspace.text(PATH).map_or("", |file| &file.text));
    let mut used = Exceptions::new();
    for file in workspace.texts.iter().filter(|it| is_page(&it.path)) {
        for (excess, size, found) in [words(file), sentences(file)] {
            let key = (file.path.as_str(), excess);
            let allowed = listed.get(&key).copied().unwrap_or(0);
            if size > allowed {
                failures.extend(found);
            }
            if size > 0 {
                used.insert(key, size);
            }
        }
        if has_commands(&file.path) {
            failures.extend(blocks(file));
        }
    }
    for (page, excess) in listed.keys().filter(|key| !used.contains_key(key)) {
        let what = format!("needs no exception for its {excess:?} any more: remove its line");
        failures.push(Finding::new(PATH, format!("{page} {}", what.to_lowercase())));
    }
    failures.extend(front(workspace));
    failures.extend(contents(workspace));
    failures.into()
}

fn is_page(path: &str) -> bool {
    path == FRONT || path.starts_with("docs/") && path.ends_with(".md")
}

/// Pages that somebody follows with a terminal.
fn has_commands(path: &str) -> bool {
    path == FRONT || path.starts_with("docs/tutorial") || path.starts_with("docs/how-to/")
}

/// The list's lines, and the findings in the others.
fn read(text: &str) -> (Exceptions<'_>, Vec<Finding>) {
    let (mut listed, mut failures) = (Exceptions::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let excess = match words.get(1) {
            Some(&"words") => Some(Excess::Words),
            Some(&"sentences") => Some(Excess::Sentences),
            _ => None,
        };
        let number = words.get(2).and_then(|it| it.parse().ok());
        match (words.as_slice(), excess, number) {
            ([] | ["#", ..], ..) => {}
            ([page, _, _, _reason, ..], Some(excess), Some(number)) => {
                listed.insert((page, excess), number);
            }
            _ => {
                let what = "is not `<page> words|sentences <number> <reason>`";
                failures.push(Finding::at(PATH, index + 1, what));
            }
        }
    }
    (listed, failures)
}

fn is_word(text: &&str) -> bool {
    text.contains(char::is_alphanumeric)
}

/// Words above what a page may have; none if there are no more than that.
fn words(file: &TextFile) -> (Excess, usize, Vec<Finding>) {
    let count = prose_lines(&file.text).flat_map(str::split_whitespace).filter(is_word).count();
    let what = format!("has {count} words, more than {WORDS_MAX}: split it, or list it in {PATH}");
    let size = if count > WORDS_MAX { count } else { 0 };
    (Excess::Words, size, vec![Finding::new(file.path.as_str(), what)])
}

/// Lines that are not in a fenced block.
fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn sentences(file: &TextFile) -> (Excess, usize, Vec<Finding>) {
    let judged = !file.path.starts_with(DERIVATIONS);
    let found: Vec<_> = prose::of_markdown(&file.text)
        .iter()
        .filter(|_| judged)
        .filter_map(|it| {
            let count = it.text.split_whitespace().filter(is_word).count();
            let start: String = it.text.chars().take(40).collect();
            let what = format!("a sentence of {count} words, more than {SENTENCE_MAX}: {start}…");
            (count > SENTENCE_MAX).then(|| Finding::at(&file.path, it.line, what))
        })
        .collect();
    (Excess::Sentences, found.len(), found)
}

/// Fenced blocks that don't say what they are, or why they are not run.
fn blocks(file: &TextFile) -> Vec<Finding> {
    let mut open = false;
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let Some(info) = line.strip_prefix("```") else { continue };
        open = !open;
        let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
        let says = rest.strip_prefix(NOT_RUN).is_some_and(|reason| !reason.trim().is_empty());
        if open && !(LANGUAGES.contains(&language) && (rest.is_empty() || says)) {
            let what = format!(
                "a block is {info:?}: say one of {LANGUAGES:?}, and of commands that no test runs \
                 `sh {NOT_RUN} <what it needs>`"
            );
            found.push(Finding::at(&file.path, index + 1, what));
        }
    }
    found
}

fn front(workspace: &Workspace) -> Option<Finding> {
    let lines = workspace.text(FRONT)?.text.lines().count();
    let what = format!("has {lines} lines, more than {FRONT_LINES_MAX}");
    (lines > FRONT_LINES_MAX).then(|| Finding::new(FRONT, what))
}

/// Pages that the table of contents does not link.
fn contents(workspace: &Workspace) -> Vec<Finding> {
    let Some(contents) = workspace.text(CONTENTS) else { return Vec::new() };
    let pages = workspace.texts.iter().map(|it| it.path.as_str()).filter(|it| is_page(it));
    let linked = |page: &str| contents.text.contains(&format!("]({page})"));
    pages
        .filter_map(|page| page.strip_prefix("docs/"))
        .filter(|page| *page != "README.md" && !linked(page))
        .map(|page| Finding::new(CONTENTS, format!("does not link {page}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    #[test]
    fn long_pages_and_sentences_are_found_and_listed_ones_pass() {
        let long = format!("# A\n\n{}\n", "Two words. ".repeat(WORDS_MAX / 2 + 1));
        let hard = format!("One.\n{}end.\n", "word ".repeat(SENTENCE_MAX));
        let pages = [("docs/a.md", long.as_str()), ("docs/b.md", &hard)];
        let found = failures(run, &pages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/a.md: has 1503 words, more than 1500"), "{found:?}");
        assert!(found[1].starts_with("docs/b.md:2: a sentence of 36 words"), "{found:?}");
        let list = "# page\ndocs/a.md words 1503 generated\ndocs/b.md sentences 1 generated\n";
        assert_eq!(failures(run, &[pages[0], pages[1], (PATH, list)]), Vec::<String>::new());
        let list = "docs/a.md words 1502 generated\ndocs/b.md sentences 2 generated\ndocs/c.md no";
        let found = failures(run, &[pages[0], pages[1], (PATH, list)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with(&format!("{PATH}:3: is not")), "{found:?}");
        let list = "docs/c.md words 2000 generated";
        let found = failures(run, &[("docs/c.md", "Short."), (PATH, list)]);
        assert!(found[0].contains("needs no exception"), "{found:?}");
    }

    #[test]
    fn code_and_derivations_are_not_counted() {
        let code = format!("```text\n{}\n```\n", "word ".repeat(WORDS_MAX * 2));
        let hard = format!("{}end.\n", "word ".repeat(SENTENCE_MAX));
        let pages = [("docs/a.md", code.as_str()), ("docs/appendix/b.md", &hard)];
        assert_eq!(failures(run, &pages), Vec::<String>::new());
    }

    #[test]
    fn a_page_is_in_the_table_of_contents_and_the_front_page_is_short() {
        let pages = [(CONTENTS, "[a](a.md)"), ("docs/a.md", "A."), ("docs/how-to/b.md", "B.")];
        assert_eq!(failures(run, &pages), ["docs/README.md: does not link how-to/b.md"]);
        let lines = "\n".repeat(FRONT_LINES_MAX + 1);
        assert_eq!(failures(run, &[(FRONT, &lines)]), ["README.md: has 151 lines, more than 150"]);
    }

    #[test]
    fn a_block_of_commands_says_whether_it_is_run() {
        let fine = "```sh\nls\n```\n```sh not-run: needs a disk\nls\n```\n```toml\n```\n";
        assert_eq!(failures(run, &[(FRONT, fine)]), Vec::<String>::new());
        for wrong in ["```\nls\n```", "```sh not-run:\nls\n```", "```sh maybe\nls\n```"] {
            let found = failures(run, &[("docs/how-to/a.md", wrong)]);
            assert!(found.len() == 1 && found[0].contains("a block is"), "{wrong}: {found:?}");
            assert_eq!(failures(run, &[("docs/a.md", wrong)]), Vec::<String>::new());
        }
    }
}
