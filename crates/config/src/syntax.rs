//! A text that is no TOML, or has a value of another type, and where.

use std::fmt;
use std::ops::Range;

/// The most characters of a line that are shown, before and after the place.
const BEFORE_MAX: usize = 60;
const AFTER_MAX: usize = 40;
/// The most characters of a reason that are shown at its beginning and at its end, where the values
/// that are allowed stand.
const BEGIN_MAX: usize = 200;
const END_MAX: usize = 800;

/// Why a text can't be read as TOML into a table of known keys, and where: as the TOML parser says it,
/// without more of a long line than a person reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError(String);

impl SyntaxError {
    /// The error that a parser found in a text, in these bytes of it if it knows them.
    #[must_use]
    pub fn new(text: &str, span: Option<Range<usize>>, reason: &str) -> Self {
        let place = span.and_then(|span| place(text, &span)).unwrap_or_default();
        let remedy = remedy(reason).unwrap_or_default();
        Self(format!("{place}{}{remedy}\n", shortened(reason)))
    }
}

/// The end of a sentence that says why a value of TOML or JSON is not taken: how it is written, if it is a number
/// that lacks its unit.
#[must_use]
pub fn remedy(reason: &str) -> Option<&'static str> {
    let number = ["invalid type: integer", "invalid type: floating point"];
    let number = number.iter().any(|it| reason.contains(it));
    (number && reason.contains("expected a string")).then_some(
        ": write it in quotes with its unit, like \"30%\", \"10GiB\", \"8MB/s\" or \"10ms\"",
    )
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SyntaxError {}

/// The line of a place, with a mark below.
fn place(text: &str, span: &Range<usize>) -> Option<String> {
    let (before, behind) = text.split_at_checked(span.start)?;
    let number = before.matches('\n').count() + 1;
    let begin = before.rsplit('\n').next().unwrap_or_default();
    let end = behind.split('\n').next().unwrap_or_default().trim_end_matches('\r');
    let column = begin.chars().count();
    let left_out = column.saturating_sub(BEFORE_MAX);
    let (mut shown, mut at) = (String::new(), column - left_out);
    if left_out > 0 {
        shown.push('…');
        at += 1;
    }
    shown.extend(begin.chars().skip(left_out));
    shown.extend(end.chars().take(AFTER_MAX));
    if end.chars().nth(AFTER_MAX).is_some() {
        shown.push('…');
    }
    let marked = text.get(span.clone()).unwrap_or_default().split('\n').next().unwrap_or_default();
    let mark = "^".repeat(marked.chars().count().clamp(1, AFTER_MAX));
    let edge = " ".repeat(number.to_string().len());
    Some(format!(
        "TOML parse error at line {number}, column {}\n{edge} |\n{number} | {shown}\n{edge} | {}{mark}\n",
        column + 1,
        " ".repeat(at)
    ))
}

/// A reason, of which the middle is left out if it repeats a long value.
fn shortened(reason: &str) -> String {
    let count = reason.chars().count();
    if count <= BEGIN_MAX + END_MAX {
        return reason.to_owned();
    }
    let begin: String = reason.chars().take(BEGIN_MAX).collect();
    let end: String = reason.chars().skip(count - END_MAX).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        #[serde(rename = "reserve")]
        _reserve: Option<String>,
    }

    fn said(text: &str) -> String {
        let error = toml::from_str::<Table>(text).expect_err("no such table");
        SyntaxError::new(text, error.span(), error.message()).to_string()
    }

    #[test]
    fn an_error_says_what_the_parser_says() {
        for text in ["a = 1", "\n\nreserve = [\n", "# ü\nreserve = u", "reserve = true\n", "x", ""]
        {
            let Err(error) = toml::from_str::<Table>(text) else { continue };
            assert_eq!(said(text), error.to_string(), "{text}");
        }
    }

    /// `reserve = 70` was refused without a word of the percent sign and the quotes.
    #[test]
    fn a_number_without_a_unit_is_told_how_it_is_written() {
        for number in ["70", "0.7"] {
            let said = said(&format!("\nreserve = {number}\n"));
            assert!(said.contains("line 2, column 11") && said.contains("`, expected a string"));
            assert!(said.ends_with(": write it in quotes with its unit, like \"30%\", \"10GiB\", \"8MB/s\" or \"10ms\"\n"));
        }
    }

    /// Ten kilobytes of a line were ten of the error, twice.
    #[test]
    fn a_long_line_is_shown_around_its_place() {
        let long = "ü,".repeat(5000);
        for text in [
            format!("reserve = \"\"\na = \"{long}\"\n"),
            format!("reserve = [\"{long}\", x\n"),
            format!("x = [\"{long}\"]\n"),
            format!("{long} = 1"),
            format!("\"{long}\" = 1"),
        ] {
            let said = said(&text);
            assert!(said.chars().count() < 1600, "{} characters", said.chars().count());
            assert!(said.contains('…') && said.starts_with("TOML parse error at line "), "{said}");
        }
    }
}
