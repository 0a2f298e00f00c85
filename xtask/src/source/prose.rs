//! A Rust file's prose: its comments, and its texts in quotes.
//!
//! Does not know: which words are wanted.

use std::iter::Peekable;
use std::str::CharIndices;

/// Where a sentence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Comment,
    Text,
}

/// A sentence, its words separated by one space each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) place: Place,
    /// The line of its first word, counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A line of a comment without its marker, or all of a text between its quotes.
#[derive(Debug, PartialEq, Eq)]
struct Fragment<'a> {
    place: Place,
    line: usize,
    text: &'a str,
}

/// The sentences of a Rust file, in their order. Fenced code, headings and tables have none.
pub(crate) fn of_rust(text: &str) -> Vec<Sentence> {
    sentences(&fragments(text))
}

/// The sentences of a Markdown file.
pub(crate) fn of_markdown(text: &str) -> Vec<Sentence> {
    let line = |(index, text)| Fragment { place: Place::Comment, line: index + 1, text };
    sentences(&text.lines().enumerate().map(line).collect::<Vec<_>>())
}

fn sentences(fragments: &[Fragment<'_>]) -> Vec<Sentence> {
    let mut gathered = Gathered::default();
    let (mut before, mut fenced) = (0, false);
    for fragment in fragments {
        let text = fragment.text.trim();
        let goes_on = fragment.place == Place::Comment && fragment.line == before + 1;
        fenced &= goes_on;
        before = if fragment.place == Place::Comment { fragment.line } else { 0 };
        if !goes_on || begins_anew(text) {
            gathered.end();
        }
        if fragment.place == Place::Comment && text.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !text.starts_with(['#', '|']) {
            gathered.add(fragment);
        }
        if fragment.place == Place::Text {
            gathered.end();
        }
    }
    gathered.end();
    gathered.done
}

/// Whether no sentence goes on from the line before into this one.
fn begins_anew(line: &str) -> bool {
    line.is_empty() || line.starts_with(['#', '|', '-', '*']) || line.starts_with("```")
}

#[derive(Default)]
struct Gathered {
    done: Vec<Sentence>,
    current: Option<Sentence>,
}

impl Gathered {
    fn add(&mut self, fragment: &Fragment<'_>) {
        for (index, line) in fragment.text.lines().enumerate() {
            for word in line.split_whitespace() {
                match &mut self.current {
                    Some(sentence) => {
                        sentence.text.push(' ');
                        sentence.text.push_str(word);
                    }
                    None => {
                        let (place, line) = (fragment.place, fragment.line + index);
                        self.current = Some(Sentence { place, line, text: word.to_owned() });
                    }
                }
                if word.trim_end_matches(['"', ')', ']', '*', '`']).ends_with(['.', '!', '?']) {
                    self.end();
                }
            }
        }
    }

    fn end(&mut self) {
        self.done.extend(self.current.take());
    }
}

/// Comments and texts in the order of the file. The file is Rust, so every quote is closed.
fn fragments(text: &str) -> Vec<Fragment<'_>> {
    let mut found = Vec::new();
    let mut scanner = Scanner { text, chars: text.char_indices().peekable(), line: 1 };
    let mut name = false;
    while let Some((at, it)) = scanner.next() {
        let line = scanner.line;
        match it {
            '/' if scanner.peek() == Some('/') => {
                let end = scanner.until(|scanner| scanner.peek() == Some('\n'));
                let text = text[at..end].trim_start_matches('/').trim_start_matches('!');
                found.push(Fragment { place: Place::Comment, line, text });
            }
            '"' => {
                let text = scanner.quoted(at + 1);
                found.push(Fragment { place: Place::Text, line, text });
            }
            'r' if !name && matches!(scanner.peek(), Some('"' | '#')) => {
                let text = scanner.raw();
                found.extend(text.map(|text| Fragment { place: Place::Text, line, text }));
            }
            '\'' => scanner.skip_character(),
            _ => {}
        }
        // `br"…"` and `cr"…"` are raw, too; `for"` is no Rust.
        let prefixes = !name && matches!(it, 'b' | 'c');
        name = !prefixes && (it.is_alphanumeric() || it == '_');
    }
    found
}

struct Scanner<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn next(&mut self) -> Option<(usize, char)> {
        let next = self.chars.next();
        self.line += usize::from(matches!(next, Some((_, '\n'))));
        next
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, it)| *it)
    }

    /// Goes on until the condition holds; answers the place.
    fn until(&mut self, holds: impl Fn(&mut Self) -> bool) -> usize {
        while self.chars.peek().is_some() && !holds(self) {
            self.next();
        }
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    /// The rest of a text that begins at `start`, behind its quote.
    fn quoted(&mut self, start: usize) -> &'a str {
        while let Some((at, it)) = self.next() {
            match it {
                '"' => return &self.text[start..at],
                '\\' => {
                    self.next();
                }
                _ => {}
            }
        }
        &self.text[start..]
    }

    /// A raw text behind its `r`; none if this is a raw name.
    fn raw(&mut self) -> Option<&'a str> {
        let mut hashes = 0;
        while self.peek() == Some('#') {
            self.next();
            hashes += 1;
        }
        if self.peek() != Some('"') {
            return None;
        }
        let (start, _) = self.next()?;
        let close = format!("\"{}", "#".repeat(hashes));
        let length = self.text[start + 1..].find(&close)?;
        let end = start + 1 + length;
        self.until(|scanner| scanner.chars.peek().is_some_and(|(at, _)| *at >= end + close.len()));
        Some(&self.text[start + 1..end])
    }

    /// A character behind its quote, or the quote of a lifetime alone.
    fn skip_character(&mut self) {
        let mut rest = self.chars.clone().map(|(_, it)| it);
        match (rest.next(), rest.next()) {
            (Some('\\'), _) => {
                self.next();
                self.next();
                self.until(|scanner| scanner.peek() == Some('\''));
                self.next();
            }
            (Some(_), Some('\'')) => {
                self.next();
                self.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(usize, Place, String)> {
        of_rust(text).into_iter().map(|it| (it.line, it.place, it.text)).collect()
    }

    #[test]
    fn sentences_run_over_lines_and_end_at_marks_and_empty_lines() {
        let text =
            "//! One ends here. Two goes\n//! on. Three?\n//!\n//! - Four\n//! - Five\nfn a() {}\n";
        let expected = [
            (1, "One ends here."),
            (1, "Two goes on."),
            (2, "Three?"),
            (4, "- Four"),
            (5, "- Five"),
        ];
        let expected: Vec<_> =
            expected.map(|(line, text)| (line, Place::Comment, text.to_owned())).into();
        assert_eq!(texts(text), expected);
    }

    #[test]
    fn code_headings_and_tables_have_no_sentences() {
        assert_eq!(
            texts("/// # Errors\n/// ```\n/// let a;\n/// ```\n/// | a | b |\nfn a() {}"),
            []
        );
    }

    #[test]
    fn texts_and_comments_are_told_apart() {
        let text = "fn f<'a>(x: &'a str) { g('\"', '\\'', b'/'); // One.\n\
                    h(\"// Two.\\\"\", r#\"\"Three.\" // still\"#, br\"Four.\"); }\n// Five.";
        let expected = [
            (1, Place::Comment, "One."),
            (2, Place::Text, "// Two.\\\""),
            (2, Place::Text, "\"Three.\""),
            (2, Place::Text, "// still"),
            (2, Place::Text, "Four."),
            (3, Place::Comment, "Five."),
        ];
        let expected: Vec<_> =
            expected.map(|(line, place, text)| (line, place, text.into())).into();
        assert_eq!(texts(text), expected);
    }
}
