//! Prose in the field's words: no sentence begins with a pronoun in place of what it is about, and
//! no comment or name uses a word that the project has replaced.
//!
//! Crates that still have such prose are listed with their numbers, which may only fall.

use std::collections::BTreeMap;

use crate::finding::{Finding, Report};
use crate::source::prose::{self, Place, Sentence};
use crate::source::{RustFile, TokenKind};
use crate::workspace::Workspace;

/// The list of directories that still have such prose; none if there is no such file.
const PATH: &str = "xtask/words.txt";

/// Beginnings of a sentence that don't name its subject; a question may begin so.
const BEGINNINGS: &[&str] =
    &["Who", "Whoever", "Whom", "Whose", "What", "Whatever", "Those", "That", "Of", "By so"];

/// Replaced words, each with the field's.
const REPLACED: &[(&str, &str)] = &[
    ("cheap", "low cost"),
    ("cheaper", "lower cost"),
    ("curious", "due for a probe"),
    ("dear", "high cost"),
    ("dearer", "higher cost"),
    ("errand", "migration"),
    ("errands", "migrations"),
    ("mover", "migration"),
    ("owed", "lag, or write-back debt"),
    ("owes", "lag, or write-back debt"),
    ("patience", "idling, or timeout"),
    ("sole", "exclusive"),
    ("swing", "slice length, or range of the lag"),
];

/// Findings of one directory.
#[derive(Default)]
struct Prose {
    sentences: Vec<Finding>,
    words: Vec<Finding>,
}

/// How many sentences begin wrongly, and how many words are replaced ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    sentences: usize,
    words: usize,
}

/// Judges Rust files by package, and the Markdown files at the root and of the manual one by one.
pub(super) fn judge(workspace: &Workspace) -> Report {
    let mut found: BTreeMap<&str, Prose> = BTreeMap::new();
    for package in &workspace.packages {
        let dir = format!("{}/", package.dir);
        let prose = found.entry(&package.dir).or_default();
        workspace.rust_under(&dir).for_each(|file| prose.add_rust(file));
    }
    for file in workspace.texts.iter().filter(|it| is_page(&it.path)) {
        let sentences = prose::of_markdown(&file.text);
        found.entry(&file.path).or_default().add_sentences(&file.path, &sentences);
    }
    let (listed, failures) = read(workspace.text(PATH).map_or("", |file| &file.text));
    let mut report = Report::from(failures);
    for (place, prose) in &found {
        let known = listed.get(place).copied().unwrap_or_default();
        prose.compare(place, known, &mut report.failures);
    }
    for place in listed.keys().filter(|place| !found.contains_key(*place)) {
        let what = format!("is listed in {PATH} and is no crate: remove its line");
        report.failures.push(Finding::new(*place, what));
    }
    report
}

/// Whether this is a Markdown file at the root, or a page of the manual.
fn is_page(path: &str) -> bool {
    path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"))
}

/// The list's lines, and the findings in the others.
fn read(text: &str) -> (BTreeMap<&str, Size>, Vec<Finding>) {
    let (mut listed, mut failures) = (BTreeMap::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] | ["#", ..] => {}
            [place, sentences, words]
                if let (Ok(sentences), Ok(words)) = (sentences.parse(), words.parse()) =>
            {
                listed.insert(*place, Size { sentences, words });
            }
            _ => {
                let what = "is not `<directory> <sentences> <words>`";
                failures.push(Finding::at(PATH, index + 1, what));
            }
        }
    }
    (listed, failures)
}

impl Prose {
    fn add_rust(&mut self, file: &RustFile) {
        let sentences = prose::of_rust(&file.text);
        self.add_sentences(&file.path, &sentences);
        for token in &file.tokens {
            if let TokenKind::Ident(name) = &token.kind {
                self.add_words(&file.path, token.at.line, words_of(name));
            }
        }
    }

    fn add_sentences(&mut self, path: &str, sentences: &[Sentence]) {
        for sentence in sentences {
            if let Some(beginning) = wrong_beginning(sentence) {
                let what = format!("a sentence begins with \"{beginning}\": name its subject");
                self.sentences.push(Finding::at(path, sentence.line, what));
            }
            if sentence.place == Place::Comment {
                let words = sentence.text.split(|it: char| !it.is_alphanumeric() && it != '_');
                self.add_words(path, sentence.line, words.flat_map(words_of));
            }
        }
    }

    fn add_words(&mut self, path: &str, line: usize, words: impl Iterator<Item = String>) {
        for word in words {
            if let Some((word, instead)) = REPLACED.iter().find(|(known, _)| *known == word) {
                let what = format!("\"{word}\" is replaced: say {instead}");
                self.words.push(Finding::at(path, line, what));
            }
        }
    }

    fn compare(&self, place: &str, known: Size, failures: &mut Vec<Finding>) {
        let size = Size { sentences: self.sentences.len(), words: self.words.len() };
        if size == known {
            return;
        }
        if size.sentences > known.sentences {
            failures.extend_from_slice(&self.sentences);
        }
        if size.words > known.words {
            failures.extend_from_slice(&self.words);
        }
        let Size { sentences, words } = size;
        let (listed, above) = (known.text(), sentences > known.sentences || words > known.words);
        let advice = if above { "reword" } else { "lower the numbers" };
        let what = format!("has {}; {PATH} lists {listed}: {advice}", size.text());
        failures.push(Finding::new(place, what));
    }
}

impl Size {
    fn text(self) -> String {
        format!("{} sentences without a subject and {} replaced words", self.sentences, self.words)
    }
}

/// The words of a name in lower case: `SetRate` and `set_rate` have two.
fn words_of(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for it in name.chars() {
        if it == '_' || it.is_uppercase() && small {
            words.push(String::new());
        }
        small = it.is_lowercase() || it.is_ascii_digit();
        words.last_mut().into_iter().for_each(|word| word.extend(it.to_lowercase()));
    }
    words.into_iter().map(|word| word.trim_matches('_').to_owned())
}

/// The beginning of a sentence that does not name its subject. A text that is nothing else is a name.
fn wrong_beginning(sentence: &Sentence) -> Option<&'static str> {
    let text = sentence.text.trim_start_matches(|it: char| !it.is_alphanumeric());
    let is_name = sentence.place == Place::Text && BEGINNINGS.contains(&text);
    if is_name || text.trim_end_matches('*').ends_with('?') {
        return None;
    }
    BEGINNINGS.iter().copied().find(|beginning| {
        text.strip_prefix(beginning)
            .is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    const FILE: &str = "crates/nothing/src/lib.rs";

    fn judged(source: &str, list: &str) -> Vec<String> {
        failures(judge, &[(FILE, source), (PATH, list)])
    }

    /// This file passes its own gate: no text here is a whole sentence of the kind.
    fn sentence(beginning: &str) -> String {
        [beginning, "rests leaves the set."].join(" ")
    }

    #[test]
    fn each_beginning_is_found_in_comments_texts_and_pages() {
        for beginning in BEGINNINGS {
            let sentence = sentence(beginning);
            let text = format!("fn f() {{ g(\"Fine. {sentence}\") }}");
            for source in [format!("/// {sentence}\nfn f() {{}}"), format!("// {sentence}"), text] {
                let found = judged(&source, "");
                assert_eq!(found.len(), 2, "{source}: {found:?}");
                assert!(found[0].starts_with(&format!("{FILE}:1: a sentence begins with")));
                assert!(found[1].starts_with("crates/nothing: has 1 sentences"), "{found:?}");
            }
            let page = failures(judge, &[("README.md", &sentence), ("docs/a.md", &sentence)]);
            assert_eq!(page.len(), 4, "{page:?}");
        }
    }

    #[test]
    fn subjects_questions_and_names_pass() {
        let fine = "// **What is a share?** What is a share? It is a part. Thatched roofs, Offsets and whose they are.\n\
                    fn f() { g(\"What\"); }\n// ```\n// What code says.\n// ```";
        assert_eq!(judged(fine, ""), Vec::<String>::new());
    }

    #[test]
    fn each_replaced_word_is_found_in_comments_and_names() {
        for (word, instead) in REPLACED {
            let shouted = word.to_uppercase();
            for source in [
                format!("// It is {word}, so."),
                format!("fn f() {{ let a_{word}_b = 0; }}"),
                format!("const {shouted}_MAX: u32 = 0;"),
            ] {
                let found = judged(&source, "");
                assert_eq!(found.len(), 2, "{source}: {found:?}");
                assert!(found[0].contains(instead), "{found:?}");
            }
        }
        assert_eq!(words_of("SetRateBy").collect::<Vec<_>>(), ["set", "rate", "by"]);
        assert_eq!(judged("fn f() { g(\"it is cheap\", borrowed) }", ""), Vec::<String>::new());
    }

    #[test]
    fn numbers_of_the_list_may_only_fall() {
        let source = format!("// {}\n// Fine: {}\n", sentence("What"), REPLACED[0].0);
        assert_eq!(judged(&source, "# comment\ncrates/nothing 1 1\n"), Vec::<String>::new());
        let found = judged(&source, "crates/nothing 2 1");
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("lower the numbers"), "{found:?}");
        let found = judged(&source, "crates/nothing 1 0");
        assert!(found.len() == 2 && found[1].ends_with("reword"), "{found:?}");
        let found = judged(&source, "crates/nothing 1 1\ncrates/gone 1 1\ncrates/bad one 1");
        let expected = [format!("{PATH}:3: is not"), "crates/gone: is listed in".to_owned()];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(&expected), "{found}");
        }
    }
}
