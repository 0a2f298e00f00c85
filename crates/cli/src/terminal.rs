//! The terminal: its width, and colours where a person reads.
//!
//! The words of a verdict are painted wherever a command prints them ([`crate::say`]); no command
//! paints by itself. JSON has no colours.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ColorChoice, ValueEnum};

/// Columns of tables and texts: all that a reader surely has.
pub const COLUMNS: usize = 80;

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set or the terminal is `dumb`.
    #[default]
    Auto,
    /// Also into pipes and files.
    Always,
    /// Nowhere.
    Never,
}

/// Whether answers are JSON.
static JSON: AtomicBool = AtomicBool::new(false);
/// Whether standard output has data, so that documents go to standard error.
static DATA: AtomicBool = AtomicBool::new(false);
/// The choice of the command line; [`Color::Auto`] until it is known.
static ASKED: OnceLock<Color> = OnceLock::new();

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// The words of a verdict and their colours; longer ones first.
const VERDICTS: &[(&str, &str)] = &[
    ("NOT JUDGED", YELLOW),
    ("NOT kept", RED),
    ("KEPT", GREEN),
    ("SMOOTH", GREEN),
    ("holds", GREEN),
    ("BROKEN", RED),
    ("FAILED", RED),
    ("MISSED", RED),
    ("MISSING", RED),
    ("VIOLATED", RED),
];

impl Color {
    /// The same for clap, which prints help and errors of usage.
    pub fn choice(self) -> ColorChoice {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
    }

    /// The choice among the words of a command line, before it is understood; the last one counts.
    pub fn among(words: &[OsString]) -> Self {
        let mut words = words.iter().take_while(|word| *word != "--");
        let mut found = Self::Auto;
        while let Some(word) = words.next() {
            let value = match word.to_str() {
                Some("--color") => words.next().map(OsString::as_os_str),
                Some(word) => word.strip_prefix("--color=").map(OsStr::new),
                None => None,
            };
            let value = value.and_then(OsStr::to_str);
            found = value.and_then(|it| Self::from_str(it, false).ok()).unwrap_or(found);
        }
        found
    }

    /// Whether a stream has colours, by the choice, the environment, and what the stream is.
    fn holds(self, terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        let plain = || {
            variable("NO_COLOR").is_some_and(|it| !it.is_empty())
                || variable("TERM").is_none_or(|it| it == "dumb")
        };
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => terminal && !plain(),
        }
    }
}

/// From now on answers are JSON, and failures are documents as well.
pub fn as_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Whether answers are JSON.
pub fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// From now on this choice holds.
pub fn choose(color: Color) {
    let _chosen_once = ASKED.set(color);
}

/// From now on standard output has a command's data: documents go to standard error.
pub fn has_data() {
    DATA.store(true, Ordering::Relaxed);
}

/// Whether a document is on standard error, where nothing else may be then.
pub fn is_document_on_stderr() -> bool {
    is_json() && DATA.load(Ordering::Relaxed)
}

fn colours(terminal: bool) -> bool {
    let asked = ASKED.get().copied().unwrap_or_default();
    !is_json() && asked.holds(terminal, |name| std::env::var_os(name))
}

/// Whether standard output has colours.
pub fn has_colours() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| colours(std::io::stdout().is_terminal()))
}

/// The columns that a table on standard output may take: the terminal's, if it is wider than
/// [`COLUMNS`].
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(COLUMNS, |size| usize::from(size.ws_col).max(COLUMNS))
}

/// A text for standard output, with the words of a verdict painted if it has colours.
pub fn painted(text: &str) -> Cow<'_, str> {
    if has_colours() { paint(text) } else { Cow::Borrowed(text) }
}

/// The beginning of an error's line on standard error.
pub fn alarm(text: &str) -> Cow<'_, str> {
    if colours(std::io::stderr().is_terminal()) {
        Cow::Owned(format!("{RED}{text}{PLAIN}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn paint(text: &str) -> Cow<'_, str> {
    let mut painted = String::new();
    let (mut rest, mut before) = (text, ' ');
    while !rest.is_empty() {
        let verdict = VERDICTS.iter().find(|(word, _)| {
            let behind = rest.strip_prefix(word);
            behind.is_some_and(|behind| !behind.starts_with(char::is_alphanumeric))
        });
        let length = match verdict.filter(|_| !before.is_alphanumeric()) {
            Some((word, colour)) => {
                painted.extend([*colour, word, PLAIN]);
                word.len()
            }
            None => {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                painted.push_str(&rest[..length]);
                length
            }
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    if painted.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(painted) }
}

/// A text in lines of at most so many characters, unless a word is longer.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text in lines of at most [`COLUMNS`]; those after the first begin with `indent`.
pub fn paragraph(text: &str, indent: &str) -> String {
    let lead = text.len() - text.trim_start_matches(' ').len();
    let (lead, text) = text.split_at(lead);
    let most = COLUMNS - lead.len().max(indent.len());
    lead.to_owned() + &wrapped(text, most).join(&format!("\n{indent}"))
}

/// A text whose lines are each wrapped like a [`paragraph`], indented as they begin.
pub fn prose(text: &str) -> String {
    let line =
        |line: &str| paragraph(line, &line[..line.len() - line.trim_start_matches(' ').len()]);
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_verdict_are_painted_and_parts_of_words_are_not() {
        assert_eq!(
            paint("KEPT: x; NOT JUDGED"),
            "\x1b[32mKEPT\x1b[0m: x; \x1b[33mNOT JUDGED\x1b[0m"
        );
        assert_eq!(paint("0.3  MISSED"), "0.3  \x1b[31mMISSED\x1b[0m");
        for text in ["", "µ", "unMISSED", "KEPTED", "upholds", "kept"] {
            assert_eq!(paint(text), text);
        }
    }

    #[test]
    fn colours_follow_the_option_then_the_environment_then_the_terminal() {
        let with = |color: Color, terminal, no_color: &'static str, term: &'static str| {
            color.holds(terminal, |name| {
                let value = if name == "NO_COLOR" { no_color } else { term };
                (value != "unset").then(|| value.into())
            })
        };
        assert!(with(Color::Auto, true, "unset", "xterm"));
        assert!(with(Color::Auto, true, "", "xterm"), "no-color.org: an empty one does not count");
        assert!(!with(Color::Auto, false, "unset", "xterm"));
        assert!(!with(Color::Auto, true, "1", "xterm"));
        assert!(!with(Color::Auto, true, "unset", "dumb"));
        assert!(!with(Color::Auto, true, "unset", "unset"));
        assert!(with(Color::Always, false, "1", "dumb"));
        assert!(!with(Color::Never, true, "unset", "xterm"));
    }

    #[test]
    fn the_choice_is_known_before_the_command_line_is_understood() {
        let among =
            |text: &str| Color::among(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(among("disktime demo"), Color::Auto);
        assert_eq!(among("disktime --color always demo"), Color::Always);
        assert_eq!(among("disktime demo --color=always --color=never"), Color::Never);
        assert_eq!(among("disktime demo --color sometimes"), Color::Auto);
        assert_eq!(among("disktime cat -- --color=always"), Color::Auto);
    }

    #[test]
    fn lines_are_no_longer_than_asked() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("µµ µµ µµ", 5), ["µµ µµ", "µµ"]);
        assert_eq!(wrapped("", 7), Vec::<String>::new());
        let long = paragraph(&format!("  {}", "word ".repeat(40)), "    ");
        assert!(long.lines().all(|line| line.len() <= COLUMNS), "{long}");
        assert!(long.starts_with("  word") && long.contains("\n    word"), "{long}");
        assert_eq!(prose("a\n\n  b"), "a\n\n  b");
    }
}
